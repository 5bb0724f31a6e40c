"""Printers: a plan as a program in another language."""

from __future__ import annotations

from typing import Any

from tilewright import allocation, bitwidth, fusion, grouping, offloading, residency
from tilewright.codegen.addressed import addressed_project
from tilewright.codegen.addressed import images_of as residency_images
from tilewright.codegen.addressed import is_in_floats as residency_in_floats
from tilewright.codegen.array import IMAGES as ARRAY_IMAGES
from tilewright.codegen.array import array_project
from tilewright.codegen.c_text import identifier
from tilewright.codegen.cores import cores_project
from tilewright.codegen.halide import pipelines
from tilewright.codegen.loop_nest.file import emit_layer, emit_network
from tilewright.codegen.loop_nest.layer import PlannedLayer
from tilewright.codegen.loop_nest.memory import CMemory
from tilewright.codegen.microcontroller import microcontroller_project
from tilewright.codegen.numbers.float_network import FloatNetwork
from tilewright.codegen.numbers.quantised_network import IMAGES, GivenNumbers, QuantisedNetwork
from tilewright.codegen.numbers.trained_network import TrainedNetwork, refuse_another
from tilewright.codegen.offsets import offsets_header as offsets
from tilewright.codegen.project import network_project
from tilewright.codegen.steps import steps_project
from tilewright.codegen.stream import stream_project
from tilewright.core.room import room_of
from tilewright.simulator.arithmetic.network_executor import refuse_quantised, refuse_unknown
from tilewright.simulator.arithmetic.quantised import ExactNetwork
from tilewright.spec.errors import InputError
from tilewright.spec.network import Network
from tilewright.tiling import Problem, violation
from tilewright.tiling.dsp.nest import K, nest_of
from tilewright.tiling.dsp.plan import REUSES, DspPlan
from tilewright.tiling.npu.plan import NpuPlan
from tilewright.tiling.problem import Part

__all__ = [
    "EMITTED",
    "CMemory",
    "ExactNetwork",
    "FloatNetwork",
    "QuantisedNetwork",
    "TrainedNetwork",
    "emit",
    "halide",
    "images_of",
    "instructions",
    "is_in_floats",
    "memory",
    "numbers",
    "offsets",
    "project",
]

IN_STEPS = grouping.Problem | offloading.Problem
"""Problems of one layer, whose projects have numbers made from a seed."""

NUMBERED = allocation.Problem | fusion.Problem | residency.Problem | IN_STEPS
"""Problems whose projects have numbers of their own, made from a seed or trained."""

EMITTED = ("none", "tile", "halo")
"""Kinds of reuse that there is a loop nest for."""


def emit(name: str, source: str, problem: Any, plan: Any) -> str:
    """Return the loop nests of a plan as a C file, each layer's of a network, equal ones once.

    Operations between layers are not written; the comment at the top names them.

    Raises
    ------
    InputError
        Where there is no single loop nest to write: in another room than tiling, on an NPU, for a front, for
        a plan that is not valid, for transfers with a step.
    """
    layers = _checked(problem, plan)
    if problem.network is None:
        return emit_layer(problem, layers[0], name, source)
    named = zip(_layers(problem), layers, strict=True)
    between = [label for label, part in problem.parts if part.operation is not None]
    if between:
        source = f"{source}; without the operations {', '.join(between)}".removeprefix("; ")
    return emit_network([(label, part, layer) for (label, part), layer in named], name, source)


def numbers(name: str, problem: Any, plan: Any) -> QuantisedNetwork:
    """Return the numbers of a plan of bit widths, for `project`.

    Raises
    ------
    InputError
        Where the problem is of another room, or has no weights and samples.
    """
    if not isinstance(problem, bitwidth.Problem):
        limit = "numbers are those of an instance of room bitwidth"
        raise InputError("room", room_of(problem).name, limit)
    return QuantisedNetwork.of_plan(problem, plan, name)


