#include "engine.h"

#include "dma.h"
#include VALUES /* floats.h or integers.h */

/* All that is on chip, as large as the plan says. */
#define DEFINED(name, bytes) ON_CHIP(name) unsigned char name[bytes];
MEMORIES(DEFINED)

/* A pass over a strip or tile, for some output and input channels: counters, no values. */
typedef struct {
    const step_t *step;
    int row_part, column_part;
    range_t block;  /* of output channels, if they are the outer loop */
    range_t inputs; /* of input channels */
    range_t terms;  /* of a product, or keys of attention, that pass by; none if none do */
    range_t groups, columns; /* of the product that is computed, which has so many columns for each */
    int pass, passes;
    int turn, job; /* with second buffers: blocks and passes before this one */
    int before[MOST_MAPS], ends[MOST_MAPS]; /* end of the pixels of each map that are there, before and after a pass */
} run_t;

/* What a function of several values takes off each of them, and multiplies it by. */
typedef struct {
    long base; /* the first of the values; -1 for none */
    value_t offset, factor;
} row_t;

/* What is computed at a time. */
typedef struct work {
    const run_t *run;
    const operation_t *operation;
    range_t channels;
    int first_unit; /* whose weights are the first on chip */
    row_t row;      /* the values that were taken together last, */
    pixel_t pixel;  /* and the pixel that was read last */
} work_t;

/* Places ----------------------------------------------------------------------------------------------- */

static int pixels_of(const tensor_t *tensor)
{
    return tensor->rows * tensor->columns;
}

/* The rows and columns that the strip or tile has of a map, and its pixels. */
static range_t rows_of(const run_t *r, int map)
{
    return r->step->rows[r->row_part * r->step->map_count + map];
}

static range_t columns_of(const run_t *r, int map)
{
    return r->step->columns_of[r->column_part * r->step->map_count + map];
}

static int length(range_t range)
{
    return range.end - range.begin;
}

static int pixels_there(const run_t *r, int map)
{
    return length(rows_of(r, map)) * length(columns_of(r, map));
}

/* The place of a pixel among those that are on chip. */
static long slot(const run_t *r, int m, int y, int x)
{
    const map_t *map = &r->step->maps[m];
    if (map->whole)
        return (long)y * map->tensor->columns + x;
    const range_t rows = rows_of(r, m), columns = columns_of(r, m);
    const long earlier = (long)r->turn * pixels_of(map->tensor);
    return (earlier + (long)(y - rows.begin) * length(columns) + x - columns.begin) % map->pixels;
}

/* The element at which a channel of a pixel lies, in a buffer that begins with some channel. */
static long place(const run_t *r, int m, int y, int x, int channel, int first)
{
    const map_t *map = &r->step->maps[m];
    const long pixel = slot(r, m, y, x) + (map->twice ? r->job % 2 * map->pixels : 0);
    channel -= map->begin;
    if (map->terms) { /* of each group those that pass by */
        int group = channel / map->terms;
        if (r->groups.begin) { /* fewer may stand for all groups, one after the other */
            const int groups = map->tensor->channels / map->terms;
            group = (group + groups - r->groups.begin % groups) % groups;
        }
        channel = group * map->room + channel % map->terms - r->terms.begin;
    }
    return map->address + (pixel * map->channels + channel - first) * map->apart;
}

static value_t element(long at)
{
    return element_of(chip(at), 0);
}

/* The channel of an operation's input at which a part begins. */
static int first_channel(const run_t *r, const operation_t *o, const part_t *part)
{
    return o->in_a_row ? part->first / pixels_of(r->step->maps[part->map].tensor) : part->first;
}

/* The channels of a part in the block that is on chip. */
static range_t held(const run_t *r, const operation_t *o, const part_t *part)
{
    const map_t *map = &r->step->maps[part->map];
    const range_t block = r->step->order == KERNELS && map->block ? r->block : r->inputs;
    const int first = first_channel(r, o, part);
    const range_t found = {MAX(0, block.begin - first), MIN(part->channels, block.end - first)};
    return found;
}

/* The channel of a part with which its buffer begins. */
static int first_held(const work_t *w, const part_t *part)
{
    return w->run->step->maps[part->map].block ? held(w->run, w->operation, part).begin : 0;
}

/* Operands --------------------------------------------------------------------------------------------- */

/* A channel, row and column of a map, or of an operand. */
typedef struct {
    int c, y, x;
} point_t;

/* What a part has at a channel, row and column of an operand. */
static point_t in_map(const tensor_t *t, const part_t *part, int c, int y, int x)
{
    point_t found = {c / part->copies[0], (y - part->row) / part->copies[1], (x - part->column) / part->copies[2]};
    if (part->height) {
        const long value = ((long)found.c * part->height + found.y) * part->width + found.x;
        const int pixel = (int)(value % pixels_of(t));
        found.c = (int)(value / pixels_of(t));
        found.y = pixel / t->columns;
        found.x = pixel % t->columns;
    }
    found.c += part->begin;
    return found;
}

/* The element at which a channel of a row and column of an operand lies that a part has. */
static long located(const work_t *w, const part_t *part, int c, int y, int x)
{
    const point_t at = in_map(w->run->step->maps[part->map].tensor, part, c, y, x);
    return place(w->run, part->map, at.y, at.x, at.c, first_held(w, part));
}

static int has(const part_t *part, int y, int x)
{
    return y >= part->row && y < part->row + part->rows && x >= part->column && x < part->column + part->columns;
}

/* A value of an operand. */
static value_t read_at(const work_t *w, const operand_t *from, int c, int y, int x)
{
    const part_t *part = from->parts;
    while (!has(part, y, x))
        part++;
    return as_read(part, element(located(w, part, c, y, x)));
}

/* The place of a value in the order [channels][rows][columns]. */
static point_t point_of(const operand_t *from, long value)
{
    const int pixels = from->rows * from->columns, pixel = (int)(value % pixels);
    const point_t found = {(int)(value / pixels), pixel / from->columns, pixel % from->columns};
    return found;
}

static value_t read_value(const work_t *w, const operand_t *from, long value)
{
    const point_t at = point_of(from, value);
    return read_at(w, from, at.c, at.y, at.x);
}

/* The operand that has a channel of all of them, which becomes its channel. */
static const operand_t *operand_of(const work_t *w, int *channel)
{
    const operand_t *from = w->operation->operands;
    while (*channel - from->first >= from->channels)
        from++;
    *channel -= from->first;
    return from;
}

static value_t read_joined(const work_t *w, int c, int y, int x)
{
    const operand_t *from = operand_of(w, &c);
    return read_at(w, from, c, y, x);
}

/* Weights ---------------------------------------------------------------------------------------------- */

/* The weights that an output channel has for an input channel. */
static int taps(const run_t *r, const operation_t *o)
{
    return o->in_a_row ? pixels_of(r->step->maps[o->parts[0].map].tensor) : o->kernel[0] * o->kernel[1];
}

/* The elements of a unit that are on chip: of blocks of input channels, the first one has the bias. */
static long row_of(const run_t *r, const operation_t *o)
{
    if (r->step->channels >= r->step->depth)
        return o->each;
    return (r->inputs.begin ? 0 : o->has_bias) + (long)length(r->inputs) * taps(r, o);
}

/* Where weights are on chip: every other block of them in the second buffer. */
static long weights_at(const run_t *r, const operation_t *o)
{
    const long block = MIN(o->weight_count, MIN(r->step->kernels, o->units) * o->each);
    return o->address + (o->kept ? 0 : r->turn % 2 * block);
}

/* The element of a unit with which what there is of it for some input channels begins. */
static long first_weight(const run_t *r, const operation_t *o)
{
    return r->inputs.begin ? o->has_bias + (long)r->inputs.begin * taps(r, o) : 0;
}

