/* Computation in vectors ------------------------------------------------------------------------------- */

#include "vectors.h"

/* What a tile reads and adds up, along the lanes. On a chip the DMA controller would write it so. */
element_t laid_input[LAID_INPUT], laid_weights[LAID_WEIGHTS];
sum_t laid_sums[LAID_SUMS * LANES];

const inner_loop_t *inner_loop;
vector_count_t vector_counts;

static work_t work_of(const run_t *r, const tile_t *tile)
{
    static const int loops[DIMENSIONS] = {N, C, Y, X, K};
    const layer_t *l = r->layer;
    int size[DIMENSIONS];
    for (int d = 0; d < DIMENSIONS; d++)
        size[d] = length(span(l, tile, loops[d]));
    return work_on(inner_loop, length(span(l, tile, G)), size, l->kernel, l->stride, l->dilation);
}

static void lay_input(const run_t *r, const tile_t *tile, const work_t *w)
{
    const layer_t *l = r->layer;
    const range_t rows = present(l, tile, Y), columns = present(l, tile, X);
    const int top = under(l, tile, Y).begin, left = under(l, tile, X).begin;
    const long from = copy_of(r, IN, tile);
    memset(laid_input, 0, sizeof laid_input); /* what is beyond the tile must not count, whatever its weights */
    for (int n = 0; n < w->size[VN]; n++)
        for (int g = 0; g < w->groups; g++)
            for (int k = 0; k < w->size[VK]; k++)
                for (int y = rows.begin; y < rows.end; y++)
                    for (int x = columns.begin; x < columns.end; x++) {
                        const long map = ((long)n * l->step[G] + g) * l->step[K] + k;
                        const long i = (map * r->extent[0] + y - top) * r->extent[1] + x - left;
                        laid_input[g * w->group_step + n * w->image_step + k * w->map_step +
                                   (y - top) * w->line_step[0] + (x - left) * w->line_step[1]] =
                            (element_t)load(memory, from + i * INPUT_BITS, INPUT_BITS);
                    }
}

static void lay_weights(const run_t *r, const tile_t *tile, const work_t *w)
{
    const layer_t *l = r->layer;
    const int whole = l->reuse == KEEP_WEIGHTS, window = l->kernel[0] * l->kernel[1];
    const int held_maps = whole ? l->size[C] : l->step[C], held_deep = whole ? l->size[K] : l->step[K];
    const int c_begin = whole ? span(l, tile, C).begin : 0, k_begin = whole ? span(l, tile, K).begin : 0;
    const long from = copy_of(r, W, tile);
    for (int g = 0; g < w->groups; g++)
        for (int c = 0; c < w->size[VC]; c++)
            for (int k = 0; k < w->size[VK]; k++)
                for (int tap = 0; tap < window; tap++) {
                    const long map = ((long)g * held_maps + c_begin + c) * held_deep + k_begin + k;
                    laid_weights[weight_place(w, inner_loop->vector, g, c, k, tap)] =
                        (element_t)load(memory, from + (map * window + tap) * WEIGHT_BITS, WEIGHT_BITS);
                }
}

static long place_of(const run_t *r, int g, int n, int c, int y, int x)
{
    const int *step = r->layer->step;
    return ((((long)n * step[G] + g) * step[C] + c) * step[Y] + y) * step[X] + x;
}

/* Take the sums so far out of the buffer of a tile, or put them there. */
static void move_sums(const run_t *r, const tile_t *tile, const work_t *w, int out)
{
    const long buffer = copy_of(r, OUT, tile);
    for (int g = 0; g < w->groups; g++)
        for (int n = 0; n < w->size[VN]; n++)
            for (int c = 0; c < w->size[VC]; c++)
                for (int y = 0; y < w->size[VY]; y++)
                    for (int x = 0; x < w->size[VX]; x++) {
                        sum_t *const sum = &laid_sums[lane_of(w, inner_loop->vector, g, n, c, y, x)];
                        const long bit = buffer + place_of(r, g, n, c, y, x) * SUM_BITS;
                        if (out)
                            *sum = (sum_t)load(memory, bit, SUM_BITS);
                        else
                            store(memory, bit, SUM_BITS, wrapped(*sum, r->layer->accumulator_bits));
                    }
}

/* Scale complete sums: load, add biases, store; lanes that are no outputs are masked. */
static void end_sums(const run_t *r, const tile_t *tile, const work_t *w)
{
    const layer_t *l = r->layer;
    const int first_group = span(l, tile, G).begin, first_map = span(l, tile, C).begin;
    const int vector = inner_loop->vector;
    const long to = copy_of(r, OUT, tile);
    int at[5] = {0};
    long number = 0;
    do {
        sums_t sums;
        load_sums(&sums, &laid_sums[number * LANES]);
        if (vector == VK)
            add_lanes(&sums);
        for (int lane = 0; lane < (vector == VK ? 1 : LANES); lane++) {
            int one[4] = {at[0], at[1], at[2], at[3]};
            if (vector != VK)
                one[vector] = at[vector] * LANES + lane;
            if (vector != VK && one[vector] >= w->size[vector])
                break;
            const int map = (first_group + at[4]) * l->size[C] + first_map + one[VC];
            const int64_t sum = wrapped(sums[lane], l->accumulator_bits);
            store(memory, to + place_of(r, at[4], one[VN], one[VC], one[VY], one[VX]) * OUTPUT_BITS, OUTPUT_BITS,
                  scaled(sum + r->biases[map], &l->scale));
        }
        vector_counts.stores++;
    } while (next_sums(w, at, &number));
    if (vector == VC)
        vector_counts.loads += (long)w->groups * w->extent[VC]; /* biases */
}

/* Vectors of input maps stay until their lanes are added up: the buffer of a tile has no place for them. */
static void compute(const run_t *r, const tile_t *tile)
{
    const work_t w = work_of(r, tile);
    const int stay = inner_loop->vector == VK;
    lay_input(r, tile, &w);
    lay_weights(r, tile, &w);
    if (tile->at[K] == 0)
        begin_sums(&w, 0);
    else if (!stay)
        move_sums(r, tile, &w, 1);
    inner_loop->run(&w);
    if (!r->partly)
        end_sums(r, tile, &w);
    else if (!stay)
        move_sums(r, tile, &w, 0);
}

/* Turn complete sums into stored values, in the same place. */
static void finish(const run_t *r, const tile_t *tile)
{
    const work_t w = work_of(r, tile);
    if (inner_loop->vector != VK)
        move_sums(r, tile, &w, 1);
    end_sums(r, tile, &w);
}

