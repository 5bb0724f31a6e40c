#include "dma_shim.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As in the emitted files. */
typedef struct {
    size_t element;
    int dimensions;
    struct {
        size_t local, external;
    } stride[5];
} dma_strides;

void dma_get(void *local, const void *external, const dma_strides *strides, const int count[]);
void dma_put(void *external, const void *local, const dma_strides *strides, const int count[]);

enum { RUBBISH = 0x5A };

typedef struct {
    char *start;
    size_t bytes;
} span;

typedef struct {
    int64_t kind, first, elements; /* kind: the operand of a get, or OPERANDS for a put */
} entry;

static span tensors[TENSORS], buffers[OPERANDS];
static entry *entries;
static size_t used, room;
static int input_stays;

static void require(int condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "dma shim: transfer %zu: %s\n", used, what);
        exit(1);
    }
}

static void fill(span memory)
{
    memset(memory.start, RUBBISH, memory.bytes);
}

void shim_buffers(void *in, size_t in_bytes, void *w, size_t w_bytes, void *out, size_t out_bytes)
{
    span all[OPERANDS] = {{in, in_bytes}, {w, w_bytes}, {out, out_bytes}};
    for (int i = 0; i < OPERANDS; i++) {
        buffers[i] = all[i];
        fill(all[i]);
    }
}

/* Check that a box lies in an array, along each of its dimensions; return its first element. */
static size_t inside(span array, const char *address, const dma_strides *strides, const int count[],
                     int external)
{
    require(address >= array.start && address < array.start + array.bytes, "begins outside");
    size_t offset = (size_t)(address - array.start), around = array.bytes;
    size_t first = offset / strides->element;
    for (int d = 0; d < strides->dimensions; d++) {
        size_t stride = external ? strides->stride[d].external : strides->stride[d].local;
        require(stride > 0 && around % stride == 0, "strides do not nest");
        require(count[d] > 0, "is empty");
        require(offset / stride + (size_t)count[d] <= around / stride, "leaves an array");
        offset %= stride;
        around = stride;
    }
    require(around == strides->element && offset == 0, "elements are not contiguous");
    return first;
}

static void move(char *local, char *external, const dma_strides *strides, const int count[], int depth, int get)
{
    if (depth == strides->dimensions) {
        memcpy(get ? local : external, get ? external : local, strides->element);
        return;
    }
    for (int i = 0; i < count[depth]; i++)
        move(local + (size_t)i * strides->stride[depth].local,
             external + (size_t)i * strides->stride[depth].external, strides, count, depth + 1, get);
}

static void transfer(char *local, char *external, const dma_strides *strides, const int count[], int get)
{
    int tensor = 0;
    while (tensor < TENSORS && (external < tensors[tensor].start
                                || external >= tensors[tensor].start + tensors[tensor].bytes))
        tensor++;
    require(tensor < TENSORS, "is of no tensor");
    int operand = tensor == SUMS ? OUTPUT : tensor;
    require(get || operand == OUTPUT, "writes an operand");
    require(strides->dimensions >= 1 && strides->dimensions <= 5, "has too many dimensions");
    entry now = {get ? operand : OPERANDS, 0, 1};
    inside(buffers[operand], local, strides, count, 0);
    now.first = (int64_t)inside(tensors[tensor], external, strides, count, 1);
    for (int d = 0; d < strides->dimensions; d++)
        now.elements *= count[d];
    if (get && !(operand == INPUT && input_stays))
        fill(buffers[operand]);
    move(local, external, strides, count, 0, get);
    if (!get)
        fill(buffers[operand]);
    if (used == room) {
        room = 2 * room + 64;
        entries = realloc(entries, room * sizeof *entries);
        require(entries != NULL, "no memory for the log");
    }
    entries[used++] = now;
}

void dma_get(void *local, const void *external, const dma_strides *strides, const int count[])
{
    transfer(local, (char *)external, strides, count, 1);
}

void dma_put(void *external, const void *local, const dma_strides *strides, const int count[])
{
    transfer((char *)local, external, strides, count, 0);
}

void shim_run(void (*layer)(const void *, const void *, void *, void *), const size_t widths[TENSORS],
              const size_t elements[OPERANDS], int keeps_input)
{
    for (int i = 0; i < TENSORS; i++) {
        tensors[i].bytes = elements[i == SUMS ? OUTPUT : i] * widths[i];
        tensors[i].start = malloc(tensors[i].bytes);
        require(tensors[i].start != NULL, "no memory for the tensors");
        if (i < OUTPUT)
            require(fread(tensors[i].start, 1, tensors[i].bytes, stdin) == tensors[i].bytes, "no data");
    }
    fill(tensors[OUTPUT]);
    fill(tensors[SUMS]);
    used = 0;
    input_stays = keeps_input;
    layer(tensors[INPUT].start, tensors[KERNELS].start, tensors[OUTPUT].start, tensors[SUMS].start);
    int64_t head[] = {(int64_t)used, (int64_t)buffers[INPUT].bytes, (int64_t)buffers[KERNELS].bytes,
                      (int64_t)buffers[OUTPUT].bytes};
    fwrite(head, sizeof head, 1, stdout);
    fwrite(entries, sizeof *entries, used, stdout);
    fwrite(tensors[OUTPUT].start, 1, tensors[OUTPUT].bytes, stdout);
    for (int i = 0; i < TENSORS; i++)
        free(tensors[i].start);
}
