"""The words of a loop nest: one for all iterations of a beat, the waits of a beat, those between frames."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.codegen.array.parts import LayerWork, Part
from tilewright.codegen.array.timing import Timing
from tilewright.codegen.array.words import RECEIVE, THEN, WHAT, Record, record


def loop_words(
    timing: Timing, work: LayerWork, receive: str = "never", slots: Sequence[Record] = ()
) -> list[Record]:
    """Return the words of a layer's loops, with what the functional units do in an iteration."""
    number, schedule = work.stage.number, timing.schedule
    wait = schedule.paces[number] - schedule.works[number]
    gap = timing.interval - schedule.beats[number] * schedule.paces[number]
    idle = [record("unit")] * len(slots)
    after = "beat" if gap else "both"
    words = [_word("iterate", "next" if wait else after, 1, receive), *slots]
    if wait:
        words += [_word("wait", after, wait), *idle]
    if gap:
        words += [_word("wait", "frame", gap), *idle]
    return words


def _word(what: str, then: str, repeat: int, receive: str = "never") -> Record:
    values = {"what": WHAT.index(what), "receive": RECEIVE.index(receive), "then": THEN.index(then)}
    return record("word", values | {"repeat": repeat})


def share(work: LayerWork, part: Part) -> Record:
    """Return which channels and rows a PE computes."""
    step, first, count = part.channels
    channels = {"channel_step": step, "channel_first": first, "channels": count}
    return record("share", channels | {"row_step": work.split.rows, "row_first": part.rows})
