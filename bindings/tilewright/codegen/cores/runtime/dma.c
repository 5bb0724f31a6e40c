/* A DMA controller on a PC. */
#include "dma.h"

#include "bits.h"

dma_count_t dma_counts[KINDS];

static void count(dma_kind_t kind, dma_run_t run)
{
    const long bits = run.count * run.element;
    dma_counts[kind].transfers++;
    dma_counts[kind].elements += run.count;
    dma_counts[kind].bytes += BYTES(bits);
    dma_counts[kind].bursts += (bits + 8L * BURST_BYTES - 1) / (8L * BURST_BYTES);
}

void dma_load(dma_kind_t kind, unsigned char *const to[], int memories, long behind, const unsigned char *from,
              dma_run_t run)
{
    count(kind, run);
    for (int i = 0; i < memories; i++)
        move(to[i], behind * run.element, from, run.first * run.element, run.count * run.element);
}

void dma_store(dma_kind_t kind, unsigned char *to, dma_run_t run, const unsigned char *from, long behind)
{
    count(kind, run);
    move(to, run.first * run.element, from, behind * run.element, run.count * run.element);
}

void dma_deal(dma_kind_t kind, unsigned char *const to[], int memories, long behind, const unsigned char *from,
              dma_run_t run)
{
    count(kind, run);
    for (long i = 0; i < run.count; i++) {
        const long at = behind + i;
        move(to[at % memories], at / memories * run.element, from, (run.first + i) * run.element, run.element);
    }
}

void dma_collect(dma_kind_t kind, unsigned char *to, dma_run_t run, unsigned char *const from[], int memories,
                 long behind)
{
    count(kind, run);
    for (long i = 0; i < run.count; i++) {
        const long at = behind + i;
        move(to, (run.first + i) * run.element, from[at % memories], at / memories * run.element, run.element);
    }
}
