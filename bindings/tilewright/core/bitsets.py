"""Sets of numbers as bits of 64-bit words, as compiled kernels take them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]


def pack(members: NDArray[np.bool_], words: int = 0) -> Words:
    """Pack the last axis into words, the first member into the lowest bit.

    Parameters
    ----------
    members : bool, shape (..., n)
    words
        Fewest words of the result.

    Returns
    -------
    uint64, shape (..., max(words, ceil(n / 64)))
    """
    n = members.shape[-1]
    padded = np.zeros((*members.shape[:-1], max(words, -(-n // 64)) * 64), bool)
    padded[..., :n] = members
    packed = np.packbits(padded, axis=-1, bitorder="little")
    return np.ascontiguousarray(packed).view("<u8").astype(np.uint64)


def unpack(words: Words, n: int) -> NDArray[np.bool_]:
    """Undo `pack` for sets over `n` members."""
    octets = np.ascontiguousarray(words.astype("<u8")).view(np.uint8)
    return np.unpackbits(octets, axis=-1, bitorder="little")[..., :n].astype(bool)


def image_table(images: list[NDArray[np.int64]], words: int) -> Words:
    """Tabulate for each permutation and each byte of a set where the byte's members go.

    Returns
    -------
    uint64, shape (permutations, bytes, 256, words)
    """
    n = len(images[0])
    table = np.zeros((len(images), max(1, -(-n // 8)), 256, words), np.uint64)
    values = np.arange(256)
    for s, image in enumerate(images):
        for member, target in enumerate(image.tolist()):
            has = values >> (member % 8) & 1 == 1
            table[s, member // 8, has, target // 64] |= np.uint64(1 << target % 64)
    return table
