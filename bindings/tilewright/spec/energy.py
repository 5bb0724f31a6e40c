"""What a core, its memory and external memory take: prices in femtojoules."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tilewright.spec.base import Spec

THESIS = "of the DSP of the IDSP thesis (table 7.9, equation 7.2)"
"""Whose prices of energy the default ones are."""

GIVEN = "as given"
"""What is said of prices that are the user's own."""

PRICES = {"core": ("core_fj_per_cycle",)} | {
    name: (f"{name}_fj_per_access", f"{name}_access_bytes") for name in ("local", "dram")
}
"""The fields of each price."""

Rate = Annotated[int, Field(ge=1, le=1_000_000)]
Femtojoules = Annotated[int, Field(ge=0, le=10**9)]


class Energy(Spec):
    """Energy of the core and of memory accesses (thesis, table 7.9 and equation 7.2), in femtojoules.

    Attributes
    ----------
    core_fj_per_cycle
        Of every cycle in which the core computes or sets up a transfer.
    local_fj_per_access, local_access_bytes
        On-chip memory, per access of `local_access_bytes`.
    dram_fj_per_access, dram_access_bytes
        External memory.
    """

    core_fj_per_cycle: Femtojoules = 60_000
    local_fj_per_access: Femtojoules = 66_600
    local_access_bytes: Rate = 64
    dram_fj_per_access: Femtojoules = 2_600_000
    dram_access_bytes: Rate = 8

    @property
    def source(self) -> str:
        """Whose prices these are: given, or where nothing else is, those of the thesis's DSP."""
        return self.source_of("core", "local", "dram")

    def source_of(self, *parts: str) -> str:
        """Return whose prices some of these are, of ``core``, ``local`` and ``dram``."""
        given = [
            name
            for name in parts
            if any(getattr(self, field) != type(self).model_fields[field].default for field in PRICES[name])
        ]
        if len(given) == len(parts):
            return GIVEN
        thesis = ", ".join(name for name in parts if name not in given)
        return f"{', '.join(given)} {GIVEN}; {thesis} {THESIS}" if given else THESIS
