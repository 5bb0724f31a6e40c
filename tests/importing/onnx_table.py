"""ONNX's own test models, each imported and executed with its own inputs: a table of what becomes of them.

Run as a program it prints the table: ``python tests/importing/onnx_table.py [kind ...]``.
"""

from __future__ import annotations

import re
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnx_execution
from numpy.typing import NDArray
from onnx import numpy_helper, version_converter
from onnx.backend.test.loader import load_model_tests

from tilewright.importing import open_network
from tilewright.importing.model import Model
from tilewright.importing.training import read_trained
from tilewright.spec.errors import Disagreement, InputError

Arrays = dict[str, NDArray[Any]]

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")

OLDEST = 7
"""Version of the operators since which onnxruntime executes them; models of older ones are converted."""


INTEGERS = re.compile("QLinear|ConvInteger|MatMulInteger")
"""Operators whose zero points are not kept; what they give is planned and not computed."""


class Outcome(NamedTuple):
    """What becomes of a test model: ``what`` is a row of the table, ``why`` says more."""

    kind: str
    name: str
    operators: tuple[str, ...]
    what: str
    why: str


def outcomes(kinds: Sequence[str] = KINDS) -> Iterator[Outcome]:
    """Yield what becomes of each of ONNX's test models."""
    with tempfile.TemporaryDirectory() as folder:
        for kind in kinds:
            for case in load_model_tests(kind=kind):
                path = Path(case.model_dir or "") / "model.onnx"
                if case.model is not None:
                    path = Path(folder) / "model.onnx"
                    onnx.save(case.model, path)
                model = onnx.load(path)
                operators = tuple(sorted({node.op_type for node in model.graph.node}))
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    what, why = outcome(path, model, *_data(model, case))
                yield Outcome(kind, case.name, operators, what, why.replace(folder, ""))


def outcome(path: Path, proto: onnx.ModelProto, given: Arrays, outputs: Arrays) -> tuple[str, str]:
    """Return what becomes of a model: whether it is imported, and how shapes and numbers compare."""
    try:
        model, found = open_network(path, {})
    except InputError as error:
        return "refused", f"{error.field} = {error.value}: {error.limit}"
    try:  # our own executor holds its outputs against onnxruntime's
        read_trained(path)
    except InputError:  # a layer that is not executed with data
        pass
    except Disagreement as error:
        return "wrong numbers", str(error)
    integers = [node.op_type for node in proto.graph.node if INTEGERS.match(node.op_type)]
    if found.network.quantised or integers:
        return "integers, planned only", ", ".join(found.network.quantised or integers)
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in proto.graph.initializer}
    stated = weights | given | outputs
    try:
        tensors, by = onnx_execution.by_onnxruntime(_executable(proto), given), "as onnxruntime"
    except Exception:  # of many kinds, where onnxruntime does not know an operator
        tensors, by = stated, "as the test states"
    compared = _compare(model, proto, tensors, by)
    if compared[0] == "wrong numbers" and outputs:  # of some operators onnxruntime's are not ONNX's
        again = _compare(model, proto, stated, "as the test states")
        compared = again if again[0] == "as the test states" else compared
    return compared


def _compare(model: Model, proto: onnx.ModelProto, tensors: Arrays, by: str) -> tuple[str, str]:
    """Return how tensors compare with those that are right."""
    try:
        return by, f"{onnx_execution.check_model(model, proto, tensors)} tensors compared"
    except onnx_execution.ShapesDiffer as error:
        return "wrong shape", str(error)
    except AssertionError as error:
        return "wrong numbers", str(error)
    except Exception as error:  # of many kinds: the reference of an operator is not known
        return "imported, not executed", f"{type(error).__name__}: {error}"


def _data(model: onnx.ModelProto, case: Any) -> tuple[Arrays, Arrays]:
    """Return the inputs and outputs that come with a test, by name."""
    if case.data_sets:
        sides = case.data_sets[0]
    else:
        folder = Path(case.model_dir) / "test_data_set_0"
        sides = [
            [
                _stored(folder / f"{side}_{place}.pb")
                for place in range(len(list(folder.glob(f"{side}_*.pb"))))
            ]
            for side in ("input", "output")
        ]
    names = ([each.name for each in model.graph.input], [each.name for each in model.graph.output])
    given, outputs = (
        {
            name: _numbers(value)
            for name, value in zip(side, values, strict=False)
            if _numbers(value) is not None
        }
        for side, values in zip(names, sides, strict=True)
    )
    return given, outputs


def _numbers(value: Any) -> NDArray[Any] | None:
    """Return what a test stores as an array, None where it is no tensor."""
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return np.asarray(value) if isinstance(value, np.ndarray | np.generic) else None


def _stored(file: Path) -> NDArray[Any] | None:
    """Return the numbers of a file, None where it holds no tensor."""
    try:
        return numpy_helper.to_array(onnx.TensorProto.FromString(file.read_bytes()))
    except Exception:  # of a sequence, of any kind
        return None


def _executable(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model whose operators onnxruntime knows: those of the first versions are converted."""
    opset = next((entry.version for entry in model.opset_import if not entry.domain), OLDEST)
    if opset >= OLDEST:
        return model
    try:
        return version_converter.convert_version(model, OLDEST)
    except Exception:  # of any kind; the table says what is not executed
        return model


def main() -> None:
    """Print the table, and with ``-v`` before the kinds what stands behind each row."""
    arguments = sys.argv[1:]
    verbose = arguments[:1] == ["-v"]
    found = list(outcomes(arguments[verbose:] or KINDS))
    counts = Counter((each.kind, each.what) for each in found)
    for (kind, what), count in sorted(counts.items()):
        print(f"{kind:20}{what:26}{count:6}")
    if verbose:
        for each in found:
            if each.what != "as onnxruntime":
                print(each.what, each.kind, each.name, " ".join(each.why.split())[:400], sep=" | ")


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
