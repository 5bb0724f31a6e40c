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
