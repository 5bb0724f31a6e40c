/*
 * An accelerator with the engines LOAD, SAVE, CONV, POOL and MISC, three buffers on chip, and instructions
 * for whole tiles, as a program for a PC.
 */
#ifndef ENGINE_H
#define ENGINE_H

#include <stdint.h>

#include "machine.h" /* element_t, IMAGES, and the elements of the buffers */
#include "numbers.h"

/* What instructions do; each kind runs on one engine. */
typedef enum { LOAD, FETCH, SAVE, CONV, MAX_POOL, AVERAGE_POOL, ADD, MULTIPLY, COPY, KINDS } kind_t;

/* A part of a map that lies in external memory, side by side with the others. */
typedef struct {
    element_t *values; /* [IMAGES][channels][rows][columns] */
    int channels;
} tensor_t;

/*
 * A map: its shape, where it lies on chip and outside. A value of channel c, row y, column x of an image lies
 * at channel (c + first) % held_channels, row (y + shift) % held_rows, column x % held_columns; the
 * instruction says the shift, so that tiles that are on chip together have rows of their own.
 */
typedef struct {
    int channels, rows, columns;
    element_t *area; /* on chip: [IMAGES][held_channels][held_rows][held_columns] */
    int first, held_channels, held_rows, held_columns;
    const tensor_t *tensors; /* in external memory; none for a map that never leaves the chip */
    int tensor_count;
} map_t;

/* How values are read: divided by 2^shift, rounded, saturated at some bits; as they are stored for 0 bits. */
typedef struct {
    int shift, bits;
} read_t;

/* A map that an operation reads, the channel of its input at which it begins, and how each of its tensors is read. */
typedef struct {
    const map_t *map;
    int first;
    const read_t *reads;
} part_t;

/* What computes a map. */
typedef struct {
    const part_t *parts;
    int part_count;
    int input_channels, kernels, groups;
    int kernel[2], stride[2], padding[2], dilation[2]; /* rows, columns; padding above and to the left */
    const element_t *parameters; /* in external memory: [kernels][bias, then channels x rows x columns] */
    int has_bias, bias_shift;    /* a bias is multiplied by 2^bias_shift */
    int sum_bits;                /* of the accumulator, in which sums wrap around */
    int bias_within;             /* whether a bias is added in the accumulator, or outside */
    int relu;
    int shift, divisor, bits; /* results are divided by 2^shift and a divisor, rounded once, and saturate at so many bits */
} operation_t;

typedef struct {
    kind_t kind;
    int map;                         /* that is loaded, saved or computed, or whose parameters are fetched */
    range_t channels, rows, columns; /* of the map */
    range_t summed;                  /* input channels of a group that a convolution adds up */
    int shift;                       /* of the map */
    int shifts;                      /* of the parts that are read: the first of them in group_t.shifts */
    int parameters;                  /* first element in the parameter buffer */
} instruction_t;

/*
 * Operations that run together. The host computes an operation by itself, with one instruction whose maps are
 * those in external memory.
 */
typedef struct {
    const char *name;
    int on_host;
    const map_t *maps;
    const operation_t *operations; /* by number of the map that they compute */
    const instruction_t *instructions;
    int instruction_count;
    const int *shifts; /* of the parts that instructions read */
} group_t;

/* What has been done so far. */
typedef struct {
    long long instructions[KINDS];
    long long loaded_bytes, saved_bytes;
} counts_t;

extern counts_t counts;

extern element_t input_buffer[SOME(INPUT_BUFFER)];
extern element_t output_buffer[SOME(OUTPUT_BUFFER)];
extern element_t parameter_buffer[SOME(PARAMETER_BUFFER)];

/* Execute the instructions of a group, in the order in which they begin. */
void run_group(const group_t *group);

#endif
