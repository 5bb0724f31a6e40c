#include "process.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "numbers.h"

enum { MOST_HOPS = 1 << 12, MOST_LINKS = 1 << 20 };

machine_t machine;
static size_t *first_connection, *next_connection; /* of a PE; of those of a PE; 0 for none */

void broken(const process_t *p, const char *why)
{
    fflush(stdout);
    fprintf(stderr, "cycle %lld: %s at PE (%zu, %zu), layer %s, word %zu: %s\n", (long long)machine.now,
            forms[p->kind].name, p->pe / (size_t)machine.form[ARRAY_COLUMNS],
            p->pe % (size_t)machine.form[ARRAY_COLUMNS], p->layer->name, p->record->word, why);
    exit(1);
}

static size_t pe_of(const record_t *record, int row, int column)
{
    if (record->values[row] >= machine.form[ARRAY_ROWS])
        refuse(record, row, "is outside the array");
    if (record->values[column] >= machine.form[ARRAY_COLUMNS])
        refuse(record, column, "is outside the array");
    return (size_t)(record->values[row] * machine.form[ARRAY_COLUMNS] + record->values[column]);
}

static void read_layers(const code_t *code)
{
    int count = 0;
    for (size_t i = 0; i < code->count; i++)
        count += code->records[i].kind == LAYER;
    machine.result.layers = count;
    machine.result.of = allocate(count, sizeof(layer_t));
    count = 0;
    for (size_t i = 0; i < code->count; i++) {
        const record_t *record = &code->records[i];
        if (record->kind == LAYER) {
            layer_t *layer = &machine.result.of[count];
            layer->form = record->values;
            if (record->values[LAYER_NUMBER] != count++)
                refuse(record, LAYER_NUMBER, "layers are numbered in their order");
            const int64_t size = record->values[LAYER_COUNT];
            layer->name = allocate(size + 1, 1);
            for (int64_t c = 0; c < size; c++)
                layer->name[c] = (char)(record->tail[c / 8] >> (c % 8 * 8) & 255);
            layer->start = -1;
            layer->ends = allocate(machine.result.frames, sizeof(int64_t));
        } else if (record->kind == ORDER) {
            if (record->values[ORDER_LAYER] >= count)
                refuse(record, ORDER_LAYER, "there is no such layer before it");
            layer_t *layer = &machine.result.of[record->values[ORDER_LAYER]];
            if (record->values[ORDER_COUNT] != layer->form[LAYER_ROWS] * layer->form[LAYER_COLUMNS])
                refuse(record, ORDER_COUNT, "is not the number of the layer's pixels");
            layer->order = record;
            for (int64_t i = 0; i < record->values[ORDER_COUNT]; i++)
                if ((int64_t)(record->tail[i / 2] >> (i % 2 * 32) & 0xffffffff) >=
                    record->values[ORDER_COUNT])
                    refuse(record, ORDER_LAYER, "has pixels that the layer does not have");
        }
    }
    if (!count)
        fail("program", "has no layer");
}

static int is_process(int kind)
{
    return kind == PROGRAM || kind == READER || kind == WRITER;
}

/* A port to which streams come. */
static port_t *port_at(size_t pe, int64_t number)
{
    if (number >= machine.port_count[pe]) {
        const size_t count = (size_t)machine.port_count[pe];
        machine.ports[pe] = enlarge(machine.ports[pe], count, (size_t)number + 1 - count, sizeof(port_t));
        machine.port_count[pe] = (int)number + 1;
    }
    return &machine.ports[pe][number];
}

/* Make room for the values of all ports, when their delays are known. */
static void prepare_ports(void)
{
    const size_t slots = (size_t)(machine.form[ARRAY_UNITS] * machine.moments);
    for (int64_t pe = 0; pe < machine.form[ARRAY_ROWS] * machine.form[ARRAY_COLUMNS]; pe++)
        for (int number = 0; number < machine.port_count[pe]; number++) {
            port_t *port = &machine.ports[pe][number];
            port->values = allocate(slots, sizeof(int64_t));
            port->comes = allocate(slots, sizeof(int64_t));
            port->taken = allocate(slots, 1);
            for (size_t slot = 0; slot < slots; slot++) {
                port->comes[slot] = -1;
                port->taken[slot] = 1;
            }
        }
}

