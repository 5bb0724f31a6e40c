/*
 * Arithmetic of TensorFlow Lite's kernels and of onnxruntime's, bit for bit, for a pixel at a time.
 *
 * All sizes are constants where the functions are called, so that the compiler makes loops for each layer.
 */
#ifndef KERNELS_H
#define KERNELS_H

#include <stddef.h>
#include <stdint.h>

/* Of string.h, which boards may lack. */
void *memcpy(void *restrict to, const void *restrict from, size_t bytes);
void *memset(void *to, int value, size_t bytes);

#define INLINE static inline __attribute__((always_inline))

/* The numbers of all maps: integers of 8 bits, or of 16 where VALUE says so. */
#ifndef VALUE
#define VALUE int8_t
#endif
typedef VALUE value_t;

/* A factor: multiplier * 2 ** (shift - 31). */
typedef struct {
    int32_t multiplier;
    int32_t shift;
} factor_t;

/* A product of two numbers without integer bits, to the nearest. */
INLINE int32_t multiply_high(int32_t a, int32_t b)
{
    return (int32_t)(((int64_t)a * b + (1 << 30)) >> 31);
}

/* A number divided by a power of two, to the nearest, halves away from zero. */
INLINE int32_t divide_by_power(int32_t value, int bits)
{
    const int32_t mask = (int32_t)((1u << bits) - 1), rest = value & mask;
    return (value >> bits) + (rest > (mask >> 1) + (value < 0));
}

INLINE int32_t scaled(int32_t value, int32_t multiplier, int shift)
{
    if (shift > 0)
        return multiply_high((int32_t)((uint32_t)value << shift), multiplier);
    return divide_by_power(multiply_high(value, multiplier), -shift);
}

INLINE int32_t limited(int32_t value, int32_t least, int32_t most)
{
    return value < least ? least : value > most ? most : value;
}

/* A sum times a number in double precision, to the nearest, halves away from zero. */
INLINE int32_t scaled_in_doubles(int32_t sum, double scale)
{
    const double product = (double)sum * scale, size = product < 0 ? -product : product;
    const int32_t whole = (int32_t)size, nearest = whole + (size - whole >= 0.5);
    return product < 0 ? -nearest : nearest;
}

/* The same where the result may have more than 32 bits: what is so large is beyond all limits. */
INLINE int32_t scaled_far_in_doubles(int64_t sum, double scale)
{
    const double product = (double)sum * scale, size = product < 0 ? -product : product;
    const int32_t whole = size < 1073741824.0 ? (int32_t)size : 1073741824;
    const int32_t nearest = whole + (whole < 1073741824 && size - whole >= 0.5);
    return product < 0 ? -nearest : nearest;
}

/* A sum of up to 48 bits times multiplier * 2 ** -bits, rounded once, halves up. */
INLINE int32_t scaled_wide(int64_t sum, int32_t multiplier, int bits)
{
    return (int32_t)((sum * multiplier + ((int64_t)1 << (bits - 1))) >> bits);
}

/*
 * A number to the nearest within limits of at most 2 ** 22, halves to even, as onnxruntime rounds. All is in
 * single precision, and products are rounded before they are added: compile with -ffp-contract=off.
 */
INLINE int32_t nearest(float value, float least, float most)
{
    const float kept = value < least ? least : value > most ? most : value;
    return (int32_t)((kept + 12582912.0f) - 12582912.0f);
}

/*
 * nearest((float)sum * scale, least, most) for processors without floats, of a sum below 2 ** 24: the product in
 * integers has 16 bits behind its point. Rounding to single precision changes at most one of these where the
 * result is within limits, so that it counts next to a half alone, which is left to floats.
 */
INLINE int32_t nearest_of_sum(int32_t sum, int32_t multiplier, int shift, float scale, int32_t least, int32_t most)
{
    const int32_t product = (int32_t)(((int64_t)sum * multiplier) >> shift), rest = product & 0xffff;
    if (rest >= 0x7ff8 && rest < 0x8008)
        return nearest((float)sum * scale, (float)least, (float)most);
    const int32_t found = (product >> 16) + (rest >> 15);
    return found < least ? least : found > most ? most : found;
}

