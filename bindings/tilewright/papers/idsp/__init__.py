"""Tables and figures of the thesis on the imaging DSP: its numbers, ours, and the distance.

"As published" is the thesis's own model: its closed forms (every edge tile a full one), its five schedules,
and layers with channel groups as one layer whose kernels all see the same ``Kc`` input maps. "Exact" is what
the simulator measures, with the groups apart.
"""

from __future__ import annotations

from pathlib import Path

from tilewright.papers.figures import Part, Say, make_parts
from tilewright.papers.idsp.bit_widths import print_bit_widths
from tilewright.papers.idsp.chapter_8 import print_chapter_8
from tilewright.papers.idsp.compute import print_compute
from tilewright.papers.idsp.energy import print_energy
from tilewright.papers.idsp.figure_7_5 import print_figure_7_5
from tilewright.papers.idsp.figures import draw_figures
from tilewright.papers.idsp.mapping import print_mapping
from tilewright.papers.idsp.platforms import print_platforms
from tilewright.papers.idsp.table_5_3 import print_table_5_3

FIGURES = {
    "idsp": "chapters 5, 7 and 8 of the imaging DSP's thesis (mapping): the parts below but the last",
    "idsp-table5.3": "table 5.3: optimal tiles and buffer sizes for fewest accesses",
    "idsp-figures": "figures 5.5, 5.6, 5.8 to 5.10 and 5.12, drawn",
    "idsp-chapter8": "chapter 8: accesses, Ops/byte and throughput of every layer at 64 KB",
    "idsp-figure7.5": "figure 7.5: AlexNet's layers without reuse between tiles and without tiles of Kc",
    "idsp-energy": "tables 7.4, 7.6, 7.10 and 7.11: local traffic, energy, run-time",
    "idsp-compute": "tables 7.3 to 7.6, figures 7.1 to 7.4: a model of the inner loop; the fastest loops",
    "idsp-mapping": "figures 7.1 to 7.4 and 7.6 to 7.9: manual mapping and model, layer by layer",
    "idsp-platforms": "tables 7.7, 7.8 and 7.12: CPU, GPU and DSP, and section 7.6's shares",
    "idsp-bits": "chapter 4 and section 7.4: fixed point, accumulator bounds, accuracy on digits",
}
"""What `reproduce` makes."""


def reproduce(figure: str, *, time_limit: float, folder: Path, say: Say) -> None:
    """Print and draw one of `FIGURES`; all takes seconds but the accuracy on digits, half a minute."""
    if figure == "idsp-bits":
        print_bit_widths(folder, say)
        return
    parts: dict[str, Part] = {
        "idsp-table5.3": print_table_5_3,
        "idsp-figures": draw_figures,
        "idsp-chapter8": print_chapter_8,
        "idsp-figure7.5": print_figure_7_5,
        "idsp-energy": print_energy,
        "idsp-compute": print_compute,
        "idsp-mapping": print_mapping,
        "idsp-platforms": print_platforms,
    }
    make_parts(figure, "idsp", parts, folder, say)
