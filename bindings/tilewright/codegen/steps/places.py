"""Places on chip for elements, decided step by step: what comes takes the lowest addresses that are free."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tilewright.codegen.steps.layer_steps import LayerStep, LayerSteps
from tilewright.offloading.plan import Moves, Numbers, Runs, numbers
from tilewright.spec.errors import InputError

MOST_ACTIONS = 1_000_000
"""Most rows of a table in C."""

LEAVING = {"free_inputs": ("FREE_INPUT", 0), "free_kernels": ("FREE_KERNELS", 1), "write": ("WRITE", 2)}
COMING = {
    "load_inputs": ("LOAD_INPUT", 0),
    "load_kernels": ("LOAD_KERNELS", 1),
    "load_sums": ("LOAD_SUMS", 2),
}
"""What moves are called in C, and whose elements: of the input, the kernels or the output."""


class Action(NamedTuple):
    """What happens to elements with consecutive numbers."""

    kind: str
    memory: int
    first: int
    many: int
    address: int = 0


class FreeList:
    """The addresses of a memory that are free.

    The lowest ones are taken first, and each element has an address of its own. So no address is ever taken
    that lies beyond the most elements that are on chip at a time.
    """

    def __init__(self) -> None:
        self._size = 0
        self._free: Numbers = np.empty(0, dtype=np.int64)

    def take(self, count: int) -> Numbers:
        """Take the lowest addresses, ascending."""
        more = max(0, count - len(self._free))
        found = np.concatenate([self._free[:count], np.arange(self._size, self._size + more)])
        self._free, self._size = self._free[count:], self._size + more
        return found

    def give_back(self, addresses: Numbers) -> None:
        """Free addresses again."""
        self._free = np.sort(np.concatenate([self._free, addresses]))


class Places:
    """Where the elements of a layer lie while its steps are gone through.

    Attributes
    ----------
    memory_elements
        One more than the highest address that was taken.
    most_held
        Elements that a memory held at a time, at most.
    """

    def __init__(self, steps: LayerSteps) -> None:
        self._steps = steps
        self._lists = [FreeList() for _ in range(steps.memories)]
        # Address of each element, or -1: by memory; of input, kernels and output.
        self._lies = [[np.full(size, -1, np.int64) for size in steps.sizes] for _ in self._lists]
        self._many = 0
        self._held = [0] * steps.memories
        self.memory_elements = self.most_held = 0

    def actions(self) -> Iterator[list[Action]]:
        """Yield the actions of what is on chip beforehand, of each step, and of what empties the memories.

        Raises
        ------
        InputError
            Where there are too many.
        """
        for number, step in enumerate(self._steps.all):
            at = max(0, number - 1)
            found: list[Action] = []
            for memory, moves in enumerate(step.moves):
                found += self._leave(memory, moves)
            for memory, moves in enumerate(step.moves):
                for field, (kind, tensor) in COMING.items():
                    found += self._arrive(at, memory, kind, tensor, numbers(getattr(moves, field)))
            found += self._begin(at, step)
            self._many += len(found)
            if self._many > MOST_ACTIONS:
                limit = (
                    f"gives more than {MOST_ACTIONS:,} moves of elements in a row, the most for a table in C"
                )
                raise InputError("layer.input", list(self._steps.layer.input), limit)
            yield found

    def _leave(self, memory: int, moves: Moves) -> Iterator[Action]:
        for field, (kind, tensor) in LEAVING.items():
            gone: Runs = getattr(moves, field)
            for first, end in gone:
                yield Action(kind, memory, first, end - first)
            if gone:
                lies = self._lies[memory][tensor]
                self._held[memory] -= len(numbers(gone))
                self._lists[memory].give_back(lies[numbers(gone)])
                lies[numbers(gone)] = -1

    def _begin(self, at: int, step: LayerStep) -> Iterator[Action]:
        """Give places to outputs that are added to for the first time since they were written, if ever."""
        for memory, block in step.blocks:
            outputs = self._steps.outputs_of(block)
            new = outputs[self._lies[memory][2][outputs] < 0]
            yield from self._arrive(at, memory, "BEGIN", 2, new)

    def _arrive(self, at: int, memory: int, kind: str, tensor: int, come: Numbers) -> Iterator[Action]:
        """Give places to elements, ascending, that come in a step."""
        if not come.size:
            return
        addresses = self._addresses(at, memory, tensor, come)
        self._lies[memory][tensor][come] = addresses
        self._held[memory] += len(come)
        self.most_held = max(self.most_held, self._held[memory])
        self.memory_elements = max(self.memory_elements, int(addresses.max()) + 1)
        ends = np.flatnonzero((np.diff(come) != 1) | (np.diff(addresses) != 1)) + 1
        for first, end in zip(np.r_[0, ends].tolist(), np.r_[ends, len(come)].tolist(), strict=True):
            yield Action(kind, memory, int(come[first]), end - first, int(addresses[first]))

    def _addresses(self, at: int, memory: int, tensor: int, come: Numbers) -> Numbers:
        if self._steps.addresses is None:
            return self._lists[memory].take(len(come))
        elements, addresses = self._steps.addresses[memory, tensor, at]
        return addresses[np.searchsorted(elements, come)]
