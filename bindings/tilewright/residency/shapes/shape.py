"""Shapes of steps, and what each takes of the memory and moves, in elements: see docs/residency.md.

Some shapes may have second buffers, so that transfers run beside the computation. Line buffers of what is
loaded then hold what the next pass loads, too; blocks of weights and of the output exist twice. Their passes
are as even as they can be: whole rows, the fewest for their number, and blocks likewise.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from tilewright.residency.graph import Graph, Operation
from tilewright.residency.plan import key_of
from tilewright.residency.shapes import tiles
from tilewright.residency.shapes.groups import Group, pass_sizes
from tilewright.residency.shapes.in_blocks import in_blocks
from tilewright.residency.shapes.product_tiles import Cut, ProductTiles, product_tiles
from tilewright.residency.shapes.strips import Strips, strips_of
from tilewright.spec.network import Recurrence


@dataclass(frozen=True)
class Shape:
    """How a step is cut up: see `tilewright.residency.plan.Step`; operations by number.

    Attributes
    ----------
    doubled
        Whether it has second buffers.
    running
        Whether the last operation adds up what it reads pixel by pixel.
    blocks
        Whether second operands of products that are in DRAM are loaded in blocks, in each pass.
    keys
        Keys of attention that pass by at a time.
    interleaved
        Whether the operations of a pass take turns, pixel by pixel.
    copied
        Operations whose weights are copied from flash: before the first pass, or block by block (`streams`).
    """

    order: str
    pixels: int
    kernels: int
    kept: frozenset[int] = frozenset()
    columns: int | None = None
    channels: int | None = None
    doubled: bool = False
    running: bool = False
    blocks: bool = False
    keys: int | None = None
    interleaved: bool = False
    copied: frozenset[int] = frozenset()


class Buffer(NamedTuple):
    """What a step places in the memory for itself.

    Attributes
    ----------
    what
        ``lines`` of a tensor, ``weights`` or the ``operand`` of an operation, its ``partial sums``, its
        ``state``, or a ``block`` of a tensor that is being written.
    number
        Of the tensor or operation.
    """

    what: str
    number: int
    size: int

    def name(self, graph: Graph) -> str:
        """Return what it is called in a plan."""
        of_tensor = self.what in ("lines", "block")
        owner = graph.tensors[self.number] if of_tensor else graph.operations[self.number]
        return key_of(self.what, owner.name)


def step_buffers(group: Group, shape: Shape, whole: Collection[int]) -> list[Buffer]:
    """Return what a step places for itself alone.

    Parameters
    ----------
    whole
        Tensors of the step that are on chip as a whole.
    """
    if shape.order in tiles.SUMMED:
        return _of_sums(group, shape, whole)
    if (in_tiles := tiles_of_product(group, shape)) is not None:
        sizes = in_tiles.buffers(cut_of(shape), whole)
        return [Buffer(*what, int(size)) for what, size in sizes.items()]
    if shape.blocks:
        return _of_blocks(group, shape, whole)
    graph, found = group.graph, []
    copies = 2 if shape.doubled else 1
    if shape.doubled:
        rounds = count_rounds(group, shape)
        lines = group_of_passes(group, shape).double_buffered_line_pixels(shape.pixels, rounds, whole)
    else:
        lines = line_pixels(group, shape)
    for tensor in group.lines:
        if tensor not in whole:
            channels = group.channels(tensor)
            if shape.order == "kernels" and group.last.channelwise:
                channels = min(channels, shape.kernels)
            found.append(Buffer("lines", tensor, lines[tensor] * channels))
    for operation in group.operations:
        if operation.weights:
            kept = operation.number in shape.kept
            size = operation.weights if kept else copies * operation.block(shape.kernels)
            if shape.running and operation is group.last:
                size = weights_of_pixels(operation, shape)
            found.append(Buffer("weights", operation.number, size))
        elif operation.number in shape.copied:
            outputs = shape.kernels if streams(group, shape) else operation.units
            found.append(Buffer("weights", operation.number, operation.copyable // operation.units * outputs))
        if operation.state:
            found.append(Buffer("state", operation.number, operation.state))
    if shape.running:
        assert group.last.running is not None
        at_once = graph.tensors[group.output].channels
        if shape.order == "kernels":
            at_once = min(at_once, shape.kernels)
        found.append(Buffer("block", group.output, at_once * group.last.running.value))
    elif group.output not in whole:
        channels = graph.tensors[group.output].channels
        at_once = channels if computed_whole(group.last, shape) else min(channels, shape.kernels)
        found.append(Buffer("block", group.output, copies * min(shape.pixels, group.pixels) * at_once))
    return found


def tiles_of_product(group: Group, shape: Shape) -> ProductTiles | None:
    """Return the tiles of a product that a step is cut into, if it is."""
    if not shape.blocks:
        return None
    found = product_tiles(group)
    if found is None:
        return None
    terms = shape.channels if found.attention is None else shape.keys
    return None if terms is None else found


def cut_of(shape: Shape) -> Cut:
    """Return how tiles of a product are cut."""
    return Cut(shape.pixels, shape.kernels, shape.channels or shape.keys)


def in_tiles_of(shape: Shape, cut: Cut) -> Shape:
    """Return a shape in tiles of a product with others of another size."""
    if shape.keys is None:
        return replace(shape, pixels=cut.pixels, kernels=cut.kernels, channels=cut.terms)
    return replace(shape, pixels=cut.pixels, kernels=cut.kernels, keys=cut.terms)


def _of_sums(group: Group, shape: Shape, whole: Collection[int]) -> list[Buffer]:
    """Return what an operation places that adds up blocks of input channels."""
    graph, operation = group.graph, group.last
    assert shape.channels is not None
    kernels = min(shape.kernels, operation.units)
    each, bias = tiles.weights_of_a_channel(graph, operation)
    found = []
    for reading in operation.readings:
        if reading.tensor not in whole:
            channels = min(shape.channels, group.channels(reading.tensor))
            found.append(
                Buffer("lines", reading.tensor, channels * line_pixels(group, shape)[reading.tensor])
            )
    if operation.weights:
        found.append(Buffer("weights", operation.number, kernels * (shape.channels * each + bias)))
    values = kernels * (shape.pixels if shape.order == "tiles" else group.pixels)
    if shape.channels < tiles.summed_channels(graph, operation):
        found.append(Buffer("block", group.output, values * graph.sum_elements))
    elif group.output not in whole:
        found.append(Buffer("block", group.output, values))
    return found


def _of_blocks(group: Group, shape: Shape, whole: Collection[int]) -> list[Buffer]:
    """Return what a step places that loads second operands in blocks."""
    area, found = in_blocks(group), []
    lines, passing = area.line_pixels(shape.pixels), area.passing(shape.keys)
    for tensor in area.lines:
        if tensor not in whole:
            found.append(Buffer("lines", tensor, lines[tensor] * area.width(tensor, shape.keys)))
    for operation in group.operations:
        if operation.weights:
            kept = operation.number in shape.kept
            size = operation.weights if kept else operation.block(shape.kernels)
            found.append(Buffer("weights", operation.number, size))
        if block := area.block(operation, shape.kernels, shape.keys, whole):
            found.append(Buffer("operand", operation.number, block))
    for attention in passing:
        found.append(Buffer("partial sums", attention.context, area.sums(attention, shape.pixels)))
    if group.output not in whole and all(each.context != group.last.number for each in passing):
        channels = group.graph.tensors[group.output].channels
        at_once = channels if computed_whole(group.last, shape) else min(channels, shape.kernels)
        found.append(Buffer("block", group.output, min(shape.pixels, group.pixels) * at_once))
    return found


def line_pixels(group: Group, shape: Shape) -> dict[int, int]:
    """Return the pixels of each tensor's line buffer."""
    if shape.order == "tiles":
        rows, columns = tile_size(shape)
        return {r.tensor: tiles.largest_tile_read(r, rows, columns) for r in group.last.readings}
    area = planes_or_strips(group, shape)
    return area.line_pixels_in_turns() if shape.interleaved else area.line_pixels(shape.pixels)


