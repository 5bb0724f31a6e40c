"""The machine: a dispatcher with a FIFO for each engine, and engines that wait for tokens and nothing else.

It executes the words of a program, not a plan. There is no clock that puts engines in order: an instruction
begins when its engine is free, it has been dispatched, and the tokens are there that it waits for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush

import numpy as np

from tilewright.codegen.isa.banks import Arbiter, Banks, Port
from tilewright.codegen.isa.container import Image
from tilewright.codegen.isa.engines import Effect, Memories
from tilewright.codegen.isa.fields import WORD_BYTES
from tilewright.codegen.isa.instructions import Instruction, decode
from tilewright.codegen.isa.places import Elements
from tilewright.codegen.isa.timing import cycles
from tilewright.fusion.machine import ENGINES
from tilewright.spec.errors import InputError

Duration = Callable[[Instruction, int], int]
"""Returns the cycles of an instruction, given those of the machine file."""


@dataclass
class Executed:
    """What the machine did.

    Attributes
    ----------
    cycles
        At which the last instruction ended.
    instructions, busy
        Instructions of each engine, and the cycles that they took.
    loaded_bytes, saved_bytes
        Moved by LOAD and SAVE.
    waited
        Cycles in which each engine waited for banks alone.
    deepest_fifo, most_tokens
        Instructions that waited in the FIFO of an engine, and tokens of one engine for another, at most.
    right
        Whether each output is what is expected, bit for bit.
    outputs
        All output maps, NHWC, in the order of the image's tensors, batch by batch.
    batches
        How often the program was executed; all else is of the first time, as it does not depend on values.
    """

    cycles: int = 0
    instructions: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ENGINES, 0))
    busy: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ENGINES, 0))
    loaded_bytes: int = 0
    saved_bytes: int = 0
    waited: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ENGINES, 0))
    deepest_fifo: int = 0
    most_tokens: int = 0
    right: bool = False
    outputs: bytes = b""
    batches: int = 1


class Deadlock(InputError):
    """Engines that wait for tokens that do not come."""


def execute(
    image: Image, fifo: int | None = None, duration: Duration | None = None, banks: Banks | None = None
) -> Executed:
    """Execute a program on the machine that it was made for; `check` says before whether it can be.

    Parameters
    ----------
    fifo
        Instructions that the FIFO of an engine holds; any number when left out.
    duration
        What each instruction takes, if not what the machine file says.
    banks
        Of the buffers, for which engines wait; for none when left out.

    Raises
    ------
    Deadlock
        Where no engine can go on.
    """
    found = [_Machine(image, given, fifo, duration, banks).run() for given in image.batches]
    outputs = b"".join(each.outputs for each in found)
    return replace(found[0], outputs=outputs, right=outputs == image.expected, batches=len(found))


@dataclass
class _Queued:
    instruction: Instruction
    dispatched: int
    ports: frozenset[Port] = frozenset()


class _Machine:
    def __init__(
        self,
        image: Image,
        inputs: bytes,
        fifo: int | None,
        duration: Duration | None,
        banks: Banks | None,
    ) -> None:
        self._arbiter = None if banks is None else Arbiter(image.machine, banks)
        self._image, self._machine, self._fifo = image, image.machine, fifo
        self._duration = duration or (lambda _, own: own)
        self._memories = Memories(image.machine, memory_of(image, inputs))
        self._queues: list[deque[_Queued]] = [deque() for _ in ENGINES]
        self._tokens: dict[tuple[str, str], deque[int]] = {
            (sender, taker): deque() for sender in ENGINES for taker in ENGINES
        }
        self._free = [0] * len(ENGINES)
        self._going: list[tuple[int, int, Effect]] = []
        self._words = np.frombuffer(self._memories.ddr, "<u4", len(image.words), image.code_address).tolist()
        self._at = self._dispatched = 0
        self.done = Executed()

    def run(self) -> Executed:
        while True:
            self._dispatch()
            ready = [
                (start, engine)
                for engine in range(len(ENGINES))
                if (start := self._start(engine)) is not None
            ]
            if not ready:
                break
            start, engine = min(ready)
            self._end_until(start)
            self._issue(engine, start)
        self._end_until(self.done.cycles)
        waiting = [
            f"{ENGINES[engine]} at {queue[0].instruction.name} waits for {', '.join(self._missing(queue[0]))}"
            for engine, queue in enumerate(self._queues)
            if queue
        ]
        if waiting:
            raise Deadlock("dependencies", "; ".join(waiting), "no engine can go on")
        outputs = [self._output(number) for number in range(len(self._image.outputs))]
        self.done.outputs = b"".join(outputs)
        return self.done

    def _dispatch(self) -> None:
        """Fetch and decode instructions in order, as long as the FIFO of their engine has a place."""
        while self._at < len(self._words):
            instruction, length = decode(self._words, self._at)
            queue = self._queues[ENGINES.index(instruction.engine)]
            if self._fifo is not None and len(queue) >= self._fifo:
                return
            ports = frozenset[Port]() if self._arbiter is None else self._arbiter.ports(instruction)
            queue.append(_Queued(instruction, self._dispatched, ports))
            self._at += length
            self.done.deepest_fifo = max(self.done.deepest_fifo, len(queue))

    def _missing(self, queued: _Queued) -> list[str]:
        taker = queued.instruction.engine
        return [sender for sender in queued.instruction.wait if not self._tokens[sender, taker]]

    def _start(self, engine: int) -> int | None:
        """Return when the next instruction of an engine begins, if all its tokens have been sent."""
        queue = self._queues[engine]
        if not queue or self._missing(queue[0]):
            return None
        tokens = [self._tokens[sender, ENGINES[engine]][0] for sender in queue[0].instruction.wait]
        able = max([self._free[engine], queue[0].dispatched, *tokens])
        return able if self._arbiter is None else max(able, self._arbiter.free(queue[0].ports))

    def _end_until(self, now: int) -> None:
        """End what ends by some cycle, so that what it stores is there."""
        while self._going and self._going[0][0] <= now:
            heappop(self._going)[2].end()

    def _issue(self, engine: int, start: int) -> None:
        queued = self._queues[engine].popleft()
        if self._fifo is not None:
            self._dispatched = max(self._dispatched, start)
        instruction, name = queued.instruction, ENGINES[engine]
        tokens = [self._tokens[sender, name][0] for sender in instruction.wait]
        self.done.waited[name] += start - max([self._free[engine], queued.dispatched, *tokens])
        for sender in instruction.wait:
            self._tokens[sender, name].popleft()
        work = self._image.host[instruction.values["call"]] if instruction.name == "HOST" else instruction
        effect = self._memories.begin(work)
        self.done.loaded_bytes += effect.loaded
        self.done.saved_bytes += effect.saved
        taken = self._duration(instruction, cycles(instruction, self._machine, self._image.host))
        self._free[engine] = start + taken
        if self._arbiter is not None:
            self._arbiter.take(queued.ports, start + taken)
        heappush(self._going, (start + taken, sum(self.done.instructions.values()), effect))
        self.done.instructions[name] += 1
        self.done.busy[name] += taken
        self.done.cycles = max(self.done.cycles, start + taken)
        for taker in instruction.send:
            sent = self._tokens[name, taker]
            sent.append(start + taken)
            self.done.most_tokens = max(self.done.most_tokens, len(sent))

    def _output(self, number: int) -> bytes:
        return output_of(self._image, self._memories.ddr, number)


def memory_of(image: Image, inputs: bytes) -> Elements:
    """Return DDR before a program runs: parameters, inputs, maps of zeros, instructions."""
    end = image.code_address + WORD_BYTES * len(image.words)
    memory = np.zeros(end, dtype=np.uint8)
    given = np.frombuffer(image.parameters + inputs, dtype=np.uint8)
    memory[: len(given)] = given
    code = np.array(image.words, dtype="<u4").view(np.uint8)
    memory[image.code_address :] = code
    return memory


def output_of(image: Image, memory: Elements, number: int) -> bytes:
    """Return an output of the network from DDR, NHWC."""
    tensor, machine = image.outputs[number], image.machine
    channels, rows, columns = tensor.shape
    steps = tensor.image, tensor.line, tensor.pixel, tensor.channel_step(machine.element_bytes)
    kind = np.dtype(f"<i{machine.element_bytes}")
    values: Elements = np.ndarray(
        (machine.arrays, rows, columns, channels), kind, memory.data, tensor.address, steps
    )
    return values.tobytes()
