"""The DMA transfers of a tile, the halo that stays on chip, and the zeros where padding lies."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.codegen.c_text import WIDTH, align_comments, for_loop, join_terms, multiply_terms, nest_loops
from tilewright.codegen.loop_nest.layer import PlannedLayer
from tilewright.codegen.loop_nest.names import CLIPPED, IN_COL, IN_ROW, NAMES, SHORT
from tilewright.tiling.dsp.nest import K, X, Y


def input_transfer(planned: PlannedLayer, indent: str) -> list[str]:
    """Return the transfer of what the chip does not have of a tile's input, and zeros for padding."""
    first, local, counts = [], [], []
    for axis in planned.axes["input"]:
        d = axis.loop
        assert d is not None
        if axis not in (IN_ROW, IN_COL):
            first.append(planned.first(axis))
            local.append("0")
            counts.append(planned.count(d))
        elif any(planned.clips(d)):
            low, high = CLIPPED[d]
            first.append(low)
            local.append(f"{low} - i_{'yx'[d - Y]}")
            counts.append(f"{high} - {low}")
        else:
            kept = "kept" if d == planned.halo else "0"
            first.append(join_terms([planned.origin(d), kept]))
            local.append(kept)
            counts.append(join_terms([planned.in_count(d), kept], " - "))
    clipped = [d for d in (Y, X) if any(planned.clips(d))]
    lines = []
    if planned.halo in clipped and not planned.nest.axis(planned.halo, planned.step[planned.halo]).new.all():
        low, high = CLIPPED[planned.halo]
        lines.append(f"{indent}if ({low} < {high})")
        lines += _dma_call("get", "input", first, local, counts, indent + "    ")
    else:
        lines += _dma_call("get", "input", first, local, counts, indent)
    if clipped:
        lines += _zero_padding(planned, clipped, indent)
    return lines


def transfer(planned: PlannedLayer, call: str, operand: str, indent: str, tensor: str = "") -> list[str]:
    """Return a transfer of all that a tile has of the weights or of the output.

    Parameters
    ----------
    tensor
        In external memory, by default the operand's own.
    """
    axes = planned.axes[operand]
    counts = [a.part if a.loop is None else planned.count(a.loop) for a in axes]
    first, local = [planned.first(a) for a in axes], ["0"] * len(axes)
    return _dma_call(call, operand, first, local, counts, indent, tensor)


def put_outputs(planned: PlannedLayer, indent: str) -> list[str]:
    """Return the transfer of a tile's outputs; sums that are wider are outputs when they are complete."""
    if not planned.widens:
        return transfer(planned, "put", "output", indent)
    inner = indent + "    " * planned.sums_leave
    axes = planned.axes["output"]
    number = " * ".join(axis.part for axis in axes)
    complete = [
        f"{inner}complete(&B_out{'[0]' * len(axes)}, {number});",
        *transfer(planned, "put", "output", inner),
    ]
    if not planned.sums_leave:
        return complete
    names = NAMES[K]
    return [
        f"{indent}if ({names.loop} + {names.step} < {names.size}) {{ /* partial sums */",
        *transfer(planned, "put", "output", inner, "sums"),
        f"{indent}}} else {{",
        *complete,
        f"{indent}}}",
    ]


def _dma_call(
    call: str,
    operand: str,
    first: list[str],
    local: list[str],
    counts: list[str],
    indent: str,
    tensor: str = "",
) -> list[str]:
    """Return a call that moves a box between a buffer and a tensor, folded where it is too long.

    Parameters
    ----------
    call : {"get", "put"}
    first, local
        Where the box begins in the tensor and in the buffer, per axis.
    counts
        Its sizes, per axis.
    tensor
        By default the operand's own.
    """
    short = tensor or SHORT[operand]
    buffer = f"B_{SHORT[operand]}"
    if any(index != "0" for index in local):
        buffer = "&" + buffer + "".join(f"[{index}]" for index in local)
    external = f"&dram_{short}" + "".join(f"[{index}]" for index in first)
    ends = (buffer, external) if call == "get" else (external, buffer)
    pieces = [*ends, f"&{short}_strides", f"(int[]){{{', '.join(counts)}}}"]
    head = f"{indent}dma_{call}("
    for lines in ([pieces], [pieces[:2], pieces[2:]], [[piece] for piece in pieces]):
        texts = [", ".join(line) for line in lines]
        if max(map(len, texts)) + len(head) + 2 <= WIDTH:
            break
    texts = [f"{head}{texts[0]}", *(" " * len(head) + text for text in texts[1:])]
    return [*(text + "," for text in texts[:-1]), f"{texts[-1]});"]


