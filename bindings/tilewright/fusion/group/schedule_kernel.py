"""One pass over all instructions of a group that is cut into tiles, compiled.

`tilewright.fusion.group.schedule` tells what it stands for. All numbers are in a few tables, because
compilation of a function takes longer with every array that it is given.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.core.jit import kernel, lean

Ints = NDArray[np.int64]


class What(IntEnum):
    """What an instruction does."""

    LOAD = 0  # a map
    FETCH = 1  # parameters
    COMPUTE = 2
    SAVE = 3
    FREE = 4  # a map's place on chip
    DROP = 5  # parameters


WHAT = tuple(what.name.lower() for what in What)
"""Names of what instructions do."""


class EngineIndex(IntEnum):
    """Places in `tilewright.fusion.machine.ENGINES`, as far as the kernel tells engines apart."""

    NONE = -1  # takes no time
    LOAD = 0
    SAVE = 1
    CONV = 2


class Record(IntEnum):
    """Columns of `Pass.records`."""

    ENGINE = 0
    WHAT = 1
    FEATURE = 2
    START = 3  # cycle
    FINISH = 4
    TOP = 5  # first row of the map
    BOTTOM = 6  # and the row behind the last one
    LEFT = 7
    RIGHT = 8
    FIRST_CHANNEL = 9
    END_CHANNEL = 10
    FIRST_SUMMED = 11  # input channels over which a convolution sums
    END_SUMMED = 12
    PLACE = 13  # which of two places on chip the map has


class Column(IntEnum):
    """Columns of `Pass.features`."""

    # As the group says.
    ENGINE = 0
    STAGE = 1  # of loaded maps, the first stage that reads them
    CHANNELS = 2
    SAVED = 3  # whether others than the group's operations need it
    WINDOW = 4  # kernel positions
    BIAS = 5  # whether each channel has one
    FLAT = 6  # other parameters of each channel
    SUMMED = 7  # input channels over which a convolution sums
    OPERANDS = 8  # values taken for an output value
    FIRST_READ = 9  # its rows of `Pass.reads`
    END_READ = 10
    HEIGHT = 20
    WIDE = 21
    FIRST_PIECE = 22  # its rows of `Pass.pieces`
    END_PIECE = 23
    # As the tile says; see `tilewright.fusion.group.schedule.GroupSchedule`.
    WHOLE = 11
    SLOTS = 12
    DOUBLED = 13
    # As the pass finds.
    READY = 14  # cycle at which the present residency is there
    USED = 15  # cycle at which its last reader is done
    RESIDENCIES = 16  # so far
    PLACE = 17  # which of two places the present residency has
    RELEASED = 18  # cycles at which the places of the last two residencies were free again: two columns
    COUNT = 24


class Setting(IntEnum):
    """Places in `Pass.settings`."""

    # Of the machine.
    IMAGES = 0  # at a time
    SCALE = 1  # bytes of a value times MHz, to be divided by a rate of transfer
    LOAD_RATE = 2
    SAVE_RATE = 3
    INS = 4  # input channels of the convolution array
    OUTS = 5  # its output channels
    HIGH = 6  # its rows
    RATE = 7  # operands per cycle of other engines
    # Of the tile.
    KERNELS = 8  # channels of a block
    DEPTH = 9  # input channels of a block
    KEEPS = 10  # whether halos are kept
    BY_KERNELS = 11  # whether the loop over kernels is outside
    SPLITS = 12  # whether input channels are split
    PASSES = 13  # whether parameters leave after each channel block
    PLACES = 14  # places for parameters of channel blocks, 0 if all are on chip
    MOST = 15  # cycle from which on nobody wants to know the end
    # Of the machine, as far as bursts take time.
    BYTES = 16  # of a value
    BURST_BYTES = 17
    BURST_CYCLES = 18  # 0 where bursts cost nothing


class Fetched(IntEnum):
    """What is known of parameters on chip: the last axis of `Pass.fetched`."""

    READY = 0  # cycle at which they are there, 0 if they are not
    USED = 1  # cycle until which they are used
    NUMBER = 2  # of the load, counted from 0


class Count(IntEnum):
    """Places in `Pass.counts`."""

    RECORDS = 0
    FETCHES = 1


class Pass(NamedTuple):
    """What a pass works on.

    Attributes
    ----------
    features : shape (features, Column.COUNT)
    reads : shape (n, 2)
        Maps that operations read, and the channels at which they begin in the operations' inputs.
    pieces : shape (n, 4)
        Of maps in DRAM: first and end of channels, channels of their array, and whether it is NCHW.
    order, begins
        Features by stage, and where each stage begins.
    down, across : shape (features, tiles, 2)
        What each row and each column of tiles needs.
    settings : shape (Setting,)
        Of the machine and the tile.
    engine_free : shape (engines,)
        Cycle at which each engine is done with what it was given.
    work_left : shape (engines,)
        Cycles that each engine still has to work, at least.
    fetched : shape (features, channel blocks, parts, Fetched)
        Parameters on chip, by channel block and part of the input channels.
    dropped
        Cycles at which the places of parameters were free again.
    counts : shape (Count,)
    records : shape (n, Record)
        Where instructions are written, as far as they fit.
    """

    features: Ints
    reads: Ints
    pieces: Ints
    order: Ints
    begins: Ints
    down: Ints
    across: Ints
    settings: Ints
    engine_free: Ints
    work_left: Ints
    fetched: Ints
    dropped: Ints
    counts: Ints
    records: Ints


@lean
def _record(
    p: Any,
    engine: int,
    what: int,
    feature: int,
    start: int,
    finish: int,
    region: Any,
) -> None:
    """Write an instruction down, if there is space.

    Parameters
    ----------
    region
        Its (top, bottom, left, right), its channels, and the input channels over which it sums.
    """
    n = p.counts[Count.RECORDS]
    p.counts[Count.RECORDS] = n + 1
    if n < len(p.records):
        plane, channels, summed = region
        p.records[n, Record.ENGINE], p.records[n, Record.WHAT] = engine, what
        p.records[n, Record.FEATURE] = feature
        p.records[n, Record.START], p.records[n, Record.FINISH] = start, finish
        p.records[n, Record.TOP], p.records[n, Record.BOTTOM] = plane[0], plane[1]
        p.records[n, Record.LEFT], p.records[n, Record.RIGHT] = plane[2], plane[3]
        p.records[n, Record.FIRST_CHANNEL], p.records[n, Record.END_CHANNEL] = channels
        p.records[n, Record.FIRST_SUMMED], p.records[n, Record.END_SUMMED] = summed
        p.records[n, Record.PLACE] = p.features[feature, Column.PLACE]


@lean
def _issue(
    p: Any,
    engine: int,
    what: int,
    feature: int,
    after: int,
    cycles: int,
    region: Any,
) -> Any:
    """Give an engine an instruction, to begin at `after` or when the engine is free; return its end."""
    start = max(p.engine_free[engine], after)
    finish = start + max(1, cycles)
    p.engine_free[engine] = finish
    p.work_left[engine] -= finish - start
    _record(p, engine, what, feature, start, finish, region)
    return finish


@lean
def _needed(p: Any, feature: int, tile: int) -> Any:
    """Return rows and columns of a map that a tile needs: top, bottom, left, right."""
    across = p.across.shape[1]
    row, column = tile // across, tile % across
    return (
        p.down[feature, row, 0],
        p.down[feature, row, 1],
        p.across[feature, column, 0],
        p.across[feature, column, 1],
    )


@lean
def _fresh(p: Any, feature: int, tile: int) -> Any:
    """Return what a tile needs and is not on chip from the tile before."""
    top, bottom, left, right = _needed(p, feature, tile)
    if p.settings[Setting.KEEPS] and tile:
        top = min(bottom, max(top, p.down[feature, tile - 1, 1]))
    return top, bottom, left, right


@lean
def _leaving(p: Any, feature: int, tile: int) -> Any:
    """Return what a tile has and the next one does not need."""
    top, bottom, left, right = _needed(p, feature, tile)
    if p.settings[Setting.KEEPS] and tile + 1 < p.down.shape[1]:
        bottom = min(bottom, p.down[feature, tile + 1, 0])
    return top, bottom, left, right


@lean
def _channels_read(p: Any, reader: int, feature: int, channels: Any) -> Any:
    """Return the channels of a map that an operation reads for a block of its own."""
    first = 0
    for k in range(p.features[reader, Column.FIRST_READ], p.features[reader, Column.END_READ]):
        if p.reads[k, 0] == feature:
            first = p.reads[k, 1]
            break
    low = max(0, channels[0] - first)
    return low, max(low, min(p.features[feature, Column.CHANNELS], channels[1] - first))


@lean
def _in_bursts(p: Any, runs: int, values: int) -> Any:
    """Return the cycles of the bursts of some runs of values that lie next to each other in DRAM."""
    bursts = -(-values * p.settings[Setting.BYTES] // p.settings[Setting.BURST_BYTES])
    return runs * bursts * p.settings[Setting.BURST_CYCLES]


@lean
def _map_bursts(p: Any, feature: int, plane: Any, channels: Any) -> Any:
    """Return the cycles of the bursts in which part of a map is moved."""
    rows, columns, cycles = plane[1] - plane[0], plane[3] - plane[2], 0
    wide = columns == p.features[feature, Column.WIDE]
    for k in range(p.features[feature, Column.FIRST_PIECE], p.features[feature, Column.END_PIECE]):
        count = min(channels[1], p.pieces[k, 1]) - max(channels[0], p.pieces[k, 0])
        if count <= 0:
            continue
        if p.pieces[k, 3]:
            runs, values = count * rows, columns
            if wide:
                runs, values = count, rows * columns
                if rows == p.features[feature, Column.HEIGHT]:
                    runs, values = 1, count * rows * columns
        else:
            runs, values = rows * columns, count
            if count == p.pieces[k, 2]:
                runs, values = rows, columns * count
                if wide:
                    runs, values = 1, rows * columns * count
        cycles += _in_bursts(p, p.settings[Setting.IMAGES] * runs, values)
    return cycles


@lean
def _transfer(p: Any, feature: int, rate: int, plane: Any, channels: Any) -> Any:
    """Return the cycles in which part of a map is moved."""
    area = (plane[1] - plane[0]) * (plane[3] - plane[2])
    values = p.settings[Setting.IMAGES] * area * (channels[1] - channels[0])
    cycles = -(-values * p.settings[Setting.SCALE] // rate)
    if values and p.settings[Setting.BURST_CYCLES]:
        cycles += _map_bursts(p, feature, plane, channels)
    return cycles


@lean
def _free_at(p: Any, feature: int) -> Any:
    """Return the cycle at which there is a place for the next residency of a map."""
    n, slots = p.features[feature, Column.RESIDENCIES], p.features[feature, Column.SLOTS]
    return p.features[feature, Column.RELEASED + n % slots] if n >= slots else 0


@lean
def _load(p: Any, feature: int, tile: int, channels: Any) -> None:
    """Load what a tile needs of a map."""
    plane = _fresh(p, feature, tile)
    cycles = _transfer(p, feature, p.settings[Setting.LOAD_RATE], plane, channels)
    if cycles:
        p.features[feature, Column.READY] = _issue(
            p, EngineIndex.LOAD, What.LOAD, feature, _free_at(p, feature), cycles, (plane, channels, (0, 0))
        )


@lean
def _end_residency(p: Any, feature: int, tile: int, channels: Any) -> None:
    """Save or free what is not needed any more."""
    plane = _leaving(p, feature, tile)
    done = max(p.features[feature, Column.READY], p.features[feature, Column.USED])
    cycles = _transfer(p, feature, p.settings[Setting.SAVE_RATE], plane, channels)
    if cycles and p.features[feature, Column.SAVED]:
        done = _issue(p, EngineIndex.SAVE, What.SAVE, feature, done, cycles, (plane, channels, (0, 0)))
    elif cycles:
        _record(p, EngineIndex.NONE, What.FREE, feature, done, done, (plane, channels, (0, 0)))
    n = p.features[feature, Column.RESIDENCIES]
    p.features[feature, Column.RELEASED + n % p.features[feature, Column.SLOTS]] = done
    p.features[feature, Column.RESIDENCIES] = n + 1


@lean
def _block(p: Any, index: int, channels: int) -> Any:
    """Return where a channel block begins and ends."""
    size = p.settings[Setting.KERNELS]
    return index * size, min((index + 1) * size, channels)


@lean
def _blocks(p: Any, channels: int) -> Any:
    """Return into how many blocks channels are cut."""
    return -(-channels // p.settings[Setting.KERNELS])


@lean
def _parameters(p: Any, block: Any, summed: Any) -> Any:
    """Return where `Pass.fetched` has a channel block and a part of the input channels: the middle axes."""
    return block[0] // p.settings[Setting.KERNELS], summed[0] // max(1, p.settings[Setting.DEPTH])


@lean
def _parameter_bursts(p: Any, feature: int, kernels: int, each: int, summed: Any) -> Any:
    """Return the cycles of the bursts of parameters, `each` for a kernel: OWHC, the bias first."""
    deep, window = summed[1] - summed[0], p.features[feature, Column.WINDOW]
    if deep == p.features[feature, Column.SUMMED]:
        return _in_bursts(p, 1, kernels * each)
    first = each - window * deep + deep  # the bias, if it comes, and the first position
    return _in_bursts(p, kernels, first) + _in_bursts(p, kernels * (window - 1), deep)


@lean
def _fetch(p: Any, feature: int, block: Any, summed: Any) -> Any:
    """Load parameters that are not on chip; return the cycle at which they are."""
    each = p.features[feature, Column.WINDOW] * (summed[1] - summed[0]) + p.features[feature, Column.FLAT]
    if summed[0] == 0:
        each += p.features[feature, Column.BIAS]
    if each == 0:
        return 0
    index, part = _parameters(p, block, summed)
    if p.fetched[feature, index, part, Fetched.READY] == 0:
        n, places = p.counts[Count.FETCHES], p.settings[Setting.PLACES]
        p.counts[Count.FETCHES] = n + 1
        after = p.dropped[n % places] if places and n >= places else 0
        cycles = -(-each * (block[1] - block[0]) * p.settings[Setting.SCALE] // p.settings[Setting.LOAD_RATE])
        if p.settings[Setting.BURST_CYCLES]:
            cycles += _parameter_bursts(p, feature, block[1] - block[0], each, summed)
        done = _issue(p, EngineIndex.LOAD, What.FETCH, feature, after, cycles, ((0, 0, 0, 0), block, summed))
        p.fetched[feature, index, part, Fetched.READY] = done
        p.fetched[feature, index, part, Fetched.USED] = done
        p.fetched[feature, index, part, Fetched.NUMBER] = n
    return p.fetched[feature, index, part, Fetched.READY]


@lean
def _drop(p: Any, feature: int, block: Any, summed: Any) -> None:
    """Free the place of parameters."""
    index, part = _parameters(p, block, summed)
    if p.fetched[feature, index, part, Fetched.READY]:
        used, places = p.fetched[feature, index, part, Fetched.USED], p.settings[Setting.PLACES]
        if places:
            p.dropped[p.fetched[feature, index, part, Fetched.NUMBER] % places] = used
        _record(p, EngineIndex.NONE, What.DROP, feature, used, used, ((0, 0, 0, 0), block, summed))
        p.fetched[feature, index, part, Fetched.READY] = 0


@lean
def _compute(p: Any, feature: int, tile: int, block: Any, summed: Any) -> None:
    """Compute a channel block of an operation, or a part of its sums."""
    plane = _fresh(p, feature, tile)
    rows, columns = plane[1] - plane[0], plane[3] - plane[2]
    if rows == 0:
        return
    split = p.settings[Setting.SPLITS] and feature == p.order[0]
    if split:
        for k in range(p.features[feature, Column.FIRST_READ], p.features[feature, Column.END_READ]):
            _load(p, p.reads[k, 0], tile, _channels_read(p, feature, p.reads[k, 0], summed))
    after = _fetch(p, feature, block, summed)
    for k in range(p.features[feature, Column.FIRST_READ], p.features[feature, Column.END_READ]):
        after = max(after, p.features[p.reads[k, 0], Column.READY])
    if summed[0] == 0:
        after = max(after, _free_at(p, feature))
    kernels = block[1] - block[0]
    if p.features[feature, Column.ENGINE] == EngineIndex.CONV:
        deep = -(-(summed[1] - summed[0]) // p.settings[Setting.INS])
        cycles = (
            deep
            * -(-kernels // p.settings[Setting.OUTS])
            * -(-rows // p.settings[Setting.HIGH])
            * columns
            * p.features[feature, Column.WINDOW]
        )
    else:
        values = p.settings[Setting.IMAGES] * rows * columns * kernels * p.features[feature, Column.OPERANDS]
        cycles = -(-values // p.settings[Setting.RATE])
    engine = p.features[feature, Column.ENGINE]
    done = _issue(p, engine, What.COMPUTE, feature, after, cycles, (plane, block, summed))
    p.features[feature, Column.READY] = done
    for k in range(p.features[feature, Column.FIRST_READ], p.features[feature, Column.END_READ]):
        p.features[p.reads[k, 0], Column.USED] = max(p.features[p.reads[k, 0], Column.USED], done)
    index, part = _parameters(p, block, summed)
    if p.fetched[feature, index, part, Fetched.READY]:
        used = p.fetched[feature, index, part, Fetched.USED]
        p.fetched[feature, index, part, Fetched.USED] = max(used, done)
        if p.settings[Setting.PASSES]:
            _drop(p, feature, block, summed)
    if split:
        for k in range(p.features[feature, Column.FIRST_READ], p.features[feature, Column.END_READ]):
            _end_residency(p, p.reads[k, 0], tile, _channels_read(p, feature, p.reads[k, 0], summed))


@lean
def _comes_in_parts(p: Any, feature: int) -> Any:
    """Whether a convolution that sums over some input channels at a time reads a map: no other one does."""
    head = p.order[0]
    if p.settings[Setting.SPLITS]:
        for k in range(p.features[head, Column.FIRST_READ], p.features[head, Column.END_READ]):
            if p.reads[k, 0] == feature:
                return True
    return False


@lean
def _begin_residencies(p: Any, tile: int, stage: int, index: int) -> None:
    """Load the maps that a stage needs whole, and choose places for those that it computes."""
    for feature in range(p.order[0]):
        if _comes_in_parts(p, feature):
            continue
        if p.features[feature, Column.STAGE] == stage and p.features[feature, Column.WHOLE]:
            if p.features[feature, Column.DOUBLED]:
                number = index if p.settings[Setting.KEEPS] else p.features[feature, Column.RESIDENCIES]
                p.features[feature, Column.PLACE] = number % 2
            _load(p, feature, tile, (0, p.features[feature, Column.CHANNELS]))
    for k in range(p.begins[stage], p.begins[stage + 1]):
        feature = p.order[k]
        if p.features[feature, Column.WHOLE] and p.features[feature, Column.DOUBLED]:
            p.features[feature, Column.PLACE] = p.features[feature, Column.RESIDENCIES] % 2


@lean
def _execute_block(p: Any, tile: int, stage: int, block: Any) -> None:
    """Execute all operations of a stage for a channel block."""
    head = p.order[0]
    for k in range(p.begins[stage], p.begins[stage + 1]):
        feature = p.order[k]
        if not p.features[feature, Column.WHOLE] and p.features[feature, Column.DOUBLED]:
            p.features[feature, Column.PLACE] = p.features[feature, Column.RESIDENCIES] % 2
        if p.settings[Setting.SPLITS] and feature == head:
            for first in range(0, p.features[feature, Column.SUMMED], p.settings[Setting.DEPTH]):
                _compute(
                    p,
                    feature,
                    tile,
                    block,
                    (first, min(first + p.settings[Setting.DEPTH], p.features[feature, Column.SUMMED])),
                )
            continue
        for j in range(p.features[feature, Column.FIRST_READ], p.features[feature, Column.END_READ]):
            source = p.reads[j, 0]
            if source < head and not p.features[source, Column.WHOLE]:
                if p.features[source, Column.DOUBLED]:
                    p.features[source, Column.PLACE] = p.features[source, Column.RESIDENCIES] % 2
                _load(p, source, tile, _channels_read(p, feature, source, block))
        _compute(p, feature, tile, block, (0, p.features[feature, Column.SUMMED]))
    for k in range(p.begins[stage], p.begins[stage + 1]):
        feature = p.order[k]
        if not (p.settings[Setting.SPLITS] and feature == head):
            for j in range(p.features[feature, Column.FIRST_READ], p.features[feature, Column.END_READ]):
                source = p.reads[j, 0]
                if source < head and not p.features[source, Column.WHOLE]:
                    _end_residency(p, source, tile, _channels_read(p, feature, source, block))
        if not p.features[feature, Column.WHOLE]:
            _end_residency(p, feature, tile, block)


@lean
def _end_residencies(p: Any, tile: int) -> None:
    """Save or free the maps that a tile had whole."""
    for feature in range(len(p.features)):
        if p.features[feature, Column.WHOLE] and not _comes_in_parts(p, feature):
            _end_residency(p, feature, tile, (0, p.features[feature, Column.CHANNELS]))


@lean
def _end(p: Any) -> Any:
    """Return a cycle before which the last instruction cannot end."""
    end = 0
    for engine in range(len(p.engine_free)):
        end = max(end, p.engine_free[engine] + max(0, p.work_left[engine]))
    return end


@lean
def _drop_block(p: Any, feature: int, block: Any) -> None:
    """Free the places of an operation's parameters for a channel block, of all input channels."""
    deep = p.features[feature, Column.SUMMED]
    splits = p.settings[Setting.SPLITS] and feature == p.order[0]
    size = p.settings[Setting.DEPTH] if splits else max(1, deep)
    for first in range(0, max(1, deep), size):
        _drop(p, feature, block, (first, min(first + size, deep)))


