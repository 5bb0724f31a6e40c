/*
 * Steps of a plan, executed pass by pass in memory on chip. Whole maps, line buffers, blocks and weights lie
 * at the addresses that the plan gives them, which count elements.
 */
#ifndef ENGINE_H
#define ENGINE_H

#include <stdint.h>

#include "machine.h" /* ELEMENT_BITS, value_t, sum_t, MEMORIES, CHIP */
#include "numbers.h"

/* In DRAM: [rows][columns][channels]. */
typedef struct {
    unsigned char *dram; /* none of what never leaves the chip */
    int channels, rows, columns;
} tensor_t;

/*
 * A tensor in a step, and where it lies on chip: pixel p, row by row, channel c at
 *   address + ((p % pixels) * channels + c - first) * apart,
 * where a buffer for blocks of channels begins with channel `first` of the block; else it is 0. Pixels are
 * counted over the whole tensor if it is whole on chip, else over what a strip or tile has of it.
 */
typedef struct {
    const tensor_t *tensor;
    long address;
    int pixels;   /* of the whole tensor, of a line buffer, or of a pass */
    int channels; /* all, or those of a block */
    int apart;    /* elements from a value to the next: more than 1 where sums were before */
    int whole;    /* whether all of it is on chip */
    int twice;    /* whether there is a second buffer behind it, for every other pass */
    int block;    /* whether it holds a block of channels */
    int fetched;  /* channels that are loaded before the first pass, from this one on: */
    int from;
    int streamed; /* loaded pass by pass */
    int written;  /* saved as it is computed */
    int terms;    /* of each group, if the buffer has some terms, or keys, that pass by; else 0 */
    int room;     /* and how many of each group it has */
    int begin;    /* the channel with which a line buffer begins, if nobody reads those before */
    int in_sums;  /* whether it lies in partial sums: see operation_t.sums */
} map_t;

/* A block of the second matrices of a product: of each some columns, and of these some terms. */
typedef struct {
    range_t matrices, columns, terms;
} block_t;

/*
 * A part of an operand: some channels of a map, whose first row and column lie at `row` and `column` of the operand.
 * Each channel, row and column stands there as often as `copies` says, one copy after the other.
 */
typedef struct {
    int map;             /* of the step */
    int first;           /* of the operation's input: the channel at which the operand begins; the value, if values are in a row */
    int whole;           /* whether each output needs all of it */
    int shift;           /* values are divided by 2^shift as they are read, rounded, */
    int bits;            /* and saturate at so many bits; 0 if they are read as they are stored */
    int begin, channels; /* of the map */
    int row, column, rows, columns; /* of the operand */
    int copies[3];                  /* of a channel, row, column */
    int height, width; /* of the shape in which all of the map is read, if it is another one: values stand in the same order; else 0 */
    int stride[2], before[2], extent[2]; /* output row y needs `extent` rows from y * stride - before on, and columns likewise */
    block_t blocks; /* of a second operand of which blocks are loaded in each pass: what it has of the matrices; else nothing */
} part_t;

/* What an operation reads: parts, in one of which each row and column lies. */
typedef struct {
    const part_t *parts;
    int first; /* see part_t */
    int channels, rows, columns;
} operand_t;

/*
 * The last ones in floating point alone: products of two matrices; channels of a pixel, and functions of these; a
 * factor and summand of each channel; functions of several values; recurrent layers.
 */
typedef enum {
    CONV, MAX_POOL, AVERAGE_POOL, ADD, MULTIPLY, COPY,
    PRODUCT, PICK, AFFINE, SOFTMAX, LOG_SOFTMAX, NORMALISE, NORMALISE_ROOT,
    LSTM, GRU, RNN
} kind_t;

/* A pixel of what an operation reads, and what the channels that are computed of it have in common. */
typedef struct {
    const struct work *work;
    int y, x;
    value_t shared[SOME(MOST_SHARED)];
} pixel_t;

/* A channel of it, of all operands joined. */
value_t channel_of(const pixel_t *pixel, int channel);

