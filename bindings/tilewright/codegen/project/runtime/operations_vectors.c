/* Pools in vectors --------------------------------------------------------------------------------------- */

/* Maps of a pool are where images of a layer are: inputs and outputs have them. What lies beyond the plane, or
   beyond the tile, is no value that a result takes. */
static void lay_pool(const operation_run_t *r, const part_t *part, const work_t *w, element_t none)
{
    const operation_t *o = r->operation;
    const range_t rows = window_lines(o, part->rows, 0), columns = window_lines(o, part->columns, 1);
    const int top = o->whole ? 0 : part->rows.begin * o->stride[0] - o->before[0];
    const int left = o->whole ? 0 : part->columns.begin * o->stride[1] - o->before[1];
    for (long i = 0; i < LAID_INPUT; i++)
        laid_input[i] = none;
    for (int map = 0; map < length(part->maps); map++)
        for (int row = rows.begin; row < rows.end; row++)
            for (int column = columns.begin; column < columns.end; column++) {
                const long line = (long)map * r->extent[0] + row - rows.begin;
                const long i = line * length(columns) + column - columns.begin;
                laid_input[map * w->image_step + (row - top) * w->line_step[0] + (column - left) * w->line_step[1]] =
                    (element_t)held_value(memory, input_of_part(r, part, 0), i);
            }
}

/* Averages of parts of a window are loaded, scaled and stored at last; other results are stored already. */
static void end_pool(const operation_run_t *r, const part_t *part, const work_t *w)
{
    const operation_t *o = r->operation;
    const int again = inner_loop->in_parts && o->function == AVERAGE_POOL, vector = inner_loop->vector;
    const long to = output_of_part(r, part);
    for (int map = 0; map < w->size[VN]; map++)
        for (int y = 0; y < w->size[VY]; y++)
            for (int x = 0; x < w->size[VX]; x++) {
                const product_t found = (product_t)laid_sums[lane_of(w, vector, 0, map, 0, y, x)];
                const long i = ((long)map * o->step[1] + y) * o->step[2] + x;
                store(memory, to + i * OUTPUT_BITS, OUTPUT_BITS,
                      scaled(found * ((int64_t)1 << o->aligned[0]), &o->scale));
            }
    const long outputs = (long)w->extent[VN] * w->extent[VY] * w->extent[VX];
    vector_counts.loads += again ? outputs : 0;
    vector_counts.stores += again ? outputs : 0;
}

static void compute_pool(const operation_run_t *r, const part_t *part)
{
    const operation_t *o = r->operation;
    const int size[DIMENSIONS] = {length(part->maps), 1, length(part->rows), length(part->columns), 1};
    const int *const kernel = o->whole ? o->plane : o->kernel, dilation[2] = {1, 1};
    const work_t w = work_on(inner_loop, 1, size, kernel, o->stride, dilation);
    const element_t least = (element_t)(-((int64_t)1 << (OUTPUT_BITS - 2)) * 2);
    const element_t none = o->function == MAX_POOL ? least : 0;
    lay_pool(r, part, &w, none);
    if (inner_loop->in_parts)
        begin_sums(&w, none);
    inner_loop->run(&w);
    end_pool(r, part, &w);
}

