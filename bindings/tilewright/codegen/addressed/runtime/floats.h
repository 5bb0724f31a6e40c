/* Values are floats, as wide as an element, and so are sums. */
#ifndef FLOATS_H
#define FLOATS_H

#include <string.h>
#include <tgmath.h>

#include "engine.h"

#define LEAST (-INFINITY)
#define COMPARED "values" /* of outputs */
#define CLOSE 1e-4        /* share of the largest output by which others may differ, as sums are rounded in other orders */

static inline value_t element_of(const unsigned char *from, long at)
{
    value_t value;
    memcpy(&value, from + at * ELEMENT_BYTES, sizeof value);
    return value;
}

static inline void put_element(unsigned char *to, long at, value_t value)
{
    memcpy(to + at * ELEMENT_BYTES, &value, sizeof value);
}

/* A sum that is not complete lies in an element. */
static inline value_t partial_of(const unsigned char *from, long at, int bits)
{
    (void)bits;
    return element_of(from, at);
}

static inline void put_partial(unsigned char *to, long at, int bits, value_t value)
{
    (void)bits;
    put_element(to, at, value);
}

static inline value_t as_read(const part_t *part, value_t value)
{
    (void)part;
    return value;
}

static inline value_t bias_of(const operation_t *o, value_t value)
{
    (void)o;
    return value;
}

static inline value_t accumulated(const operation_t *o, sum_t sum)
{
    (void)o;
    return sum;
}

/* What is stored of a result. */
static inline value_t finished(const operation_t *o, value_t value)
{
    value /= (value_t)o->divisor;
    return o->after ? o->after(value) : value;
}

/* Values that are too far from those of the reference. */
static inline long count_wrong(const unsigned char *found, const unsigned char *reference, long bytes)
{
    long wrong = 0;
    value_t most = 0;
    for (long i = 0; i < bytes / ELEMENT_BYTES; i++)
        most = fmax(most, fabs(element_of(reference, i)));
    for (long i = 0; i < bytes / ELEMENT_BYTES; i++) /* what is no number is wrong, too */
        wrong += !(fabs(element_of(found, i) - element_of(reference, i)) <= (value_t)CLOSE * most);
    return wrong;
}

static inline long count_compared(long bytes)
{
    return bytes / ELEMENT_BYTES;
}

#endif
