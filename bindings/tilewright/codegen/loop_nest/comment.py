"""The comment before a C function: layer, memory, schedule and transfers."""

from __future__ import annotations

from math import prod

from tilewright.codegen.c_text import group_digits, safe_text
from tilewright.codegen.loop_nest.layer import PlannedLayer
from tilewright.codegen.loop_nest.memory import describe_buffers
from tilewright.codegen.loop_nest.names import NAMES, SHORT
from tilewright.tiling.dsp.nest import Y


def summary(planned: PlannedLayer) -> list[str]:
    """Return what a person should know of the layer, the tiles and the transfers."""
    lines = [
        f"{planned.name}{': ' + ', '.join(map(safe_text, planned.labels)) if planned.labels else ''}",
        "",
    ]
    lines += [
        f"Layer     {text}" if not i else f"          {text}" for i, text in enumerate(about_layer(planned))
    ]
    need, unit = planned.nest.held(planned.step), planned.machine.unit
    held, copies = sum(need.values()), planned.machine.copies
    parts = " + ".join(group_digits(n) for n in need.values())
    twice = f", twice for double buffering: {group_digits(held * copies)}" if copies > 1 else ""
    share = f"{100 * held * copies / planned.machine.capacity:.1f} %"
    lines += [
        f"Memory    B_in + B_w + B_out = {parts} = {group_digits(held)} {unit}{twice}, "
        f"{share} of the {group_digits(planned.machine.capacity)} that fit into "
        f"{group_digits(planned.machine.memory_bytes)} bytes",
        f"          in C {describe_buffers(planned)}",
    ]
    lines += [
        f"Schedule  {planned.plan.schedule}: {describe_traffic(planned, 'input')}",
        f"          {describe_traffic(planned, 'kernels')}",
        f"          {describe_traffic(planned, 'output')}",
    ]
    rows = [("Transfers", "calls", "elements")]
    rows += [
        (f"  {kind}", group_digits(t.calls), group_digits(t.elements))
        for kind, t in planned.transfers.items()
    ]
    total = [sum(column) for column in zip(*planned.transfers.values(), strict=True)]
    rows.append(("  in all", group_digits(total[0]), group_digits(total[1])))
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    lines += ["", *(f"{a:<{widths[0]}}   {b:>{widths[1]}}   {c:>{widths[2]}}" for a, b, c in rows)]
    return lines


def about_layer(planned: PlannedLayer) -> list[str]:
    """Return the layer in words."""
    layer = planned.layer
    if layer.kind == "fc":
        kind = f"fully connected, {layer.input[0]} inputs, {layer.kernels} outputs"
        more = []
    else:
        channels, height, width = layer.input
        kernel = (
            f"{layer.kernels} kernels of {layer.kernels_shape[1]} x {layer.kernel[0]} x {layer.kernel[1]}"
        )
        kind = f"input {channels} x {height} x {width}, {kernel}"
        more = [f"groups {layer.groups}"] if layer.groups > 1 else []
        for word, value in (("stride", layer.stride), ("dilation", layer.dilation)):
            more += [f"{word} {value[0]} x {value[1]}"] if value != (1, 1) else []
        if any(layer.padding):
            top, bottom, left, right = layer.padding
            sides = f"{top} above, {bottom} below, {left} left, {right} right"
            if top == bottom == left == right:
                sides = f"{top} on all sides"
            stored = "made on chip" if planned.generated else "stored with the input"
            more.append(f"padding {sides}, {stored}")
    more += [f"batch {layer.batch}"] if layer.batch > 1 else []
    rows, columns = layer.output_plane
    result = "" if layer.kind == "fc" else f"output {layer.kernels} x {rows} x {columns}, "
    return [
        ", ".join([kind, *more]),
        f"{result}{group_digits(layer.macs)} MACs in {group_digits(prod(planned.trips))} tiles",
    ]


def describe_traffic(planned: PlannedLayer, operand: str) -> str:
    """Say when an operand is moved."""
    level, buffer = planned.level[operand], f"B_{SHORT[operand]}"
    around = [NAMES[d].loop for d in planned.order[:level]]
    inside = [NAMES[d].loop for d in planned.order[level:]]
    if not around:
        when = "once"
    elif not inside:
        when = "with every tile"
    else:
        when = f"for every {', '.join(around)}"
    stays = f" and stays while {', '.join(inside)} {'run' if len(inside) > 1 else 'runs'}" if inside else ""
    if operand != "output":
        shared = ""
        if planned.halo is not None and operand == "input":
            letter, what = ("y", "rows") if planned.halo == Y else ("x", "columns")
            shared = f"; the HALO_{letter} {what} shared with the neighbour in {letter} stay, too"
        return f"{buffer} is loaded {when}{stays}{shared}"
    if planned.partial:
        return f"{buffer} is written {when}{stays}; partial sums return for k_c > 0"
    return f"{buffer} is written {when}, complete{stays.replace(' and', '; it', 1)}"
