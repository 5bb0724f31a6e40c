/*
 * A DMA controller on a PC. A transfer happens as late as possible, when the program waits for it or the
 * queue is full; compiled with -DDMA_EAGER as early as possible. A program that is right gives the same
 * numbers in both cases.
 */
#include "dma.h"

#include "bits.h"

#define QUEUE 64

typedef struct {
    unsigned char *to;
    const unsigned char *from;
    long to_bit, from_bit;
    int is_get;
    dma_box_t box;
} transfer_t;

dma_count_t dma_counts[KINDS];

static transfer_t queue[QUEUE];
static dma_ticket_t started, done;

/* Copy the box below an axis. */
static void copy(const transfer_t *t, long to, long from, int axis)
{
    if (axis == 4) { /* elements of a row lie one after the other */
        move(t->to, to, t->from, from, (long)t->box.axis[axis].count * t->box.element);
        return;
    }
    const long local = t->box.axis[axis].local, external = t->box.axis[axis].external;
    for (long i = 0; i < t->box.axis[axis].count; i++)
        copy(t, to + i * (t->is_get ? local : external), from + i * (t->is_get ? external : local), axis + 1);
}

static dma_ticket_t start(dma_kind_t kind, transfer_t transfer)
{
    long elements = 1;
    for (int axis = 0; axis < 5; axis++)
        elements *= transfer.box.axis[axis].count;
    dma_counts[kind].transfers++;
    dma_counts[kind].elements += elements;
    dma_counts[kind].bits += elements * transfer.box.element;
    if (started - done == QUEUE)
        dma_wait(done + 1);
    queue[started++ % QUEUE] = transfer;
#ifdef DMA_EAGER
    dma_wait(started);
#endif
    return started;
}

dma_ticket_t dma_get(dma_kind_t kind, unsigned char *local, long local_bit, const unsigned char *external,
                     long external_bit, const dma_box_t *box)
{
    const transfer_t transfer = {local, external, local_bit, external_bit, 1, *box};
    return start(kind, transfer);
}

dma_ticket_t dma_put(dma_kind_t kind, unsigned char *external, long external_bit, const unsigned char *local,
                     long local_bit, const dma_box_t *box)
{
    const transfer_t transfer = {external, local, external_bit, local_bit, 0, *box};
    return start(kind, transfer);
}

void dma_wait(dma_ticket_t ticket)
{
    while (done < ticket) {
        const transfer_t *transfer = &queue[done++ % QUEUE];
        copy(transfer, transfer->to_bit, transfer->from_bit, 0);
    }
}

void dma_wait_all(void)
{
    dma_wait(started);
}
