#include "engine.h"

#include "bits.h"
#include "dma.h"

/* All that is on chip, as large as the plan says. */
ON_CHIP(memory) unsigned char memory[MEMORY_BYTES];

/* What is known of a step while it is executed: counters, no values. */
typedef struct {
    const step_t *step;
    range_t block;                       /* of output channels, in order KERNELS */
    int before[MOST_MAPS], ends[MOST_MAPS]; /* end of the pixels of each map that are there, before and after a pass */
} run_t;

/* What is computed at a time. */
typedef struct {
    const run_t *run;
    const operation_t *operation;
    range_t channels;
    int first_unit; /* whose weights are the first on chip */
} work_t;

/* Places ----------------------------------------------------------------------------------------------- */

static int pixels_of(const tensor_t *tensor)
{
    return tensor->rows * tensor->columns;
}

/* The element at which a channel of a pixel lies, in a buffer that begins with some channel. */
static long place(const map_t *map, int pixel, int channel, int first)
{
    return map->address + (long)(pixel % map->pixels) * map->channels + channel - first;
}

static int64_t element(long at)
{
    return load(memory, at * ELEMENT_BITS, ELEMENT_BITS);
}

/* An element that an operation reads. */
static int64_t operand(const part_t *part, long at)
{
    return part->bits ? rescaled(element(at), part->shift, 1, part->bits) : element(at);
}

/* The channel of a part with which its buffer begins. */
static int first_held(const work_t *w, const part_t *part)
{
    return w->run->step->maps[part->map].block ? MAX(0, w->channels.begin - part->first) : 0;
}

/* Transfers -------------------------------------------------------------------------------------------- */

/* Move some pixels and channels of a map, as much at a time as lies side by side here and there. */
static void move_pixels(const map_t *map, range_t pixels, range_t channels, int first, int saved)
{
    const tensor_t *t = map->tensor;
    const int count = channels.end - channels.begin, whole = count == t->channels && count == map->channels;
    for (int p = pixels.begin, some; p < pixels.end; p += some) {
        some = whole ? MIN(pixels.end - p, map->pixels - p % map->pixels) : 1;
        unsigned char *inside = memory + place(map, p, channels.begin, first) * ELEMENT_BYTES;
        unsigned char *outside = t->dram + ((long)p * t->channels + channels.begin) * ELEMENT_BYTES;
        const long bytes = (long)some * count * ELEMENT_BYTES;
        if (saved)
            dma_save(outside, inside, bytes);
        else
            dma_load(inside, outside, bytes);
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
        const range_t channels = {MAX(0, r->block.begin - part->first),
                                  MIN(s->maps[map].tensor->channels, r->block.end - part->first)};
        if (!known && channels.begin < channels.end)
            move_pixels(&s->maps[map], pixels, channels, channels.begin, 0);
    }
}

static void load_weights(const operation_t *o, range_t units)
{
    const long begin = MIN(units.begin * o->each, o->weight_count);
    const long end = MIN(units.end * o->each, o->weight_count);
    if (begin < end)
        dma_load(memory + o->address * ELEMENT_BYTES, o->weights + begin * ELEMENT_BYTES, (end - begin) * ELEMENT_BYTES);
}

/* Values ----------------------------------------------------------------------------------------------- */

/* Products of an output channel with a part, of which each value has a weight of its own, in a row. */
static sum_t connected(const work_t *w, const part_t *part, long weights)
{
    const map_t *map = &w->run->step->maps[part->map];
    const int pixels = pixels_of(map->tensor);
    sum_t sum = 0;
    for (int p = 0; p < pixels; p++)
        for (int c = 0; c < map->tensor->channels; c++)
            sum += (sum_t)(operand(part, place(map, p, c, 0)) * element(weights + part->first + (long)c * pixels + p));
    return sum;
}

/* Products of an output value with a part of the channels that its group reads; sums wrap around. */
static sum_t windowed(const work_t *w, const part_t *part, range_t group, long weights, int y, int x)
{
    const operation_t *o = w->operation;
    const map_t *map = &w->run->step->maps[part->map];
    const tensor_t *t = map->tensor;
    const int top = y * o->stride[0] - o->padding[0], left = x * o->stride[1] - o->padding[1];
    const range_t down = inside(top, o->dilation[0], o->kernel[0], t->rows);
    const range_t across = inside(left, o->dilation[1], o->kernel[1], t->columns);
    const int begin = MAX(group.begin, part->first), end = MIN(group.end, part->first + t->channels);
    const int window = o->kernel[0] * o->kernel[1];
    sum_t sum = 0;
    for (int ky = down.begin; ky < down.end; ky++)
        for (int kx = across.begin; kx < across.end; kx++) {
            const int pixel = (top + ky * o->dilation[0]) * t->columns + left + kx * o->dilation[1];
            const long from = place(map, pixel, begin - part->first, first_held(w, part));
            const long weight = weights + (long)(begin - group.begin) * window + ky * o->kernel[1] + kx;
            for (int c = 0; c < end - begin; c++)
                sum += (sum_t)(operand(part, from + c) * element(weight + (long)c * window));
        }
    return sum;
}

