/* The computer on which this is compiled. */
#include "board.h"

#include <stdio.h>
#include <stdlib.h>

uint64_t board_instructions(void)
{
    return 0;
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
    fputs(text, stdout);
}

void board_exit(int status)
{
    exit(status);
}
