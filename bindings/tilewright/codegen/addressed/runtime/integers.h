/* Values are integers, as wide as an element; accumulators keep the last bits of their sums. */
#ifndef INTEGERS_H
#define INTEGERS_H

#include "bits.h"
#include "engine.h"

#define LEAST INT64_MIN
#define COMPARED "bytes" /* of outputs */

static inline value_t element_of(const unsigned char *from, long at)
{
    return load(from, at * ELEMENT_BITS, ELEMENT_BITS);
}

static inline void put_element(unsigned char *to, long at, value_t value)
{
    store(to, at * ELEMENT_BITS, ELEMENT_BITS, value);
}

/* A sum that is not complete, of some bits, that begins with an element. */
static inline value_t partial_of(const unsigned char *from, long at, int bits)
{
    return load(from, at * ELEMENT_BITS, bits);
}

static inline void put_partial(unsigned char *to, long at, int bits, value_t value)
{
    store(to, at * ELEMENT_BITS, bits, value);
}

static inline value_t as_read(const part_t *part, value_t value)
{
    return part->bits ? rescaled(value, part->shift, 1, part->bits) : value;
}

static inline value_t bias_of(const operation_t *o, value_t value)
{
    return value * ((value_t)1 << o->bias_shift);
}

/* What an accumulator has of a sum. */
static inline value_t accumulated(const operation_t *o, sum_t sum)
{
    return wrapped(sum, o->sum_bits);
}

/* What is stored of a result. */
static inline value_t finished(const operation_t *o, value_t value)
{
    return rescaled(o->relu ? MAX(value, 0) : value, o->shift, o->divisor, o->bits);
}

/* Bytes that are not those of the reference. */
static inline long count_wrong(const unsigned char *found, const unsigned char *reference, long bytes)
{
    long wrong = 0;
    for (long i = 0; i < bytes; i++)
        wrong += found[i] != reference[i];
    return wrong;
}

static inline long count_compared(long bytes)
{
    return bytes;
}

#endif