static void need(const process_t *p, const int *kinds)
{
    for (; *kinds >= 0; kinds++)
        if (!p->of[*kinds])
            broken(p, "a record that it needs is missing");
}

static void check_words(process_t *p)
{
    for (int i = 0; i < p->code_size; i++) {
        const int64_t *word = p->code[i].word;
        if (word[WORD_TARGET] >= p->code_size)
            broken(p, "a word's target is beyond its program");
        if (word[WORD_WHAT] == ITERATE && word[WORD_REPEAT] != 1)
            broken(p, "an iteration is not repeated");
        if (word[WORD_THEN] != FRAME && word[WORD_THEN] != BOTH && i + 1 == p->code_size)
            broken(p, "no word follows the last one");
    }
    if (!p->code_size || p->code[0].word[WORD_WHAT] != ITERATE)
        broken(p, "begins with no iteration");
    const int64_t beats = OF(p, LOOPS, LOOPS_R) * OF(p, LOOPS, LOOPS_C);
    if (OF(p, LOOPS, LOOPS_C) != p->layer->form[LAYER_COLUMNS])
        broken(p, "its columns are not those of its layer");
    if (p->layer->order && beats != p->layer->order->values[ORDER_COUNT])
        broken(p, "its beats are not the pixels of its layer's order");
}

/* What has no meaning is 0, so that no bit changes unseen. */
static void check_units(const process_t *p, const instruction_t *at)
{
    for (int64_t u = 0; u < machine.form[ARRAY_UNITS]; u++) {
        const record_t *record = &at->units[u];
        const int64_t *unit = record->values;
        if (unit[UNIT_OP] != NOP && at->word[WORD_WHAT] != ITERATE)
            refuse(record, UNIT_OP, "computes while its word waits");
        for (int f = 0; unit[UNIT_OP] == NOP && f < forms[UNIT].count; f++)
            if (unit[f])
                refuse(record, f, "must be 0 where a unit does nothing");
        if (unit[UNIT_MAPS] > OF(p, LOOPS, LOOPS_N))
            refuse(record, UNIT_MAPS, "is beyond the trips of n");
        if (unit[UNIT_FILTERS] > OF(p, LOOPS, LOOPS_M))
            refuse(record, UNIT_FILTERS, "is beyond the trips of m");
        if (unit[UNIT_OUT] && !unit[UNIT_STORE])
            refuse(record, UNIT_OUT, "must be 0 where nothing is stored");
        if (unit[UNIT_WEIGHT] && unit[UNIT_OP] != MAC)
            refuse(record, UNIT_WEIGHT, "must be 0 where nothing is multiplied");
    }
}

static void check_maps(const process_t *p)
{
    static const int grouped[] = {MAPS_FILTER_STEP, MAPS_FILTER_FIRST, MAPS_FILTER_COUNT, MAPS_GROUP_MAPS};
    const int64_t *maps = p->of[MAPS], *share = p->of[SHARE];
    for (int i = 0; i < 4; i++)
        if (!maps[MAPS_GROUP_FILTERS] && maps[grouped[i]])
            broken(p, "has fields of groups, but no groups");
    if (maps[MAPS_GROUP_FILTERS] && !maps[MAPS_FILTER_STEP])
        broken(p, "has groups, but no filters");
    if (share[SHARE_CHANNEL_STEP] != 1 || share[SHARE_CHANNEL_FIRST] || share[SHARE_CHANNELS])
        broken(p, "computes no channels");
    if (maps[MAPS_COUNT] > OF(p, LOOPS, LOOPS_N) * maps[MAPS_LANES])
        broken(p, "has more maps than trips for them");
}

