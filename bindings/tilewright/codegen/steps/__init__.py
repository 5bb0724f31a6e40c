"""A plan of grouping or offloading as a C project: steps as tables, memories of exactly the planned size."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tilewright import grouping, offloading
from tilewright.codegen.c_text import group_digits
from tilewright.codegen.numbers.c_integers import pack_elements
from tilewright.codegen.numbers.layer_numbers import SUM_BITS, layer_numbers
from tilewright.codegen.project_files import (
    Files,
    array_literal,
    comment,
    file_head,
    header_file,
    project_files,
    title_of,
)
from tilewright.codegen.steps.layer_steps import LayerSteps, steps_of_grouping, steps_of_offloading
from tilewright.codegen.steps.places import Action, Places
from tilewright.offloading.elements import Elements
from tilewright.offloading.plan import Runs
from tilewright.simulator.arithmetic.fixed_point import Integers

__all__ = ["steps_project"]

RUNTIME = ("engine.h", "engine.c", "main.c", "steps.h")
"""Sources that are the same for every layer."""


def steps_project(
    problem: grouping.Problem | offloading.Problem,
    plan: grouping.Plan | offloading.Plan,
    seed: int,
    name: str,
    source: str,
) -> Files:
    """Return the files of a project that computes a layer in the steps of a valid plan, by their paths.

    Raises
    ------
    InputError
        For more of them than a table in C holds.
    """
    made = layer_numbers(problem.layer, seed)
    if isinstance(problem, grouping.Problem):
        assert isinstance(plan, grouping.Plan)
        steps = steps_of_grouping(problem, plan)
        given = steps.inputs_in_order(made.values)
    else:
        assert isinstance(plan, offloading.Plan)
        steps = steps_of_offloading(problem, plan)
        given = _matrix(problem, made.values) if steps.matrix else steps.inputs_in_order(made.values)
    places = Places(steps)
    actions = list(places.actions())
    memories = "one memory" if steps.memories == 1 else f"{steps.memories} memories"
    return project_files(
        {"steps": RUNTIME},
        {
            "layer.h": _layer_text(steps, places, name, source),
            "steps.c": _steps_text(steps, actions, name),
        },
        {
            "title": title_of(name),
            "steps": len(steps.steps),
            "memories": memories,
            "memory": group_digits(places.memory_elements),
        },
        {
            "input.bin": pack_elements(given, SUM_BITS),
            "kernels.bin": pack_elements(made.kernels, SUM_BITS),
            "reference.bin": pack_elements(steps.outputs_in_order(made.outputs), SUM_BITS),
        },
    )


def _matrix(problem: offloading.Problem, values: Integers) -> Integers:
    """Return the matrix of im2col, row by row."""
    direct = Elements.of(problem.layer, "direct", "loaded")
    top, bottom, left, right = problem.layer.padding
    padded = np.pad(values, ((0, 0), (0, 0), (top, bottom), (left, right))).reshape(-1)
    found: Integers = padded[direct.inputs.reshape(-1)]
    return found


def _layer_text(steps: LayerSteps, places: Places, name: str, source: str) -> str:
    """Return `layer.h`."""
    layer, planned = steps.layer, steps.planned
    inputs, kernels, outputs = steps.sizes
    told = {
        "Sizes; patches are positions of the output, channels of a matrix those of a patch in a map.": {
            "IMAGES": layer.batch,
            "HEIGHT": layer.input[1],
            "WIDTH": layer.input[2],
            "TOP": layer.padding[0],
            "LEFT": layer.padding[2],
            "PLANE_COLUMNS": layer.padded_plane[1],
            "COLUMNS": layer.output_plane[1],
            "MATRIX": int(steps.matrix),
            "CHANNELS": layer.macs_per_output if steps.matrix else layer.input[0] // layer.groups,
            "GROUPS": layer.groups,
            "KERNELS_OF_ALL": layer.kernels,
            "KERNEL_ROWS": layer.kernel[0],
            "KERNEL_COLUMNS": layer.kernel[1],
            "STRIDE_ROWS": layer.stride[0],
            "STRIDE_COLUMNS": layer.stride[1],
            "DILATION_ROWS": layer.dilation[0],
            "DILATION_COLUMNS": layer.dilation[1],
            "GENERATED": int(steps.generated),
        },
        "From the number of an element to that of the next one.": {
            "PIXEL_STEP": steps.pixel,
            "CHANNEL_STEP": steps.channel,
            "IMAGE_STEP": steps.image,
            "OUTPUT_PATCH_STEP": steps.patch,
            "OUTPUT_KERNEL_STEP": steps.kernel,
            "OUTPUT_IMAGE_STEP": steps.output_image,
        },
        "Elements; those of the input with its padding.": {
            "INPUT_ELEMENTS": inputs,
            "KERNEL_ELEMENTS": kernels,
            "OUTPUT_ELEMENTS": outputs,
            "MEMORIES": steps.memories,
            "MEMORY_ELEMENTS": places.memory_elements,
        },
        "What the plan moves, and its steps.": {
            "LOADED_INPUT": planned.inputs,
            "LOADED_KERNELS": planned.kernels,
            "LOADED_SUMS": planned.sums,
            "WRITTEN": planned.written,
            "MOST_HELD": places.most_held,
            "STEPS": len(steps.steps),
        },
    }
    lines = [
        "#include <stdint.h>",
        "",
        f"typedef int{SUM_BITS}_t element_t;",
    ]
    for about, values in told.items():
        lines += ["", f"/* {about} */", *_defined(values)]
    lines += ["", "/* Where the memory on chip is. */", "#ifndef ON_CHIP"]
    lines += ['#define ON_CHIP __attribute__((section(".on_chip")))', "#endif"]
    return header_file("layer", file_head(name, source), lines)


def _defined(values: Mapping[str, int]) -> list[str]:
    return [f"#define {name} {value}" for name, value in values.items()]


def _steps_text(steps: LayerSteps, actions: list[list[Action]], name: str) -> str:
    """Return `steps.c`, the tables of all steps."""
    ranges: dict[Runs, int] = {}
    pairs: list[tuple[int, int]] = []

    def place(found: Runs) -> str:
        """Return the C of ranges, each list of which is written once."""
        if found not in ranges:
            ranges[found] = len(pairs)
            pairs.extend(found)
        return f"{{{len(found)}, &ranges[{ranges[found]}]}}"

    blocks = [
        array_literal((memory, place(block.patches), place(block.kernels), place(block.channels)))
        for step in steps.steps
        for memory, block in step.blocks
    ]
    ends = [(0, 0)]
    for step, found in zip(steps.all, actions, strict=True):
        ends.append((ends[-1][0] + len(found), ends[-1][1] + len(step.blocks)))
    rows = []
    for number, found in enumerate(actions):
        told = "beforehand" if not number else "the end" if number > len(steps.steps) else f"step {number}"
        rows += [f"    /* {told} */", *(f"    {array_literal(action)}," for action in found)]
    head = [
        "What happens step by step. Places on chip are decided when this file is written: "
        + (
            "what comes takes the lowest addresses that are free, element by element, and keeps them until "
            "it leaves."
            if steps.addresses is None
            else "they are those of the plan."
        ),
    ]
    return "\n".join(
        [
            comment([*file_head(name, ""), *head]),
            '#include "steps.h"',
            "",
            "/* Patches, kernels and channels of blocks. */",
            "static const range_t ranges[] = {",
            *(f"    {array_literal(pair)}," for pair in pairs),
            "};",
            "",
            "const block_t blocks[] = {",
            *(f"    {block}," for block in blocks),
            "};",
            "",
            "/* Kind, memory, first element, how many, address. */",
            "const action_t actions[] = {",
            *rows,
            "};",
            "",
            "const step_t steps[STEPS + 3] = {",
            *(f"    {array_literal(end)}," for end in ends),
            "};",
            "",
        ]
    )
