"""A layer as the search over orders of patches sees it: sets of patches and of pixels as bits of words."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.core.bitsets import Words, image_table, pack
from tilewright.offloading.plan import Numbers
from tilewright.offloading.problem import Problem

MAX_PATCHES = 192
"""Most patches of a layer that the search takes."""

MAX_GROUPS = 200_000
"""Most groups of patches that a step may have to choose from."""

MAX_ELEMENTS = 30_000
"""Most input elements."""


class Tables(NamedTuple):
    """A layer in bits. Only pixels that several patches need are numbered: no others can wait on chip.

    Attributes
    ----------
    patch_pixels : uint64, shape (patches, words of pixels)
        The pixels of each patch.
    group_patches : uint64, shape (groups, words of patches)
        Groups of patches that a step can compute, the largest first.
    group_pixels : uint64, shape (groups, words of pixels)
        The pixels of each group.
    sizes : int64, shape (groups,)
        Patches of each group.
    rooms : int64, shape (groups,)
        Input elements that may stay though a step with that group does not need them.
    patch_images : uint64, shape (symmetries, bytes, 256, words of patches)
        For each symmetry of the layer and each byte of a set of patches, the image of these patches.
    pixel_images : uint64, shape (symmetries, bytes, 256, words of pixels)
        The same for pixels.
    depth
        Input elements of a pixel: the channels.
    """

    patch_pixels: Words
    group_patches: Words
    group_pixels: Words
    sizes: Numbers
    rooms: Numbers
    patch_images: Words
    pixel_images: Words
    depth: int


def why_not(problem: Problem) -> str | None:
    """Say why the search does not take a problem, with what it has and what would do; or None."""
    machine, limits, sizes = problem.machine, problem.limits, problem.elements
    if machine.kernels == "dram":
        return "machine.kernels is 'dram': it takes kernels that stay, 'step1' or 'preloaded'"
    if limits.channels != "all" and sizes.n_channels > 1:
        return f"limits.channels is 'any' and there are {sizes.n_channels}: it takes 'all', or one channel"
    if limits.form != "direct":
        return "limits.form is 'gemm', where no two patches share an element"
    if machine.parts > 1:
        return f"machine.parts is {machine.parts}, it takes one"
    if machine.placement != "counted":
        return "addresses are not looked at: machine.placement must be 'counted'"
    if machine.burst or not machine.load:
        return f"machine.burst is {machine.burst} and load {machine.load}: it takes 0, and 1 or more"
    if sizes.n_patches > MAX_PATCHES:
        return f"there are {sizes.n_patches} patches, it takes {MAX_PATCHES}"
    if sizes.n_inputs > MAX_ELEMENTS:
        return f"there are {sizes.n_inputs:,} input elements, it takes {MAX_ELEMENTS:,}"
    groups = sum(comb(sizes.n_patches, size) for size in range(1, most_patches(problem) + 1))
    if groups > MAX_GROUPS:
        return f"a step has {groups:,} groups of patches to choose from, it takes {MAX_GROUPS:,}"
    return None


def most_patches(problem: Problem) -> int:
    """Return the most patches of a step, by the size of its block alone."""
    _, kernels, channels = problem.least_block
    most = problem.largest_block[0]
    while most > 1 and not problem.admits(most, kernels, channels):
        most -= 1
    return most


def pixels_of_patches(problem: Problem) -> list[frozenset[int]]:
    """Return the pixels of each patch: input elements of the first channel, which stand for all."""
    return [frozenset(row[row >= 0].tolist()) for row in problem.elements.inputs[:, 0, :]]


def tables(problem: Problem) -> Tables:
    """Return a layer in bits."""
    sizes, pixels = problem.elements, pixels_of_patches(problem)
    users = Counter(pixel for own in pixels for pixel in own)
    shared = sorted(pixel for pixel, many in users.items() if many > 1)
    number = {pixel: n for n, pixel in enumerate(shared)}
    own = np.zeros((sizes.n_patches, max(1, len(shared))), dtype=np.bool_)
    for patch, found in enumerate(pixels):
        own[patch, [number[pixel] for pixel in found if pixel in number]] = True
    images = _symmetries(problem, own[:, : len(shared)])
    members, rooms = _groups(problem, pixels)
    in_groups = np.zeros((len(members), sizes.n_patches), dtype=np.bool_)
    needed = np.zeros((len(members), own.shape[1]), dtype=np.bool_)
    for n, group in enumerate(members):
        in_groups[n, list(group)] = True
        needed[n] = own[list(group)].any(axis=0)
    return Tables(
        pack(own),
        pack(in_groups),
        pack(needed),
        np.array([len(group) for group in members], dtype=np.int64),
        np.array(rooms, dtype=np.int64),
        image_table([image for image, _ in images], -(-sizes.n_patches // 64)),
        image_table([image for _, image in images], max(1, -(-len(shared) // 64))),
        sizes.n_channels,
    )


def _groups(problem: Problem, pixels: list[frozenset[int]]) -> tuple[list[tuple[int, ...]], list[int]]:
    """Return the groups that fit into the memory, and what room each leaves, in elements."""
    sizes, limit = problem.elements, problem.machine.memory
    memory = sizes.n_inputs + sizes.n_kernel_elements + sizes.n_outputs if limit is None else limit
    groups, rooms = [], []
    for size in range(most_patches(problem), 0, -1):
        for group in combinations(range(sizes.n_patches), size):
            inputs = len(frozenset().union(*(pixels[patch] for patch in group))) * sizes.n_channels
            room = memory - sizes.n_kernel_elements - sizes.n_kernels * size - inputs
            if room >= 0:
                groups.append(group)
                rooms.append(room)
    return groups, rooms


def _symmetries(problem: Problem, own: NDArray[np.bool_]) -> list[tuple[Numbers, Numbers]]:
    """Return flips and transpositions of the plane that map patches to patches and pixels to pixels.

    Each is a permutation of patches and one of pixels; the identity comes first. Pixels that the same patches
    need go, in their order, to those that the patches' images need.

    Parameters
    ----------
    own : bool, shape (patches, pixels)
        Pixels of each patch.
    """
    index = np.arange(len(own)).reshape(problem.layer.output_plane)
    images = [index, index[::-1], index[:, ::-1], index[::-1, ::-1]]
    if index.shape[0] == index.shape[1]:
        images += [image.T for image in images]
    users = [tuple(np.flatnonzero(column).tolist()) for column in own.T]
    where: dict[tuple[int, ...], list[int]] = {}
    for pixel, patches in enumerate(users):
        where.setdefault(patches, []).append(pixel)
    weights = [len(pixels) for pixels in pixels_of_patches(problem)]
    found = []
    for image in images:
        moved = image.ravel()
        goals = {patches: tuple(sorted(moved[list(patches)].tolist())) for patches in where}
        alike = all(len(where.get(goal, ())) == len(where[patches]) for patches, goal in goals.items())
        if not alike or any(weights[n] != weights[at] for n, at in enumerate(moved.tolist())):
            continue
        target = np.zeros(own.shape[1], dtype=np.int64)
        for patches, members in where.items():
            target[members] = where[goals[patches]]
        found.append((moved.astype(np.int64), target))
    return found
