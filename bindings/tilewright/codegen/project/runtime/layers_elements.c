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

