"""What formulations of grouping may use without losing an optimum: equal pixels, symmetries, dominance."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import gcd

import numpy as np
from numpy.typing import NDArray

from tilewright.grouping.plan import Plan
from tilewright.grouping.problem import Problem


@dataclass(frozen=True)
class Cell:
    """Pixels that the same patches need: every plan loads and frees them together.

    Attributes
    ----------
    pixels
        Their numbers, ascending.
    patches
        The patches that need them, ascending; never empty.
    """

    pixels: tuple[int, ...]
    patches: tuple[int, ...]


def cells(problem: Problem) -> list[Cell]:
    """Partition the needed pixels into cells, in the order of their first pixel."""
    patches_of: dict[int, list[int]] = {}
    for patch, pixels in enumerate(problem.patch_pixels.tolist()):
        for pixel in pixels:
            if pixel >= 0:
                patches_of.setdefault(pixel, []).append(patch)
    members: dict[tuple[int, ...], list[int]] = {}
    for pixel in sorted(patches_of):
        members.setdefault(tuple(patches_of[pixel]), []).append(pixel)
    return [Cell(tuple(pixels), patches) for patches, pixels in members.items()]


def symmetries(problem: Problem, parts: list[Cell]) -> list[NDArray[np.int64]]:
    """Return the flips and transpositions of the grid of patches that map the cells onto each other.

    Each is a permutation: patch i goes where patch ``image[i]`` stands. The identity comes first. A plan
    and its image have the same loads, because they differ only in the names of pixels.
    """
    index = np.arange(problem.n_patches).reshape(problem.grid)
    images = [index, index[::-1], index[:, ::-1], index[::-1, ::-1]]
    if problem.grid[0] == problem.grid[1]:
        images += [image.T for image in images]
    pattern = Counter((part.patches, len(part.pixels)) for part in parts)

    def keeps_cells(image: NDArray[np.int64]) -> bool:
        moved = image.ravel()
        return pattern == Counter(
            (tuple(sorted(int(moved[i]) for i in part.patches)), len(part.pixels)) for part in parts
        )

    return [image.ravel() for image in images if keeps_cells(image)]


def corners(problem: Problem) -> tuple[int, int, int, int]:
    """Patches in the corners of the grid: top left, top right, bottom left, bottom right."""
    rows, cols = problem.grid
    return 0, cols - 1, (rows - 1) * cols, rows * cols - 1


def canonical(problem: Problem, plan: Plan, images: list[NDArray[np.int64]]) -> Plan:
    """Return the image of a plan, under `images` and reversal, that formulations may insist on.

    Its top left corner comes before the other corners that `images` map it to, as close to the start as
    the last of them is to the end, and, if the grid may be transposed, top right before bottom left.
    """
    steps = plan.steps(problem)
    candidates = []
    for ordered in (steps, plan.n_steps - 1 - steps):
        candidates += [ordered[image] for image in images]
    return Plan.from_steps(problem, next(c for c in candidates if is_canonical(problem, c, images)))


def is_canonical(problem: Problem, steps: NDArray[np.int64], images: list[NDArray[np.int64]]) -> bool:
    """Tell whether the steps of a plan meet the conditions of `canonical`."""
    first = int(steps[0])
    last_step = int(steps.max())
    return all(
        first <= steps[corner] and first + steps[corner] <= last_step for corner in equal_corners(images)
    ) and all(steps[a] <= steps[b] for a, b in swapped_corners(problem, images))


def equal_corners(images: list[NDArray[np.int64]]) -> list[int]:
    """Patches that `images` map onto the top left corner, itself among them."""
    return sorted({int(image[0]) for image in images})


def swapped_corners(problem: Problem, images: list[NDArray[np.int64]]) -> list[tuple[int, int]]:
    """Return the pairs of corners that some image swaps while the top left corner stays."""
    _, right, left, _ = corners(problem)
    return [(right, left)] if any(image[0] == 0 and image[right] == left for image in images[1:]) else []


def last_useful_step(problem: Problem) -> int:
    """Return the most steps that a best plan needs.

    Without a memory limit two neighbouring groups that fit into one can be merged: no pixel is loaded
    more often, and a step is saved. So a best plan exists with n_min steps or with more than
    ``group_size`` patches in every two neighbouring groups.
    """
    fewest, most = problem.steps_range
    if problem.machine.memory is not None or problem.constraints:  # which may ask for more steps
        return most
    pair = problem.group_size + 1
    patches = problem.n_patches
    longest_even = 2 * (patches // pair)
    longest_odd = 2 * ((patches - 1) // pair) + 1
    return min(most, max(fewest, longest_even, longest_odd))


def merged(problem: Problem, plan: Plan) -> Plan:
    """Merge neighbouring groups that fit into one step, as long as there are steps to spare.

    With unlimited memory the result has at most `last_useful_step` steps and costs no more.
    """
    groups = [group for group in plan.groups if group]
    step = 0
    while step + 1 < len(groups) and len(groups) > problem.steps_range[0]:
        if len(groups[step]) + len(groups[step + 1]) <= problem.group_size:
            groups[step : step + 2] = [groups[step] + groups[step + 1]]
            step = max(step - 1, 0)
        else:
            step += 1
    return Plan(tuple(groups))


def scale(problem: Problem) -> tuple[int, int]:
    """Return (offset, unit): every allowed plan costs ``offset + unit * v`` for some whole v >= 0.

    Models minimise v, whose size does not grow with the costs: ``v = loads * load_units + (n - n_min) *
    step_units``. With a fixed number of steps the unit is one load.
    """
    fewest, most = problem.steps_range
    unit = gcd(problem.load_cost, problem.step_cost if fewest < most else 0)
    return problem.cost(0, fewest), max(1, unit)


def scaled_costs(problem: Problem) -> tuple[int, int]:
    """Return (load_units, step_units) of `scale`."""
    fewest, most = problem.steps_range
    _, unit = scale(problem)
    return problem.load_cost // unit, problem.step_cost // unit if fewest < most else 0
