#include <string.h>

#include "numbers.h"
#include "process.h"

/* Links ------------------------------------------------------------------------------------------------ */

static void send(process_t *p, int64_t lane, int64_t value)
{
    if (lane >= machine.form[ARRAY_UNITS])
        broken(p, "sends on a lane that links do not have");
    for (int s = 0; s < p->sink_count; s++) {
        const sink_t *sink = &p->sinks[s];
        port_t *port = &machine.ports[sink->pe][sink->port];
        const int64_t comes = machine.now + sink->delay;
        const int64_t slot = lane * machine.moments + comes % machine.moments;
        if (port->comes[slot] == comes)
            broken(p, "two send to a port at a time");
        if (!port->taken[slot])
            broken(p, "nobody took what was sent before");
        port->values[slot] = value;
        port->comes[slot] = comes;
        port->taken[slot] = 0;
    }
    machine.result.moved += p->links;
}

static int64_t receive(process_t *p, int64_t number, int64_t lane)
{
    port_t *port = &machine.ports[p->pe][number];
    if (lane >= machine.form[ARRAY_UNITS])
        broken(p, "receives on a lane that links do not have");
    const int64_t slot = lane * machine.moments + machine.now % machine.moments;
    if (port->comes[slot] != machine.now)
        broken(p, "receives what nobody sends");
    port->taken[slot] = 1;
    return port->values[slot];
}

/* Beats ------------------------------------------------------------------------------------------------ */

/* The pixel of a beat; there is none where rows are divided and these are the last. */
static void begin_beat(process_t *p)
{
    const layer_t *layer = p->layer;
    if (layer->order) {
        const int64_t pixel = layer->order->tail[p->beat / 2] >> (p->beat % 2 * 32) & 0xffffffff;
        p->y = pixel / layer->form[LAYER_COLUMNS];
        p->x = pixel % layer->form[LAYER_COLUMNS];
    } else {
        const int64_t *share = p->of[SHARE], row = p->beat / layer->form[LAYER_COLUMNS];
        p->y = row * share[SHARE_ROW_STEP] + share[SHARE_ROW_FIRST];
        p->x = p->beat % layer->form[LAYER_COLUMNS];
    }
    p->valid = p->y < layer->form[LAYER_ROWS];
}

static int64_t *line_of(process_t *p, int64_t frame, int64_t y, int64_t x)
{
    const int64_t *form = p->layer->form;
    return &p->line_of[(frame * form[LAYER_ROWS] + y) * form[LAYER_COLUMNS] + x];
}

static void release(process_t *p, int64_t frame, int64_t y, int64_t x)
{
    int64_t *line = line_of(p, frame, y, x);
    p->free_lines[p->free_count++] = *line;
    *line = -1;
    p->layer->level -= OF(p, SHARE, SHARE_CHANNELS);
}

/* Take a line for the pixel of this beat, as long as readers look at it. */
static void reserve(process_t *p)
{
    const int64_t channels = OF(p, SHARE, SHARE_CHANNELS);
    if (*line_of(p, p->frame, p->y, p->x) >= 0)
        broken(p, "a pixel is computed twice");
    if (!p->free_count)
        broken(p, "its buffer is full");
    p->line = p->free_lines[--p->free_count];
    *line_of(p, p->frame, p->y, p->x) = p->line;
    memset(p->written + p->line * channels, 0, (size_t)channels);
    p->uses[p->line] = 0;
    for (int i = 0; i < machine.process_count; i++)
        if (machine.processes[i].source == p)
            p->uses[p->line] +=
                machine.processes[i].row_visits[p->y] * machine.processes[i].column_visits[p->x];
    p->layer->level += channels;
    if (p->layer->level > p->layer->form[LAYER_BUFFER])
        broken(p, "the buffers of its layer hold more than they have words");
    p->layer->most = MAX(p->layer->most, p->layer->level);
}

