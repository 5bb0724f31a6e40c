/* Run the network on inputs whose outputs are known, and print what differs, what was moved, what it took. */
#include "board.h"
#include "network.h"
#include "vectors.h"

static int8_t output[NETWORK_OUTPUT_BYTES];

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

int main(void)
{
    uint64_t wrong = 0, least = UINT64_MAX;
    for (int i = 0; i < VECTORS; i++) {
        const uint64_t before = board_instructions();
        network_run(inputs[i], output);
        const uint64_t taken = board_instructions() - before;
        least = taken < least ? taken : least;
        for (int k = 0; k < NETWORK_OUTPUT_BYTES; k++)
            wrong += output[k] != expected[i][k];
    }
    print_row("arena", NETWORK_ARENA_BYTES, " bytes, as planned");
    int same = 1;
#ifdef COUNT_BYTES
    print_row("moved", (uint64_t)network_moved_bytes / VECTORS, " bytes outside, for an input");
    print_row("planned", NETWORK_MOVED_BYTES, " bytes");
    same = network_moved_bytes == VECTORS * NETWORK_MOVED_BYTES;
#endif
    if (least) {
        print_row("instructions", least, "");
        print_row("of a MAC", least * 100 / (NETWORK_MACS + !NETWORK_MACS), " hundredths");
    }
    print_row("wrong", wrong, " bytes of outputs");
    board_exit(wrong || !same);
}
