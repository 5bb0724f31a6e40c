#include "array.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "numbers.h"

enum { NORTH, EAST, SOUTH, WEST, LOCAL };
enum { NOP, MAC, MAX_OF, ADD };
enum { NEVER, WITHIN_WINDOW, WITHIN_ALL };
enum { WAIT, ITERATE };
enum { NEXT, BEAT, FRAME, BOTH };
enum { NOT_RECEIVED, FOR_FIRST, FOR_EACH };

enum { MOST_HOPS = 1 << 12, MOST_LINKS = 1 << 20 };

/* Where a stream ends: values that arrive in this cycle and in those to come, lane by lane. */
typedef struct {
    int64_t *values, *comes; /* and the cycle in which each is there */
    char *taken;
    int used; /* whether a program or a writer receives here */
} port_t;

typedef struct {
    int port, hops;
    int64_t delay; /* from the sender, in cycles */
    size_t pe;
} sink_t;

/* What runs at a place: a PE's program, a reader or a writer. `of` has its records by kind. */
typedef struct process {
    int kind;
    size_t pe;
    const record_t *record;
    const int64_t *of[KINDS];
    layer_t *layer;
    instruction_t *code;
    int code_size;
    /* The sequencer. */
    int64_t start, left, frame, beat;
    int64_t k1, k2, n, m;
    int pc, running, done, active, valid;
    int64_t y, x; /* the pixel of this beat */
    /* A program. */
    int64_t *sums, *registers;
    const int64_t *biases, *weights;
    char *stores; /* which units store in this cycle */
    int storing;
    /* Its buffer: lines of pixels, and where the pixels of each frame are. */
    int64_t *lines, *uses;
    char *written;
    int64_t *line_of, *free_lines, free_count;
    int64_t line; /* of this beat's pixel, or -1 */
    /* A reader: what it reads, and how often it reads each row and column of it. */
    struct process *source;
    int64_t *row_visits, *column_visits;
    /* Where what is sent arrives, and how many links it crosses. */
    sink_t *sinks;
    int sink_count, links;
} process_t;

static int64_t now;
static result_t result;
static const memory_t *mem;
static const int64_t *array; /* the record `array` */
static port_t **ports;       /* by PE and number */
static int *port_count;
static int64_t moments; /* cycles that ports look ahead, this one among them */
static process_t *processes;
static int process_count;
static int64_t *busy; /* by PE, the last cycle in which a program computed */
static size_t *first_connection, *next_connection; /* of a PE; of those of a PE; 0 for none */

#define OF(p, KIND, field) ((p)->of[KIND][field])

static void broken(const process_t *p, const char *why)
{
    fflush(stdout);
    fprintf(stderr, "cycle %lld: %s at PE (%zu, %zu), layer %s, word %zu: %s\n", (long long)now,
            forms[p->kind].name, p->pe / (size_t)array[ARRAY_COLUMNS], p->pe % (size_t)array[ARRAY_COLUMNS],
            p->layer->name, p->record->word, why);
    exit(1);
}

/* Reading a program ------------------------------------------------------------------------------------ */

static size_t pe_of(const record_t *record, int row, int column)
{
    if (record->values[row] >= array[ARRAY_ROWS])
        refuse(record, row, "is outside the array");
    if (record->values[column] >= array[ARRAY_COLUMNS])
        refuse(record, column, "is outside the array");
    return (size_t)(record->values[row] * array[ARRAY_COLUMNS] + record->values[column]);
}

