"""What quantised networks in TFLite and ONNX compute, bit for bit, with integers in place of scales."""

from __future__ import annotations

from pathlib import Path

from tilewright.importing.exact.network import onnx_operations
from tilewright.importing.tflite.exact import exact_operations as tflite_operations
from tilewright.importing.tflite.exact_operators import Kernels
from tilewright.simulator.arithmetic.quantised import ExactNetwork


def exact_operations(path: str | Path, *, kernels: Kernels = "reference") -> ExactNetwork:
    """Read the operations of a quantised file: one of TFLite as LiteRT computes it, of ONNX as onnxruntime.

    Parameters
    ----------
    kernels
        Of a TFLite file: see `tilewright.importing.tflite.exact.exact_operations`.

    Raises
    ------
    InputError
        For a file that is none, or damaged, and for operators whose integers are not known.
    """
    if Path(path).suffix.lower() == ".tflite":
        return tflite_operations(path, kernels=kernels)
    return onnx_operations(path)
