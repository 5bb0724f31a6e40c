/*
 * The inner loop of a tile in vectors, as planned: which dimension is in the lanes, which one the innermost loop
 * is over, and the body, which is unrolled. It needs GCC's vector extensions. What a body reads comes from
 * arrays that lie along the lanes (layers.c); loads and stores of vectors are counted, as are multiplications.
 */
#ifndef VECTORS_H
#define VECTORS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "layers.h"

typedef element_t vector_t __attribute__((vector_size(LANES * sizeof(element_t))));
typedef sum_t sums_t __attribute__((vector_size(LANES * sizeof(sum_t))));
typedef product_t signed_sums_t __attribute__((vector_size(LANES * sizeof(product_t)))); /* the same with signs */

/* What a body does with each input: multiply it by a weight and add that up; keep the largest; add it up. */
typedef enum { MULTIPLY, LARGEST, ADD_UP } body_function_t;

/* Dimensions of a tile: images, output maps, rows, columns and input maps of a group. */
enum { VN, VC, VY, VX, VK, DIMENSIONS };

/* A tile that is laid out along the lanes. */
typedef struct {
    int groups;
    int size[DIMENSIONS];   /* elements */
    int extent[DIMENSIONS]; /* the same in vectors, along the dimension in the lanes */
    int unroll[DIMENSIONS]; /* the body, which is not larger than the tile */
    int padded[DIMENSIONS]; /* extents in whole bodies; nobody uses what is beyond the tile */
    int kernel[2];
    int spilled;     /* vectors that stay from an iteration to the next, but have no register */
    long group_step; /* elements of the input from one to the next: groups, images, maps, rows, columns */
    long image_step, map_step, line_step[2];
} work_t;

/* Tiles of some size spill some vectors. */
typedef struct {
    int size[DIMENSIONS], spilled;
} spill_t;

typedef struct {
    int vector; /* the dimension in the lanes */
    int unroll[DIMENSIONS];
    int in_parts; /* of a pool: a part of its window is in the body */
    void (*run)(const work_t *w);
    int spill_count;
    const spill_t *spills;
} inner_loop_t;

/* The inner loop of the layer that runs. */
extern const inner_loop_t *inner_loop;

/* Vectors that were loaded and stored, and multiplied and added up, since the counts were cleared. */
typedef struct {
    long loads, stores, macs;
} vector_count_t;

extern vector_count_t vector_counts;

extern element_t laid_input[LAID_INPUT], laid_weights[LAID_WEIGHTS];
extern sum_t laid_sums[LAID_SUMS * LANES];

/* The elements from the first to the last that lie under `lines` outputs and `taps` of the kernel. */
static inline int span_of(int lines, int taps, int stride, int dilation)
{
    return (lines - 1) * stride + (taps - 1) * dilation + 1;
}

/* Vector loads of a row of inputs under some outputs: one more than if it began at a whole vector. */
static inline int loads_of(int size, int taps, int stride, int dilation)
{
    return (span_of(size < LANES ? size : LANES, taps, stride, dilation) + LANES - 1) / LANES + 1;
}

/* Whether an input line lies under some outputs and taps. */
static inline int meets(int line, int lines, int taps, int stride, int dilation)
{
    for (int tap = 0; tap < taps; tap++) {
        const int first = line - tap * dilation;
        if (first >= 0 && first % stride == 0 && first / stride < lines)
            return 1;
    }
    return 0;
}

/* Sizes of a tile, in elements, vectors and whole bodies. */
static inline work_t work_on(const inner_loop_t *loop, int groups, const int size[DIMENSIONS], const int kernel[2],
                             const int stride[2], const int dilation[2])
{
    const int vector = loop->vector;
    work_t w = {.groups = groups, .kernel = {kernel[0], kernel[1]}};
    int elements[DIMENSIONS]; /* of the input, along each dimension */
    for (int d = 0; d < DIMENSIONS; d++) {
        const int lanes = d == vector ? LANES : 1;
        w.size[d] = size[d];
        w.extent[d] = (w.size[d] + lanes - 1) / lanes;
        w.unroll[d] = MIN(loop->unroll[d], w.extent[d]);
        w.padded[d] = (w.extent[d] + w.unroll[d] - 1) / w.unroll[d] * w.unroll[d];
        elements[d] = w.padded[d] * lanes;
        if (d == VY || d == VX)
            elements[d] = span_of(elements[d], kernel[d - VY], stride[d - VY], dilation[d - VY]);
    }
    /* The dimension in the lanes is the innermost one. */
    const int innermost = vector == VC ? VX : vector;
    long *const steps[DIMENSIONS] = {&w.image_step, NULL, &w.line_step[0], &w.line_step[1], &w.map_step};
    static const int order[] = {VX, VY, VK, VN};
    long step = elements[innermost];
    *steps[innermost] = 1;
    for (int i = 0; i < 4; i++)
        if (order[i] != innermost) {
            *steps[order[i]] = step;
            step *= elements[order[i]];
        }
    w.group_step = step;
    for (int i = 0; i < loop->spill_count; i++)
        if (!memcmp(loop->spills[i].size, w.size, sizeof w.size))
            w.spilled = loop->spills[i].spilled;
    return w;
}

