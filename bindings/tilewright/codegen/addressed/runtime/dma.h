/* What moves data between the memory on chip and DRAM. On a chip, replace dma.c by calls to its controller. */
#ifndef DMA_H
#define DMA_H

typedef struct {
    long long loaded_bytes, saved_bytes;
} dma_counts_t;

extern dma_counts_t dma_counts;

/* Copy from DRAM to the memory on chip. */
void dma_load(unsigned char *to, const unsigned char *from, long bytes);

/* Copy from the memory on chip to DRAM. */
void dma_save(unsigned char *to, const unsigned char *from, long bytes);

#endif
