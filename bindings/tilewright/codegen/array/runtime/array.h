/* An array of PEs, cycle by cycle. */
#ifndef ARRAY_H
#define ARRAY_H

#include "program.h"

/* What is counted of a layer. */
typedef struct {
    const int64_t *form; /* the record `layer` */
    const record_t *order;
    char *name;
    int64_t start, *ends; /* of its first frame; of each */
    int64_t level, most;  /* words in its buffers: now, at most */
    int64_t pes, weights, computed; /* PEs with a program, words of their weights, slots that computed */
    int64_t hops; /* for each PE, those to the nearest PE of each layer that it reads */
} layer_t;

typedef struct {
    int layers, frames;
    layer_t *of;
    int64_t cycles, moved, channels; /* cycles until all is done; values times links; of a link, at most */
    int64_t words, bits;             /* VLIW words of all PEs; bits of such a word */
} result_t;

/* What is read and written: values of all images, outputs of all frames, biases and weights of all PEs. */
typedef struct {
    const int64_t *input, *parameters;
    int64_t *output;
    int64_t images, inputs, parameter_count, outputs; /* inputs: values of an image */
} memory_t;

/* Execute a program until all frames are done; ends where a rule is broken, or after so many cycles. */
result_t run_array(const code_t *code, const memory_t *memory, int64_t most_cycles);

#endif
