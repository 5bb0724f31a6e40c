/*
 * The DMA controller, which serves one transfer after the other. It moves elements that follow each other in
 * external memory, and counts them in bytes, as if each such run began with a byte of its own, and in bursts.
 * dma.c does so on a PC; on a chip, replace that file.
 */
#ifndef DMA_H
#define DMA_H

/* What is moved; the counts tell these apart. */
typedef enum { INPUT, WEIGHTS, OUTPUT, KINDS } dma_kind_t;

/* A run in external memory; it begins so many elements behind a pointer. */
typedef struct {
    int element; /* bits */
    long first, count;
} dma_run_t;

/* Load a run into some memories, in each of which it begins behind so many elements. */
void dma_load(dma_kind_t kind, unsigned char *const to[], int memories, long behind, const unsigned char *from,
              dma_run_t run);

/* Store a run that lies in one memory. */
void dma_store(dma_kind_t kind, unsigned char *to, dma_run_t run, const unsigned char *from, long behind);

/* The same of elements that are dealt out to memories in turn: number i lies in memory i % memories, behind
   i / memories others. The run begins with number `behind`. */
void dma_deal(dma_kind_t kind, unsigned char *const to[], int memories, long behind, const unsigned char *from,
              dma_run_t run);
void dma_collect(dma_kind_t kind, unsigned char *to, dma_run_t run, unsigned char *const from[], int memories,
                 long behind);

/* What has been moved since the counts were cleared. */
typedef struct {
    long transfers, elements, bytes, bursts;
} dma_count_t;

extern dma_count_t dma_counts[KINDS];

/* How they are printed. */
#define DMA_KINDS {"input", "weights", "output"}
#define DMA_COLUMNS "bytes\tbursts"
#define DMA_FORMAT "%ld\t%ld"
#define DMA_VALUES(counts) (counts).bytes, (counts).bursts

#endif
