/* The program of an array: records with fixed fields, read from words of 64 bits. */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <stddef.h>
#include <stdint.h>

#include "words.h"

typedef struct {
    int kind;
    int64_t values[MOST_FIELDS];
    const uint64_t *tail;
    size_t word; /* where it begins */
} record_t;

typedef struct {
    uint64_t *words;
    record_t *records;
    size_t count;
} code_t;

/* A functional unit of a word, and a word of a PE's program or of an address generator. */
typedef struct {
    const int64_t *word;
    const record_t *units; /* one record for each functional unit */
} instruction_t;

/* End with an exit status of 1. */
void fail(const char *what, const char *why);

/* End, as a field of a record has a value that cannot be. */
void refuse(const record_t *record, int field, const char *limit);

/* Read all records; ends where words are none. */
code_t read_program(const char *path);

/* Memory full of zeros; more of it than there was; give all of it back. */
void *allocate(size_t count, size_t size);
void *enlarge(const void *from, size_t count, size_t more, size_t size);
void free_all(void);

#endif
