"""Quantised networks, computed bit for bit as LiteRT (TensorFlow Lite) computes them.

Each operation is a frozen record of integers and arrays, which `compute` executes and of which printers make
code. Maps have channels last: (images, rows, columns, channels).
"""

from tilewright.simulator.arithmetic.quantised.curves import QuantisedSigmoid, QuantisedWideSoftmax
from tilewright.simulator.arithmetic.quantised.moves import (
    Concatenated,
    Padded,
    Rearranged,
    Reshaped,
    Stacked,
)
from tilewright.simulator.arithmetic.quantised.network import ExactNetwork
from tilewright.simulator.arithmetic.quantised.operation import ExactOperation, ExactTensor
from tilewright.simulator.arithmetic.quantised.softmax import QuantisedSoftmax
from tilewright.simulator.arithmetic.quantised.values import (
    Dequantised,
    Quantised,
    QuantisedExtremum,
    QuantisedInterpolation,
    QuantisedLarger,
    QuantisedMean,
    QuantisedProduct,
    QuantisedRescaling,
    QuantisedSlopes,
    QuantisedSum,
    QuantisedTable,
)
from tilewright.simulator.arithmetic.quantised.windows import (
    QuantisedAveragePool,
    QuantisedConvolution,
    QuantisedFullyConnected,
    QuantisedMatrixProduct,
    QuantisedMaxPool,
    QuantisedTransposedConvolution,
)

__all__ = [
    "Concatenated",
    "Dequantised",
    "ExactNetwork",
    "ExactOperation",
    "ExactTensor",
    "Padded",
    "Quantised",
    "QuantisedAveragePool",
    "QuantisedConvolution",
    "QuantisedExtremum",
    "QuantisedFullyConnected",
    "QuantisedInterpolation",
    "QuantisedLarger",
    "QuantisedMatrixProduct",
    "QuantisedMaxPool",
    "QuantisedMean",
    "QuantisedProduct",
    "QuantisedRescaling",
    "QuantisedSigmoid",
    "QuantisedSlopes",
    "QuantisedSoftmax",
    "QuantisedSum",
    "QuantisedTable",
    "QuantisedTransposedConvolution",
    "QuantisedWideSoftmax",
    "Rearranged",
    "Reshaped",
    "Stacked",
]
