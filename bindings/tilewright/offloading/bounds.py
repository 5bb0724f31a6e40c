"""Lower bounds on the duration of every plan, without a search (docs/offloading.md has the proofs)."""

from __future__ import annotations

from math import isqrt

import numpy as np

from tilewright.core.bounds import Bound
from tilewright.offloading.problem import Problem


def best_bound(problem: Problem) -> Bound:
    """Return the stronger of compulsory traffic and traffic through a small memory, with the fewest steps."""
    steps = max(fewest_steps(problem), problem.steps_range[0])
    machine, sizes = problem.machine, problem.elements
    needed = len(problem.elements.needed_inputs())
    kernels = 0 if problem.kernels_stay else sizes.n_kernel_elements
    once = machine.load * (needed + kernels) + problem.fixed_cost
    bursts = 0
    if machine.burst:
        bursts = 2 + (machine.kernels != "preloaded")  # of input, outputs and kernels, at least one each
    found = Bound("compulsory", once + machine.burst * bursts + machine.compute * steps, steps)
    moved = memory_bound(problem)
    first_writes = machine.write * sizes.n_outputs if problem.minimise == "loads" else 0
    value = min(machine.load, machine.write) * moved - first_writes + machine.compute * steps
    return Bound("memory", value, steps) if value > found.value else found


def fewest_steps(problem: Problem) -> int:
    """Return a number of steps that no plan is below: all blocks are as large as memory and machine allow.

    The pixels of `a` patches are at least ``a + taps - 1`` (a sum of sets in a plane), and fewer only where
    padding is made on chip.
    """
    limit = problem.machine.memory
    sizes, least, most = problem.elements, problem.least_block, problem.largest_block
    if limit is None or problem.machine.padding == "generated":
        return problem.fewest_steps
    shared = problem.machine.parts if problem.machine.memories == "shared" else 1
    if shared > 1:
        return problem.fewest_steps
    cells = sizes.n_cells
    if problem.machine.macs_per_step is not None:
        cells = problem.machine.macs_per_step // sizes.taps
    stay = sizes.n_kernel_elements if problem.kernels_stay else 0
    kernels = np.arange(least[1], most[1] + 1)[:, None]
    channels = np.arange(least[2], most[2] + 1)[None, :]
    room = limit - stay - (0 if stay else 1) * kernels * channels * sizes.taps
    # a patches take (a + taps - 1) * channels inputs and a * kernels outputs.
    fitting = (room - (sizes.taps - 1) * channels) // (channels + kernels)
    patches = np.minimum(np.minimum(fitting, most[0]), cells // (kernels * channels))
    largest = int((np.maximum(patches, 0) * kernels * channels).max())
    return max(problem.fewest_steps, -(-sizes.n_cells // (max(1, largest) * problem.machine.parts)))


def memory_bound(problem: Problem) -> int:
    """Return a number of elements that every plan loads or writes, through a memory of limited size.

    In any run of steps in which x elements are loaded or written, at most ``2 S + x`` elements are used, of
    input, kernels and outputs together: what was there, what came, and what is there at the end. With I, W
    and O of each, the cells computed are at most ``sqrt(R I W O)`` (Loomis and Whitney), where no pixel lies
    under more than R positions of windows; and that is at most ``sqrt(R) ((2 S + x) / 3) ** 1.5``.
    """
    limit, sizes = problem.machine.memory, problem.elements
    if limit is None or problem.kernels_stay or problem.limits.steps != "free":
        return 0
    size = limit * problem.n_memories
    shared = 1
    if problem.limits.form == "direct":
        layer = problem.layer
        shared = min(layer.kernel[0], -(-layer.kernel[0] // layer.stride[0])) * -(
            -layer.kernel[1] // layer.stride[1]
        )
        if layer.dilation != (1, 1):
            shared = layer.kernel[0] * layer.kernel[1]
    macs = int((sizes.inputs >= 0).sum()) * sizes.n_kernels  # without those of padding that is made on chip
    best = 0
    for moved in {max(1, size * part // 4) for part in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)}:
        together = 2 * size + moved
        # The largest integer that no run exceeds: sqrt(R * (together / 3) ** 3), rounded up.
        most = isqrt(shared * together**3 // 27 + 1) + 1
        best = max(best, moved * max(0, -(-macs // most) - 1))
    return best
