"""A plan as a C99 file: types, the DMA interface, local memory, and a function for each layer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tilewright.codegen.c_text import block_comment, identifier, origin_lines, safe_text
from tilewright.codegen.loop_nest.layer import PlannedLayer
from tilewright.codegen.loop_nest.loops import function
from tilewright.codegen.loop_nest.memory import CMemory, in_memory
from tilewright.codegen.loop_nest.names import SHORT
from tilewright.codegen.loop_nest.types import CTypes
from tilewright.codegen.loop_nest.vectors import declarations, in_vectors, why_no_vectors
from tilewright.core.version import __version__
from tilewright.spec.layer import Layer
from tilewright.tiling.dsp.machine import DspMachine
from tilewright.tiling.dsp.plan import DspPlan

DMA = """\
/*
 * The DMA controller, yours to link. A transfer moves a box of up to five dimensions, the outermost
 * first: count[d] items, each stride[d] bytes after the one before. The calls return when the data
 * has arrived.
 */
typedef struct {
    size_t element; /* bytes */
    int dimensions;
    struct {
        size_t local, external; /* bytes from an item to the next: on chip, in external memory */
    } stride[5];
} dma_strides;

void dma_get(void *local, const void *external, const dma_strides *strides, const int count[]);
void dma_put(void *external, const void *local, const dma_strides *strides, const int count[]);"""
"""The interface that the user of a file implements."""

MACROS = {
    "MIN": "#define MIN(a, b) ((a) < (b) ? (a) : (b))",
    "MAX": "#define MAX(a, b) ((a) > (b) ? (a) : (b))",
    "complete": """\
