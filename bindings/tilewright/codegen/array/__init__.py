"""A pipeline of layers as programs of the PEs of a processor array, and a machine in C that executes them.

=============  ===============================================================
`words`        records with fixed fields, as bits
`assembly`     the same as text
`parts`        what each PE of a layer computes and holds
`routing`      trees of links from PEs to PEs, and the channels of each link
`streams`      what is sent from PE to PE
`timing`       when what starts, and what buffers hold
`loops`        the words of a loop nest
`pes`          the program of a PE
`generators`   those of address generators
`programs`     all of it
=============  ===============================================================
"""

from __future__ import annotations

import numpy as np

from tilewright.allocation import Plan, Problem
from tilewright.allocation.placement.paths import lines
from tilewright.allocation.placement.snake import snake
from tilewright.allocation.placement.unplaced import floor_of
from tilewright.allocation.plan import Region
from tilewright.allocation.schedule import schedule
from tilewright.allocation.stages import Stage
from tilewright.codegen.array.assembly import text_of
from tilewright.codegen.array.pes import SLOTS
from tilewright.codegen.array.programs import ArrayProgram, array_program, sum_bits_of, timing_of
from tilewright.codegen.array.timing import Timing
from tilewright.codegen.array.words import FIELDS, KINDS, PLACES, TAILS, encode
from tilewright.codegen.c_text import quote, safe_text
from tilewright.codegen.numbers.c_integers import c_integer, pack_elements
from tilewright.codegen.numbers.element_numbers import element_numbers
from tilewright.codegen.numbers.network_numbers import NetworkNumbers, refusal
from tilewright.codegen.numbers.quantised_network import GivenNumbers, QuantisedNetwork
from tilewright.codegen.numbers.trained_numbers import coarse_numbers
from tilewright.codegen.project_files import (
    Files,
    array_literal,
    file_head,
    header_file,
    project_files,
    title_of,
)
from tilewright.spec.coarsening import coarse_graph
from tilewright.spec.errors import InputError
from tilewright.spec.network import OWN_INPUT, Add, Map

RUNTIME = ("array.h", "array.c", "load.c", "main.c", "process.h", "program.h", "program.c")
"""Sources that are the same for every network."""

WORD_BITS = (8, 16)
"""Bits of values that there is a program for."""

IMAGES = 4
"""How many images are made, at most; further frames begin again with the first one."""

MOST_HOP_CYCLES = 255
"""Cycles of a hop, at most."""

SHIFTS = (-20, 32)
"""By which powers of two PEs divide, at least and at most."""

MOST_SUM_BITS = 60
"""Bits of accumulators, at most."""

MOST_FRAMES = 64
"""How many frames are executed, at most."""


def array_project(
    problem: Problem,
    plan: Plan,
    seed: int,
    name: str,
    source: str,
    given: GivenNumbers | None = None,
    hop_cycles: int = 0,
) -> Files:
    """Return the files of a project that executes a plan PE by PE, by their paths.

    Parameters
    ----------
    given
        Its numbers, quantised or in floating point, and inputs; made from the seed when left out.
    hop_cycles
        Cycles of a hop from PE to PE; layers start later by them.

    Raises
    ------
    InputError
        For a front, for values of other bits than `WORD_BITS`, for a layer that PEs have no operation for;
        for buffers that are too small for copies of weights and for hops; for numbers of another network.
    """
    if plan.front:
        limit = "programs are written for one plan, not for a front"
        raise InputError("objective.minimise", problem.minimise, limit)
    if problem.machine.word_bits not in WORD_BITS:
        limit = f"programs are written for words of {' or '.join(map(str, WORD_BITS))} bits"
        raise InputError("machine.word_bits", problem.machine.word_bits, limit)
    if not 0 <= hop_cycles <= MOST_HOP_CYCLES:
        raise InputError("hop_cycles", hop_cycles, f"must be from 0 to {MOST_HOP_CYCLES}")
    timing = timing_of(schedule(problem, plan), regions_of(problem, plan), hop_cycles)
    _refuse_small_buffers(timing)
    frames = frames_of(timing)
    numbers = numbers_of(problem, seed, given, min(frames, IMAGES))
    _refuse_reshaped(problem, timing, numbers)
    return _Project(array_program(timing, numbers, frames), numbers, name, source).files()


def program_of(problem: Problem, plan: Plan, numbers: NetworkNumbers) -> ArrayProgram:
    """Return the program of a plan; one without regions is placed first."""
    timing = timing_of(schedule(problem, plan), regions_of(problem, plan))
    return array_program(timing, numbers, frames_of(timing))


