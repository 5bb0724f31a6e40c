"""What a step spends, by closed forms: traffic, time and energy; see docs/residency.md."""

from __future__ import annotations

from collections.abc import Collection

from tilewright.residency.prices import Prices, Spent
from tilewright.residency.shapes import double_buffering as doubling
from tilewright.residency.shapes.groups import Group
from tilewright.residency.shapes.shape import Shape
from tilewright.residency.work import of_step as work_of


def of_step(
    prices: Prices,
    group: Group,
    shape: Shape,
    streamed: Collection[int],
    fetched: Collection[int],
    written: Collection[int],
    moved: int,
) -> Spent:
    """Return what a step spends.

    Parameters
    ----------
    streamed, fetched
        Sources that are read from DRAM through line buffers, and whole.
    written
        Outputs that are written to DRAM.
    moved
        Elements of all of these and of weights.
    """
    work = work_of(group, shape)
    weighty = [operation for operation in group.operations if operation.weights]
    transfers = len(streamed) + len(fetched) + len(written) + len(weighty)
    time = prices.setup(transfers)
    if shape.doubled:
        sizes = group.graph.tensors
        before = sum(sizes[tensor].size for tensor in fetched)
        before += sum(operation.weights for operation in weighty if operation.number in shape.kept)
        time += prices.transfer(before) + doubling.overlapped_time(prices, group, shape, streamed, written)
    else:
        time += prices.core(work) + prices.transfer(moved)
    return Spent(moved, time, prices.energy(moved, work, transfers))
