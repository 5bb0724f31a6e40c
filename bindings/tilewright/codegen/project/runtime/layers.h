/* Layers and operations, tile by tile through the memory on chip. */
#ifndef LAYERS_H
#define LAYERS_H

#include <stdint.h>

#include "machine.h" /* bits of elements, COPIES, MEMORY_BYTES */

/* How sums become stored values. */
typedef struct {
    int relu;
    int shift;   /* sums are divided by 2^shift, rounded, halves away from zero; multiplied if it is negative */
    int divisor; /* and by this, in the same rounding */
    int bits;    /* of the stored values, which saturate */
} scale_t;

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
   elements of some bits. */
void gather(const source_t *sources, int count, int images, const int plane[2], const int border[4],
            unsigned char *to, int bits);

#endif