def weights_of_pixels(operation: Operation, shape: Shape) -> int:
    """Return the elements of weights for a pass over what an operation adds up pixel by pixel."""
    assert operation.running is not None
    _, _, each, bias = operation.running
    return min(shape.kernels, operation.units) * (each * shape.pixels + bias)


def group_of_passes(group: Group, shape: Shape) -> Group:
    """Return the group in passes over what its last operation computes, or over what it adds up."""
    return group.running or group if shape.running else group


def planes_or_strips(group: Group, shape: Shape) -> Group | Strips:
    """Return what passes go over: whole planes or strips of them."""
    if shape.blocks:
        return in_blocks(group)
    if shape.columns is None or shape.order == "tiles":
        return group_of_passes(group, shape)
    return strips_of(group, shape.columns)


def replaces(group: Group, shape: Shape, tensor: int) -> bool:
    """Whether the output can take the place of one of a group's `operands`, as a step is cut up.

    In strips, only if no other operation reads it: the next strip may need what has been overwritten.
    """
    if all(operation is group.last for operation, _ in group.readers(tensor)):
        return True
    return shape.columns is None and group.replaces(tensor, shape.pixels)


def tile_size(shape: Shape) -> tuple[int, int]:
    """Return rows and columns of a tile."""
    assert shape.columns is not None
    return shape.pixels // shape.columns, shape.columns