/* The pixel under the window's tap; returns whether it is inside of what is read. */
static int pixel_read(const process_t *p, int64_t k1, int64_t k2, int64_t *y, int64_t *x)
{
    const int64_t *window = p->of[WINDOW];
    *y = p->y * window[WINDOW_STRIDE_Y] + k1 * window[WINDOW_DILATION_Y] - window[WINDOW_TOP];
    *x = p->x * window[WINDOW_STRIDE_X] + k2 * window[WINDOW_DILATION_X] - window[WINDOW_LEFT];
    return *y >= 0 && *y < window[WINDOW_ROWS] && *x >= 0 && *x < window[WINDOW_COLUMNS];
}

/* Outside of the plane the nearest row counts, so that there is always one that sends. */
static int owns_row(const process_t *p, int64_t y)
{
    const int64_t row = MAX(0, MIN(y, OF(p, WINDOW, WINDOW_ROWS) - 1));
    return row % OF(p, OWNER, OWNER_ROW_STEP) == OF(p, OWNER, OWNER_ROW_FIRST);
}

/* At the end of its beat a reader has done with the pixels of its window, a layer with what nobody reads. */
static void end_beat(process_t *p)
{
    if (p->kind == PROGRAM && p->line >= 0) {
        if (!p->uses[p->line] && *line_of(p, p->frame, p->y, p->x) == p->line)
            release(p, p->frame, p->y, p->x);
        p->line = -1;
    }
    if (p->kind != READER && p->beat + 1 == OF(p, LOOPS, LOOPS_R) * OF(p, LOOPS, LOOPS_C))
        p->layer->ends[p->frame] = MAX(p->layer->ends[p->frame], machine.now + 1);
    if (p->kind != READER || !p->source || !p->valid)
        return;
    const int64_t number = OF(p, OPERAND, OPERAND_NUMBER);
    for (int64_t k1 = 0; k1 < OF(p, LOOPS, LOOPS_K1); k1++)
        for (int64_t k2 = 0; k2 < OF(p, LOOPS, LOOPS_K2); k2++) {
            int64_t y, x;
            if ((number && k1 != number - 1) || !pixel_read(p, k1, k2, &y, &x) || !owns_row(p, y))
                continue;
            const int64_t line = *line_of(p->source, p->frame, y, x);
            if (line < 0)
                broken(p, "a pixel was released before it was read");
            if (--p->source->uses[line] == 0)
                release(p->source, p->frame, y, x);
        }
}

/* Address generators ----------------------------------------------------------------------------------- */

static int64_t value_read(process_t *p, int64_t channel, int64_t y, int64_t x)
{
    const int64_t *window = p->of[WINDOW];
    if (!p->source) {
        const int64_t place = (channel * window[WINDOW_ROWS] + y) * window[WINDOW_COLUMNS] + x;
        return machine.memory->input[p->frame % machine.memory->images * machine.memory->inputs + place];
    }
    const int64_t line = *line_of(p->source, p->frame, y, x);
    const int64_t held = channel / OF(p, OWNER, OWNER_CHANNEL_STEP);
    const int64_t channels = OF(p->source, SHARE, SHARE_CHANNELS);
    if (held >= channels)
        broken(p, "reads a channel that its PE does not hold");
    if (line < 0 || !p->source->written[line * channels + held])
        broken(p, "reads a pixel before it is written or after it was released");
    return p->source->lines[line * channels + held];
}

/* Bring a value that is read to the scale of the layer that reads it. */
static int64_t aligned(const process_t *p, int64_t value)
{
    const int64_t *operand = p->of[OPERAND], bits = operand[OPERAND_BITS];
    return bits ? rescaled(value, (int)operand[OPERAND_SHIFT], 1, (int)bits) : value;
}

