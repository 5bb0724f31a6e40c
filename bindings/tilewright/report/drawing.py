"""A network's graph and a room's own picture, as a page has them."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple

from tilewright.core.overview import GraphNode
from tilewright.plotting.layered_graph import Item, LayeredGraph, ranks
from tilewright.plotting.style import style
from tilewright.plotting.text import shortened

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_NODES = 400
"""Most layers of a graph that is drawn: of more nothing could be read."""

ROWS = 16
"""About how many layers stand below each other."""

BOX, GAP = (148.0, 24.0), (12.0, 14.0)
MARGIN = 4.0
LONGEST = 22
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
    graph = LayeredGraph(reads, range(len(nodes)), -(-max(ranks(reads)) // ROWS), BOX, GAP)
    wide, tall = BOX

    def boxed(number: int) -> Box:
        node = nodes[number]
        x, y = graph.x[Item(number)] - wide / 2, graph.y[graph.row[number]] - tall / 2
        return Box(x + MARGIN, y + MARGIN, shortened(node.name, LONGEST), node)

    edges = []
    for segment in graph.segments:
        x, end = graph.x[segment.start] + MARGIN, graph.x[segment.end] + MARGIN
        y, low = graph.y[segment.row] + tall / 2 + MARGIN, graph.y[segment.row + 1] - tall / 2 + MARGIN
        middle = (y + low) / 2
        on = f" V{low + tall:.1f}" if segment.end.column >= 0 else ""
        edges.append(f"M{x:.1f} {y:.1f}C{x:.1f} {middle:.1f} {end:.1f} {middle:.1f} {end:.1f} {low:.1f}{on}")
    boxes = [boxed(number) for number in range(len(nodes))]
    return Drawn(graph.width + 2 * MARGIN, graph.height + 2 * MARGIN, BOX, boxes, edges)


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
