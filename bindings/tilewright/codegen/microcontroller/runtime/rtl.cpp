/*
 * Memories, a serial line and a device that ends the run, for the core of rtl.v, as Verilator simulates it.
 *
 *     board PROGRAM.bin SCRIPT.ld WAITS
 *
 * The regions are those of the linker script, byte for byte; the program is at the beginning of FLASH. Each
 * answers in the cycle in which the core asks, for data so many cycles later as a comment of the script says, and
 * FLASH WAITS cycles later, for instructions, too. Access to anything else ends the run, and so does a trap of the core.
 */
#include "Vboard.h"
#include "verilated.h"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

static const uint32_t SERIAL = 0x10000000, FINISH = 0x100000, WATCH = 0x100004;

/* What went over the bus: bytes that the core took or gave, and words that carried them. */
struct Traffic {
    uint64_t bytes = 0, words = 0;
};

struct Region {
    std::string name;
    uint32_t begin = 0;
    std::vector<uint8_t> content;
    bool writable = false;
    int fetch_waits = 0, read_waits = 0, write_waits = 0;
    Traffic fetched, read, written;

    bool holds(uint32_t address, uint32_t bytes) const
    {
        return address >= begin && (uint64_t)address + bytes <= (uint64_t)begin + content.size();
    }
};

[[noreturn]] static void fail(const char *what, uint32_t address)
{
    fflush(stdout);
    fprintf(stderr, "error: %s at 0x%08" PRIx32 "\n", what, address);
    exit(1);
}

/* Lines such as "ARENA (rw) : ORIGIN = 0x84000000, LENGTH = 4062". RAM begins with numbers that are not zero. */
static std::vector<Region> regions_of(const char *script)
{
    std::vector<Region> found;
    std::ifstream file(script);
    int read_waits = 0, write_waits = 0; /* of the region in the next line */
    for (std::string line; std::getline(file, line);) {
        char name[64], mode[8], origin[32], unit = 0;
        unsigned long length;
        const char *told = " /* %*s waits %d cycles to read, %d to write. */";
        if (sscanf(line.c_str(), told, &read_waits, &write_waits) == 2)
            continue;
        const char *form = " %63s (%7[a-z]) : ORIGIN = %31[0-9a-fx], LENGTH = %lu%c";
        const int fields = sscanf(line.c_str(), form, name, mode, origin, &length, &unit);
        if (fields < 4)
            continue;
        Region region;
        region.name = name;
        region.read_waits = read_waits;
        region.write_waits = write_waits;
        read_waits = write_waits = 0;
        region.begin = (uint32_t)strtoul(origin, nullptr, 0);
        region.content.assign(length * (unit == 'M' ? 1024 * 1024 : 1), 0xA5);
        region.writable = strchr(mode, 'w') != nullptr;
        found.push_back(region);
    }
    return found;
}

class Board {
  public:
    Board(const char *program, const char *script, int waits) : regions(regions_of(script))
    {
        std::ifstream file(program, std::ios::binary);
        const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
        Region *flash = named("FLASH");
        if (!flash || bytes.empty() || bytes.size() > flash->content.size()) {
            fprintf(stderr, "error: no region FLASH in %s, or no program in %s that fits\n", script, program);
            exit(1);
        }
        memcpy(flash->content.data(), bytes.data(), bytes.size());
        flash->fetch_waits = waits;
        flash->read_waits += waits;
    }

    int run()
    {
        core.ready = 0;
        for (int cycle = 0; cycle < 4; cycle++)
            clock(false);
        while (!finished) {
            clock(true);
            core.ready = 0;
            if (core.trap)
                fail("the core stopped: after access", core.address);
            if (core.valid && waited++ == waits())
                answer();
        }
        return status;
    }

    void print_traffic()
    {
        for (const Region &region : regions) {
            print(region.name, "fetched", region.fetched);
            print(region.name, "read", region.read);
            print(region.name, "written", region.written);
        }
    }

  private:
    Vboard core;
    std::vector<Region> regions;
    int waited = 0, status = 0;
    bool watched = false, finished = false;

    static void print(const std::string &name, const char *what, const Traffic &traffic)
    {
        if (traffic.words)
            printf("%s %s\t%" PRIu64 " bytes, in %" PRIu64 " words\n", name.c_str(), what, traffic.bytes,
                   traffic.words);
    }

    void clock(bool running)
    {
        core.resetn = running;
        core.clk = 0;
        core.eval();
        core.clk = 1;
        core.eval();
    }

    Region *named(const char *name)
    {
        for (Region &region : regions)
            if (region.name == name)
                return &region;
        return nullptr;
    }

    Region *region_of(uint32_t address, uint32_t bytes)
    {
        for (Region &region : regions)
            if (region.holds(address, bytes))
                return &region;
        return nullptr;
    }

    int waits()
    {
        const Region *region = region_of(core.address, 1);
        return !region ? 0 : core.fetch ? region->fetch_waits : core.write ? region->write_waits : region->read_waits;
    }

    void answer()
    {
        waited = 0;
        core.ready = 1;
        const uint32_t address = core.address | core.first_byte, bytes = core.bytes;
        Region *region = region_of(address, bytes);
        if (core.write)
            store(region, address, bytes);
        else if (region)
            load(*region, core.address, bytes);
        else
            fail(core.fetch ? "an instruction outside of all memories" : "a load outside of all memories", address);
    }

    void load(Region &region, uint32_t word, uint32_t bytes)
    {
        uint32_t found = 0;
        for (uint32_t lane = 0; lane < 4; lane++) /* the last word of a region may be a part of one */
            if (region.holds(word + lane, 1))
                found |= (uint32_t)region.content[word + lane - region.begin] << 8 * lane;
        core.read_data = found;
        count(core.fetch ? region.fetched : region.read, bytes);
    }

    void store(Region *region, uint32_t address, uint32_t bytes)
    {
        const uint32_t value = core.write_data >> 8 * core.first_byte;
        if (region && region->writable) {
            for (uint32_t lane = 0; lane < bytes; lane++)
                region->content[address + lane - region->begin] = (uint8_t)(value >> 8 * lane);
            count(region->written, bytes);
        } else if (address == SERIAL) {
            putchar((int)(value & 0xFF));
        } else if (address == WATCH) {
            watched = value;
        } else if (address == FINISH) {
            finished = true;
            status = value == 0x5555 ? 0 : 1;
        } else {
            fail("a store outside of what can be written", address);
        }
    }

    void count(Traffic &traffic, uint32_t bytes)
    {
        if (watched) {
            traffic.bytes += bytes;
            traffic.words++;
        }
    }
};

int main(int arguments, char **words)
{
    if (arguments != 4) {
        fprintf(stderr, "usage: %s PROGRAM.bin SCRIPT.ld WAITS\n", words[0]);
        return 2;
    }
    Board board(words[1], words[2], atoi(words[3]));
    const int status = board.run();
    board.print_traffic();
    return status;
}