def frames_of(times: Timing) -> int:
    """Return how many frames are executed: those that overlap, and one more."""
    return min(MOST_FRAMES, max(2, -(-times.latency // times.interval) + 1))


def regions_of(problem: Problem, plan: Plan) -> tuple[Region, ...]:
    """Return where the PEs of each layer lie; layers that take turns begin with the first PE."""
    if plan.regions:
        return plan.regions
    if problem.parallel:
        return snake(floor_of(problem, plan))
    path = lines(*problem.machine.array)
    return tuple(tuple(path[: split.pes]) for split in plan.splits)


def numbers_of(
    problem: Problem, seed: int = 0, given: GivenNumbers | None = None, images: int = IMAGES
) -> NetworkNumbers:
    """Return the numbers of the layers on the array, with what leaves it as outputs.

    Raises
    ------
    InputError
        For a layer that PEs have no operation for.
    """
    stages = problem.stages
    on_array = {stage.name for stage in stages}
    graph = coarse_graph(problem.network)
    others = [op for op in graph.ops if op.name not in on_array]
    size, outputs = problem.machine.word_bits // 8, [stage.name for stage in stages if stage.leaves]
    if isinstance(given, QuantisedNetwork):
        if any(access.channels for op in graph.ops for access in op.accesses):
            raise InputError("network", problem.network.name, "some channels of a map are read alone")
        found = element_numbers(problem.network, graph, size, given.first(images), on_array, outputs)
        _refuse_wide_numbers(problem, found)
    else:
        if given is not None:  # all of it is held against what is expected of the network
            others = [op for op in others if isinstance(op.spec, Map) and op.spec.op == "softmax"]
        found = coarse_numbers(
            problem.network, graph, size, images, seed, given, [op.name for op in others], outputs
        )
    for stage in stages:
        if found.operations[stage.name].kind not in SLOTS or (isinstance(stage.spec, Map) and stage.weights):
            raise _refused(problem, stage, "PEs have no operation for it")
    return found


def _refuse_wide_numbers(problem: Problem, numbers: NetworkNumbers) -> None:
    """Refuse shifts that PEs do not have, and sums that do not fit accumulators."""
    bits = sum_bits_of(numbers)
    for stage in problem.stages:
        operation = numbers.operations[stage.name]
        terms = (1 << max(0, -shift) for shift, _ in operation.reads)
        largest = operation.divisor * sum(terms) << (problem.machine.word_bits - 1)
        if bits > MOST_SUM_BITS or (operation.kind != "CONV" and largest >= 1 << (bits - 1)):
            wide = f"its sums do not fit accumulators of {min(bits, MOST_SUM_BITS)} bits"
            raise _refused(problem, stage, wide)
        shifts = [operation.shift, *(shift for shift, _ in operation.reads)]
        if not (SHIFTS[0] <= min(shifts) and max(shifts) <= SHIFTS[1]):
            reason = f"shifts by {min(shifts)} to {max(shifts)} bits; PEs shift by {SHIFTS[0]} to {SHIFTS[1]}"
            raise _refused(problem, stage, reason)


def _refused(problem: Problem, stage: Stage, reason: str) -> InputError:
    layer = next(each for each in problem.network.layers if each.name == stage.name)
    return refusal(problem.network, layer, reason)


def _refuse_small_buffers(timing: Timing) -> None:
    """Refuse buffers that are too small for what the plan does not count: copies of weights, and hops."""
    schedule = timing.schedule
    problem, capacity = schedule.problem, schedule.problem.machine.buffer_words
    weights = schedule.program_weights
    needed = weights + sum(timing.buffers)
    if problem.parallel and capacity is not None and needed > capacity:
        told = [f"with hops of {timing.hop_cycles} cycles"] if timing.hop_cycles else []
        told += ["with the weights of each group of rows"] if weights > schedule.weights else []
        limit = f"{' and '.join(told)} {problem.machine.bytes(needed)} bytes are needed"
        if not timing.hop_cycles:
            limit += f"; --where 'program_words <= {capacity}' asks for a plan whose programs fit"
        raise InputError("machine.buffer_bytes", problem.machine.buffer_bytes, limit)


def _refuse_reshaped(problem: Problem, timing: Timing, numbers: NetworkNumbers) -> None:
    """Refuse what reads values in another shape than they were computed in."""
    given = numbers.maps[OWN_INPUT].shape[1:]
    for work in timing.streams.works:
        spec = work.stage.spec
        shapes = [
            problem.stages[each.producer].spec.output if each.producer >= 0 else given
            for each in work.operands
        ]
        channels = sum(each.channels for each in work.operands)
        channels //= len(work.operands) if isinstance(spec, Add) else 1
        if channels != spec.input[0] or any(shape[1:] != spec.input[1:] for shape in shapes):
            limit = "reads values in another shape than they are computed in; there is no program for it"
            raise _refused(problem, work.stage, limit)


class _Project:
    def __init__(self, program: ArrayProgram, numbers: NetworkNumbers, name: str, source: str) -> None:
        self._program, self._timing, self._numbers = program, program.timing, numbers
        self._problem, self._title, self._source = program.timing.schedule.problem, name, source
        self._frames = frames_of(self._timing)

    def files(self) -> Files:
        """Return all files."""
        numbers, made, bits = self._numbers, self._program, self._problem.machine.word_bits
        parameters = np.concatenate(made.parameters)
        return project_files(
            {"array": RUNTIME, "project": ("expected.h", "numbers.h")},
            {"words.h": words_header(), "plan.h": self._plan_header(len(parameters))},
            {
                "title": title_of(self._title),
                "frames": self._frames,
                "channels": max(self._program.channels.values(), default=0),
                "inputs": self._listed(numbers.inputs),
                "outputs": self._listed(numbers.outputs),
                "origin": safe_text(numbers.origin),
            },
            {
                "input.bin": pack_elements(numbers.maps[OWN_INPUT], bits),
                "parameters.bin": pack_elements(parameters, bits),
                "program.bin": encode(made.records),
                "program.tcpa": text_of(made.records).encode("ascii"),
                **numbers.reference_data(
                    bits, lambda maps: np.concatenate([maps[name].ravel() for name in numbers.outputs])
                ),
            },
        )

    def _plan_header(self, parameters: int) -> str:
        times, stages, numbers = self._timing, self._problem.stages, self._numbers
        plan = times if times.hop_cycles else times.schedule
        sizes = [numbers.maps[name][0].size for name in numbers.outputs]
        # Layer by layer what nobody reads any more is released before the layer is done.
        filled = self._problem.parallel and -(-times.latency // times.interval) < self._frames
        values = {
            "IMAGES": numbers.images,
            "FRAMES": self._frames,
            "INPUTS": numbers.maps[OWN_INPUT][0].size,
            "PARAMETERS": parameters,
            "OUTPUTS": len(sizes),
            "LAYERS": len(stages),
            "LATENCY": plan.latency,
            "INTERVAL": plan.interval,
            "CHANNELS": max(self._program.channels.values(), default=0),
            "LEAST_HOPS": times.streams.least_hops,
            "MOST_CYCLES": 2 * (times.latency + (self._frames + 1) * times.interval),
            "FILLED": int(filled),
        }
        # Each group of rows has all weights; the plan counts them once.
        weights = [
            work.stage.weights * min(work.split.rows, work.stage.task.rows) for work in times.streams.works
        ]
        operations = [stage.task.operations * self._frames for stage in stages]
        rows = zip(plan.starts, plan.buffers, weights, operations, strict=True)
        return header_file(
            "plan",
            file_head(self._title, self._source, "The numbers of the plan. The array does not read them."),
            [
                "#include <stdint.h>",
                "",
                f"typedef {c_integer(self._problem.machine.word_bits)} element_t;",
                "",
                *(f"#define {name} {value}LL" if name == "MOST_CYCLES" else f"#define {name} {value}"
                  for name, value in values.items()),
                "",
                f"static const int64_t output_sizes[] = {array_literal(sizes)};",
                "",
                "typedef struct {",
                "    int64_t start, buffer, weights, operations; /* of all frames */",
                "} planned_t;",
                "",
                "static const planned_t planned[] = {",
                *(f"    {array_literal(row)}," for row in rows),
                "};",
            ],
        )  # fmt: skip

    def _listed(self, names: tuple[str, ...]) -> str:
        """Return tensors with their shapes."""
        shapes = ("x".join(map(str, self._numbers.maps[name].shape[1:])) for name in names)
        return ", ".join(f"{safe_text(name)} ({shape})" for name, shape in zip(names, shapes, strict=True))


def words_header() -> str:
    """Return `words.h`: the fields of all records."""
    lines = [
        "#include <stdint.h>", "",
        "typedef struct {", "    const char *name;", "    int word, shift, bits;", "    int64_t least, most;",
        "} field_t;", "",
        "/* Bits of an element of a record's tail; 0 where it has none. */",
        "typedef struct {", "    const char *name;", "    const field_t *fields;",
        "    int count, words, tail_bits;", "} form_t;", "",
        f"enum {array_literal(kind.upper() for kind in (*KINDS, 'kinds'))};",
        f"enum {{MOST_FIELDS = {max(map(len, FIELDS.values()))}, "
        f"MOST_WORDS = {max(size for _, size in PLACES.values())}}};", "",
        "extern const form_t forms[KINDS];", "",
    ]  # fmt: skip
    for kind, fields in FIELDS.items():
        lines.append(f"enum {array_literal(f'{kind}_{field.name}'.upper() for field in fields)};")
    lines += ["", "#ifdef FORMS"]
    for kind, fields in FIELDS.items():
        lines.append(f"static const field_t {kind}_fields[] = {{")
        for field, place in zip(fields, PLACES[kind][0], strict=True):
            least, most = field.range
            values = quote(field.name), *place, field.bits, least, most
            lines.append(f"    {array_literal(values)},")
        lines.append("};")
    lines.append("const form_t forms[KINDS] = {")
    for kind, fields in FIELDS.items():
        form = quote(kind), f"{kind}_fields", len(fields), PLACES[kind][1], TAILS.get(kind, 0)
        lines.append(f"    {array_literal(form)},")
    return header_file("words", ["The fields of the records of a program."], [*lines, "};", "#endif"])


__all__ = ["array_project", "frames_of", "numbers_of", "program_of", "regions_of", "words_header"]