static int64_t convolved(const work_t *w, int k, int y, int x)
{
    const operation_t *o = w->operation;
    const step_t *s = w->run->step;
    const int deep = o->input_channels / o->groups;
    const int first = k / (s->maps[o->map].tensor->channels / o->groups) * deep;
    const range_t group = {first, first + deep};
    const long own = o->address + (k - w->first_unit) * o->each;
    const int64_t bias = o->has_bias ? element(own) * ((int64_t)1 << o->bias_shift) : 0;
    sum_t sum = o->bias_within ? (sum_t)bias : 0;
    for (int p = 0; p < o->part_count; p++)
        sum += o->in_a_row ? connected(w, &o->parts[p], own + o->has_bias)
                           : windowed(w, &o->parts[p], group, own + o->has_bias, y, x);
    return wrapped(sum, o->sum_bits) + (o->bias_within ? 0 : bias);
}

/* The part that has an input channel, which becomes its channel. */
static const part_t *part_of(const work_t *w, int *channel)
{
    const part_t *part = w->operation->parts;
    while (*channel - part->first >= w->run->step->maps[part->map].tensor->channels)
        part++;
    *channel -= part->first;
    return part;
}

static int64_t pooled(const work_t *w, int c, int y, int x)
{
    const operation_t *o = w->operation;
    const part_t *part = part_of(w, &c);
    const map_t *map = &w->run->step->maps[part->map];
    const int top = y * o->stride[0] - o->padding[0], left = x * o->stride[1] - o->padding[1];
    const range_t down = inside(top, 1, o->kernel[0], map->tensor->rows);
    const range_t across = inside(left, 1, o->kernel[1], map->tensor->columns);
    int64_t found = o->kind == MAX_POOL ? INT64_MIN : 0;
    for (int ky = down.begin; ky < down.end; ky++)
        for (int kx = across.begin; kx < across.end; kx++) {
            const int pixel = (top + ky) * map->tensor->columns + left + kx;
            const int64_t value = operand(part, place(map, pixel, c, first_held(w, part)));
            found = o->kind == MAX_POOL ? MAX(found, value) : found + value;
        }
    return found;
}

static int64_t combined(const work_t *w, int c, int pixel)
{
    const operation_t *o = w->operation;
    int64_t found = o->kind == MULTIPLY;
    for (int p = 0; p < o->part_count; p++) {
        const part_t *part = &o->parts[p]; /* one of a single pixel has the same value everywhere */
        const long at = place(&w->run->step->maps[part->map], part->whole ? 0 : pixel, c, first_held(w, part));
        found = o->kind == MULTIPLY ? found * operand(part, at) : found + operand(part, at);
    }
    return found;
}

static int64_t copied(const work_t *w, int c, int pixel)
{
    const operation_t *o = w->operation;
    const map_t *maps = w->run->step->maps;
    if (!o->in_a_row) {
        const part_t *part = part_of(w, &c);
        return operand(part, place(&maps[part->map], pixel, c, first_held(w, part)));
    }
    const part_t *part = o->parts;
    int value = c * pixels_of(maps[o->map].tensor) + pixel;
    while (value - part->first >= pixels_of(maps[part->map].tensor) * maps[part->map].tensor->channels)
        part++;
    value -= part->first;
    const int each = pixels_of(maps[part->map].tensor);
    return operand(part, place(&maps[part->map], value % each, value / each, 0));
}

/* Execution -------------------------------------------------------------------------------------------- */

