"""A plan as Halide pipelines in Python: what a layer computes, and apart from it in which tiles and when.

The schedules are those of the thesis's section 6.1. ``compute_at`` names the loop that brings an operand
anew, ``store_at`` the one outside of it, between whose iterations a halo stays. Where partial sums leave the
chip, `out` itself has the loop over the input maps, of which the first iteration reads no sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

from tilewright.codegen.c_text import join_terms, multiply_terms, origin_lines, safe_text
from tilewright.codegen.loop_nest.comment import about_layer, describe_traffic
from tilewright.codegen.loop_nest.layer import PlannedLayer
from tilewright.codegen.loop_nest.names import AXES, KERNEL_COL, KERNEL_ROW, NAMES
from tilewright.codegen.loop_nest.types import CTypes
from tilewright.core.version import __version__
from tilewright.tiling.dsp.nest import C, G, K, N, X, Y

WIDTH = 100
"""Longest line of the text around the code."""

PRELUDE = """\
import sys
from collections.abc import Callable
from typing import NamedTuple

import halide as hl
import numpy as np

DATA, SUMS = np.{data}, np.{sums}
ACC = hl.Int({bits})
TAIL = hl.TailStrategy.GuardWithIf  # the last tile of a loop may be smaller
Stages = tuple[hl.Func, hl.Func, hl.Func, hl.Func]  # out, B_in, B_w, B_out


def variables(names: str) -> list[hl.Var]:
    return [hl.Var(name) for name in names.split()]"""

MAIN = '''\
def run(layer: Layer, values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Compile a layer's pipeline and run it."""
    out, *_ = layer.stages(hl.Buffer(values), hl.Buffer(weights))
    return np.asarray(out.realize(list(layer.outputs[::-1])))


