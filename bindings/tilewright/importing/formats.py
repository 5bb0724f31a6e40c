"""Files of other formats than ONNX, which are read as ONNX models."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from onnx import ModelProto


class Format(NamedTuple):
    """A format of files with networks.

    Attributes
    ----------
    kind
        What a file of it is called.
    module
        Of this package, with a function ``translated``.
    own_names
        Whether names of its layers are those that its users give.
    fixed_shapes
        Whether shapes of inputs are those of the file.
    weights
        Suffix of the file that has the weights; "" for the same one.
    """

    kind: str
    module: str
    own_names: bool = False
    fixed_shapes: bool = False
    weights: str = ""


FORMATS = {
    ".prototxt": Format("a Caffe file", "caffe", own_names=True, weights=".caffemodel"),
    ".tflite": Format("a TFLite file", "tflite", fixed_shapes=True),
}
"""By suffix."""


def format_of(path: Path) -> Format | None:
    """Return the format of a file, None of ONNX."""
    return FORMATS.get(path.suffix.lower())


def translated(
    path: Path,
    sizes: Mapping[str, Sequence[int]],
    *,
    allow_unknown: bool = False,
    with_weights: bool = False,
) -> ModelProto | None:
    """Return the ONNX model that a file stands for; None where it is ONNX itself.

    Parameters
    ----------
    sizes
        As for `tilewright.importing.network`.
    allow_unknown
        Keep operators that are not read, in a domain of the format's own.
    with_weights
        Fill in weights that lie in a file of their own; else only their shapes are told.

    Raises
    ------
    InputError
        For anything that is wrong with the file.
    """
    found = format_of(path)
    if found is None:
        return None
    module = importlib.import_module(f"tilewright.importing.{found.module}")  # start-up time
    more = {"with_weights": with_weights} if found.weights else {}
    model: ModelProto = module.translated(path, sizes, allow_unknown=allow_unknown, **more)
    return model