/* Where the weights of a unit are, for the input channels that are there. */
static long weights_of(const run_t *r, const operation_t *o, int unit, int first_unit)
{
    if (o->stays)
        return o->address + unit * o->each + first_weight(r, o);
    return weights_at(r, o) + (unit - first_unit) * row_of(r, o);
}

static void load_weights(const run_t *r, const operation_t *o, range_t units)
{
    if (o->stays)
        return;
    const long row = row_of(r, o), to = weights_at(r, o);
    if (row == o->each) {
        const long begin = MIN(units.begin * o->each, o->weight_count);
        const long end = MIN(units.end * o->each, o->weight_count);
        if (begin < end)
            dma_load(chip(to), o->weights + begin * ELEMENT_BYTES, (end - begin) * ELEMENT_BYTES);
        return;
    }
    const long first = first_weight(r, o);
    for (int k = units.begin; k < units.end; k++)
        dma_load(chip(to + (k - units.begin) * row), o->weights + (k * o->each + first) * ELEMENT_BYTES,
                 row * ELEMENT_BYTES);
}

/* Transfers -------------------------------------------------------------------------------------------- */

/* Move some pixels and channels of a map, as much at a time as lies side by side here and there. */
static void move_pixels(const run_t *r, int m, range_t pixels, range_t channels, int first, int saved)
{
    const map_t *map = &r->step->maps[m];
    const tensor_t *t = map->tensor;
    const range_t rows = rows_of(r, m), columns = columns_of(r, m);
    const int width = length(columns), count = length(channels), whole = count == t->channels && count == map->channels;
    /* What an earlier strip has saved is there. */
    const int fresh = saved && r->column_part ? r->step->columns_of[(r->column_part - 1) * r->step->map_count + m].end : 0;
    for (int p = pixels.begin, some; p < pixels.end; p += some) {
        const int y = rows.begin + p / width, x = columns.begin + p % width;
        if (x < fresh) {
            some = MIN(fresh, columns.end) - x;
            continue;
        }
        some = width == t->columns && !fresh ? pixels.end - p : MIN(pixels.end - p, columns.end - x);
        some = whole && map->apart == 1 ? MIN(some, (int)(map->pixels - slot(r, m, y, x))) : 1;
        const int each = map->apart == 1 ? count : 1;
        for (int c = channels.begin; c < channels.end; c += each) {
            unsigned char *inside = chip(place(r, m, y, x, c, first));
            unsigned char *outside = t->dram + (((long)y * t->columns + x) * t->channels + c) * ELEMENT_BYTES;
            const long bytes = (long)some * each * ELEMENT_BYTES;
            if (saved)
                dma_save(outside, inside, bytes);
            else
                dma_load(inside, outside, bytes);
        }
    }
}

/* Load some pixels that an operation reads, of a block only its own channels. */
static void load_block(const run_t *r, int map, range_t pixels)
{
    const step_t *s = r->step;
    const operation_t *o = &s->operations[s->operation_count - 1];
    for (int p = 0; p < o->part_count; p++) {
        const part_t *part = &o->parts[p];
        int known = part->map != map;
        for (int q = 0; q < p; q++)
            known |= o->parts[q].map == map && o->parts[q].first == part->first;
        const range_t own = held(r, o, part), channels = {part->begin + own.begin, part->begin + own.end};
        if (!known && own.begin < own.end)
            move_pixels(r, map, pixels, channels, own.begin, 0);
    }
}

/* Load what a pass reads, and the block of weights that begins with it. */
static void load_pass(const run_t *r)
{
    const step_t *s = r->step;
    if (s->order != PIXELS && !r->pass && !s->running)
        load_weights(r, &s->operations[0], r->block);
    if (s->order == TILES && s->channels >= s->depth && r->block.begin)
        return; /* what the tile reads is there */
    for (int m = 0; m < s->map_count; m++) {
        const int begin = s->maps[m].begin;
        const range_t fresh = {r->before[m], r->ends[m]}, all = {begin, begin + s->maps[m].channels};
        if (!s->maps[m].streamed || s->maps[m].terms)
            continue;
        if (s->maps[m].block)
            load_block(r, m, fresh);
        else
            move_pixels(r, m, fresh, all, 0, 0);
    }
}

/* Values ----------------------------------------------------------------------------------------------- */

/* Products of an output channel with a part, of which each value has a weight of its own, in a row. */
static sum_t connected(const work_t *w, const part_t *part, long weights)
{
    const run_t *r = w->run;
    const tensor_t *t = r->step->maps[part->map].tensor;
    const int pixels = pixels_of(t);
    const range_t channels = held(r, w->operation, part);
    const long first = part->first - (long)r->inputs.begin * pixels;
    sum_t sum = 0;
    for (int p = 0; p < pixels; p++)
        for (int c = channels.begin; c < channels.end; c++) {
            const long at = place(r, part->map, p / t->columns, p % t->columns, part->begin + c, first_held(w, part));
            sum += (sum_t)(as_read(part, element(at)) * element(weights + first + (long)c * pixels + p));
        }
    return sum;
}

/* Products of an output value with a part of the channels that its group reads; sums wrap around. */
static sum_t windowed(const work_t *w, const part_t *part, range_t group, long weights, int y, int x)
{
    const operation_t *o = w->operation;
    const tensor_t *t = w->run->step->maps[part->map].tensor;
    const int top = y * o->stride[0] - o->padding[0] - part->row, left = x * o->stride[1] - o->padding[1] - part->column;
    const range_t down = inside(top, o->dilation[0], o->kernel[0], t->rows);
    const range_t across = inside(left, o->dilation[1], o->kernel[1], t->columns);
    const int begin = MAX(group.begin, part->first), end = MIN(group.end, part->first + part->channels);
    const int window = o->kernel[0] * o->kernel[1];
    sum_t sum = 0;
    if (begin >= end)
        return 0;
    for (int ky = down.begin; ky < down.end; ky++)
        for (int kx = across.begin; kx < across.end; kx++) {
            const long from = place(w->run, part->map, top + ky * o->dilation[0], left + kx * o->dilation[1],
                                    part->begin + begin - part->first, first_held(w, part));
            const long weight = weights + (long)(begin - group.begin) * window + ky * o->kernel[1] + kx;
            for (int c = 0; c < end - begin; c++)
                sum += (sum_t)(as_read(part, element(from + c)) * element(weight + (long)c * window));
        }
    return sum;
}

/* Where the sum of an output value is until all input channels have been added, and its bits. */
static long sum_at(const work_t *w, int k, int y, int x)
{
    const run_t *r = w->run;
    const int last = r->step->map_count - 1;
    const range_t rows = rows_of(r, last), columns = columns_of(r, last);
    const long pixel = (long)(y - rows.begin) * length(columns) + x - columns.begin;
    const long at = pixel * MIN(r->step->kernels, w->operation->units) + k - w->channels.begin;
    return r->step->sums + at * SUM_ELEMENTS;
}

static int sum_bits(const operation_t *o)
{
    return o->sum_bits > 32 ? 64 : 32;
}

/* The sum of an output value over the input channels that have been there. */
static sum_t added(const work_t *w, int k, int y, int x, value_t *bias)
{
    const operation_t *o = w->operation;
    const run_t *r = w->run;
    const int deep = o->input_channels / o->groups;
    const int first = k / (r->step->maps[o->map].tensor->channels / o->groups) * deep;
    const range_t group = {MAX(first, r->inputs.begin), MIN(first + deep, r->inputs.end)};
    const int has_bias = o->has_bias && !r->inputs.begin;
    const long own = weights_of(r, o, k, w->first_unit);
    *bias = has_bias ? bias_of(o, element(own)) : 0;
    sum_t sum = o->bias_within ? (sum_t)*bias : 0;
    if (r->inputs.begin)
        sum += (sum_t)partial_of(chip(sum_at(w, k, y, x)), 0, sum_bits(o));
    for (int p = 0; p < o->part_count; p++)
        sum += o->in_a_row ? connected(w, &o->parts[p], own + has_bias)
                           : windowed(w, &o->parts[p], group, own + has_bias, y, x);
    return sum;
}

