/* Layers ----------------------------------------------------------------------------------------------- */

/* The tile of a TLE in a step. */
typedef struct {
    int active; /* whether there is one */
    int image, group;
    int lane;                    /* its number along the filters of each core */
    range_t maps, rows, columns; /* of the input; of the output */
    int new_weights;             /* whether they are loaded */
} tile_t;

enum { M, N, R, C }; /* of a layer's `step` and `tiles` */

static struct {
    const layer_t *layer;
    const unsigned char *input, *weights;
    const int32_t *biases;
    unsigned char *output;
    tile_t tile[TLES];
} run;

static range_t tile_of(int number, int step, range_t all)
{
    const range_t range = {MIN(all.begin + number * step, all.end), MIN(all.begin + (number + 1) * step, all.end)};
    return range;
}

/* Filters of a core in a tile. */
static range_t filters_of(const tile_t *t, int tle, int tlt)
{
    return tile_of(t->lane, run.layer->step[M], run.layer->shares[tle].filters[tlt]);
}

/* Rows or columns of the input under those of the output. */
static range_t under(range_t outputs, int axis)
{
    const layer_t *l = run.layer;
    const int extent = (l->kernel[axis] - 1) * l->dilation[axis] + 1;
    const range_t range = {outputs.begin * l->stride[axis], (outputs.end - 1) * l->stride[axis] + extent};
    return range;
}

static int is_whole(const tile_t *t)
{
    return length(t->columns) == run.layer->columns;
}

/* Load the part of an input map under a tile; `place` is its number among those that lie there. */
static void load_plane(unsigned char *const to[], int memories, int place, long map, const tile_t *t)
{
    const range_t rows = under(t->rows, 0), columns = under(t->columns, 1);
    const long first = map * run.layer->plane[0] + rows.begin, width = run.layer->plane[1];
    const long behind = (long)place * length(rows) * length(columns);
    if (is_whole(t)) { /* rows follow each other */
        const dma_run_t all = {INPUT_BITS, first * width, length(rows) * width};
        dma_load(INPUT, to, memories, behind, run.input, all);
        return;
    }
    for (int row = 0; row < length(rows); row++) {
        const dma_run_t one = {INPUT_BITS, (first + row) * width + columns.begin, length(columns)};
        dma_load(INPUT, to, memories, behind + (long)row * length(columns), run.input, one);
    }
}

static void load_input(int tle, const tile_t *t)
{
    const layer_t *l = run.layer;
    unsigned char *to[TLTS];
    int busy = 0;
    for (int tlt = 0; tlt < TLTS; tlt++) {
        const range_t filters = filters_of(t, tle, tlt);
        if (length(filters) > 0)
            to[busy++] = memories.input[tle * TLTS + tlt];
        for (int filter = filters.begin; l->depthwise && filter < filters.end; filter++)
            load_plane(&to[busy - 1], 1, filter - filters.begin, (long)t->image * l->filters + filter, t);
    }
    for (int map = t->maps.begin; !l->depthwise && map < t->maps.end; map++) /* which the cores share */
        load_plane(to, busy, map - t->maps.begin, ((long)t->image * l->groups + t->group) * l->maps + map, t);
}

/* The input maps whose weights a core holds. */
static range_t held_maps(const tile_t *t)
{
    const range_t all = {0, run.layer->maps};
    return run.layer->weights_stay ? all : t->maps;
}

static void load_weights(int tle, const tile_t *t)
{
    const layer_t *l = run.layer;
    const range_t maps = held_maps(t);
    const long window = (long)l->kernel[0] * l->kernel[1], each = length(maps) * window;
    for (int tlt = 0; tlt < TLTS; tlt++) {
        const range_t filters = filters_of(t, tle, tlt);
        for (int filter = filters.begin; filter < filters.end; filter++) {
            const long map = ((long)t->group * l->filters + filter) * l->maps + maps.begin;
            const dma_run_t one = {WEIGHT_BITS, map * window, each};
            dma_load(WEIGHTS, &memories.weights[tle * TLTS + tlt], 1, (filter - filters.begin) * each, run.weights,
                     one);
        }
    }
}

static void store_output(int tle, const tile_t *t)
{
    const layer_t *l = run.layer;
    const long images = (long)t->image * l->groups + t->group, size = (long)length(t->rows) * length(t->columns);
    for (int tlt = 0; tlt < TLTS; tlt++) {
        const range_t filters = filters_of(t, tle, tlt);
        const unsigned char *from = memories.output[tle * TLTS + tlt];
        for (int filter = filters.begin; filter < filters.end; filter++) {
            const long row = (images * l->filters + filter) * l->rows + t->rows.begin;
            const long behind = (filter - filters.begin) * size;
            if (is_whole(t)) {
                const dma_run_t all = {OUTPUT_BITS, row * l->columns, size};
                dma_store(OUTPUT, run.output, all, from, behind);
                continue;
            }
            for (int y = 0; y < length(t->rows); y++) {
                const dma_run_t one = {OUTPUT_BITS, (row + y) * l->columns + t->columns.begin, length(t->columns)};
                dma_store(OUTPUT, run.output, one, from, behind + (long)y * length(t->columns));
            }
        }
    }
}

/* A complete sum as it is stored. */
static int64_t finished(int64_t sum, const tile_t *t, int filter)
{
    return scaled(sum + run.biases[(long)t->group * run.layer->filters + filter], &run.layer->scale);
}

