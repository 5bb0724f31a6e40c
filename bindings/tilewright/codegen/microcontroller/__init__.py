"""A plan without DRAM as a C project for a micro-controller: weights in flash, one arena of bytes in RAM.

Each step is a function. Its operations take turns as the plan has it: the last one asks for what its next
pixel reads, and so on, by `goto` and without recursion.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from math import prod

import numpy as np

from tilewright.codegen.c_text import safe_text
from tilewright.codegen.microcontroller.operations import (
    coded_operations,
    number_rows,
    padding_name,
    single,
)
from tilewright.codegen.microcontroller.steps import PlannedStep, planned_steps
from tilewright.codegen.microcontroller.turns import StepCode
from tilewright.codegen.project_files import (
    Files,
    comment,
    file_head,
    header_file,
    project_files,
    title_of,
)
from tilewright.residency import Plan, Problem
from tilewright.residency.evaluation import costs_of
from tilewright.simulator.arithmetic.quantised import ExactNetwork, Inside, inside
from tilewright.simulator.arithmetic.quantised.operation import Array
from tilewright.spec.errors import InputError

RUNTIME = (
    *("board.h", "main.c", "kernels.h", "places.h", "memory.c"),
    *("host.c", "riscv.c", "arm.c", "rtl.v", "rtl.cpp"),
)
"""Sources that are the same for every network."""

BOARDS = {"riscv": (0x80000000, 0x84000000, 0x86000000), "arm": (0x0, 0x20000000, 0x20200000)}
"""Where emulated boards have flash, the arena, and RAM for all else."""

OTHERS = 65_536
"""Bytes of RAM for the stack of an emulated board, and for outputs."""

IMAGES = 2
"""Inputs that a project is run on."""

ALIGNMENT = 16
"""Bytes to whose multiples the arena is aligned."""


def microcontroller_project(
    problem: Problem, plan: Plan, network: ExactNetwork, name: str, source: str, seed: int = 0
) -> Files:
    """Return the files of a project that computes a quantised network as planned, by their paths.

    Parameters
    ----------
    network
        Its operations in integers.
    seed
        Of the inputs that it is run on.

    Raises
    ------
    InputError
        For an operation, a step or a type of numbers that there is no C for.
    """
    return _Project(problem, plan, network, name, source, seed).files()


def images_of(network: ExactNetwork, seed: int) -> list[list[Array]]:
    """Return the inputs that a project of a network of integers is run on."""
    rng = np.random.default_rng(seed)
    shapes = [network.tensors[each].shape for each in network.inputs]
    return [[rng.integers(-128, 128, shape, dtype=np.int8) for shape in shapes] for _ in range(IMAGES)]


class _Project:
    def __init__(
        self, problem: Problem, plan: Plan, network: ExactNetwork, name: str, source: str, seed: int
    ) -> None:
        self.inside = inside(network)
        network = self.inside.network
        self.problem, self.network, self.name, self.source = problem, network, name, source
        _refuse(problem, self.inside)
        self.graph = problem.graph
        self.steps = planned_steps(problem, plan)
        self.coded = coded_operations(problem, network)
        self.outside = places_outside(problem, network)
        self.input_type, self.output_type = (
            "uint8_t" if borders and borders[0].unsigned else "int8_t"
            for borders in (self.inside.inputs, self.inside.outputs)
        )
        self.unsigned = {
            number
            for number in self.outside
            if (self.input_type if self.graph.tensors[number].given else self.output_type) == "uint8_t"
        }
        self.costs = costs_of(problem, plan)
        self.inputs, self.outputs = self._sizes(network.inputs), self._sizes(network.outputs)
        self.images = images_of(network, seed)
        self.expected = [[*network.run(given).values()] for given in self.images]

    def _sizes(self, names: Sequence[str]) -> list[int]:
        return [prod(_shape(self.network, name)) for name in names]

    def files(self) -> Files:
        """Return all files."""
        arena = self.costs["memory"]
        flash = sum(operation.parameters for operation in self.graph.operations)
        told = {
            "title": title_of(self.name),
            "arena": f"{arena:,}",
            "flash": f"{flash:,}",
            "macs": f"{self.costs['macs']:,}",
            "input": f"{sum(self.inputs):,}",
            "output": f"{sum(self.outputs):,}",
        }
        texts = {"network.h": self._header(arena), "network.c": self._network(), "vectors.h": self._vectors()}
        texts |= {f"{board}.ld": _linker_script(*places, arena) for board, places in BOARDS.items()}
        return project_files({"microcontroller": RUNTIME}, texts, told, {})

    def _header(self, arena: int) -> str:
        lines = [
            "#include <stdint.h>",
            "",
            "/* Bytes of the arena, exactly as planned, and of inputs and outputs, one behind the other. */",
            f"#define NETWORK_ARENA_BYTES {arena}",
            f"#define NETWORK_INPUT_BYTES {sum(self.inputs)}",
            f"#define NETWORK_OUTPUT_BYTES {sum(self.outputs)}",
            "",
            "/* What the plan has for an input: multiply-accumulates, and bytes read and written outside. */",
            f"#define NETWORK_MACS {self.costs['macs']}LL",
            f"#define NETWORK_MOVED_BYTES {self.costs['traffic']}LL",
            "",
            "/* The section of the arena, which has no contents, and its alignment in bytes. */",
            "#ifndef NETWORK_ARENA",
            f'#define NETWORK_ARENA __attribute__((section(".bss.network_arena"), aligned({ALIGNMENT})))',
            "#endif",
            "",
            f"typedef {self.input_type} network_input_t;",
            f"typedef {self.output_type} network_output_t;",
            "",
            *self._scales(),
            "/* Compute the outputs of an input; maps have all channels of a pixel side by side. */",
            "void network_run(const network_input_t *input, network_output_t *output);",
            "",
            "/* Bytes that have been read and written outside, where COUNT_BYTES is defined. */",
            "extern long long network_moved_bytes;",
        ]
        return header_file("network", file_head(self.name, self.source), lines)

    def _scales(self) -> Iterator[str]:
        """Yield what integers stand for, of inputs and outputs that are floats in the file."""
        for what, borders in (("INPUT", self.inside.inputs), ("OUTPUT", self.inside.outputs)):
            for number, border in enumerate(borders):
                if border.floats:
                    named = f"{what.capitalize()} {number} is floats in the file, scale * (q - zero)"
                    yield f"/* {named}: {safe_text(border.name)}. */"
                    yield f"#define NETWORK_{what}_{number}_SCALE {single(border.scale)}"
                    yield f"#define NETWORK_{what}_{number}_ZERO {border.zero_point}"
                    yield ""

    def _vectors(self) -> str:
        lines = ["#include <stdint.h>", "", f"#define VECTORS {IMAGES}", ""]
        for name, kind, borders, every in (
            ("inputs", self.input_type, self.inside.inputs, self.images),
            ("expected", self.output_type, self.inside.outputs, self.expected),
        ):
            outside = [
                [border.outside(each) for border, each in zip(borders, one, strict=True)] for one in every
            ]
            flat = [np.concatenate([each.reshape(-1) for each in one]).tolist() for one in outside]
            lines += [f"static const {kind} {name}[VECTORS][{len(flat[0])}] = {{"]
            for one in flat:
                lines += ["    {", *number_rows(one, "        "), "    },"]
            lines += ["};", ""]
        return header_file("vectors", ["Inputs, and what the network gives for them."], lines)

    # The network ------------------------------------------------------------------------------------------

    def _network(self) -> str:
        head = file_head(
            self.name,
            self.source,
            "",
            f"{len(self.steps)} steps in {self.costs['memory']:,} bytes, {self.costs['macs']:,} "
            "multiply-accumulates.",
        )
        lines = [comment(head), '#include "network.h"', "", '#include "kernels.h"', '#include "places.h"', ""]
        lines += ["NETWORK_ARENA static int8_t arena[NETWORK_ARENA_BYTES];", ""]
        lines += ["#ifdef COUNT_BYTES", "long long network_moved_bytes;", "#endif", ""]
        lines += self._padding()
        for coded in self.coded.values():
            lines += coded.before()
        for number, step in enumerate(self.steps):
            lines += [*self._step(number, step), ""]
        lines += ["void network_run(const network_input_t *input, network_output_t *output)", "{"]
        given = ", ".join(
            name if kind == "int8_t" else f"({cast}int8_t *){name}"
            for name, kind, cast in (("input", self.input_type, "const "), ("output", self.output_type, ""))
        )
        lines += [f"    step_{number}({given});" for number in range(len(self.steps))]
        return "\n".join([*lines, "}", ""])

    def _step(self, number: int, step: PlannedStep) -> Iterator[str]:
        """Yield the function of a step."""
        code = StepCode(self.graph, self.coded, self.outside, number, step, self.unsigned)
        yield from code.function()

    def _padding(self) -> list[str]:
        """Return pixels of which places of the padding are, one for each number that stands for zero."""
        sizes: dict[int, int] = {}
        for coded in self.coded.values():
            if coded.padded is not None:
                sizes[coded.padded] = max(sizes.get(coded.padded, 0), coded.channels)
        return [
            line
            for value, size in sorted(sizes.items())
            for line in (
                f"static const int8_t {padding_name(value)}[{size}] = {{",
                *number_rows([value] * size, "    "),
                "};",
                "",
            )
        ]


def _linker_script(flash: int, arena: int, others: int, size: int) -> str:
    """Return the linker script of a board: its region for the arena is exactly as large as planned."""
    lines = [
        "/* The arena is exactly as large as planned: one byte more does not link. */",
        "ENTRY(_start)",
        "MEMORY",
        "{",
        f"    FLASH (rx) : ORIGIN = {flash:#x}, LENGTH = 4M",
        f"    ARENA (rw) : ORIGIN = {arena:#x}, LENGTH = {size}",
        f"    OTHERS (rw) : ORIGIN = {others:#x}, LENGTH = {OTHERS}",
        "}",
        "SECTIONS",
        "{",
        "    .text : { KEEP(*(.start)) *(.text*) *(.rodata*) *(.srodata*) } > FLASH",
        "    .arena (NOLOAD) : { *(.bss.network_arena) } > ARENA",
        "    .others (NOLOAD) : {",
        "        others_begin = .;",
        "        *(.data*) *(.sdata*) *(.bss*) *(.sbss*) *(COMMON)",
        "        . = ALIGN(4);",
        "        others_end = .;",
        "    } > OTHERS",
        f"    stack_end = ORIGIN(OTHERS) + {OTHERS};",
        "    /DISCARD/ : { *(.ARM.exidx*) *(.comment) *(.eh_frame*) *(.note*) }",
        "}",
        "",
    ]
    return "\n".join(lines)


def _refuse(problem: Problem, given: Inside) -> None:
    """Refuse machines and numbers that there is no C for."""
    network = given.network
    if problem.machine.dram:
        raise InputError("machine.dram", True, "integers of a file are emitted for machines without DRAM")
    if problem.machine.element_bytes != 1:
        limit = "must be 1: there is no C for other elements than int8"
        raise InputError("machine.element_bytes", problem.machine.element_bytes, limit)
    kinds = {name: network.tensors[name].type for name in network.inputs}
    kinds |= {each.name: each.type for each in network.operations}
    for name, kind in kinds.items():
        if kind != "int8":
            raise InputError(f"tensor {name}", kind, "there is no C for other numbers than int8")
    for what, borders in (("inputs", given.inputs), ("outputs", given.outputs)):
        if len({border.unsigned for border in borders}) > 1:
            limit = "there is no C for int8 and uint8 beside each other; one of both would do"
            raise InputError(f"network.{what}", [border.name for border in borders], limit)


def places_outside(problem: Problem, network: ExactNetwork) -> dict[int, int]:
    """Return where inputs and outputs of a network begin among all of them, by the tensors of its graph.

    Raises
    ------
    InputError
        For one that cannot be told apart from others.
    """
    exact, tensors = network.by_operation(problem.network_graph), problem.graph.tensors
    found = dict[int, int]()
    given = {number: each.name for number, each in enumerate(tensors) if each.given and each.readers}
    left = {number: exact[each.name] for number, each in enumerate(tensors) if each.leaves}
    gives = {number: each[-1].name if each else "" for number, each in left.items()}
    for what, names, own in (("input", network.inputs, given), ("output", network.outputs, gives)):
        sizes = [prod(_shape(network, name)) for name in names]
        begins = dict(zip(names, accumulate(sizes, initial=0), strict=False))
        known = {
            number: name
            for number, name in own.items()
            if name in begins and prod(_shape(network, name)) == tensors[number].size
        }
        others = [name for name in names if name not in known.values()]
        for number in own.keys() - known.keys():
            alike = [name for name in others if prod(_shape(network, name)) == tensors[number].size]
            if len(alike) != 1:
                raise InputError(f"network.{what}", tensors[number].name, "there is no C for one like others")
            known[number] = alike[0]
            others.remove(alike[0])
        found |= {number: begins[name] for number, name in known.items()}
    return found


def _shape(network: ExactNetwork, name: str) -> tuple[int, ...]:
    """Return the shape of an input, or of what is computed."""
    return next((each.shape for each in network.operations if each.name == name), network.tensors[name].shape)