static value_t convolved(const work_t *w, int k, int y, int x)
{
    const operation_t *o = w->operation;
    value_t bias;
    const sum_t sum = added(w, k, y, x, &bias);
    return accumulated(o, sum) + (o->bias_within ? 0 : bias);
}

static value_t pooled(const work_t *w, int c, int y, int x)
{
    const operation_t *o = w->operation;
    const operand_t *from = operand_of(w, &c);
    const int top = y * o->stride[0] - o->padding[0], left = x * o->stride[1] - o->padding[1];
    const range_t down = inside(top, 1, o->kernel[0], from->rows);
    const range_t across = inside(left, 1, o->kernel[1], from->columns);
    value_t found = o->kind == MAX_POOL ? LEAST : 0;
    for (int ky = down.begin; ky < down.end; ky++)
        for (int kx = across.begin; kx < across.end; kx++) {
            const value_t value = read_at(w, from, c, top + ky, left + kx);
            found = o->kind == MAX_POOL ? MAX(found, value) : found + value;
        }
    return o->within ? found * (value_t)(o->kernel[0] * o->kernel[1]) / (value_t)(length(down) * length(across)) : found;
}

/* A sum or product; operands of a single pixel, or of fewer channels, have the same values again. */
static value_t combined(const work_t *w, int c, int y, int x)
{
    const operation_t *o = w->operation;
    value_t found = o->kind == MULTIPLY;
    for (int p = 0; p < o->operand_count; p++) {
        const operand_t *from = &o->operands[p];
        const value_t value = read_at(w, from, c % from->channels, y % from->rows, x % from->columns);
        found = o->kind == MULTIPLY ? found * value : found + value;
    }
    return found;
}

/* The number of an output value, channel by channel. */
static long number_of(const work_t *w, int c, int y, int x)
{
    const tensor_t *t = w->run->step->maps[w->operation->map].tensor;
    return (long)c * pixels_of(t) + y * t->columns + x;
}

static value_t copied(const work_t *w, int c, int y, int x)
{
    const operation_t *o = w->operation;
    if (!o->in_a_row)
        return read_joined(w, c, y, x);
    long rest = number_of(w, c, y, x), value = o->axes ? 0 : rest;
    for (int axis = o->axes - 1; axis >= 0; axis--) {
        value += rest % o->sizes[axis] * o->apart[axis];
        rest /= o->sizes[axis];
    }
    const operand_t *from = o->operands;
    while (value - from->first >= (long)from->channels * from->rows * from->columns)
        from++;
    return read_value(w, from, value - from->first);
}

/* Products, pixels, and functions of several values ------------------------------------------------------ */

#if FLOATS

/* The place of a value of the second matrix, channel by channel. */
static long second_value(const operation_t *o, int group, int column, int d)
{
    return o->transposed ? ((long)group * o->columns + column) * o->depth + d : ((long)group * o->depth + d) * o->columns + column;
}

/* Groups that share a second matrix. */
static int shared_by(const operation_t *o)
{
    return o->operands[1].parts->copies[0];
}

static range_t both(range_t one, range_t other)
{
    const int begin = MAX(one.begin, other.begin);
    const range_t found = {begin, MAX(begin, MIN(one.end, other.end))};
    return found;
}

/* What is loaded of a part at a time. */
static block_t block_of(const run_t *r, const operation_t *o, const part_t *part)
{
    const int share = shared_by(o), scores = o->attention && !o->terms; /* whose columns are keys */
    const range_t every = {0, o->depth}, matrices = {r->groups.begin / share, r->groups.end / share};
    const block_t own = part->blocks, found = {both(matrices, own.matrices), both(scores ? r->terms : r->columns, own.columns),
                                               both(scores ? every : r->terms, own.terms)};
    return found;
}

static long size_of(block_t block)
{
    return (long)length(block.matrices) * length(block.columns) * length(block.terms);
}

static int holds(range_t range, int value)
{
    return value >= range.begin && value < range.end;
}

/* Terms of a column that are loaded, of which term d lies at `zero` + d * `apart`. */
typedef struct {
    range_t terms;
    long zero, apart;
} column_t;

/* What is loaded of a column of a part, behind what is loaded of the parts before. */
static column_t column_of(const run_t *r, const operation_t *o, const part_t *part, int group, int column)
{
    const block_t b = block_of(r, o, part);
    const int matrix = group / shared_by(o);
    const range_t none = {0, 0};
    const long columns = length(b.columns), terms = length(b.terms), before_it = column - b.columns.begin;
    column_t found = {b.terms, o->operand + (matrix - b.matrices.begin) * columns * terms, o->by_term ? columns : 1};
    found.zero += o->by_term ? before_it : before_it * terms;
    found.zero -= b.terms.begin * found.apart;
    for (const part_t *before = o->operands[1].parts; before < part; before++)
        found.zero += size_of(block_of(r, o, before));
    if (!holds(b.matrices, matrix) || !holds(b.columns, column))
        found.terms = none;
    return found;
}

/* A value of the second matrices: of a block, or where it stays. */
static value_t second_at(const work_t *w, int group, int column, int d)
{
    const operation_t *o = w->operation;
    for (const part_t *part = o->operands[1].parts; part < o->parts + o->part_count; part++) {
        const column_t loaded = column_of(w->run, o, part, group, column);
        if (holds(loaded.terms, d))
            return element(loaded.zero + d * loaded.apart);
    }
    return read_value(w, &o->operands[1], second_value(o, group, column, d));
}

/* A value of the first matrix; where terms pass by, it is a map, or some of its channels. */
static value_t first_at(const work_t *w, int group, int d, int row, int y, int x)
{
    const operation_t *o = w->operation;
    const part_t *part = o->parts;
    if (o->terms)
        return element(place(w->run, part->map, y, x, part->begin + group * o->depth + d, 0));
    return o->in_a_row ? read_value(w, o->operands, ((long)group * o->depth + d) * o->rows + row)
                       : read_at(w, o->operands, group * o->depth + d, y, x);
}

/* Some terms of a row of the first matrix times those of a column of the second one. */
static value_t products(const work_t *w, int group, int column, range_t terms, int row, int y, int x)
{
    const operation_t *o = w->operation;
    const column_t loaded = column_of(w->run, o, o->operands[1].parts, group, column);
    value_t sum = 0;
    for (int d = terms.begin; d < terms.end; d++)
        sum += first_at(w, group, d, row, y, x)
               * (holds(loaded.terms, d) ? element(loaded.zero + d * loaded.apart) : second_at(w, group, column, d));
    return sum;
}

/* A row of the first matrix times a column of the second one. */
static value_t multiplied(const work_t *w, int c, int y, int x)
{
    const operation_t *o = w->operation;
    const long number = number_of(w, c, y, x);
    const range_t every = {0, o->depth};
    return products(w, (int)(number / o->rows / o->columns), (int)(number / o->rows % o->columns), every, (int)(number % o->rows), y, x);
}

value_t channel_of(const pixel_t *pixel, int channel)
{
    return read_joined(pixel->work, channel, pixel->y, pixel->x);
}

