"""The charts of a report, as Vega-Lite takes them: data and how it is drawn, in the page's colours."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from tilewright.core.overview import Front, Moved, Overview, Point, Roof, Span, Traffic

Spec = dict[str, Any]

MOST_BARS = 80
"""Most layers that a chart has a bar for; of more, those with the most traffic are shown."""

OPERANDS = {
    "input": "--input",
    "weights": "--weights",
    "output": "--output",
    "partial sums": "--partial",
    "MACs": "--macs",
}
"""Variables of the page's style that have the sheets' colours of operands; others take `SERIES` in turn."""

SERIES = ("--series-1", "--series-2", "--series-3", "--series-4", "--series-5", "--series-6")

LABEL = {
    "labelColor": "var(--ink)",
    "titleColor": "var(--ink)",
    "titleFontWeight": "normal",
    "labelFontSize": 11,
    "titleFontSize": 12,
}
CONFIG: Spec = {
    "background": None,
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "axis": {
        **LABEL,
        "domainColor": "var(--line)",
        "tickColor": "var(--line)",
        "gridColor": "var(--grid)",
        "labelOverlap": "greedy",
    },
    "axisX": {"labelSeparation": 6},
    "legend": {**LABEL, "orient": "top", "title": None, "symbolType": "square"},
    "bar": {"color": "var(--series-1)"},
    "text": {"color": "var(--ink)", "fontSize": 11},
}

THICK, THIN = 34, 15
"""Pixels of a bar with its space, where there are few and where there are many."""

TICK: Spec = {"type": "tick", "color": "var(--ink)", "thickness": 2}
RING: Spec = {"type": "point", "color": "var(--ink)", "size": 24, "strokeWidth": 1.2}
"""What marks an amount beside a layer's bar."""

AMOUNTS: Spec = {"format": "~s", "tickCount": 8}
"""An axis of bytes or other large numbers."""

FEW: Spec = {"format": ",.10~g", "tickCount": 8}
"""An axis of numbers that need no prefix."""

NAMES: Spec = {"expr": "max(130, 0.5 * containerSize()[0])"}
"""Pixels of a layer's name beside its bar."""


class Chart(NamedTuple):
    """A chart with its heading, and what it shows in a sentence or two."""

    key: str
    title: str
    about: str
    spec: Spec


def charts(
    overview: Overview, trace: Sequence[tuple[float, int | None, int | None]], unit: str
) -> list[Chart]:
    """Return the charts that there are data for."""
    found, colours = [], _limits([*overview.spans, *overview.points])
    if overview.spans:
        found.append(_timeline(overview.spans, colours))
    if overview.roof is not None and overview.points:
        found.append(_roofline(overview.roof, overview.points, colours))
    if overview.traffic:
        found.append(_totals(overview.traffic, overview.simple))
        if len({each.name for each in overview.traffic}) > 1:
            found.append(_by_layer(overview.traffic, overview.simple))
    if len({each.memory for each in overview.memories}) > 1:
        found.append(_memories(overview.memories))
    if overview.front is not None and len(overview.front.points) > 1:
        found.append(_front(overview.front))
    if len({objective for _, objective, _ in trace if objective is not None}) > 1:
        found.append(_trace(trace, unit))
    return found


def _spec(values: Iterable[dict[str, Any]], **rest: Any) -> Spec:
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "data": {"values": list(values)},
        "width": "container",
        "autosize": {"type": "fit-x", "contains": "padding"},
        "config": CONFIG,
        **rest,
    }