def input_bounds(planned: PlannedLayer, d: int) -> list[tuple[str, str]]:
    """Return the input rows or columns that are got for a tile, where padding is made on chip."""
    before, after = planned.clips(d)
    if not (before or after):
        return []
    (low, high), letter, what = CLIPPED[d], "yx"[d - Y], ("row", "column")[d - Y]
    start = f"i_{letter}"
    fresh = f"{start} + kept" if d == planned.halo else start
    stop = f"{start} + {planned.in_count(d)}"
    return [
        (f"const int {start} = {planned.origin(d)};", f"first input {what}"),
        (f"const int {low} = {f'MAX({fresh}, 0)' if before else fresh};", f"first {what} to get"),
        (
            f"const int {high} = {f'MIN({stop}, I_{letter})' if after else stop};",
            "end of those",
        ),
    ]


def halo_move(planned: PlannedLayer, halo: int, indent: str) -> list[str]:
    """Return the loops that move what the neighbour before left to the buffer's beginning."""
    letter, items = ("y", "rows") if halo == Y else ("x", "columns")
    loops = [
        *planned.outer_loops(),
        *(for_loop(var, "kept" if d == halo else count) for d, var, count in planned.plane_loops()),
    ]
    present = {d: var for d, var, _ in planned.plane_loops()}
    row, col = present.get(Y, "0"), present.get(X, "0")
    moved = multiply_terms(f"TO_{letter}", planned.stride(halo))
    source = (f"{row} + {moved}", col) if halo == Y else (row, f"{col} + {moved}")
    body = f"B_in{planned.in_index(row, col)} = B_in{planned.in_index(*source)};"
    kept = f"const int kept = o_{letter} > 0 ? HALO_{letter} : 0;"
    bounds = [(kept, f"{items} already here"), *input_bounds(planned, halo)]
    return [*align_comments(bounds, indent), *nest_loops(loops, [body], indent)]


def _zero_padding(planned: PlannedLayer, clipped: Sequence[int], indent: str) -> list[str]:
    """Return the loops that write zeros where the tile reaches over the input."""
    loops, outside, touched = planned.outer_loops(), [], []
    row = col = "0"
    for d, var, count in planned.plane_loops():
        kept = d == planned.halo
        loops.append(for_loop(var, count, "kept" if kept else "0"))
        row, col = (var, col) if d == Y else (row, var)
        if d not in clipped:
            continue
        (before, after), (low, high) = planned.clips(d), CLIPPED[d]
        touched.append(f"{high} - {low} < {count}{' - kept' if kept else ''}")
        ends = [f"i_{var} + {var} < 0"] * before + [f"i_{var} + {var} >= I_{var}"] * after
        outside.append(" || ".join(ends))
    test = [f"if ({' || '.join(outside)})"]
    if len(indent) + 8 + len(test[0]) > WIDTH:
        test = [f"if ({outside[0]}", *(f"    || {ends}" for ends in outside[1:])]
        test[-1] += ")"
    body = [*test, f"    B_in{planned.in_index(row, col)} = 0;"]
    return [
        f"{indent}if ({' || '.join(touched)}) {{",
        f"{indent}    /* Zeros where padding lies. */",
        *nest_loops(loops, body, indent + "    "),
        f"{indent}}}",
    ]
