"""The head of a C function: sizes, views of the tensors, buffers, and strides of the transfers."""

from __future__ import annotations

from tilewright.codegen.c_text import WIDTH, align_comments, group_digits
from tilewright.codegen.loop_nest.layer import PlannedLayer
from tilewright.codegen.loop_nest.names import NAMES, SHORT
from tilewright.tiling.dsp.nest import C, G, K, N, X, Y

SIDES = ((Y, "y", "rows"), (X, "x", "columns"))
"""The two axes of a plane: loop, letter, and what lies along it."""


def constants(planned: PlannedLayer) -> list[str]:
    """Return the sizes of the layer and of a tile, as two anonymous enums."""
    return [
        *["    enum { /* the layer */", *align_comments(_layer_sizes(planned), " " * 8), "    };"],
        *["    enum { /* a tile */", *align_comments(_tile_sizes(planned), " " * 8), "    };"],
    ]


def _used_sizes(planned: PlannedLayer) -> set[str]:
    """Return the names of the sizes that the arrays have."""
    return {name for axes in planned.axes.values() for a in axes for name in (a.whole, a.part)}


def _layer_sizes(planned: PlannedLayer) -> list[tuple[str, str]]:
    """Return the constants of the layer that its function needs, with their comments."""
    layer = planned.layer
    used = _used_sizes(planned)
    per_group = " of a group" if layer.groups > 1 else ""
    padding = {Y: layer.padding[:2], X: layer.padding[2:]}
    rows: list[tuple[str, str]] = []

    def add(name: str, value: int, comment: str) -> None:
        rows.append((f"{name} = {value},", comment))

    def add_used(name: str, comment: str) -> None:
        if name in used:
            add(name, planned.sizes[name], comment)

    for d in (G, N, C, Y, X, K):
        add_used(NAMES[d].size, NAMES[d].items + (per_group if d in (C, K) else ""))
    for _, letter, items in SIDES:
        add_used(f"K_{letter}", f"kernel {items}")
    for d, letter, items in SIDES:
        before, after = padding[d]
        stored = ", without padding" if planned.generated else f", {before} + {after} of padding among them"
        add_used(f"I_{letter}", f"input {items}{stored if before or after else ''}")
    for d, letter, items in SIDES:
        if planned.clips(d)[0]:
            add(f"P_{letter}", padding[d][0], f"{items} of padding before the input")
    for d, letter, items in SIDES:
        if layer.stride[d - Y] > 1 and planned.nest.sizes[d] > 1:
            add(f"S_{letter}", layer.stride[d - Y], f"stride in {items}")
    for d, letter, items in SIDES:
        if layer.dilation[d - Y] > 1 and layer.kernel[d - Y] > 1:
            add(f"D_{letter}", layer.dilation[d - Y], f"dilation in {items}")
    return rows


def _tile_sizes(planned: PlannedLayer) -> list[tuple[str, str]]:
    """Return the constants of a full tile, with their comments."""
    used = _used_sizes(planned)
    rows: list[tuple[str, str]] = []
    for d in (G, N, C, Y, X, K):
        names = NAMES[d]
        if names.step in used:
            value = names.size if planned.trips[d] == 1 else str(planned.step[d])
            rows.append((f"{names.step} = {value},", names.items))
    for d, letter, items in SIDES:
        extent = f"TI_{letter}"
        if extent in used:
            comment = f"{planned.sizes[extent]} input {items} under it"
            rows.append((f"{extent} = {planned.under(d, f'TO_{letter}')},", comment))
    if planned.halo is not None:
        letter, items = ("y", "rows") if planned.halo == Y else ("x", "columns")
        comment = f"input {items} that neighbours share"
        rows.append((f"HALO_{letter} = {_halo_extent(planned, planned.halo)},", comment))
    return rows


def _halo_extent(planned: PlannedLayer, axis: int) -> str:
    """Return the rows or columns that neighbouring input tiles share, as an expression."""
    extent, stride = planned.extent(axis), planned.stride(axis)
    if stride == "1" and extent.endswith(" + 1"):
        return extent[: -len(" + 1")]
    return f"{extent} - {stride}"


def tensor_views(planned: PlannedLayer) -> list[str]:
    """Return the declarations of pointers to the tensors in external memory."""
    views = []
    for operand, short in SHORT.items():
        const = "" if operand == "output" else "const "
        kind = f"{const}{getattr(planned.types, operand).name}"
        views.append(_array_view(planned, operand, f"dram_{short}", short, kind, whole=True))
    if planned.sums_leave:
        views.append(_array_view(planned, "output", "dram_sums", "sums", planned.types.sums.name, whole=True))
    return views


def _array_view(
    planned: PlannedLayer, operand: str, name: str, pointer: str, kind: str, *, whole: bool
) -> str:
    """Return the declaration of a pointer through which memory is seen as an array."""
    inner = "".join(f"[{a.whole if whole else a.part}]" for a in planned.axes[operand][1:])
    if not inner:
        return f"    {kind} *const {name} = {pointer};"
    line = f"    {kind} (*const {name}){inner} = ({kind} (*){inner}){pointer};"
    if len(line) <= WIDTH:
        return line
    return f"    {kind} (*const {name}){inner}\n        = ({kind} (*){inner}){pointer};"


def buffers(planned: PlannedLayer, shared: bool) -> list[str]:
    """Return the declarations of the three buffers."""
    if shared:
        return [
            _array_view(
                planned,
                operand,
                f"B_{short}",
                f"local_memory.{planned.name}.{short}",
                planned.buffer_types[operand].name,
                whole=False,
            )
            for operand, short in SHORT.items()
        ]
    elements = planned.nest.buffers(planned.step)
    pairs = []
    for operand, short in SHORT.items():
        sizes = "".join(f"[{a.part}]" for a in planned.axes[operand])
        pairs.append(
            (
                f"LOCAL_MEMORY {planned.buffer_types[operand].name} B_{short}{sizes};",
                f"{group_digits(elements[operand])} elements",
            )
        )
    return align_comments(pairs, " " * 4)


def stride_tables(planned: PlannedLayer) -> list[str]:
    """Return the descriptors of the transfers."""
    lines = ["    /* Bytes from an item to the next: in the buffer, in external memory. */"]
    tensors = [(operand, short, getattr(planned.types, operand).name) for operand, short in SHORT.items()]
    if planned.sums_leave:
        tensors.append(("output", "sums", planned.types.sums.name))
    for operand, tensor, kind in tensors:
        axes, held = planned.axes[operand], planned.buffer_types[operand].name
        closer = " / NARROWER" if kind != held else ""
        pairs = []
        for number, axis in enumerate(axes, start=1):
            index = "[0]" * number
            ends = (f"sizeof B_{SHORT[operand]}{index}{closer}", f"sizeof dram_{tensor}{index}")
            pairs.append((f"{{{', '.join(ends)}}},", axis.item))
        if closer:
            lines.append(f"    enum {{ NARROWER = sizeof({held}) / sizeof({kind}) }}; /* when complete */")
        lines += [
            f"    static const dma_strides {tensor}_strides = {{sizeof({kind}), {len(axes)}, {{",
            *align_comments(pairs, " " * 8),
            "    }};",
        ]
    return lines
