/* The board "virt" of QEMU with a core RV32IM: a serial line, a device that ends QEMU, an instruction counter. */
#include "board.h"

#define SERIAL (*(volatile uint8_t *)0x10000000)
#define FINISH (*(volatile uint32_t *)0x100000)

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

uint64_t board_instructions(void)
{
    uint32_t low, high, again;
    do
        __asm__ volatile(".option push\n.option arch, +zicsr\n"
                         "csrr %0, minstreth\n csrr %1, minstret\n csrr %2, minstreth\n.option pop"
                         : "=r"(high), "=r"(low), "=r"(again));
    while (high != again);
    return (uint64_t)high << 32 | low;
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