/* A channel of a pixel, or what is computed of several. */
static value_t picked(work_t *w, int c, int y, int x)
{
    const operation_t *o = w->operation;
    const int number = y * w->run->step->maps[o->map].tensor->columns + x, columns = o->operands->columns;
    const int place = c * o->spread + number % o->spread, read = number / o->spread;
    pixel_t *pixel = &w->pixel;
    const int fresh = !pixel->work || pixel->y != read / columns || pixel->x != read % columns;
    pixel->work = w;
    pixel->y = read / columns;
    pixel->x = read % columns;
    if (o->share && fresh)
        o->share(pixel);
    return o->of_pixel ? o->of_pixel(pixel, place) : channel_of(pixel, o->picks[place]);
}

/* A value times the factor of its channel, and its summand. */
static value_t scaled(const work_t *w, int c, int y, int x)
{
    const operation_t *o = w->operation;
    const value_t value = read_joined(w, c, y, x);
    const long weights = weights_of(w->run, o, c, w->first_unit);
    return (o->each > o->has_summand ? value * element(weights + o->has_summand) : value) + (o->has_summand ? element(weights) : 0);
}

/* What several values have in common, of which there are so many. */
static row_t row_of_values(const work_t *w, long base, int count)
{
    const operation_t *o = w->operation;
    value_t most = LEAST, sum = 0, squares = 0;
    for (int i = 0; i < count; i++) {
        const value_t value = read_value(w, o->operands, base + (long)i * o->inner);
        most = MAX(most, value);
        sum += value;
    }
    const int softmax = o->kind == SOFTMAX || o->kind == LOG_SOFTMAX;
    const value_t offset = softmax ? most : o->kind == NORMALISE ? sum / (value_t)count : 0;
    sum = 0;
    for (int i = 0; i < count; i++) {
        const value_t value = read_value(w, o->operands, base + (long)i * o->inner) - offset;
        sum += softmax ? exp(value) : 0;
        squares += value * value;
    }
    const row_t row = {base, offset + (o->kind == LOG_SOFTMAX ? log(sum) : 0),
                       o->kind == SOFTMAX ? 1 / sum
                       : softmax          ? 1
                                          : 1 / sqrt(squares / (value_t)count + o->epsilon)};
    return row;
}

/* A function of several values, for one of them. */
static value_t of_row(work_t *w, int c, int y, int x)
{
    const operation_t *o = w->operation;
    const long number = number_of(w, c, y, x), place = number / o->inner % o->together, base = number - place * o->inner;
    const int seen = o->causal ? MIN(o->together, (int)(number % o->inner) + o->causal) : o->together;
    if (base != w->row.base)
        w->row = row_of_values(w, base, seen);
    if (place >= seen) /* later keys get nothing */
        return 0;
    const value_t value = read_value(w, o->operands, number) - w->row.offset;
    const value_t found = (o->kind == SOFTMAX ? exp(value) : value) * w->row.factor;
    if (!o->weight_count)
        return found;
    const long weights = weights_of(w->run, o, 0, 0);
    const int channels = w->run->step->maps[o->map].tensor->channels;
    return found * element(weights + c) + (o->has_summand ? element(weights + channels + c) : 0);
}

static value_t in_floats(work_t *w, int c, int y, int x)
{
    switch (w->operation->kind) {
    case PRODUCT:
        return multiplied(w, c, y, x);
    case PICK:
        return picked(w, c, y, x);
    case AFFINE:
        return scaled(w, c, y, x);
    default:
        return of_row(w, c, y, x);
    }
}

#else

static value_t in_floats(const work_t *w, int c, int y, int x)
{
    return copied(w, c, y, x); /* there are none */
}

#endif

/* Running values --------------------------------------------------------------------------------------- */

/* Whether a pass adds the first pixels, or the last ones: their plane stands for that of the last map. */
static int is_first(const run_t *r)
{
    return !r->column_part && !r->pass;
}

static int is_last(const run_t *r)
{
    return r->column_part == r->step->column_parts - 1 && r->pass == r->passes - 1;
}

/* The output channel with which the block of running values begins. */
static int first_running(const run_t *r)
{
    return r->step->order == KERNELS ? r->block.begin : 0;
}

static long running_at(const run_t *r, const operation_t *o, int channel)
{
    const int apart = o->kind == MAX_POOL ? 1 : SUM_ELEMENTS;
    return r->step->sums + (long)(channel - first_running(r)) * apart;
}

/* The weights of an output channel that a pass has, with the first pixels the bias before them. */
static long row_of_pixels(const run_t *r, const operation_t *o)
{
    const long plane = pixels_of(r->step->maps[o->parts[0].map].tensor);
    const long pixels = r->ends[o->map] - r->before[o->map];
    return is_first(r) * o->has_bias + (o->each - o->has_bias) / plane * pixels;
}

/* The pixels of a pass that lie side by side in their plane, from one of them on. */
static int side_by_side(const run_t *r, int m, int pixel)
{
    const range_t columns = columns_of(r, m);
    const int width = length(columns), left = r->ends[m] - pixel;
    return r->step->column_parts == 1 ? left : MIN(left, width - pixel % width);
}

static void load_weights_of_pixels(const run_t *r, const operation_t *o, range_t units)
{
    const tensor_t *t = r->step->maps[o->parts[0].map].tensor;
    const range_t columns = columns_of(r, o->map);
    const int width = length(columns), plane = pixels_of(t), depth = (int)((o->each - o->has_bias) / plane);
    long to = o->address;
    for (int k = units.begin; k < units.end; k++) {
        const unsigned char *from = o->weights + k * o->each * ELEMENT_BYTES;
        if (is_first(r) && o->has_bias)
            dma_load(chip(to++), from, ELEMENT_BYTES);
        for (int c = 0; c < depth; c++)
            for (int p = r->before[o->map], some; p < r->ends[o->map]; p += some) {
                const long pixel = (long)(p / width) * t->columns + columns.begin + p % width;
                some = side_by_side(r, o->map, p);
                dma_load(chip(to), from + (o->has_bias + (long)c * plane + pixel) * ELEMENT_BYTES,
                         (long)some * ELEMENT_BYTES);
                to += some;
            }
    }
}

/* What an output channel has of a part's channel: its products with weights, its sum, or the largest of all. */
static value_t with_pixels(const work_t *w, value_t value, const part_t *part, int channel, long weights)
{
    const run_t *r = w->run;
    const operation_t *o = w->operation;
    const range_t columns = columns_of(r, o->map);
    const int width = length(columns), begin = r->before[o->map];
    sum_t sum = (sum_t)value;
    for (int p = begin; p < r->ends[o->map]; p++) {
        const int y = p / width, x = columns.begin + p % width;
        const value_t read = as_read(part, element(place(r, part->map, y, x, part->begin + channel, first_held(w, part))));
        const long at = o->stays ? (long)y * r->step->maps[part->map].tensor->columns + x : p - begin;
        if (o->kind == CONV)
            sum += (sum_t)(read * element(weights + at));
        else
            value = o->kind == MAX_POOL ? MAX(value, read) : value + read;
    }
    return o->kind == CONV ? (value_t)sum : value;
}

/* An output channel's products with the pixels of a pass, and what has been added before; the bias comes first. */
static value_t connected_pixels(const work_t *w, int k, value_t value)
{
    const run_t *r = w->run;
    const operation_t *o = w->operation;
    const int plane = pixels_of(r->step->maps[o->parts[0].map].tensor);
    const int each = o->stays ? plane : r->ends[o->map] - r->before[o->map];
    long weights = o->address + (o->stays ? k * o->each : (k - w->first_unit) * row_of_pixels(r, o));
    if (is_first(r))
        value = o->has_bias ? bias_of(o, element(weights)) : 0;
    if (is_first(r) || o->stays)
        weights += o->has_bias;
    if (o->channelwise) {
        const operand_t *own = operand_of(w, &k);
        return with_pixels(w, value, own->parts, k, weights);
    }
    for (int p = 0; p < o->part_count; p++) {
        const part_t *part = &o->parts[p];
        const int first = first_channel(r, o, part);
        for (int c = 0; c < part->channels; c++)
            value = with_pixels(w, value, part, c, weights + (long)(first + c) * each);
    }
    return value;
}

