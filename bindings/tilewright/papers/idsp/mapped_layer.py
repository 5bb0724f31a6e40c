"""A layer as chapter 7 of the IDSP thesis maps it by hand."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.papers.idsp.chapter_8 import Reuse, published_reuse
from tilewright.papers.idsp.energy import Mapped, NetworkEnergy, energy_of


@dataclass(frozen=True)
class LayerMapping:
    """A layer as mapped by hand, its external traffic by the thesis's closed forms.

    Attributes
    ----------
    compute, least_compute
        Cycles of the schedule, and of a core that always multiplies at its peak.
    setup, bus
        Cycles of DMA set-up, and those that the bus moves elements in.
    vectors
        Local vector transfers: of the mapping, of the thesis's model, and of ours.
    rest
        Those of the mapping without `ADDITIONAL`, by tables 7.4 and 7.6.
    ops_per_byte, gops
        Memory efficiency and throughput.
    """

    of: Mapped
    compute: int
    least_compute: float
    setup: float
    bus: float
    vectors: tuple[int, int, int]
    rest: int
    ops_per_byte: float
    gops: float
    energy: NetworkEnergy

    @property
    def name(self) -> str:
        """The layer's name."""
        return str(self.of.row["layer"])

    @property
    def additional(self) -> dict[str, int]:
        """Vector transfers of the mapping beyond those of the model, by reason."""
        parts: dict[str, int] = self.of.row["additional"]
        return parts

    @property
    def accesses(self) -> float:
        """External accesses of the best schedule."""
        return self.of.accesses[self.of.best]

    @property
    def utilisation(self) -> float:
        """Share of the peak that is reached, DMA set-up included."""
        return self.least_compute / (self.compute + self.setup)

    @property
    def model(self) -> Reuse:
        """The most efficient plan by the thesis's model."""
        return published_reuse(self.of.layer)

    @property
    def model_energy(self) -> NetworkEnergy:
        """Energy of that plan."""
        plan = self.model
        return energy_of(
            cycles=plan.compute,
            transfers=plan.transfers,
            vectors=self.of.vectors,
            accesses=plan.accesses,
        )
