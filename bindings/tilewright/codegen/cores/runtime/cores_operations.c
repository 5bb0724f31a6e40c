/* Operations on all cores ------------------------------------------------------------------------------ */

/* A tile lies in the memories of all cores, whose values are dealt out in turn; each core computes those outputs
   that lie in its own. */
static struct {
    const operation_t *operation;
    const unsigned char *const *inputs;
    part_t part;
    int extent;      /* rows of the inputs under the largest tile */
    long input_size; /* elements of one input */
} shared;

/* Keep the rows that a tile shares with the one above it: bring them to their place. Return how many. */
static int keep_rows(const part_t *before, int input, range_t rows, range_t old, int width)
{
    const part_t *now = &shared.part;
    if (!before || before->image != now->image || before->maps.begin != now->maps.begin ||
        before->columns.begin != now->columns.begin)
        return 0;
    const int kept = MIN(MAX(rows.begin, old.end), rows.end) - rows.begin;
    for (int map = 0; map < length(now->maps); map++)
        for (long i = 0; i < (long)kept * width; i++) {
            const long to = input * shared.input_size + (long)map * shared.extent * width + i;
            const int64_t value = held_value(NULL, to + (long)(rows.begin - old.begin) * width, 0);
            store(memories.input[to % CORES], to / CORES * OUTPUT_BITS, OUTPUT_BITS, value);
        }
    return kept;
}

static void load_part(const part_t *before, int input)
{
    const operation_t *o = shared.operation;
    const part_t *now = &shared.part;
    const range_t rows = window_lines(o, now->rows, 0), columns = window_lines(o, now->columns, 1);
    const int width = length(columns);
    const int kept = keep_rows(before, input, rows, before ? window_lines(o, before->rows, 0) : rows, width);
    const long fresh = length(rows) - kept, plane = (long)o->plane[0] * o->plane[1];
    const unsigned char *from = shared.inputs[input];
    const long first_map = (long)now->image * o->maps + now->maps.begin, place = input * shared.input_size;
    if (fresh * width == 0)
        return;
    if (o->whole) { /* a row of planes */
        const dma_run_t all = {OUTPUT_BITS, first_map * plane, length(now->maps) * plane};
        dma_deal(INPUT, memories.input, CORES, place, from, all);
        return;
    }
    for (int map = 0; map < length(now->maps); map++) {
        const long first = (first_map + map) * plane + (rows.begin + kept) * (long)o->plane[1] + columns.begin;
        const long behind = place + ((long)map * shared.extent + kept) * width;
        const int follow = width == o->plane[1]; /* whether rows follow each other */
        for (long row = 0; row < (follow ? 1 : fresh); row++) {
            const dma_run_t one = {OUTPUT_BITS, first + row * o->plane[1], follow ? fresh * width : width};
            dma_deal(INPUT, memories.input, CORES, behind + row * width, from, one);
        }
    }
}

static void store_part(unsigned char *output)
{
    const operation_t *o = shared.operation;
    const part_t *now = &shared.part;
    const long height = length(now->rows), width = length(now->columns);
    const long first_map = (long)now->image * o->maps + now->maps.begin;
    const int follow = width == o->columns;
    for (int map = 0; map < (o->whole ? 1 : length(now->maps)); map++)
        for (long row = 0; row < (follow ? 1 : height); row++) {
            const long first = ((first_map + map) * o->rows + now->rows.begin + row) * o->columns;
            const long count = o->whole ? length(now->maps) : follow ? height * width : width;
            const dma_run_t one = {OUTPUT_BITS, first + now->columns.begin, count};
            dma_collect(OUTPUT, output, one, memories.output, CORES, (map * height + row) * width);
        }
}

static void compute_share(int core)
{
    const operation_t *o = shared.operation;
    const part_t *now = &shared.part;
    const long width = length(now->columns), plane = length(now->rows) * width, count = length(now->maps) * plane;
    view_t views[MOST_INPUTS];
    for (int i = 0; i < o->input_count; i++) {
        views[i].values = NULL;
        views[i].first = i * shared.input_size;
        views[i].rows = window_lines(o, now->rows, 0);
        views[i].columns = window_lines(o, now->columns, 1);
        views[i].row = length(views[i].columns);
        views[i].map = shared.extent * views[i].row;
    }
    for (long i = core; i < count; i += CORES) {
        const int y = now->rows.begin + (int)(i % plane / width), x = now->columns.begin + (int)(i % width);
        store(memories.output[core], i / CORES * OUTPUT_BITS, OUTPUT_BITS,
              operation_value(o, views, (int)(i / plane), y, x));
    }
    /* All cores together do so many operations in a cycle. */
    cycles_of[core] = (count * o->work + VECTOR_OPS_PER_CYCLE - 1) / VECTOR_OPS_PER_CYCLE;
}

void run_operation(const operation_t *operation, const unsigned char *const inputs[], unsigned char *output)
{
    const operation_t *o = operation;
    int extent[2];
    start_cores();
    largest_window(o, extent);
    shared.operation = o;
    shared.inputs = inputs;
    shared.extent = extent[0];
    shared.input_size = (long)o->step[0] * extent[0] * extent[1];
    part_t now = first_part(o), before = now;
    for (int more = 1, first = 1; more; first = 0) {
        shared.part = now;
        for (int i = 0; i < o->input_count; i++)
            load_part(first ? NULL : &before, i);
        compute_on_cores(compute_share);
        store_part(output);
        before = now;
        more = next_part(o, &now);
    }
}
