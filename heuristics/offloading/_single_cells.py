"""Plans cell by cell for small memories, where no nest of loops keeps the limit on reloads.

A block that fits can be computed cell by cell in the same memory, and sums go and come as often as they like.
So whether there is a plan depends on the order of the smallest blocks alone, and where a block may have one
channel, each channel is a problem of its own. An order is built at random, again and again: the next cell is
one that lacks little, and what goes is what the cells that are left can do without for longest.
"""

from __future__ import annotations

import time
from itertools import zip_longest
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.offloading import Problem
from tilewright.offloading.keeping import Cut, Round
from tilewright.offloading.plan import Numbers

TRIES = 2_000
"""Orders that are built for one channel."""


class Grid(NamedTuple):
    """The cells of one memory and one channel, or all channels: patches by kernels that are loaded apart.

    Attributes
    ----------
    needs : bool, shape (patches, pixels)
    kernels
        Number of kernels, 1 where they stay.
    per_kernel
        Elements of a kernel, 0 where they stay.
    room
        Elements on chip, but for kernels that stay.
    per_output
        Outputs of a cell.
    """

    needs: NDArray[np.bool_]
    kernels: int
    per_kernel: int
    room: int
    per_output: int


NO_LIMIT = 1 << 30

Batch = tuple[NDArray[np.bool_], int]
"""Cells that can be computed at once, of shape (patches, kernels), and how many elements are on chip then."""


def rounds_by_cell(problem: Problem, seed: int, deadline: float) -> list[Round] | None:
    """Return blocks in an order in which no element is loaded too often; None where none was found in time.

    Parts with memories of their own share the kernels, or the patches where kernels stay or are fewer.
    """
    sizes, parts = problem.elements, problem.n_memories
    axis = "patches" if problem.kernels_stay or sizes.n_kernels < parts else "kernels"
    whole = np.arange(sizes.n_patches if axis == "patches" else sizes.n_kernels)
    random = np.random.default_rng(seed)
    orders: list[list[Cut]] = []
    for mine in np.array_split(whole, parts):
        patches = mine if axis == "patches" else np.arange(sizes.n_patches)
        kernels = mine if axis == "kernels" else np.arange(sizes.n_kernels)
        found = _order(problem, patches, kernels, random, deadline) if mine.size else []
        if found is None:
            return None
        orders.append(found)
    idle = [None] * (problem.machine.parts - parts)
    return [[*blocks, *idle] for blocks in zip_longest(*orders)]


def _order(
    problem: Problem, patches: Numbers, kernels: Numbers, random: np.random.Generator, deadline: float
) -> list[Cut] | None:
    """Return the blocks of one memory in their order, channel by channel where a block may have one."""
    sizes = problem.elements
    channels = [np.arange(sizes.n_channels)]
    if problem.limits.channels == "any":
        channels = list(channels[0][:, None])
    batches: list[Batch] | None = None
    found: list[Cut] = []
    for each in channels:
        grid = _grid(problem, patches, kernels, each)
        if batches is None or problem.limits.form == "gemm":  # else channels are alike
            most = problem.max_loads or NO_LIMIT
            tried = (_batches(grid, most, random, deadline) for _ in range(TRIES))
            batches = next((batches for batches in tried if batches is not None), None)
            if batches is None:
                return None
        for cells, held in batches:
            found += _blocks(problem, grid, patches, kernels, each, cells, held)
    return found


def _grid(problem: Problem, patches: Numbers, kernels: Numbers, channels: Numbers) -> Grid:
    sizes, limit = problem.elements, problem.machine.memory
    table = sizes.inputs[np.ix_(patches, channels)].reshape(len(patches), -1)
    pixels, place = np.unique(table, return_inverse=True)
    needs = np.zeros((len(patches), len(pixels)), dtype=np.bool_)
    np.put_along_axis(needs, place.reshape(table.shape), True, axis=1)
    needs = needs[:, pixels >= 0]
    stay, per_kernel = problem.kernels_stay, len(channels) * sizes.taps
    room = needs.shape[1] + sizes.n_kernel_elements + sizes.n_outputs if limit is None else limit
    if stay:
        return Grid(needs, 1, 0, room - sizes.n_kernel_elements, len(kernels))
    return Grid(needs, len(kernels), per_kernel, room, 1)


def _batches(grid: Grid, most: int, random: np.random.Generator, deadline: float) -> list[Batch] | None:
    """Return what is computed at once, batch by batch; None where an element must be loaded too often.

    None, too, where time is up. Elements are pixels, then those of each kernel.
    """
    needs, n_pixels = grid.needs, grid.needs.shape[1]
    kernel_of = np.repeat(np.arange(grid.kernels), grid.per_kernel)
    left = np.ones((len(needs), grid.kernels), dtype=np.bool_)
    held = np.zeros(n_pixels + len(kernel_of), dtype=np.bool_)
    loads = np.zeros(len(held), dtype=np.int64)
    power, noise = random.choice([1.0, 2.0, 4.0]), random.choice([0.01, 0.3, 1.0])
    thrift = random.choice([0, 1])
    found: list[Batch] = []
    while left.any():
        if time.monotonic() > deadline:
            return None
        lack_pixels = (needs & ~held[:n_pixels]).sum(axis=1)
        lack_kernels = grid.per_kernel - np.bincount(kernel_of[held[n_pixels:]], minlength=grid.kernels)
        lacks = lack_pixels[:, None] + lack_kernels[None, :]
        wanted = left / (1.0 + lacks) ** power
        worth = np.r_[wanted.sum(axis=1) @ needs, wanted.sum(axis=0)[kernel_of]]
        useful = worth > 0
        if (useful & ~held & (loads >= most)).any():
            return None
        held &= useful
        keys = np.where(left, lacks + noise * random.random(left.shape), np.inf)
        patch, kernel = np.unravel_index(int(np.argmin(keys)), keys.shape)
        cell = np.r_[needs[patch], kernel_of == kernel]
        missing = cell & ~held
        excess = int(held.sum() + missing.sum()) + grid.per_output - grid.room
        if excess > 0:
            spare = np.flatnonzero(held & ~cell & (loads < most))
            if len(spare) < excess:
                return None
            price = worth[spare] * (1 + noise * random.random(len(spare))) * (1 + thrift * loads[spare])
            held[spare[np.argsort(price, kind="stable")[:excess]]] = False
        held |= missing
        loads += missing
        here = (needs & ~held[:n_pixels]).sum(axis=1) == 0
        whole = np.bincount(kernel_of[held[n_pixels:]], minlength=grid.kernels) == grid.per_kernel
        now = left & here[:, None] & whole[None, :]
        left &= ~now
        found.append((now, int(held.sum())))
    return found


def _blocks(
    problem: Problem,
    grid: Grid,
    patches: Numbers,
    kernels: Numbers,
    channels: Numbers,
    cells: NDArray[np.bool_],
    held: int,
) -> list[Cut]:
    """Return cells that can be computed at once as blocks, as large as machine and memory take them."""
    size = max(1, (grid.room - held) // grid.per_output)
    least = problem.least_block
    while size > 1 and not problem.admits(size, least[1], least[2]):
        size -= 1
    found = []
    for kernel in np.flatnonzero(cells.any(axis=0)):
        mine = kernels if problem.kernels_stay else kernels[kernel : kernel + 1]
        where = patches[cells[:, kernel]]
        found += [Cut(where[at : at + size], mine, channels) for at in range(0, len(where), size)]
    return found
