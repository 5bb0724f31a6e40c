/* Layers on the cores of an NPU, step by step: transfers, then all cores compute at the same time. */
#ifndef LAYERS_H
#define LAYERS_H

#include <stdint.h>

#include "machine.h" /* bits of elements, TLES, TLTS, bytes of the memories of a core */
#include "operations.h"

/* What a TLE computes: rows of the output, and filters of each of its cores. */
typedef struct {
    range_t rows, filters[TLTS];
} share_t;

typedef struct {
    int images, groups;
    int filters, maps, rows, columns; /* of a group: filters, input maps, and rows and columns of the output */
    int depthwise;                    /* each filter has an input map of its own; there is one group then */
    int step[4];                      /* filters, input maps, rows and columns of a tile of a core */
    int tiles[4];                     /* of the core that has most */
    int weights_stay;                 /* weights of whole filters stay on chip while rows and columns change */
    int kernel[2], stride[2], dilation[2];
    int plane[2]; /* rows and columns of the input in external memory, with its border */
    int accumulator_bits;
    scale_t scale;
    int share_count;
    const share_t *shares; /* of each TLE that has one */
} layer_t;

/*
 * Compute a layer. Tensors are in external memory, row by row, elements one after the other without gaps:
 *   input    [images][input maps][rows][columns], of INPUT_BITS
 *   weights  [filters][input maps of a group][rows][columns], of WEIGHT_BITS
 *   output   [images][filters][rows][columns], of OUTPUT_BITS
 * The biases, one for each filter, are in the scale of the sums, and are read where they are.
 */
void run_layer(const layer_t *layer, const unsigned char *input, const unsigned char *weights,
               const int32_t *biases, unsigned char *output);

/* Cycles since they were cleared: in each step those of the slowest core. */
extern long core_cycles;

#endif