def count_passes(group: Group, shape: Shape) -> int:
    """Return how many tiles there are, or passes over the output."""
    if shape.order == "tiles":
        (height, width), (rows, columns) = group.graph.tensors[group.output].shape[1:], tile_size(shape)
        return tiles.ceil_div(height, rows) * tiles.ceil_div(width, columns)
    return planes_or_strips(group, shape).count_passes(shape.pixels)


def count_rounds(group: Group, shape: Shape) -> int:
    """Return how often all passes are executed: for each block of channels."""
    if (in_tiles := tiles_of_product(group, shape)) is not None:
        return in_tiles.count_tiles(cut_of(shape))
    found = 1 if shape.order == "pixels" else count_blocks(group.last, shape)
    if shape.channels is not None:
        found *= tiles.ceil_div(tiles.summed_channels(group.graph, group.last), shape.channels)
    return found


def buffer_sizes(group: Group, shape: Shape, whole: Collection[int]) -> dict[tuple[str, int], int]:
    """Return the sizes of `buffers`, by what they are of; for many sets of tensors that are whole."""
    every = group.shapes.get(shape)
    if every is None:
        every = group.shapes[shape] = step_buffers(group, shape, ())
    if shape.blocks and whole:
        every = step_buffers(group, shape, whole)
    sums = shape.running or shape.blocks  # which lie in a block even if the output stays
    return {
        (what, number): size
        for what, number, size in every
        if what not in ("lines", "block") or number not in whole or (what == "block" and sums)
    }


def computed_whole(operation: Operation, shape: Shape) -> bool:
    """Whether an operation computes all its output channels at once."""
    if shape.blocks and operation.second is not None:
        return False
    if operation.units == 1:
        return True
    return shape.order == "pixels" and (operation.number in shape.kept or not operation.weights)


