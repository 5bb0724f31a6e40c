/* Run the network on inputs whose outputs are known, and print what differs, what was moved, what it took. */
#include "board.h"
#include "network.h"
#include "vectors.h"

#ifndef RUNS
#define RUNS VECTORS /* how many of the inputs are taken */
#endif

#define OUTPUTS (NETWORK_OUTPUT_BYTES / (int)sizeof(network_output_t))

static network_output_t output[OUTPUTS];

static void print_number(uint64_t value)
{
    char digits[21], *place = digits + 20;
    *place = 0;
    do
        *--place = (char)('0' + value % 10);
    while (value /= 10);
    board_print(place);
}

static void print_row(const char *name, uint64_t value, const char *unit)
{
    board_print(name);
    board_print("\t");
    print_number(value);
    board_print(unit);
    board_print("\n");
}

static void print_counter(const char *name, const char *of_a_mac, uint64_t value)
{
    if (value) {
        print_row(name, value, "");
        print_row(of_a_mac, value * 100 / (NETWORK_MACS + !NETWORK_MACS), " hundredths");
    }
}

int main(void)
{
    uint64_t wrong = 0, instructions = UINT64_MAX, cycles = UINT64_MAX;
    for (int i = 0; i < RUNS; i++) {
        board_watch(1);
        const uint64_t first = board_instructions(), began = board_cycles();
        network_run(inputs[i], output);
        const uint64_t ended = board_cycles(), last = board_instructions();
        board_watch(0);
        instructions = last - first < instructions ? last - first : instructions;
        cycles = ended - began < cycles ? ended - began : cycles;
        for (int k = 0; k < OUTPUTS; k++)
            wrong += (output[k] != expected[i][k]) * sizeof(network_output_t);
    }
    print_row("arena", NETWORK_ARENA_BYTES, " bytes, as planned");
    int same = 1;
#ifdef COUNT_BYTES
    print_row("moved", (uint64_t)network_moved_bytes / RUNS, " bytes outside, for an input");
    print_row("planned", NETWORK_MOVED_BYTES, " bytes");
    same = network_moved_bytes == RUNS * NETWORK_MOVED_BYTES;
#endif
    print_counter("instructions", "of a MAC", instructions);
    print_counter("cycles", "cycles of a MAC", cycles);
    print_row("wrong", wrong, " bytes of outputs");
    board_exit(wrong || !same);
}
