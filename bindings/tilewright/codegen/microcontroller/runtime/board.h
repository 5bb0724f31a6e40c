/* What the program needs of the board that it runs on. */
#ifndef BOARD_H
#define BOARD_H

#include <stdint.h>

/* What an instruction counter shows; 0 where the board has none. */
uint64_t board_instructions(void);

void board_print(const char *text);

void board_exit(int status) __attribute__((noreturn));

#endif
