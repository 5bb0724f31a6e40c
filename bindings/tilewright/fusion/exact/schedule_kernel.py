"""One pass over all instructions of a group that is cut into tiles, compiled.

`tilewright.fusion.schedule` tells what it stands for. All numbers are in a few tables, because compilation of
a function takes longer with every array that it is given.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

Ints = NDArray[np.int64]

inner: Any = njit(no_cpython_wrapper=True, no_cfunc_wrapper=True)
"""For functions that only compiled ones call: without the ways in from Python they compile faster."""

WHAT = ("load", "fetch", "compute", "save", "free", "drop")
LOADS, FETCHES, COMPUTES, SAVES, FREES, DROPS = range(len(WHAT))
"""What instructions do."""

_LOAD, _SAVE, _CONV = 0, 1, 2
"""Places in `tilewright.fusion.problem.ENGINES`."""

RECORD = 14
"""Columns of a record: engine, what, feature, start, finish, then begins and ends of rows, columns, channels
and summed input channels, and the place on chip."""

(ENGINE, STAGE, CHANNELS, SAVED, WINDOW, BIAS, FLAT, SUMMED, OPERANDS, FIRST_READ, LAST_READ) = range(11)
"""Columns of `Pass.features`, as the fused says: the engine; the stage, of loaded maps the first one that
reads them; channels; whether others read it; kernel positions, bias and other parameters per channel; input
channels that are summed; values taken for an output value; its rows of `Pass.reads`."""

(WHOLE, SLOTS, DOUBLED) = range(11, 14)
"""As the tile says; see `tilewright.fusion.schedule.GroupSchedule`."""

(READY, USED, VISITS, PLACE, RELEASED) = range(14, 19)
"""As the pass finds: when the present visit is there, and when its last reader is done; visits so far; which
of two places the present one has; and when the places of the last two were free again."""

FEATURE = RELEASED + 2
"""Columns of `Pass.features`."""

(IMAGES, SCALE, LOAD_RATE, SAVE_RATE, ISSUE, INS, OUTS, HIGH, RATE) = range(9)
"""Places in `Pass.machine`: images at a time; bytes of a value times MHz, to be divided by the rates of LOAD
and SAVE; cycles of issue; the convolution array's sizes; operands per cycle."""

(KERNELS, DEPTH, KEEPS, BY_KERNELS, SPLITS, PASSES, PLACES, MOST) = range(9, 17)
"""Places in `Pass.machine`: channels and input channels of a turn; whether halos are kept, the loop over
kernels is outside, input channels are split, parameters pass; places for parameters of turns, 0 for all; and
the cycle from which on nobody wants to know the end."""


class Pass(NamedTuple):
    """What a pass works on.

    Attributes
    ----------
    features : shape (features, FEATURE)
    reads : shape (n, 2)
        Maps that operations read, and the channels at which they begin in the operations' inputs.
    order, begins
        Features by stage, and where each stage begins.
    down, across : shape (features, tiles, 2)
        What each row and each column of tiles needs.
    machine
        Of the machine and the tile.
    now
        When each engine is done with what it was given.
    left
        Cycles that each engine still has to work, at least.
    fetched : shape (features, turns, parts, 3)
        For parameters that are on chip: since when, until when they are used, and the number of the load.
    dropped
        When the places of parameters were free again.
    counts
        Of records, and of loads of parameters.
    records : shape (n, RECORD)
        Where records are written, as far as they fit.
    """

    features: Ints
    reads: Ints
    order: Ints
    begins: Ints
    down: Ints
    across: Ints
    machine: Ints
    now: Ints
    left: Ints
    fetched: Ints
    dropped: Ints
    counts: Ints
    records: Ints


@inner
def _record(
    p: Any,
    engine: int,
    what: int,
    feature: int,
    start: int,
    finish: int,
    plane: Any,
    channels: Any,
    summed: Any,
) -> None:
    n = p.counts[0]
    p.counts[0] = n + 1
    if n < len(p.records):
        row = p.records[n]
        row[0], row[1], row[2], row[3], row[4] = engine, what, feature, start, finish
        row[5], row[6], row[7], row[8] = plane
        row[9], row[10] = channels
        row[11], row[12] = summed
        row[13] = p.features[feature, PLACE]