/* Read a process: its head, what follows it, and its words. Returns the record after it. */
static size_t read_process(const code_t *code, size_t begin, process_t *p)
{
    const record_t *head = &code->records[begin];
    static const int layer_of[KINDS] = {
        [PROGRAM] = PROGRAM_LAYER, [READER] = READER_LAYER, [WRITER] = WRITER_LAYER};
    static const int start_of[KINDS] = {
        [PROGRAM] = PROGRAM_START, [READER] = READER_START, [WRITER] = WRITER_START};
    p->kind = head->kind;
    p->record = head;
    p->of[head->kind] = head->values;
    p->pe = pe_of(head, PROGRAM_ROW, PROGRAM_COLUMN);
    if (head->values[layer_of[p->kind]] >= machine.result.layers)
        refuse(head, layer_of[p->kind], "there is no such layer");
    p->layer = &machine.result.of[head->values[layer_of[p->kind]]];
    p->start = head->values[start_of[p->kind]];
    const int64_t units = p->kind == PROGRAM ? machine.form[ARRAY_UNITS] : 0;
    size_t end = begin + 1;
    for (; end < code->count && !is_process(code->records[end].kind); end++)
        p->code_size += code->records[end].kind == WORD;
    p->code = allocate(p->code_size, sizeof(instruction_t));
    p->code_size = 0;
    for (size_t i = begin + 1; i < end; i++) {
        const record_t *record = &code->records[i];
        if (record->kind == ARRAY || record->kind == LAYER || record->kind == ORDER ||
            record->kind == CONNECT)
            refuse(record, 0, "stands within a program");
        if (record->kind != WORD) {
            if (p->of[record->kind] || record->kind == UNIT)
                refuse(record, 0, "is one too many");
            p->of[record->kind] = record->values;
            continue;
        }
        const instruction_t read = {record->values, record + 1};
        p->code[p->code_size++] = read;
        for (int64_t u = 0; u < units; u++)
            if (++i >= end || code->records[i].kind != UNIT)
                refuse(record, 0, "has too few units");
    }
    static const int needed[KINDS][6] = {
        [PROGRAM] = {LOOPS, SHARE, STRIDES, RESULT, PORTS, -1},
        [READER] = {LOOPS, SHARE, WINDOW, MAPS, OPERAND, OWNER},
        [WRITER] = {LOOPS, SHARE, STRIDES, TAKE, -1}};
    int kinds[7];
    memcpy(kinds, needed[p->kind], sizeof needed[0]);
    kinds[6] = -1;
    need(p, kinds);
    check_words(p);
    for (int i = 0; p->kind == PROGRAM && i < p->code_size; i++)
        check_units(p, &p->code[i]);
    if (p->kind == READER)
        check_maps(p);
    return end;
}

/* Prepare a PE's program: sums, parameters, and its buffer. */
static void prepare_program(process_t *p, int64_t *parameters)
{
    const int64_t units = machine.form[ARRAY_UNITS], lines = OF(p, RESULT, RESULT_LINES);
    const int64_t pixels = p->layer->form[LAYER_ROWS] * p->layer->form[LAYER_COLUMNS];
    p->sums = allocate(OF(p, RESULT, RESULT_SUMS), sizeof(int64_t));
    p->registers = allocate(units, sizeof(int64_t));
    p->stores = allocate(units, 1);
    const int64_t count = OF(p, RESULT, RESULT_BIASES) + OF(p, RESULT, RESULT_WEIGHTS);
    if (count > machine.memory->parameter_count - *parameters)
        broken(p, "there are fewer biases and weights");
    if (OF(p, RESULT, RESULT_SHIFT) > 32 || OF(p, RESULT, RESULT_SHIFT) < -20 ||
        OF(p, RESULT, RESULT_BIAS_SHIFT) > 40)
        broken(p, "a shift is too long");
    if (OF(p, RESULT, RESULT_BITS) > machine.form[ARRAY_BITS] ||
        OF(p, RESULT, RESULT_SUM_BITS) > machine.form[ARRAY_SUM_BITS])
        broken(p, "results or sums are wider than those of the array");
    p->biases = machine.memory->parameters + *parameters;
    p->weights = p->biases + OF(p, RESULT, RESULT_BIASES);
    *parameters += count;
    p->layer->weights += OF(p, RESULT, RESULT_WEIGHTS);
    p->layer->pes++;
    machine.result.words += p->code_size;
    p->line = -1;
    if (lines > pixels * machine.result.frames)
        broken(p, "its buffer is larger than all its pixels");
    if (!lines)
        return;
    p->lines = allocate(lines * OF(p, SHARE, SHARE_CHANNELS), sizeof(int64_t));
    p->written = allocate(lines * OF(p, SHARE, SHARE_CHANNELS), 1);
    p->uses = allocate(lines, sizeof(int64_t));
    p->free_lines = allocate(lines, sizeof(int64_t));
    p->line_of = allocate(pixels * machine.result.frames, sizeof(int64_t));
    for (int64_t i = 0; i < pixels * machine.result.frames; i++)
        p->line_of[i] = -1;
    for (p->free_count = 0; p->free_count < lines; p->free_count++)
        p->free_lines[p->free_count] = p->free_count;
}

