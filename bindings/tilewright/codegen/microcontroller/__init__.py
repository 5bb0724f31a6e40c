"""A plan without DRAM as a C project for a micro-controller: weights in flash, an arena in each RAM.

Each step is a function. Its operations take turns as the plan has it: the last one asks for what its next
pixel reads, and so on, by `goto` and without recursion.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.codegen.c_text import safe_text
from tilewright.codegen.microcontroller.arenas import GAP, Arena, arenas_of
from tilewright.codegen.microcontroller.arrays import number_rows, single
from tilewright.codegen.microcontroller.coding import coded_network
from tilewright.codegen.microcontroller.operations import padding_name
from tilewright.codegen.microcontroller.outside import given_maps, inputs_outside, outputs_outside
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
from tilewright.simulator.arithmetic.quantised import ExactNetwork, ExactTensor, Inside, inside
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
    tensors = [network.tensors[each] for each in network.inputs]
    return [[_drawn(rng, each) for each in tensors] for _ in range(IMAGES)]


def _drawn(rng: np.random.Generator, tensor: ExactTensor) -> Array:
    known = np.iinfo(tensor.type)
    found: NDArray[Any] = rng.integers(known.min, known.max + 1, tensor.shape, dtype=tensor.type)
    return found


class _Project:
    def __init__(
        self, problem: Problem, plan: Plan, network: ExactNetwork, name: str, source: str, seed: int
    ) -> None:
        self.inside = inside(network)
        network = self.inside.network
        self.problem, self.network, self.name, self.source = problem, network, name, source
        self.element = _refuse(problem, self.inside)
        self.graph = problem.graph
        self.arenas = arenas_of(problem, plan)
        self.steps = planned_steps(problem, plan, self.arenas)
        given = given_maps(problem, network)
        self.coded, stored = coded_network(problem, network, given)
        for step in self.steps:
            for number, block in step.block.items():
                self.coded[self.graph.operations[number].name].streamed(block)
        begins, self.inputs = inputs_outside(network, self.inside.inputs, given, stored)
        ends, self.outputs = outputs_outside(problem, network, self.inside.outputs, stored)
        self.outside = begins | ends
        self.input_type, self.output_type = (
            f"{'u' if borders and borders[0].unsigned else ''}{self.element}_t"
            for borders in (self.inside.inputs, self.inside.outputs)
        )
        self.unsigned = {
            number
            for number in self.outside
            if (self.input_type if self.graph.tensors[number].given else self.output_type) == "uint8_t"
        }
        self.costs = costs_of(problem, plan)
        self.images = images_of(network, seed)
        self.expected = [[*network.run(given).values()] for given in self.images]

    @property
    def bytes(self) -> int:
        """Bytes of a value."""
        return self.problem.machine.element_bytes

    def files(self) -> Files:
        """Return all files."""
        arena = self.costs["memory"]
        flash = sum(operation.parameters for operation in self.graph.operations)
        told = {
            "title": title_of(self.name),
            "arena": f"{arena:,}",
            "flash": f"{flash:,}",
            "macs": f"{self.costs['macs']:,}",
            "input": f"{self.bytes * sum(each.size for each in self.inputs):,}",
            "output": f"{self.bytes * sum(each.size for each in self.outputs):,}",
            "arenas": _told(self.arenas),
        }
        texts = {"network.h": self._header(arena), "network.c": self._network(), "vectors.h": self._vectors()}
        waits = self.problem.machine.flash_prices.reading
        texts |= {
            f"{board}.ld": _linker_script(*places, self.arenas, waits) for board, places in BOARDS.items()
        }
        return project_files({"microcontroller": RUNTIME}, texts, told, {})

    def _header(self, arena: int) -> str:
        lines = [
            "#include <stdint.h>",
            "",
            "/* Bytes of the arena, exactly as planned, and of inputs and outputs, one behind the other. */",
            f"#define NETWORK_ARENA_BYTES {arena}",
            *self._sizes_of_arenas(),
            f"#define NETWORK_INPUT_BYTES {self.bytes * sum(each.size for each in self.inputs)}",
            f"#define NETWORK_OUTPUT_BYTES {self.bytes * sum(each.size for each in self.outputs)}",
            "",
            "/* What the plan has for an input: multiply-accumulates, and bytes read and written outside. */",
            f"#define NETWORK_MACS {self.costs['macs']}LL",
            f"#define NETWORK_MOVED_BYTES {self.costs['traffic']}LL",
            "",
            "/* The section of the arena, which has no contents, and its alignment in bytes. */",
            *self._sections_of_arenas(),
            "",
            f"typedef {self.input_type} network_input_t;",
            f"typedef {self.output_type} network_output_t;",
            "",
            *self._scales(),
            *self._orders(),
            "/* Compute the outputs of an input; maps have all channels of a pixel side by side. */",
            "void network_run(const network_input_t *input, network_output_t *output);",
            "",
            "/* Bytes that have been read and written outside, where COUNT_BYTES is defined. */",
            "extern long long network_moved_bytes;",
        ]
        return header_file("network", file_head(self.name, self.source), lines)

    def _sizes_of_arenas(self) -> Iterator[str]:
        """Yield the size of each of several arenas."""
        for each in self.arenas if len(self.arenas) > 1 else ():
            yield f"#define NETWORK_{each.symbol}_BYTES {each.bytes} /* in {safe_text(each.region.name)} */"

    def _sections_of_arenas(self) -> Iterator[str]:
        """Yield the macros that tell where arenas lie."""
        for each in self.arenas:
            alignment = max(each.region.alignment, self.bytes)
            where = f'__attribute__((section("{each.section}"), aligned({alignment})))'
            yield from (f"#ifndef NETWORK_{each.symbol}", f"#define NETWORK_{each.symbol} {where}", "#endif")

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

    def _orders(self) -> Iterator[str]:
        """Yield in which order values lie, of inputs and outputs that are no maps with channels last."""
        for what, every in (("Input", self.inputs), ("Output", self.outputs)):
            for number, each in enumerate(every):
                if each.has_channels_last:
                    continue
                axes, named = each.axes(), f"{what} {number}"
                if axes is not None:
                    sizes = "".join(f"[{size}]" for size, _ in axes)
                    steps = ", ".join(str(step) for _, step in axes)
                    yield f"/* {named} lies as {sizes}, whose steps in the file's tensor are {steps}. */"
                    continue
                yield f"/* For each value of {named.lower()} its place in the file's tensor. */"
                rows = list(number_rows(each.in_file.tolist(), "    "))
                yield f"#define NETWORK_{what.upper()}_{number}_PLACES {{ \\"
                yield from (f"{row} \\" for row in rows)
                yield "}"
                yield ""

    def _vectors(self) -> str:
        lines = ["#include <stdint.h>", "", f"#define VECTORS {IMAGES}", ""]
        for name, kind, outside, every in (
            ("inputs", self.input_type, self.inputs, self.images),
            ("expected", self.output_type, self.outputs, self.expected),
        ):
            values = [[each.values(own) for each, own in zip(outside, one, strict=True)] for one in every]
            flat = [np.concatenate(one).tolist() for one in values]
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
        steps = [line for number, step in enumerate(self.steps) for line in (*self._step(number, step), "")]
        lines = [comment(head), '#include "network.h"', ""]
        if self.element != "int8":
            lines += [f"#define VALUE {self.element}_t"]
        lines += ['#include "kernels.h"', '#include "places.h"', ""]
        for each in self.arenas:
            size = f"NETWORK_{each.symbol}_BYTES"
            size = size if self.bytes == 1 else f"{size} / {self.bytes}"
            lines += [f"NETWORK_{each.symbol} static value_t {each.name}[{size}];", ""]
        lines += ["#ifdef COUNT_BYTES", "long long network_moved_bytes;", "#endif", ""]
        lines += self._padding()
        for coded in self.coded.values():
            lines += coded.before()
        lines += steps
        lines += ["void network_run(const network_input_t *input, network_output_t *output)", "{"]
        given = ", ".join(
            f"({cast}value_t *){name}" if kind == "uint8_t" else name
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
                f"static const value_t {padding_name(value)}[{size}] = {{",
                *number_rows([value] * size, "    "),
                "};",
                "",
            )
        ]


def _told(arenas: Sequence[Arena]) -> str:
    """Say where the arenas are."""
    if len(arenas) == 1:
        return (
            f"The arena is in the section `{arenas[0].section}`, which has no contents. Define "
            f"`NETWORK_{arenas[0].symbol}` to put it elsewhere."
        )
    found = "; ".join(f"`{each.section}` is for {safe_text(each.region.name)}" for each in arenas)
    return (
        f"There are {len(arenas)} arenas, in sections without contents: {found}. Define "
        f"`NETWORK_{arenas[0].symbol}` and so on to put them elsewhere."
    )


def _linker_script(flash: int, first: int, others: int, arenas: Sequence[Arena], waits: float) -> str:
    """Return the linker script of a board: its regions for arenas are exactly as large as planned."""
    regions = [*_told_waits("FLASH", waits, 0), f"    FLASH (rx) : ORIGIN = {flash:#x}, LENGTH = 4M"]
    origin = first
    for each in arenas:
        regions += _told_waits(each.symbol, each.region.prices.reading, each.region.prices.writing)
        regions.append(f"    {each.symbol} (rw) : ORIGIN = {origin:#x}, LENGTH = {each.bytes}")
        origin += -(-each.bytes // GAP) * GAP + GAP
    lines = [
        "/* Arenas are exactly as large as planned: one byte more does not link. */",
        "ENTRY(_start)",
        "MEMORY",
        "{",
        *regions,
        f"    OTHERS (rw) : ORIGIN = {others:#x}, LENGTH = {OTHERS}",
        "}",
        "SECTIONS",
        "{",
        "    .text : { KEEP(*(.start)) *(.text*) *(.rodata*) *(.srodata*) } > FLASH",
        *(f"    .{each.name} (NOLOAD) : {{ *({each.section}) }} > {each.symbol}" for each in arenas),
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


def _told_waits(symbol: str, reading: float, writing: float) -> list[str]:
    """Return the line that tells the emulated bus what the core waits for data in a region, if it does."""
    if not (round(reading) or round(writing)):
        return []
    return [f"    /* {symbol} waits {round(reading)} cycles to read, {round(writing)} to write. */"]


def _refuse(problem: Problem, given: Inside) -> str:
    """Refuse machines and numbers that there is no C for; return the type of all maps."""
    network = given.network
    if problem.machine.dram:
        raise InputError("machine.dram", True, "integers of a file are emitted for machines without DRAM")
    kinds = {name: network.tensors[name].type for name in network.inputs}
    kinds |= {each.name: each.type for each in network.operations}
    for name, kind in kinds.items():
        if kind not in ("int8", "int16"):
            raise InputError(f"tensor {name}", kind, "there is no C for other numbers than int8 and int16")
    if len(set(kinds.values())) > 1:
        other = next(name for name, kind in kinds.items() if kind != next(iter(kinds.values())))
        limit = "there is no C for int8 and int16 beside each other; one of both would do"
        raise InputError(f"tensor {other}", kinds[other], limit)
    element = next(iter(kinds.values()), "int8")
    needed = np.dtype(element).itemsize
    if problem.machine.element_bytes != needed:
        limit = f"must be {needed}, as numbers of the file are {element}; --set would do"
        raise InputError("machine.element_bytes", problem.machine.element_bytes, limit)
    for what, borders in (("inputs", given.inputs), ("outputs", given.outputs)):
        if len({border.unsigned for border in borders}) > 1:
            limit = "there is no C for int8 and uint8 beside each other; one of both would do"
            raise InputError(f"network.{what}", [border.name for border in borders], limit)
    return element
