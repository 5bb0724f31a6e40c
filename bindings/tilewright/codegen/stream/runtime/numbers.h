/* Rounding and saturation, and what of a window lies inside of a map. */
#ifndef NUMBERS_H
#define NUMBERS_H

#include <stdint.h>

#include "machine.h" /* ELEMENT_MIN, ELEMENT_MAX */

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

/* Half-open: the first, and the one after the last. */
typedef struct {
    int begin, end;
} range_t;

/* Divide by 2^shift, halves away from zero, and keep within an element. */
static inline int64_t scaled(int64_t value, int shift)
{
    if (shift > 0) {
        const int64_t half = (int64_t)1 << (shift - 1);
        value = value < 0 ? -((half - value) >> shift) : (value + half) >> shift;
    }
    return MAX(ELEMENT_MIN, MIN(ELEMENT_MAX, value));
}

/* Divide, halves away from zero. */
static inline int64_t divided(int64_t value, int64_t by)
{
    return value < 0 ? -((2 * -value + by) / (2 * by)) : (2 * value + by) / (2 * by);
}

/* The range of window positions that lie inside a map: of `kernel`, with the first at `from`. */
static inline range_t inside(int from, int dilation, int kernel, int extent)
{
    range_t range = {from < 0 ? (-from + dilation - 1) / dilation : 0, kernel};
    if (from + (kernel - 1) * dilation >= extent)
        range.end = from >= extent ? 0 : (extent - 1 - from) / dilation + 1;
    return range;
}

#endif