static void drive(process_t *p)
{
    const int64_t *maps = p->of[MAPS], number = OF(p, OPERAND, OPERAND_NUMBER);
    if (!p->valid || maps[MAPS_RECEIVE] == NOT_RECEIVED || (maps[MAPS_RECEIVE] == FOR_FIRST && p->m) ||
        (number && p->k1 != number - 1))
        return;
    int64_t y, x;
    const int inside = pixel_read(p, p->k1, p->k2, &y, &x);
    if (!owns_row(p, y))
        return;
    for (int64_t f = 0; f < maps[MAPS_FILTERS]; f++) {
        const int64_t local = p->m * maps[MAPS_FILTERS] + f;
        int64_t base = maps[MAPS_FIRST] - OF(p, OPERAND, OPERAND_FIRST);
        if (maps[MAPS_GROUP_FILTERS]) {
            if (local >= maps[MAPS_FILTER_COUNT])
                continue;
            const int64_t filter = maps[MAPS_FILTER_FIRST] + maps[MAPS_FILTER_STEP] * local;
            base += filter / maps[MAPS_GROUP_FILTERS] * maps[MAPS_GROUP_MAPS];
        }
        for (int64_t d = 0; d < maps[MAPS_LANES]; d++) {
            const int64_t map = p->n * maps[MAPS_LANES] + d, channel = base + maps[MAPS_STEP] * map;
            if (map >= maps[MAPS_COUNT] || channel < 0 || channel >= OF(p, OPERAND, OPERAND_CHANNELS) ||
                channel % OF(p, OWNER, OWNER_CHANNEL_STEP) != OF(p, OWNER, OWNER_CHANNEL_FIRST))
                continue;
            send(p, f * maps[MAPS_LANES] + d,
                 inside ? aligned(p, value_read(p, channel, y, x)) : OF(p, WINDOW, WINDOW_BORDER));
        }
    }
}

static int at_first(const process_t *p, int64_t when)
{
    return when != NEVER && !p->k1 && !p->k2 && (when == WITHIN_WINDOW || !p->n);
}

static int at_last(const process_t *p, int64_t when)
{
    const int64_t *loops = p->of[LOOPS];
    return when != NEVER && p->k1 == loops[LOOPS_K1] - 1 && p->k2 == loops[LOOPS_K2] - 1 &&
           (when == WITHIN_WINDOW || p->n == loops[LOOPS_N] - 1);
}

static void write_output(process_t *p)
{
    if (!p->valid || !at_last(p, OF(p, TAKE, TAKE_WHEN)))
        return;
    const int64_t *form = p->layer->form, *share = p->of[SHARE], *strides = p->of[STRIDES];
    for (int64_t lane = 0; lane < OF(p, TAKE, TAKE_LANES); lane++) {
        const int64_t local = p->m * strides[STRIDES_SUM_M] + p->n * strides[STRIDES_SUM_N] + lane;
        if (local >= share[SHARE_CHANNELS])
            continue;
        const int64_t channel = share[SHARE_CHANNEL_FIRST] + share[SHARE_CHANNEL_STEP] * local;
        const int64_t plane = (p->frame * form[LAYER_CHANNELS] + channel) * form[LAYER_ROWS] + p->y;
        const int64_t place = OF(p, WRITER, WRITER_BASE) + plane * form[LAYER_COLUMNS] + p->x;
        if (channel >= form[LAYER_CHANNELS] || place >= machine.memory->outputs)
            broken(p, "writes beyond the outputs");
        machine.memory->output[place] = receive(p, OF(p, WRITER, WRITER_PORT), lane);
    }
}

/* Programs --------------------------------------------------------------------------------------------- */

static int64_t bias_of(const process_t *p, int64_t sum)
{
    if (sum >= OF(p, RESULT, RESULT_BIASES))
        return 0;
    return p->biases[sum] * ((int64_t)1 << OF(p, RESULT, RESULT_BIAS_SHIFT));
}

static int64_t initial(const process_t *p, const int64_t *unit, int64_t sum)
{
    if (unit[UNIT_OP] == MAX_OF)
        return -((int64_t)1 << 40);
    return OF(p, RESULT, RESULT_LATE) ? 0 : bias_of(p, sum);
}

/* What an accumulator of the program keeps of a sum. */
static int64_t kept(const process_t *p, uint64_t sum)
{
    const int64_t own = OF(p, RESULT, RESULT_SUM_BITS);
    return wrapped(sum, (int)(own ? own : machine.form[ARRAY_SUM_BITS]));
}

static int64_t sum_at(process_t *p, const int64_t *unit)
{
    const int64_t *strides = p->of[STRIDES];
    const int64_t sum = unit[UNIT_SUM] + p->m * strides[STRIDES_SUM_M] + p->n * strides[STRIDES_SUM_N];
    if (sum >= OF(p, RESULT, RESULT_SUMS))
        broken(p, "uses an accumulator that it does not have");
    return sum;
}