@inner
def _issue(
    p: Any,
    engine: int,
    what: int,
    feature: int,
    after: int,
    cycles: int,
    plane: Any,
    channels: Any,
    summed: Any,
) -> Any:
    start = max(p.now[engine], after)
    finish = start + max(1, cycles)
    p.now[engine] = finish
    p.left[engine] -= finish - start
    _record(p, engine, what, feature, start, finish, plane, channels, summed)
    return finish


@inner
def _needed(p: Any, feature: int, tile: int) -> Any:
    across = p.across.shape[1]
    row, column = tile // across, tile % across
    return (
        p.down[feature, row, 0],
        p.down[feature, row, 1],
        p.across[feature, column, 0],
        p.across[feature, column, 1],
    )


@inner
def _new(p: Any, feature: int, tile: int) -> Any:
    top, bottom, left, right = _needed(p, feature, tile)
    if p.machine[KEEPS] and tile:
        top = min(bottom, max(top, p.down[feature, tile - 1, 1]))
    return top, bottom, left, right


@inner
def _leaving(p: Any, feature: int, tile: int) -> Any:
    top, bottom, left, right = _needed(p, feature, tile)
    if p.machine[KEEPS] and tile + 1 < p.down.shape[1]:
        bottom = min(bottom, p.down[feature, tile + 1, 0])
    return top, bottom, left, right


@inner
def _of_chunk(p: Any, reader: int, feature: int, channels: Any) -> Any:
    first = 0
    for k in range(p.features[reader, FIRST_READ], p.features[reader, LAST_READ]):
        if p.reads[k, 0] == feature:
            first = p.reads[k, 1]
            break
    low = max(0, channels[0] - first)
    return low, max(low, min(p.features[feature, CHANNELS], channels[1] - first))