@lean
def _drop_all(p: Any) -> None:
    """Free the places of parameters that stay to the end."""
    for feature in p.order:
        channels = p.features[feature, Column.CHANNELS]
        for index in range(_blocks(p, channels)):
            _drop_block(p, feature, _block(p, index, channels))


@kernel(nogil=True)
def run(p: Any) -> int:
    """Issue all instructions; return the cycle at which the last one ends, or one that is late enough."""
    tiles = p.down.shape[1] * p.across.shape[1]
    if p.settings[Setting.BY_KERNELS]:
        channels = p.features[p.order[0], Column.CHANNELS]
        for index in range(_blocks(p, channels)):
            block = _block(p, index, channels)
            for tile in range(tiles):
                _begin_residencies(p, tile, 0, index)
                _execute_block(p, tile, 0, block)
                _end_residencies(p, tile)
                if _end(p) >= p.settings[Setting.MOST]:
                    return int(_end(p))
            for feature in p.order:
                _drop_block(p, feature, block)
    else:
        for tile in range(tiles):
            for stage in range(len(p.begins) - 1):
                _begin_residencies(p, tile, stage, 0)
                channels = p.features[p.order[p.begins[stage]], Column.CHANNELS]
                for index in range(_blocks(p, channels)):
                    _execute_block(p, tile, stage, _block(p, index, channels))
            _end_residencies(p, tile)
            if _end(p) >= p.settings[Setting.MOST]:
                return int(_end(p))
        if not p.settings[Setting.PASSES]:
            _drop_all(p)
    end = 0
    for engine in range(len(p.engine_free)):
        end = max(end, p.engine_free[engine])
    return int(end)
