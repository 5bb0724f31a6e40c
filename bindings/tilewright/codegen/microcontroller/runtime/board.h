/* What the program needs of the board that it runs on. */
#ifndef BOARD_H
#define BOARD_H

#include <stdint.h>

/* What an instruction counter shows; 0 where the board has none. */
uint64_t board_instructions(void);

/* The same for cycles of the clock. */
uint64_t board_cycles(void);

/* The network begins, or has ended: a board that counts what is on its bus does so in between. */
void board_watch(int begins);

void board_print(const char *text);

void board_exit(int status) __attribute__((noreturn));

#endif
