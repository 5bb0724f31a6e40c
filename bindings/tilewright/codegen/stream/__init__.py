"""A network in fused groups as a C project: instructions of engines, in the order in which they begin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.codegen.c_text import identifier, safe_text
from tilewright.codegen.numbers.c_integers import c_integer, c_sum_bits, pack_elements
from tilewright.codegen.numbers.element_numbers import element_numbers
from tilewright.codegen.numbers.made_numbers import NARROW
from tilewright.codegen.numbers.network_numbers import NetworkNumbers, refusal, refuse_late_bias
from tilewright.codegen.numbers.quantised_network import GivenNumbers, QuantisedNetwork
from tilewright.codegen.numbers.trained_numbers import coarse_numbers
from tilewright.codegen.project_files import (
    Files,
    comment,
    file_head,
    machine_header,
    project_files,
    title_of,
)
from tilewright.codegen.stream.groups import GroupText, Tables, host_tables, planned_tables
from tilewright.fusion import Plan, Problem
from tilewright.fusion.graph import engine_of
from tilewright.fusion.machine import BUFFERS, HOST
from tilewright.simulator.arithmetic.fixed_point import Format, Integers
from tilewright.spec.errors import InputError
from tilewright.spec.graph import Operation
from tilewright.spec.network import OWN_INPUT, Map

RUNTIME = ("engine.h", "engine.c", "network.h", "main.c")
"""Sources that are the same for every network."""


def stream_project(
    problem: Problem, plan: Plan, seed: int, name: str, source: str, given: GivenNumbers | None = None
) -> Files:
    """Return the files of a project that computes a network in groups as planned, by their paths.

    Parameters
    ----------
    given
        Its numbers, quantised or in floating point, and images to run it on; made from the seed by default.

    Raises
    ------
    InputError
        For an operation that there is no C for, and for elements that are too wide; for numbers of another
        network, that elements do not hold, or with fewer images than the machine computes at a time.
    """
    size = problem.machine.element_bytes
    if size > NARROW:
        limit = f"C is emitted for elements of at most {NARROW} bytes"
        raise InputError("machine.element_bytes", size, limit)
    return _Project(problem, numbers_of(problem, seed, given), plan, name, source).files()


def numbers_of(problem: Problem, seed: int = 0, given: GivenNumbers | None = None) -> NetworkNumbers:
    """Return the numbers of a project."""
    if isinstance(given, QuantisedNetwork):
        return _quantised_numbers(problem, given)
    skipped = [op.name for op in problem.ops if left_out(problem, op)]
    machine = problem.machine
    return coarse_numbers(
        problem.network, problem.graph, machine.element_bytes, machine.arrays, seed, given, skipped
    )


def _quantised_numbers(problem: Problem, given: QuantisedNetwork) -> NetworkNumbers:
    """Return the numbers of a quantised network, for as many images as there are full batches of."""
    machine = problem.machine
    for op in problem.ops:
        if any(access.channels for access in op.accesses):
            limit = "reads some channels of a map alone; there is no C for it"
            raise refusal(problem.network, op.spec, limit)
    images = len(given.images) // machine.arrays * machine.arrays
    if not images:
        limit = f"the machine computes so many images at a time; {given.origin} has {len(given.images)}"
        raise InputError("machine.arrays", machine.arrays, limit)
    return element_numbers(problem.network, problem.graph, machine.element_bytes, given.first(images))


def left_out(problem: Problem, op: Operation) -> bool:
    """Return whether an operation is left out: a softmax whose output is the network's."""
    is_softmax = isinstance(op.spec, Map) and op.spec.op == "softmax"
    return engine_of(op) == HOST and is_softmax and not problem.consumers[op.number]