static inline void load_vector(vector_t *to, const element_t *from)
{
    memcpy(to, from, sizeof *to);
    vector_counts.loads++;
}

static inline void load_sums(sums_t *to, const sum_t *from)
{
    memcpy(to, from, sizeof *to);
    vector_counts.loads++;
}

static inline void store_sums(sum_t *to, const sums_t *from)
{
    memcpy(to, from, sizeof *from);
    vector_counts.stores++;
}

/* The lanes that begin `offset` elements behind the first of some neighbouring vectors, `stride` apart. A shuffle
   takes what two vectors have of them, each further vector takes one more. The vectors are `step` registers
   apart. */
static inline void shuffle_lanes(vector_t *to, const vector_t *from, int step, int count, int offset, int stride)
{
    *to = from[0];
    for (int piece = 1; piece < count; piece++) {
        vector_t mask;
        for (int lane = 0; lane < LANES; lane++) {
            const int at = offset + lane * stride;
            const int first = piece == 1 && at < LANES;
            mask[lane] = (element_t)(first ? at : at / LANES == piece ? at % LANES + LANES : lane);
        }
        *to = __builtin_shuffle(*to, from[piece * step], mask);
    }
}

/* Registers that stay are filled in the first iteration, which the compiler does not see. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

#define INLINE static inline __attribute__((always_inline))

/* A loop: constants, where a tile has the whole body. */
typedef struct {
    int vector, pipelined, u[DIMENSIONS], rows, columns, sy, sx, dy, dx, kept;
    int loads;         /* vectors of a row of inputs that begins at any address; 1 where all are aligned */
    int down, across;  /* input lines, or vectors, of the body along both axes */
    int shifts;        /* taps along the axis in the lanes, whose elements are shuffled */
    int lines, blocks; /* input lines across the lanes, and vectors of outputs along them */
} body_t;

/* Where it is: group, first tap, iteration, and the first of each dimension. */
typedef struct {
    int g, ty, tx, turn, o[DIMENSIONS];
} place_t;

INLINE long weight_at(const work_t *w, const place_t *p, int c, int k, int ky, int kx)
{
    const long map = ((long)p->g * w->padded[VC] + p->o[VC] + c) * w->padded[VK] + p->o[VK] + k;
    return (map * w->kernel[0] + p->ty + ky) * w->kernel[1] + p->tx + kx;
}

/* An element of the input: `row` and `column` count from the body's first, for outputs in whole vectors. */
INLINE long input_at(const work_t *w, const body_t *b, const place_t *p, int n, int k, int row, int column)
{
    const int v = b->vector;
    row += p->o[VY] * b->sy * (v == VY ? LANES : 1) + p->ty * b->dy;
    column += p->o[VX] * b->sx * (v == VX ? LANES : 1) + p->tx * b->dx;
    return p->g * w->group_step + (p->o[VN] + n) * (v == VN ? LANES : 1) * w->image_step +
           (p->o[VK] + k) * (v == VK ? LANES : 1) * w->map_step + row * w->line_step[0] +
           column * w->line_step[1];
}

/* Weights stay in registers if the loop is not over maps. */
INLINE void load_weights(const work_t *w, const body_t *b, const place_t *p, vector_t *weights, int *spilled)
{
    const int stay = p->turn && b->pipelined != VC && b->pipelined != VK;
    int i = 0;
    for (int c = 0; (b->vector == VC || b->vector == VK) && c < b->u[VC]; c++)
    for (int k = 0; k < b->u[VK]; k++)
    for (int ky = 0; ky < b->rows; ky++)
    for (int kx = 0; kx < b->columns; kx++, i++)
        if (!stay || (*spilled)-- > 0)
            load_vector(&weights[i], &laid_weights[weight_at(w, p, c, k, ky, kx) * LANES]);
}

