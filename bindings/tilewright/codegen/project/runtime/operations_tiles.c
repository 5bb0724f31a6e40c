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
        const long to = input_of_part(r, now, i);
        rows.begin = first;
        if (below) {
            const int end = MIN(MAX(first, old.end), rows.end);
            for (int map = 0; map < length(now->maps); map++)
                move(memory, to + map * held * OUTPUT_BITS, memory,
                     input_of_part(r, before, i) + (map * held + (first - old.begin) * width) * OUTPUT_BITS,
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
#ifdef LANES /* pools have inner loops as planned */
    if (inner_loop) {
        compute_pool(r, part);
        return;
    }
#endif
    const operation_t *o = r->operation;
    view_t views[MOST_INPUTS];
    for (int i = 0; i < o->input_count; i++) {
        views[i].values = memory;
        views[i].first = input_of_part(r, part, i);
        views[i].rows = window_lines(o, part->rows, 0);
        views[i].columns = window_lines(o, part->columns, 1);
        views[i].row = length(views[i].columns);
        views[i].map = r->extent[0] * views[i].row;
    }
    const long to = output_of_part(r, part);
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
                                  memory, output_of_part(r, part), &b);
}

void run_operation(const operation_t *operation, const unsigned char *const inputs[], unsigned char *output)
{
    const operation_t *o = operation;
    operation_run_t run = {.operation = o, .inputs = inputs, .output = output};
    largest_window(o, run.extent);
    run.input_bits = (long)o->step[0] * run.extent[0] * run.extent[1] * OUTPUT_BITS;
    run.copy_bits = o->input_count * run.input_bits + (long)o->step[0] * o->step[1] * o->step[2] * OUTPUT_BITS;
    part_t now = first_part(o), next;
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
