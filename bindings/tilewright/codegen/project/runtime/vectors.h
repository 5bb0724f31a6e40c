/*
 * The inner loop of a tile in vectors, as planned: which dimension is in the lanes, which one the innermost loop
 * is over, and the body, which is unrolled. It needs GCC's vector extensions. What a body reads comes from
 * arrays that lie along the lanes (layers.c); loads and stores of vectors are counted, as are multiplications.
 */
#ifndef VECTORS_H
#define VECTORS_H

#include <stdint.h>
#include <string.h>

#include "layers.h"

typedef element_t vector_t __attribute__((vector_size(LANES * sizeof(element_t))));
typedef sum_t sums_t __attribute__((vector_size(LANES * sizeof(sum_t))));

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

/* The body and the loops around it. All but `w` are constants where a tile has the whole body. */
static inline __attribute__((always_inline)) void run_body(
    const work_t *w, int vector, int pipelined, int un, int uc, int uy, int ux, int uk, int rows, int columns,
    int sy, int sx, int dy, int dx, int kept)
{
    const int u[DIMENSIONS] = {un, uc, uy, ux, uk};
    const int weights_are_vectors = vector == VC || vector == VK;
    const int loads = vector == VY   ? loads_of(w->size[VY], rows, sy, dy)
                      : vector == VX ? loads_of(w->size[VX], columns, sx, dx)
                                     : 1;
    /* Input lines, or vectors, of the body along both axes; and taps along the axis in the lanes. */
    const int down = vector == VY ? uy * loads : span_of(uy, rows, sy, dy);
    const int across = vector == VX ? ux * loads : span_of(ux, columns, sx, dx);
    const int shifts = vector == VY ? rows : vector == VX ? columns : 0;
    int trips[DIMENSIONS], entries = 1;
    for (int d = 0; d < DIMENSIONS; d++) {
        trips[d] = (w->extent[d] + u[d] - 1) / u[d];
        entries *= d == pipelined ? 1 : trips[d];
    }
    for (int g = 0; g < w->groups; g++)
    for (int ty = 0; ty < w->kernel[0]; ty += rows)
    for (int tx = 0; tx < w->kernel[1]; tx += columns)
    for (int entry = 0; entry < entries; entry++) {
        vector_t weights[MOST_WEIGHTS], inputs[MOST_INPUT_VECTORS], shifted[MOST_SHIFTED];
        sums_t sums[MOST_SUMS];
        int o[DIMENSIONS]; /* where the body is */
        for (int d = DIMENSIONS - 1, rest = entry; d >= 0; d--) {
            o[d] = d == pipelined ? 0 : rest % trips[d] * u[d];
            rest /= d == pipelined ? 1 : trips[d];
        }
        for (int turn = 0; turn < trips[pipelined]; turn++) {
            o[pipelined] = turn * u[pipelined];
            int spilled = turn ? w->spilled : 0, i;

            /* Weights stay in registers if the loop is not over maps. */
            i = 0;
            for (int c = 0; weights_are_vectors && c < uc; c++)
            for (int k = 0; k < uk; k++)
            for (int ky = 0; ky < rows; ky++)
            for (int kx = 0; kx < columns; kx++, i++) {
                if (turn && pipelined != VC && pipelined != VK && spilled-- <= 0)
                    continue;
                const long map = ((long)g * w->padded[VC] + o[VC] + c) * w->padded[VK] + o[VK] + k;
                const long at = (map * w->kernel[0] + ty + ky) * w->kernel[1] + tx + kx;
                load_vector(&weights[i], &laid_weights[at * LANES]);
            }

            /* Inputs: those that the iteration before had stay, too. */
            i = 0;
            for (int n = 0; vector != VC && n < un; n++)
            for (int k = 0; k < uk; k++)
            for (int y = 0; y < down; y++)
            for (int x = 0; x < across; x++, i++) {
                if ((vector != VY && !meets(y, uy, rows, sy, dy)) ||
                    (vector != VX && !meets(x, ux, columns, sx, dx)))
                    continue;
                int before = -1; /* where it was */
                if (turn && pipelined == VC)
                    before = i;
                else if (turn && pipelined == VY && vector != VY && meets(y + uy * sy, uy, rows, sy, dy))
                    before = i + uy * sy * across;
                else if (turn && pipelined == VX && vector != VX && meets(x + ux * sx, ux, columns, sx, dx))
                    before = i + ux * sx;
                if (before >= 0 && spilled-- <= 0) {
                    inputs[i] = inputs[before];
                    continue;
                }
                const int image = (o[VN] + n) * (vector == VN ? LANES : 1);
                const int map = (o[VK] + k) * (vector == VK ? LANES : 1);
                const int row = vector == VY ? (o[VY] + y / loads) * LANES * sy : o[VY] * sy + y;
                const int column = vector == VX ? (o[VX] + x / loads) * LANES * sx : o[VX] * sx + x;
                long at = g * w->group_step + image * w->image_step + map * w->map_step +
                          (row + ty * dy) * w->line_step[0] + (column + tx * dx) * w->line_step[1];
                if (vector == VY || vector == VX) /* whole vectors around an unaligned address */
                    at = (at / LANES + (vector == VY ? y : x) % loads) * LANES;
                load_vector(&inputs[i], &laid_input[at]);
            }

            /* Each tap shuffles its elements out of neighbouring vectors. */
            for (int n = 0; shifts && n < un; n++)
            for (int k = 0; k < uk; k++)
            for (int line = 0; line < (vector == VY ? across : down); line++)
            for (int block = 0; block < (vector == VY ? uy : ux); block++)
            for (int tap = 0; tap < shifts; tap++) {
                if (vector == VY ? !meets(line, ux, columns, sx, dx) : !meets(line, uy, rows, sy, dy))
                    continue;
                const int row = vector == VY ? (o[VY] + block) * LANES * sy : o[VY] * sy + line;
                const int column = vector == VX ? (o[VX] + block) * LANES * sx : o[VX] * sx + line;
                const long first = g * w->group_step + (o[VN] + n) * w->image_step + (o[VK] + k) * w->map_step +
                                   (row + ty * dy) * w->line_step[0] + (column + tx * dx) * w->line_step[1];
                const int y = vector == VY ? block * loads : line, x = vector == VX ? block * loads : line;
                const int lines = vector == VY ? across : down, blocks = vector == VY ? uy : ux;
                shuffle_lanes(&shifted[(((n * uk + k) * lines + line) * blocks + block) * shifts + tap],
                              &inputs[((n * uk + k) * down + y) * across + x], vector == VY ? across : 1, loads,
                              (int)(first % LANES) + tap * (vector == VY ? dy : dx), vector == VY ? sy : sx);
            }

            /* The register tile of sums. */
            i = 0;
            for (int n = 0; n < un; n++)
            for (int c = 0; c < uc; c++)
            for (int y = 0; y < uy; y++)
            for (int x = 0; x < ux; x++, i++) {
                const long plane = ((long)g * w->padded[VN] + o[VN] + n) * w->padded[VC] + o[VC] + c;
                const long at = (plane * w->padded[VY] + o[VY] + y) * w->padded[VX] + o[VX] + x;
                if (!(kept && turn))
                    load_sums(&sums[i], &laid_sums[at * LANES]);
            }
            /* All sums take turns: one multiplication of each, then the next of each. */
            for (int k = 0; k < uk; k++)
            for (int ky = 0; ky < rows; ky++)
            for (int kx = 0; kx < columns; kx++) {
                i = 0;
#pragma GCC unroll 64
                for (int n = 0; n < un; n++)
#pragma GCC unroll 64
                for (int c = 0; c < uc; c++)
#pragma GCC unroll 64
                for (int y = 0; y < uy; y++)
#pragma GCC unroll 64
                for (int x = 0; x < ux; x++, i++) {
                    const int weight = ((c * uk + k) * rows + ky) * columns + kx;
                    const int row = y * sy + ky * dy, column = x * sx + kx * dx;
                    vector_counts.macs++;
                    if (vector == VC) { /* a value times a vector of weights */
                        const long at = g * w->group_step + (o[VN] + n) * w->image_step +
                                        (o[VK] + k) * w->map_step +
                                        (o[VY] * sy + ty * dy + row) * w->line_step[0] +
                                        (o[VX] * sx + tx * dx + column) * w->line_step[1];
                        sums[i] += __builtin_convertvector(weights[weight], sums_t) * (sum_t)laid_input[at];
                        continue;
                    }
                    const int lines = vector == VY ? across : down, blocks = vector == VY ? uy : ux;
                    const int line = vector == VY ? column : row, block = vector == VY ? y : x;
                    const int tap = vector == VY ? ky : kx;
                    const vector_t *input =
                        shifts ? &shifted[(((n * uk + k) * lines + line) * blocks + block) * shifts + tap]
                               : &inputs[((n * uk + k) * down + row) * across + column];
                    if (vector == VK) {
                        sums[i] += __builtin_convertvector(*input, sums_t) *
                                   __builtin_convertvector(weights[weight], sums_t);
                        continue;
                    }
                    const long map = ((long)g * w->padded[VC] + o[VC] + c) * w->padded[VK] + o[VK] + k;
                    const long at = (map * w->kernel[0] + ty + ky) * w->kernel[1] + tx + kx;
                    sums[i] += __builtin_convertvector(*input, sums_t) * (sum_t)laid_weights[at];
                }
            }
            i = 0;
            for (int n = 0; n < un; n++)
            for (int c = 0; c < uc; c++)
            for (int y = 0; y < uy; y++)
            for (int x = 0; x < ux; x++, i++) {
                const long plane = ((long)g * w->padded[VN] + o[VN] + n) * w->padded[VC] + o[VC] + c;
                const long at = (plane * w->padded[VY] + o[VY] + y) * w->padded[VX] + o[VX] + x;
                if (!kept || turn == trips[pipelined] - 1)
                    store_sums(&laid_sums[at * LANES], &sums[i]);
            }
        }
    }
}

#pragma GCC diagnostic pop

/* Whether a tile has the whole body. */
static inline int is_whole(const work_t *w, int un, int uc, int uy, int ux, int uk)
{
    const int u[DIMENSIONS] = {un, uc, uy, ux, uk};
    return !memcmp(w->unroll, u, sizeof u);
}

#endif
