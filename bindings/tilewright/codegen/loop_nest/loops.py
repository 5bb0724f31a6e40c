"""A layer's plan as a C function: the tile loops with their DMA transfers, and the loops within a tile.

The transfers are those of `tilewright.tiling.dsp.lowering`, in the same order: a get of an operand stands in
the innermost loop that moves it, as in the thesis's listings 2 to 6.
"""

from __future__ import annotations

from tilewright.codegen.c_text import (
    WIDTH,
    align_comments,
    block_comment,
    for_loop,
    group_digits,
    join_terms,
    multiply_terms,
    nest_loops,
)
from tilewright.codegen.loop_nest.comment import summary
from tilewright.codegen.loop_nest.declarations import buffers, constants, stride_tables, tensor_views
from tilewright.codegen.loop_nest.layer import PlannedLayer
from tilewright.codegen.loop_nest.names import NAMES
from tilewright.codegen.loop_nest.transfers import (
    halo_move,
    input_bounds,
    input_transfer,
    put_outputs,
    transfer,
)
from tilewright.codegen.loop_nest.vectors import tile_in_vectors
from tilewright.tiling.dsp.nest import C, G, K, N, X, Y


def function(planned: PlannedLayer, shared: bool) -> list[str]:
    """Return the function, with a comment before it."""
    types = planned.types
    sums = f", {types.sums.name} *sums" if planned.sums_leave else ""
    arguments = f"const {types.input.name} *in, const {types.kernels.name} *w, {types.output.name} *out{sums}"
    return [
        *block_comment(summary(planned)),
        f"void {planned.name}({arguments})",
        "{",
        *constants(planned),
        "",
        "    /* The tensors in external memory. */",
        *tensor_views(planned),
        "",
        "    /* The buffers in local memory. */",
        *buffers(planned, shared),
        "",
        *stride_tables(planned),
        "",
        *_tile_loops(planned, 0),
        "}",
    ]


def _tile_loops(planned: PlannedLayer, depth: int) -> list[str]:
    """Return a tile loop with all that is in it; depth 0 is what surrounds the loops."""
    indent = "    " * (depth + 1)
    blocks = [_tile_sizes(planned, depth, indent)]
    gets: list[str] = []
    if planned.level["input"] == depth:
        if planned.halo is not None:
            blocks.append(halo_move(planned, planned.halo, indent))
        gets += input_transfer(planned, indent)
    if planned.level["kernels"] == depth:
        gets += transfer(planned, "get", "kernels", indent)
    if planned.level["output"] == depth and planned.partial:
        gets += [
            f"{indent}if (k_c > 0) /* partial sums over the input maps before */",
            *transfer(planned, "get", "output", indent + "    ", "sums" if planned.sums_leave else ""),
        ]
    blocks.append(gets)
    if depth < len(planned.order):
        d = planned.order[depth]
        names = NAMES[d]
        head = f"for (int {names.loop} = 0; {names.loop} < {names.size}; {names.loop} += {names.step}) {{"
        comment = f"/* {names.items}: {group_digits(planned.trips[d])} tiles */"
        blocks.append([f"{indent}{head} {comment}", *_tile_loops(planned, depth + 1), f"{indent}}}"])
    else:
        compute = tile_in_vectors if planned.in_vectors else _tile_computation
        blocks.append(compute(planned, indent))
    if planned.level["output"] == depth:
        blocks.append(put_outputs(planned, indent))
    return [line for block in blocks if block for line in ["", *block]][1:]


def _tile_sizes(planned: PlannedLayer, depth: int, indent: str) -> list[str]:
    """Return what is different from tile to tile of the loop at a depth, or the same for all tiles."""
    if not depth:
        pairs = [pair for d in (Y, X) if d not in planned.order for pair in input_bounds(planned, d)]
        return align_comments(pairs, indent)
    d = planned.order[depth - 1]
    names = NAMES[d]
    pairs = []
    if planned.ragged(d):
        pairs.append((f"const int {names.edge} = MIN({names.step}, {names.size} - {names.loop});", ""))
        if d in (Y, X):
            pairs.append((f"const int {planned.in_count(d)} = {planned.under(d, names.edge)};", ""))
    if d in (Y, X) and d != planned.halo:
        pairs += input_bounds(planned, d)
    return align_comments(pairs, indent)


def _tile_computation(planned: PlannedLayer, indent: str) -> list[str]:
    """Return the loops within a tile."""
    loops = [for_loop(NAMES[d].inner, planned.count(d)) for d in (N, G, C, Y, X) if planned.step[d] > 1]
    sums = [for_loop("tk_c", planned.count(K))] if planned.step[K] > 1 else []
    position = []
    for d, letter in ((Y, "y"), (X, "x")):
        terms = [multiply_terms(f"to_{letter}", planned.stride(d))] if planned.step[d] > 1 else []
        if planned.layer.kernel[d - Y] > 1:
            sums.append(for_loop(f"k_{letter}", f"K_{letter}"))
            terms.append(f"k_{letter}" if planned.layer.dilation[d - Y] == 1 else f"k_{letter} * D_{letter}")
        position.append(join_terms(terms))
    output = "B_out" + "".join(f"[{planned.inner(a)}]" for a in planned.axes["output"])
    weight = "B_w" + "".join(f"[{planned.inner(a)}]" for a in planned.axes["kernels"])
    value = "B_in" + planned.in_index(*position)
    start = f"k_c > 0 ? {output} : 0" if K in planned.order else "0"
    sum_type, held = planned.types.sums.name, planned.buffer_types["output"].name
    product = [f"acc += ({sum_type}){value} * {weight};"]
    inner = "    "
    if len(indent) + 8 + len(inner) + len(product[0]) > WIDTH:
        plane = "".join(f"[{index}]" for index in position if index != "0")
        product = [f"acc += ({sum_type}){value}", f"       * {weight};"]
        if len(indent) + 8 + len(inner) + len(product[0]) > WIDTH and value.endswith(plane):
            product[:1] = [product[0].removesuffix(plane), f"              {plane}"]
    return [
        *(indent + loop for loop in loops[:-1]),
        f"{indent}{loops[-1]} {{" if loops else f"{indent}{{",
        f"{indent}{inner}{sum_type} acc = {start};",
        *nest_loops(sums, product, indent + inner),
        f"{indent}{inner}{output} = {'' if held == sum_type else f'({held})'}acc;",
        f"{indent}}}",
    ]