class _Project:
    def __init__(self, problem: Problem, numbers: NetworkNumbers, plan: Plan, name: str, source: str) -> None:
        self._problem, self._numbers, self._title, self._source = problem, numbers, name, source
        self._machine = problem.machine
        self._groups = self._tables(plan)
        parameters = [each.parameters for each in numbers.operations.values()]
        begins = dict(zip(numbers.operations, _begins(parameters), strict=True))
        self._parameters = np.concatenate(parameters)
        self._shapes = {OWN_INPUT: problem.graph.own_input} | {op.name: op.spec.output for op in problem.ops}
        self._tensors, self._arrays = self._named()
        self._texts = [
            GroupText(f"group{number}", tables, numbers, self._tensors, self._shapes, begins)
            for number, tables in enumerate(self._groups, 1)
        ]
        split = frozenset().union(*(tables.split for tables in self._groups))
        for op in (op for op in problem.ops if op.name in split):
            bits = 8 * self._machine.element_bytes
            refuse_late_bias(problem.network, op.spec, numbers.operations[op.name], bits)

    def _tables(self, plan: Plan) -> list[Tables]:
        """Return the tables of all groups but what is left out."""
        ops = {op.name: op for op in self._problem.ops}
        found = []
        for group in plan.groups:
            if group.tile is not None:
                found.append(planned_tables(self._problem, group))
                continue
            (op,) = (ops[name] for name in group.nodes)
            if op.name in self._numbers.operations:
                found.append(host_tables(self._problem, op))
        return found

    def _named(self) -> tuple[dict[str, str], list[str]]:
        """Return what C calls all tensors in external memory, and arrays for those that stay there."""
        tensors: dict[str, str] = {}
        for array, names in (
            ("network_input", self._numbers.inputs),
            ("network_output", self._numbers.outputs),
        ):
            begins = accumulate(map(self._elements_of, names), initial=0)
            tensors |= {name: f"{array} + {at}" for name, at in zip(names, begins, strict=False)}
        arrays: list[str] = []
        taken: set[str] = set()
        for tables in self._groups:
            for name in (each for placed in tables.maps for each in placed.tensors):
                if name not in tensors:
                    tensors[name] = identifier(name, taken)
                    taken.add(tensors[name])
                    arrays.append(f"static element_t {tensors[name]}[{self._elements_of(name)}];")
        return tensors, arrays

    def _elements_of(self, name: str) -> int:
        """Return how many elements a tensor has for the images that are computed at a time."""
        return self._machine.arrays * prod(self._shapes[name])

    def _in_batches(self, names: Sequence[str], maps: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        """Return the values of some tensors, batch by batch of images, tensor by tensor."""
        arrays = self._machine.arrays
        batches = range(0, self._numbers.images, arrays)
        return np.concatenate([maps[name][at : at + arrays].ravel() for at in batches for name in names])

    # Files ----------------------------------------------------------------------------------------------

    def files(self) -> Files:
        """Return all files."""
        numbers = self._numbers
        images = numbers.images
        told = "an image" if images == 1 else f"{images} images"
        if numbers.right is not None:
            told += f", of which {numbers.right} are put into the right class"
        return project_files(
            {"stream": RUNTIME, "project": ("data_files.h", "expected.h", "numbers.h")},
            {"machine.h": self._machine_text(), "network.c": self._network()},
            {
                "title": title_of(self._title),
                "images": told,
                "inputs": self._listed(numbers.inputs),
                "outputs": self._listed(numbers.outputs),
                "origin": safe_text(numbers.origin),
            },
            {
                "input.bin": self._elements(self._in_batches(numbers.inputs, numbers.maps)),
                "parameters.bin": self._elements(self._parameters),
                "labels.bin": numbers.labels_data,
                **numbers.reference_data(
                    8 * self._machine.element_bytes, partial(self._in_batches, numbers.outputs)
                ),
            },
        )

    def _elements(self, values: Integers) -> bytes:
        return pack_elements(values, 8 * self._machine.element_bytes)

    def _machine_text(self) -> str:
        machine = self._machine
        least, _ = Format(8 * machine.element_bytes, 0).range
        held = [max(each) for each in zip(*(tables.elements for tables in self._groups), strict=True)]
        told = [
            f"The machine: images at a time: {machine.arrays}; bytes of an element: {machine.element_bytes}."
        ]
        for buffer, elements in zip(BUFFERS, held, strict=True):
            size = elements * machine.element_bytes
            told.append(f"{buffer} buffer: {machine.capacity(buffer):,} bytes, the plan takes {size:,}")
        sizes = {f"{name.upper()}_BUFFER": most for name, most in zip(BUFFERS, held, strict=True)}
        sizes["ACCUMULATORS"] = max(tables.accumulators for tables in self._groups)
        sizes["MOST_PARTS"] = max(
            len(parts) for tables in self._groups for _, parts in tables.operations.values()
        )
        sizes["NETWORK_INPUTS"] = sum(map(self._elements_of, self._numbers.inputs))
        sizes["NETWORK_PARAMETERS"] = self._parameters.size
        sizes["NETWORK_OUTPUTS"] = sum(map(self._elements_of, self._numbers.outputs))
        sums = [each.sum_bits for each in self._numbers.operations.values() if each.kind == "CONV"]
        return machine_header(
            told,
            [
                f"typedef {c_integer(8 * machine.element_bytes)} element_t;",
                f"#define ELEMENT_BITS {8 * machine.element_bytes}",
                f"#define ELEMENT_MIN ({least})",
                "",
                "/* Sums, of which accumulators keep the last bits. */",
                f"typedef u{c_integer(c_sum_bits(sums))} sum_t;",
                "",
                "/* Images that are computed at a time, and how often. */",
                f"#define IMAGES {machine.arrays}",
                f"#define BATCHES {self._numbers.images // machine.arrays}",
                f"#define LABELS {int(self._numbers.labels is not None)} /* whether classes are known */",
                f"#define GROUPS {len(self._groups)}",
                "",
                "/* Elements of the buffers on chip and of the arrays in external memory. */",
                *(f"#define {name} {size}" for name, size in sizes.items()),
                "",
                "/* C has no arrays of none. */",
                "#define SOME(elements) ((elements) ? (elements) : 1)",
            ],
            'ON_CHIP(buffer) __attribute__((section(".on_chip." #buffer)))',
        )

    def _network(self) -> str:
        lines = [
            comment(self._story()),
            '#include "network.h"',
            "",
            "#include <stddef.h>",
            "",
            "element_t network_input[SOME(NETWORK_INPUTS)];",
            "element_t network_parameters[SOME(NETWORK_PARAMETERS)];",
            "element_t network_output[SOME(NETWORK_OUTPUTS)];",
            *self._arrays,
        ]
        for text in self._texts:
            lines += ["", *text.tables()]
        lines += [
            "",
            "const group_t groups[GROUPS] = {",
            *(text.description for text in self._texts),
            "};",
            "",
        ]
        return "\n".join(lines)

    def _story(self) -> list[str]:
        alone = [", ".join(tables.nodes) for tables in self._groups if tables.on_host]
        hosted = f"Outside of the plan's figures, on the host: {safe_text(', '.join(alone))}."
        return file_head(self._title, self._source, *([hosted] if alone else []))

    def _listed(self, names: Sequence[str]) -> str:
        """Return tensors with their shapes."""
        shapes = ("x".join(map(str, self._numbers.maps[name].shape[1:])) for name in names)
        return ", ".join(f"{safe_text(name)} ({shape})" for name, shape in zip(names, shapes, strict=True))


def _begins(arrays: Sequence[Integers]) -> list[int]:
    """Return where each array begins if they lie one after the other."""
    return list(accumulate((each.size for each in arrays), initial=0))[:-1]