/*
 * nearest(x + a * p + b * q, least, most) for processors without floats: `fixed`, `first` and `second` are x, p
 * and q with 18 bits behind their points. All that is rounded is less than 512 of these units, so that it counts
 * next to a half alone, which is left to floats.
 */
INLINE int32_t nearest_of_two(
    int32_t a, int32_t b, int32_t fixed, int32_t first, int32_t second, float x, float p, float q, int32_t least,
    int32_t most)
{
    const int32_t sum = fixed + a * first + b * second, rest = sum & 0x3ffff;
    if (rest >= 0x20000 - 512 && rest < 0x20000 + 512)
        return nearest(x + (float)a * p + (float)b * q, (float)least, (float)most);
    const int32_t found = (sum >> 18) + (rest >> 17);
    return found < least ? least : found > most ? most : found;
}

/* Where pixels of a map lie, and how far it has come. */
typedef struct {
    value_t *base;
    int there; /* pixels that have been loaded or computed */
    int slot;  /* where the next one goes */
} map_t;

/* The place of a pixel that is there; `held` pixels go around. */
INLINE const value_t *pixel_of(const map_t *map, int pixel, int held, int channels)
{
    int slot = map->slot - (map->there - pixel);
    if (slot < 0)
        slot += held;
    return map->base + slot * channels;
}

/* One more pixel is there. */
INLINE void one_more(map_t *map, int held)
{
    map->there++;
    if (++map->slot == held)
        map->slot = 0;
}

/*
 * SUMS makes functions for weights and sums of some types. `sum_four_KIND` adds up four output channels: weights
 * lie tap by tap, input channel by input channel, four outputs each. `sum_one_KIND` returns the sum of one output
 * channel: weights lie tap by tap, input channel by input channel.
 */
#define SUMS(KIND, weight_t, wide_t)                                                                           \
    typedef weight_t weight_##KIND;                                                                            \
    typedef wide_t wide_##KIND;                                                                                \
    INLINE void sum_four_##KIND(                                                                               \
        const value_t *const *taps, int count, int channels, const weight_t *weights, wide_t *sums)            \
    {                                                                                                          \
        wide_t a = sums[0], b = sums[1], c = sums[2], d = sums[3];                                             \
        for (int tap = 0; tap < count; tap++) {                                                                \
            const value_t *x = taps[tap], *end = x + (channels & ~3);                                          \
            for (; x != end; x += 4, weights += 16) {                                                          \
                int32_t v = x[0];                                                                              \
                a += v * weights[0], b += v * weights[1], c += v * weights[2], d += v * weights[3];            \
                v = x[1];                                                                                      \
                a += v * weights[4], b += v * weights[5], c += v * weights[6], d += v * weights[7];            \
                v = x[2];                                                                                      \
                a += v * weights[8], b += v * weights[9], c += v * weights[10], d += v * weights[11];          \
                v = x[3];                                                                                      \
                a += v * weights[12], b += v * weights[13], c += v * weights[14], d += v * weights[15];        \
            }                                                                                                  \
            for (int rest = channels & 3; rest; rest--, x++, weights += 4) {                                   \
                const int32_t v = *x;                                                                          \
                a += v * weights[0], b += v * weights[1], c += v * weights[2], d += v * weights[3];            \
            }                                                                                                  \
        }                                                                                                      \
        sums[0] = a, sums[1] = b, sums[2] = c, sums[3] = d;                                                    \
    }                                                                                                          \
    INLINE wide_t sum_one_##KIND(                                                                              \
        const value_t *const *taps, int count, int channels, const weight_t *weights, wide_t sum)              \
    {                                                                                                          \
        for (int tap = 0; tap < count; tap++) {                                                                \
            const value_t *x = taps[tap], *end = x + (channels & ~3);                                          \
            for (; x != end; x += 4, weights += 4)                                                             \
                sum += (wide_t)(x[0] * weights[0]) + x[1] * weights[1] + x[2] * weights[2] + x[3] * weights[3]; \
            for (int rest = channels & 3; rest; rest--)                                                        \
                sum += *x++ * *weights++;                                                                      \
        }                                                                                                      \
        return sum;                                                                                            \
    }

SUMS(of_8, int8_t, int32_t)
SUMS(of_16, int16_t, int32_t)
SUMS(of_8_wide, int8_t, int64_t)

