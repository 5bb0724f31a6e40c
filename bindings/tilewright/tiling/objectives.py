"""What can be asked of a tiling: objectives, lists of them, limits, by the kind of the machine."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field

from tilewright.spec.base import Spec
from tilewright.spec.errors import InputError, did_you_mean
from tilewright.spec.objectives import Objective, ObjectiveList, by_name

Amount = Annotated[int, Field(ge=0, le=2**62)]

ACCESSES = Objective("accesses", "elements", "accesses_elements")
BITS = Objective("accesses", "bits", "accesses_bits")
"""What accesses are on a DSP or an NPU that gives widths."""

CYCLES = Objective("cycles", "cycles", "duration_cycles")
CAPACITY = Objective("capacity", "bytes", "capacity_bytes")
"""What fronts of a hierarchy may trade, and nothing that is minimised."""

OBJECTIVES = {
    "dsp": by_name(ACCESSES, CYCLES, Objective("energy", "fJ", "energy_fj")),
    "npu": by_name(Objective("time", "ps", "duration_ps"), ACCESSES),
    "hierarchy": by_name(
        ACCESSES,
        CYCLES,
        Objective("energy", "aJ", "energy_aj"),  # whose prices are of single bits
        Objective("edp", "nJ cycles", "edp_nj_cycles"),
    ),
}
"""What can be minimised besides ``pareto``, the default first."""

TRADED = {"dsp": ("cycles", "accesses"), "npu": ("time", "accesses")}
"""What fronts trade by default; on a hierarchy that depends on its prices."""

CAPACITY_FRONT = ("accesses", "capacity")
"""What is traded for every capacity at once."""

SCHEDULES = {
    "dsp": ("any", "any+weights", "thesis", "intra", "kc", "oc", "oxyn", "oxyn/ox", "halide-idsp"),
    "npu": ("any", "IS", "OS", "WS"),
    "hierarchy": ("any",),
}
"""Schedules that plans can be limited to."""

PARTITIONS = {"dsp": ("any",), "npu": ("any", "KS", "KS&OFM", "OFM"), "hierarchy": ("any",)}
"""Partitions over the cores that plans can be limited to."""

ALONE = ("pareto", "edp")
"""Objectives that are in no list; values of ``edp`` for layers do not add up to that for a network either."""

TOLERANCES_OF = ("layer", "network")
"""Whose costs tolerances are shares of, the default first."""

FACTORS = {"dsp": ("even",), "npu": ("even",), "hierarchy": ("perfect", "any")}
"""Sizes of tiles that plans can be limited to, the default first."""

ATTENTION = {"dsp": ("any",), "npu": ("any",), "hierarchy": ("any", "apart")}
"""How attention may be executed, the default first."""


class TilingObjective(ObjectiveList):
    """What is minimised; by default a DSP's accesses to external memory, a multicore NPU's time.

    Attributes
    ----------
    minimise : {"accesses", "cycles", "energy", "edp", "pareto", "time"}, or a list of them
        Elements moved from and to external memory; cycles of a DSP or a hierarchy; femtojoules of a DSP,
        attojoules of a hierarchy; energy times delay of a hierarchy, of a single layer; every trade-off of
        two of them; picoseconds of an NPU. Of a list each one is minimised among the plans that are good in
        those before it.
    tolerance_of
        Of a network with a list: whether each ``layer`` is within the tolerance by itself (the default), or
        the sum over the ``network``, so that a layer may be slower where others gain by less. The latter is
        for two objectives.
    level
        The memory of a hierarchy whose accesses are counted, by default the first.
    between
        Of ``pareto``, the two of accesses, cycles and energy that it trades, of an NPU time and accesses. By
        default cycles and accesses (thesis, equation 5.24), on a hierarchy that is priced cycles and energy.
        On hierarchies with two memories also accesses and, as the second, capacity: the bytes that the memory
        on chip needs.
    """

    later: ClassVar[tuple[str, ...]] = ("tolerance", "tolerance_of", "level", "between")

    tolerance_of: str = TOLERANCES_OF[0]
    level: str | None = None
    between: tuple[str, str] | None = None

    def model_post_init(self, context: object) -> None:
        """Refuse wrong lists and tolerances, and tolerances of what does not exist."""
        super().model_post_init(context)
        if self.tolerance_of not in TOLERANCES_OF:
            limit = f"takes {' or '.join(TOLERANCES_OF)}{did_you_mean(self.tolerance_of, TOLERANCES_OF)}"
            raise InputError("tolerance_of", self.tolerance_of, limit)
        if self.of_network and len(self.names) != 2:
            limit = f"network needs a list of exactly two objectives, got {len(self.names)}"
            raise InputError("tolerance_of", self.tolerance_of, limit)

    @property
    def of_network(self) -> bool:
        """Whether the tolerance is a share of what the whole network costs."""
        return self.tolerance_of == "network"


class Ceilings(Spec):
    """What a plan may cost at most, of a network the sum over its layers; None for no limit.

    Attributes
    ----------
    accesses
        Elements moved from and to external memory.
    cycles, energy
        Cycles and femtojoules of a DSP; cycles and attojoules of a hierarchy.
    time
        Picoseconds, of an NPU.
    """

    accesses: Amount | None = None
    cycles: Amount | None = None
    energy: Amount | None = None
    time: Amount | None = None

    @property
    def given(self) -> dict[str, int]:
        """Those that there are, by what they limit."""
        return {name: most for name in type(self).model_fields if (most := getattr(self, name)) is not None}


class TilingLimits(Spec):
    """What plans may do.

    Attributes
    ----------
    schedule
        DSP: ``any`` order of the tile loops, ``any+weights`` also with all weights of a group on chip, for
        accesses alone, the ``thesis``'s five schedules, or one of them: ``intra``,
        ``kc``, ``oc``, ``oxyn``, ``oxyn/ox``, or ``halide-idsp``: ``intra`` with all input maps in every
        tile, which is what the thesis's Halide could say. NPU: ``any``, ``IS``, ``OS``, ``WS``.
    partition
        NPU: ``any``, ``KS``, ``KS&OFM``, ``OFM``.
    at_most
        What a plan may cost at most; of a network one limit, on another cost than the one minimised.
    factors
        Hierarchy: ``perfect``, tiles divide the tile outside of them, or ``any``, the last one of a loop may
        be smaller. DSP and NPU: ``even``, tiles of a loop are as large as each other but for the last.
    attention
        Hierarchy: ``any``, scores, softmax and context of a network may be one step, or ``apart``.
    """

    table_name: ClassVar[str] = "limits"
    later: ClassVar[tuple[str, ...]] = ("at_most", "factors", "attention")

    schedule: str = "any"
    partition: str = "any"
    at_most: Ceilings = Ceilings()
    factors: str | None = None
    attention: str = "any"

    @property
    def lifted(self) -> dict[str, Any]:
        """What only leaves plans out, with the value that leaves none out; ``any+weights`` adds some."""
        schedule = {} if self.schedule == "any+weights" else {"schedule": "any"}
        return {**schedule, "partition": "any", "at_most": Ceilings(), "attention": "any"}

    @property
    def orders(self) -> str:
        """The schedules allowed but for those that keep all weights, for methods that do not know these."""
        return self.schedule.removesuffix("+weights")
