/* Numbers as they are stored: rounding, saturation, accumulators; and what of a window lies inside of a map. */
#ifndef NUMBERS_H
#define NUMBERS_H

#include <stdint.h>

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

/* Half-open: the first, and the one after the last. */
typedef struct {
    int begin, end;
} range_t;

/* What an accumulator of some bits keeps of a sum. */
static inline int64_t wrapped(uint64_t sum, int bits)
{
    const uint64_t half = (uint64_t)1 << (bits - 1), mask = (half << 1) - 1;
    return (int64_t)((sum + half) & mask) - (int64_t)half;
}

/* Divide by a divisor and by 2^shift, rounded once, halves away from zero, and saturate at some bits. */
static inline int64_t rescaled(int64_t value, int shift, int64_t divisor, int bits)
{
    const int64_t most = ((int64_t)1 << (bits - 1)) - 1;
    if (shift < 0) /* what is beyond the bits stays so */
        value = MAX((-most - 1) * divisor, MIN(most * divisor, value)) * ((int64_t)1 << -shift);
    const int64_t by = divisor * ((int64_t)1 << MAX(shift, 0));
    value = value < 0 ? -((by - 2 * value) / (2 * by)) : (2 * value + by) / (2 * by);
    return MAX(-most - 1, MIN(most, value));
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