static void save_running(const run_t *r, const operation_t *o, range_t channels)
{
    const map_t *map = &r->step->maps[o->map];
    for (int c = channels.begin; c < channels.end; c++)
        dma_save(map->tensor->dram + (long)c * ELEMENT_BYTES,
                 chip(place(r, o->map, 0, 0, c, map->whole ? 0 : first_running(r))), ELEMENT_BYTES);
}

/* Add the pixels of a pass to some running values; with the last ones the output is there. */
static void add_pixels(const run_t *r, const operation_t *o, range_t channels)
{
    const map_t *map = &r->step->maps[o->map];
    const work_t work = {.run = r, .operation = o, .channels = channels, .first_unit = channels.begin};
    if (o->weight_count && !o->stays)
        load_weights_of_pixels(r, o, channels);
    for (int k = channels.begin; k < channels.end; k++) {
        const long at = running_at(r, o, k);
        value_t value = is_first(r) ? (o->kind == MAX_POOL ? LEAST : 0) : partial_of(chip(at), 0, r->step->running);
        if (o->kind == CONV) {
            value = connected_pixels(&work, k, value);
        } else {
            int channel = k;
            const operand_t *from = operand_of(&work, &channel);
            value = with_pixels(&work, value, from->parts, channel, 0);
        }
        if (!is_last(r)) {
            put_partial(chip(at), 0, r->step->running, value);
            continue;
        }
        if (o->kind == CONV)
            value = accumulated(o, (sum_t)value);
        put_element(chip(place(r, o->map, 0, 0, k, map->whole ? 0 : first_running(r))), 0, finished(o, value));
    }
    if (map->written && is_last(r) && !r->step->doubled)
        save_running(r, o, channels);
}

/* Execution -------------------------------------------------------------------------------------------- */

static void save(const run_t *r, int map, range_t channels)
{
    const range_t pixels = {r->before[map], r->ends[map]};
    move_pixels(r, map, pixels, channels, r->step->maps[map].block ? channels.begin : 0, 1);
}

static value_t computed(work_t *w, int c, int y, int x)
{
    const operation_t *o = w->operation;
    const value_t value = o->kind >= PRODUCT                                ? in_floats(w, c, y, x)
                          : o->kind == CONV                                 ? convolved(w, c, y, x)
                          : o->kind == MAX_POOL || o->kind == AVERAGE_POOL ? pooled(w, c, y, x)
                          : o->kind == COPY                                ? copied(w, c, y, x)
                                                                           : combined(w, c, y, x);
    return finished(o, value);
}

/* Compute some channels of the pixels of a pass, with the weights of some units. */
static void compute_block(const run_t *r, const operation_t *o, range_t channels, range_t units)
{
    const map_t *map = &r->step->maps[o->map];
    const range_t rows = rows_of(r, o->map), columns = columns_of(r, o->map);
    const int width = length(columns), first = map->block ? channels.begin : 0;
    const int partial = r->inputs.end < r->step->depth;
    const int pixels = r->ends[o->map] - r->before[o->map], count = length(channels);
    work_t work = {.run = r, .operation = o, .channels = channels, .first_unit = units.begin, .row = {.base = -1}};
    for (long i = 0; i < (long)pixels * count; i++) {
        const int p = r->before[o->map] + (int)(o->by_channel ? i % pixels : i / count);
        const int c = channels.begin + (int)(o->by_channel ? i / pixels : i % count);
        const int y = rows.begin + p / width, x = columns.begin + p % width;
        value_t bias;
        if (partial)
            put_partial(chip(sum_at(&work, c, y, x)), 0, sum_bits(o), (value_t)added(&work, c, y, x, &bias));
        else
            put_element(chip(place(r, o->map, y, x, c, first)), 0, computed(&work, c, y, x));
    }
    if (map->written && !partial && !r->step->doubled)
        save(r, o->map, channels);
}

#if FLOATS

/* Second operands in blocks, and terms that pass by ------------------------------------------------------ */

/* Values that lie side by side in DRAM are loaded together. */
typedef struct {
    const unsigned char *from;
    long to, first, count;
} load_t;

static void load_more(load_t *l, long at)
{
    if (l->count && at != l->first + l->count) {
        dma_load(chip(l->to), l->from + l->first * ELEMENT_BYTES, l->count * ELEMENT_BYTES);
        l->to += l->count;
        l->count = 0;
    }
    if (!l->count++)
        l->first = at;
}

static void load_rest(load_t *l)
{
    if (l->count)
        load_more(l, -1);
    l->count = 0;
}

/* Load a block of the second matrices, part by part. */
static void load_second(const run_t *r, const operation_t *o)
{
    const operand_t *second = &o->operands[1];
    long to = o->operand;
    for (const part_t *part = second->parts; part < o->parts + o->part_count; part++) {
        const tensor_t *t = r->step->maps[part->map].tensor;
        const block_t b = block_of(r, o, part);
        load_t l = {t->dram, to, 0, 0};
        const range_t outer = o->by_term ? b.terms : b.columns, inner = o->by_term ? b.columns : b.terms;
        for (int m = b.matrices.begin; m < b.matrices.end; m++)
            for (int i = outer.begin; i < outer.end; i++)
                for (int j = inner.begin; j < inner.end; j++) {
                    const long value = second_value(o, m * shared_by(o), o->by_term ? j : i, o->by_term ? i : j);
                    const point_t from = point_of(second, value), at = in_map(t, part, from.c, from.y, from.x);
                    load_more(&l, ((long)at.y * t->columns + at.x) * t->channels + at.c);
                }
        load_rest(&l);
        to += size_of(b);
    }
}

/* Compute some of the channels that each group has. */
static void compute_groups(const run_t *r, const operation_t *o, int channels, range_t some)
{
    for (int g = r->groups.begin; g < r->groups.end; g++) {
        const range_t own = {g * channels + some.begin, g * channels + some.end};
        compute_block(r, o, own, own);
    }
}

/* Whether a product by itself adds up all terms at once. */
static int at_once(const operation_t *o)
{
    return !o->attention && o->terms >= o->depth;
}

/* The sum of a row, group and column; behind the columns of a context are a maximum, and the sum of exponentials. */
static long sum_of(const run_t *r, const operation_t *o, int p, int group, int column)
{
    const long row = (long)(p - r->before[o->map]) * length(r->groups) + group - r->groups.begin;
    const long number = row * (length(r->columns) + (o->attention ? 2 : 0)) + column - r->columns.begin;
    return o->sums + number * (at_once(o) ? 1 : SUM_ELEMENTS);
}

/* Take the exponentials of the keys' scores, and bring what has been added up to the new maximum. */
static void pass_scores(const run_t *r, const operation_t *o, const operation_t *context, int p, int y, int x)
{
    const int keys = context->depth, begins = !r->terms.begin;
    const int end = o->causal ? MIN(r->terms.end, p + o->causal) : r->terms.end; /* of what the row sees */
    for (int g = r->groups.begin; g < r->groups.end; g++) {
        const long most_at = sum_of(r, context, p, g, r->columns.end), total_at = most_at + SUM_ELEMENTS;
        const value_t before = begins ? LEAST : element(most_at);
        value_t most = before;
        for (int k = r->terms.begin; k < end; k++)
            most = MAX(most, element(place(r, o->parts[0].map, y, x, g * keys + k, 0)));
        const value_t less = begins ? 0 : exp(before - most);
        value_t total = begins ? 0 : element(total_at) * less;
        for (int v = r->columns.begin; v < r->columns.end; v++) {
            const long at = sum_of(r, context, p, g, v);
            put_element(chip(at), 0, begins ? 0 : element(at) * less);
        }
        for (int k = r->terms.begin; k < r->terms.end; k++) {
            const value_t power = k < end ? exp(element(place(r, o->parts[0].map, y, x, g * keys + k, 0)) - most) : 0;
            put_element(chip(place(r, o->map, y, x, g * keys + k, 0)), 0, power);
            total += power;
        }
        put_element(chip(most_at), 0, most);
        put_element(chip(total_at), 0, total);
    }
}

