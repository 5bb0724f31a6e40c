"""What one TLE of a multicore NPU computes of a layer: its filters core by core, its tensors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from tilewright.simulator import Tensor
from tilewright.spec.layer import Layer
from tilewright.tiling.npu.cut import Cut, Share, Span, quotient


@dataclass(frozen=True)
class Tle:
    """One TLE: its tensors, and the tiles of its share."""

    cut: Cut
    number: int
    share: Share
    step: tuple[int, int, int, int]
    schedule: str

    @property
    def name(self) -> str:
        """What it is called in the names of its tensors and engines."""
        return f"TLE{self.number}"

    @cached_property
    def lanes(self) -> list[list[Span]]:
        """Filters that its cores hold at a time: for each tile of filters, one span per core."""
        m = self.step[0]
        most = self.share.cores[0][1] - self.share.cores[0][0]
        return [
            [
                (first + lane * m, min(first + (lane + 1) * m, last))
                for first, last in self.share.cores
                if first + lane * m < last
            ]
            for lane in range(quotient(most, m))
        ]

    @cached_property
    def spans(self) -> list[Span]:
        """Places of each lane's filters in the order of `lanes`."""
        ends = np.cumsum([0] + [sum(last - first for first, last in lane) for lane in self.lanes]).tolist()
        return list(pairwise(ends))

    @property
    def input_rows(self) -> Span:
        """Rows of the padded input that its outputs need."""
        first, last = self.share.rows
        start = first * self.cut.layer.stride[0]
        return start, start + self.cut.reach(0, last - first)

    @property
    def width(self) -> int:
        """Columns of the padded input that outputs need."""
        return int(self.cut.reach(1, self.cut.layer.output_plane[1]))

    @property
    def copies(self) -> dict[str, int]:
        """Cores whose buffers each tensor stands for; a shared input tile is one."""
        cores = len(self.share.cores)
        return {"input": cores if self.cut.depthwise else 1, "weights": cores, "output": cores}

    @cached_property
    def layer(self) -> Layer:
        """Its share as a layer of its own, padding included in the input."""
        cut, layer = self.cut, self.cut.layer
        filters = self.share.filters[1] - self.share.filters[0]
        first, last = self.input_rows
        groups = filters if cut.depthwise else layer.groups
        return Layer(
            input=(groups * cut.maps, last - first, self.width),
            kernels=filters if cut.depthwise else filters * layer.groups,
            kernel=layer.kernel,
            stride=layer.stride,
            dilation=layer.dilation,
            groups=groups,
            batch=layer.batch,
        )

    @cached_property
    def tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        """Input, weights and output: groups (of a layer that is not depthwise) stand apart."""
        cut, layer = self.cut, self.cut.layer
        groups = 1 if cut.depthwise else layer.groups
        filters = self.share.filters[1] - self.share.filters[0]
        rows = self.share.rows[1] - self.share.rows[0]
        maps = filters if cut.depthwise else cut.maps
        need = {name: size * self.copies[name] for name, size in cut.need(self.step, self.schedule).items()}
        widths, units = cut.held_units, cut.machine.units
        first, last = self.input_rows
        return (
            Tensor(
                f"input {self.name}",
                (layer.batch, groups, maps, last - first, self.width),
                "input",
                memory=f"input {self.name}",
                buffer=need["input"],
                width=widths["input"],
            ),
            Tensor(
                f"weights {self.name}",
                (groups, filters, cut.maps, *layer.kernel),
                "kernels",
                memory=f"weights {self.name}",
                buffer=need["weights"],
                width=widths["weights"],
            ),
            Tensor(
                f"output {self.name}",
                (layer.batch, groups, filters, rows, layer.output_plane[1]),
                "output",
                memory=f"output {self.name}",
                macs_per_element=layer.macs_per_output,
                buffer=need["output"],
                width=units.output,
                sum_width=widths["output"] if widths["output"] > units.output else None,
            ),
        )
