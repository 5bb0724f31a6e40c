/* Elements of any bits, one after the other without gaps, the lowest bit first. */
#ifndef BITS_H
#define BITS_H

#include <stdint.h>
#include <string.h>

#include "machine.h" /* PACKED */

#define BYTES(bits) (((bits) + 7) / 8)

#if PACKED

/* The number of some bits that begins so many bits behind a pointer. */
static inline int64_t load(const unsigned char *from, long bit, int bits)
{
    const long first = bit / 8, last = (bit + bits - 1) / 8;
    const int low = (int)(bit % 8);
    const uint64_t half = (uint64_t)1 << (bits - 1);
    uint64_t value = from[first] >> low;
    for (long i = first + 1; i <= last; i++)
        value |= (uint64_t)from[i] << (8 * (i - first) - low);
    return (int64_t)(((value & (half | (half - 1))) ^ half) - half);
}

static inline void store(unsigned char *to, long bit, int bits, int64_t value)
{
    for (int done = 0, some; done < bits; done += some) {
        const int low = (int)((bit + done) % 8);
        some = bits - done < 8 - low ? bits - done : 8 - low;
        const unsigned mask = ((1u << some) - 1) << low;
        unsigned char *const byte = to + (bit + done) / 8;
        *byte = (unsigned char)((*byte & ~mask) | ((unsigned)((uint64_t)value >> done) << low & mask));
    }
}

#else /* all are integers of C */

static inline int64_t load(const unsigned char *from, long bit, int bits)
{
    int64_t value64;
    int32_t value32;
    int16_t value16;
    int8_t value8;
    from += (unsigned long)bit / 8;
    switch (bits) {
    case 8:
        memcpy(&value8, from, sizeof value8);
        return value8;
    case 16:
        memcpy(&value16, from, sizeof value16);
        return value16;
    case 32:
        memcpy(&value32, from, sizeof value32);
        return value32;
    default:
        memcpy(&value64, from, sizeof value64);
        return value64;
    }
}

static inline void store(unsigned char *to, long bit, int bits, int64_t value)
{
    const int32_t value32 = (int32_t)value;
    const int16_t value16 = (int16_t)value;
    const int8_t value8 = (int8_t)value;
    to += (unsigned long)bit / 8;
    switch (bits) {
    case 8:
        memcpy(to, &value8, sizeof value8);
        return;
    case 16:
        memcpy(to, &value16, sizeof value16);
        return;
    case 32:
        memcpy(to, &value32, sizeof value32);
        return;
    default:
        memcpy(to, &value, sizeof value);
    }
}

#endif

/* Copy bits, also to a place that overlaps and lies before. */
static inline void move(unsigned char *to, long to_bit, const unsigned char *from, long from_bit, long bits)
{
    if (to_bit % 8 == 0 && from_bit % 8 == 0 && bits % 8 == 0) {
        memmove(to + to_bit / 8, from + from_bit / 8, (size_t)(bits / 8));
        return;
    }
    for (long done = 0; done < bits; done += 32) {
        const int some = bits - done < 32 ? (int)(bits - done) : 32;
        store(to, to_bit + done, some, load(from, from_bit + done, some));
    }
}

#endif
