"""A network in fused groups as a C project: instructions of engines, in the order in which they begin."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from tilewright.codegen.c_text import identifier, safe_text
from tilewright.codegen.numbers.c_integers import c_integer, pack_elements
from tilewright.codegen.numbers.made_numbers import NARROW
from tilewright.codegen.numbers.network_numbers import NetworkNumbers
from tilewright.codegen.numbers.trained_network import TrainedNetwork
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
from tilewright.spec.network import Map

RUNTIME = ("engine.h", "engine.c", "network.h", "main.c")
"""Sources that are the same for every network."""


def stream_project(
    problem: Problem, plan: Plan, seed: int, name: str, source: str, trained: TrainedNetwork | None = None
) -> Files:
    """Return the files of a project that computes a network in groups as planned, by their paths.

    Parameters
    ----------
    trained
        Its numbers and inputs; made from the seed when left out.

    Raises
    ------
    InputError
        For an operation that there is no C for, and for elements that are too wide.
    """
    size = problem.machine.element_bytes
    if size > NARROW:
        limit = f"C is emitted for elements of at most {NARROW} bytes"
        raise InputError("machine.element_bytes", size, limit)
    return _Project(problem, numbers_of(problem, seed, trained), plan, name, source).files()


def numbers_of(problem: Problem, seed: int = 0, trained: TrainedNetwork | None = None) -> NetworkNumbers:
    """Return the numbers of a project."""
    skipped = [op.name for op in problem.ops if left_out(problem, op)]
    machine = problem.machine
    return coarse_numbers(
        problem.network, problem.graph, machine.element_bytes, machine.arrays, seed, trained, skipped
    )


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
        self._inputs = np.concatenate([numbers.maps[each].ravel() for each in numbers.inputs])
        self._outputs = sum(numbers.maps[each].size for each in numbers.outputs)
        self._tensors, self._arrays = self._named()
        self._texts = [
            GroupText(f"group{number}", tables, numbers, self._tensors, begins)
            for number, tables in enumerate(self._groups, 1)
        ]

    def _tables(self, plan: Plan) -> list[Tables]:
        """Return the tables of all groups but what is left out."""
        ops = {op.name: op for op in self._problem.ops}
        found = []
        for group in plan.groups:
            if group.tile is not None:
                found.append(planned_tables(self._problem, group))
                continue
            (op,) = (ops[name] for name in group.nodes)
            if op.producers and not left_out(self._problem, op):
                found.append(host_tables(self._problem, op))
        return found

    def _named(self) -> tuple[dict[str, str], list[str]]:
        """Return what C calls all tensors in external memory, and arrays for those that stay there."""
        maps = self._numbers.maps
        tensors: dict[str, str] = {}
        for array, names in (
            ("network_input", self._numbers.inputs),
            ("network_output", self._numbers.outputs),
        ):
            begins = _begins([maps[name] for name in names])
            tensors |= {name: f"{array} + {at}" for name, at in zip(names, begins, strict=True)}
        arrays: list[str] = []
        taken: set[str] = set()
        for tables in self._groups:
            for name in (each for placed in tables.maps for each in placed.tensors):
                if name not in tensors:
                    tensors[name] = identifier(name, taken)
                    taken.add(tensors[name])
                    arrays.append(f"static element_t {tensors[name]}[{maps[name].size}];")
        return tensors, arrays

    # Files ----------------------------------------------------------------------------------------------

    def files(self) -> Files:
        """Return all files."""
        numbers = self._numbers
        images = self._machine.arrays
        return project_files(
            {"stream": RUNTIME, "project": ("expected.h", "numbers.h")},
            {"machine.h": self._machine_text(), "network.c": self._network()},
            {
                "title": title_of(self._title),
                "images": "an image" if images == 1 else f"{images} images",
                "inputs": self._listed(numbers.inputs),
                "outputs": self._listed(numbers.outputs),
                "origin": safe_text(numbers.origin),
            },
            {
                "input.bin": self._elements(self._inputs),
                "parameters.bin": self._elements(self._parameters),
                **numbers.reference_data(
                    8 * self._machine.element_bytes,
                    lambda maps: np.concatenate([each.ravel() for each in maps.values()]),
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
        sizes["NETWORK_INPUTS"] = self._inputs.size
        sizes["NETWORK_PARAMETERS"] = self._parameters.size
        sizes["NETWORK_OUTPUTS"] = self._outputs
        return machine_header(
            told,
            [
                f"typedef {c_integer(8 * machine.element_bytes)} element_t;",
                f"#define ELEMENT_BITS {8 * machine.element_bytes}",
                f"#define ELEMENT_MIN ({least})",
                "",
                f"#define IMAGES {machine.arrays}",
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
