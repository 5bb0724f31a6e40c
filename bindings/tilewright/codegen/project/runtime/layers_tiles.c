#include "layers.h"

#include "bits.h"
#include "dma.h"

/* The memory on chip: as much as the plan takes of it, for all layers and operations in turn. */
ON_CHIP static unsigned char memory[MEMORY_BYTES];

/* A value of a tensor, so many elements behind a bit. */
static int64_t held_value(const unsigned char *values, long first, long i)
{
    return load(values, first + i * OUTPUT_BITS, OUTPUT_BITS);
}

/* Tiles of a layer ------------------------------------------------------------------------------------- */

typedef enum { IN, W, OUT, OPERANDS } operand_t;

/* A tile: its number along each loop, and which copy of each buffer it has. */
typedef struct {
    int at[LOOPS];
    int copy[OPERANDS];
} tile_t;

typedef struct {
    const layer_t *layer;
    const unsigned char *input, *weights;
    const int32_t *biases;
    unsigned char *partial, *output;
    int halo;             /* the loop whose neighbours share input, or -1 */
    int partly;           /* whether tiles lack input maps, so that their buffers hold sums */
    long first[OPERANDS]; /* bits of the memory before the first copy of each buffer */
    long held[OPERANDS];  /* bits of one copy */
    int extent[2];        /* rows and columns of the input under a whole tile */
    dma_ticket_t gets;    /* of the tile that comes next */
    dma_ticket_t puts[2]; /* of each copy of the output */
} run_t;

static int trips(const layer_t *l, int loop)
{
    return (l->size[loop] + l->step[loop] - 1) / l->step[loop];
}

static range_t span(const layer_t *l, const tile_t *tile, int loop)
{
    const int first = tile->at[loop] * l->step[loop];
    const range_t range = {first, MIN(first + l->step[loop], l->size[loop])};
    return range;
}

/* Rows or columns of the input under a tile, in the padded plane. */
static range_t under(const layer_t *l, const tile_t *tile, int loop)
{
    const range_t outputs = span(l, tile, loop);
    const int axis = loop - Y, kernel = (l->kernel[axis] - 1) * l->dilation[axis] + 1;
    const range_t range = {outputs.begin * l->stride[axis], (outputs.end - 1) * l->stride[axis] + kernel};
    return range;
}

/* Those of them that lie in external memory. */
static range_t present(const layer_t *l, const tile_t *tile, int loop)
{
    range_t range = under(l, tile, loop);
    const int axis = loop - Y;
    range.begin = MAX(range.begin, l->before[axis]);
    range.end = MIN(range.end, l->before[axis] + l->plane[axis]);
    return range;
}

/* Go on to the next tile; false at the end. */
static int advance(const layer_t *l, tile_t *tile)
{
    for (int i = LOOPS - 1; i >= 0; i--) {
        const int loop = l->order[i];
        if (++tile->at[loop] < trips(l, loop))
            return 1;
        tile->at[loop] = 0;
    }
    return 0;
}

/* Whether a tile needs other values of an operand than the one before. */
static int changes(const layer_t *l, operand_t operand, const tile_t *before, const tile_t *now)
{
    static const int depends[OPERANDS][LOOPS] = {
        /*        G  N  C  Y  X  K */
        [IN] = {1, 1, 0, 1, 1, 1}, [W] = {1, 0, 1, 0, 0, 1}, [OUT] = {1, 1, 1, 1, 1, 0}};
    if (l->reuse == KEEP_NOTHING)
        return 1;
    for (int loop = 0; loop < LOOPS; loop++)
        if (before->at[loop] != now->at[loop] &&
            (operand == W && l->reuse == KEEP_WEIGHTS ? loop == G : depends[operand][loop]))
            return 1;
    return 0;
}

/* The loop along which input tiles that follow each other share rows or columns. */
static int halo_loop(const layer_t *l)
{
    if (l->reuse == KEEP_NOTHING || l->reuse == KEEP_TILES)
        return -1;
    for (int i = LOOPS - 1; i >= 0; i--) {
        const int loop = l->order[i];
        if (loop != C && trips(l, loop) > 1)
            return loop == Y || loop == X ? loop : -1;
    }
    return -1;
}

/* Whether a tile is the neighbour, along the halo's loop, of the one before. */
static int is_neighbour(const run_t *r, const tile_t *before, const tile_t *now)
{
    static const int input_loops[] = {G, N, Y, X, K};
    if (r->halo < 0 || now->at[r->halo] != before->at[r->halo] + 1)
        return 0;
    for (int i = 0; i < 5; i++)
        if (input_loops[i] != r->halo && before->at[input_loops[i]] != now->at[input_loops[i]])
            return 0;
    return 1;
}

/* Transfers -------------------------------------------------------------------------------------------- */

/* Where a tile's copy of a buffer begins: bits of the memory before it. */
static long copy_of(const run_t *r, operand_t operand, const tile_t *tile)
{
    return r->first[operand] + tile->copy[operand] * r->held[operand];
}

/* Fill the strides of a box of elements, given the sizes of its array on chip and in external memory. */
static dma_box_t box(int element, const int counts[5], const int local[5], const int external[5])
{
    dma_box_t b;
    long here = element, there = element;
    b.element = element;
    for (int axis = 4; axis >= 0; axis--) {
        b.axis[axis].count = counts[axis];
        b.axis[axis].local = here;
        b.axis[axis].external = there;
        here *= local[axis];
        there *= external[axis];
    }
    return b;
}

