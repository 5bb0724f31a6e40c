#include "layers.h"

#include "bits.h"
#include "dma.h"
#include "numbers.h"

/* The memory on chip: as much as the plan takes of it, for all layers and operations in turn. */
ON_CHIP static unsigned char memory[MEMORY_BYTES];

/* Numbers ---------------------------------------------------------------------------------------------- */

static int64_t scaled(int64_t value, const scale_t *scale)
{
    return rescaled(scale->relu ? MAX(value, 0) : value, scale->shift, scale->divisor, scale->bits);
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

static int length(range_t range)
{
    return range.end - range.begin;
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

/* Computation ------------------------------------------------------------------------------------------ */

typedef struct {
    long input, weights;  /* bits of the memory before them */
    range_t down, across; /* kernel rows and columns that meet input */
    int row, column;      /* of the first of them, in the buffer */
    int maps;
    long map, weights_map; /* elements from an input map to the next, of input and weights */
} window_t;

/* Add up the products of a window, as an accumulator does: whatever its bits, what counts is kept. */
static sum_t window_sum(const run_t *r, const window_t *w)
{
    const layer_t *l = r->layer;
    sum_t sum = 0;
    for (int k = 0; k < w->maps; k++)
        for (int ky = w->down.begin; ky < w->down.end; ky++) {
            const long row = w->row + (long)ky * l->dilation[0];
            const long values = k * w->map + row * r->extent[1] + w->column;
            const long weights = k * w->weights_map + (long)ky * l->kernel[1];
            for (int kx = w->across.begin; kx < w->across.end; kx++) {
                const long i = values + (long)kx * l->dilation[1];
                const product_t value = (product_t)load(memory, w->input + i * INPUT_BITS, INPUT_BITS);
                sum += (sum_t)(value *
                               (product_t)load(memory, w->weights + (weights + kx) * WEIGHT_BITS, WEIGHT_BITS));
            }
        }
    return sum;
}

/* The kernel rows or columns that meet input, of a window that begins at a line. */
static range_t meeting(int first, range_t lines, int kernel, int dilation)
{
    range_t range = {0, kernel};
    while (range.begin < kernel && first + range.begin * dilation < lines.begin)
        range.begin++;
    while (range.end > range.begin && first + (range.end - 1) * dilation >= lines.end)
        range.end--;
    return range;
}

/* A complete sum as it is stored. */
static int64_t finished(const run_t *r, int64_t sum, int map)
{
    return scaled(sum + r->biases[map], &r->layer->scale);
}

static void compute(const run_t *r, const tile_t *tile)
{
    const layer_t *l = r->layer;
    const range_t g = span(l, tile, G), n = span(l, tile, N), c = span(l, tile, C), y = span(l, tile, Y);
    const range_t x = span(l, tile, X), k = span(l, tile, K);
    const range_t rows = present(l, tile, Y), columns = present(l, tile, X);
    const int top = under(l, tile, Y).begin, left = under(l, tile, X).begin;
    const int whole = l->reuse == KEEP_WEIGHTS, window = l->kernel[0] * l->kernel[1];
    const int held_maps = whole ? l->size[C] : l->step[C], held_deep = whole ? l->size[K] : l->step[K];
    const long outputs = copy_of(r, OUT, tile);
    window_t w = {.maps = length(k), .map = (long)r->extent[0] * r->extent[1], .weights_map = window};
    for (int ng = 0; ng < length(n) * length(g); ng++) {
        const int image = ng / length(g), group = ng % length(g);
        const long planes = ((long)image * l->step[G] + group) * l->step[K];
        w.input = copy_of(r, IN, tile) + planes * w.map * INPUT_BITS;
        for (int map = c.begin; map < c.end; map++) {
            const long kernel = ((long)group * held_maps + map - (whole ? 0 : c.begin)) * held_deep;
            w.weights = copy_of(r, W, tile) + (kernel + (whole ? k.begin : 0)) * window * WEIGHT_BITS;
            const long plane = ((long)image * l->step[G] + group) * l->step[C] + map - c.begin;
            for (int row = y.begin; row < y.end; row++) {
                w.down = meeting(row * l->stride[0], rows, l->kernel[0], l->dilation[0]);
                w.row = row * l->stride[0] - top;
                for (int column = x.begin; column < x.end; column++) {
                    w.across = meeting(column * l->stride[1], columns, l->kernel[1], l->dilation[1]);
                    w.column = column * l->stride[1] - left;
                    const long i = (plane * l->step[Y] + row - y.begin) * l->step[X] + column - x.begin;
                    const sum_t before = k.begin ? (sum_t)load(memory, outputs + i * SUM_BITS, SUM_BITS) : 0;
                    const int64_t sum = wrapped(before + window_sum(r, &w), l->accumulator_bits);
                    if (r->partly)
                        store(memory, outputs + i * SUM_BITS, SUM_BITS, sum);
                    else /* it was added up in a register */
                        store(memory, outputs + i * OUTPUT_BITS, OUTPUT_BITS,
                              finished(r, sum, (g.begin + group) * l->size[C] + map));
                }
            }
        }
    }
}

/* Turn complete sums into stored values, in the same place. */
static void finish(const run_t *r, const tile_t *tile)
{
    const layer_t *l = r->layer;
    const range_t g = span(l, tile, G), c = span(l, tile, C);
    const long plane = (long)l->step[Y] * l->step[X];
    const long from = copy_of(r, OUT, tile);
    for (int image = 0; image < length(span(l, tile, N)); image++)
        for (int group = g.begin; group < g.end; group++)
            for (int map = c.begin; map < c.end; map++) {
                const long first = ((long)image * l->step[G] + group - g.begin) * l->step[C] + map - c.begin;
                for (long i = first * plane; i < (first + 1) * plane; i++)
                    store(memory, from + i * OUTPUT_BITS, OUTPUT_BITS,
                          finished(r, load(memory, from + i * SUM_BITS, SUM_BITS), group * l->size[C] + map));
            }
}

/* Start to write the outputs of a tile, or the sums so far. */
static void put(run_t *r, const tile_t *tile)
{
    const layer_t *l = r->layer;
    long begin;
    if (tile->at[K] < trips(l, K) - 1) {
        const dma_box_t b = output_box(l, tile, SUM_BITS, &begin);
        r->puts[tile->copy[OUT]] =
            dma_put(PARTIAL_SUMS_OUT, r->partial, begin, memory, copy_of(r, OUT, tile), &b);
        return;
    }
    if (r->partly)
        finish(r, tile);
    const dma_box_t b = output_box(l, tile, OUTPUT_BITS, &begin);
    r->puts[tile->copy[OUT]] = dma_put(OUTPUT, r->output, begin, memory, copy_of(r, OUT, tile), &b);
}

/* Lay out the buffers: the copies of the outputs, of the weights and of the inputs. */
static void lay_out(run_t *r)
{
    const layer_t *l = r->layer;
    const int *step = l->step;
    for (int axis = 0; axis < 2; axis++)
        r->extent[axis] = (step[Y + axis] - 1) * l->stride[axis] + (l->kernel[axis] - 1) * l->dilation[axis] + 1;
    const int *held = l->reuse == KEEP_WEIGHTS ? l->size : step;
    const long groups = step[G], window = (long)l->kernel[0] * l->kernel[1];
    r->partly = trips(l, K) > 1;
    r->held[OUT] = groups * step[N] * step[C] * step[Y] * step[X] * (r->partly ? SUM_BITS : OUTPUT_BITS);
    r->held[W] = groups * held[C] * held[K] * window * WEIGHT_BITS;
    r->held[IN] = groups * step[N] * step[K] * r->extent[0] * r->extent[1] * INPUT_BITS;
    r->first[OUT] = 0;
    r->first[W] = r->first[OUT] + COPIES * r->held[OUT];
    r->first[IN] = r->first[W] + COPIES * r->held[W];
}

void run_layer(const layer_t *layer, const unsigned char *input, const unsigned char *weights,
               const int32_t *biases, unsigned char *partial, unsigned char *output)
{
    run_t run = {.layer = layer, .input = input, .weights = weights, .biases = biases, .partial = partial,
                 .output = output, .halo = halo_loop(layer)};
    tile_t now = {{0}, {0}}, next;
    lay_out(&run);
    fetch(&run, NULL, &now);
    for (int more = 1; more; now = next) {
        next = now;
        more = advance(layer, &next);
        dma_wait(run.gets);
        if (more && COPIES == 2) /* transfers of the next tile run beside the computation of this one */
            fetch(&run, &now, &next);
        compute(&run, &now);
        if (!more || changes(layer, OUT, &now, &next))
            put(&run, &now);
        if (more && COPIES == 1)
            fetch(&run, &now, &next);
    }
    dma_wait_all();
}

/* Operations ------------------------------------------------------------------------------------------- */

/* A box of a tensor that lies somewhere: its first value, and how many values there are from one to the
   next. */
typedef struct {
    const unsigned char *values;
    long first;            /* bits before the first value */
    int map, row;          /* strides; a column is 1 */
    range_t rows, columns; /* that are there, in the plane of the input */
} view_t;

static int64_t input_value(const view_t *view, int map, int row, int column)
{
    const long i = (long)map * view->map + (long)(row - view->rows.begin) * view->row + column - view->columns.begin;
    return load(view->values, view->first + i * OUTPUT_BITS, OUTPUT_BITS);
}

static int64_t pooled(const operation_t *o, const view_t *view, int map, int y, int x)
{
    const int top = y * o->stride[0] - o->before[0], left = x * o->stride[1] - o->before[1];
    int64_t found = o->function == MAX_POOL ? INT64_MIN : 0;
    for (int row = MAX(top, view->rows.begin); row < MIN(top + o->kernel[0], view->rows.end); row++)
        for (int column = MAX(left, view->columns.begin); column < MIN(left + o->kernel[1], view->columns.end);
             column++) {
            const int64_t value = input_value(view, map, row, column) * ((int64_t)1 << o->aligned[0]);
            found = o->function == MAX_POOL ? MAX(found, value) : found + value;
        }
    return found;
}

static int64_t operation_value(const operation_t *o, const view_t views[], int map, int y, int x)
{
    int64_t found = 0;
    if (o->function == MAX_POOL || o->function == AVERAGE_POOL)
        found = pooled(o, views, map, y, x);
    else
        for (int i = 0; i < o->input_count; i++)
            found += input_value(&views[i], map, y, x) * ((int64_t)1 << o->aligned[i]);
    return scaled(found, &o->scale);
}

/* The rows or columns of the inputs under some of the outputs. */
static range_t window_lines(const operation_t *o, range_t outputs, int axis)
{
    const int first = outputs.begin * o->stride[axis] - o->before[axis];
    const int last = (outputs.end - 1) * o->stride[axis] - o->before[axis] + o->kernel[axis];
    range_t lines = {o->whole ? 0 : MIN(MAX(0, first), o->plane[axis]), 0};
    lines.end = o->whole ? o->plane[axis] : MAX(lines.begin, MIN(o->plane[axis], last));
    return lines;
}

/* A tile of an operation: which part of the output it is, and where its buffers are. */
typedef struct {
    int image;
    range_t maps, rows, columns;
    int copy;
} part_t;

typedef struct {
    const operation_t *operation;
    const unsigned char *const *inputs;
    unsigned char *output;
    int extent[2];   /* rows and columns of the inputs under the largest tile */
    long copy_bits;  /* of all buffers, once */
    long input_bits; /* of one input */
    dma_ticket_t gets, puts[2];
} operation_run_t;

/* Where the buffers of a tile begin: bits of the memory before them. */
static long input_of(const operation_run_t *r, const part_t *part, int input)
{
    return part->copy * r->copy_bits + input * r->input_bits;
}

static long output_of(const operation_run_t *r, const part_t *part)
{
    return input_of(r, part, r->operation->input_count);
}

static range_t cut(int begin, int step, int size)
{
    const range_t range = {begin, MIN(begin + step, size)};
    return range;
}

/* Go on to the next tile: rows first, then columns, maps, images; false at the end. */
static int next_part(const operation_t *o, part_t *part)
{
    part->rows = cut(part->rows.end, o->step[1], o->rows);
    if (part->rows.begin == o->rows) {
        part->rows = cut(0, o->step[1], o->rows);
        part->columns = cut(part->columns.end, o->step[2], o->columns);
    }
    if (part->columns.begin == o->columns) {
        part->columns = cut(0, o->step[2], o->columns);
        part->maps = cut(part->maps.end, o->step[0], o->maps);
    }
    if (part->maps.begin == o->maps) {
        part->maps = cut(0, o->step[0], o->maps);
        part->image++;
    }
    return part->image < o->images;
}

/* Start to get the inputs of a tile; rows that the one before has stay on chip, if it lies above. */
static void fetch_part(operation_run_t *r, const part_t *before, part_t *now)
{
    const operation_t *o = r->operation;
    const range_t columns = window_lines(o, now->columns, 1);
    range_t rows = window_lines(o, now->rows, 0);
    const int first = rows.begin;
    now->copy = before && COPIES == 2 ? 1 - before->copy : 0;
    const int below = before && before->image == now->image && before->maps.begin == now->maps.begin &&
                      before->columns.begin == now->columns.begin;
    const range_t old = before ? window_lines(o, before->rows, 0) : rows;
    const long width = length(columns), held = (long)r->extent[0] * width;
    for (int i = 0; i < o->input_count; i++) {
        const long to = input_of(r, now, i);
        rows.begin = first;
        if (below) {
            const int end = MIN(MAX(first, old.end), rows.end);
            for (int map = 0; map < length(now->maps); map++)
                move(memory, to + map * held * OUTPUT_BITS, memory,
                     input_of(r, before, i) + (map * held + (first - old.begin) * width) * OUTPUT_BITS,
                     (end - first) * width * OUTPUT_BITS);
            rows.begin = end;
        }
        if (length(rows) <= 0 || width == 0)
            continue;
        const int counts[5] = {1, 1, length(now->maps), length(rows), (int)width};
        const int local[5] = {1, 1, o->step[0], r->extent[0], (int)width};
        const int external[5] = {1, 1, o->maps, o->plane[0], o->plane[1]};
        const dma_box_t b = box(OUTPUT_BITS, counts, local, external);
        const long from = (((long)now->image * o->maps + now->maps.begin) * o->plane[0] + rows.begin) * o->plane[1];
        r->gets = dma_get(INPUT, memory, to + (rows.begin - first) * width * OUTPUT_BITS, r->inputs[i],
                          (from + columns.begin) * OUTPUT_BITS, &b);
    }
}

static void compute_part(const operation_run_t *r, const part_t *part)
{
    const operation_t *o = r->operation;
    view_t views[MOST_INPUTS];
    for (int i = 0; i < o->input_count; i++) {
        views[i].values = memory;
        views[i].first = input_of(r, part, i);
        views[i].rows = window_lines(o, part->rows, 0);
        views[i].columns = window_lines(o, part->columns, 1);
        views[i].row = length(views[i].columns);
        views[i].map = r->extent[0] * views[i].row;
    }
    const long to = output_of(r, part);
    for (int map = 0; map < length(part->maps); map++)
        for (int y = part->rows.begin; y < part->rows.end; y++)
            for (int x = part->columns.begin; x < part->columns.end; x++) {
                const long row = (long)map * o->step[1] + y - part->rows.begin;
                const long i = row * o->step[2] + x - part->columns.begin;
                store(memory, to + i * OUTPUT_BITS, OUTPUT_BITS, operation_value(o, views, map, y, x));
            }
}

static void store_part(operation_run_t *r, const part_t *part)
{
    const operation_t *o = r->operation;
    const int counts[5] = {1, 1, length(part->maps), length(part->rows), length(part->columns)};
    const int local[5] = {1, 1, o->step[0], o->step[1], o->step[2]};
    const int external[5] = {1, 1, o->maps, o->rows, o->columns};
    const dma_box_t b = box(OUTPUT_BITS, counts, local, external);
    const long to = ((long)part->image * o->maps + part->maps.begin) * o->rows + part->rows.begin;
    r->puts[part->copy] = dma_put(OUTPUT, r->output, (to * o->columns + part->columns.begin) * OUTPUT_BITS,
                                  memory, output_of(r, part), &b);
}

void run_operation(const operation_t *operation, const unsigned char *const inputs[], unsigned char *output)
{
    const operation_t *o = operation;
    operation_run_t run = {.operation = o, .inputs = inputs, .output = output};
    const int sizes[2] = {o->rows, o->columns};
    for (int axis = 0; axis < 2; axis++)
        for (int first = 0; first < sizes[axis]; first += o->step[1 + axis]) {
            const int lines = length(window_lines(o, cut(first, o->step[1 + axis], sizes[axis]), axis));
            run.extent[axis] = MAX(run.extent[axis], lines);
        }
    run.input_bits = (long)o->step[0] * run.extent[0] * run.extent[1] * OUTPUT_BITS;
    run.copy_bits = o->input_count * run.input_bits + (long)o->step[0] * o->step[1] * o->step[2] * OUTPUT_BITS;
    part_t now = {0, cut(0, o->step[0], o->maps), cut(0, o->step[1], o->rows), cut(0, o->step[2], o->columns), 0};
    part_t next;
    fetch_part(&run, NULL, &now);
    for (int more = 1; more; now = next) {
        next = now;
        more = next_part(o, &next);
        dma_wait(run.gets);
        if (more && COPIES == 2)
            fetch_part(&run, &now, &next);
        dma_wait(run.puts[now.copy]);
        compute_part(&run, &now);
        store_part(&run, &now);
        if (more && COPIES == 1)
            fetch_part(&run, &now, &next);
    }
    dma_wait_all();
}

void run_on_host(const operation_t *operation, const unsigned char *const inputs[], unsigned char *output)
{
    const operation_t *o = operation;
    view_t views[MOST_INPUTS];
    long to = 0;
    for (int image = 0; image < o->images; image++) {
        for (int i = 0; i < o->input_count; i++) {
            const int plane = o->plane[0] * o->plane[1];
            const view_t view = {inputs[i], (long)image * o->maps * plane * OUTPUT_BITS, plane, o->plane[1],
                                 {0, o->plane[0]}, {0, o->plane[1]}};
            views[i] = view;
        }
        for (int map = 0; map < o->maps; map++)
            for (int y = 0; y < o->rows; y++)
                for (int x = 0; x < o->columns; x++)
                    store(output, to++ * OUTPUT_BITS, OUTPUT_BITS, operation_value(o, views, map, y, x));
    }
}

void gather(const source_t *sources, int count, int images, const int plane[2], const int border[4],
            unsigned char *to, int bits)
{
    long written = 0;
    for (int image = 0; image < images; image++)
        for (int i = 0; i < count; i++) {
            const source_t *source = &sources[i];
            long from = (long)image * source->maps * plane[0] * plane[1];
            for (int map = 0; map < source->maps; map++)
                for (int row = -border[0]; row < plane[0] + border[1]; row++)
                    for (int column = -border[2]; column < plane[1] + border[3]; column++) {
                        int64_t value = 0;
                        if (row >= 0 && row < plane[0] && column >= 0 && column < plane[1])
                            value = scaled(load(source->values, from++ * source->bits, source->bits), &source->scale);
                        store(to, written++ * bits, bits, value);
                    }
        }
}