def count_blocks(operation: Operation, shape: Shape) -> int:
    """Return the number of blocks of output channels in which an operation is computed."""
    return (
        1 if computed_whole(operation, shape) else -(-operation.units // min(shape.kernels, operation.units))
    )


def most_kernels(group: Group) -> int:
    """Return the most output channels that a block of any operation has."""
    seconds = [operation.second.units for operation in group.operations if operation.second is not None]
    seconds += [each.recurrence.hidden for each in group.operations if each.recurrence is not None]
    return max([operation.units for operation in group.operations] + [*seconds])


def weights_moved(group: Group, shape: Shape) -> int:
    """Return the elements of weights that a step loads."""
    if shape.order in ("kernels", "channels"):
        return group.last.weights
    if shape.order == "tiles":
        return count_passes(group, shape) * group.last.weights
    if group.last.recurrence is not None and group.last.state:
        return group.last.weights * recurrent_loads(group.last.recurrence, shape)
    active = planes_or_strips(group, shape).active(shape.pixels)
    once = {*shape.kept, *([group.last.number] if shape.running else [])}
    return sum(
        operation.weights * (1 if operation.number in once else active[operation.number])
        for operation in group.operations
    )


def recurrent_loads(told: Recurrence, shape: Shape) -> int:
    """Return how often a recurrent layer loads its weights: once, or in blocks for each point in time."""
    return 1 if shape.kept or shape.kernels >= told.hidden else told.steps


def count_readings(group: Group, shape: Shape) -> int:
    """Return how often a tensor in DRAM is read: in each block, where all its channels are needed."""
    if shape.order == "pixels" or group.last.channelwise:
        return 1
    if shape.order == "tiles" and shape.channels == tiles.summed_channels(group.graph, group.last):
        return 1
    return count_blocks(group.last, shape)


def read_once(group: Group, shape: Shape, tensor: int) -> int:
    """Return the elements that all passes read of a tensor: strips read some columns again, passes blocks."""
    if (in_tiles := tiles_of_product(group, shape)) is not None:
        return int(in_tiles.loaded(tensor, cut_of(shape)))
    if shape.blocks:
        return in_blocks(group).loaded_in(tensor, shape.pixels, shape.keys)
    if shape.columns is None:
        return group.elements_read(1 << tensor)
    height = group.graph.tensors[tensor].shape[1]
    return strips_of(group, shape.columns).read(tensor) * group.channels(tensor) * height


def elements_moved(group: Group, shape: Shape, streamed: Collection[int], written: Collection[int]) -> int:
    """Return what a step moves beside the tensors that it fetches whole.

    Parameters
    ----------
    streamed
        Sources that are read from DRAM through line buffers.
    written
        Outputs that are written to DRAM.
    """
    sizes = group.graph.tensors
    if shape.order == "tiles":
        once = sum(
            group.channels(reading.tensor) * tiles.read_in_tiles(reading, *tile_size(shape))
            for reading in group.last.readings
            if reading.tensor in streamed
        )
    else:
        once = sum(read_once(group, shape, tensor) for tensor in streamed)
    read = count_readings(group, shape) * once
    return weights_moved(group, shape) + read + sum(sizes[tensor].size for tensor in written)


# Second buffers ------------------------------------------------------------------------------------------


def double_buffered_shapes(group: Group) -> Iterator[Shape]:
    """Return the shapes that may have second buffers: all weights are kept, or there are blocks of them."""
    if group.graph.alone & group.mask:
        return
    if group.running is not None and not group.last.weights:
        for rows in pass_sizes(group.running.plane[0]):
            pixels = rows * group.running.row
            yield Shape("pixels", pixels, 1, group.weighted, doubled=True, running=True)
    for rows in pass_sizes(group.plane[0]):
        pixels = rows * group.row
        yield Shape("pixels", pixels, 1, group.weighted, doubled=True)
        if _may_be_in_blocks(group):
            for kernels in pass_sizes(group.last.units):
                yield Shape("kernels", pixels, kernels, doubled=True)


def why_not_double_buffered(group: Group, shape: Shape) -> str | None:
    """Say why a shape cannot have second buffers, or None."""
    area = group_of_passes(group, shape)
    rows, rest = divmod(shape.pixels, area.row)
    if shape.blocks:
        return "loads second operands in blocks"
    if group.graph.alone & group.mask:
        return "is a recurrent layer, which has one pass"
    if shape.running and (shape.order != "pixels" or group.last.weights):
        return "adds up pixels in blocks of output channels, or with weights"
    if shape.order not in ("pixels", "kernels") or shape.columns is not None:
        return "is in tiles, strips or blocks of input channels"
    if rest or rows not in pass_sizes(area.plane[0]):
        return f"passes of {shape.pixels} pixels are not the fewest whole rows for their number"
    if shape.order == "pixels":
        return None if shape.kept == group.weighted else "loads weights for each pass"
    if not _may_be_in_blocks(group):
        return "reads a tensor twice"
    if shape.kernels not in pass_sizes(group.last.units):
        return f"blocks of {shape.kernels} output channels are not the smallest for their number"
    return None


def _may_be_in_blocks(group: Group) -> bool:
    """Whether blocks of output channels may have second buffers."""
    producers = group.last.op.producers
    return len(group.operations) == 1 and len(set(producers)) == len(producers)


# Weights from flash, block by block ----------------------------------------------------------------------

STREAMED = 4
"""Outputs that the C adds up together: blocks of streamed weights are of so many, or of a multiple."""


def has_blocks(group: Group, shape: Shape) -> bool:
    """Whether a step computes several output channels at a time, in which its weights may be copied."""
    return shape.order == "kernels" and 1 < shape.kernels < group.last.units


def streams(group: Group, shape: Shape) -> bool:
    """Whether a step copies its weights in blocks of output channels, each in place of the one before."""
    return bool(shape.copied) and has_blocks(group, shape)


def copied_rows(group: Group, shape: Shape, operation: Operation) -> list[int]:
    """Return how many weights of an operation each copy has, if a step copies them."""
    if not streams(group, shape):
        return [operation.copyable]
    blocks = range(0, operation.units, shape.kernels)
    each = operation.copyable // operation.units
    return [each * min(shape.kernels, operation.units - first) for first in blocks]


def streamed_shapes(group: Group, *, every: bool) -> Iterator[Shape]:
    """Return the shapes that copy weights block by block, where all that the step reads is in RAM.

    Parameters
    ----------
    every
        Whether blocks of all sizes matter, and not only the smallest ones for their number.
    """
    if len(group.operations) > 1 or not group.last.copyable:
        return
    fours = -(-group.last.units // STREAMED)
    sizes = range(1, fours) if every else pass_sizes(fours)
    for size in sizes:
        shape = Shape("kernels", 1, STREAMED * size, copied=frozenset({group.last.number}))
        if streams(group, shape) and why_not_streamed(group, shape) is None:
            yield shape


def why_not_streamed(group: Group, shape: Shape) -> str | None:
    """Say why a shape cannot copy weights block by block, or None."""
    spec = group.last.op.spec
    if shape.running:
        return "has running values, to which blocks of output channels are not added"
    if spec.kind != "conv" or getattr(spec, "groups", 1) > 1:
        return f"{group.last.name} is no convolution without groups, whose weights alone are copied in blocks"
    if group.pixels == 1:
        return f"{group.last.name} has one pixel, which reads each weight once"
    if shape.kernels % STREAMED:
        return f"copies blocks of {shape.kernels} output channels, which is no multiple of {STREAMED}"
    return None


# Taking turns --------------------------------------------------------------------------------------------


def why_not_interleaved(group: Group, shape: Shape) -> str | None:
    """Say why the operations of a shape cannot take turns, or None."""
    if len(group.operations) == 1:
        return "a single operation takes no turns"
    if shape.order != "pixels" or shape.blocks or shape.pixels != 1:
        return "operations take turns only where a pass is a pixel"
    if shape.kept != group_of_passes(group, shape).keepable:
        return "loads weights for each pass"
    return None
