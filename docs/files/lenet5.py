"""Writes ``lenet5.onnx`` beside this file: LeNet-5 without the values of its weights, which are not read."""

from pathlib import Path

from onnx import TensorProto, helper, save


def weights(name: str, *shape: int) -> TensorProto:
    """Return a tensor whose values lie in a file that there is not."""
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape)
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="weights.bin")
    return tensor


def conv(number: int, read: str, **attributes: list[int]) -> list[object]:
    """Return a convolution with its activation and pool."""
    name = f"conv{number}"
    return [
        helper.make_node("Conv", [read, f"{name}.weight"], [name], name, kernel_shape=[5, 5], **attributes),
        helper.make_node("Relu", [name], [f"relu{number}"], f"relu{number}"),
        helper.make_node(
            "MaxPool",
            [f"relu{number}"],
            [f"pool{number}"],
            f"pool{number}",
            kernel_shape=[2, 2],
            strides=[2, 2],
        ),
    ]


def dense(number: int, read: str, activated: bool) -> list[object]:
    """Return a fully connected layer, with its activation if it has one."""
    name = f"fc{number}"
    nodes = [helper.make_node("Gemm", [read, f"{name}.weight"], [name], name, transB=1)]
    return (
        [*nodes, helper.make_node("Relu", [name], [f"relu{number}"], f"relu{number}")] if activated else nodes
    )


nodes = [
    *conv(1, "image", pads=[2, 2, 2, 2]),
    *conv(2, "pool1"),
    helper.make_node("Flatten", ["pool2"], ["flat"], "flatten"),
    *dense(3, "flat", True),
    *dense(4, "relu3", True),
    *dense(5, "relu4", False),
]
shapes = {"conv1": (6, 1, 5, 5), "conv2": (16, 6, 5, 5), "fc3": (120, 400), "fc4": (84, 120), "fc5": (10, 84)}
graph = helper.make_graph(
    nodes,
    "lenet5",
    [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 28, 28])],
    [helper.make_tensor_value_info("fc5", TensorProto.FLOAT, [1, 10])],
    [weights(f"{name}.weight", *shape) for name, shape in shapes.items()],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="")
save(model, Path(__file__).with_name("lenet5.onnx"))
