"""Lower bounds on the duration of every plan, without a search (docs/offloading.md has the proofs)."""

from __future__ import annotations

import numpy as np

from tilewright.core.bounds import Bound
from tilewright.core.pebble_game import Work, pebble_game
from tilewright.offloading.problem import Problem
from tilewright.spec.layer import Layer


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
    first_writes = machine.write * sizes.n_outputs if problem.minimise == "loads" else 0
    value = memory_bound(problem) - first_writes + machine.burst * bursts + machine.compute * steps
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
    """Return cycles of loads and writes that no plan is below, through memories of limited size.

    With L loads of input and kernels, V stays of outputs and C outputs a plan takes ``load L + (load + write)
    V - load C``, and the pebble game bounds ``L + 2 V - C`` (docs/tiling-bounds.md, lemma 1) by charging a
    stay no more than a load. Several memories are one with room for all that they hold.
    """
    limit, layer = problem.machine.memory, problem.layer
    generated = problem.machine.padding == "generated" and any(layer.padding)
    if limit is None or problem.kernels_stay:
        return 0
    if problem.limits.form == "gemm":
        if generated:  # what is no element of a row differs from patch to patch
            return 0
        sizes = problem.elements
        layer = Layer(input=(sizes.n_channels, 1, sizes.n_patches), kernels=sizes.n_kernels, kernel=1)
    work = Work.of(layer, generated=generated)
    load, write = problem.machine.load, problem.machine.write
    moved = pebble_game(work, limit * problem.n_memories).accesses
    return load * moved + (write - load) * work.totals[2]