/*
 * A pixel of a convolution, or of a product. The bias has the sums of weights times the input's zero point, as
 * places of the padding have that number. Of the last outputs there are fewer than four: one by one.
 */
#define CONVOLUTION(KIND, result, taps, count, channels, outputs, weights, bias, RESCALE)                      \
    do {                                                                                                       \
        const weight_##KIND *own_ = (weights);                                                                 \
        int out_ = 0;                                                                                          \
        for (; out_ + 4 <= (outputs); out_ += 4, own_ += 4 * (count) * (channels)) {                           \
            wide_##KIND sums_[4] = {(bias)[out_], (bias)[out_ + 1], (bias)[out_ + 2], (bias)[out_ + 3]};       \
            sum_four_##KIND((taps), (count), (channels), own_, sums_);                                         \
            for (int one_ = 0; one_ < 4; one_++)                                                               \
                (result)[out_ + one_] = (value_t)RESCALE(out_ + one_, sums_[one_]);                            \
        }                                                                                                      \
        for (; out_ < (outputs); out_++, own_ += (count) * (channels))                                         \
            (result)[out_] =                                                                                   \
                (value_t)RESCALE(out_, sum_one_##KIND((taps), (count), (channels), own_, (bias)[out_]));       \
    } while (0)

/* A pixel of a convolution in groups: weights lie output by output, tap by tap, input channel by input channel. */
#define GROUPED(KIND, result, taps, count, inputs, outputs, all, weights, bias, RESCALE)                       \
    do {                                                                                                       \
        const weight_##KIND *own_ = (weights);                                                                 \
        for (int out_ = 0; out_ < (all); out_++) {                                                             \
            const int first_ = out_ / (outputs) * (inputs);                                                    \
            wide_##KIND sum_ = (bias)[out_];                                                                   \
            for (int tap_ = 0; tap_ < (count); tap_++)                                                         \
                for (int in_ = 0; in_ < (inputs); in_++)                                                       \
                    sum_ += (taps)[tap_][first_ + in_] * *own_++;                                              \
            (result)[out_] = (value_t)RESCALE(out_, sum_);                                                     \
        }                                                                                                      \
    } while (0)

/* A pixel of a depthwise convolution: weights lie channel by channel, tap by tap. */
#define DEPTHWISE(KIND, result, taps, count, channels, weights, bias, RESCALE)                                 \
    do {                                                                                                       \
        const weight_##KIND *own_ = (weights);                                                                 \
        for (int out_ = 0; out_ < (channels); out_++, own_ += (count)) {                                       \
            wide_##KIND sum_ = (bias)[out_];                                                                   \
            _Pragma("GCC unroll 64") for (int tap_ = 0; tap_ < (count); tap_++)                                \
                sum_ += (taps)[tap_][out_] * own_[tap_];                                                       \
            (result)[out_] = (value_t)RESCALE(out_, sum_);                                                     \
        }                                                                                                      \
    } while (0)

/* Exponentials and reciprocals in fixed point, for softmax ------------------------------------------------- */

INLINE int32_t exponential(int32_t value)
{
    static const int32_t factors[] = {1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242};
    const int32_t quarter = 1 << 24, modulo = (value & (quarter - 1)) - quarter, rest = modulo - value;
    const int32_t x = (int32_t)((uint32_t)modulo << 5) + (1 << 28), square = multiply_high(x, x);
    const int32_t cube = multiply_high(square, x), fourth = divide_by_power(multiply_high(square, square), 2);
    const int32_t higher = divide_by_power(multiply_high(fourth + cube, 715827883) + square, 1);
    int32_t found = 1895147668 + multiply_high(x + higher, 1895147668);
    for (int bit = 0; bit < 7; bit++)
        if (rest & (1 << (24 + bit)))
            found = multiply_high(found, factors[bit]);
    return value ? found : INT32_MAX;
}

/* 1 / (1 + x) of a number from 0 to 1 without integer bits. */
INLINE int32_t one_over_one_plus(int32_t value)
{
    const int32_t half = (int32_t)(((int64_t)value + INT32_MAX + 1) >> 1);
    int32_t found = 1515870810 + multiply_high(half, -1010580540);
    for (int step = 0; step < 3; step++) {
        const int32_t missing = (1 << 29) - multiply_high(half, found), more = multiply_high(found, missing);
        found += more > INT32_MAX >> 2 ? INT32_MAX : more < INT32_MIN >> 2 ? INT32_MIN : (int32_t)((uint32_t)more << 2);
    }
    return found > INT32_MAX >> 1 ? INT32_MAX : found < INT32_MIN >> 1 ? INT32_MIN : (int32_t)((uint32_t)found << 1);
}

/* The power of a difference to the largest value of a row. */
INLINE int32_t softmax_power(int32_t difference, int32_t multiplier, int left)
{
    return exponential(multiply_high((int32_t)((uint32_t)difference << left), multiplier));
}

/* What a value adds to the sum of a row: nothing if it is too far below the largest one. */
INLINE int32_t softmax_term(int32_t difference, int32_t multiplier, int left, int32_t least_difference)
{
    return difference < least_difference ? 0 : divide_by_power(softmax_power(difference, multiplier, left), 12);
}

/* How many bits of a sum are zero before the first one. */
INLINE int headroom(int32_t sum)
{
    return __builtin_clz((uint32_t)sum | 1);
}

INLINE int32_t inverse_of_sum(int32_t sum, int zeros)
{
    return one_over_one_plus((int32_t)(((uint32_t)sum << zeros) - (1u << 31)));
}

INLINE int32_t softmax_part(
    int32_t difference, int32_t multiplier, int left, int32_t least_difference, int32_t inverse, int zeros, int bits,
    int32_t least, int32_t most)
{
    if (difference < least_difference)
        return least;
    const int32_t product = multiply_high(inverse, softmax_power(difference, multiplier, left));
    return limited(divide_by_power(product, 12 - zeros + 31 - bits) + least, least, most);
}

/* Functions of integers of 16 bits, between points of tables ----------------------------------------------- */

/* What lies between the points of a table, every 128 integers. */
INLINE int32_t between(int32_t value, const int16_t *table)
{
    const int32_t place = 256 + (value >> 7), base = table[place];
    return base + (((int16_t)(table[place + 1] - base) * (value & 127) + 64) >> 7);
}

/* The power of a difference to the largest value of a row. */
INLINE int32_t power_of_16(int32_t difference, int32_t multiplier, int shift, const int16_t *exponentials)
{
    return between(limited(scaled(difference, multiplier, shift) + 32767, -32768, 32767), exponentials);
}

/* A power divided by the sum of those of its row. */
INLINE int32_t part_of_16(int32_t power, int32_t sum, const int16_t *reciprocals)
{
    const int zeros = headroom(sum), right = 31 - zeros;
    const int32_t shifted = (int32_t)((((uint32_t)sum << (zeros - 1)) + (1u << 13)) >> 14) - 98304;
    const int32_t inverse = between(limited(shifted, -32768, 32767), reciprocals);
    return limited((power * inverse + (1 << (right - 1))) >> right, 0, 32767);
}

/* The logistic function, or the hyperbolic tangent. */
INLINE int32_t sigmoid(
    int32_t value, int32_t multiplier, int right, const uint16_t *points, int fraction, int32_t largest, int tangent)
{
    const int64_t product = (int64_t)value * multiplier + (right > 0 ? 1 << (right - 1) : 0);
    const int32_t whole = (int32_t)(product >> right);
    const int32_t size = whole < 0 ? -whole : whole, place = size >> fraction;
    int32_t found = largest;
    if (place < 255) {
        const int32_t rest = size & ((1 << fraction) - 1);
        found = (points[place] << fraction) + rest * (points[place + 1] - points[place]);
    }
    if (tangent)
        return (whole >= 0 ? found - (1 << 23) + 128 : (1 << 23) - found + 127) >> 8;
    return (whole >= 0 ? found + 512 : (1 << 25) - found + 511) >> 10;
}

/* A sum of four pixels, whose distances have 20 bits together: divided by these, to the nearest. */
INLINE int32_t whole_of_20_bits(int64_t sum)
{
    return (int32_t)((sum + (sum > 0 ? 1 << 19 : -(1 << 19))) / (1 << 20));
}

#endif
