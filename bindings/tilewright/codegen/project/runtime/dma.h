/*
 * The DMA controller. Transfers are asynchronous and happen in the order in which they are started. dma.c
 * does them on a PC and counts them; on a chip, replace that file.
 */
#ifndef DMA_H
#define DMA_H

/* What is moved; the counts tell these apart. */
typedef enum { INPUT, WEIGHTS, PARTIAL_SUMS_IN, PARTIAL_SUMS_OUT, OUTPUT, KINDS } dma_kind_t;

/* A box of elements; along each axis the bits from one to the next, on chip and in external memory. These are
   whole bytes where the machine's elements are (machine.h). */
typedef struct {
    int element; /* bits */
    struct {
        int count;
        long local, external;
    } axis[5];
} dma_box_t;

typedef unsigned long dma_ticket_t;

/* Start a transfer onto the chip, or from it. The box begins so many bits behind each pointer. */
dma_ticket_t dma_get(dma_kind_t kind, unsigned char *local, long local_bit, const unsigned char *external,
                     long external_bit, const dma_box_t *box);
dma_ticket_t dma_put(dma_kind_t kind, unsigned char *external, long external_bit, const unsigned char *local,
                     long local_bit, const dma_box_t *box);

/* Return when a transfer has happened, and all that were started before it. */
void dma_wait(dma_ticket_t ticket);
void dma_wait_all(void);

/* What has been moved since the counts were cleared. */
typedef struct {
    long transfers, elements, bits;
} dma_count_t;

extern dma_count_t dma_counts[KINDS];

/* How they are printed. */
#define DMA_KINDS {"input", "weights", "partial sums in", "partial sums out", "output"}
#define DMA_COLUMNS "bits"
#define DMA_FORMAT "%ld"
#define DMA_VALUES(counts) (counts).bits

#endif