/* Inputs: those that the iteration before had stay, too. */
INLINE void load_inputs(const work_t *w, const body_t *b, const place_t *p, vector_t *inputs, int *spilled)
{
    const int v = b->vector, over = p->turn ? b->pipelined : DIMENSIONS, loads = b->loads;
    const int uy = b->u[VY], ux = b->u[VX];
    int i = 0;
    for (int n = 0; v != VC && n < b->u[VN]; n++)
    for (int k = 0; k < b->u[VK]; k++)
    for (int y = 0; y < b->down; y++)
    for (int x = 0; x < b->across; x++, i++) {
        if ((v != VY && !meets(y, uy, b->rows, b->sy, b->dy)) ||
            (v != VX && !meets(x, ux, b->columns, b->sx, b->dx)))
            continue;
        int before = -1; /* where it was */
        if (over == VC)
            before = i;
        else if (over == VY && v != VY && meets(y + uy * b->sy, uy, b->rows, b->sy, b->dy))
            before = i + uy * b->sy * b->across;
        else if (over == VX && v != VX && meets(x + ux * b->sx, ux, b->columns, b->sx, b->dx))
            before = i + ux * b->sx;
        if (before >= 0 && (*spilled)-- <= 0) {
            inputs[i] = inputs[before];
            continue;
        }
        const int row = v == VY ? y / loads * LANES * b->sy : y, column = v == VX ? x / loads * LANES * b->sx : x;
        long at = input_at(w, b, p, n, k, row, column);
        if (b->shifts) /* whole vectors around an unaligned address */
            at = (at / LANES + (v == VY ? y : x) % loads) * LANES;
        load_vector(&inputs[i], &laid_input[at]);
    }
}

/* Each tap shuffles its elements out of neighbouring vectors. */
INLINE void shuffle_inputs(
    const work_t *w, const body_t *b, const place_t *p, vector_t *shifted, const vector_t *inputs)
{
    const int rows = b->vector == VY; /* are in the lanes, else columns */
    const int u = rows ? b->u[VX] : b->u[VY], taps = rows ? b->columns : b->rows;
    const int step = rows ? b->sy : b->sx, stride = rows ? b->sx : b->sy, dilation = rows ? b->dx : b->dy;
    for (int n = 0; b->shifts && n < b->u[VN]; n++)
    for (int k = 0; k < b->u[VK]; k++)
    for (int line = 0; line < b->lines; line++)
    for (int block = 0; block < b->blocks; block++)
    for (int tap = 0; tap < b->shifts; tap++) {
        if (!meets(line, u, taps, stride, dilation))
            continue;
        const int along = block * LANES * step, part = block * b->loads;
        const long first = input_at(w, b, p, n, k, rows ? along : line, rows ? line : along);
        const int from = ((n * b->u[VK] + k) * b->down + (rows ? part : line)) * b->across + (rows ? line : part);
        const int to = (((n * b->u[VK] + k) * b->lines + line) * b->blocks + block) * b->shifts + tap;
        shuffle_lanes(&shifted[to], &inputs[from], rows ? b->across : 1, b->loads,
                      (int)(first % LANES) + tap * (rows ? b->dy : b->dx), step);
    }
}

/* Load or store the register tile of sums. */
INLINE void move_register_tile(const work_t *w, const body_t *b, const place_t *p, sums_t *sums, int stored)
{
    int i = 0;
    for (int n = 0; n < b->u[VN]; n++)
    for (int c = 0; c < b->u[VC]; c++)
    for (int y = 0; y < b->u[VY]; y++)
    for (int x = 0; x < b->u[VX]; x++, i++) {
        const long plane = ((long)p->g * w->padded[VN] + p->o[VN] + n) * w->padded[VC] + p->o[VC] + c;
        const long at = (plane * w->padded[VY] + p->o[VY] + y) * w->padded[VX] + p->o[VX] + x;
        if (stored)
            store_sums(&laid_sums[at * LANES], &sums[i]);
        else
            load_sums(&sums[i], &laid_sums[at * LANES]);
    }
}

/* The input of an output under a position of the window. */
INLINE const vector_t *input_of(const body_t *b, const vector_t *inputs, const vector_t *shifted, int n, int k, int y,
                                int x, int ky, int kx)
{
    const int v = b->vector, row = y * b->sy + ky * b->dy, column = x * b->sx + kx * b->dx, at = n * b->u[VK] + k;
    const int line = v == VY ? column : row, block = v == VY ? y : x, tap = v == VY ? ky : kx;
    return b->shifts ? &shifted[((at * b->lines + line) * b->blocks + block) * b->shifts + tap]
                     : &inputs[(at * b->down + row) * b->across + column];
}

