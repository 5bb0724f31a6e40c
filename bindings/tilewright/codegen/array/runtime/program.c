#define FORMS
#include "program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fail(const char *what, const char *why)
{
    fflush(stdout);
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

void refuse(const record_t *record, int field, const char *limit)
{
    fflush(stdout);
    fprintf(stderr, "word %zu: %s.%s = %lld: %s\n", record->word, forms[record->kind].name,
            forms[record->kind].fields[field].name, (long long)record->values[field], limit);
    exit(1);
}

/* What was allocated, each with a link to the one before in front. */
typedef struct block {
    struct block *before;
    int64_t begin[];
} block_t;

static block_t *last;

void *allocate(size_t count, size_t size)
{
    const size_t most = (size_t)1 << 40;
    block_t *block = count > most / size ? NULL : calloc(1, sizeof(block_t) + count * size);
    if (!block)
        fail("memory", "is too small");
    block->before = last;
    last = block;
    return block->begin;
}

void *enlarge(const void *from, size_t count, size_t more, size_t size)
{
    void *found = allocate(count + more, size);
    if (count)
        memcpy(found, from, count * size);
    return found;
}

void free_all(void)
{
    while (last) {
        block_t *block = last;
        last = block->before;
        free(block);
    }
}

static void bad_word(size_t word, const char *why)
{
    fflush(stdout);
    fprintf(stderr, "word %zu: %s\n", word, why);
    exit(1);
}

/* Read the record that begins at a word; returns the word after it. */
static size_t read_record(const uint64_t *words, size_t size, size_t begin, record_t *record)
{
    const int kind = (int)(words[begin] & 255) - 1;
    if (kind < 0 || kind >= KINDS)
        bad_word(begin, "begins no record");
    const form_t *form = &forms[kind];
    if (begin + form->words > size)
        bad_word(begin, "its record is cut short");
    uint64_t rest[MOST_WORDS] = {0};
    for (int w = 0; w < form->words; w++)
        rest[w] = words[begin + w];
    rest[0] &= ~(uint64_t)255;
    record->kind = kind;
    record->word = begin;
    for (int f = 0; f < form->count; f++) {
        const field_t *field = &form->fields[f];
        const uint64_t mask = ((uint64_t)1 << field->bits) - 1;
        int64_t value = (int64_t)((words[begin + field->word] >> field->shift) & mask);
        rest[field->word] &= ~(mask << field->shift);
        if (field->least < 0 && value >> (field->bits - 1))
            value -= (int64_t)1 << field->bits;
        record->values[f] = value;
        if (value < field->least || value > field->most)
            refuse(record, f, "is out of its range");
    }
    for (int w = 0; w < form->words; w++)
        if (rest[w])
            bad_word(begin + w, "bits that no field has must be 0");
    begin += form->words;
    record->tail = words + begin;
    if (!form->tail_bits)
        return begin;
    const uint64_t count = (uint64_t)record->values[form->count - 1], each = 64 / form->tail_bits;
    const uint64_t tail = (count + each - 1) / each;
    if (tail > size - begin)
        bad_word(begin, "a tail is cut short");
    for (uint64_t i = count; i < tail * each; i++)
        if (words[begin + i / each] >> (i % each * form->tail_bits) & (((uint64_t)1 << form->tail_bits) - 1))
            bad_word(begin + i / each, "bits behind a tail must be 0");
    return begin + tail;
}

code_t read_program(const char *path)
{
    code_t code = {NULL, NULL, 0};
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END))
        fail(path, "cannot be read");
    const long bytes = ftell(file);
    rewind(file);
    if (bytes <= 0 || bytes % 8)
        fail(path, "must be whole words of 8 bytes");
    const size_t size = (size_t)bytes / 8;
    unsigned char *raw = allocate(size, 8);
    if (fread(raw, 8, size, file) != size)
        fail(path, "cannot be read");
    fclose(file);
    code.words = allocate(size, 8);
    for (size_t i = 0; i < size * 8; i++)
        code.words[i / 8] |= (uint64_t)raw[i] << (i % 8 * 8);
    code.records = allocate(size, sizeof(record_t));
    for (size_t begin = 0; begin < size; code.count++)
        begin = read_record(code.words, size, begin, &code.records[code.count]);
    return code;
}