/* Where a result belongs, which may be the place of its sum. */
static long result_at(const run_t *r, const operation_t *o, int p, int y, int x, int group, int column)
{
    return r->step->maps[o->map].in_sums ? sum_of(r, o, p, group, column) : place(r, o->map, y, x, group * o->columns + column, 0);
}

/* Save the results of a row and group, together where they lie side by side. */
static void save_results(const run_t *r, const operation_t *o, int p, int y, int x, int group)
{
    const map_t *map = &r->step->maps[o->map];
    const tensor_t *t = map->tensor;
    const int each = map->in_sums && !at_once(o) && SUM_ELEMENTS > 1 ? 1 : length(r->columns);
    for (int v = r->columns.begin; map->written && v < r->columns.end; v += each) {
        const long to = ((long)y * t->columns + x) * t->channels + group * o->columns + v;
        const long from = result_at(r, o, p, y, x, group, v);
        dma_save(t->dram + to * ELEMENT_BYTES, chip(from), (long)each * ELEMENT_BYTES);
    }
}

/* Add the products of some terms to the sums of a row, which are those of a context until all keys have passed. */
static void add_terms(const run_t *r, const operation_t *o, int p, int y, int x)
{
    const work_t work = {.run = r, .operation = o};
    const int begins = !o->attention && !r->terms.begin, ends = !o->attention && r->terms.end == o->depth;
    for (int g = r->groups.begin; g < r->groups.end; g++) {
        for (int v = r->columns.begin; v < r->columns.end; v++) {
            const long at = sum_of(r, o, p, g, v);
            const value_t sum = (begins ? 0 : element(at)) + products(&work, g, v, r->terms, 0, y, x);
            put_element(chip(ends ? result_at(r, o, p, y, x, g, v) : at), 0, ends ? finished(o, sum) : sum);
        }
        if (ends)
            save_results(r, o, p, y, x, g);
    }
}

/* Divide the context of a row by the sums of exponentials. */
static void end_context(const run_t *r, const operation_t *o, int p, int y, int x)
{
    for (int g = r->groups.begin; g < r->groups.end; g++) {
        const value_t total = element(sum_of(r, o, p, g, r->columns.end + 1));
        for (int v = r->columns.begin; v < r->columns.end; v++)
            put_element(chip(result_at(r, o, p, y, x, g, v)), 0, finished(o, element(sum_of(r, o, p, g, v)) / total));
        save_results(r, o, p, y, x, g);
    }
}

/* Load the terms of rows that pass by, for the groups that have their own. */
static void load_rows(const run_t *r, const operation_t *o)
{
    if (at_once(o) && r->columns.begin)
        return; /* they are there */
    for (const part_t *part = o->parts; part < o->parts + o->part_count; part++) {
        const map_t *map = &r->step->maps[part->map];
        const range_t pixels = {r->before[o->map], r->ends[o->map]};
        if (part->blocks.matrices.end || !map->streamed || !map->terms)
            continue;
        for (int i = 0; i < map->channels / map->room; i++) {
            const int first = part->begin + (r->groups.begin + i) % (map->tensor->channels / map->terms) * map->terms;
            const range_t channels = {first + r->terms.begin, first + r->terms.end};
            move_pixels(r, part->map, pixels, channels, 0, 0);
        }
    }
}

/* Do what an operation does for the terms that pass by. */
static void compute_terms(const run_t *r, const operation_t *o, const operation_t *product)
{
    const range_t rows = rows_of(r, o->map), columns = columns_of(r, o->map);
    const int width = length(columns);
    load_rows(r, o);
    if (o->kind == PRODUCT)
        load_second(r, o);
    if (o->kind != SOFTMAX && o != product) {
        compute_groups(r, o, product->depth, r->terms);
        return;
    }
    for (int p = r->before[o->map]; p < r->ends[o->map]; p++) {
        const int y = rows.begin + p / width, x = columns.begin + p % width;
        if (o == product)
            add_terms(r, o, p, y, x);
        else
            pass_scores(r, o, product, p, y, x);
    }
}

/* Compute some columns of some groups of a product, or of a context with all that gives its exponentials. */
static void compute_tile(const run_t *r, const operation_t *product)
{
    const step_t *s = r->step;
    const int width = length(columns_of(r, product->map));
    const int last = r->ends[product->map] - 1; /* which sees the most keys */
    const int needed = product->causal ? MIN(product->depth, last + product->causal) : product->depth;
    run_t now = *r;
    for (now.terms.begin = 0; now.terms.begin < needed; now.terms.begin = now.terms.end) {
        now.terms.end = MIN(now.terms.begin + product->terms, needed);
        for (int i = 0; i < s->operation_count; i++)
            if (s->operations[i].attention == product->attention)
                compute_terms(&now, &s->operations[i], product);
    }
    for (int p = r->before[product->map]; product->attention && p < r->ends[product->map]; p++)
        end_context(r, product, p, rows_of(r, product->map).begin + p / width, columns_of(r, product->map).begin + p % width);
}

/* Compute a product for some columns of a matrix at a time, or for all: groups that share a matrix together. */
static void compute_columns(const run_t *r, const operation_t *o)
{
    const int all = o->terms && !o->in_tiles, share = all ? o->groups : shared_by(o), size = all ? o->columns : r->step->kernels;
    run_t now = *r;
    for (; now.groups.begin < o->groups; now.groups.begin = now.groups.end) {
        now.groups.end = now.groups.begin + share;
        for (now.columns.begin = 0; now.columns.begin < o->columns; now.columns.begin = now.columns.end) {
            now.columns.end = MIN(now.columns.begin + size, o->columns);
            now.terms.end = o->depth;
            if (o->terms) {
                compute_tile(&now, o);
            } else {
                load_second(&now, o);
                compute_groups(&now, o, o->columns, now.columns);
            }
        }
    }
}

/* Recurrent layers ------------------------------------------------------------------------------------- */

static value_t sigmoid(value_t value)
{
    return 1 / (1 + exp(-value));
}

/* Values of a state whose weights are on chip, of which those of the first lie at an address. */
typedef struct {
    range_t values;
    long address;
} gates_t;

/* The last weights of a value: of a GRU's candidate, of what the reset gate makes of the state. */
static long read_later(const operation_t *o)
{
    return o->kind == GRU && !o->reset_after ? o->hidden : 0;
}

/* Load the weights of some values of a state, all but those that are read later, or these. */
static void load_values(const operation_t *o, int direction, range_t values, int later)
{
    const long last = read_later(o), first = later ? o->of_value - last : 0, count = later ? last : o->of_value - last;
    for (int j = values.begin; j < values.end; j++) {
        const long from = ((long)direction * o->hidden + j) * o->of_value + first;
        const long to = o->address + (j - values.begin) * o->of_value + first;
        dma_load(chip(to), o->weights + from * ELEMENT_BYTES, count * ELEMENT_BYTES);
    }
}

