/* Layers, tile by tile through the memory on chip. */
#ifndef LAYERS_H
#define LAYERS_H

#include <stdint.h>

#include "machine.h" /* bits of elements, COPIES, MEMORY_BYTES */
#include "operations.h"

/* The loops over the tiles of a layer: groups, images, and within a group output maps, rows, columns, input
   maps. */
typedef enum { G, N, C, Y, X, K, LOOPS } loop_t;

/* What stays on chip from a tile to the next: nothing; operands that the next tile needs again; also what
   input tiles beside each other share; also all weights of a group. */
typedef enum { KEEP_NOTHING, KEEP_TILES, KEEP_HALOS, KEEP_WEIGHTS } reuse_t;

typedef struct {
    int size[LOOPS];  /* iterations in all */
    int step[LOOPS];  /* iterations of a tile; those at the end may be smaller */
    int order[LOOPS]; /* the loops over tiles, the outermost first */
    reuse_t reuse;
    int kernel[2], stride[2], dilation[2];
    int plane[2];  /* rows and columns of the input in external memory */
    int before[2]; /* rows and columns of zeros before it that are not there */
    int accumulator_bits;
    scale_t scale;
} layer_t;

/*
 * Compute a layer. Tensors are in external memory, row by row, elements one after the other without gaps:
 *   input    [images][input maps][rows][columns], of INPUT_BITS
 *   weights  [output maps][input maps of a group][rows][columns], of WEIGHT_BITS
 *   partial  as output, of SUM_BITS: sums that are not complete
 *   output   [images][output maps][rows][columns], of OUTPUT_BITS
 * The biases, one for each output map, are in the scale of the sums, and are read where they are.
 */
void run_layer(const layer_t *layer, const unsigned char *input, const unsigned char *weights,
               const int32_t *biases, unsigned char *partial, unsigned char *output);

#endif