/* Compute some channels of the pixels of a pass, with the weights of some units. */
static void compute_block(const run_t *r, const operation_t *o, range_t channels, range_t units)
{
    const map_t *map = &r->step->maps[o->map];
    const int width = map->tensor->columns, first = map->block ? channels.begin : 0;
    const range_t pixels = {r->before[o->map], r->ends[o->map]};
    const work_t work = {r, o, channels, units.begin};
    for (int p = pixels.begin; p < pixels.end; p++)
        for (int c = channels.begin; c < channels.end; c++) {
            int64_t value = o->kind == CONV                                   ? convolved(&work, c, p / width, p % width)
                            : o->kind == MAX_POOL || o->kind == AVERAGE_POOL ? pooled(&work, c, p / width, p % width)
                            : o->kind == COPY                                ? copied(&work, c, p)
                                                                             : combined(&work, c, p);
            value = rescaled(o->relu ? MAX(value, 0) : value, o->shift, o->divisor, o->bits);
            store(memory, place(map, p, c, first) * ELEMENT_BITS, ELEMENT_BITS, value);
        }
    if (map->written)
        move_pixels(map, pixels, channels, first, 1);
}

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
    if (r->step->order == KERNELS) {
        compute_block(r, o, channels_of(r, o, r->block), r->block);
        return;
    }
    const int apart = o->units > 1 && o->weight_count && !o->kept;
    const int size = apart ? MIN(r->step->kernels, o->units) : o->units;
    for (range_t units = {0, size}; units.begin < every.end; units.begin = units.end, units.end += size) {
        units.end = MIN(units.end, every.end);
        if (!o->kept)
            load_weights(o, units);
        compute_block(r, o, channels_of(r, o, units), units);
    }
}

/* The end of the pixels of a tensor that outputs before some pixel read, of which there are some. */
static int end_of(const operation_t *o, const part_t *part, const tensor_t *t, const tensor_t *output, int pixel)
{
    if (part->whole)
        return pixels_of(t);
    const int row = (pixel - 1) / output->columns, column = (pixel - 1) % output->columns;
    const int high = (o->kernel[0] - 1) * o->dilation[0] - o->padding[0];
    const int wide = (o->kernel[1] - 1) * o->dilation[1] - o->padding[1];
    const int bottom = MAX(0, MIN(t->rows - 1, row * o->stride[0] + high));
    const int above = row ? MAX(0, MIN(t->rows - 1, (row - 1) * o->stride[0] + high)) + 1 : 0;
    const int right = MAX(0, MIN(t->columns - 1, column * o->stride[1] + wide));
    return MAX(bottom * t->columns + right + 1, above * t->columns);
}

/* Find how far a pass gets in every map: backwards from the last, and to the end of all in the last pass. */
static void find_ends(run_t *r, int pass, int passes)
{
    const step_t *s = r->step;
    const int last = s->map_count - 1, pixels = pixels_of(s->maps[last].tensor);
    for (int m = 0; m < s->map_count; m++) {
        r->before[m] = pass ? r->ends[m] : 0;
        r->ends[m] = 0;
    }
    r->ends[last] = pass == passes - 1 ? pixels : (pass + 1) * s->pixels;
    for (int i = s->operation_count - 1; i >= 0; i--) {
        const operation_t *o = &s->operations[i];
        for (int p = 0; p < o->part_count; p++) {
            const part_t *part = &o->parts[p];
            const tensor_t *t = s->maps[part->map].tensor;
            const int needed = pass == passes - 1 ? pixels_of(t)
                                                  : end_of(o, part, t, s->maps[o->map].tensor, r->ends[o->map]);
            r->ends[part->map] = MAX(r->ends[part->map], needed);
        }
    }
}

static void run_passes(run_t *r)
{
    const step_t *s = r->step;
    const int pixels = pixels_of(s->maps[s->map_count - 1].tensor), passes = (pixels - 1) / s->pixels + 1;
    for (int pass = 0; pass < passes; pass++) {
        find_ends(r, pass, passes);
        for (int m = 0; m < s->map_count; m++) {
            const range_t fresh = {r->before[m], r->ends[m]}, all = {0, s->maps[m].tensor->channels};
            if (!s->maps[m].streamed)
                continue;
            if (s->maps[m].block)
                load_block(r, m, fresh);
            else
                move_pixels(&s->maps[m], fresh, all, 0, 0);
        }
        for (int i = 0; i < s->operation_count; i++)
            if (r->before[s->operations[i].map] < r->ends[s->operations[i].map])
                compute(r, &s->operations[i]);
    }
}

void run_step(const step_t *step)
{
    run_t run = {.step = step};
    for (int m = 0; m < step->map_count; m++) {
        const map_t *map = &step->maps[m];
        const range_t pixels = {0, pixels_of(map->tensor)}, channels = {0, map->tensor->channels};
        if (map->fetched)
            move_pixels(map, pixels, channels, 0, 0);
    }
    if (step->order == KERNELS) {
        const operation_t *o = step->operations;
        for (int k = 0; k < o->units; k = run.block.end) {
            run.block.begin = k;
            run.block.end = MIN(k + step->kernels, o->units);
            load_weights(o, run.block);
            run_passes(&run);
        }
        return;
    }
    for (int i = 0; i < step->operation_count; i++) {
        const range_t units = {0, step->operations[i].units};
        if (step->operations[i].kept)
            load_weights(&step->operations[i], units);
    }
    run_passes(&run);
}
