"""What a machine computes with, what is known of a network's values, what is minimised, and the limits."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from tilewright.bitwidth.accumulator import BoundName
from tilewright.bitwidth.data import digest_of
from tilewright.spec.base import Spec
from tilewright.spec.errors import InputError
from tilewright.spec.objectives import Objective, SingleObjective, by_name

MAX_ACCUMULATOR, MAX_WIDTH = 40, 32
"""Most bits of an accumulator, and of an operand: what sums of are exact in 64 bits."""

Magnitude = Annotated[float, Field(gt=0, le=1e30, allow_inf_nan=False, strict=False)]

Width = Annotated[int, Field(ge=1, le=MAX_WIDTH)]

OBJECTIVES = by_name(
    Objective("noise", "ppb of the signal", "noise_ppb"),
    Objective("bits", "bits", "moved_bits"),
    Objective("pareto", "ppb of the signal", "noise_ppb"),
)
"""What can be minimised; noise counts in parts per billion of the signal's power."""


class BitsMachine(Spec):
    """Multipliers of two integers, and accumulators that wrap around.

    Attributes
    ----------
    accumulator_bits : int
        Of the register that products are added up in, the sign among them.
    widths : optional
        Bits that inputs and weights can have; any up to 32 when left out.
    """

    table_name: ClassVar[str] = "machine"

    accumulator_bits: Annotated[int, Field(ge=2, le=MAX_ACCUMULATOR)]
    widths: Annotated[tuple[Width, ...], Field(min_length=1, max_length=MAX_WIDTH)] | None = None

    def model_post_init(self, _context: object) -> None:
        """Refuse widths that stand twice."""
        if self.widths is not None and len(set(self.widths)) < len(self.widths):
            raise InputError("machine.widths", list(self.widths), "must list each width once")

    @property
    def possible(self) -> tuple[int, ...]:
        """Widths, ascending."""
        return tuple(range(1, MAX_WIDTH + 1)) if self.widths is None else tuple(sorted(self.widths))


class LayerRange(Spec):
    """What is known of the values of a convolution or a fully connected layer.

    Attributes
    ----------
    input, weights : float
        Largest magnitudes of an input, and of a weight.
    output : float, optional
        Largest magnitude of a complete sum, without bias; the bound ``output_range`` needs it.
    absolute_weights : float, optional
        Sum of the magnitudes of an output map's weights, the largest of all maps; the bound
        ``absolute_weights`` needs it.
    input_power, weights_power : float, optional
        Mean squares; a third of the squared magnitude, as of evenly spread values, when left out.
    input_density : float
        Share of inputs that are not 0; those that are lose nothing when they are quantised.
    coherence : float
        Mean square of a sum over what it would be if its products were independent.
    """

    input: Magnitude
    weights: Magnitude
    output: Magnitude | None = None
    absolute_weights: Magnitude | None = None
    input_power: Magnitude | None = None
    weights_power: Magnitude | None = None
    input_density: Annotated[float, Field(gt=0, le=1, strict=False)] = 1.0
    coherence: Annotated[float, Field(gt=0, le=1e9, strict=False)] = 1.0

    @property
    def largest(self) -> tuple[float, float]:
        """Largest magnitudes of inputs and weights."""
        return self.input, self.weights

    @property
    def powers(self) -> tuple[float, float]:
        """Mean squares of inputs and weights."""
        return (
            self.input**2 / 3 if self.input_power is None else self.input_power,
            self.weights**2 / 3 if self.weights_power is None else self.weights_power,
        )


class BitsObjective(SingleObjective):
    """What is minimised.

    Attributes
    ----------
    minimise : {"noise", "bits", "pareto"}
        Power of the noise of quantisation over that of the signal, by the additive model; bits of all inputs
        and weights, each moved once; every trade-off of the two.
    """

    minimise: Literal["noise", "bits", "pareto"] = "noise"


class BitsLimits(Spec):
    """What plans may do.

    Attributes
    ----------
    bound : {"worst_case", "absolute_weights", "output_range"}
        What guards the accumulator.
    bits : int, optional
        Most bits of all inputs and weights together.
    signal_to_noise_db : float, optional
        Least ratio of signal to noise, by the model.
    """

    table_name: ClassVar[str] = "limits"
    lifted: ClassVar[dict[str, Any]] = {"bits": None, "signal_to_noise_db": None}
    """What only leaves plans out, with the value that leaves none out."""

    bound: BoundName = "output_range"
    bits: Annotated[int, Field(ge=1, le=2**60)] | None = None
    signal_to_noise_db: Annotated[float, Field(ge=-100, le=200, allow_inf_nan=False, strict=False)] | None = (
        None
    )


class DataFiles(Spec):
    """Files of numbers, NumPy's ``.npz``: with them plans are executed and measured.

    A problem's digest is of what the files hold, not of where they lie.

    Attributes
    ----------
    weights : path
        ``<layer>.weights`` and, of layers with a bias, ``<layer>.bias``.
    samples : path
        ``inputs`` of shape (images, C, H, W), to be multiplied by ``scale`` if that is there; ``labels``, the
        right class of each image, if accuracy is to be measured.
    images : int, optional
        The first of the samples are measured; all when left out.
    """

    table_name: ClassVar[str] = "data"

    later: ClassVar[tuple[str, ...]] = ("images",)

    weights: str
    samples: str
    images: Annotated[int, Field(ge=1, le=10**6)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _as_text(cls, table: object) -> object:
        """Take paths for their texts."""
        if not isinstance(table, dict):
            return table
        return {key: str(value) if isinstance(value, Path) else value for key, value in table.items()}

    def told(self) -> dict[str, Any]:
        """Return the digests of both files, and how many images are measured if not all."""
        digests = {name: digest_of(getattr(self, name), f"data.{name}") for name in ("weights", "samples")}
        return digests if self.images is None else {**digests, "images": self.images}
