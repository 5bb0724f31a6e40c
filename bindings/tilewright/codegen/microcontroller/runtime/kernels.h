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
    int8_t *base;
    int there; /* pixels that have been loaded or computed */
    int slot;  /* where the next one goes */
} map_t;

/* The place of a pixel that is there; `held` pixels go around. */
INLINE const int8_t *pixel_of(const map_t *map, int pixel, int held, int channels)
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

/* Sums of four output channels: weights lie tap by tap, input channel by input channel, four outputs each. */
INLINE void sum_four(const int8_t *const *taps, int count, int channels, const int8_t *weights, int32_t *sums)
{
    int32_t a = sums[0], b = sums[1], c = sums[2], d = sums[3];
    for (int tap = 0; tap < count; tap++) {
        const int8_t *x = taps[tap], *end = x + (channels & ~3);
        for (; x != end; x += 4, weights += 16) {
            int32_t v = x[0];
            a += v * weights[0], b += v * weights[1], c += v * weights[2], d += v * weights[3];
            v = x[1];
            a += v * weights[4], b += v * weights[5], c += v * weights[6], d += v * weights[7];
            v = x[2];
            a += v * weights[8], b += v * weights[9], c += v * weights[10], d += v * weights[11];
            v = x[3];
            a += v * weights[12], b += v * weights[13], c += v * weights[14], d += v * weights[15];
        }
        for (int rest = channels & 3; rest; rest--, x++, weights += 4) {
            const int32_t v = *x;
            a += v * weights[0], b += v * weights[1], c += v * weights[2], d += v * weights[3];
        }
    }
    sums[0] = a, sums[1] = b, sums[2] = c, sums[3] = d;
}

/* The sum of one output channel: weights lie tap by tap, input channel by input channel. */
INLINE int32_t sum_one(const int8_t *const *taps, int count, int channels, const int8_t *weights, int32_t sum)
{
    for (int tap = 0; tap < count; tap++) {
        const int8_t *x = taps[tap], *end = x + (channels & ~3);
        for (; x != end; x += 4, weights += 4)
            sum += x[0] * weights[0] + x[1] * weights[1] + x[2] * weights[2] + x[3] * weights[3];
        for (int rest = channels & 3; rest; rest--)
            sum += *x++ * *weights++;
    }
    return sum;
}

/*
 * A pixel of a convolution, or of a product. The bias has the sums of weights times the input's zero point, as
 * places of the padding have that number. Of the last outputs there are fewer than four: one by one.
 */
#define CONVOLUTION(result, taps, count, channels, outputs, weights, bias, RESCALE)                            \
    do {                                                                                                       \
        const int8_t *own_ = (weights);                                                                        \
        int out_ = 0;                                                                                          \
        for (; out_ + 4 <= (outputs); out_ += 4, own_ += 4 * (count) * (channels)) {                           \
            int32_t sums_[4] = {(bias)[out_], (bias)[out_ + 1], (bias)[out_ + 2], (bias)[out_ + 3]};           \
            sum_four((taps), (count), (channels), own_, sums_);                                                \
            for (int one_ = 0; one_ < 4; one_++)                                                               \
                (result)[out_ + one_] = (int8_t)RESCALE(out_ + one_, sums_[one_]);                             \
        }                                                                                                      \
        for (; out_ < (outputs); out_++, own_ += (count) * (channels))                                         \
            (result)[out_] = (int8_t)RESCALE(out_, sum_one((taps), (count), (channels), own_, (bias)[out_]));  \
    } while (0)

/* A pixel of a convolution in groups: weights lie output by output, tap by tap, input channel by input channel. */
#define GROUPED(result, taps, count, inputs, outputs, all, weights, bias, RESCALE)                             \
    do {                                                                                                       \
        const int8_t *own_ = (weights);                                                                        \
        for (int out_ = 0; out_ < (all); out_++) {                                                             \
            const int first_ = out_ / (outputs) * (inputs);                                                    \
            int32_t sum_ = (bias)[out_];                                                                       \
            for (int tap_ = 0; tap_ < (count); tap_++)                                                         \
                for (int in_ = 0; in_ < (inputs); in_++)                                                       \
                    sum_ += (taps)[tap_][first_ + in_] * *own_++;                                              \
            (result)[out_] = (int8_t)RESCALE(out_, sum_);                                                      \
        }                                                                                                      \
    } while (0)

/* A pixel of a depthwise convolution: weights lie channel by channel, tap by tap. */
#define DEPTHWISE(result, taps, count, channels, weights, bias, RESCALE)                                       \
    do {                                                                                                       \
        const int8_t *own_ = (weights);                                                                        \
        for (int out_ = 0; out_ < (channels); out_++, own_ += (count)) {                                       \
            int32_t sum_ = (bias)[out_];                                                                       \
            _Pragma("GCC unroll 64") for (int tap_ = 0; tap_ < (count); tap_++)                                \
                sum_ += (taps)[tap_][out_] * own_[tap_];                                                       \
            (result)[out_] = (int8_t)RESCALE(out_, sum_);                                                      \
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

INLINE void softmax(
    int8_t *result, const int8_t *x, int count, int32_t multiplier, int left, int32_t least_difference)
{
    int32_t largest = x[0], sum = 0;
    for (int i = 1; i < count; i++)
        largest = x[i] > largest ? x[i] : largest;
    for (int i = 0; i < count; i++)
        if (x[i] - largest >= least_difference)
            sum += divide_by_power(
                exponential(multiply_high((int32_t)((uint32_t)(x[i] - largest) << left), multiplier)), 12);
    const int headroom = __builtin_clz((uint32_t)sum);
    const int32_t inverse = one_over_one_plus((int32_t)(((uint32_t)sum << headroom) - (1u << 31)));
    for (int i = 0; i < count; i++) {
        if (x[i] - largest < least_difference) {
            result[i] = -128;
            continue;
        }
        const int32_t power =
            exponential(multiply_high((int32_t)((uint32_t)(x[i] - largest) << left), multiplier));
        const int32_t part = divide_by_power(multiply_high(inverse, power), 12 - headroom + 31 - 8);
        result[i] = (int8_t)limited(part - 128, -128, 127);
    }
}

#endif