static void read_layers(const code_t *code)
{
    int count = 0;
    for (size_t i = 0; i < code->count; i++)
        count += code->records[i].kind == LAYER;
    result.layers = count;
    result.of = allocate(count, sizeof(layer_t));
    count = 0;
    for (size_t i = 0; i < code->count; i++) {
        const record_t *record = &code->records[i];
        if (record->kind == LAYER) {
            layer_t *layer = &result.of[count];
            layer->form = record->values;
            if (record->values[LAYER_NUMBER] != count++)
                refuse(record, LAYER_NUMBER, "layers are numbered in their order");
            const int64_t size = record->values[LAYER_COUNT];
            layer->name = allocate(size + 1, 1);
            for (int64_t c = 0; c < size; c++)
                layer->name[c] = (char)(record->tail[c / 8] >> (c % 8 * 8) & 255);
            layer->start = -1;
            layer->ends = allocate(result.frames, sizeof(int64_t));
        } else if (record->kind == ORDER) {
            if (record->values[ORDER_LAYER] >= count)
                refuse(record, ORDER_LAYER, "there is no such layer before it");
            layer_t *layer = &result.of[record->values[ORDER_LAYER]];
            if (record->values[ORDER_COUNT] != layer->form[LAYER_ROWS] * layer->form[LAYER_COLUMNS])
                refuse(record, ORDER_COUNT, "is not the number of the layer's pixels");
            layer->order = record;
            for (int64_t i = 0; i < record->values[ORDER_COUNT]; i++)
                if ((int64_t)(record->tail[i / 2] >> (i % 2 * 32) & 0xffffffff) >= record->values[ORDER_COUNT])
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
    if (number >= port_count[pe]) {
        ports[pe] = enlarge(ports[pe], (size_t)port_count[pe], (size_t)(number + 1 - port_count[pe]), sizeof(port_t));
        port_count[pe] = (int)number + 1;
    }
    return &ports[pe][number];
}

/* Make room for the values of all ports, when their delays are known. */
static void prepare_ports(void)
{
    const size_t slots = (size_t)(array[ARRAY_UNITS] * moments);
    for (int64_t pe = 0; pe < array[ARRAY_ROWS] * array[ARRAY_COLUMNS]; pe++)
        for (int number = 0; number < port_count[pe]; number++) {
            port_t *port = &ports[pe][number];
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
    for (int64_t u = 0; u < array[ARRAY_UNITS]; u++) {
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
    static const int layer_of[KINDS] = {[PROGRAM] = PROGRAM_LAYER, [READER] = READER_LAYER, [WRITER] = WRITER_LAYER};
    static const int start_of[KINDS] = {[PROGRAM] = PROGRAM_START, [READER] = READER_START, [WRITER] = WRITER_START};
    p->kind = head->kind;
    p->record = head;
    p->of[head->kind] = head->values;
    p->pe = pe_of(head, PROGRAM_ROW, PROGRAM_COLUMN);
    if (head->values[layer_of[p->kind]] >= result.layers)
        refuse(head, layer_of[p->kind], "there is no such layer");
    p->layer = &result.of[head->values[layer_of[p->kind]]];
    p->start = head->values[start_of[p->kind]];
    const int64_t units = p->kind == PROGRAM ? array[ARRAY_UNITS] : 0;
    size_t end = begin + 1;
    for (; end < code->count && !is_process(code->records[end].kind); end++)
        p->code_size += code->records[end].kind == WORD;
    p->code = allocate(p->code_size, sizeof(instruction_t));
    p->code_size = 0;
    for (size_t i = begin + 1; i < end; i++) {
        const record_t *record = &code->records[i];
        if (record->kind == ARRAY || record->kind == LAYER || record->kind == ORDER || record->kind == CONNECT)
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
    const int64_t units = array[ARRAY_UNITS], lines = OF(p, RESULT, RESULT_LINES);
    const int64_t pixels = p->layer->form[LAYER_ROWS] * p->layer->form[LAYER_COLUMNS];
    p->sums = allocate(OF(p, RESULT, RESULT_SUMS), sizeof(int64_t));
    p->registers = allocate(units, sizeof(int64_t));
    p->stores = allocate(units, 1);
    const int64_t count = OF(p, RESULT, RESULT_BIASES) + OF(p, RESULT, RESULT_WEIGHTS);
    if (count > mem->parameter_count - *parameters)
        broken(p, "there are fewer biases and weights");
    if (OF(p, RESULT, RESULT_SHIFT) > 32 || OF(p, RESULT, RESULT_SHIFT) < -20 || OF(p, RESULT, RESULT_BIAS_SHIFT) > 40)
        broken(p, "a shift is too long");
    p->biases = mem->parameters + *parameters;
    p->weights = p->biases + OF(p, RESULT, RESULT_BIASES);
    *parameters += count;
    p->layer->weights += OF(p, RESULT, RESULT_WEIGHTS);
    p->layer->pes++;
    result.words += p->code_size;
    p->line = -1;
    if (lines > pixels * result.frames)
        broken(p, "its buffer is larger than all its pixels");
    if (!lines)
        return;
    p->lines = allocate(lines * OF(p, SHARE, SHARE_CHANNELS), sizeof(int64_t));
    p->written = allocate(lines * OF(p, SHARE, SHARE_CHANNELS), 1);
    p->uses = allocate(lines, sizeof(int64_t));
    p->free_lines = allocate(lines, sizeof(int64_t));
    p->line_of = allocate(pixels * result.frames, sizeof(int64_t));
    for (int64_t i = 0; i < pixels * result.frames; i++)
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
    for (int64_t o = axis ? 0 : OF(p, SHARE, SHARE_ROW_FIRST); o < outputs; o += axis ? 1 : OF(p, SHARE, SHARE_ROW_STEP))
        for (int64_t k = 0; k < loops[axis ? LOOPS_K2 : LOOPS_K1]; k++) {
            const int64_t at = axis ? o * window[WINDOW_STRIDE_X] + k * window[WINDOW_DILATION_X] - window[WINDOW_LEFT]
                                    : o * window[WINDOW_STRIDE_Y] + k * window[WINDOW_DILATION_Y] - window[WINDOW_TOP];
            if (at >= 0 && at < plane && (axis || !number || k == number - 1))
                found[at]++;
        }
    return found;
}

static void prepare_reader(process_t *p)
{
    if (OF(p, MAPS, MAPS_LANES) * OF(p, MAPS, MAPS_FILTERS) > array[ARRAY_UNITS])
        broken(p, "sends more lanes than there are units");
    const int64_t source = OF(p, READER, READER_SOURCE);
    if (!source) {
        const int64_t pixels = OF(p, WINDOW, WINDOW_ROWS) * OF(p, WINDOW, WINDOW_COLUMNS);
        if (OF(p, OPERAND, OPERAND_CHANNELS) * pixels != mem->inputs)
            broken(p, "the network's input has another size");
        return;
    }
    for (int i = 0; i < process_count; i++) {
        process_t *other = &processes[i];
        if (other->kind == PROGRAM && other->pe == p->pe && other->layer - result.of == source - 1)
            p->source = other;
    }
    if (!p->source || !p->source->lines)
        broken(p, "no program of this PE has what it reads");
    const int64_t *held = p->source->of[SHARE], *owner = p->of[OWNER], *form = p->source->layer->form;
    if (held[SHARE_CHANNEL_STEP] != owner[OWNER_CHANNEL_STEP] || held[SHARE_CHANNEL_FIRST] != owner[OWNER_CHANNEL_FIRST] ||
        held[SHARE_ROW_STEP] != owner[OWNER_ROW_STEP] || held[SHARE_ROW_FIRST] != owner[OWNER_ROW_FIRST])
        broken(p, "the PE holds other channels and rows");
    if (form[LAYER_ROWS] != OF(p, WINDOW, WINDOW_ROWS) || form[LAYER_COLUMNS] != OF(p, WINDOW, WINDOW_COLUMNS))
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
            const int64_t delay = hops * array[ARRAY_HOP] + values[CONNECT_DELAY];
            const sink_t sink = {(int)values[CONNECT_TO], hops, delay, pe};
            moments = MAX(moments, delay + 1);
            p->sinks[p->sink_count++] = sink;
            port_at(pe, values[CONNECT_TO]);
            continue;
        }
        const int64_t row = values[CONNECT_ROW] + down[to], column = values[CONNECT_COLUMN] + right[to];
        if (row < 0 || row >= array[ARRAY_ROWS] || column < 0 || column >= array[ARRAY_COLUMNS])
            refuse(r, CONNECT_OUTPUT, "leads out of the array");
        if (values[CONNECT_DELAY])
            refuse(r, CONNECT_DELAY, "must be 0 at links; registers stand in front of local ports");
        result.channels = MAX(result.channels, values[CONNECT_TO] + 1);
        p->links++;
        follow(code, p, (size_t)(row * array[ARRAY_COLUMNS] + column), other[to], values[CONNECT_TO], hops + 1);
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
    for (int i = 0; i < process_count; i++) {
        process_t *p = &processes[i];
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
    for (int i = 0; i < process_count; i++) {
        const process_t *p = &processes[i];
        if (p->kind != PROGRAM)
            continue;
        for (int64_t source = 1; source <= result.layers; source++)
            for (int64_t number = 0; number <= OF(p, LOOPS, LOOPS_K1); number++) {
                int nearest = -1;
                for (int j = 0; j < process_count; j++) {
                    const process_t *r = &processes[j];
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

static void read_array(const code_t *code)
{
    if (!code->count || code->records[0].kind != ARRAY)
        fail("program", "begins with no array");
    array = code->records[0].values;
    if (array[ARRAY_BITS] > 16 || array[ARRAY_SUM_BITS] > 60)
        fail("program", "has wider values than this machine");
    result.frames = (int)array[ARRAY_FRAMES];
    const size_t pes = (size_t)(array[ARRAY_ROWS] * array[ARRAY_COLUMNS]);
    ports = allocate(pes, sizeof(port_t *));
    port_count = allocate(pes, sizeof(int));
    busy = allocate(pes, sizeof(int64_t));
    for (size_t pe = 0; pe < pes; pe++)
        busy[pe] = -1;
    read_layers(code);
    first_connection = allocate(pes, sizeof(size_t));
    next_connection = allocate(code->count, sizeof(size_t));
    for (size_t c = 0; c < code->count; c++)
        if (code->records[c].kind == CONNECT) {
            const size_t pe = pe_of(&code->records[c], CONNECT_ROW, CONNECT_COLUMN);
            next_connection[c] = first_connection[pe];
            first_connection[pe] = c;
        }
    processes = allocate(code->count, sizeof(process_t));
    size_t i = 1;
    while (i < code->count) {
        const int kind = code->records[i].kind;
        if (is_process(kind))
            i = read_process(code, i, &processes[process_count++]);
        else if (kind != LAYER && kind != ORDER && kind != CONNECT)
            refuse(&code->records[i], 0, "belongs to no program");
        else
            i++;
    }
    int64_t parameters = 0;
    for (int p = 0; p < process_count; p++)
        if (processes[p].kind == PROGRAM)
            prepare_program(&processes[p], &parameters);
    if (parameters != mem->parameter_count)
        fail("program", "has fewer biases and weights than there are");
    for (int p = 0; p < process_count; p++)
        if (processes[p].kind == READER)
            prepare_reader(&processes[p]);
        else if (processes[p].kind == WRITER && OF(&processes[p], TAKE, TAKE_LANES) > array[ARRAY_UNITS])
            broken(&processes[p], "takes more lanes than there are units");
    moments = 1;
    connect_all(code);
    prepare_ports();
    count_hops();
    result.bits = 64 * (forms[WORD].words + array[ARRAY_UNITS] * forms[UNIT].words);
}

/* Links ------------------------------------------------------------------------------------------------ */

static void send(process_t *p, int64_t lane, int64_t value)
{
    if (lane >= array[ARRAY_UNITS])
        broken(p, "sends on a lane that links do not have");
    for (int s = 0; s < p->sink_count; s++) {
        const sink_t *sink = &p->sinks[s];
        port_t *port = &ports[sink->pe][sink->port];
        const int64_t comes = now + sink->delay, slot = lane * moments + comes % moments;
        if (port->comes[slot] == comes)
            broken(p, "two send to a port at a time");
        if (!port->taken[slot])
            broken(p, "nobody took what was sent before");
        port->values[slot] = value;
        port->comes[slot] = comes;
        port->taken[slot] = 0;
    }
    result.moved += p->links;
}

static int64_t receive(process_t *p, int64_t number, int64_t lane)
{
    port_t *port = &ports[p->pe][number];
    if (lane >= array[ARRAY_UNITS])
        broken(p, "receives on a lane that links do not have");
    const int64_t slot = lane * moments + now % moments;
    if (port->comes[slot] != now)
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
        p->y = p->beat / layer->form[LAYER_COLUMNS] * OF(p, SHARE, SHARE_ROW_STEP) + OF(p, SHARE, SHARE_ROW_FIRST);
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
    for (int i = 0; i < process_count; i++)
        if (processes[i].source == p)
            p->uses[p->line] += processes[i].row_visits[p->y] * processes[i].column_visits[p->x];
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

/* At the end of its beat a reader has done with the pixels under its window, and a layer with what nobody reads. */
static void end_beat(process_t *p)
{
    if (p->kind == PROGRAM && p->line >= 0) {
        if (!p->uses[p->line] && *line_of(p, p->frame, p->y, p->x) == p->line)
            release(p, p->frame, p->y, p->x);
        p->line = -1;
    }
    if (p->kind != READER && p->beat + 1 == OF(p, LOOPS, LOOPS_R) * OF(p, LOOPS, LOOPS_C))
        p->layer->ends[p->frame] = MAX(p->layer->ends[p->frame], now + 1);
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
        return mem->input[p->frame % mem->images * mem->inputs + place];
    }
    const int64_t line = *line_of(p->source, p->frame, y, x);
    const int64_t held = channel / OF(p, OWNER, OWNER_CHANNEL_STEP), channels = OF(p->source, SHARE, SHARE_CHANNELS);
    if (held >= channels)
        broken(p, "reads a channel that its PE does not hold");
    if (line < 0 || !p->source->written[line * channels + held])
        broken(p, "reads a pixel before it is written or after it was released");
    return p->source->lines[line * channels + held];
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
            send(p, f * maps[MAPS_LANES] + d, inside ? value_read(p, channel, y, x) : OF(p, WINDOW, WINDOW_BORDER));
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
        if (channel >= form[LAYER_CHANNELS] || place >= mem->outputs)
            broken(p, "writes beyond the outputs");
        mem->output[place] = receive(p, OF(p, WRITER, WRITER_PORT), lane);
    }
}

/* Programs --------------------------------------------------------------------------------------------- */

static int64_t initial(const process_t *p, const int64_t *unit, int64_t sum)
{
    if (unit[UNIT_OP] == MAX_OF)
        return -((int64_t)1 << 40);
    return sum < OF(p, RESULT, RESULT_BIASES) ? p->biases[sum] * ((int64_t)1 << OF(p, RESULT, RESULT_BIAS_SHIFT)) : 0;
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
    if (unit[UNIT_LANE] >= array[ARRAY_UNITS])
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
        const int64_t place = unit[UNIT_WEIGHT] + p->m * strides[STRIDES_WEIGHT_M] + p->n * strides[STRIDES_WEIGHT_N] +
                              p->k1 * strides[STRIDES_WEIGHT_K1] + p->k2 * strides[STRIDES_WEIGHT_K2];
        if (place >= OF(p, RESULT, RESULT_WEIGHTS))
            broken(p, "reads beyond its weights");
        weight = p->weights[place];
    }
    p->sums[sum] = wrapped((uint64_t)p->sums[sum] + (uint64_t)(value * weight), (int)array[ARRAY_SUM_BITS]);
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
    if (busy[p->pe] == now)
        broken(p, "another program computes in this PE");
    busy[p->pe] = now;
    p->storing = 0;
    if (!p->k1 && !p->k2 && !p->n && !p->m) {
        if (p->layer->start < 0)
            p->layer->start = now;
        if (p->valid && p->lines)
            reserve(p);
    }
    if (!p->valid)
        return;
    const instruction_t *at = &p->code[p->pc];
    for (int u = 0; u < array[ARRAY_UNITS]; u++)
        compute(p, u, at->word, at->units[u].values);
    if (!p->storing || !OF(p, PORTS, PORTS_SEND))
        return;
    for (int u = 0; u < array[ARRAY_UNITS]; u++)
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
    for (int u = 0; u < array[ARRAY_UNITS]; u++) {
        if (!p->stores[u])
            continue;
        const int64_t *unit = p->code[p->pc].units[u].values, sum = sum_at(p, unit);
        int64_t value = p->sums[sum];
        for (int64_t s = 0; s < own[PORTS_SUM_PORTS]; s++)
            value = wrapped((uint64_t)value + (uint64_t)receive(p, own[PORTS_SUMS] + s, unit[UNIT_OUT]),
                            (int)array[ARRAY_SUM_BITS]);
        if (form[RESULT_RELU])
            value = MAX(value, 0);
        value = rescaled(value, (int)form[RESULT_SHIFT], form[RESULT_DIVISOR], (int)array[ARRAY_BITS]);
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
        p->done = ++p->frame == result.frames;
        goes_on = (int)word[WORD_TARGET];
    }
    load_word(p, goes_on);
    begin_beat(p);
}

static void each_active(int kind, void (*does)(process_t *))
{
    for (int i = 0; i < process_count; i++)
        if (processes[i].active && processes[i].kind == kind)
            does(&processes[i]);
}

/* One cycle of the array: values cross it, are computed, stored, and leave it. Returns whether any of it ran. */
static int cycle(void)
{
    int waiting = 0;
    for (int i = 0; i < process_count; i++) {
        process_t *p = &processes[i];
        if (p->done)
            continue;
        waiting = 1;
        if (!p->running && now == p->start) { /* the controller starts it */
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
    for (int i = 0; i < process_count; i++) {
        process_t *p = &processes[i];
        if (p->running && !p->done)
            advance(p);
        if (p->done)
            p->active = 0;
    }
    return waiting;
}

result_t run_array(const code_t *code, const memory_t *memory, int64_t most_cycles)
{
    mem = memory;
    read_array(code);
    for (now = 0; cycle(); now++)
        if (now > most_cycles)
            fail("program", "does not end");
    result.cycles = now;
    return result;
}
