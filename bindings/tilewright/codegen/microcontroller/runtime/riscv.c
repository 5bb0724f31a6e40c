/*
 * The board "virt" of QEMU with a core RV32IM: a serial line, a device that ends QEMU, an instruction counter.
 * With RTL defined: that of rtl.v and rtl.cpp, which has the same at the same places, and cycles.
 */
#include "board.h"

#define SERIAL (*(volatile uint8_t *)0x10000000)
#define FINISH (*(volatile uint32_t *)0x100000)
#define WATCH (*(volatile uint32_t *)0x100004) /* not on QEMU's board */

int main(void);

__asm__(".section .start, \"ax\"\n"
        ".globl _start\n"
        "_start:\n"
        "    la sp, stack_end\n"
        "    la t0, others_begin\n"
        "    la t1, others_end\n"
        "1:  bgeu t0, t1, 2f\n"
        "    sw zero, 0(t0)\n"
        "    addi t0, t0, 4\n"
        "    j 1b\n"
        "2:  call main\n"
        "3:  j 3b\n");

#define COUNTER(low, high)                                                                                      \
    do {                                                                                                       \
        uint32_t below, above, again;                                                                          \
        do                                                                                                     \
            __asm__ volatile(high " %0\n " low " %1\n " high " %2" : "=r"(above), "=r"(below), "=r"(again));    \
        while (above != again);                                                                                \
        return (uint64_t)above << 32 | below;                                                                  \
    } while (0)

uint64_t board_instructions(void)
{
    COUNTER("rdinstret", "rdinstreth");
}

uint64_t board_cycles(void)
{
#ifdef RTL
    COUNTER("rdcycle", "rdcycleh");
#else
    return 0; /* QEMU has no cycles of its own */
#endif
}

void board_watch(int begins)
{
#ifdef RTL
    WATCH = (uint32_t)begins;
#else
    (void)begins;
#endif
}

void board_print(const char *text)
{
    while (*text)
        SERIAL = (uint8_t)*text++;
}

void board_exit(int status)
{
    FINISH = status ? (uint32_t)status << 16 | 0x3333 : 0x5555;
    for (;;)
        ;
}
