/* Operations ------------------------------------------------------------------------------------------- */

/* A box of a tensor that lies somewhere: its first value, and how many values there are from one to the
   next. */
typedef struct {
    const unsigned char *values;
    long first;            /* where it begins */
    int map, row;          /* strides; a column is 1 */
    range_t rows, columns; /* that are there, in the plane of the input */
} view_t;

static int64_t input_value(const view_t *view, int map, int row, int column)
{
    const long i = (long)map * view->map + (long)(row - view->rows.begin) * view->row + column - view->columns.begin;
    return held_value(view->values, view->first, i);
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

static range_t cut(int begin, int step, int size)
{
    const range_t range = {begin, MIN(begin + step, size)};
    return range;
}

/* The first tile. */
static part_t first_part(const operation_t *o)
{
    const part_t part = {0, cut(0, o->step[0], o->maps), cut(0, o->step[1], o->rows), cut(0, o->step[2], o->columns), 0};
    return part;
}

/* Rows and columns of the inputs under the largest tile. */
static void largest_window(const operation_t *o, int extent[2])
{
    const int sizes[2] = {o->rows, o->columns};
    for (int axis = 0; axis < 2; axis++) {
        extent[axis] = 0;
        for (int first = 0; first < sizes[axis]; first += o->step[1 + axis]) {
            const int lines = length(window_lines(o, cut(first, o->step[1 + axis], sizes[axis]), axis));
            extent[axis] = MAX(extent[axis], lines);
        }
    }
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
            const unsigned char *const values = source->values;
            const long first = (long)image * source->maps * plane[0];
            for (int map = 0; map < source->maps; map++)
                for (int row = -border[0]; row < plane[0] + border[1]; row++)
                    for (int column = -border[2]; column < plane[1] + border[3]; column++) {
                        int64_t value = 0;
                        if (row >= 0 && row < plane[0] && column >= 0 && column < plane[1]) {
                            const long from = (first + (long)map * plane[0] + row) * plane[1] + column;
                            value = scaled(load(values, from * source->bits, source->bits), &source->scale);
                        }
                        store(to, written++ * bits, bits, value);
                    }
        }
}

