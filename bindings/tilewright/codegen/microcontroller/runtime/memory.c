/* The two functions of C's library that the network calls, for boards without one. */
#include <stddef.h>
#include <stdint.h>

void *memcpy(void *restrict to, const void *restrict from, size_t bytes)
{
    uint8_t *t = to;
    const uint8_t *f = from;
    if ((((uintptr_t)t | (uintptr_t)f) & 3) == 0)
        for (; bytes >= 4; bytes -= 4, t += 4, f += 4)
            *(uint32_t *)(void *)t = *(const uint32_t *)(const void *)f;
    for (; bytes; bytes--)
        *t++ = *f++;
    return to;
}

void *memset(void *to, int value, size_t bytes)
{
    for (uint8_t *t = to; bytes; bytes--)
        *t++ = (uint8_t)value;
    return to;
}
