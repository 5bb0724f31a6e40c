"""Quantised networks, computed bit for bit as LiteRT (TensorFlow Lite) or onnxruntime computes them.

Each operation is a frozen record of integers and arrays, which `compute` executes and of which printers make
code. Maps have channels last: (images, rows, columns, channels).
"""

from tilewright.simulator.arithmetic.quantised.borders import Border, Inside, inside
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
from tilewright.simulator.arithmetic.quantised.singles import (
    AveragePoolInSingles,
    MeanInSingles,
    ProductInSingles,
    Recoded,
    SoftmaxInSingles,
    SumInSingles,
)
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
    "AveragePoolInSingles",
    "Border",
    "Concatenated",
    "Dequantised",
    "ExactNetwork",
    "ExactOperation",
    "ExactTensor",
    "Inside",
    "MeanInSingles",
    "Padded",
    "ProductInSingles",
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
    "Recoded",
    "Reshaped",
    "SoftmaxInSingles",
    "Stacked",
    "SumInSingles",
    "inside",
]