def project(
    name: str,
    source: str,
    problem: Any,
    plan: Any,
    given: GivenNumbers | FloatNetwork | ExactNetwork | None = None,
    seed: int = 0,
    hop_cycles: int = 0,
    *,
    floats: bool = False,
) -> dict[str, bytes]:
    """Return the files of a C project that computes a network, or a layer, as planned, by their paths.

    Parameters
    ----------
    given
        Weights, formats and images, of the same network, or weights and inputs in floating point; made from
        the seed when left out.
    hop_cycles
        Cycles of a hop from PE to PE, for plans of allocation.
    floats
        Whether a network is computed in floating point where integers could do; for plans of residency.

    Raises
    ------
    InputError
        Where there is nothing to write: in bitwidth, addresses and scheduling, for tiling on a hierarchy, for
        a front, for a plan that is not valid; for numbers of another network, or that are wider than the
        machine's elements; for layers, and steps of residency and offloading, that there is no C for.
    """
    without_dram = isinstance(problem, residency.Problem) and not problem.machine.dram
    if isinstance(given, ExactNetwork) or without_dram:
        return _in_flash(name, source, problem, plan, given, seed)
    if given is not None and isinstance(problem, residency.Problem) and problem.batch > 1:
        raise InputError("batch", problem.batch, f"{given.origin}: programs compute one image at a time")
    if isinstance(given, FloatNetwork):
        if not isinstance(problem, residency.Problem):
            raise InputError("numbers", given.origin, "in floating point are those of plans of residency")
        return _numbered(name, source, problem, plan, given, seed, floats=floats)
    if floats and not isinstance(problem, residency.Problem):
        raise InputError("floats", floats, "is for plans of residency")
    if isinstance(problem, allocation.Problem):
        return _programs(name, source, problem, plan, given, seed, hop_cycles)
    if hop_cycles:
        raise InputError("hop_cycles", hop_cycles, "is for plans of allocation")
    if isinstance(problem, NUMBERED):
        return _numbered(name, source, problem, plan, given, seed, floats=floats)
    npu = isinstance(problem, Problem) and problem.machine.kind == "npu"
    if npu:
        _refuse_front(problem, plan)
    else:
        _checked(problem, plan, REUSES)
    problem = _as_network(problem)
    assert problem.network is not None
    refuse_quantised(problem.network)
    outputs = [problem.network.layers[place].name for place in problem.network.results]
    if len(outputs) > 1:
        raise InputError("network.outputs", outputs, "this C project is for networks of one output")
    if given is None:
        refuse_unknown(problem.network)
        given = QuantisedNetwork.made(problem.network, problem.machine.operand_bits, seed)
    elif isinstance(given, TrainedNetwork):
        given = QuantisedNetwork.of_trained(given, problem.machine.operand_bits, _leaving(problem, plan))
    refuse_another(given.network.network, problem.network, given.origin)
    if npu:
        return cores_project(problem, plan.layers, given, name, source)
    return network_project(problem, plan.layers, given, name, source)


def _as_network(problem: Problem) -> Problem:
    """Return the problem of a layer as one of a network that has no other."""
    if problem.network is not None:
        return problem
    table = {"name": "layer", **problem.one_layer.model_dump()}
    network = Network.model_validate({"layers": [table]})
    return Problem(network=network, machine=problem.machine)  # limits and constraints are checked before


def instructions(
    name: str, problem: Any, plan: Any, given: GivenNumbers | None = None, seed: int = 0
) -> dict[str, bytes]:
    """Return a plan of fusion as a program of instructions in binary words: its files, by their names.

    Parameters
    ----------
    given
        Weights and inputs, quantised or in floating point; made from the seed when left out.

    Raises
    ------
    InputError
        In another room than fusion, for a plan that is not valid, for what there is no instruction for.
    """
    room = room_of(problem)
    if not isinstance(problem, fusion.Problem):
        raise InputError("room", room.name, "instructions are emitted for plans of room fusion")
    broken = room.violation(problem, plan)
    if broken is not None:
        raise InputError("plan", room.name, f"is not valid: {broken}")
    from tilewright.codegen.isa import program_files  # for start-up time

    return program_files(problem, plan, seed, name, given)


def _leaving(problem: Problem, plan: Any) -> set[str]:
    """Return the names of the layers whose sums are stored before they are complete."""
    planned = zip(problem.parts, plan.layers, strict=True)
    return {part.name for part, layer in planned if _sums_leave(part.problem, layer)}


def _sums_leave(part: Problem, plan: Any) -> bool:
    if isinstance(plan, NpuPlan):  # a core adds one input map after the other
        return part.one_layer.input[0] > part.one_layer.groups
    if not isinstance(plan, DspPlan):
        return False
    return nest_of(part.one_layer, part.machine).trips(plan.tile)[K] > 1


def _programs(
    name: str,
    source: str,
    problem: allocation.Problem,
    plan: Any,
    given: GivenNumbers | None,
    seed: int,
    hop_cycles: int,
) -> dict[str, bytes]:
    """Return the project of a plan of allocation."""
    if problem.machine.off_chip is not None:
        limit = "programs of PEs neither stream weights nor spill maps; leave it out"
        raise InputError("machine.off_chip", problem.machine.off_chip.model_dump(), limit)
    if len(problem.given) > 1:
        names = ", ".join(each.name for each in problem.given[1:])
        limit = f"programs of PEs read nothing from outside of the array but the network's input, not {names}"
        raise InputError("network", problem.network.name, limit)
    broken = allocation.violation(problem, plan)
    if broken is not None:
        raise InputError("plan", "allocation", f"is not valid: {broken}")
    return array_project(problem, plan, seed, name, source, given, hop_cycles)


