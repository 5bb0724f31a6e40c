#include "engine.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The memory on chip: as much as the plan takes of it. */
ON_CHIP static element_t memory[MEMORIES][MEMORY_ELEMENTS];

element_t dram_input[INPUT_ELEMENTS], dram_kernels[KERNEL_ELEMENTS], dram_output[OUTPUT_ELEMENTS];
long long moved[KINDS];
long most_held;

/* Where elements lie that are on chip: address + 1, or 0. On a chip, this is in the addresses of its program. */
typedef enum { INPUT, KERNELS, OUTPUT, TENSORS } tensor_t;

static int places[MEMORIES][INPUT_ELEMENTS + KERNEL_ELEMENTS + OUTPUT_ELEMENTS];
static unsigned char taken[MEMORIES][MEMORY_ELEMENTS];
static long held[MEMORIES];
static int step_number;

static const char *const names[TENSORS] = {"input", "kernels", "output"};

static void fail(tensor_t tensor, int element, const char *what)
{
    fprintf(stderr, "step %d: element %d of %s %s\n", step_number, element, names[tensor], what);
    exit(1);
}

static int *place_of(int where, tensor_t tensor, int element)
{
    static const int firsts[TENSORS] = {0, INPUT_ELEMENTS, INPUT_ELEMENTS + KERNEL_ELEMENTS};
    static const int sizes[TENSORS] = {INPUT_ELEMENTS, KERNEL_ELEMENTS, OUTPUT_ELEMENTS};
    if (element < 0 || element >= sizes[tensor])
        fail(tensor, element, "does not exist");
    return &places[where][firsts[tensor] + element];
}

/* An element on chip. */
static element_t *element_of(int where, tensor_t tensor, int element)
{
    const int place = *place_of(where, tensor, element);
    if (!place)
        fail(tensor, element, "is not on chip");
    return &memory[where][place - 1];
}

static void arrive(int where, tensor_t tensor, int element, int address, element_t value)
{
    int *place = place_of(where, tensor, element);
    if (*place)
        fail(tensor, element, "is on chip already");
    if (address < 0 || address >= MEMORY_ELEMENTS || taken[where][address])
        fail(tensor, element, "has no place");
    taken[where][address] = 1;
    *place = address + 1;
    memory[where][address] = value;
    if (++held[where] > most_held)
        most_held = held[where];
}

/* Return what an element was; then its place is free, and holds something else. */
static element_t leave(int where, tensor_t tensor, int element)
{
    element_t *at = element_of(where, tensor, element);
    const element_t value = *at;
    *at = (element_t)0xa5a5a5a5;
    taken[where][at - memory[where]] = 0;
    *place_of(where, tensor, element) = 0;
    held[where]--;
    return value;
}

static void act(const action_t *a)
{
    moved[a->kind] += a->count;
    for (int i = 0; i < a->count; i++) {
        const int element = a->first + i, address = a->address + i;
        switch (a->kind) {
        case FREE_INPUT:
            leave(a->memory, INPUT, element);
            break;
        case FREE_KERNELS:
            leave(a->memory, KERNELS, element);
            break;
        case WRITE:
            dram_output[element] = leave(a->memory, OUTPUT, element);
            break;
        case LOAD_INPUT:
            arrive(a->memory, INPUT, element, address, dram_input[element]);
            break;
        case LOAD_KERNELS:
            arrive(a->memory, KERNELS, element, address, dram_kernels[element]);
            break;
        case LOAD_SUMS:
            arrive(a->memory, OUTPUT, element, address, dram_output[element]);
            break;
        case BEGIN:
            arrive(a->memory, OUTPUT, element, address, 0);
            break;
        }
    }
}

/* The products of a kernel with a patch of an image, over a channel. */
static uint32_t channel_sum(int where, int image, int patch, int kernel, int channel)
{
    enum { WINDOW = KERNEL_ROWS * KERNEL_COLUMNS, TAPS = MATRIX ? 1 : WINDOW };
    const int top = patch / COLUMNS * STRIDE_ROWS, left = patch % COLUMNS * STRIDE_COLUMNS;
    const int map = kernel / (KERNELS_OF_ALL / GROUPS) * CHANNELS + channel; /* of the input */
    uint32_t sum = 0;
    for (int tap = 0; tap < TAPS; tap++) {
        const int at = MATRIX ? channel % WINDOW : tap; /* in the window */
        const int row = top + at / KERNEL_COLUMNS * DILATION_ROWS;
        const int column = left + at % KERNEL_COLUMNS * DILATION_COLUMNS;
        if (GENERATED && (row < TOP || row >= TOP + HEIGHT || column < LEFT || column >= LEFT + WIDTH))
            continue; /* zeros that are made on chip */
        const int pixel = MATRIX ? patch : row * PLANE_COLUMNS + column;
        const element_t *value =
            element_of(where, INPUT, pixel * PIXEL_STEP + map * CHANNEL_STEP + image * IMAGE_STEP);
        const element_t *weight = element_of(where, KERNELS, (kernel * CHANNELS + channel) * TAPS + tap);
        sum += (uint32_t)*value * (uint32_t)*weight;
    }
    return sum;
}

static void add_products(const block_t *b, int patch, int kernel)
{
    for (int image = 0; image < IMAGES; image++) {
        const int number = patch * OUTPUT_PATCH_STEP + kernel * OUTPUT_KERNEL_STEP + image * OUTPUT_IMAGE_STEP;
        element_t *sum = element_of(b->memory, OUTPUT, number);
        for (int c = 0; c < b->channels.count; c++)
            for (int channel = b->channels.range[c].begin; channel < b->channels.range[c].end; channel++)
                *sum = (element_t)((uint32_t)*sum + channel_sum(b->memory, image, patch, kernel, channel));
    }
}

static void compute(const block_t *b)
{
    for (int p = 0; p < b->patches.count; p++)
        for (int patch = b->patches.range[p].begin; patch < b->patches.range[p].end; patch++)
            for (int k = 0; k < b->kernels.count; k++)
                for (int kernel = b->kernels.range[k].begin; kernel < b->kernels.range[k].end; kernel++)
                    add_products(b, patch, kernel);
}

void run_step(const step_t *step, const action_t *actions, const block_t *blocks)
{
    step_number++;
    for (int i = step[0].action; i < step[1].action; i++)
        act(&actions[i]);
    for (int i = step[0].block; i < step[1].block; i++)
        compute(&blocks[i]);
}
