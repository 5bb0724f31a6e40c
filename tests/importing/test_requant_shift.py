"""RequantShift of Deeploy behind integer operators: integers are those of standard operators."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from conftest import examples, tells
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper, numpy_helper
from tests.codegen.test_microcontroller_onnx import is_right, problem_of, project_files
from tests.importing.onnx_integers_at_random import by_onnxruntime

from tilewright.importing.exact import exact_operations
from tilewright.importing.exact.judge import compared
from tilewright.residency import memory_front
from tilewright.spec.errors import InputError

pytest.importorskip("onnxruntime")


class Networks:
    """A file with RequantShift, and its twin in standard operators, in double precision."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[NodeProto] = []
        self.twins: list[NodeProto] = []
        self.stored: list[TensorProto] = []
        self.domain = str(self.rng.choice(["", "PACTOps"]))

    def number(self, values: Any, kind: type[Any] = np.float32) -> str:
        """Store numbers."""
        name = f"n{len(self.stored)}"
        self.stored.append(numpy_helper.from_array(np.asarray(values).astype(kind), name))
        return name

    def node(self, operator: str, inputs: list[str], **told: Any) -> str:
        """Add a node to both files."""
        name = f"{operator.lower()}_{len(self.nodes)}"
        node = helper.make_node(operator, inputs, [name], name, **told)
        self.nodes.append(node)
        self.twins.append(node)
        return name

    def shift(self, own: str, shape: list[int], spread: float) -> str:
        """Add a RequantShift, of one factor or of one for each channel."""
        rng, name = self.rng, f"shift_{len(self.nodes)}"
        channels = [1, shape[1], *[1] * (len(shape) - 2)] if rng.integers(2) else [1]
        bits, signed, levels = int(rng.integers(6, 13)), int(rng.integers(2)), int(rng.choice([256, 64, 16]))
        middle = levels / 3 / spread * 2.0**bits
        mul = np.maximum(1, np.rint(rng.uniform(0.5, 2, channels) * middle))
        add = np.rint(rng.uniform(-0.3, 0.3, channels) * levels * 2.0**bits)
        numbers = {"div": 2**bits, "signed": signed, "n_levels_out": levels}
        if rng.integers(2):
            numbers = {
                key: numpy_helper.from_array(np.array([value], np.float32)) for key, value in numbers.items()
            }
        parts = [own, self.number(mul), self.number(add)]
        self.nodes.append(
            helper.make_node("RequantShift", parts, [name], name, domain=self.domain, **numbers)
        )
        low, high = (-levels // 2, levels // 2 - 1) if signed else (0, levels - 1)
        limits = [self.number(each, np.float64) for each in (low, high)]
        factors = [self.number(each, np.float64) for each in (mul, add + 2.0 ** (bits - 1), 2.0**bits)]
        steps = [
            ("Cast", [own], {"to": TensorProto.DOUBLE}),
            ("Mul", [f"{name}_0", factors[0]], {}),
            ("Add", [f"{name}_1", factors[1]], {}),
            ("Div", [f"{name}_2", factors[2]], {}),
            ("Floor", [f"{name}_3"], {}),
            ("Clip", [f"{name}_4", *limits], {}),
            ("Cast", [f"{name}_5"], {"to": TensorProto.FLOAT}),
        ]
        for place, (operator, inputs, told) in enumerate(steps):
            given = name if place == len(steps) - 1 else f"{name}_{place}"
            self.twins.append(helper.make_node(operator, inputs, [given], **told))
        return name

    def weights(self, *shape: int) -> str:
        """Store weights that are integers."""
        return self.number(self.rng.integers(-128, 128, shape))

    def save(self, folder: Path) -> tuple[Path, Path]:
        """Write a network of some operators, and its twin."""
        rng, channels, outputs = self.rng, int(self.rng.integers(1, 4)), int(self.rng.integers(1, 6))
        own = self.node(
            "Conv", ["x", self.weights(outputs, channels, 3, 3)], pads=[1, 1, 1, 1], kernel_shape=[3, 3]
        )
        own = self.shift(own, [1, outputs, 6, 6], 74 * 74 * 3 * channels**0.5)
        size = 6
        if rng.integers(2):
            own, size = self.node("MaxPool", [own], kernel_shape=[2, 2], strides=[2, 2]), 3
        if rng.integers(2):
            own = self.node("Conv", [own, self.weights(outputs, 1, 3, 3)], pads=[1, 1, 1, 1], group=outputs)
            own = self.shift(own, [1, outputs, size, size], 74 * 74 * 3)
        if rng.integers(3) == 0:
            own = self.shift(own, [1, 1], 128)  # of one factor
        own = self.node("Flatten", [own])
        length = outputs * size * size
        if rng.integers(2):
            own = self.node(
                "Gemm", [own, self.weights(4, length), self.number(rng.integers(-99, 99, 4))], transB=1
            )
        else:
            own = self.node("MatMul", [own, self.weights(length, 4)])
        own = self.shift(own, [1, 4], 74 * 74 * length**0.5)
        paths = []
        for name, nodes in (("shifts", self.nodes), ("twin", self.twins)):
            used = {each for node in nodes for each in node.input}
            given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, channels, 6, 6])
            result = helper.make_tensor_value_info(own, TensorProto.FLOAT, [1, 4])
            stored = [each for each in self.stored if each.name in used]
            graph = helper.make_graph(nodes, name, [given], [result], stored)
            opsets = [helper.make_opsetid("", 17), helper.make_opsetid("PACTOps", 1)]
            paths.append(folder / f"{name}.onnx")
            onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), paths[-1])
        return paths[0], paths[1]