def direct(layer: Layer, values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Compute a layer without tiles."""
    values = np.pad(values, [(0, 0)] * (values.ndim - 2) + list(layer.zeros))
    values = values.reshape(len(values), layer.groups, -1, *values.shape[-2:]).astype(np.float64)
    weights = weights.reshape(layer.groups, -1, *weights.shape[-3:]).astype(np.float64)
    height, width = layer.outputs[-2:]
    total = np.zeros(1)
    for row, column in np.ndindex(weights.shape[3:]):
        window = values[..., row * layer.dilation[0] :, column * layer.dilation[1] :]
        window = window[..., :: layer.stride[0], :: layer.stride[1]][..., :height, :width]
        total = total + np.einsum("ngkyx,gck->ngcyx", window, weights[..., row, column], optimize=True)
    return total.reshape(layer.outputs).astype(SUMS)


if __name__ == "__main__":
    generator = np.random.default_rng(0)
    for name in sys.argv[1:] or LAYERS:
        layer = LAYERS[name]
        values, weights = (
            generator.integers(-100, 100, shape).astype(DATA) for shape in (layer.inputs, layer.weights)
        )
        layer.stages(hl.Buffer(values), hl.Buffer(weights))[0].print_loop_nest()
        if not np.array_equal(run(layer, values, weights), direct(layer, values, weights)):
            sys.exit(f"{name}: differs from the convolution")
        print(f"{name}: equals the convolution")'''
"""What runs the pipelines on random data."""

TABLE = '''\
class Layer(NamedTuple):
    """The pipeline of a layer, and the shapes of its arrays: rows of maps of groups of images."""

    stages: Callable[[hl.Buffer, hl.Buffer], Stages]
    inputs: tuple[int, ...]
    weights: tuple[int, ...]
    outputs: tuple[int, ...]
    groups: int = 1
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    zeros: tuple[tuple[int, int], tuple[int, int]] = ((0, 0), (0, 0))  # not stored with the input'''

INNER = (X, Y, C, G, N)
"""The loops within a tile that go through its output, the innermost first."""


def pipelines(layers: Sequence[PlannedLayer], name: str, source: str) -> str:
    """Return a Python program with a pipeline for each layer, which runs them all and compares.

    Parameters
    ----------
    name, source
        Of the instance.
    """
    types = CTypes.of(layers[0].machine)
    element, accumulator = types.input.bits, types.sums.bits
    title = [
        f"{_text(name) or 'A layer'} in Halide, tile by tile; written by tilewright {__version__}.",
        *map(_text, origin_lines(source)),
        "",
        "Arrays are in external memory. B_in, B_w and B_out are the buffers in local memory, one set of "
        "them: Halide does not load while it computes.",
    ]
    prelude = PRELUDE.format(data=f"int{element}", sums=f"int{accumulator}", bits=accumulator)
    parts = [_folded(['"""' + title[0], *title[1:], '"""'], ""), prelude.split("\n")]
    for layer in layers:
        parts += [["", *_pipeline(layer)]]
    parts += [["", *TABLE.split("\n")], ["", *_table(layers)], ["", *MAIN.split("\n")]]
    return "\n".join(line for part in parts for line in [*part, ""]).rstrip() + "\n"


def _text(value: str) -> str:
    """Make a text harmless within a docstring."""
    return safe_text(value).replace('"', "'")


def _folded(lines: Sequence[str], indent: str) -> list[str]:
    """Fold lines that are too long."""
    folded: list[str] = []
    for line in lines:
        folded += wrap(line, WIDTH, initial_indent=indent, subsequent_indent=indent) or [""]
    return folded


def _pipeline(planned: PlannedLayer) -> list[str]:
    """Return the function that makes a layer's stages."""
    names = f"{planned.name}: {', '.join(map(_text, planned.labels))}." if planned.labels else planned.name
    rows = [f"  {kind:<8} {t.elements:>14,} elements" for kind, t in planned.transfers.items()]
    told = [
        f'"""{names}',
        "",
        *about_layer(planned),
        "",
        f"Schedule {planned.plan.schedule}:",
        *("  " + describe_traffic(planned, operand) for operand in AXES),
        "Between external and local memory:",
    ]
    code = [*_sizes(planned), "", "# What is computed.", *_algorithm(planned)]
    code += ["", "# In which tiles, and when.", *_schedule(planned), "return out, B_in, B_w, B_out"]
    return [
        f"def {planned.name}(dram_in: hl.Buffer, dram_w: hl.Buffer) -> Stages:",
        *_folded(told, "    "),
        *("    " + row for row in rows),
        '    """',
        *("    " + line if line else "" for line in code),
    ]


def _sizes(planned: PlannedLayer) -> list[str]:
    """Return the sizes of the layer and of a tile by their names."""
    layer, nest = planned.layer, planned.nest
    outputs = {NAMES[d].size: nest.sizes[d] for d in _loops(planned)}
    sizes = {"K_c": nest.sizes[K], KERNEL_ROW.whole: layer.kernel[0], KERNEL_COL.whole: layer.kernel[1]}
    for side, letter in enumerate("yx"):
        d = Y + side
        sizes |= {f"S_{letter}": layer.stride[side]} if planned.stride(d) != "1" else {}
        sizes |= {f"D_{letter}": layer.dilation[side]} if layer.dilation[side] > 1 else {}
        sizes |= {f"P_{letter}": layer.padding[2 * side]} if planned.clips(d)[0] else {}
    lines = [_assigned(outputs, "the output"), _assigned(sizes, "a kernel, and where it goes")]
    tile = {NAMES[d].step: planned.step[d] for d in planned.order}
    if planned.halo is not None:
        side = planned.halo - Y
        tile[f"HALO_{'yx'[side]}"] = layer.kernel_extent[side] - layer.stride[side]
    return [*lines, *([_assigned(tile, "a tile")] if tile else [])]


def _assigned(sizes: dict[str, int], comment: str) -> str:
    return f"{', '.join(sizes)} = {', '.join(map(str, sizes.values()))}  # {comment}"


def _loops(planned: PlannedLayer) -> list[int]:
    """Return the dimensions of the output, the innermost first; that of a single group is left out."""
    return [d for d in INNER if d != G or planned.layer.groups > 1]


def _algorithm(planned: PlannedLayer) -> list[str]:
    """Return the stages: two copies, the convolution, and the copy to external memory."""
    group = ["g"] if planned.layer.groups > 1 else []
    outputs = [NAMES[d].loop for d in _loops(planned)]
    lines = [_variables(outputs), _variables(["i_x", "i_y", "i_c", "j_x", "j_y"])]
    lines.append('out, B_in, B_w, B_out = (hl.Func(name) for name in ("out", "B_in", "B_w", "B_out"))')
    read = "dram_in"
    if any(any(planned.clips(d)) for d in (X, Y)):
        rows, columns = planned.layer.input[1:]
        lines.append(
            f"in_zeros = hl.BoundaryConditions.constant_exterior(dram_in, 0, [(0, {columns}), (0, {rows})])"
        )
        read = "in_zeros"
    inputs = ", ".join(["i_x", "i_y", "i_c", *group, "o_n"])
    weights = ", ".join(["j_x", "j_y", "i_c", "o_c", *group])
    lines += [f"B_in[{inputs}] = {read}[{inputs}]", f"B_w[{weights}] = dram_w[{weights}]"]
    k, depth = "r.z", "K_c"
    if planned.partial:
        k, depth = "k", "TK_c"
    lines.append(f'r = hl.RDom([(0, K_x), (0, K_y), (0, {depth})], "r")')
    sums = ", ".join(outputs)
    if planned.partial:
        trips = planned.trips[K]
        lines += ['k_t = hl.Var("k_t")  # tiles of input maps', "k = k_t * TK_c + r.z"]
        lines += ["r.where(k < K_c)"] if planned.ragged(K) else []
    at = f"{sums}, k_t" if planned.partial else sums
    image = ", ".join([_under(planned, X), _under(planned, Y), k, *group, "o_n"])
    kernel = ", ".join(["r.x", "r.y", k, "o_c", *group])
    lines += [
        f"B_out[{at}] = hl.cast(ACC, 0)",
        f"value = hl.cast(ACC, B_in[{image}])",
        f"weight = hl.cast(ACC, B_w[{kernel}])",
        f"B_out[{at}] += value * weight",
    ]
    if not planned.partial:
        return [*lines, f"out[{sums}] = B_out[{sums}]"]
    return [
        *lines,
        f'k_c = hl.RDom([(0, {trips})], "k_c")',
        f"out[{sums}] = hl.undef(ACC)",
        f"before = hl.select(k_c.x > 0, hl.likely(out[{sums}]), 0)  # partial sums come back",
        f"out[{sums}] = before + B_out[{sums}, k_c.x]",
    ]


def _under(planned: PlannedLayer, d: int) -> str:
    """Return the input row or column under an output and a tap, as an expression."""
    letter, side = "yx"[d - Y], d - Y
    tap = multiply_terms(f"r.{letter}", "1" if planned.layer.dilation[side] == 1 else f"D_{letter}")
    index = join_terms([multiply_terms(NAMES[d].loop, planned.stride(d)), tap])
    return f"{index} - P_{letter}" if planned.clips(d)[0] else index


def _variables(names: Sequence[str]) -> str:
    """Return the line that makes variables of some names."""
    if len(names) == 1:
        return f'{names[0]} = hl.Var("{names[0]}")'
    return f'{", ".join(names)} = variables("{" ".join(names)}")'


def _schedule(planned: PlannedLayer) -> list[str]:
    """Return the schedule of all stages."""
    cut = [d for d in _loops(planned) if planned.trips[d] > 1]
    lines = [_variables([NAMES[d].inner for d in cut])] if cut else []
    lines += ["out" + "".join(f".bound({NAMES[d].loop}, 0, {NAMES[d].size})" for d in _loops(planned))]
    tiles = "out"
    if planned.partial:
        tiles = "tiles"
        lines += ["tiles = out.update()", "tiles.partition(k_c.x, hl.Partition.Always)  # the first apart"]
    for d in cut:
        names = NAMES[d]
        lines.append(f"{tiles}.split({names.loop}, {names.loop}, {names.inner}, {names.step}, TAIL)")
    around = [_at(planned, d) for d in reversed(planned.order) if d != K or planned.partial]
    inside = [NAMES[d].inner if d in cut else NAMES[d].loop for d in _loops(planned)]
    if around:
        lines.append(f"{tiles}.reorder({', '.join([*inside, *around])})")
    lines.append(_placed("B_out", "out", around[0] if around else None))
    if K in planned.order and not planned.partial:
        lines += ['k_c, tk_c = hl.RVar("k_c"), hl.RVar("tk_c")', "sums = B_out.update()"]
        within = ["r.x", "r.y", "tk_c", *(NAMES[d].loop for d in _loops(planned)), "k_c"]
        lines += ["sums.split(r.z, k_c, tk_c, TK_c, TAIL)", f"sums.reorder({', '.join(within)})"]
    for operand, buffer in (("input", "B_in"), ("kernels", "B_w")):
        level = planned.level[operand]
        inner = planned.order[level - 1] if level else None
        stage = "B_out" if inner == K and not planned.partial else "out"
        lines.append(_placed(buffer, stage, None if inner is None else _at(planned, inner)))
    return [*lines, *_halo(planned)]


def _at(planned: PlannedLayer, d: int) -> str:
    """Return the variable of a tile loop; that over input maps is in a domain where `out` has it."""
    return "k_c.x" if d == K and planned.partial else NAMES[d].loop


def _placed(buffer: str, stage: str, loop: str | None) -> str:
    return f"{buffer}.compute_root()" if loop is None else f"{buffer}.compute_at({stage}, {loop})"


def _halo(planned: PlannedLayer) -> list[str]:
    """Return what lets the part of the input stay that a neighbour shares, in a buffer that goes round."""
    d = planned.halo
    if d is None:
        return []
    letter, level = "yx"[d - Y], planned.level["input"]
    stored = "store_root()" if level == 1 else f"store_at(out, {_at(planned, planned.order[level - 2])})"
    size = join_terms([multiply_terms(f"TO_{letter}", planned.stride(d)), f"HALO_{letter}"])
    return [f"B_in.{stored}.fold_storage(i_{letter}, {size})"]


def _table(layers: Sequence[PlannedLayer]) -> list[str]:
    """Return the table of all layers with the shapes of their arrays."""
    lines = ["LAYERS = {"]
    for planned in layers:
        layer, (g, n, c, y, x, k) = planned.layer, planned.nest.sizes
        group = (g,) if g > 1 else ()
        plane = layer.input[1:] if planned.generated else layer.padded_plane
        shapes = [(n, *group, k, *plane), (*group, c, k, *layer.kernel), (n, *group, c, y, x)]
        words = [planned.name, *map(str, shapes)]
        words += [f"groups={g}"] if g > 1 else []
        words += [f"stride={layer.stride}"] if layer.stride != (1, 1) else []
        words += [f"dilation={layer.dilation}"] if layer.dilation != (1, 1) else []
        if planned.generated:
            words.append(f"zeros=({layer.padding[:2]}, {layer.padding[2:]})")
        lines += [f'    "{planned.name}": Layer(', *(f"        {word}," for word in words), "    ),"]
    return [*lines, "}"]