/* Sums that are complete become outputs, which are narrower, where they lie. */
static void complete(sum_t *sums, size_t number)
{
    for (size_t i = 0; i < number; i++) {
        const out_t output = (out_t)sums[i];
        memcpy((char *)sums + i * sizeof output, &output, sizeof output);
    }
}""",
}
"""Helpers that a file defines where it uses them."""


def emit_layer(problem: Any, plan: DspPlan, name: str = "", source: str = "") -> str:
    """Return C code that runs a layer as planned.

    Parameters
    ----------
    problem
        One layer on a machine of kind ``dsp``.
    name, source
        Of the instance; the function is named after the former.

    Raises
    ------
    InputError
        If the plan is not valid.
    """
    layer = PlannedLayer(problem, plan, identifier(name), (name,) if name else ())
    title = [f"One layer, tile by tile through local memory, written by tilewright {__version__}."]
    return _file([*title, *origin_lines(source)], [layer])


def emit_network(named_parts: Iterable[tuple[str, Any, DspPlan]], name: str = "", source: str = "") -> str:
    """Return C code with one function for each distinct layer of a network; they share the local memory.

    Parameters
    ----------
    named_parts
        Name, problem and plan of each layer, in order.
    name, source
        Of the instance.

    Raises
    ------
    InputError
        If a plan is not valid.
    """
    problems: dict[tuple[Layer, DspPlan], Any] = {}
    labels: dict[tuple[Layer, DspPlan], list[str]] = {}
    order = []
    for label, problem, plan in named_parts:
        key = (problem.one_layer, plan)
        problems.setdefault(key, problem)
        labels.setdefault(key, []).append(label)
        order.append((key, label))
    functions: dict[tuple[Layer, DspPlan], str] = {}
    for key in problems:
        functions[key] = identifier(labels[key][0], functions.values())
    layers = [PlannedLayer(problem, key[1], functions[key], labels[key]) for key, problem in problems.items()]
    width = max(map(len, functions.values()), default=0)
    title = [
        f"The layers of {safe_text(name) or 'a network'}, tile by tile through local memory, "
        f"written by tilewright {__version__}.",
        *origin_lines(source),
        "",
        "Layers in order, and their functions:",
        *(f"  {functions[key]:<{width}}  {safe_text(label)}" for key, label in order),
    ]
    return _file(title, layers, shared=True)


def _file(title: list[str], layers: Sequence[PlannedLayer], shared: bool = False) -> str:
    """Return the text of a file: types, the DMA interface, local memory and the functions."""
    vectors = in_vectors(layers)
    for layer in layers:
        layer.in_vectors = vectors
    apart = not shared and layers[0].machine.bits is None
    body = [line for layer in layers for line in ["", *function(layer, not apart)]]
    used = [text for name, text in MACROS.items() if any(f"{name}(" in line for line in body)]
    if vectors and MACROS["MIN"] not in used:
        used.insert(0, MACROS["MIN"])
    lines = [
        *block_comment([*title, "", *_notes(layers)]),
        *_prelude(layers[0].machine, copied=any(layer.widens for layer in layers) and not vectors),
        *(["", *used] if used else []),
        *(["", *declarations(layers)] if vectors else []),
        *([] if apart else ["", *_shared_memory(layers)]),
        *body,
    ]
    return "\n".join(lines) + "\n"


def _notes(layers: Sequence[PlannedLayer]) -> list[str]:
    """Return what a caller of the functions should know."""
    machine = layers[0].machine
    notes = [
        "Every function takes its tensors as arrays in external memory, row by row:",
        "  in   [images][input maps][rows][columns]",
        "  w    [output maps][input maps of a group][rows][columns]",
        "  out  [images][output maps][rows][columns]",
    ]
    if any(layer.sums_leave for layer in layers):
        notes.append("  sums [images][output maps][rows][columns], for sums that are not complete")
    elif any(layer.partial for layer in layers) or machine.bits is None:
        notes[-1] += "; partial sums are kept there, too"
    if machine.padding == "loaded" and any(any(layer.layer.padding) for layer in layers):
        notes[1] += ", with the zeros of the padding around each map"
    notes += [
        "Names are those of the loops of a convolution: O output, I input, K kernel, S stride, D dilation; "
        "n images, c maps, y rows, x columns; T a tile, B a buffer.",
    ]
    if machine.double_buffering:
        notes += [
            "",
            "Transfers and computation take turns here. Under double buffering, which the machine has, each "
            "buffer exists twice, and the gets of the next tile are issued before this one is computed.",
        ]
    if machine.vector_unit is not None and (reason := why_no_vectors(layers)) is not None:
        notes += [
            "",
            f"The loops within a tile are over elements, not in vectors as the plan's inner loop: {reason}.",
        ]
    elif machine.vector_unit is not None:
        notes += [
            "",
            "The loops within a tile are the plan's inner loops, in vectors of GCC. `vector_counts` has "
            "those loaded, stored and multiplied, as in the model but for loads of biases: there are none.",
        ]
    memory = CMemory.of(layers)
    warning = memory.warning()
    told = f"WARNING: this {warning}." if warning else f"Memory: {memory.told()}."
    return [*notes, "", told]


def _prelude(machine: DspMachine, *, copied: bool) -> list[str]:
    """Return includes, types, local memory and the DMA interface."""
    types = CTypes.of(machine).distinct()
    if machine.bits is None:
        about = (
            f"Inputs and weights, elements of {machine.element_bytes} bytes on the machine, and sums. "
            "The machine stores sums as elements, too; here they are wider, so that they are exact. "
            "Define ACC_T to narrow them."
        )
    else:
        bits = machine.bits
        about = (
            f"The machine's inputs have {bits.input} bits, weights {bits.weights}, outputs {bits.output}, "
            f"and sums {bits.partial} until they are complete; these types hold as many."
        )
    return [
        "#include <stddef.h>",
        "#include <stdint.h>",
        *(["#include <string.h>"] if copied else []),
        "",
        *block_comment([about]),
        *(line for each in types for line in _macro(each.name.upper(), each.integer)),
        *(f"typedef {each.name.upper()} {each.name};" for each in types),
        "",
        '/* Local memory; for example static __attribute__((section(".scratchpad"))). */',
        *_macro("LOCAL_MEMORY", "static"),
        "",
        *DMA.splitlines(),
    ]


def _macro(name: str, value: str) -> list[str]:
    return [f"#ifndef {name}", f"#define {name} {value}", "#endif"]


def _shared_memory(layers: Sequence[PlannedLayer]) -> list[str]:
    """Return the declaration of the buffers of all layers, which lie in the same place."""
    several = "/* The layers run one after the other and use the same local memory. */"
    lines = [several if len(layers) > 1 else "/* The buffers in local memory. */", "LOCAL_MEMORY union {"]
    for layer in layers:
        sizes = layer.nest.buffers(layer.step)
        lines += [
            "    struct {",
            *(
                f"        {layer.buffer_types[operand].name} {SHORT[operand]}[{sizes[operand]}];"
                for operand in in_memory(layer)
            ),
            f"    }} {layer.name};",
        ]
    return [*lines, "} local_memory;"]