def integers(network: Any, rng: np.random.Generator) -> list[NDArray[np.float32]]:
    """Return integers of 8 bits for all inputs, as floats."""
    shapes = [network.tensors[name].shape for name in network.inputs]
    return [rng.integers(-128, 128, shape).astype(np.float32) for shape in shapes]


@pytest.mark.parametrize("seed", range(examples(300, 6)))
def test_integers_are_those_of_standard_operators(seed: int, tmp_path: Path) -> None:
    path, twin = Networks(seed).save(tmp_path)
    network, rng = exact_operations(path), np.random.default_rng(seed)
    different = set[float]()
    for _ in range(3):
        given = integers(network, rng)
        ours, theirs = [*network.run(given).values()], by_onnxruntime(twin, given)
        np.testing.assert_array_equal(ours[0], theirs[0])
        different.update(theirs[0].reshape(-1).tolist())
    assert len(different) > 1


@pytest.mark.skipif(not (shutil.which("gcc") and shutil.which("make")), reason="no C compiler, or no make")
@pytest.mark.parametrize("seed", range(examples(100, 2)))
def test_they_become_c(seed: int, tmp_path: Path) -> None:
    path, twin = Networks(seed).save(tmp_path)
    problem = problem_of(path)
    plan = random.Random(seed).choice(memory_front(problem)).plan
    own, images = project_files(tmp_path / "c", path, problem, plan, seed)
    for image in images:  # what the project holds as outputs is what onnxruntime gives
        theirs = by_onnxruntime(twin, own.of_file(image))
        np.testing.assert_array_equal(own.results([*own.network.run(image).values()])[0], theirs[0])
    assert "does not run the file" in compared(path, own, images)
    is_right(tmp_path / "c", problem, plan)


@pytest.mark.parametrize(
    ("numbers", "told"),
    [
        ({"div": 100, "signed": 1, "n_levels_out": 256}, "its div is 100; a power of two"),
        ({"div": 128, "signed": 1, "n_levels_out": 1024}, "it has 1024 levels; from 2 to 256"),
        ({"div": 128, "n_levels_out": 256}, "it has no attribute signed"),
    ],
)
def test_what_it_does_not_shift_is_refused(numbers: dict[str, int], told: str, tmp_path: Path) -> None:
    file = Networks(0)
    own = file.node("Conv", ["x", file.weights(2, 1, 3, 3)], kernel_shape=[3, 3])
    parts = [own, file.number([3]), file.number([4])]
    node = helper.make_node("RequantShift", parts, ["y"], "rq", domain="PACTOps", **numbers)
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 5, 5])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2, 3, 3])
    graph = helper.make_graph([*file.nodes, node], "g", [given], [result], file.stored)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("PACTOps", 1)]
    path = tmp_path / "network.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    with pytest.raises(InputError) as error:
        exact_operations(path)
    assert tells(str(error.value), str(path), "node rq", "RequantShift", told)
