"""A machine that steps cycle by cycle through a program whose engines wait for banks (docs/isa.md, Banks)."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

ENGINES = ("LOAD", "SAVE", "CONV", "POOL", "MISC")

Decoded = tuple[str, tuple[str, ...], tuple[str, ...], dict[str, int], list[tuple[str, dict[str, int]]]]
"""Name, engines in `wait` and in `send`, fields, and operands with their roles."""

WORKING = ("LOAD", "SAVE", "CONV", "POOL", "ADD", "MULTIPLY", "COPY")
"""Instructions with operands in buffers."""

Port = tuple[int, int, str]


class Chip:
    """Buffers in banks.

    Parameters
    ----------
    sizes
        Elements of each buffer.
    """

    def __init__(self, sizes: list[int], images: int, banks: int, ports: int) -> None:
        self.sizes, self.images, self.banks, self.ports = sizes, images, banks, ports

    def taken(self, one: Decoded) -> set[Port]:
        """Return the ports of banks that an instruction takes, element by element."""
        name, _, _, values, operands = one
        found: set[Port] = set()
        outer = values["rows"], values["columns"]
        deep = values.get("kernels" if name == "CONV" else "channels", 0)
        for role, area in operands:
            if role == "in":
                box = area["rows"], area["columns"], area["channels"]
            elif role in ("chip", "out"):
                box = *outer, deep
            else:
                continue
            use = "write" if role == "out" or (role == "chip" and name == "LOAD") else "read"
            ring = area["ring_rows"], area["ring_columns"], area["ring_channels"]
            first = area["row"], area["column"], area["channel"]
            for image, *at in product(range(self.images), *map(range, box)):
                y, x, c = ((a + f) % size for a, f, size in zip(at, first, ring, strict=True))
                element = area["base"] + ((image * ring[0] + y) * ring[1] + x) * ring[2] + c
                found.add(self._port(area["bank"], element, use))
        if name == "CONV":
            each = values["bias"] + values["kernel_rows"] * values["kernel_columns"] * values["depth"]
            for element in range(values["kernels"] * each):
                found.add(self._port(values["bank"], values["base"] + element, "read"))
        return found

    def fetched(self, one: Decoded) -> set[Port]:
        """Return the ports that a FETCH takes."""
        values = one[3]
        count = values["kernels"] * (values["bias"] + values["taps"] * values["run"])
        return {self._port(values["bank"], values["base"] + at, "write") for at in range(count)}

    def _port(self, buffer: int, element: int, use: str) -> Port:
        return buffer, element * self.banks // self.sizes[buffer], use if self.ports == 2 else "any"


def cycles(program: list[Decoded], engines: dict[str, str], durations: list[int], chip: Chip) -> int:
    """Return the cycle at which the last instruction ends.

    Parameters
    ----------
    engines
        Of each instruction, by its name.
    durations
        Cycles of each instruction of the program.
    """
    queues: dict[str, list[int]] = {name: [] for name in ENGINES}
    ports: list[set[Port]] = []
    for number, one in enumerate(program):
        queues[engines[one[0]]].append(number)
        if one[0] == "FETCH":
            ports.append(chip.fetched(one))
        else:
            ports.append(chip.taken(one) if one[0] in WORKING else set())
    tokens: Counter[tuple[str, str]] = Counter()
    running: dict[str, tuple[int, int]] = {}  # engine: number, end
    now = last = 0
    while running or any(queues.values()):
        changed = True
        while changed:
            changed = False
            for name, (number, end) in list(running.items()):
                if end == now:
                    del running[name]
                    tokens.update((name, taker) for taker in program[number][2])
                    changed = True
            for name in ENGINES:
                if name in running or not queues[name]:
                    continue
                number = queues[name][0]
                held = set[Port]().union(*(ports[other] for other, _ in running.values()))
                if all(tokens[sender, name] for sender in program[number][1]) and not held & ports[number]:
                    tokens.subtract((sender, name) for sender in program[number][1])
                    queues[name].pop(0)
                    running[name] = number, now + durations[number]
                    last = max(last, now + durations[number])
                    changed = True
                    break
        now += 1
    return last


def sizes_of(machine: dict[str, Any]) -> list[int]:
    """Return the elements of each buffer of a machine."""
    width = machine["element_bytes"]
    return [machine[name] // width for name in ("input_bytes", "output_bytes", "parameter_bytes")]
