"""Address generators: what sends operands, from a PE's buffer or the border, and what takes outputs there."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.codegen.array.loops import loop_words, share
from tilewright.codegen.array.parts import LayerWork, Part
from tilewright.codegen.array.streams import OperandStream, Sender, ValueStream
from tilewright.codegen.array.timing import Timing
from tilewright.codegen.array.words import RECEIVE, WHEN, Record, record
from tilewright.simulator.arithmetic.integer_operation import AS_STORED, IntegerOperation
from tilewright.spec.layer import Window
from tilewright.spec.network import Add

EVERYTHING = {"channel_step": 1, "channel_first": 0, "row_step": 1, "row_first": 0}
"""What the border has of the network's input."""


BELOW_ALL = -(1 << 32)
"""Less than any value that is brought to another scale as it is read."""


def reader(
    timing: Timing, each: OperandStream, sender: Sender, operation: IntegerOperation, place: int
) -> Iterator[Record]:
    """Yield the address generator of a PE that sends what it holds, or of the border.

    Parameters
    ----------
    operation
        What is done with it.
    place
        Of what is sent among all that the layer reads.
    """
    work, operand = each.work, sender.operand
    yield record("reader", {
        "row": sender.end.pe[0], "column": sender.end.pe[1], "layer": work.stage.number,
        "start": timing.reader_start(each, sender), "port": sender.end.port, "source": operand.producer + 1,
    })  # fmt: skip
    yield record("loops", work.loops)
    rows = {"row_step": work.split.rows, "row_first": each.receivers[0].rows}
    yield record("share", {"channel_step": 1, **rows})
    border = 0
    if operation.kind == "MAX_POOL":
        as_stored = set(operation.reads) == {AS_STORED}
        border = -(1 << (timing.schedule.problem.machine.word_bits - 1)) if as_stored else BELOW_ALL
    yield record("window", _window(work) | {"border": border})
    yield record("maps", _maps(work, each.receivers[0]))
    shift, bits = operation.reads[place]
    yield record("operand", {
        "number": operand.number, "first": operand.first, "channels": operand.channels,
        "shift": shift, "bits": bits,
    })  # fmt: skip
    owner = EVERYTHING
    if sender.part is not None:
        step, first, _ = sender.part.channels
        producer = timing.streams.works[operand.producer]
        owner = {"channel_step": step, "channel_first": first, "row_step": producer.split.rows}
        owner |= {"row_first": sender.part.rows}
    yield record("owner", owner)
    yield from loop_words(timing, work)


def _window(work: LayerWork) -> dict[str, int]:
    """Return the window of a layer; a sum has one of a single pixel for each operand."""
    spec = work.stage.spec
    slides = isinstance(spec, Window) and not isinstance(spec, Add)
    stride, dilation = (spec.stride, spec.dilation) if slides else ((1, 1), (0, 0))
    return {
        "stride_y": stride[0], "stride_x": stride[1], "dilation_y": dilation[0], "dilation_x": dilation[1],
        "top": spec.padding[0], "left": spec.padding[2], "rows": spec.input[1], "columns": spec.input[2],
    }  # fmt: skip


def _maps(work: LayerWork, part: Part) -> dict[str, int]:
    """Return which maps are sent on which lanes; in a grouped convolution those of each filter."""
    split, task = work.split, work.stage.task
    maps = {"lanes": split.unit_maps, "step": split.maps, "first": part.maps, "count": part.map_count}
    if work.groups == 1:
        return maps | {"filters": 1, "receive": RECEIVE.index("first")}
    return maps | {
        "filters": split.unit_filters,
        "receive": RECEIVE.index("each"),
        "filter_step": split.filters,
        "filter_first": part.filters,
        "filter_count": part.filter_count,
        "group_filters": task.filters // work.groups,
        "group_maps": task.maps,
    }


def writer(timing: Timing, each: ValueStream, base: int) -> Iterator[Record]:
    """Yield the address generator at the border that takes the outputs of a PE.

    Parameters
    ----------
    base
        Where the layer's outputs begin among all.
    """
    work, (end,) = each.work, each.stream.sinks
    yield record("writer", {
        "row": end.pe[0], "column": end.pe[1], "layer": work.stage.number,
        "start": timing.writer_start(each), "port": end.port, "base": base,
    })  # fmt: skip
    yield record("loops", work.loops)
    yield share(work, each.part)
    sums = work.divides_filters
    lanes = work.split.unit_filters if sums else work.split.unit_maps
    yield record("strides", {"sum_m": lanes} if sums else {"sum_n": lanes})
    yield record("take", {"lanes": lanes, "when": WHEN.index("all" if sums else "window")})
    yield from loop_words(timing, work)