def _colours(names: Iterable[str], known: dict[str, str] | None = None) -> Spec:
    """Return the scale that gives each name its colour."""
    domain = list(dict.fromkeys(names))
    free = iter(SERIES * (1 + len(domain) // len(SERIES)))
    colours = [f"var({(known or {}).get(name) or next(free)})" for name in domain]
    return {"scale": {"domain": domain, "range": colours}, "legend": {"title": None}}


def _in_order(names: Iterable[str], known: dict[str, str]) -> list[str]:
    """Return different names, those that are known in their order."""
    found = dict.fromkeys(names)
    return [name for name in known if name in found] + [name for name in found if name not in known]


def _field(field: str, kind: str = "quantitative", title: str | None = None, **rest: Any) -> Spec:
    return {"field": field, "type": kind, "title": title or field, **rest}


def _amounts(numbers: Iterable[float]) -> Spec:
    """Return the axis of some numbers."""
    return AMOUNTS if max(map(abs, numbers), default=0) >= 10_000 else FEW


def _limits(spans: Iterable[Span | Point]) -> tuple[Spec, list[Spec]]:
    """Return the colour by what limits a layer, and the tooltip's line; one colour where that is not told."""
    names = [span.limited_by for span in spans if span.limited_by]
    if not names:
        return {"value": "var(--series-1)"}, []
    scale = _colours([*dict.fromkeys(names), "not told"])
    if all(span.limited_by for span in spans):
        scale = _colours(names)
    return _field("limited by", "nominal", **scale), [_field("limited by", "nominal")]


def _timeline(spans: Sequence[Span], colours: tuple[Spec, list[Spec]]) -> Chart:
    colour, told = colours
    values = [
        {
            "layer": span.name,
            "start": span.start_ms,
            "end": span.end_ms,
            "takes": span.end_ms - span.start_ms,
            "in use": span.utilisation,
            "none": 0,
            "limited by": span.limited_by or "not told",
        }
        for span in spans
    ]
    encoding = {
        "x": _field("start", title="milliseconds", axis={"grid": False, "tickCount": 10}),
        "x2": {"field": "end"},
        "y": _field("none", title="multipliers in use", scale={"domain": [0, 1]}, axis={"format": ".0%"}),
        "y2": {"field": "in use"},
        "color": colour,
        "tooltip": [
            _field("layer", "nominal"),
            *(_field(name, title=f"{name}, ms", format=",.4~f") for name in ("start", "takes")),
            _field("in use", title="multipliers in use", format=".1%"),
            *told,
        ],
    }
    mark = {"type": "rect", "stroke": "var(--card)", "strokeWidth": 0.7}
    about = (
        "The layers one after the other. Wide is slow; the height says which share of the multipliers works, "
        "so that the area is the work that is done."
    )
    return Chart("timeline", "Timeline", about, _spec(values, height=190, mark=mark, encoding=encoding))


def _roofline(roof: Roof, points: Sequence[Point], colours: tuple[Spec, list[Spec]]) -> Chart:
    colour, told = colours
    corner = [] if roof.gigabytes is None else [roof.gops / roof.gigabytes]  # where slope and level meet
    across = [point.intensity for point in points] + corner
    low, high = min(across) / 2, max(across) * 2
    corners = [low, *corner, high]
    limit = [
        {"x": x, "y": roof.gops if roof.gigabytes is None else min(roof.gops, roof.gigabytes * x)}
        for x in corners
    ]
    least = min([point.gops for point in points] + [end["y"] for end in limit]) / 1.5
    values = [
        {
            "layer": point.name,
            "x": point.intensity,
            "y": point.gops,
            "share": point.share,
            "limited by": point.limited_by or "not told",
        }
        for point in points
    ]
    # One nice scale for both: fixed ends, else the line of the roof would be lengthened by empty space.
    x = _field(
        "x", title=f"operations per byte of {roof.memory}", scale={"type": "log", "domain": [low, high]}
    )
    y = _field("y", title="GOPs/s", scale={"type": "log", "domain": [least, roof.gops * 1.5]})
    encoding = {
        "x": x,
        "y": y,
        "color": colour,
        "size": _field("share", scale={"rangeMin": 40, "rangeMax": 500}, legend=None),
        "tooltip": [
            _field("layer", "nominal"),
            _field("x", title="operations per byte", format=",.1f"),
            _field("y", title="GOPs/s", format=",.2f"),
            _field("share", format=".1%"),
            *told,
        ],
    }
    layers = [
        {
            "data": {"values": limit},
            "mark": {"type": "line", "color": "var(--ink)", "strokeWidth": 1.5},
            "encoding": {"x": x, "y": y},
        },
        {
            "mark": {
                "type": "circle",
                "opacity": 0.75,
                "stroke": "var(--card)",
                "strokeWidth": 0.7,
                "clip": True,
            },
            "encoding": encoding,
        },
    ]
    return Chart("roofline", "Roofline", _about_roofline(roof), _spec(values, height=340, layer=layers))


def _about_roofline(roof: Roof) -> str:
    slope = (
        ""
        if roof.gigabytes is None
        else f", to the left by the {roof.gigabytes:,.4g} GB/s of {roof.memory} (the slope)"
    )
    return (
        "Each circle is a layer, its size its share of the whole. The line is what the machine can do at "
        f"most: {roof.gops:,.4g} GOPs/s{slope}. Layers near the line use the machine well."
    )


def _operand_colour(names: Iterable[str]) -> Spec:
    return _field("operand", "nominal", **_colours(_in_order(names, OPERANDS), OPERANDS))


def _stacking(operands: Sequence[str]) -> list[dict[str, Any]]:
    """Return the order in which operands are stacked, that of the legend, as a transformation."""
    return [{"calculate": f"indexof({json.dumps(list(operands))}, datum.operand)", "as": "place"}]


def _totals(traffic: Sequence[Traffic], simple: tuple[str, str] | None) -> Chart:
    operands = _in_order((each.operand for each in traffic), OPERANDS)
    bars = {"this plan": "moved_bytes", "least possible": "least_bytes"}
    if simple is not None:
        bars = {simple[0]: "simple_bytes", **bars}
    values = [
        {
            "which": which,
            "operand": operand,
            "bytes": sum(getattr(each, key) or 0.0 for each in traffic if each.operand == operand),
        }
        for which, key in bars.items()
        for operand in operands
    ]
    totals = {which: sum(getattr(each, key) or 0.0 for each in traffic) for which, key in bars.items()}
    encoding = {
        "y": _field("which", "nominal", sort=None, axis={"title": None}),
        "x": _field("bytes", axis=AMOUNTS, stack=True),
        "color": _operand_colour(operands),
        "order": {"field": "place"},
        "tooltip": [
            _field("which", "nominal"),
            _field("operand", "nominal"),
            _field("bytes", format=",.0f"),
        ],
    }
    moved = totals["this plan"]
    compared = [f"{_megabytes(moved)} with this plan"]
    if simple is not None:
        compared.append(f"{_megabytes(totals[simple[0]])} with {simple[0]} ({simple[1]})")
    ratio = f", of which this plan moves {moved / totals['least possible']:.2f} times" if moved else ""
    least = f"{_megabytes(totals['least possible'])} at least{ratio}"
    about = (
        f"What crosses the boundary of the chip: {', '.join(compared)}, {least}. The least possible is each "
        "input, weight and output once, as on a machine whose memory holds a whole layer: no plan that takes "
        "layers one by one moves less."
    )
    spec = _spec(
        values, height=len(bars) * THICK, mark="bar", transform=_stacking(operands), encoding=encoding
    )
    return Chart("traffic", "Traffic before, after, and at least", about, spec)


def _megabytes(size: float) -> str:
    return f"{size / 1e6:,.3g} MB" if size < 1e9 else f"{size / 1e6:,.0f} MB"


def _by_layer(traffic: Sequence[Traffic], simple: tuple[str, str] | None) -> Chart:
    total: dict[str, float] = {}
    least: dict[str, float] = {}
    before: dict[str, float] = {}
    for each in traffic:
        total[each.name] = total.get(each.name, 0.0) + each.moved_bytes
        least[each.name] = least.get(each.name, 0.0) + each.least_bytes
        before[each.name] = before.get(each.name, 0.0) + (each.simple_bytes or 0.0)
    largest = set(sorted(total, key=lambda name: -total[name])[:MOST_BARS])
    operands = _in_order((each.operand for each in traffic), OPERANDS)
    values = [
        {"layer": each.name, "operand": each.operand, "bytes": each.moved_bytes}
        for each in traffic
        if each.name in largest
    ]
    y = _field(
        "layer",
        "nominal",
        sort=None,
        axis={"title": None, "labelLimit": NAMES, "labelOverlap": False},
    )
    layers = [
        {
            "mark": "bar",
            "transform": _stacking(operands),
            "encoding": {
                "y": y,
                "x": _field("bytes", axis={**AMOUNTS, "orient": "top"}, stack=True),
                "color": _operand_colour(operands),
                "order": {"field": "place"},
                "tooltip": [
                    _field("layer", "nominal"),
                    _field("operand", "nominal"),
                    _field("bytes", format=",.0f"),
                ],
            },
        },
        _marks({name: least[name] for name in largest}, y, "least possible", TICK),
    ]
    told = "the tick is the least possible"
    if simple is not None:
        layers.append(_marks({name: before[name] for name in largest}, y, simple[0], RING))
        told += f", the ring what {simple[0]} move"
    rest = f" The {len(largest)} layers with the most of it." if len(largest) < len(total) else ""
    about = f"Bytes from and to the outermost memory; {told}.{rest}"
    return Chart(
        "layers", "Traffic of each layer", about, _spec(values, height=THIN * len(largest), layer=layers)
    )


def _marks(amounts: Mapping[str, float], y: Spec, title: str, mark: Spec) -> Spec:
    """Return a mark in the row of each layer that has an amount."""
    return {
        "data": {"values": [{"layer": name, "bytes": amount} for name, amount in amounts.items() if amount]},
        "mark": mark,
        "encoding": {
            "y": y,
            "x": _field("bytes"),
            "tooltip": [_field("layer", "nominal"), _field("bytes", title=f"{title}, bytes", format=",.0f")],
        },
    }


def _memories(memories: Sequence[Moved]) -> Chart:
    priced = any(each.microjoules for each in memories)
    if not priced:
        memories = [each for each in memories if each.moved_bytes]
    operands = _in_order((each.operand for each in memories), OPERANDS)
    field, title = ("microjoules", "microjoules") if priced else ("bytes", "bytes")
    values = [
        {
            "memory": each.memory,
            "operand": each.operand,
            "bytes": each.moved_bytes,
            "microjoules": each.microjoules or 0,
        }
        for each in memories
    ]
    sums: dict[str, float] = {}
    for each in memories:
        amount = each.microjoules if priced else each.moved_bytes
        sums[each.memory] = sums.get(each.memory, 0.0) + (amount or 0.0)
    encoding = {
        "y": _field("memory", "nominal", sort=None, axis={"title": None}),
        "x": _field(field, title=title, axis=_amounts(sums.values()), stack=True),
        "color": _operand_colour(operands),
        "order": {"field": "place"},
        "tooltip": [
            _field("memory", "nominal"),
            _field("operand", "nominal"),
            _field("bytes", format=",.0f"),
            *([_field("microjoules", format=",.1f")] if priced else []),
        ],
    }
    what = "energy" if priced else "traffic"
    about = f"The {what} of all layers together, by the memory that is read or written and by what is moved."
    height = THICK * len({each.memory for each in memories})
    spec = _spec(values, height=height, mark="bar", transform=_stacking(operands), encoding=encoding)
    return Chart("memories", f"Where the {what} goes", about, spec)


def _front(front: Front) -> Chart:
    across, up = (_amounts(numbers) for numbers in zip(*front.points, strict=True))
    encoding = {
        "x": _field("x", title=front.across, axis=across, scale={"zero": False}),
        "y": _field("y", title=front.up, axis=up, scale={"zero": False}),
        "tooltip": [_field("x", title=front.across, format=","), _field("y", title=front.up, format=",")],
    }
    about = "Each point is a plan than which none is better in both: less of one costs more of the other."
    if front.marked is not None:  # of a curve, which reaches over several powers of ten
        for axis in ("x", "y"):
            encoding[axis]["scale"] = {"type": "log"}  # type: ignore[index]
    mark = {
        "type": "line",
        "interpolate": "step-after",
        "color": "var(--series-1)",
        "point": {"size": 40, "color": "var(--series-1)"},
    }
    spec = _spec([{"x": x, "y": y} for x, y in front.points], height=320)
    line = {"mark": mark, "encoding": encoding}
    if front.marked is None:
        spec |= line
    else:
        x, y = front.marked
        own = {"type": "point", "shape": "diamond", "size": 160, "filled": True, "color": "var(--series-2)"}
        spec["layer"] = [line, {"data": {"values": [{"x": x, "y": y}]}, "mark": own, "encoding": encoding}]
    return Chart("front", "Trade-off", front.about or about, spec)


def _trace(trace: Sequence[tuple[float, int | None, int | None]], unit: str) -> Chart:
    values = [
        {"seconds": seconds, "what": what, "value": value}
        for seconds, objective, bound in trace
        for what, value in (("best plan", objective), ("bound", bound))
        if value is not None
    ]
    encoding = {
        "x": _field("seconds", axis={"tickCount": 10}),
        "y": _field("value", title=unit, axis=AMOUNTS, scale={"zero": False}),
        "color": _field("what", "nominal", **_colours(["best plan", "bound"])),
        "tooltip": [
            _field("what", "nominal"),
            _field("seconds", format=",.1f"),
            _field("value", title=unit, format=","),
        ],
    }
    mark = {"type": "line", "interpolate": "step-after", "point": {"size": 25}}
    found = [objective for _, objective, _ in trace if objective is not None]
    saved = f", {100 * (found[0] - found[-1]) / found[0]:.1f} % less" if found[0] else ""
    about = (
        "The cost of the best plan known, and what no plan can cost less than, while the search ran. "
        f"The first plan cost {found[0]:,} {unit}, the last one {found[-1]:,}{saved}."
    )
    return Chart("search", "The search", about, _spec(values, height=200, mark=mark, encoding=encoding))