/* The weights that a gate has of a value. */
static long gate_weights(const operation_t *o, const gates_t *g, int gate, int j)
{
    return g->address + (j - g->values.begin) * o->of_value + gate * (o->of_value / o->gates);
}

/* The value of a state, of cells, or of what a gate has given. */
static long state_at(const operation_t *o, int j)
{
    return o->state + j;
}

static long cell_at(const operation_t *o, int j)
{
    return o->state + o->hidden + j;
}

static long gate_at(const operation_t *o, int gate, int j)
{
    return o->state + (1L + (o->kind == LSTM) + gate) * o->hidden + j;
}

/* Products of a gate's weights with what is read at a point in time, and its bias. */
static value_t of_values(const work_t *w, const gates_t *g, int gate, int j, int t)
{
    const operation_t *o = w->operation;
    const long weights = gate_weights(o, g, gate, j);
    value_t sum = o->has_biases ? element(weights + o->features) : 0;
    for (int f = 0; f < o->features; f++) {
        const long value = o->reads_time_last ? (long)f * o->steps + t : (long)t * o->features + f;
        sum += read_value(w, o->operands, value) * element(weights + f);
    }
    return sum;
}

static value_t state_bias(const operation_t *o, const gates_t *g, int gate, int j)
{
    return o->has_biases ? element(gate_weights(o, g, gate, j) + o->features + 1) : 0;
}

/* Products of a gate's weights with a state, or with what a reset gate has made of it. */
static value_t of_state(const operation_t *o, const gates_t *g, int gate, int j, long state)
{
    const long weights = gate_weights(o, g, gate, j) + o->features + 2L * o->has_biases;
    value_t sum = 0;
    for (int k = 0; k < o->hidden; k++)
        sum += element(state + k) * element(weights + k);
    return sum;
}

/* Compute what gates give of some values: of a GRU's candidate all but what is read later. */
static void compute_gates(const work_t *w, const gates_t *g, int t)
{
    const operation_t *o = w->operation;
    const int smooth = o->kind == RNN ? 0 : o->kind == GRU ? 2 : 3;
    for (int gate = 0; gate < o->gates; gate++)
        for (int j = g->values.begin; j < g->values.end; j++) {
            const int candidate = o->kind == GRU && gate == 2;
            const value_t read = of_values(w, g, gate, j, t), bias = state_bias(o, g, gate, j);
            value_t value = read + bias;
            if (!candidate || o->reset_after) {
                const value_t back = of_state(o, g, gate, j, state_at(o, 0)) + bias;
                value = candidate ? read + element(gate_at(o, 1, j)) * back : read + back;
            }
            if (!candidate || o->reset_after)
                value = gate < smooth ? sigmoid(value) : tanh(value);
            put_element(chip(gate_at(o, gate, j)), 0, value);
        }
}

/* Complete the candidates of some values, whose reset gates have multiplied the state. */
static void compute_candidates(const operation_t *o, const gates_t *g)
{
    for (int j = g->values.begin; j < g->values.end; j++) {
        const value_t sum = element(gate_at(o, 2, j)) + of_state(o, g, 2, j, gate_at(o, 1, 0));
        put_element(chip(gate_at(o, 2, j)), 0, tanh(sum));
    }
}

/* Go through all values of a state, with the weights of some at a time. */
static void next_gates(const work_t *w, int direction, int t, int size)
{
    const operation_t *o = w->operation;
    const int there = o->kept || o->stays, loaded = !there && size < o->hidden;
    for (int later = 0; later <= (read_later(o) > 0); later++) {
        for (int j = 0; later && j < o->hidden; j++)
            put_element(chip(gate_at(o, 1, j)), 0, element(gate_at(o, 1, j)) * element(state_at(o, j)));
        for (gates_t g = {{0, 0}, o->address}; g.values.begin < o->hidden; g.values.begin = g.values.end) {
            g.values.end = MIN(g.values.begin + size, o->hidden);
            if (there)
                g.address = o->address + ((long)direction * o->hidden + g.values.begin) * o->of_value;
            if (loaded)
                load_values(o, direction, g.values, later);
            if (later)
                compute_candidates(o, &g);
            else
                compute_gates(w, &g, t);
        }
    }
}

/* Go on to the state of a point in time. */
static void next_state(const work_t *w, int direction, int t, int size)
{
    const operation_t *o = w->operation;
    next_gates(w, direction, t, size);
    for (int j = 0; j < o->hidden; j++) {
        const value_t first = element(gate_at(o, 0, j));
        value_t value = first;
        if (o->kind == GRU)
            value = (1 - first) * element(gate_at(o, 2, j)) + first * element(state_at(o, j));
        if (o->kind == LSTM) { /* gates: input, output, forget, candidate */
            const value_t cell = element(gate_at(o, 2, j)) * element(cell_at(o, j)) + first * element(gate_at(o, 3, j));
            put_element(chip(cell_at(o, j)), 0, cell);
            value = element(gate_at(o, 1, j)) * tanh(cell);
        }
        put_element(chip(state_at(o, j)), 0, value);
    }
}

/* Put a state where it is given. */
static void give_state(const run_t *r, const operation_t *o, int direction, int t)
{
    const map_t *map = &r->step->maps[o->map];
    const int pixels = pixels_of(map->tensor), width = map->tensor->columns;
    for (int j = 0; j < o->hidden; j++) {
        const long place_in_time = o->gives_time_last ? ((long)direction * o->hidden + j) * o->steps + t
                                                      : ((long)t * o->directions + direction) * o->hidden + j;
        const long number = o->every ? place_in_time : (long)direction * o->hidden + j;
        const int c = (int)(number / pixels), p = (int)(number % pixels);
        put_element(chip(place(r, o->map, p / width, p % width, c, 0)), 0, finished(o, element(state_at(o, j))));
    }
}

/* Compute all states, direction by direction, and save what is given. */
static void compute_states(const run_t *r, const operation_t *o)
{
    const work_t work = {.run = r, .operation = o};
    const range_t channels = {0, r->step->maps[o->map].tensor->channels}, all = {0, o->hidden};
    const int there = o->kept || o->stays, size = there ? o->hidden : MIN(r->step->kernels, o->hidden);
    for (int direction = 0; direction < o->directions; direction++) {
        const int back = o->backwards || direction;
        if (!there && size == o->hidden)
            for (int later = 0; later <= (read_later(o) > 0); later++)
                load_values(o, direction, all, later);
        for (int j = 0; j < (1 + (o->kind == LSTM)) * o->hidden; j++)
            put_element(chip(state_at(o, j)), 0, 0);
        for (int step = 0; step < o->steps; step++) {
            const int t = back ? o->steps - 1 - step : step;
            next_state(&work, direction, t, size);
            if (o->every || step == o->steps - 1)
                give_state(r, o, direction, t);
        }
    }
    if (r->step->maps[o->map].written)
        save(r, o->map, channels);
}

/* Compute a product in blocks, attention, or a recurrent layer; tell whether an operation is one. */
static int compute_in_blocks(const run_t *r, const operation_t *o)
{
    if (o->terms || (o->in_blocks && !o->attention))
        compute_columns(r, o);
    else if (o->kind >= LSTM)
        compute_states(r, o);
    return o->attention || o->in_blocks || o->kind >= LSTM;
}

#else

static int compute_in_blocks(const run_t *r, const operation_t *o)
{
    return r->step->operation_count && o->in_blocks; /* there are none */
}

#endif

/* The output channels of some units. */
static range_t channels_of(const run_t *r, const operation_t *o, range_t units)
{
    const range_t all = {0, r->step->maps[o->map].tensor->channels};
    return o->units == 1 ? all : units;
}

