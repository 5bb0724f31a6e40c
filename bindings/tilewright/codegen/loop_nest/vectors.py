"""The inner loop of a layer's tiles in vectors, in the one file of C; what it runs on is that of projects."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.codegen.c_text import for_loop, multiply_terms, nest_loops
from tilewright.codegen.inner_loops import EmittedVectors, array_lines, lanes_limit, sums_leave_the_chip
from tilewright.codegen.loop_nest.layer import PlannedLayer
from tilewright.codegen.loop_nest.names import NAMES
from tilewright.codegen.numbers.c_integers import C_BITS
from tilewright.codegen.project_files import array_literal, join_sources
from tilewright.tiling.dsp.compute import loop_of
from tilewright.tiling.dsp.nest import C, G, K, N, X, Y

OWN_INCLUDE = '#include "layers.h"\n\n'
"""What `vectors.h` takes types from in a project."""


def why_no_vectors(layers: Sequence[PlannedLayer]) -> str | None:
    """Say why loops within tiles are over elements on a machine with a vector unit; None if they are not."""
    machine = layers[0].machine
    if 8 * machine.element_bytes not in C_BITS:
        return f"C has no elements of {machine.element_bytes} bytes"
    if (limit := lanes_limit(machine)) is not None:
        return limit
    for layer in layers:
        if loop_of(layer.nest, layer.plan).vector == "k" and sums_leave_the_chip(layer.nest, layer.plan):
            return "sums of input maps in the lanes leave the chip before they are added up"
    return None


def in_vectors(layers: Sequence[PlannedLayer]) -> bool:
    """Whether a file has its inner loops in vectors."""
    return layers[0].machine.vector_unit is not None and why_no_vectors(layers) is None


def vectors_of(planned: PlannedLayer) -> EmittedVectors:
    """Return the inner loop of a layer."""
    return EmittedVectors.of_layer(planned.nest, planned.plan)


def declarations(layers: Sequence[PlannedLayer]) -> list[str]:
    """Return what all inner loops of a file run on, and the loops."""
    machine, types = layers[0].machine, layers[0].types
    assert machine.vector_unit is not None
    vectors = [vectors_of(layer) for layer in layers]
    text = join_sources(("project", "vectors.h")).replace(OWN_INCLUDE, "")
    return [
        "/* The vector unit. Sums are added up without signs, so that they may wrap. */",
        f"#define LANES {machine.vector_unit.lanes}",
        f"typedef {types.input.integer} element_t;",
        f"typedef {types.sums.integer} product_t;",
        f"typedef u{types.sums.integer} sum_t;",
        *array_lines([each.sizes() for each in vectors]),
        "",
        *text.splitlines(),
        "",
        "/* What a tile reads and adds up along the lanes, as the DMA controller of a chip may write it. */",
        "element_t laid_input[LAID_INPUT], laid_weights[LAID_WEIGHTS];",
        "sum_t laid_sums[LAID_SUMS * LANES];",
        "vector_count_t vector_counts;",
        *(line for layer, each in zip(layers, vectors, strict=True) for line in ["", *each.text(layer.name)]),
    ]


def tile_in_vectors(planned: PlannedLayer, indent: str) -> list[str]:
    """Return the computation of a tile: what it reads is laid out, its loop is run, its sums are put back."""
    layer, vector = planned.layer, f"V{loop_of(planned.nest, planned.plan).vector.upper()}"
    count = {d: planned.count(d) if planned.step[d] > 1 else "1" for d in (G, N, C, Y, X, K)}
    inner = {d: NAMES[d].inner if planned.step[d] > 1 else "0" for d in (G, N, C, Y, X, K)}
    size = ", ".join(count[d] for d in (N, C, Y, X, K))
    plane = {d: variable for d, variable, _ in planned.plane_loops()}
    row, column = plane.get(Y, "0"), plane.get(X, "0")
    terms = [
        multiply_terms(inner[G], "w_.group_step"),
        multiply_terms(inner[N], "w_.image_step"),
        multiply_terms(inner[K], "w_.map_step"),
        multiply_terms(row, "w_.line_step[0]"),
        multiply_terms(column, "w_.line_step[1]"),
    ]
    place = " + ".join(term for term in terms if term != "0") or "0"
    loops = [
        *planned.outer_loops(),
        *(for_loop(variable, many) for _, variable, many in planned.plane_loops()),
    ]
    window = [for_loop(f"k_{a}", f"K_{a}") for d, a in ((Y, "y"), (X, "x")) if layer.kernel[d - Y] > 1]
    tap = {d: f"k_{a}" if layer.kernel[d - Y] > 1 else "0" for d, a in ((Y, "y"), (X, "x"))}
    taps = f"{tap[Y]} * {layer.kernel[1]} + {tap[X]}"
    weight = "B_w" + "".join(f"[{planned.inner(a)}]" for a in planned.axes["kernels"])
    output = "B_out" + "".join(f"[{planned.inner(a)}]" for a in planned.axes["output"])
    of_weights = [for_loop(NAMES[d].inner, planned.count(d)) for d in (G, C, K) if planned.step[d] > 1]
    of_sums = [for_loop(NAMES[d].inner, planned.count(d)) for d in (G, N, C, Y, X) if planned.step[d] > 1]
    sum_ = f"laid_sums[lane_of(&w_, {vector}, {', '.join(inner[d] for d in (G, N, C, Y, X))})]"
    held, first, last = planned.buffer_types["output"].name, "k_c == 0", f"k_c + {NAMES[K].step} >= K_c"
    several = K in planned.order
    stay = vector == "VK"  # vectors whose lanes are not added up have no place in the buffer
    back = nest_loops(of_sums, [f"{output} = ({held})(product_t){sum_};"], "")
    again = nest_loops(of_sums, [f"{sum_} = (sum_t){output};"], "")
    lines = [
        "{",
        "    static const int kernel_[] = " + array_literal(layer.kernel) + ";",
        "    static const int stride_[] = " + array_literal(layer.stride) + ";",
        "    static const int dilation_[] = " + array_literal(layer.dilation) + ";",
        f"    const int size_[DIMENSIONS] = {{{size}}};",
        "    const work_t w_ =",
        f"        work_on(&{planned.name}_loop, {count[G]}, size_, kernel_, stride_, dilation_);",
        "    memset(laid_input, 0, sizeof laid_input);",
        *nest_loops(loops, [f"laid_input[{place}] =", f"    B_in{planned.in_index(row, column)};"], "    "),
        *nest_loops(
            [*of_weights, *window],
            [
                f"laid_weights[weight_place(&w_, {vector}, {inner[G]}, {inner[C]}, {inner[K]}, {taps})] =",
                f"    {weight};",
            ],
            "    ",
        ),
    ]
    if several:
        lines += [f"    if ({first})", "        begin_sums(&w_, 0);"]
        if not stay:
            lines += ["    else {", *("        " + line for line in again), "    }"]
    else:
        lines.append("    begin_sums(&w_, 0);")
    lines.append(f"    {planned.name}_loop.run(&w_);")
    lines += [
        *([f"    if ({last})"] if several else []),
        f"    {'    ' if several else ''}complete_sums(&w_, {vector});",
    ]
    if several and stay:
        lines += [f"    if ({last}) {{", *("        " + line for line in back), "    }"]
    else:
        lines += ["    " + line for line in back]
    return [indent + line for line in [*lines, "}"]]