/* All sums take turns: one multiplication of each, then the next of each. */
INLINE void multiply(const work_t *w, const body_t *b, const place_t *p, sums_t *sums, const vector_t *weights,
                     const vector_t *inputs, const vector_t *shifted)
{
    const int v = b->vector;
    for (int k = 0; k < b->u[VK]; k++)
    for (int ky = 0; ky < b->rows; ky++)
    for (int kx = 0; kx < b->columns; kx++) {
        int i = 0;
#pragma GCC unroll 64
        for (int n = 0; n < b->u[VN]; n++)
#pragma GCC unroll 64
        for (int c = 0; c < b->u[VC]; c++)
#pragma GCC unroll 64
        for (int y = 0; y < b->u[VY]; y++)
#pragma GCC unroll 64
        for (int x = 0; x < b->u[VX]; x++, i++) {
            const vector_t *weight = &weights[((c * b->u[VK] + k) * b->rows + ky) * b->columns + kx];
            const int row = y * b->sy + ky * b->dy, column = x * b->sx + kx * b->dx;
            const vector_t *input = input_of(b, inputs, shifted, n, k, y, x, ky, kx);
            vector_counts.macs++;
            if (v == VC) /* a value times a vector of weights */
                sums[i] += __builtin_convertvector(*weight, sums_t) *
                           (sum_t)laid_input[input_at(w, b, p, n, k, row, column)];
            else if (v == VK)
                sums[i] += __builtin_convertvector(*input, sums_t) * __builtin_convertvector(*weight, sums_t);
            else
                sums[i] += __builtin_convertvector(*input, sums_t) *
                           (sum_t)laid_weights[weight_at(w, p, c, k, ky, kx)];
        }
    }
}

/* Combine what lies under the window of each result; the first value of all is taken as it is. */
INLINE void combine(const body_t *b, int function, int whole, sums_t *results, const vector_t *inputs,
                    const vector_t *shifted)
{
    for (int ky = 0; ky < b->rows; ky++)
    for (int kx = 0; kx < b->columns; kx++) {
        int i = 0;
        for (int n = 0; n < b->u[VN]; n++)
        for (int y = 0; y < b->u[VY]; y++)
        for (int x = 0; x < b->u[VX]; x++, i++) {
            const signed_sums_t value =
                __builtin_convertvector(*input_of(b, inputs, shifted, n, 0, y, x, ky, kx), signed_sums_t);
            const signed_sums_t before = (signed_sums_t)results[i];
            const signed_sums_t larger = value > before;
            if (whole && ky == 0 && kx == 0)
                results[i] = (sums_t)value;
            else if (function == LARGEST)
                results[i] = (sums_t)((larger & value) | (~larger & before));
            else
                results[i] += (sums_t)value;
        }
    }
}

/* The body and the loops around it. All but `w` are constants where a tile has the whole body. */
INLINE void run_body(
    const work_t *w, int function, int vector, int pipelined, int un, int uc, int uy, int ux, int uk, int rows,
    int columns, int sy, int sx, int dy, int dx, int kept)
{
    const int pool = function != MULTIPLY, whole = rows == w->kernel[0] && columns == w->kernel[1];
    /* Outputs of a pool without a window along the lanes lie as its inputs do. */
    const int aligned = pool && (vector == VY ? w->kernel[0] == 1 && sy == 1 : w->kernel[1] == 1 && sx == 1);
    const int loads = aligned        ? 1
                      : vector == VY ? loads_of(w->size[VY], rows, sy, dy)
                      : vector == VX ? loads_of(w->size[VX], columns, sx, dx)
                                     : 1;
    const int down = vector == VY ? uy * loads : span_of(uy, rows, sy, dy);
    const int across = vector == VX ? ux * loads : span_of(ux, columns, sx, dx);
    const body_t b = {
        vector, pipelined, {un, uc, uy, ux, uk}, rows, columns, sy, sx, dy, dx, kept, loads, down, across,
        .shifts = aligned ? 0 : vector == VY ? rows : vector == VX ? columns : 0,
        .lines = vector == VY ? across : down, .blocks = vector == VY ? uy : ux,
    };
    int trips[DIMENSIONS], entries = 1;
    for (int d = 0; d < DIMENSIONS; d++) {
        trips[d] = (w->extent[d] + b.u[d] - 1) / b.u[d];
        entries *= d == pipelined ? 1 : trips[d];
    }
    place_t p;
    for (p.g = 0; p.g < w->groups; p.g++)
    for (p.ty = 0; p.ty < w->kernel[0]; p.ty += rows)
    for (p.tx = 0; p.tx < w->kernel[1]; p.tx += columns)
    for (int entry = 0; entry < entries; entry++) {
        vector_t weights[MOST_WEIGHTS], inputs[MOST_INPUT_VECTORS], shifted[MOST_SHIFTED];
        sums_t sums[MOST_SUMS];
        for (int d = DIMENSIONS - 1, rest = entry; d >= 0; d--) {
            p.o[d] = d == pipelined ? 0 : rest % trips[d] * b.u[d];
            rest /= d == pipelined ? 1 : trips[d];
        }
        for (p.turn = 0; p.turn < trips[pipelined]; p.turn++) {
            int spilled = p.turn ? w->spilled : 0;
            p.o[pipelined] = p.turn * b.u[pipelined];
            load_weights(w, &b, &p, weights, &spilled);
            load_inputs(w, &b, &p, inputs, &spilled);
            shuffle_inputs(w, &b, &p, shifted, inputs);
            if (pool ? !whole : !kept || !p.turn)
                move_register_tile(w, &b, &p, sums, 0);
            if (pool)
                combine(&b, function, whole, sums, inputs, shifted);
            else
                multiply(w, &b, &p, sums, weights, inputs, shifted);
            if (!kept || p.turn == trips[pipelined] - 1)
                move_register_tile(w, &b, &p, sums, 1);
        }
    }
}

