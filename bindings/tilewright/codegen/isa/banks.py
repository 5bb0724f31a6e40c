"""Banks of the buffers: which of them an instruction takes, and when they are free for the next one.

The paper's machine has an arbiter that puts accesses to buffers in an order (DNNVM, section 3.1), but no word
of its rule. Ours: a buffer is cut into banks of consecutive addresses. An instruction takes all banks that it
reads or writes from its first cycle to its last one. A bank with one port serves one instruction, one with
two ports an instruction that reads and one that writes. Whichever could begin first gets what it needs, of
several the one of the first engine.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tilewright.codegen.isa.instructions import Instruction
from tilewright.codegen.isa.places import Block, Elements, accesses
from tilewright.fusion.machine import BUFFERS, EngineMachine

Port = tuple[int, int, bool]
"""A buffer, one of its banks, and whether it is the port for writing; of one port it is always False."""


class Banks(NamedTuple):
    """How the buffers are cut.

    Attributes
    ----------
    number
        Banks of each buffer.
    ports
        Of a bank: 1 for all accesses, or 2, for reading and for writing.
    """

    number: int
    ports: int = 1


class Arbiter:
    """When each port of each bank is free again."""

    def __init__(self, machine: EngineMachine, banks: Banks) -> None:
        self._banks, self._machine = banks, machine
        sizes = [machine.capacity(buffer) // machine.element_bytes for buffer in BUFFERS]
        self._bank_of: list[Elements] = [
            np.arange(size, dtype=np.int64) * banks.number // max(1, size) for size in sizes
        ]
        self._free: dict[Port, int] = {}
        self._known: dict[Block, tuple[int, ...]] = {}

    def ports(self, instruction: Instruction) -> frozenset[Port]:
        """Return the ports that an instruction takes."""
        touched = accesses(instruction, self._machine.arrays, self._machine.element_bytes)
        pairs = [(each, False) for each in touched.reads]
        pairs += [(each, self._banks.ports == 2) for each in touched.writes]
        return frozenset(
            (block.bank, bank, writing) for block, writing in pairs for bank in self._numbers(block)
        )

    def _numbers(self, block: Block) -> tuple[int, ...]:
        """Return the banks of its buffer that a block lies in."""
        if block not in self._known:
            views = block.views(self._bank_of[block.bank])
            self._known[block] = tuple(sorted({int(each) for view in views for each in np.unique(view)}))
        return self._known[block]

    def free(self, ports: frozenset[Port]) -> int:
        """Return the cycle from which on all of some ports are free."""
        return max((self._free.get(port, 0) for port in ports), default=0)

    def take(self, ports: frozenset[Port], until: int) -> None:
        """Let an instruction have ports until a cycle."""
        self._free |= dict.fromkeys(ports, until)