/* How often a reader looks at each row (column) of what it reads. */
static int64_t *visits(const process_t *p, int axis)
{
    const int64_t *window = p->of[WINDOW], *loops = p->of[LOOPS];
    const int64_t plane = window[axis ? WINDOW_COLUMNS : WINDOW_ROWS];
    const int64_t number = OF(p, OPERAND, OPERAND_NUMBER);
    int64_t *found = allocate(plane, sizeof(int64_t));
    const int64_t outputs = axis ? p->layer->form[LAYER_COLUMNS] : p->layer->form[LAYER_ROWS];
    const int64_t first = axis ? 0 : OF(p, SHARE, SHARE_ROW_FIRST);
    const int64_t step = axis ? 1 : OF(p, SHARE, SHARE_ROW_STEP);
    const int64_t stride = window[axis ? WINDOW_STRIDE_X : WINDOW_STRIDE_Y];
    const int64_t dilation = window[axis ? WINDOW_DILATION_X : WINDOW_DILATION_Y];
    for (int64_t o = first; o < outputs; o += step)
        for (int64_t k = 0; k < loops[axis ? LOOPS_K2 : LOOPS_K1]; k++) {
            const int64_t at = o * stride + k * dilation - window[axis ? WINDOW_LEFT : WINDOW_TOP];
            if (at >= 0 && at < plane && (axis || !number || k == number - 1))
                found[at]++;
        }
    return found;
}

static void prepare_reader(process_t *p)
{
    if (OF(p, MAPS, MAPS_LANES) * OF(p, MAPS, MAPS_FILTERS) > machine.form[ARRAY_UNITS])
        broken(p, "sends more lanes than there are units");
    if (OF(p, OPERAND, OPERAND_SHIFT) > 32 || OF(p, OPERAND, OPERAND_SHIFT) < -20 ||
        OF(p, OPERAND, OPERAND_BITS) > 62)
        broken(p, "brings values to a scale that it does not have");
    const int64_t source = OF(p, READER, READER_SOURCE);
    if (!source) {
        const int64_t pixels = OF(p, WINDOW, WINDOW_ROWS) * OF(p, WINDOW, WINDOW_COLUMNS);
        if (OF(p, OPERAND, OPERAND_CHANNELS) * pixels != machine.memory->inputs)
            broken(p, "the network's input has another size");
        return;
    }
    for (int i = 0; i < machine.process_count; i++) {
        process_t *other = &machine.processes[i];
        if (other->kind == PROGRAM && other->pe == p->pe && other->layer - machine.result.of == source - 1)
            p->source = other;
    }
    if (!p->source || !p->source->lines)
        broken(p, "no program of this PE has what it reads");
    const int64_t *held = p->source->of[SHARE], *owner = p->of[OWNER], *form = p->source->layer->form;
    if (held[SHARE_CHANNEL_STEP] != owner[OWNER_CHANNEL_STEP] ||
        held[SHARE_CHANNEL_FIRST] != owner[OWNER_CHANNEL_FIRST] ||
        held[SHARE_ROW_STEP] != owner[OWNER_ROW_STEP] || held[SHARE_ROW_FIRST] != owner[OWNER_ROW_FIRST])
        broken(p, "the PE holds other channels and rows");
    if (form[LAYER_ROWS] != OF(p, WINDOW, WINDOW_ROWS) ||
        form[LAYER_COLUMNS] != OF(p, WINDOW, WINDOW_COLUMNS))
        broken(p, "what it reads has another size");
    p->row_visits = visits(p, 0);
    p->column_visits = visits(p, 1);
}

