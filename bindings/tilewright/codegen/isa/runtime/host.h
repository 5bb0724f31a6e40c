/* What the processor beside the accelerator computes. */
#ifndef HOST_H
#define HOST_H

#include <stdint.h>

enum { HOST_CONNECTED, HOST_RESHAPE, HOST_LEFT_OUT, HOST_RELAYOUT };

/* A map in DDR: its first byte, and the bytes from a pixel, row, image and channel to the next one. */
typedef struct {
    uint64_t address, pixel, line, image, channel;
    uint32_t channels, rows, columns;
} host_map_t;

/* An entry of the table: as in docs/isa.md. `maps` are those that are read, then the one that is written. */
typedef struct {
    int what, parts, relu, shift, bits, read_shift, read_bits, bias, bias_shift, bias_last, sum_bits;
    uint64_t address;
    const host_map_t *maps;
} host_entry_t;

/* Compute an entry of the table in the memory that is shared; return 0, or -1 if there is no such entry. */
int host_call(uint8_t *ddr, uint32_t number);

#endif
