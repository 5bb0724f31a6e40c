#include "engine.h"

#include <string.h>

counts_t counts;

/* The memory on chip, as large as the plan says. */
ON_CHIP(input_buffer) element_t input_buffer[SOME(INPUT_BUFFER)];
ON_CHIP(output_buffer) element_t output_buffer[SOME(OUTPUT_BUFFER)];
ON_CHIP(parameter_buffer) element_t parameter_buffer[SOME(PARAMETER_BUFFER)];

/* Registers of the convolution array: sums that are not complete. */
static sum_t accumulators[SOME(ACCUMULATORS)];

/* A result as it is stored. */
static element_t stored(const operation_t *o, int64_t value)
{
    return (element_t)rescaled(o->relu ? MAX(value, 0) : value, o->shift, o->divisor, o->bits);
}

/* Places ----------------------------------------------------------------------------------------------- */

/* A view of a map: on chip, or whole in external memory. */
typedef struct {
    element_t *values;
    int first, channels, rows, columns, shift;
} view_t;

static view_t view_of(const group_t *group, const map_t *map, int shift)
{
    view_t view = {map->area, map->first, map->held_channels, map->held_rows, map->held_columns, shift};
    if (group->on_host) {
        const view_t whole = {map->tensors->values, 0, map->channels, map->rows, map->columns, 0};
        view = whole;
    }
    return view;
}

static element_t *at(view_t view, int image, int channel, int row, int column)
{
    const long plane = ((long)image * view.channels + (channel + view.first) % view.channels) * view.rows;
    return view.values + (plane + (row + view.shift) % view.rows) * view.columns + column % view.columns;
}

/* The tensor in external memory that has a channel of a map, and that channel in it. */
static const tensor_t *tensor_of(const map_t *map, int *channel)
{
    const tensor_t *tensor = map->tensors;
    for (; *channel >= tensor->channels; tensor++)
        *channel -= tensor->channels;
    return tensor;
}

/* LOAD and SAVE ---------------------------------------------------------------------------------------- */

/* A DMA transfer of one value is counted as its bytes; a real controller moves the whole box at once. */
static void move(const group_t *group, const instruction_t *i)
{
    const map_t *map = &group->maps[i->map];
    const view_t view = view_of(group, map, i->shift);
    long long moved = 0;
    for (int image = 0; image < IMAGES; image++)
        for (int c = i->channels.begin; c < i->channels.end; c++) {
            int channel = c;
            const tensor_t *tensor = tensor_of(map, &channel);
            for (int y = i->rows.begin; y < i->rows.end; y++)
                for (int x = i->columns.begin; x < i->columns.end; x++) {
                    const long plane = (long)image * tensor->channels + channel;
                    element_t *outside = tensor->values + (plane * map->rows + y) * map->columns + x;
                    element_t *inside = at(view, image, c, y, x);
                    if (i->kind == LOAD)
                        *inside = *outside;
                    else
                        *outside = *inside;
                    moved += sizeof(element_t);
                }
        }
    *(i->kind == LOAD ? &counts.loaded_bytes : &counts.saved_bytes) += moved;
}

/* Parameters of an operation for an output channel and some input channels; the bias comes first. */
static int parameters_of(const operation_t *o, range_t summed)
{
    return o->kernel[0] * o->kernel[1] * (summed.end - summed.begin) + (o->has_bias && summed.begin == 0);
}

static void fetch(const group_t *group, const instruction_t *i)
{
    const operation_t *o = &group->operations[i->map];
    const int each = parameters_of(o, i->summed), window = o->kernel[0] * o->kernel[1];
    const int all = o->has_bias + window * (o->input_channels / o->groups);
    const int first = i->summed.begin == 0 ? 0 : o->has_bias + window * i->summed.begin;
    for (int k = i->channels.begin; k < i->channels.end; k++) {
        element_t *to = parameter_buffer + i->parameters + (k - i->channels.begin) * each;
        memcpy(to, o->parameters + (long)k * all + first, each * sizeof(element_t));
        counts.loaded_bytes += each * (long long)sizeof(element_t);
    }
}