/* Add what a unit reads to its sum, or take the larger one. */
static void operate(process_t *p, const int64_t *word, const int64_t *unit, int64_t sum)
{
    if (unit[UNIT_LANE] >= machine.form[ARRAY_UNITS])
        broken(p, "receives on a lane that links do not have");
    if (word[WORD_RECEIVE] == FOR_EACH || (word[WORD_RECEIVE] == FOR_FIRST && !p->m))
        p->registers[unit[UNIT_LANE]] = receive(p, OF(p, PORTS, PORTS_INPUT), unit[UNIT_LANE]);
    const int64_t value = p->registers[unit[UNIT_LANE]];
    p->layer->computed++;
    if (unit[UNIT_OP] == MAX_OF) {
        p->sums[sum] = MAX(p->sums[sum], value);
        return;
    }
    int64_t weight = 1;
    if (unit[UNIT_OP] == MAC) {
        const int64_t *strides = p->of[STRIDES];
        const int64_t place = unit[UNIT_WEIGHT] + p->m * strides[STRIDES_WEIGHT_M] +
                              p->n * strides[STRIDES_WEIGHT_N] +
                              p->k1 * strides[STRIDES_WEIGHT_K1] + p->k2 * strides[STRIDES_WEIGHT_K2];
        if (place >= OF(p, RESULT, RESULT_WEIGHTS))
            broken(p, "reads beyond its weights");
        weight = p->weights[place];
    }
    p->sums[sum] = kept(p, (uint64_t)p->sums[sum] + (uint64_t)(value * weight));
}

/* The slot of a functional unit: its operation, if there is a map for it, and whether a sum is complete. */
static void compute(process_t *p, int u, const int64_t *word, const int64_t *unit)
{
    const int has_map = p->n < unit[UNIT_MAPS];
    p->stores[u] = 0;
    if (unit[UNIT_OP] == NOP || p->m >= unit[UNIT_FILTERS])
        return;
    if (has_map) {
        const int64_t sum = sum_at(p, unit);
        if (at_first(p, unit[UNIT_INIT]))
            p->sums[sum] = initial(p, unit, sum);
        operate(p, word, unit, sum);
    }
    /* The last map may be that of another unit or PE. */
    if (has_map || unit[UNIT_STORE] == WITHIN_ALL)
        p->stores[u] = (char)at_last(p, unit[UNIT_STORE]);
    p->storing |= p->stores[u];
}

static void execute(process_t *p)
{
    if (machine.busy[p->pe] == machine.now)
        broken(p, "another program computes in this PE");
    machine.busy[p->pe] = machine.now;
    p->storing = 0;
    if (!p->k1 && !p->k2 && !p->n && !p->m) {
        if (p->layer->start < 0)
            p->layer->start = machine.now;
        if (p->valid && p->lines)
            reserve(p);
    }
    if (!p->valid)
        return;
    const instruction_t *at = &p->code[p->pc];
    for (int u = 0; u < machine.form[ARRAY_UNITS]; u++)
        compute(p, u, at->word, at->units[u].values);
    if (!p->storing || !OF(p, PORTS, PORTS_SEND))
        return;
    for (int u = 0; u < machine.form[ARRAY_UNITS]; u++)
        if (p->stores[u]) {
            const int64_t *unit = at->units[u].values;
            send(p, unit[UNIT_OUT], p->sums[sum_at(p, unit)]);
        }
}

