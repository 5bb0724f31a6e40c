"""The layers of a Caffe network that an inference runs, and which tensors connect them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.importing.caffe.messages import UnknownField, field_names, message
from tilewright.spec.errors import InputError, did_you_mean
from tilewright.spec.network import MAX_LAYERS

OLD_TYPES = {
    "ABSVAL": "AbsVal",
    "ARGMAX": "ArgMax",
    "BNLL": "BNLL",
    "EUCLIDEAN_LOSS": "EuclideanLoss",
    "LRN": "LRN",
    "MVN": "MVN",
    "RELU": "ReLU",
    "SOFTMAX_LOSS": "SoftmaxWithLoss",
    "TANH": "TanH",
}
"""Types of the old syntax whose names in the new one are not their words with capitals."""

JUDGES = frozenset(
    (
        "Accuracy", "ContrastiveLoss", "EuclideanLoss", "HDF5Output", "HingeLoss", "InfogainLoss",
        "MultinomialLogisticLoss", "SigmoidCrossEntropyLoss", "Silence", "SoftmaxWithLoss",
    )
)  # fmt: skip
"""Types of layers that only judge, store or drop what a network gives: no part of an inference."""


@dataclass(frozen=True, eq=False)
class CaffeLayer:
    """A layer of a network description.

    Attributes
    ----------
    name
        As in the file; numbered where it has none.
    type
        In the new syntax.
    message
        Its `LayerParameter`, or `V1LayerParameter`.
    bottoms, tops
        Names of the tensors that it reads and gives. A blob that a layer computes in place becomes another
        tensor.
    shared
        Names of its parameters, where the file gives them: layers with the same one share it.
    unknown
        Fields that this reader does not know.
    """

    name: str
    type: str
    message: Any
    bottoms: tuple[str, ...]
    tops: tuple[str, ...]
    shared: tuple[str, ...] = ()
    unknown: tuple[UnknownField, ...] = ()

    def parameters(self, field: str, kind: str) -> Any:
        """Return a message with the layer's parameters; defaults where the file has none."""
        return getattr(self.message, field) if field in field_names_of(self.message) else message(kind)

    def error(self, field: str, value: object, limit: str) -> InputError:
        """Return what says that a field of the layer is wrong."""
        return InputError(f"layer {self.name}, {field}", value, f"{limit} (a layer of type {self.type})")


def field_names_of(of: Any) -> list[str]:
    """Return the names of the fields that a message has, of a layer in the old or new syntax."""
    return field_names(of.DESCRIPTOR.name)


def connected(net: Any, unknown: Sequence[UnknownField]) -> list[CaffeLayer]:
    """Return the layers of an inference in their order, the inputs of the network first.

    Raises
    ------
    InputError
        For what is no network, for blobs that nothing gives, and for those that two layers give.
    """
    if net.layer and net.layers:
        raise InputError("layers", len(net.layers), "a file has `layer` or `layers`, not both")
    for field in unknown:
        if field.layer is None:
            known = did_you_mean(field.path[-1], field_names("NetParameter"))
            limit = f"is no field of a network description{known or '; is this the file of a solver?'}"
            raise InputError(".".join(field.path), field.value, limit)
        if field.message == "V1LayerParameter" and field.path == ("layer",):
            limit = "is the syntax of 2013; Caffe's own `upgrade_net_proto_text` rewrites it"
            raise InputError("layers.layer", None, limit)
    if not net.layer and not net.layers:
        raise InputError("layer", None, "is missing: a network has layers")
    if len(net.layer or net.layers) > MAX_LAYERS:
        raise InputError("layer", len(net.layer or net.layers), f"at most {MAX_LAYERS} layers")
    current: dict[str, str] = {}
    used: dict[str, int] = {}
    found = list(_inputs(net, current, used))
    for place, each in enumerate(net.layer or net.layers):
        type_ = each.type if net.layer else _new_type(each.type)
        if _runs(each, net.state) and type_ not in JUDGES:
            own = tuple(field for field in unknown if field.layer == place)
            found.append(_layer(each, place, type_, current, used, own))
    return found


def _new_type(number: int) -> str:
    """Return the name that a type of the old syntax has in the new one."""
    name = (
        message("V1LayerParameter").DESCRIPTOR.enum_types_by_name["LayerType"].values_by_number[number].name
    )
    return OLD_TYPES.get(name, "".join(word.title() for word in name.split("_")).replace("Hdf5", "HDF5"))


def _inputs(net: Any, current: dict[str, str], used: dict[str, int]) -> Iterator[CaffeLayer]:
    """Yield the inputs that a file names outside of its layers, as layers that give them."""
    shapes = [list(shape.dim) for shape in net.input_shape]
    if net.input_dim:
        if shapes:
            raise InputError("input_dim", list(net.input_dim), "stands beside input_shape; one is enough")
        if len(net.input_dim) != 4 * len(net.input):
            limit = f"must be four numbers for each of the {len(net.input)} inputs"
            raise InputError("input_dim", list(net.input_dim), limit)
        shapes = [list(net.input_dim[at : at + 4]) for at in range(0, len(net.input_dim), 4)]
    if shapes and len(shapes) != len(net.input):
        raise InputError("input_shape", shapes, f"must be one for each of the {len(net.input)} inputs")
    for place, name in enumerate(net.input):
        own = message("LayerParameter")
        own.name, own.type = name, "Input"
        own.top.append(name)
        if shapes:
            own.input_param.shape.add().dim.extend(shapes[place])
        yield _layer(own, place, "Input", current, used, ())


def _runs(layer: Any, state: Any) -> bool:
    """Whether a layer is part of the network in its state, by default that of a test."""
    if layer.include and layer.exclude:
        raise InputError(f"layer {layer.name}, include", None, "stands beside exclude; one is enough")
    if layer.include:
        return any(_meets(rule, state) for rule in layer.include)
    return not any(_meets(rule, state) for rule in layer.exclude)


def _meets(rule: Any, state: Any) -> bool:
    stages = set(state.stage)
    return bool(
        (not rule.HasField("phase") or rule.phase == state.phase)
        and (not rule.HasField("min_level") or state.level >= rule.min_level)
        and (not rule.HasField("max_level") or state.level <= rule.max_level)
        and stages.issuperset(rule.stage)
        and stages.isdisjoint(rule.not_stage)
    )


def _layer(
    own: Any,
    place: int,
    type_: str,
    current: dict[str, str],
    used: dict[str, int],
    unknown: tuple[UnknownField, ...],
) -> CaffeLayer:
    """Return a layer, and note which tensors its blobs are from now on."""
    name = own.name or f"layer{place + 1}"
    for number, blob in enumerate(own.bottom):
        if blob not in current:
            known = did_you_mean(blob, [*current])
            raise InputError(f"layer {name}, bottom[{number}]", blob, f"no layer before it gives this{known}")
    bottoms = tuple(current[blob] for blob in own.bottom)
    tops = []
    for number, blob in enumerate(own.top):
        in_place = number < len(own.bottom) and own.bottom[number] == blob
        if blob in current and not in_place:
            raise InputError(f"layer {name}, top[{number}]", blob, "is given by a layer before it, too")
        tensor = blob if blob not in used else name
        while tensor in used:
            used[blob] += 1
            tensor = f"{blob}/{used[blob]}"
        used[tensor] = 1
        current[blob] = tensor
        tops.append(tensor)
    shared = tuple(each if isinstance(each, str) else each.name for each in own.param)
    return CaffeLayer(name, type_, own, bottoms, tuple(tops), shared, unknown)