/* Add up the products of a window, as an accumulator does: whatever its bits, what counts is kept. */
static sum_t window_sum(int core, long input, int width, long weights)
{
    const layer_t *l = run.layer;
    sum_t sum = 0;
    for (int ky = 0; ky < l->kernel[0]; ky++)
        for (int kx = 0; kx < l->kernel[1]; kx++) {
            const long i = input + (long)ky * l->dilation[0] * width + kx * l->dilation[1];
            const long j = weights + (long)ky * l->kernel[1] + kx;
            const product_t value = (product_t)load(memories.input[core], i * INPUT_BITS, INPUT_BITS);
            sum += (sum_t)(value * (product_t)load(memories.weights[core], j * WEIGHT_BITS, WEIGHT_BITS));
        }
    return sum;
}

/* Add an input map to the outputs of a core's filter, or, of a single map, finish them at once. */
static void add_map(int core, const tile_t *t, range_t filters, int filter, int map)
{
    const layer_t *l = run.layer;
    const int height = length(under(t->rows, 0)), width = length(under(t->columns, 1));
    const int place = filter - filters.begin;
    const range_t held = held_maps(t);
    const long input = (long)(l->depthwise ? place : map - t->maps.begin) * height * width;
    const long weights = ((long)place * length(held) + map - held.begin) * l->kernel[0] * l->kernel[1];
    unsigned char *const output = memories.output[core];
    long i = (long)place * length(t->rows) * length(t->columns);
    for (int y = 0; y < length(t->rows); y++)
        for (int x = 0; x < length(t->columns); x++, i++) {
            const long first = input + (long)y * l->stride[0] * width + x * l->stride[1];
            const sum_t before = map ? (sum_t)load(output, i * SUM_BITS, SUM_BITS) : 0;
            const sum_t sum = before + window_sum(core, first, width, weights);
            const int64_t kept = wrapped(sum, l->accumulator_bits);
            if (l->maps > 1)
                store(output, i * SUM_BITS, SUM_BITS, kept);
            else
                store(output, i * OUTPUT_BITS, OUTPUT_BITS, finished(kept, t, filter));
        }
}

/* What a core computes in a step. */
static void compute_tile(int core)
{
    const layer_t *l = run.layer;
    const tile_t *t = &run.tile[core / TLTS];
    cycles_of[core] = 0;
    if (!t->active)
        return;
    const range_t filters = filters_of(t, core / TLTS, core % TLTS);
    const long size = (long)length(t->rows) * length(t->columns), macs = size * l->kernel[0] * l->kernel[1];
    for (int map = t->maps.begin; map < t->maps.end; map++)
        for (int filter = filters.begin; filter < filters.end; filter++)
            add_map(core, t, filters, filter, map);
    for (long i = 0; l->maps > 1 && t->maps.end == l->maps && i < length(filters) * size; i++) /* in place */
        store(memories.output[core], i * OUTPUT_BITS, OUTPUT_BITS,
              finished(load(memories.output[core], i * SUM_BITS, SUM_BITS), t, filters.begin + (int)(i / size)));
    cycles_of[core] = (long)length(t->maps) * length(filters) * ((macs + MACS_PER_CYCLE - 1) / MACS_PER_CYCLE);
}

/* The loops over steps: images, groups, and tiles of filters, rows, columns and input maps. */
enum { LOOP_B, LOOP_G, LOOP_J, LOOP_R, LOOP_C, LOOP_N, LOOPS };

/* The tile of a TLE that a step is, if it has one. */
static tile_t tile_at(const int at[LOOPS], int tle)
{
    const layer_t *l = run.layer;
    const share_t *share = &l->shares[tle];
    const range_t maps = {0, l->maps}, columns = {0, l->columns};
    tile_t t = {0, at[LOOP_B], at[LOOP_G], at[LOOP_J], tile_of(at[LOOP_N], l->step[N], maps),
                tile_of(at[LOOP_R], l->step[R], share->rows), tile_of(at[LOOP_C], l->step[C], columns), 0};
    t.active = length(t.rows) > 0 && length(filters_of(&t, tle, 0)) > 0; /* the first core has most filters */
    t.new_weights = !l->weights_stay || (at[LOOP_R] == 0 && at[LOOP_C] == 0 && at[LOOP_N] == 0);
    return t;
}

/* Write back what is complete of the step before; then the next one's tile, or none, is that of the TLE. */
static void take_tile(int tle, const tile_t *next)
{
    tile_t *now = &run.tile[tle];
    if (now->active && now->maps.end == run.layer->maps)
        store_output(tle, now);
    *now = *next;
    if (!now->active)
        return;
    load_input(tle, now);
    if (now->new_weights)
        load_weights(tle, now);
}

void run_layer(const layer_t *layer, const unsigned char *input, const unsigned char *weights,
               const int32_t *biases, unsigned char *output)
{
    static const int orders[2][LOOPS] = {{LOOP_B, LOOP_G, LOOP_R, LOOP_C, LOOP_J, LOOP_N},
                                         {LOOP_B, LOOP_G, LOOP_J, LOOP_R, LOOP_C, LOOP_N}};
    const int *order = orders[layer->weights_stay];
    const int *tiles = layer->tiles;
    const int trips[LOOPS] = {layer->images, layer->groups, tiles[M], tiles[R], tiles[C], tiles[N]};
    static const tile_t none;
    int at[LOOPS] = {0};
    start_cores();
    run.layer = layer;
    run.input = input;
    run.weights = weights;
    run.biases = biases;
    run.output = output;
    for (int tle = 0; tle < TLES; tle++)
        run.tile[tle] = none;
    for (int loop = 0; loop >= 0;) {
        for (int tle = 0; tle < layer->share_count; tle++) {
            const tile_t next = tile_at(at, tle);
            take_tile(tle, &next);
        }
        compute_on_cores(compute_tile);
        for (loop = LOOPS - 1; loop >= 0 && ++at[order[loop]] == trips[order[loop]]; loop--)
            at[order[loop]] = 0;
    }
    for (int tle = 0; tle < layer->share_count; tle++)
        take_tile(tle, &none);
}

