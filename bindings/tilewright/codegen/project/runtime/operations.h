/* Operations between layers, and how sums become stored values. */
#ifndef OPERATIONS_H
#define OPERATIONS_H

#include <stdint.h>

#include "machine.h" /* bits of elements, MOST_INPUTS */
#include "numbers.h"

/* How sums become stored values. */
typedef struct {
    int relu;
    int shift;   /* sums are divided by 2^shift, rounded, halves away from zero; multiplied if it is negative */
    int divisor; /* and by this, in the same rounding */
    int bits;    /* of the stored values, which saturate */
} scale_t;

static inline int64_t scaled(int64_t value, const scale_t *scale)
{
    return rescaled(scale->relu ? MAX(value, 0) : value, scale->shift, scale->divisor, scale->bits);
}

static inline int length(range_t range)
{
    return range.end - range.begin;
}

typedef enum { MAX_POOL, AVERAGE_POOL, ADD, COPY } function_t;

/* An operation between layers; a pool has a window, the others see a value of each input at a time. */
typedef struct {
    function_t function;
    int images, maps, rows, columns; /* of the output */
    int step[3];                     /* maps, rows, columns of a tile */
    int input_count;
    int aligned[MOST_INPUTS]; /* inputs are multiplied by 2^aligned, so that they have the same scale */
    int plane[2];             /* rows and columns of the inputs */
    int whole;                /* inputs are read whole, whatever lies under the window */
    int kernel[2], stride[2], before[2];
    int work; /* operations for each value of the output, where cores count them */
    scale_t scale;
} operation_t;

/* Compute an operation tile by tile, or, on the host, from and to external memory. All is of OUTPUT_BITS. */
void run_operation(const operation_t *operation, const unsigned char *const inputs[], unsigned char *output);
void run_on_host(const operation_t *operation, const unsigned char *const inputs[], unsigned char *output);

/* A tensor that becomes some maps of an input, brought to its scale. */
typedef struct {
    const unsigned char *values; /* [images][maps][rows][columns] */
    int bits;                    /* of each, as it is stored */
    int maps;
    scale_t scale;
} source_t;

/* Write the input of a layer to external memory: its sources one after the other, zeros around each map, with
   elements of some bits. Lines that are left out count as a border below 0. */
void gather(const source_t *sources, int count, int images, const int plane[2], const int border[4],
            unsigned char *to, int bits);

#endif