/* Scale, rectify and store results, to which the sums of neighbours are added. */
static void store_results(process_t *p)
{
    if (!p->valid || !p->storing || OF(p, PORTS, PORTS_SEND))
        return;
    const int64_t *form = p->of[RESULT], *own = p->of[PORTS], channels = OF(p, SHARE, SHARE_CHANNELS);
    for (int u = 0; u < machine.form[ARRAY_UNITS]; u++) {
        if (!p->stores[u])
            continue;
        const int64_t *unit = p->code[p->pc].units[u].values, sum = sum_at(p, unit);
        int64_t value = p->sums[sum];
        for (int64_t s = 0; s < own[PORTS_SUM_PORTS]; s++)
            value = kept(p, (uint64_t)value + (uint64_t)receive(p, own[PORTS_SUMS] + s, unit[UNIT_OUT]));
        if (form[RESULT_LATE]) /* the bias is added outside of the accumulator */
            value += bias_of(p, sum);
        if (form[RESULT_RELU])
            value = MAX(value, 0);
        const int64_t bits = form[RESULT_BITS] ? form[RESULT_BITS] : machine.form[ARRAY_BITS];
        value = rescaled(value, (int)form[RESULT_SHIFT], form[RESULT_DIVISOR], (int)bits);
        if (sum >= channels)
            broken(p, "stores a channel that it does not have");
        if (p->lines && p->line < 0)
            broken(p, "stores a pixel that has no line");
        if (p->lines) {
            p->lines[p->line * channels + sum] = value;
            p->written[p->line * channels + sum] = 1;
        }
        if (own[PORTS_OUTPUT])
            send(p, unit[UNIT_OUT], value);
    }
}

/* The sequencer ---------------------------------------------------------------------------------------- */

static void load_word(process_t *p, int pc)
{
    p->pc = pc;
    p->left = p->code[pc].word[WORD_REPEAT];
}

/* Count the loops inside of a beat; returns whether all are done. */
static int iterated(process_t *p)
{
    const int64_t *loops = p->of[LOOPS];
    int64_t *const counters[] = {&p->m, &p->n, &p->k2, &p->k1};
    static const int trips[] = {LOOPS_M, LOOPS_N, LOOPS_K2, LOOPS_K1};
    for (int i = 0; i < 4; i++) {
        if (++*counters[i] < loops[trips[i]])
            return 0;
        *counters[i] = 0;
    }
    return 1;
}

static void advance(process_t *p)
{
    const int64_t *word = p->code[p->pc].word, then = word[WORD_THEN];
    if (p->active ? !iterated(p) : --p->left > 0)
        return;
    int goes_on = p->pc + 1;
    if (then == BEAT || then == BOTH) {
        end_beat(p);
        const int more = p->beat + 1 < OF(p, LOOPS, LOOPS_R) * OF(p, LOOPS, LOOPS_C);
        p->beat += more;
        if (more)
            goes_on = (int)word[WORD_TARGET];
        else if (then == BOTH)
            goes_on = -1;
    }
    if (then == FRAME)
        goes_on = -1;
    if (goes_on < 0) {
        if (p->beat + 1 < OF(p, LOOPS, LOOPS_R) * OF(p, LOOPS, LOOPS_C))
            broken(p, "a frame ends before its last beat");
        p->beat = 0;
        p->done = ++p->frame == machine.result.frames;
        goes_on = (int)word[WORD_TARGET];
    }
    load_word(p, goes_on);
    begin_beat(p);
}

static void each_active(int kind, void (*does)(process_t *))
{
    for (int i = 0; i < machine.process_count; i++)
        if (machine.processes[i].active && machine.processes[i].kind == kind)
            does(&machine.processes[i]);
}

/* One cycle: values cross the array, are computed, stored, and leave it. Returns whether any of it ran. */
static int cycle(void)
{
    int waiting = 0;
    for (int i = 0; i < machine.process_count; i++) {
        process_t *p = &machine.processes[i];
        if (p->done)
            continue;
        waiting = 1;
        if (!p->running && machine.now == p->start) { /* the controller starts it */
            p->running = 1;
            load_word(p, 0);
            begin_beat(p);
        }
        p->active = p->running && p->code[p->pc].word[WORD_WHAT] == ITERATE;
    }
    each_active(READER, drive);
    each_active(PROGRAM, execute);
    each_active(PROGRAM, store_results);
    each_active(WRITER, write_output);
    for (int i = 0; i < machine.process_count; i++) {
        process_t *p = &machine.processes[i];
        if (p->running && !p->done)
            advance(p);
        if (p->done)
            p->active = 0;
    }
    return waiting;
}

result_t run_array(const code_t *code, const memory_t *memory, int64_t most_cycles)
{
    load_array(code, memory);
    for (machine.now = 0; cycle(); machine.now++)
        if (machine.now > most_cycles)
            fail("program", "does not end");
    machine.result.cycles = machine.now;
    return machine.result;
}
