/* What runs on the array, as it is read from the records of a program. */
#ifndef PROCESS_H
#define PROCESS_H

#include "array.h"

enum { NORTH, EAST, SOUTH, WEST, LOCAL };
enum { NOP, MAC, MAX_OF, ADD };
enum { NEVER, WITHIN_WINDOW, WITHIN_ALL };
enum { WAIT, ITERATE };
enum { NEXT, BEAT, FRAME, BOTH };
enum { NOT_RECEIVED, FOR_FIRST, FOR_EACH };

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

#define OF(p, KIND, field) ((p)->of[KIND][field])

/* The array and all that runs on it. */
typedef struct {
    const int64_t *form; /* the record `array` */
    const memory_t *memory;
    port_t **ports; /* by PE and number */
    int *port_count;
    int64_t moments; /* cycles that ports look ahead, this one among them */
    process_t *processes;
    int process_count;
    int64_t *busy; /* by PE, the last cycle in which a program computed */
    int64_t now;
    result_t result;
} machine_t;

extern machine_t machine;

/* Prepare the array for a program; ends where it is none. */
void load_array(const code_t *code, const memory_t *memory);

/* End, as a process breaks a rule. */
void broken(const process_t *p, const char *why);

#endif
