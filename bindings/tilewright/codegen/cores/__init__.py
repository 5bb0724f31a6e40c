"""A plan of an NPU as a C project: a thread for each core, three memories of the planned size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.codegen.cores.nodes import CoresNode, layer_text, machine_text
from tilewright.codegen.numbers.quantised_network import QuantisedNetwork
from tilewright.codegen.project import RUNTIME, NetworkProject
from tilewright.codegen.project_files import Files, array_literal, join_sources
from tilewright.spec.errors import InputError
from tilewright.tiling import Problem
from tilewright.tiling.npu.machine import NpuMachine
from tilewright.tiling.npu.plan import NpuPlan
from tilewright.tiling.operations.plan import OperationPlan

__all__ = ["cores_project"]

SOURCES = ("dma.h", "dma.c", "layers.h")
"""Sources that are the same for every network on every NPU."""

PIECES = (
    ("cores", "cores_threads.c"),
    ("cores", "cores_layers.c"),
    ("project", "operations_values.c"),
    ("cores", "cores_operations.c"),
)
"""What `layers.c` is made of."""

MOST_CORES = 1024
"""Most threads of a program."""

COUNTS = [
    "/* Tell what each part took, and whether that is not as planned. */",
    "int other_counts(void)",
    "{",
    "    int other = 0;",
    '    printf("of the first %d\\tbytes\\tbursts\\tcycles\\tpicoseconds\\n", BATCH);',
    "    for (int part = 0; part < PARTS; part++) {",
    "        long found[3] = {0, 0, part_cycles[part]};",
    "        for (int kind = 0; kind < KINDS; kind++) {",
    "            found[0] += part_counts[part][kind].bytes;",
    "            found[1] += part_counts[part][kind].bursts;",
    "        }",
    "        if (memcmp(found, part_planned[part], sizeof found)) {",
    "            other = 1;",
    '            printf("%s, planned\\t%ld\\t%ld\\t%ld\\n", part_names[part], part_planned[part][0],',
    "                   part_planned[part][1], part_planned[part][2]);",
    "        }",
    "        if (part_planned[part][0])",
    '            printf("%s\\t%ld\\t%ld\\t%ld\\t%lld\\n", part_names[part], found[0], found[1], found[2],',
    "                   BYTE_PS * found[0] + BURST_PS * found[1] + CYCLE_PS * found[2]);",
    "    }",
    "    return other;",
    "}",
    "",
]
"""What compares counts with the plan's."""


def cores_project(
    problem: Problem,
    plans: Sequence[NpuPlan | OperationPlan],
    quantised: QuantisedNetwork,
    name: str,
    source: str,
) -> Files:
    """Return the files of a project that computes a network on the cores of an NPU as planned.

    Parameters
    ----------
    problem
        A network on a machine of kind ``npu``.
    plans
        Of each of its parts; valid.
    quantised
        Its numbers, and images to run it on.

    Raises
    ------
    InputError
        For a layer that there is no C for; for inputs, weights or sums that do not fit the machine's
        elements; for more cores than a program has threads.
    """
    machine = problem.machine
    assert machine.kind == "npu"
    if machine.tles * machine.tlts > MOST_CORES:
        limit = f"with {machine.tles} TLEs more than {MOST_CORES} cores; each is a thread of the program"
        raise InputError("machine.tlts", machine.tlts, limit)
    return _CoresProject(problem, plans, quantised, name, source).files()


class _CoresProject(NetworkProject[CoresNode]):
    """The project of a network on an NPU."""

    node_type = CoresNode
    works = True

    @property
    def _npu(self) -> NpuMachine:
        assert self.machine.kind == "npu"
        return self.machine

    @property
    def cores(self) -> int:
        """How many compute."""
        return self._npu.tles * self._npu.tlts

    def runtime(self) -> Mapping[str, Sequence[str]]:
        """Return the names of sources that are the same for every network, by folder."""
        return {"cores": SOURCES, "project": RUNTIME}

    def layers_source(self) -> str:
        """Return `layers.c`, with the threads and steps of layers and operations."""
        return join_sources(*PIECES)

    def machine_text(self) -> str:
        """Return `machine.h`."""
        return machine_text(self._npu, self.image, self.nodes)

    def layer_described(self, each: CoresNode) -> list[str]:
        """Return the description of a layer."""
        return layer_text(each)

    def call(self, each: CoresNode, read: str, output: str) -> list[str]:
        """Return the call that computes a layer."""
        kernels, biases = self.places[each.name]
        return [
            f"    run_layer(&{each.identifier}, {read}, weights + {kernels},",
            f"              (const int32_t *)(weights + {biases}), {output});",
        ]

    def declared(self) -> list[str]:
        """Return what tells whether counts are as planned."""
        return ["", "int other_counts(void);", "#define OTHER_COUNTS other_counts"]

    def included(self) -> list[str]:
        """Return what else `network.c` includes."""
        return ["", "#include <stdio.h>"]

    def defined(self) -> list[str]:
        """Return what counts must be, and what compares them."""
        planned = [f"    {array_literal(each.counts)}," for each in self.nodes]
        return [
            "/* Bytes, bursts and cycles of each part, as planned; nothing of what the host does. */",
            "static const long part_planned[PARTS][3] = {",
            *planned,
            "};",
            "",
            "static long part_cycles[PARTS];",
            "",
            *COUNTS,
        ]

    def counted(self) -> list[str]:
        """Return what keeps the cycles of a part."""
        return ["    if (counted)", "        part_cycles[part] = core_cycles;", "    core_cycles = 0;"]