/* CONV ------------------------------------------------------------------------------------------------- */

typedef struct {
    const operation_t *operation;
    const view_t *views; /* of the parts */
    view_t result;
    range_t channels, rows, columns, summed;
    const element_t *parameters;
    int each; /* parameters of an output channel */
} work_t;

/* How a channel of a part is read. */
static read_t read_of(const part_t *part, int channel)
{
    const map_t *map = part->map;
    return part->reads[map->tensor_count > 1 ? tensor_of(map, &channel) - map->tensors : 0];
}

/* A value as an operation reads it. */
static inline int64_t operand(read_t how, element_t value)
{
    return how.bits ? rescaled(value, how.shift, 1, how.bits) : value;
}

/* Add up an output value's products with one input channel. */
static sum_t channel_sum(const work_t *w, int p, int image, int channel, const element_t *weights, int y, int x)
{
    const operation_t *o = w->operation;
    const map_t *map = o->parts[p].map;
    const read_t how = read_of(&o->parts[p], channel);
    const int top = y * o->stride[0] - o->padding[0], left = x * o->stride[1] - o->padding[1];
    const range_t down = inside(top, o->dilation[0], o->kernel[0], map->rows);
    const range_t across = inside(left, o->dilation[1], o->kernel[1], map->columns);
    sum_t sum = 0;
    for (int ky = down.begin; ky < down.end; ky++)
        for (int kx = across.begin; kx < across.end; kx++) {
            const int row = top + ky * o->dilation[0], column = left + kx * o->dilation[1];
            const int64_t value = operand(how, *at(w->views[p], image, channel, row, column));
            sum += (sum_t)(value * weights[ky * o->kernel[1] + kx]);
        }
    return sum;
}

/* Add up an output value's products with the input channels that are on chip. */
static sum_t sum_of(const work_t *w, int image, int k, int y, int x)
{
    const operation_t *o = w->operation;
    const int deep = o->input_channels / o->groups, window = o->kernel[0] * o->kernel[1];
    const int group_first = k / (o->kernels / o->groups) * deep;
    const int bias = o->has_bias && w->summed.begin == 0;
    const element_t *weights = w->parameters + (k - w->channels.begin) * w->each + bias;
    sum_t sum = 0;
    for (int p = 0; p < o->part_count; p++) {
        const part_t *part = &o->parts[p];
        const int begin = MAX(group_first + w->summed.begin, part->first);
        const int end = MIN(group_first + w->summed.end, part->first + part->map->channels);
        for (int c = begin; c < end; c++)
            sum += channel_sum(w, p, image, c - part->first,
                               weights + (c - group_first - w->summed.begin) * window, y, x);
    }
    return sum;
}

static void convolve(const work_t *w)
{
    const operation_t *o = w->operation;
    const int first = w->summed.begin == 0, last = w->summed.end == o->input_channels / o->groups;
    const int splits = !(first && last);
    long place = 0;
    for (int image = 0; image < IMAGES; image++)
        for (int k = w->channels.begin; k < w->channels.end; k++) {
            const element_t *own = w->parameters + (k - w->channels.begin) * w->each;
            const int64_t bias = first && o->has_bias ? *own * ((int64_t)1 << o->bias_shift) : 0;
            for (int y = w->rows.begin; y < w->rows.end; y++)
                for (int x = w->columns.begin; x < w->columns.end; x++, place++) {
                    sum_t sum = sum_of(w, image, k, y, x) + (o->bias_within ? (sum_t)bias : 0);
                    if (splits)
                        sum = accumulators[place] = sum + (first ? 0 : accumulators[place]);
                    if (last)
                        *at(w->result, image, k, y, x) =
                            stored(o, wrapped(sum, o->sum_bits) + (o->bias_within ? 0 : bias));
                }
        }
}

