"""Optima by enumeration of all ordered partitions: slow, short, and independent of the package's rules."""

from itertools import combinations

from tilewright.grouping import Problem


def optimum(problem: Problem) -> int | None:
    """Return the least objective of all allowed plans, None if there is none."""
    masks = [sum({1 << pixel for pixel in row if pixel >= 0}) for row in problem.patch_pixels.tolist()]
    fewest, most = problem.steps_range
    best: int | None = None

    def allowed(group: tuple[int, ...]) -> int | None:
        """Return the pixels of a group as a bit mask, None if it does not fit on chip."""
        pixels = 0
        for patch in group:
            pixels |= masks[patch]
        memory = problem.machine.memory
        if memory is not None and problem.memory_needed(pixels.bit_count(), len(group)) > memory:
            return None
        return pixels

    def extend(rest: frozenset[int], before: int, loads: int, steps: int, counts: dict[int, int]) -> None:
        nonlocal best
        if not rest:
            if steps >= fewest:
                cost = problem.cost(loads, steps)
                best = cost if best is None else min(best, cost)
            return
        if steps == most or len(rest) > (most - steps) * problem.group_size:
            return
        for size in range(1, problem.group_size + 1):
            for group in combinations(sorted(rest), size):
                pixels = allowed(group)
                if pixels is None:
                    continue
                loaded = pixels & ~before
                after = dict(counts)
                for bit in range(loaded.bit_length()):
                    if loaded >> bit & 1:
                        after[bit] = after.get(bit, 0) + 1
                limit = problem.limits.reloads
                if limit and max(after.values(), default=0) > limit:
                    continue
                extend(rest - set(group), pixels, loads + loaded.bit_count(), steps + 1, after)

    extend(frozenset(range(problem.n_patches)), 0, 0, 0, {})
    return best
