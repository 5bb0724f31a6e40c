/* Where windows lie in maps, and what is moved from and to the outside. */
#ifndef PLACES_H
#define PLACES_H

#include "kernels.h"

#ifdef COUNT_BYTES
#define MOVED(values) (void)(network_moved_bytes += (values) * (int)sizeof(value_t))
#else
#define MOVED(values) (void)0
#endif
#define MOVE(to, from, values) (MOVED(values), memcpy((to), (from), (values) * sizeof(value_t)))

/* Integers with a sign from those without, or the reverse: 128 less, or more. */
INLINE void flip_signs(value_t *values, int count)
{
    for (int i = 0; i < count; i++)
        values[i] = (value_t)(values[i] ^ -128);
}

INLINE int smaller(int a, int b)
{
    return a < b ? a : b;
}

INLINE int within(int place, int last)
{
    return place < 0 ? 0 : place > last ? last : place;
}

/* The taps of a window over a map that is there as a whole; `outside` stands for the padding. */
INLINE void taps_of_map(
    const value_t **taps, const value_t *map, int width, int begin, int channels, int rows, int columns, int row,
    int column, int high, int wide, int down, int across, const value_t *outside)
{
    for (int y = 0; y < high; y++, row += down)
        for (int x = 0, at = column; x < wide; x++, at += across)
            *taps++ = row < 0 || row >= rows || at < 0 || at >= columns
                ? outside
                : map + (row * width + at - begin) * channels;
}

/* The taps of a window over a line buffer. */
INLINE void taps_of_lines(
    const value_t **taps, const map_t *map, int held, int width, int begin, int channels, int rows, int columns,
    int row, int column, int high, int wide, int down, int across, const value_t *outside)
{
    for (int y = 0; y < high; y++, row += down) {
        if (row < 0 || row >= rows) {
            for (int x = 0; x < wide; x++)
                *taps++ = outside;
            continue;
        }
        int slot = map->slot - (map->there - (row * width + column - begin));
        slot += slot < 0 ? held : 0;
        for (int x = 0, at = column; x < wide; x++, at += across) {
            *taps++ = at < 0 || at >= columns ? outside : map->base + slot * channels;
            slot += across;
            slot -= slot >= held ? held : 0;
        }
    }
}

/* An average, to the nearest, halves away from zero. */
INLINE int32_t average(int32_t sum, int32_t count)
{
    return sum > 0 ? (sum + count / 2) / count : -((count / 2 - sum) / count);
}

/* Sums lie anywhere in the arena. */
INLINE int32_t sum_at(const value_t *place)
{
    int32_t sum;
    memcpy(&sum, place, sizeof sum);
    return sum;
}

/* The same of 64 bits. */
INLINE int64_t wide_at(const value_t *place)
{
    int64_t sum;
    memcpy(&sum, place, sizeof sum);
    return sum;
}

INLINE void put_wide(value_t *place, int64_t sum)
{
    memcpy(place, &sum, sizeof sum);
}

INLINE void put_sum(value_t *place, int32_t sum)
{
    memcpy(place, &sum, sizeof sum);
}

#endif