/* POOL and MISC ---------------------------------------------------------------------------------------- */

/* The part that has an input channel, which becomes its channel. */
static int part_of(const operation_t *o, int *channel)
{
    int p = 0;
    while (*channel - o->parts[p].first >= o->parts[p].map->channels)
        p++;
    *channel -= o->parts[p].first;
    return p;
}

static int64_t pooled(const work_t *w, kind_t kind, int image, int c, int y, int x)
{
    const operation_t *o = w->operation;
    const int p = part_of(o, &c);
    const int top = y * o->stride[0] - o->padding[0], left = x * o->stride[1] - o->padding[1];
    const map_t *map = o->parts[p].map;
    const range_t down = inside(top, 1, o->kernel[0], map->rows);
    const range_t across = inside(left, 1, o->kernel[1], map->columns);
    const read_t how = read_of(&o->parts[p], c);
    int64_t found = kind == MAX_POOL ? ELEMENT_MIN : 0;
    for (int ky = down.begin; ky < down.end; ky++)
        for (int kx = across.begin; kx < across.end; kx++) {
            const int64_t value = operand(how, *at(w->views[p], image, c, top + ky, left + kx));
            found = kind == MAX_POOL ? MAX(found, value) : found + value;
        }
    return found;
}

static int64_t combined(const work_t *w, kind_t kind, int image, int c, int y, int x)
{
    const operation_t *o = w->operation;
    if (kind == COPY) {
        const int p = part_of(o, &c);
        return operand(read_of(&o->parts[p], c), *at(w->views[p], image, c, y, x));
    }
    int64_t found = kind == MULTIPLY;
    for (int p = 0; p < o->part_count; p++) {
        const map_t *map = o->parts[p].map; /* one of a single pixel has the same value everywhere */
        const int64_t value = operand(read_of(&o->parts[p], c),
            *at(w->views[p], image, c, map->rows == 1 ? 0 : y, map->columns == 1 ? 0 : x));
        found = kind == MULTIPLY ? found * value : found + value;
    }
    return found;
}

static void combine(const work_t *w, kind_t kind)
{
    const operation_t *o = w->operation;
    for (int image = 0; image < IMAGES; image++)
        for (int c = w->channels.begin; c < w->channels.end; c++)
            for (int y = w->rows.begin; y < w->rows.end; y++)
                for (int x = w->columns.begin; x < w->columns.end; x++) {
                    const int64_t value = kind == MAX_POOL || kind == AVERAGE_POOL
                                              ? pooled(w, kind, image, c, y, x)
                                              : combined(w, kind, image, c, y, x);
                    *at(w->result, image, c, y, x) = stored(o, value);
                }
}

/* Execution -------------------------------------------------------------------------------------------- */

static void compute(const group_t *group, const instruction_t *i)
{
    const operation_t *o = &group->operations[i->map];
    view_t views[MOST_PARTS];
    for (int p = 0; p < o->part_count; p++)
        views[p] = view_of(group, o->parts[p].map, group->shifts[i->shifts + p]);
    const work_t work = {.operation = o, .views = views,
                         .result = view_of(group, &group->maps[i->map], i->shift),
                         .channels = i->channels, .rows = i->rows, .columns = i->columns, .summed = i->summed,
                         .parameters = group->on_host ? o->parameters : parameter_buffer + i->parameters,
                         .each = parameters_of(o, i->summed)};
    if (i->kind == CONV)
        convolve(&work);
    else
        combine(&work, i->kind);
}

void run_group(const group_t *group)
{
    for (int n = 0; n < group->instruction_count; n++) {
        const instruction_t *i = &group->instructions[n];
        counts.instructions[i->kind]++;
        if (i->kind == LOAD || i->kind == SAVE)
            move(group, i);
        else if (i->kind == FETCH)
            fetch(group, i);
        else
            compute(group, i);
    }
}