/* Follow a stream from one port of a PE to all where it is received. */
static void follow(const code_t *code, process_t *p, size_t pe, int64_t port, int64_t number, int hops)
{
    static const int down[] = {[NORTH] = -1, [SOUTH] = 1, [EAST] = 0, [WEST] = 0};
    static const int right[] = {[EAST] = 1, [WEST] = -1, [NORTH] = 0, [SOUTH] = 0};
    static const int other[] = {[NORTH] = SOUTH, [SOUTH] = NORTH, [EAST] = WEST, [WEST] = EAST};
    if (hops > MOST_HOPS || p->links > MOST_LINKS)
        broken(p, "its stream goes around in a circle");
    for (size_t i = first_connection[pe]; i; i = next_connection[i]) {
        const record_t *r = &code->records[i];
        const int64_t *values = r->values;
        if (values[CONNECT_INPUT] != port || values[CONNECT_FROM] != number)
            continue;
        const int to = (int)values[CONNECT_OUTPUT];
        if (to == LOCAL) {
            p->sinks = enlarge(p->sinks, (size_t)p->sink_count, 1, sizeof(sink_t));
            const int64_t delay = hops * machine.form[ARRAY_HOP] + values[CONNECT_DELAY];
            const sink_t sink = {(int)values[CONNECT_TO], hops, delay, pe};
            machine.moments = MAX(machine.moments, delay + 1);
            p->sinks[p->sink_count++] = sink;
            port_at(pe, values[CONNECT_TO]);
            continue;
        }
        const int64_t row = values[CONNECT_ROW] + down[to], column = values[CONNECT_COLUMN] + right[to];
        if (row < 0 || row >= machine.form[ARRAY_ROWS] || column < 0 || column >= machine.form[ARRAY_COLUMNS])
            refuse(r, CONNECT_OUTPUT, "leads out of the array");
        if (values[CONNECT_DELAY])
            refuse(r, CONNECT_DELAY, "must be 0 at links; registers stand in front of local ports");
        machine.result.channels = MAX(machine.result.channels, values[CONNECT_TO] + 1);
        p->links++;
        const size_t next = (size_t)(row * machine.form[ARRAY_COLUMNS] + column);
        follow(code, p, next, other[to], values[CONNECT_TO], hops + 1);
    }
}

static void take_port(process_t *p, int64_t number)
{
    port_t *port = port_at(p->pe, number);
    if (port->used++)
        broken(p, "another one receives at its port");
}

static void connect_all(const code_t *code)
{
    for (int i = 0; i < machine.process_count; i++) {
        process_t *p = &machine.processes[i];
        int64_t from = 0;
        if (p->kind == PROGRAM) {
            const int64_t *own = p->of[PORTS];
            if (own[PORTS_SEND] && own[PORTS_OUTPUT])
                broken(p, "sends sums and outputs");
            from = own[PORTS_SEND] ? own[PORTS_SEND] : own[PORTS_OUTPUT];
            take_port(p, own[PORTS_INPUT]);
            for (int64_t s = 0; s < own[PORTS_SUM_PORTS]; s++)
                take_port(p, own[PORTS_SUMS] + s);
        } else if (p->kind == READER) {
            from = OF(p, READER, READER_PORT);
        } else {
            take_port(p, OF(p, WRITER, WRITER_PORT));
        }
        if (from)
            follow(code, p, p->pe, LOCAL, from, 0);
    }
}

