/* The steps of a layer: what is freed, written back, loaded and computed, element by element. */
#ifndef ENGINE_H
#define ENGINE_H

#include "layer.h"

/* What happens to elements of a tensor that have consecutive numbers; those that come lie at consecutive
   addresses. Outputs begin as zeros where they are added to for the first time. */
typedef enum { FREE_INPUT, FREE_KERNELS, WRITE, LOAD_INPUT, LOAD_KERNELS, LOAD_SUMS, BEGIN, KINDS } kind_t;

typedef struct {
    unsigned char kind, memory;
    int first, count, address; /* no address for what leaves: it lies where it came to */
} action_t;

/* Half-open: the first, and the one after the last. */
typedef struct {
    int begin, end;
} range_t;

/* All products of some patches, kernels and channels; each is given by ranges. */
typedef struct {
    int memory;
    struct {
        int count;
        const range_t *range;
    } patches, kernels, channels;
} block_t;

/* A step ends before the first action and block of the next one. */
typedef struct {
    int action, block;
} step_t;

/* Tensors in DRAM, elements in the order of their numbers. */
extern element_t dram_input[INPUT_ELEMENTS], dram_kernels[KERNEL_ELEMENTS], dram_output[OUTPUT_ELEMENTS];

/* Elements of each kind that were moved, or of BEGIN: that began. */
extern long long moved[KINDS];

/* Most elements that a memory held at a time. */
extern long most_held;

/* Execute the actions of a step, then its blocks. */
void run_step(const step_t *step, const action_t *actions, const block_t *blocks);

#endif
