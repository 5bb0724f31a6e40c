"""A network's graph and a room's own picture, as a page has them."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple

from tilewright.core.overview import GraphNode
from tilewright.plotting.layered_graph import Item, LayeredGraph, Segment, ranks
from tilewright.plotting.style import style
from tilewright.plotting.text import shortened

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_NODES = 400
"""Most layers of a graph that is drawn: of more nothing could be read."""

ROWS = 16
"""About how many layers stand below each other."""

LEAST, LETTER, TALL = 100.0, 6.4, 24.0
"""Least width of a box, the width of a letter in it, and its height."""

GAP = (12.0, 14.0)
MARGIN = 4.0
LONGEST = 60
"""Most characters of a name in a box."""

MOST_BYTES = 1_500_000
"""Largest picture that is kept as SVG."""

PNG_DPI = 130


class Box(NamedTuple):
    """A layer: its upper left corner, and what is told of it."""

    x: float
    y: float
    label: str
    node: GraphNode


class Drawn(NamedTuple):
    """A graph: boxes, and edges as paths of SVG."""

    width: float
    height: float
    size: tuple[float, float]
    boxes: list[Box]
    edges: list[str]


def drawn(nodes: Sequence[GraphNode]) -> Drawn | None:
    """Return where everything lies; None for no graph, or one that is too large."""
    if not 1 < len(nodes) <= MOST_NODES:
        return None
    reads = [node.reads or (-1,) for node in nodes]
    longest = max(len(shortened(node.name, LONGEST)) for node in nodes)
    wide, tall = box = max(LEAST, 12 + LETTER * longest), TALL
    graph = LayeredGraph(reads, range(len(nodes)), -(-max(ranks(reads)) // ROWS), box, GAP)

    def boxed(number: int) -> Box:
        node = nodes[number]
        x, y = graph.x[Item(number)] - wide / 2, graph.y[graph.row[number]] - tall / 2
        return Box(x + MARGIN, y + MARGIN, shortened(node.name, LONGEST), node)

    def path(segment: Segment) -> str:
        start, *rest = [f"{x + MARGIN:.1f} {y + MARGIN:.1f}" for x, y in graph.corners(segment)]
        return f"M{start}C{' '.join(rest[:3])}" + "".join(f"L{point}" for point in rest[3:])

    edges = [path(segment) for segment in graph.segments]
    boxes = [boxed(number) for number in range(len(nodes))]
    return Drawn(graph.width + 2 * MARGIN, graph.height + 2 * MARGIN, box, boxes, edges)


@style()
def embedded(figure: Figure) -> str:
    """Return a figure as the address of an image that holds it: SVG, or PNG where that is too large."""
    content = BytesIO()
    figure.savefig(content, format="svg", metadata={"Date": None})
    kind = "svg+xml"
    if content.tell() > MOST_BYTES:
        content, kind = BytesIO(), "png"
        figure.savefig(content, format="png", dpi=PNG_DPI, metadata={"Software": None})
    return f"data:image/{kind};base64,{base64.b64encode(content.getvalue()).decode()}"
