/* The part of a program that the processor beside the accelerator computes: what no engine does.
 *
 * A driver calls host_call when the accelerator stops at an instruction HOST, with the memory that both share
 * and the number in the instruction. All engines wait meanwhile. The table in host_table.h is the program's.
 */
#include <string.h>

#include "host.h"
#include "host_table.h"

/* Values are copied, as addresses of elements may be odd. */
static int64_t load(const uint8_t *from)
{
    element_t value;
    memcpy(&value, from, sizeof value);
    return value;
}

static void store(uint8_t *to, int64_t value)
{
    element_t stored = (element_t)value;
    memcpy(to, &stored, sizeof stored);
}

static int64_t saturated(int64_t value, int bits)
{
    int64_t most = ((int64_t)1 << (bits - 1)) - 1;
    return value > most ? most : value < -most - 1 ? -most - 1 : value;
}

/* Divided by two to the power of a shift, rounded once, halves away from zero, and saturated. */
static int64_t divided(int64_t value, int shift, int bits)
{
    if (shift < 0)
        value = saturated(value, bits + 1) * ((int64_t)1 << -shift);
    else if (shift > 0) {
        int64_t half = (int64_t)1 << (shift - 1);
        value = value < 0 ? -((half - value) >> shift) : (half + value) >> shift;
    }
    return saturated(value, bits);
}

static int64_t wrapped(uint64_t sum, int bits)
{
    uint64_t half = (uint64_t)1 << (bits - 1), kept = sum & ((half << 1) - 1);
    return kept < half ? (int64_t)kept : (int64_t)(kept - half) - (int64_t)half;
}

/* Byte of DDR at which a value of a map lies; values are counted pixel by pixel, or channel by channel. */
static uint64_t place(const host_map_t *map, uint32_t image, uint64_t number, int by_pixel)
{
    uint64_t plane = (uint64_t)map->rows * map->columns;
    uint64_t channel = by_pixel ? number % map->channels : number / plane;
    uint64_t pixel = by_pixel ? number / map->channels : number % plane;
    return map->address + (uint64_t)image * map->image + pixel / map->columns * map->line
           + pixel % map->columns * map->pixel + channel * map->channel;
}

static uint64_t values_of(const host_map_t *map)
{
    return (uint64_t)map->channels * map->rows * map->columns;
}

static int64_t as_read(const host_entry_t *entry, const uint8_t *from)
{
    int64_t value = load(from);
    return entry->read_bits ? divided(value, entry->read_shift, entry->read_bits) : value;
}

static int64_t result(const host_entry_t *entry, int64_t value)
{
    if (entry->relu && value < 0)
        value = 0;
    return divided(value, entry->shift, entry->bits);
}

static void connected(uint8_t *ddr, const host_entry_t *entry, uint32_t image)
{
    const host_map_t *write = entry->maps + entry->parts;
    const uint8_t *numbers = ddr + entry->address;
    for (uint32_t kernel = 0; kernel < write->channels; kernel++) {
        uint64_t sum = 0;
        int64_t bias = 0;
        if (entry->bias) {
            bias = load(numbers) * ((int64_t)1 << entry->bias_shift);
            numbers += sizeof(element_t);
        }
        for (int part = 0; part < entry->parts; part++) {
            const host_map_t *map = entry->maps + part;
            for (uint64_t number = 0; number < values_of(map); number++) {
                int64_t value = as_read(entry, ddr + place(map, image, number, 1));
                sum += (uint64_t)value * (uint64_t)load(numbers);
                numbers += sizeof(element_t);
            }
        }
        if (!entry->bias_last)
            sum += (uint64_t)bias;
        int64_t total = wrapped(sum, entry->sum_bits) + (entry->bias_last ? bias : 0);
        store(ddr + place(write, image, kernel, 1), result(entry, total));
    }
}

static void reshaped(uint8_t *ddr, const host_entry_t *entry, uint32_t image)
{
    const host_map_t *write = entry->maps + entry->parts;
    uint64_t at = 0;
    for (int part = 0; part < entry->parts; part++)
        for (uint64_t number = 0; number < values_of(entry->maps + part); number++, at++) {
            int64_t value = as_read(entry, ddr + place(entry->maps + part, image, number, 0));
            store(ddr + place(write, image, at, 0), result(entry, value));
        }
}

int host_call(uint8_t *ddr, uint32_t number)
{
    if (number >= HOST_ENTRIES)
        return -1;
    const host_entry_t *entry = host_entries + number;
    for (uint32_t image = 0; image < HOST_IMAGES; image++) {
        if (entry->what == HOST_CONNECTED)
            connected(ddr, entry, image);
        else if (entry->what != HOST_LEFT_OUT)
            reshaped(ddr, entry, image);
    }
    return 0;
}