@inner
def _transfer(p: Any, rate: int, plane: Any, channels: Any) -> Any:
    values = p.machine[IMAGES] * (plane[1] - plane[0]) * (plane[3] - plane[2]) * (channels[1] - channels[0])
    return -(-values * p.machine[SCALE] // rate)


@inner
def _free_at(p: Any, feature: int) -> Any:
    n, slots = p.features[feature, VISITS], p.features[feature, SLOTS]
    return p.features[feature, RELEASED + n % slots] if n >= slots else 0


@inner
def _load(p: Any, feature: int, tile: int, channels: Any) -> None:
    plane = _new(p, feature, tile)
    cycles = _transfer(p, p.machine[LOAD_RATE], plane, channels)
    if cycles:
        p.features[feature, READY] = _issue(
            p, _LOAD, LOADS, feature, _free_at(p, feature), cycles, plane, channels, (0, 0)
        )


@inner
def _leave(p: Any, feature: int, tile: int, channels: Any) -> None:
    plane = _leaving(p, feature, tile)
    done = max(p.features[feature, READY], p.features[feature, USED])
    cycles = _transfer(p, p.machine[SAVE_RATE], plane, channels)
    if cycles and p.features[feature, SAVED]:
        done = _issue(p, _SAVE, SAVES, feature, done, cycles, plane, channels, (0, 0))
    elif cycles:
        _record(p, -1, FREES, feature, done, done, plane, channels, (0, 0))
    n = p.features[feature, VISITS]
    p.features[feature, RELEASED + n % p.features[feature, SLOTS]] = done
    p.features[feature, VISITS] = n + 1


@inner
def _fetch(p: Any, feature: int, chunk: Any, summed: Any) -> Any:
    each = p.features[feature, WINDOW] * (summed[1] - summed[0]) + p.features[feature, FLAT]
    if summed[0] == 0:
        each += p.features[feature, BIAS]
    if each == 0:
        return 0
    turn, part = chunk[0] // p.machine[KERNELS], summed[0] // max(1, p.machine[DEPTH])
    if p.fetched[feature, turn, part, 0] == 0:
        n = p.counts[1]
        p.counts[1] = n + 1
        after = p.dropped[n % p.machine[PLACES]] if p.machine[PLACES] and n >= p.machine[PLACES] else 0
        cycles = -(-each * (chunk[1] - chunk[0]) * p.machine[SCALE] // p.machine[LOAD_RATE])
        done = _issue(p, _LOAD, FETCHES, feature, after, cycles, (0, 0, 0, 0), chunk, summed)
        p.fetched[feature, turn, part, 0] = done
        p.fetched[feature, turn, part, 1] = done
        p.fetched[feature, turn, part, 2] = n
    return p.fetched[feature, turn, part, 0]


@inner
def _drop(p: Any, feature: int, chunk: Any, summed: Any) -> None:
    entry = p.fetched[feature, chunk[0] // p.machine[KERNELS], summed[0] // max(1, p.machine[DEPTH])]
    if entry[0]:
        if p.machine[PLACES]:
            p.dropped[entry[2] % p.machine[PLACES]] = entry[1]
        _record(p, -1, DROPS, feature, entry[1], entry[1], (0, 0, 0, 0), chunk, summed)
        entry[0] = 0


@inner
def _compute(p: Any, feature: int, tile: int, chunk: Any, summed: Any) -> None:
    plane = _new(p, feature, tile)
    rows, columns = plane[1] - plane[0], plane[3] - plane[2]
    if rows == 0:
        return
    split = p.machine[SPLITS] and feature == p.order[0]
    if split:
        for k in range(p.features[feature, FIRST_READ], p.features[feature, LAST_READ]):
            _load(p, p.reads[k, 0], tile, _of_chunk(p, feature, p.reads[k, 0], summed))
    after = _fetch(p, feature, chunk, summed)
    for k in range(p.features[feature, FIRST_READ], p.features[feature, LAST_READ]):
        after = max(after, p.features[p.reads[k, 0], READY])
    if summed[0] == 0:
        after = max(after, _free_at(p, feature))
    kernels = chunk[1] - chunk[0]
    if p.features[feature, ENGINE] == _CONV:
        deep = -(-(summed[1] - summed[0]) // p.machine[INS])
        cycles = (
            deep
            * -(-kernels // p.machine[OUTS])
            * -(-rows // p.machine[HIGH])
            * columns
            * p.features[feature, WINDOW]
        )
    else:
        cycles = -(
            -p.machine[IMAGES] * rows * columns * kernels * p.features[feature, OPERANDS] // p.machine[RATE]
        )
    done = _issue(p, p.features[feature, ENGINE], COMPUTES, feature, after, cycles, plane, chunk, summed)
    p.features[feature, READY] = done
    for k in range(p.features[feature, FIRST_READ], p.features[feature, LAST_READ]):
        p.features[p.reads[k, 0], USED] = max(p.features[p.reads[k, 0], USED], done)
    entry = p.fetched[feature, chunk[0] // p.machine[KERNELS], summed[0] // max(1, p.machine[DEPTH])]
    if entry[0]:
        entry[1] = max(entry[1], done)
        if p.machine[PASSES]:
            _drop(p, feature, chunk, summed)
    if split:
        for k in range(p.features[feature, FIRST_READ], p.features[feature, LAST_READ]):
            _leave(p, p.reads[k, 0], tile, _of_chunk(p, feature, p.reads[k, 0], summed))


@inner
def _open(p: Any, tile: int, stage: int, turn: int) -> None:
    for feature in range(p.order[0]):
        if p.features[feature, STAGE] == stage and p.features[feature, WHOLE] and not p.machine[SPLITS]:
            if p.features[feature, DOUBLED]:
                p.features[feature, PLACE] = (turn if p.machine[KEEPS] else p.features[feature, VISITS]) % 2
            _load(p, feature, tile, (0, p.features[feature, CHANNELS]))
    for k in range(p.begins[stage], p.begins[stage + 1]):
        feature = p.order[k]
        if p.features[feature, WHOLE] and p.features[feature, DOUBLED]:
            p.features[feature, PLACE] = p.features[feature, VISITS] % 2


@inner
def _turn(p: Any, tile: int, stage: int, chunk: Any) -> None:
    head = p.order[0]
    for k in range(p.begins[stage], p.begins[stage + 1]):
        feature = p.order[k]
        if not p.features[feature, WHOLE] and p.features[feature, DOUBLED]:
            p.features[feature, PLACE] = p.features[feature, VISITS] % 2
        if p.machine[SPLITS] and feature == head:
            for first in range(0, p.features[feature, SUMMED], p.machine[DEPTH]):
                _compute(
                    p,
                    feature,
                    tile,
                    chunk,
                    (first, min(first + p.machine[DEPTH], p.features[feature, SUMMED])),
                )
            continue
        for j in range(p.features[feature, FIRST_READ], p.features[feature, LAST_READ]):
            source = p.reads[j, 0]
            if source < head and not p.features[source, WHOLE]:
                if p.features[source, DOUBLED]:
                    p.features[source, PLACE] = p.features[source, VISITS] % 2
                _load(p, source, tile, _of_chunk(p, feature, source, chunk))
        _compute(p, feature, tile, chunk, (0, p.features[feature, SUMMED]))
    for k in range(p.begins[stage], p.begins[stage + 1]):
        feature = p.order[k]
        if not (p.machine[SPLITS] and feature == head):
            for j in range(p.features[feature, FIRST_READ], p.features[feature, LAST_READ]):
                source = p.reads[j, 0]
                if source < head and not p.features[source, WHOLE]:
                    _leave(p, source, tile, _of_chunk(p, feature, source, chunk))
        if not p.features[feature, WHOLE]:
            _leave(p, feature, tile, chunk)


@inner
def _close(p: Any, tile: int) -> None:
    for feature in range(len(p.features)):
        if p.features[feature, WHOLE] and not (p.machine[SPLITS] and feature < p.order[0]):
            _leave(p, feature, tile, (0, p.features[feature, CHANNELS]))


@inner
def _end(p: Any) -> Any:
    """Return a cycle before which the last instruction cannot end."""
    end = 0
    for engine in range(len(p.now)):
        end = max(end, p.now[engine] + max(0, p.left[engine]))
    return end


@njit(cache=True, nogil=True)
def run(p: Any) -> int:
    """Issue all instructions; return the cycle at which the last one ends, or one that is late enough."""
    stages = len(p.begins) - 1
    tiles = p.down.shape[1] * p.across.shape[1]
    if p.machine[BY_KERNELS]:
        channels = p.features[p.order[0], CHANNELS]
        for turn in range(-(-channels // p.machine[KERNELS])):
            chunk = (turn * p.machine[KERNELS], min((turn + 1) * p.machine[KERNELS], channels))
            for tile in range(tiles):
                _open(p, tile, 0, turn)
                _turn(p, tile, 0, chunk)
                _close(p, tile)
                if _end(p) >= p.machine[MOST]:
                    return int(_end(p))
            if not p.machine[PASSES]:
                for feature in p.order:
                    _drop(p, feature, chunk, (0, p.features[feature, SUMMED]))
    else:
        for tile in range(tiles):
            for stage in range(stages):
                _open(p, tile, stage, 0)
                channels = p.features[p.order[p.begins[stage]], CHANNELS]
                for turn in range(-(-channels // p.machine[KERNELS])):
                    _turn(
                        p,
                        tile,
                        stage,
                        (turn * p.machine[KERNELS], min((turn + 1) * p.machine[KERNELS], channels)),
                    )
            _close(p, tile)
            if _end(p) >= p.machine[MOST]:
                return int(_end(p))
        if not p.machine[PASSES]:
            for feature in p.order:
                channels = p.features[feature, CHANNELS]
                deep = p.features[feature, SUMMED]
                size = p.machine[DEPTH] if p.machine[SPLITS] and feature == p.order[0] else max(1, deep)
                for turn in range(-(-channels // p.machine[KERNELS])):
                    chunk = (turn * p.machine[KERNELS], min((turn + 1) * p.machine[KERNELS], channels))
                    for first in range(0, max(1, deep), size):
                        _drop(p, feature, chunk, (first, min(first + size, deep)))
    return int(p.now.max())