#pragma GCC diagnostic pop

/* Where a weight lies, along the lanes. */
static inline long weight_place(const work_t *w, int vector, int g, int c, int k, int tap)
{
    const int c_lanes = vector == VC ? LANES : 1, k_lanes = vector == VK ? LANES : 1;
    const long to = ((long)g * w->padded[VC] + c / c_lanes) * w->padded[VK] + k / k_lanes;
    return (to * w->kernel[0] * w->kernel[1] + tap) * c_lanes * k_lanes + c % c_lanes + k % k_lanes;
}

/* Where a sum lies, along the lanes. */
static inline long lane_of(const work_t *w, int vector, int g, int n, int c, int y, int x)
{
    const int at[4] = {n, c, y, x};
    long number = g;
    for (int d = 0; d < 4; d++)
        number = number * w->padded[d] + (d == vector ? at[d] / LANES : at[d]);
    return number * LANES + (vector == VK ? 0 : at[vector] % LANES);
}

/* For each vector of sums of a tile, from the first: what it is of, and where it is. */
static inline int next_sums(const work_t *w, int at[5], long *number)
{
    static const int of[5] = {VX, VY, VC, VN, -1};
    for (int i = 0; i < 5; i++) {
        const int d = of[i];
        if (++at[d < 0 ? 4 : d] < (d < 0 ? w->groups : w->extent[d])) {
            *number = at[4];
            for (int e = 0; e < 4; e++)
                *number = *number * w->padded[e] + at[e];
            return 1;
        }
        at[d < 0 ? 4 : d] = 0;
    }
    return 0;
}

/* Store a first value of all sums. */
static inline void begin_sums(const work_t *w, product_t value)
{
    int at[5] = {0};
    long number = 0;
    const sums_t first = (sums_t){0} + (sum_t)value;
    do
        store_sums(&laid_sums[number * LANES], &first);
    while (next_sums(w, at, &number));
}

/* Add up the lanes of a vector in a tree. */
static inline void add_lanes(sums_t *sums)
{
    for (int half = LANES / 2; half > 0; half /= 2) {
        sums_t other = {0};
        for (int lane = 0; lane < half; lane++)
            other[lane] = (*sums)[lane + half];
        *sums += other;
    }
}

/* Complete sums: load, add up lanes, store. */
static inline void complete_sums(const work_t *w, int vector)
{
    int at[5] = {0};
    long number = 0;
    do {
        sums_t sums;
        load_sums(&sums, &laid_sums[number * LANES]);
        if (vector == VK)
            add_lanes(&sums);
        store_sums(&laid_sums[number * LANES], &sums);
    } while (next_sums(w, at, &number));
}

/* Whether a tile has the whole body. */
static inline int is_whole(const work_t *w, int un, int uc, int uy, int ux, int uk)
{
    const int u[DIMENSIONS] = {un, uc, uy, ux, uk};
    return !memcmp(w->unroll, u, sizeof u);
}

#endif