/* Compute the pixels of a pass. */
static void compute(const run_t *r, const operation_t *o)
{
    const range_t every = {0, o->units};
    const step_t *s = r->step;
    if (compute_in_blocks(r, o))
        return;
    if (s->running && o == &s->operations[s->operation_count - 1]) {
        const range_t all = s->order == KERNELS ? r->block : every;
        const int size = s->order == PIXELS && o->weight_count ? MIN(s->kernels, o->units) : length(all);
        for (range_t some = {all.begin, all.begin}; some.begin < all.end; some.begin = some.end) {
            some.end = MIN(some.begin + size, all.end);
            add_pixels(r, o, some);
        }
        return;
    }
    if (r->step->order != PIXELS) {
        compute_block(r, o, channels_of(r, o, r->block), r->block);
        return;
    }
    const int apart = o->units > 1 && o->weight_count && !o->kept;
    const int size = apart ? MIN(r->step->kernels, o->units) : o->units;
    for (range_t units = {0, size}; units.begin < every.end; units.begin = units.end, units.end += size) {
        units.end = MIN(units.end, every.end);
        if (!o->kept)
            load_weights(r, o, units);
        compute_block(r, o, channels_of(r, o, units), units);
    }
}

static void compute_pass(const run_t *r)
{
    for (int i = 0; i < r->step->operation_count; i++)
        if (r->before[r->step->operations[i].map] < r->ends[r->step->operations[i].map])
            compute(r, &r->step->operations[i]);
}

/* Save what a pass has computed. */
static void save_pass(const run_t *r)
{
    const step_t *s = r->step;
    for (int i = 0; i < s->operation_count; i++) {
        const operation_t *o = &s->operations[i];
        const range_t all = {0, o->units};
        if (s->running && i == s->operation_count - 1) {
            if (s->maps[o->map].written && is_last(r))
                save_running(r, o, all);
        } else if (s->maps[o->map].written)
            save(r, o->map, channels_of(r, o, s->order == PIXELS ? all : r->block));
    }
}

/* The last row or column of a part that an output reads, among those of its strip; -1 if it reads what lies before. */
static int last_read(const part_t *part, int axis, int output, range_t there)
{
    const int last = output * part->stride[axis] - part->before[axis] + part->extent[axis] - 1;
    return last < 0 ? -1 : MAX(0, MIN(length(there) - 1, last - there.begin));
}

/* The end of the pixels of a map that outputs before some pixel read, of which there are some. */
static int end_of(const run_t *r, const operation_t *o, const part_t *part, int pixel)
{
    if (part->whole)
        return pixels_there(r, part->map);
    if (o->spread > 1)
        return (pixel - 1) / o->spread + 1;
    const range_t rows = rows_of(r, o->map), columns = columns_of(r, o->map);
    const range_t down = rows_of(r, part->map), across = columns_of(r, part->map);
    const int row = rows.begin + (pixel - 1) / length(columns), column = columns.begin + (pixel - 1) % length(columns);
    const int low = last_read(part, 0, row, down), far = last_read(part, 1, column, across);
    const int own = low < 0 || far < 0 ? 0 : low * length(across) + far + 1;
    if (row == rows.begin)
        return own;
    /* Columns that strides leave out behind the last one are read by nobody. */
    const int high = last_read(part, 0, row - 1, down), end = MAX(0, last_read(part, 1, columns.end - 1, across)) + 1;
    return high < 0 ? own : MAX(own, high * length(across) + end);
}

/* The pixels of the last map that a pass computes. */
static int pixels_of_pass(const run_t *r)
{
    const step_t *s = r->step;
    const int last = s->map_count - 1, width = length(columns_of(r, last));
    if (s->order == TILES)
        return pixels_there(r, last);
    if (!s->columns)
        return s->pixels;
    return s->pixels < s->columns ? MIN(s->pixels, width) : s->pixels / s->columns * width;
}

/* Find how far a pass gets in every map: backwards from the last, and to the end of all in the last pass. */
static void find_ends(run_t *r)
{
    const step_t *s = r->step;
    const int last = s->map_count - 1, pixels = pixels_there(r, last), each = pixels_of_pass(r);
    r->passes = (pixels - 1) / each + 1;
    for (int m = 0; m < s->map_count; m++) {
        r->before[m] = r->pass ? r->ends[m] : 0;
        r->ends[m] = 0;
    }
    r->ends[last] = r->pass == r->passes - 1 ? pixels : (r->pass + 1) * each;
    for (int i = s->operation_count - 1; i >= 0; i--) {
        const operation_t *o = &s->operations[i];
        for (int p = 0; p < o->part_count; p++) {
            const int map = o->parts[p].map;
            if (o->parts[p].blocks.matrices.end)
                continue;
            const int needed = r->pass == r->passes - 1 ? pixels_there(r, map) : end_of(r, o, &o->parts[p], r->ends[o->map]);
            r->ends[map] = MAX(r->ends[map], needed);
        }
    }
}

/* Enter a pass. */
static void enter(run_t *r)
{
    const step_t *s = r->step;
    r->inputs.end = MIN(s->depth - r->inputs.begin, s->channels) + r->inputs.begin;
    r->block.end = MIN(r->block.begin + s->kernels, s->operations[0].units);
    find_ends(r);
}

/* Go on to the next pass, input channels, output channels, strip or tile; tell whether there is one. */
static int go_on(run_t *r)
{
    const step_t *s = r->step;
    r->job++;
    r->pass = (r->pass + 1) % r->passes;
    if (r->pass)
        return 1;
    r->inputs.begin = r->inputs.end;
    if (r->inputs.begin < s->depth)
        return 1;
    r->inputs.begin = 0;
    r->block.begin = r->block.end;
    if (s->order != PIXELS && r->block.begin < s->operations[0].units) {
        r->turn += s->doubled;
        return 1;
    }
    r->block.begin = 0;
    r->column_part = (r->column_part + 1) % s->column_parts;
    return r->column_part || ++r->row_part < s->row_parts;
}

/* While a pass is computed, what the next one needs is there, and what the one before has computed. */
static void run_doubled(run_t first)
{
    run_t earlier = first, now = first, next;
    int saves = 0, more = 1;
    load_pass(&now);
    while (more) {
        next = now;
        more = go_on(&next);
        if (more) {
            enter(&next);
            load_pass(&next);
        }
        compute_pass(&now);
        if (saves)
            save_pass(&earlier);
        earlier = now;
        saves = 1;
        now = next;
    }
    save_pass(&earlier);
}

void load_staying(const staying_t *staying, int count)
{
    for (int i = 0; i < count; i++)
        dma_load(chip(staying[i].address), staying[i].weights, staying[i].count * ELEMENT_BYTES);
}

void run_step(const step_t *step)
{
    run_t run = {.step = step};
    for (int m = 0; m < step->map_count; m++) {
        const map_t *map = &step->maps[m];
        const long bytes = (long)pixels_of(map->tensor) * map->tensor->channels * ELEMENT_BYTES;
        if (map->fetched == map->tensor->channels) {
            dma_load(chip(map->address), map->tensor->dram, bytes);
            continue;
        }
        for (long p = 0; map->fetched && p < pixels_of(map->tensor); p++) { /* others are read by nobody */
            const long at = p * map->tensor->channels + map->from;
            dma_load(chip(map->address + at), map->tensor->dram + at * ELEMENT_BYTES,
                     (long)map->fetched * ELEMENT_BYTES);
        }
    }
    enter(&run);
    for (int i = 0; i < step->operation_count; i++) {
        const range_t units = {0, step->operations[i].units};
        if (step->operations[i].kept)
            load_weights(&run, &step->operations[i], units);
    }
    if (step->doubled) {
        run_doubled(run);
        return;
    }
    do {
        enter(&run);
        load_pass(&run);
        compute_pass(&run);
    } while (go_on(&run));
}