def _in_flash(name: str, source: str, problem: Any, plan: Any, given: Any, seed: int) -> dict[str, bytes]:
    """Return the project of a plan without DRAM, of a network of integers."""
    if not isinstance(problem, residency.Problem):
        raise InputError("numbers", "int8", "a file's integers are those of plans of residency")
    if not isinstance(given, ExactNetwork):
        limit = "is emitted for micro-controllers from a quantised .tflite or .onnx file alone"
        raise InputError("network", name, limit)
    broken = residency.violation(problem, plan)
    if broken is not None:
        raise InputError("plan", None, f"is not valid: {broken}")
    return microcontroller_project(problem, plan, given, name, source, seed)


def _numbered(
    name: str,
    source: str,
    problem: Any,
    plan: Any,
    given: GivenNumbers | FloatNetwork | None,
    seed: int,
    *,
    floats: bool,
) -> dict[str, bytes]:
    """Return the project of a plan of another room than tiling and allocation."""
    room = room_of(problem)
    broken = room.violation(problem, plan)
    if broken is not None:
        raise InputError("plan", room.name, f"is not valid: {broken}")
    if isinstance(problem, residency.Problem):
        return addressed_project(problem, plan, seed, name, source, given, floats=floats)
    assert not isinstance(given, FloatNetwork)
    if isinstance(problem, IN_STEPS):
        if given is not None:
            raise InputError("room", room.name, "its numbers are made from a seed; none can be given")
        return steps_project(problem, plan, seed, name, source)
    return stream_project(problem, plan, seed, name, source, given)


def images_of(problem: Any) -> int:
    """Return how many images the project of a problem is run on, where none are given."""
    if isinstance(problem, allocation.Problem):
        return ARRAY_IMAGES
    if isinstance(problem, fusion.Problem):
        return problem.machine.arrays
    return residency_images(problem) if isinstance(problem, residency.Problem) else IMAGES


def is_in_floats(problem: Any) -> bool:
    """Whether the project of a problem is in floating point if nothing else is asked for."""
    return isinstance(problem, residency.Problem) and residency_in_floats(problem)


def halide(name: str, source: str, problem: Any, plan: Any) -> str:
    """Return the layers of a plan as Halide pipelines in a Python program, equal layers once.

    Raises
    ------
    InputError
        Where `emit` does.
    """
    checked = _checked(problem, plan)
    labels: dict[tuple[int, DspPlan], list[str]] = {}
    parts: dict[tuple[int, DspPlan], Problem] = {}
    for (label, part), layer in zip(_layers(problem), checked, strict=True):
        labels.setdefault((id(part), layer), []).append(label or name)
        parts[id(part), layer] = part
    planned: list[PlannedLayer] = []
    for key, part in parts.items():
        function = identifier(labels[key][0], [one.name for one in planned])
        planned.append(PlannedLayer(part, key[1], function, labels[key]))
    return pipelines(planned, name, source)


def _layers(problem: Problem) -> list[Part]:
    """Return the parts of a problem that are layers."""
    return [part for part in problem.parts if part.problem.operation is None]


def memory(problem: Any, plan: Any) -> CMemory:
    """Return how many bytes the buffers of the file that `emit` returns take, and how many are planned.

    Raises
    ------
    InputError
        Where `emit` does.
    """
    checked = _checked(problem, plan)
    named = zip(_layers(problem), checked, strict=True)
    distinct = {(id(part), layer): part for (_, part), layer in named}
    return CMemory.of([PlannedLayer(part, layer, "", ()) for (_, layer), part in distinct.items()])


def _checked(problem: Any, plan: Any, reuses: tuple[str, ...] = EMITTED) -> list[DspPlan]:
    """Return the plan of each layer, or say why there is no loop nest to write."""
    if not isinstance(problem, Problem):
        room, limit = room_of(problem).name, "its plans are no loop nests, so there is nothing to emit"
        if isinstance(problem, NUMBERED):
            limit = "its plans are no loop nests; a project can be emitted: -o FOLDER/"
        raise InputError("room", room, limit)
    if problem.machine.kind != "dsp":
        limit = "loop nests are emitted for machines of kind dsp"
        if problem.machine.kind == "npu":
            limit += "; a project can be emitted: -o FOLDER/"
        raise InputError("machine.kind", problem.machine.kind, limit)
    _refuse_front(problem, plan)
    if any(nest_of(part.one_layer, part.machine).skips for _, part in _layers(problem)):
        limit = "the emitted transfers have no step; code is emitted for a layer without gaps between windows"
        raise InputError("machine.dma_step", True, limit)
    layers = [layer for layer in plan.layers if isinstance(layer, DspPlan)]
    for layer in layers:
        if layer.reuse not in reuses:
            limit = f"code is emitted for plans with reuse {', '.join(reuses)}"
            raise InputError("plan.reuse", layer.reuse, limit)
    return layers


def _refuse_front(problem: Problem, plan: Any) -> None:
    """Refuse fronts, and plans that are not valid."""
    if plan.front or problem.minimise == "pareto":
        limit = "a front is no single plan; minimise one of what it trades"
        raise InputError("objective.minimise", "pareto", limit)
    broken = violation(problem, plan)
    if broken is not None:
        raise InputError("plan", problem.machine.kind, f"is not valid: {broken}")
