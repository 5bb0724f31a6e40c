/* Arm's board MPS2 with a Cortex-M4 (AN386), as QEMU has it: semihosting, and SysTick as a counter. */
#include "board.h"

#define TICK_CONTROL (*(volatile uint32_t *)0xE000E010)
#define TICK_RELOAD (*(volatile uint32_t *)0xE000E014)
#define TICK_VALUE (*(volatile uint32_t *)0xE000E018)
#define TICKS 0xFFFFFF
#define INSTRUCTIONS_OF_A_TICK 40 /* a tick is 40 ns, and an instruction 1 ns with -icount shift=0 */

int main(void);
void start(void);

extern uint32_t stack_end[], others_begin[], others_end[];

__attribute__((section(".start"), used)) static void *const vectors[] = {stack_end, (void *)start};

static int call(int operation, const void *argument)
{
    register int r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

void start(void)
{
    for (uint32_t *word = others_begin; word < others_end; word++)
        *word = 0;
    TICK_RELOAD = TICKS;
    TICK_VALUE = 0;
    TICK_CONTROL = 5;
    main();
}

uint64_t board_instructions(void)
{
    return (uint64_t)(TICKS - TICK_VALUE) * INSTRUCTIONS_OF_A_TICK;
}

uint64_t board_cycles(void)
{
    return 0;
}

void board_watch(int begins)
{
    (void)begins;
}

void board_print(const char *text)
{
    call(0x04, text);
}

void board_exit(int status)
{
    const uint32_t block[2] = {0x20026, (uint32_t)status};
    call(0x20, block);
    for (;;)
        ;
}
