"""What tests of pictures share: files that are whole, and figures on which nothing is cut off."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image


def check(path: Path) -> None:
    """The file is whole and of the kind that its suffix says."""
    if path.suffix == ".svg":
        assert ElementTree.parse(path).getroot().tag.endswith("svg")
        return
    if path.suffix == ".pdf":
        content = path.read_bytes()
        assert content.startswith(b"%PDF-") and content.rstrip().endswith(b"%%EOF")
        assert b"CreationDate" not in content
        return
    with Image.open(path) as image:
        assert image.format == path.suffix[1:].upper()
        image.load()


def check_fits(figure: Figure) -> None:
    """Nothing is drawn beyond the page."""
    box = figure.get_tightbbox(FigureCanvasAgg(figure).get_renderer())
    width, height = figure.get_size_inches()
    assert box.x0 >= 0
    assert box.y0 >= 0
    assert box.x1 <= width
    assert box.y1 <= height


def written(figure: Figure) -> list[str]:
    """Return all text on a figure."""
    return [text.get_text() for text in figure.findobj(Text) if isinstance(text, Text)]


def imported(module: str, slow: set[str]) -> set[str]:
    """Return which slow modules are imported along with a module, in a fresh interpreter."""
    code = f"import sys, {module}; print(*({slow!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())