/* What computes a map. */
typedef struct {
    kind_t kind;
    int map;
    const operand_t *operands;
    int operand_count;
    const part_t *parts; /* of all operands */
    int part_count;
    int in_a_row; /* whether it takes values in the order [parts][channels][rows][columns] */
    int input_channels, groups;
    int kernel[2], stride[2], padding[2], dilation[2]; /* rows, columns; padding above and to the left */
    int units;       /* output channels that can be computed apart; 1 if none can */
    int channelwise; /* whether an output channel needs no other input channel than its own */
    const unsigned char *weights; /* in DRAM: for each unit the bias, then [channels][rows][columns] */
    long weight_count;            /* of all units */
    long each;                    /* of a unit */
    long address;                 /* on chip, of all or of a block */
    int kept;                     /* whether all are there during the step */
    int stays;                    /* and have been before: they are loaded once for all images */
    int sum_bits;                 /* of the accumulator, in which sums wrap around */
    int has_bias, bias_shift;     /* a bias is multiplied by 2^bias_shift */
    int bias_within;              /* and added in the accumulator, or outside */
    int relu;
    int shift, divisor, bits; /* results are divided by 2^shift and a divisor, rounded once, and saturate at so many bits */
    int within;                      /* whether an average is one of the values that lie in the map, in floating point */
    value_t (*after)(value_t value); /* in floating point, what is computed of each result; NULL for nothing */
    int sizes[MOST_AXES], apart[MOST_AXES], axes; /* of a reshape that moves values: sizes of what it gives, the outermost
                                                     first, and how far values are apart in what it reads */
    int rows, columns, depth; /* of a product of groups: of each, and the products that are summed up */
    int transposed;           /* and whether the second operand is stored as [groups][columns][depth], or [groups][depth][columns] */
    const int *picks;         /* the channel that each channel is, of all operands joined; of `spread` pixels for each one read */
    int spread;
    void (*share)(pixel_t *pixel);                        /* or what is computed of channels, */
    value_t (*of_pixel)(const pixel_t *pixel, int channel); /* for each one */
    int together, inner;      /* of a function of several values: how many, and how far they are apart, channel by channel */
    int by_channel;           /* whether it computes channel by channel, and else pixel by pixel */
    int causal;               /* keys that the first row sees of a softmax, or of a context; each row sees one more; 0 for all */
    int in_blocks;            /* of a product: whether columns are computed block by block, */
    long operand;             /* where a block of the second operand is loaded, */
    int by_term;              /* and whether it has columns side by side, term by term, as DRAM has them; else column by column */
    int attention;            /* the attention that it is part of, if keys pass by in it, from 1 on; of others 0 */
    int terms;                /* of a product in tiles, or a context: how many terms, or keys, pass by at a time; else 0 */
    int in_tiles;             /* and whether it is computed for one second matrix, and some of its columns, at a time */
    long sums;                /* for each row, group and column a sum; of a context a maximum and a sum behind the columns */
    int has_summand;          /* whether factors of channels are followed by numbers that are added, or come behind these */
    value_t epsilon;          /* what a normalisation adds to the mean of squares */
    int steps, features, hidden, gates, directions; /* of a recurrent layer: points in time, values read at each, values
                                                       of a state, products for each of these, and states */
    int reads_time_last, gives_time_last; /* whether points in time are innermost, or outermost */
    int every;                            /* whether all states are given, or the last one */
    int backwards;                        /* whether the first direction goes through time backwards */
    int reset_after;                      /* of a GRU: see reset_candidates in engine.c */
    int has_biases;                       /* between the weights of what is read and those of the state, of each gate */
    long of_value;                        /* weights of a value of a state, of all gates */
    long state;                           /* on chip: a state, the cells of an LSTM, and what gates give */
} operation_t;

/*
 * The outer loop: over the pixels of the last map, perhaps in strips of columns; or of one operation over blocks of
 * its output channels. Of a convolution whose input channels are added up block by block, over tiles of its output,
 * or over blocks of its output channels.
 */
typedef enum { PIXELS, KERNELS, TILES, CHANNELS } order_t;

#define ALL INT32_MAX /* input channels, where there are no blocks of them */

/* Operations that are executed together. */
typedef struct {
    const char *name;
    order_t order;
    int pixels;  /* of the last map, that a pass computes, or of the plane that is added up to its pixel */
    int kernels; /* output channels of which weights are on chip at a time, if they are not kept */
    int columns; /* of a strip or tile; 0 if there are none */
    int channels, depth; /* input channels that are added up at a time, and how many there are */
    long sums;           /* address of the sums of a block, until it is complete, and of running values */
    int running;         /* bits of a running value, if the last operation adds up its map's pixels in passes */
    int doubled;         /* whether the next pass is loaded, and the one before is saved, around each pass */
    const map_t *maps;
    int map_count;
    const range_t *rows, *columns_of; /* [part][map]: what strips and tiles have of each map */
    int row_parts, column_parts;
    const operation_t *operations; /* the last one computes the last map */
    int operation_count;
} step_t;

/* Weights that are loaded before the first image, for all of them. */
typedef struct {
    const unsigned char *weights; /* in DRAM */
    long address, count;
} staying_t;

/* All memory on chip, and where an element of it is. */
#define DECLARED(name, bytes) extern unsigned char name[bytes];
MEMORIES(DECLARED)

static inline unsigned char *chip(long at)
{
    return CHIP(at);
}

void load_staying(const staying_t *staying, int count);

void run_step(const step_t *step);

#endif
