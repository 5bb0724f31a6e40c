/* A DMA controller for tests: it moves the data at once, checks every access and keeps a log. */
#ifndef DMA_SHIM_H
#define DMA_SHIM_H

#include <stddef.h>

enum { INPUT, KERNELS, OUTPUT, OPERANDS, SUMS = OPERANDS, TENSORS };

/* Tell where the buffers of the layer that runs are; they are filled with rubbish. */
void shim_buffers(void *in, size_t in_bytes, void *w, size_t w_bytes, void *out, size_t out_bytes);

/*
 * Run a layer: tensors are read from standard input, its output and the log go to standard output. Partial
 * sums have a tensor of their own, where they are wider.
 */
void shim_run(void (*layer)(const void *, const void *, void *, void *), const size_t widths[TENSORS],
              const size_t elements[OPERANDS], int keeps_input);

#endif