/* Keep the input that a tile shares with the one before: move it to its place on chip. */
static void keep(const run_t *r, const tile_t *before, const tile_t *now, const range_t kept[2])
{
    const layer_t *l = r->layer;
    const range_t old[2] = {under(l, before, Y), under(l, before, X)};
    const range_t new[2] = {under(l, now, Y), under(l, now, X)};
    const long from = copy_of(r, IN, before), to = copy_of(r, IN, now);
    const int maps = length(span(l, now, N)) * l->step[G] * l->step[K];
    for (int map = 0; map < maps; map++)
        for (int y = kept[0].begin; y < kept[0].end; y++) {
            const long plane = (long)map * r->extent[0];
            const long a = (plane + y - old[0].begin) * r->extent[1] + kept[1].begin - old[1].begin;
            const long b = (plane + y - new[0].begin) * r->extent[1] + kept[1].begin - new[1].begin;
            move(memory, to + b * INPUT_BITS, memory, from + a * INPUT_BITS, (long)length(kept[1]) * INPUT_BITS);
        }
}

static void get_input(run_t *r, const tile_t *before, const tile_t *now)
{
    const layer_t *l = r->layer;
    range_t lines[2] = {present(l, now, Y), present(l, now, X)};
    if (before && is_neighbour(r, before, now)) {
        const int axis = r->halo - Y;
        const range_t old = present(l, before, r->halo);
        range_t kept[2] = {lines[0], lines[1]};
        kept[axis].end = MAX(kept[axis].begin, MIN(old.end, kept[axis].end));
        keep(r, before, now, kept);
        lines[axis].begin = kept[axis].end;
    }
    if (length(lines[0]) <= 0 || length(lines[1]) <= 0)
        return;
    const range_t n = span(l, now, N), g = span(l, now, G), k = span(l, now, K);
    const range_t first[2] = {under(l, now, Y), under(l, now, X)};
    const int counts[5] = {length(n), length(g), length(k), length(lines[0]), length(lines[1])};
    const int local[5] = {l->step[N], l->step[G], l->step[K], r->extent[0], r->extent[1]};
    const int external[5] = {l->size[N], l->size[G], l->size[K], l->plane[0], l->plane[1]};
    const dma_box_t b = box(INPUT_BITS, counts, local, external);
    const long from = (((long)n.begin * l->size[G] + g.begin) * l->size[K] + k.begin) * l->plane[0] +
                      lines[0].begin - l->before[0];
    const long to = (lines[0].begin - first[0].begin) * (long)r->extent[1] + lines[1].begin - first[1].begin;
    r->gets = dma_get(INPUT, memory, copy_of(r, IN, now) + to * INPUT_BITS, r->input,
                      (from * l->plane[1] + lines[1].begin - l->before[1]) * INPUT_BITS, &b);
}

static void get_weights(run_t *r, const tile_t *now)
{
    const layer_t *l = r->layer;
    const range_t g = span(l, now, G), all = {0, 0};
    const int group = l->reuse == KEEP_WEIGHTS;
    const range_t c = group ? all : span(l, now, C), k = group ? all : span(l, now, K);
    const int maps = group ? l->size[C] : length(c), deep = group ? l->size[K] : length(k);
    const int counts[5] = {length(g), maps, deep, l->kernel[0], l->kernel[1]};
    const int local[5] = {0, group ? l->size[C] : l->step[C], group ? l->size[K] : l->step[K], l->kernel[0],
                          l->kernel[1]};
    const int external[5] = {0, l->size[C], l->size[K], l->kernel[0], l->kernel[1]};
    const dma_box_t b = box(WEIGHT_BITS, counts, local, external);
    const long from = ((long)g.begin * l->size[C] + c.begin) * l->size[K] + k.begin;
    r->gets = dma_get(WEIGHTS, memory, copy_of(r, W, now), r->weights,
                      from * l->kernel[0] * l->kernel[1] * WEIGHT_BITS, &b);
}

/* The box of a tile's outputs, of some bits, and where it begins in external memory. */
static dma_box_t output_box(const layer_t *l, const tile_t *tile, int element, long *begin)
{
    static const int loops[5] = {N, G, C, Y, X};
    int counts[5], local[5], external[5];
    *begin = 0;
    for (int i = 0; i < 5; i++) {
        const range_t range = span(l, tile, loops[i]);
        counts[i] = length(range);
        local[i] = l->step[loops[i]];
        external[i] = l->size[loops[i]];
        *begin = *begin * l->size[loops[i]] + range.begin;
    }
    *begin *= element;
    return box(element, counts, local, external);
}

/* Start to get what a tile needs that is not on chip; each operand into the copy that is not in use. */
static void fetch(run_t *r, const tile_t *before, tile_t *now)
{
    const layer_t *l = r->layer;
    for (int operand = 0; operand < OPERANDS; operand++) {
        const int comes = !before || changes(l, operand, before, now);
        now->copy[operand] = !before ? 0 : comes ? COPIES - 1 - before->copy[operand] : before->copy[operand];
        if (!comes)
            continue;
        if (operand == IN)
            get_input(r, before, now);
        if (operand == W)
            get_weights(r, now);
        if (operand == OUT) {
            dma_wait(r->puts[now->copy[OUT]]);
            if (now->at[K] > 0) {
                long begin;
                const dma_box_t b = output_box(l, now, SUM_BITS, &begin);
                r->gets = dma_get(PARTIAL_SUMS_IN, memory, copy_of(r, OUT, now), r->partial, begin, &b);
            }
        }
    }
}