/* Hops from each PE of a layer to the nearest PE of what it reads. */
static void count_hops(void)
{
    for (int i = 0; i < machine.process_count; i++) {
        const process_t *p = &machine.processes[i];
        if (p->kind != PROGRAM)
            continue;
        for (int64_t source = 1; source <= machine.result.layers; source++)
            for (int64_t number = 0; number <= OF(p, LOOPS, LOOPS_K1); number++) {
                int nearest = -1;
                for (int j = 0; j < machine.process_count; j++) {
                    const process_t *r = &machine.processes[j];
                    if (r->kind != READER || OF(r, READER, READER_SOURCE) != source ||
                        r->layer != p->layer || OF(r, OPERAND, OPERAND_NUMBER) != number)
                        continue;
                    for (int s = 0; s < r->sink_count; s++)
                        if (r->sinks[s].pe == p->pe && r->sinks[s].port == OF(p, PORTS, PORTS_INPUT) &&
                            (nearest < 0 || r->sinks[s].hops < nearest))
                            nearest = r->sinks[s].hops;
                }
                p->layer->hops += MAX(nearest, 0);
            }
    }
}

void load_array(const code_t *code, const memory_t *memory)
{
    machine.memory = memory;
    if (!code->count || code->records[0].kind != ARRAY)
        fail("program", "begins with no array");
    machine.form = code->records[0].values;
    if (machine.form[ARRAY_BITS] > 16 || machine.form[ARRAY_SUM_BITS] > 60)
        fail("program", "has wider values than this machine");
    machine.result.frames = (int)machine.form[ARRAY_FRAMES];
    const size_t pes = (size_t)(machine.form[ARRAY_ROWS] * machine.form[ARRAY_COLUMNS]);
    machine.ports = allocate(pes, sizeof(port_t *));
    machine.port_count = allocate(pes, sizeof(int));
    machine.busy = allocate(pes, sizeof(int64_t));
    for (size_t pe = 0; pe < pes; pe++)
        machine.busy[pe] = -1;
    read_layers(code);
    first_connection = allocate(pes, sizeof(size_t));
    next_connection = allocate(code->count, sizeof(size_t));
    for (size_t c = 0; c < code->count; c++)
        if (code->records[c].kind == CONNECT) {
            const size_t pe = pe_of(&code->records[c], CONNECT_ROW, CONNECT_COLUMN);
            next_connection[c] = first_connection[pe];
            first_connection[pe] = c;
        }
    machine.processes = allocate(code->count, sizeof(process_t));
    size_t i = 1;
    while (i < code->count) {
        const int kind = code->records[i].kind;
        if (is_process(kind))
            i = read_process(code, i, &machine.processes[machine.process_count++]);
        else if (kind != LAYER && kind != ORDER && kind != CONNECT)
            refuse(&code->records[i], 0, "belongs to no program");
        else
            i++;
    }
    int64_t parameters = 0;
    for (int p = 0; p < machine.process_count; p++)
        if (machine.processes[p].kind == PROGRAM)
            prepare_program(&machine.processes[p], &parameters);
    if (parameters != machine.memory->parameter_count)
        fail("program", "has fewer biases and weights than there are");
    for (int p = 0; p < machine.process_count; p++)
        if (machine.processes[p].kind == READER)
            prepare_reader(&machine.processes[p]);
        else if (machine.processes[p].kind == WRITER &&
                 OF(&machine.processes[p], TAKE, TAKE_LANES) > machine.form[ARRAY_UNITS])
            broken(&machine.processes[p], "takes more lanes than there are units");
    machine.moments = 1;
    connect_all(code);
    prepare_ports();
    count_hops();
    machine.result.bits = 64 * (forms[WORD].words + machine.form[ARRAY_UNITS] * forms[UNIT].words);
}
