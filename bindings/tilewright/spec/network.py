"""The network table: a graph of named layers, in an order in which they can be executed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cache, cached_property
from math import prod
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError, model_validator

from tilewright.spec.base import Spec, plain_value
from tilewright.spec.errors import InputError, did_you_mean
from tilewright.spec.layer import ALL_SIDES, BOTH, Layer, Length, Pad, Size, Window

MAX_LAYERS = 10_000
"""Most layers of a network."""

OWN_INPUT = "input"
"""What layers call the network's own input; no layer may have this name."""

OPERANDS = ("add", "mul")
"""Kinds whose inputs are operands of their own, two or more, instead of being concatenated."""

Name = Annotated[str, Field(min_length=1, max_length=200)]
Extents = Annotated[int, Field(ge=1, le=2**24)]
Shape = tuple[Extents, Extents, Extents]
Count = Annotated[int, Field(ge=0, le=2**40)]
Work = Annotated[int, Field(ge=0, le=2**60)]
Bits = Annotated[int, Field(ge=1, le=64)]

Affine = Literal["batch_norm", "scale", "bias"]
Activation = Literal[
    "relu",
    "leaky_relu",
    "prelu",
    "elu",
    "selu",
    "celu",
    "gelu",
    "mish",
    "swish",
    "softplus",
    "softsign",
    "sigmoid",
    "hard_sigmoid",
    "hard_swish",
    "tanh",
    "clip",
    "erf",
]
Unchanged = Literal["dropout", "identity"]
Rescaling = Literal["quantise", "dequantise"]
Normalisation = Literal["lrn", "softmax", "log_softmax"]
Axis = Literal["channels", "rows", "columns"]

AFFINE: tuple[Affine, ...] = get_args(Affine)
"""Functions that multiply by a number and add one, of each channel or of all."""

ACTIVATIONS: tuple[Activation, ...] = get_args(Activation)

UNCHANGED: tuple[Unchanged, ...] = get_args(Unchanged)
"""Functions that leave values as they are when a network is used, not trained."""

FREE: tuple[str, ...] = (*UNCHANGED, *get_args(Rescaling), "cast")
"""Those, and functions that only change how a value is stored, as integers that stand for numbers."""

GATES = {"lstm": 4, "gru": 3, "rnn": 1}
"""Recurrent functions, with the products that make one value of their state."""

NORMALISATIONS: tuple[Normalisation, ...] = get_args(Normalisation)
"""Functions of several channels."""


class NetworkLayer(Spec):
    """What every layer of a network has, whatever its kind.

    Attributes
    ----------
    inputs : names, optional
        Earlier layers that are read, or ``input`` for the network's own input; the layer before when left
        out, which for the first layer is the network's input.
    """

    name: Name
    inputs: tuple[Name, ...] | None = None

    def model_post_init(self, _context: object) -> None:
        """Say which layer's geometry is refused."""
        try:
            super().model_post_init(_context)
        except InputError as error:
            raise InputError(error.field, error.value, f"layer {self.name}: {error.limit}") from None


class NamedLayer(NetworkLayer, Layer):
    """A convolution or fully connected layer of a network; what it reads is concatenated along channels.

    Attributes
    ----------
    bias : bool
        Whether each kernel has a number that is added to all of its outputs.
    weights : name, optional
        An earlier layer whose kernels and bias it uses, too; they are counted once.
    bits : (inputs, weights, outputs), optional
        Widths of quantised values, where it is known.
    """

    later: ClassVar[tuple[str, ...]] = ("weights", "bits")

    bias: bool = False
    weights: Name | None = None
    bits: tuple[Bits, Bits, Bits] | None = None

    @property
    def parameters(self) -> int:
        """Weights, and the bias of each kernel."""
        return self.kernels * (self.macs_per_output + self.bias)

    def unnamed(self, batch: int | None = None) -> Layer:
        """Return the layer as it stands in an instance of its own.

        Parameters
        ----------
        batch
            Images processed together, when it is not what the network's file says.
        """
        table = self.model_dump(include=set(Layer.model_fields))
        return Layer.model_validate(table if batch is None else {**table, "batch": batch})


class Pool(NetworkLayer, Window):
    """The largest or average value under a window; what it reads is concatenated along channels.

    Attributes
    ----------
    input : (C, H, W)
        Channels, height and width before padding.
    kernel, stride, padding
        The window, as a convolution's.
    """

    kind: Literal["pool"]
    op: Literal["max", "average"] = "max"
    input: Shape
    kernel: Annotated[tuple[Length, Length], BOTH]  # up to the whole plane
    stride: Annotated[tuple[Length, Length], BOTH] = (1, 1)
    padding: Annotated[tuple[Pad, Pad, Pad, Pad], ALL_SIDES] = (0, 0, 0, 0)
    dilation: ClassVar[tuple[int, int]] = (1, 1)


class Pixelwise(NetworkLayer, Window):
    """What computes each value of its output from those of its inputs at the same place.

    Attributes
    ----------
    input : (C, H, W)
        Channels, height and width of the output, and of the input.
    """

    kind: str
    input: Shape
    kernel: ClassVar[tuple[int, int]] = (1, 1)
    stride: ClassVar[tuple[int, int]] = (1, 1)
    padding: ClassVar[tuple[int, int, int, int]] = (0, 0, 0, 0)
    dilation: ClassVar[tuple[int, int]] = (1, 1)


class Add(Pixelwise):
    """The sum, value by value, of two or more inputs of one shape."""

    kind: Literal["add"]


class Mul(Pixelwise):
    """The product, value by value, of two or more inputs; one of a single pixel multiplies all pixels."""

    kind: Literal["mul"]


class Concat(Pixelwise):
    """What it reads, concatenated along channels, for layers that take one operand from each input."""

    kind: Literal["concat"]


class Response(Spec):
    """How a local response normalisation divides: by ``(k + alpha / size * sum of squares) ** beta``.

    Attributes
    ----------
    size : int
        Neighbouring channels whose squares are summed.
    alpha, beta, k : float
    """

    size: Size
    alpha: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False, strict=False)] = 1e-4
    beta: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False, strict=False)] = 0.75
    k: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False, strict=False)] = 1.0


class NumbersOfPlaces(Spec):
    """Numbers of the file that differ from place to place, such as a mask or a table of cosines.

    Attributes
    ----------
    op : "add" or "mul"
        What becomes of a value and the number at its place.
    shape : (C, H, W)
        Rows and columns as what is read has them, or one. Of fewer channels, each group of as many has them
        again.
    causal : int, optional
        Of a mask that is added to scores, which have queries as columns and their keys as channels and rows:
        query i needs keys up to i + `causal`, of which the numbers are zeros, and those of later keys are so
        negative that softmax gives these nothing. The last query needs all.
    """

    later: ClassVar[tuple[str, ...]] = ("causal",)

    op: Literal["add", "mul"]
    shape: Shape
    causal: Count | None = None

    def model_post_init(self, _context: object) -> None:
        """Refuse what no mask is."""
        super().model_post_init(_context)
        channels, height, width = self.shape
        if self.causal is not None and (self.op != "add" or self.causal != channels * height - width):
            limit = "is for numbers that are added, the keys of the last query less all queries"
            raise InputError("layer.numbers.causal", self.causal, limit)


class Map(Pixelwise):
    """A function of one input that keeps its shape.

    Attributes
    ----------
    op
        The function; ``fused`` stands for one, or several in a row, that are not to be fused further.
    parameters : int
        Numbers that were trained, such as the two of each channel of a batch normalisation.
    response : optional
        Of a local response normalisation, ``lrn``: needed where it is executed with data.
    numbers : optional
        Of ``fused``: that its parameters are numbers of places, their shape, and whether they are added.
    """

    later: ClassVar[tuple[str, ...]] = ("response", "numbers")

    kind: Literal["map"]
    op: Affine | Activation | Unchanged | Rescaling | Normalisation | Literal["cast", "fused"]
    parameters: Count = 0
    response: Response | None = None
    numbers: NumbersOfPlaces | None = None

    def model_post_init(self, _context: object) -> None:
        """Refuse what belongs to another function, and numbers of another shape."""
        super().model_post_init(_context)
        if self.response is not None and self.op != "lrn":
            raise InputError("layer.response", self.op, f"layer {self.name}: is for op lrn only")
        if self.numbers is None:
            return
        if self.op != "fused":
            raise InputError("layer.numbers", self.op, f"layer {self.name}: is for op fused only")
        channels, *plane = self.numbers.shape
        alike = all(size in (1, own) for size, own in zip(plane, self.input[1:], strict=True))
        if self.input[0] % channels or not alike:
            limit = f"layer {self.name}: must divide the {self.input[0]} channels of {list(self.input)}, and "
            limit += "have its rows and columns, or one"
            raise InputError("layer.numbers.shape", list(self.numbers.shape), limit)
        if prod(self.numbers.shape) != self.parameters:
            limit = f"layer {self.name}: holds {prod(self.numbers.shape)} numbers, as parameters must say"
            raise InputError("layer.parameters", self.parameters, limit)

    @property
    def numbers_of_pixels(self) -> NumbersOfPlaces | None:
        """Its numbers, if each pixel has one, or some, of its own."""
        alike = self.numbers is not None and self.numbers.shape[1:] == self.input[1:]
        return self.numbers if alike else None


class Padding(NetworkLayer):
    """Zeros around the input.

    Attributes
    ----------
    padding : (top, bottom, left, right) or int
        Rows and columns; more than a window's may be.
    """

    kind: Literal["pad"]
    input: Shape
    padding: Annotated[tuple[Pad, Pad, Pad, Pad], ALL_SIDES]

    @property
    def output(self) -> tuple[int, int, int]:
        """Shape ``(C, H, W)`` of the output of one image."""
        (channels, height, width), (top, bottom, left, right) = self.input, self.padding
        return channels, height + top + bottom, width + left + right


class Permutation(Spec):
    """The order in which a move gives values: dimensions change places.

    Attributes
    ----------
    sizes
        Of the dimensions of what is read, of one image, the outermost first.
    axes
        Which of them each dimension of what is given is.
    """

    sizes: Annotated[tuple[Size, ...], Field(min_length=1, max_length=8)]
    axes: Annotated[tuple[Count, ...], Field(min_length=1, max_length=8)]

    def model_post_init(self, _context: object) -> None:
        """Refuse dimensions that are missing or named twice."""
        if sorted(self.axes) != list(range(len(self.sizes))):
            limit = f"must have each number from 0 to {len(self.sizes) - 1} once"
            raise InputError("layer.permutation.axes", list(self.axes), limit)

    def of_images(self, count: int) -> Permutation:
        """Return that of several images, which lie one after the other."""
        if count == 1:
            return self
        return Permutation(sizes=(count, *self.sizes), axes=(0, *(1 + axis for axis in self.axes)))

    @property
    def merged(self) -> Permutation:
        """The same with as few dimensions as can be: neighbours that stay neighbours are one."""
        large = [axis for axis in self.axes if self.sizes[axis] > 1] or [0]
        runs: list[list[int]] = []
        rank = {axis: place for place, axis in enumerate(sorted(large))}
        for axis in large:
            if runs and rank[axis] == rank[runs[-1][-1]] + 1:
                runs[-1].append(axis)
            else:
                runs.append([axis])
        places = {run[0]: place for place, run in enumerate(sorted(runs))}
        sizes = tuple(prod(self.sizes[axis] for axis in run) for run in sorted(runs))
        return Permutation(sizes=sizes, axes=tuple(places[run[0]] for run in runs))


class Reshape(NetworkLayer):
    """The same values in another order or shape.

    Attributes
    ----------
    input, output : (C, H, W)
    permutation : optional
        The order of what is given, where the op changes it: without it that is not known.
    """

    later: ClassVar[tuple[str, ...]] = ("permutation",)

    kind: Literal["reshape"]
    op: Literal["reshape", "flatten", "transpose", "space_to_depth", "depth_to_space"] = "reshape"
    input: Shape
    output: Shape
    permutation: Permutation | None = None

    def model_post_init(self, _context: object) -> None:
        """Refuse shapes of different numbers of values, and an order of what stays in order."""
        super().model_post_init(_context)
        if self.permutation is not None:
            if self.op in ("reshape", "flatten"):
                limit = f"layer {self.name}: is for ops that change the order of values"
                raise InputError("layer.permutation", self.permutation.model_dump(), limit)
            if prod(self.permutation.sizes) != prod(self.input):
                limit = f"layer {self.name}: must hold as many values as the input, {prod(self.input)}"
                raise InputError("layer.permutation.sizes", list(self.permutation.sizes), limit)
        if prod(self.input) != prod(self.output):
            limit = f"layer {self.name}: must hold as many values as its input, {prod(self.input)}"
            raise InputError("layer.output", list(self.output), limit)


class Slice(NetworkLayer):
    """A part of what it reads: some channels, rows and columns, without gaps.

    Attributes
    ----------
    input, output : (C, H, W)
    first : (C, H, W)
        The first channel, row and column of the part.
    """

    kind: Literal["slice"]
    input: Shape
    first: tuple[Count, Count, Count] = (0, 0, 0)
    output: Shape

    def model_post_init(self, _context: object) -> None:
        """Refuse a part that is not there."""
        super().model_post_init(_context)
        for first, size, whole in zip(self.first, self.output, self.input, strict=True):
            if first + size > whole:
                limit = f"layer {self.name}: from {list(self.first)} on {list(self.input)} has no such part"
                raise InputError("layer.output", list(self.output), limit)


class Input(NetworkLayer):
    """A further input of the network, beside the one that layers call ``input``.

    Attributes
    ----------
    input : (C, H, W)
        Its shape.
    """

    kind: Literal["input"]
    input: Shape

    @property
    def output(self) -> tuple[int, int, int]:
        """Shape ``(C, H, W)`` of what is given."""
        return self.input


class MatMul(NetworkLayer):
    """A product of two matrices that both depend on the image, as in attention; groups of them, each apart.

    It reads two layers. It takes what a convolution of 1x1 takes whose kernels are the second operand.

    Attributes
    ----------
    input, output : (C, H, W)
        Shapes of the first operand and of the product, channels first: of each group ``depth`` channels of
        all rows, and ``columns`` channels of all rows.
    groups : int
        Pairs of matrices, such as the heads of attention.
    depth : int
        Columns of the first and rows of the second matrix, which are summed over.
    batch : int
        Images, each with matrices of its own.
    transposed : bool, optional
        Whether the second operand is stored as the product is, of each group its columns and then its rows;
        else its rows stand first. Needed where it is executed with data.
    """

    later: ClassVar[tuple[str, ...]] = ("transposed",)

    kind: Literal["matmul"]
    input: Shape
    output: Shape
    groups: Size = 1
    depth: Size
    batch: Size = 1
    transposed: bool | None = None

    def model_post_init(self, _context: object) -> None:
        """Refuse shapes that no matrices have."""
        super().model_post_init(_context)
        for field, shape, unit in (
            ("depth", self.input, self.groups * self.depth),
            ("output", self.output, self.groups * self.rows),
        ):
            if not unit or prod(shape) % unit:
                limit = (
                    f"layer {self.name}: {prod(shape)} values do not make {self.groups} groups of matrices"
                )
                raise InputError(f"layer.{field}", getattr(self, field), limit)

    @property
    def rows(self) -> int:
        """Rows of the first matrix and of the product."""
        return prod(self.input) // (self.groups * self.depth)

    @property
    def columns(self) -> int:
        """Columns of the second matrix and of the product."""
        return prod(self.output) // (self.groups * self.rows)

    @property
    def macs(self) -> int:
        """MACs of all images together."""
        return self.batch * self.groups * self.rows * self.depth * self.columns

    def unnamed(self, batch: int | None = None) -> Layer:
        """Return the convolution of 1x1 that does the same, whose groups are those of all images.

        Parameters
        ----------
        batch
            Images processed together, when it is not what the network's file says.
        """
        groups = self.groups * (self.batch if batch is None else batch)
        table = {"input": (groups * self.depth, 1, self.rows), "kernel": (1, 1)}
        return Layer.model_validate({**table, "kernels": groups * self.columns, "groups": groups})


class Recurrence(Spec):
    """How often a recurrent layer computes a state from the one before.

    Attributes
    ----------
    steps : int
        Points in time. Of an image, each has as many values of the input.
    hidden : int
        Values of the state, of one direction: what one point in time gives.
    directions : int
        2 where a second state goes through time backwards, with weights of its own.
    reset_after : bool
        Of a GRU, whether its reset gate multiplies what a product has made of the state (ONNX's
        ``linear_before_reset``). Else it multiplies the state, and one product needs all of the other two.
    reads_time_last, gives_time_last : bool
        Whether points in time are the innermost dimension of what it reads, and of the states of all points
        in time. Else they are the outermost one.
    """

    later: ClassVar[tuple[str, ...]] = ("reads_time_last", "gives_time_last")

    steps: Size
    hidden: Size
    directions: Annotated[int, Field(ge=1, le=2)] = 1
    reset_after: bool = False
    reads_time_last: bool = False
    gives_time_last: bool = False


class Function(NetworkLayer):
    """An operation that is understood and has no kind of its own: what it reads and gives, and its work.

    Attributes
    ----------
    op : str
        What it does, for example ``resize_linear``.
    input, output : (C, H, W)
        Shapes of the first of its inputs and of its output.
    macs : int
        Multiplications and additions for all images.
    parameters : int
        Numbers that were trained.
    numbers_at : int, optional
        Of a concatenation, ``concat``, with numbers of the file: how many of its inputs stand before them, if
        they stand in one place.
    along : list of axes, optional
        Of a function that keeps the shape of its only input, as softmax does: the axes along which a value
        needs all others. Along the others it needs its own place alone. Without it, a value may need all.
    recurrence : table, optional
        Of ``lstm``, ``gru`` and ``rnn``: its points in time and the size of its state. It gives the state of
        each of them, or of the last one.
    """

    later: ClassVar[tuple[str, ...]] = ("numbers_at", "along", "recurrence")

    kind: Literal["function"]
    op: Name
    input: Shape
    output: Shape
    macs: Work = 0
    parameters: Count = 0
    numbers_at: Count | None = None
    along: tuple[Axis, ...] | None = None
    recurrence: Recurrence | None = None

    def model_post_init(self, _context: object) -> None:
        """Refuse what belongs to another function."""
        super().model_post_init(_context)
        if self.recurrence is not None:
            self._check_recurrence(self.recurrence)
        if self.along is not None and self.output != self.input:
            limit = f"layer {self.name}: is for functions whose output has the shape of their input"
            raise InputError("layer.along", list(self.along), limit)
        if self.numbers_at is not None and (self.op != "concat" or not self.parameters):
            limit = f"layer {self.name}: is for op concat with parameters only"
            raise InputError("layer.numbers_at", self.numbers_at, limit)

    def _check_recurrence(self, told: Recurrence) -> None:
        """Refuse a recurrence whose sizes are not those of what is read, given and trained."""
        where, given = f"layer {self.name}", prod(self.output)
        if self.op not in GATES:
            raise InputError("layer.recurrence", self.op, f"{where}: is for ops {', '.join(GATES)} only")
        if prod(self.input) % told.steps:
            limit = f"{where}: must divide the {prod(self.input)} values of the input"
            raise InputError("layer.recurrence.steps", told.steps, limit)
        units = told.directions * told.hidden
        if given not in (units, told.steps * units):
            limit = f"{where}: gives {units} values at each of {told.steps} points in time, or at the last"
            raise InputError("layer.output", list(self.output), limit)
        least = units * GATES[self.op] * (prod(self.input) // told.steps + told.hidden)
        if self.parameters < least or (self.parameters - least) % units:
            limit = f"{where}: must be {least} weights, and as many more for each of {units} values"
            raise InputError("layer.parameters", self.parameters, limit)
        if self.macs % (told.steps * least):
            limit = f"{where}: must be a multiple of the {told.steps * least} of an image"
            raise InputError("layer.macs", self.macs, limit)


class Opaque(NetworkLayer):
    """An operation that is not understood: nothing is fused with it.

    Attributes
    ----------
    op : str
        What it is called where it comes from.
    input, output : (C, H, W)
        Shapes of the first of its inputs and of its output.
    macs, parameters : int
        Those that are known of.
    """

    later: ClassVar[tuple[str, ...]] = ("macs", "parameters")

    kind: Literal["opaque"]
    op: Name
    input: Shape
    output: Shape
    macs: Work = 0
    parameters: Count = 0


def _conv_by_default(table: Any) -> Any:
    return {"kind": "conv", **table} if isinstance(table, dict) else table


AnyLayer = Annotated[
    NamedLayer
    | Pool
    | Add
    | Mul
    | Concat
    | Map
    | Padding
    | Reshape
    | Slice
    | Input
    | MatMul
    | Function
    | Opaque,
    Field(discriminator="kind"),
    BeforeValidator(_conv_by_default),
]


class Network(Spec):
    """A graph of layers in an order of execution; a layer that is repeated stands repeatedly.

    Attributes
    ----------
    name, source
        What the network is and where its figures come from.
    layers
        Each reads earlier layers only, so that no cycle can be written. A layer without a name is called
        after its place, as ``layer2``; one without an input has that of what it reads.
    input : (C, H, W), optional
        Shape of the network's own input; by default what the first layer takes, which reads nothing else.
    outputs : names, optional
        Layers whose values leave the network, perhaps read inside as well; by default those that none reads.
    """

    table_name: ClassVar[str] = "network"
    later: ClassVar[tuple[str, ...]] = ("input", "outputs")

    name: str = ""
    source: str = ""
    layers: Annotated[tuple[AnyLayer, ...], Field(min_length=1, max_length=MAX_LAYERS)]
    input: Shape | None = None
    outputs: Annotated[tuple[Name, ...], Field(min_length=1, max_length=MAX_LAYERS)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, table: object) -> object:
        """Give names and inputs to layers that have none."""
        if not isinstance(table, dict) or not isinstance(table.get("layers"), list | tuple):
            return table
        layers = [_with_name(layer, f"layer{place}") for place, layer in enumerate(table["layers"], 1)]
        return {**table, "layers": _with_inputs(layers, table.get("input"))}

    def model_post_init(self, _context: object) -> None:
        """Refuse two layers of one name, and inputs that are no earlier layers."""
        earlier: set[str] = set()
        for index, layer in enumerate(self.layers):
            field = f"network.layers[{index}]"
            if layer.name == OWN_INPUT:
                raise InputError(f"{field}.name", layer.name, "stands for the network's own input")
            if layer.name in earlier:
                raise InputError("network.layers", layer.name, "two layers have this name")
            self._check_sharing(layer, index)
            _check_earlier(layer.inputs or (), earlier, index, layer.name)
            _check_reads(layer, field)
            earlier.add(layer.name)
        if self.input is None and self.layers[0].kind == "input":
            limit = (
                "where a further input stands first, network.input must tell the shape of the network's own"
            )
            raise InputError("network.layers[0].kind", "input", limit)
        self._check_outputs()

    @property
    def images(self) -> int:
        """Images that the network processes together, as its layers say.

        Raises
        ------
        InputError
            If they do not say the same.
        """
        first: tuple[str, int] | None = None
        for index, layer in enumerate(self.layers):
            if isinstance(layer, NamedLayer | MatMul):
                if first is not None and layer.batch != first[1]:
                    limit = f"layer {layer.name}: is not that of layer {first[0]}, {first[1]}"
                    raise InputError(f"network.layers[{index}].batch", layer.batch, limit)
                first = first or (layer.name, layer.batch)
        return 1 if first is None else first[1]

    def of_one_image(self) -> Network:
        """Return the network that does the same with one image at a time.

        Raises
        ------
        InputError
            If layers say different numbers of images, or the MACs of all are no multiple of them.
        """
        images, layers = self.images, list[AnyLayer]()
        if images == 1:
            return self
        for index, layer in enumerate(self.layers):
            changes: dict[str, int] = {}
            if isinstance(layer, NamedLayer | MatMul):
                changes["batch"] = 1
            elif isinstance(layer, Function | Opaque):
                if layer.macs % images:
                    limit = f"layer {layer.name}: must be a multiple of the {images} images"
                    raise InputError(f"network.layers[{index}].macs", layer.macs, limit)
                changes["macs"] = layer.macs // images
            layers.append(layer.model_copy(update=changes) if changes else layer)
        return self.with_(layers=tuple(layers))

    def _check_outputs(self) -> None:
        """Refuse outputs that no layer gives or that stand twice, and layers whose values nobody gets."""
        if self.outputs is None:
            return
        known = {layer.name for layer in self.layers if layer.kind != "input"}
        for place, name in enumerate(self.outputs):
            field = f"network.outputs[{place}]"
            if name not in known:
                raise InputError(
                    field, name, f"must be the name of a layer{did_you_mean(name, sorted(known))}"
                )
            if name in self.outputs[:place]:
                raise InputError(field, name, "stands twice")
        for layer, readers in zip(self.layers, self.consumers, strict=True):
            if not readers and layer.name not in self.outputs:
                raise InputError(
                    "network.outputs",
                    list(self.outputs),
                    f"layer {layer.name} is neither read by a layer nor an output",
                )

    def _check_sharing(self, layer: AnyLayer, index: int) -> None:
        """Refuse weights of a layer that has others or none."""
        if not isinstance(layer, NamedLayer) or layer.weights is None:
            return
        owner = next((each for each in self.layers[:index] if each.name == layer.weights), None)
        if not isinstance(owner, NamedLayer) or owner.kernels_shape != layer.kernels_shape:
            told = "x".join(map(str, layer.kernels_shape))
            limit = f"layer {layer.name} can use the weights of an earlier one with kernels of {told} only"
            raise InputError(f"network.layers[{index}].weights", layer.weights, limit)

    @property
    def own_input(self) -> tuple[int, int, int]:
        """Shape ``(C, H, W)`` of the network's own input."""
        return self.layers[0].input if self.input is None else self.input

    @property
    def quantised(self) -> tuple[str, ...]:
        """Names of the layers whose integers have scales and zero points, which a network does not hold."""
        return tuple(
            layer.name
            for layer in self.layers
            if (isinstance(layer, Map) and layer.op in get_args(Rescaling))
            or (isinstance(layer, NamedLayer) and layer.bits is not None)
        )

    @property
    def convolutions(self) -> tuple[NamedLayer | MatMul, ...]:
        """The convolutions, fully connected layers and matrix products, in order."""
        return tuple(layer for layer in self.layers if isinstance(layer, NamedLayer | MatMul))

    @property
    def macs(self) -> int:
        """MACs of all layers of which they are known."""
        return sum(macs_of(layer) for layer in self.layers)

    @property
    def parameters(self) -> int:
        """Numbers that were trained, in all layers; those that several use once."""
        return sum(parameters_of(layer) for layer in self.layers)

    @cached_property
    def producers(self) -> tuple[tuple[int, ...], ...]:
        """For each layer, the indices of those that it reads; -1 stands for the network's own input."""
        index = {OWN_INPUT: -1} | {layer.name: index for index, layer in enumerate(self.layers)}
        return tuple(
            tuple(index[name] for name in layer.inputs)
            if layer.inputs is not None
            else ()
            if layer.kind == "input"
            else (place - 1,)
            for place, layer in enumerate(self.layers)
        )

    @cached_property
    def consumers(self) -> tuple[tuple[int, ...], ...]:
        """For each layer, the indices of those that read it, each once."""
        readers: list[list[int]] = [[] for _ in self.layers]
        for index, producers in enumerate(self.producers):
            for producer in set(producers) - {-1}:
                readers[producer].append(index)
        return tuple(map(tuple, readers))

    @cached_property
    def results(self) -> tuple[int, ...]:
        """Indices of the layers whose values leave the network, ascending."""
        return tuple(
            index
            for index, (layer, readers) in enumerate(zip(self.layers, self.consumers, strict=True))
            if (not readers if self.outputs is None else layer.name in self.outputs)
        )

    def check_shapes(self) -> None:
        """Refuse a network whose layers do not take what the layers that they read give.

        Raises
        ------
        InputError
            Names the layer, what it takes and what it is given.
        """
        for index, (layer, producers) in enumerate(zip(self.layers, self.producers, strict=True)):
            given = [
                self.own_input if producer < 0 else self.layers[producer].output for producer in producers
            ]
            if not _takes(layer, given):
                shown = " and ".join(
                    f"{OWN_INPUT if producer < 0 else self.layers[producer].name} {'x'.join(map(str, shape))}"
                    for producer, shape in zip(producers, given, strict=True)
                )
                limit = f"is what layer {layer.name} takes, but it is given: {shown}"
                raise InputError(f"network.layers[{index}].input", list(layer.input), limit)


def is_normalisation(layer: AnyLayer) -> bool:
    """Whether a layer is a function along some axes, such as a softmax of rows."""
    return isinstance(layer, Function) and layer.along is not None


def macs_of(layer: AnyLayer) -> int:
    """Return the MACs of a layer, all images together, as far as they are known."""
    return layer.macs if isinstance(layer, NamedLayer | MatMul | Function | Opaque) else 0


def parameters_of(layer: AnyLayer) -> int:
    """Return the numbers of a layer that were trained, unless they are those of an earlier one."""
    if isinstance(layer, NamedLayer):
        return layer.parameters if layer.weights is None else 0
    return layer.parameters if isinstance(layer, Map | Function | Opaque) else 0


def _with_name(layer: Any, name: str) -> Any:
    """Return a layer of a network, or its table, from one that may lack a name."""
    if isinstance(layer, Layer) and not isinstance(layer, NamedLayer):
        layer = {field: getattr(layer, field) for field in layer.model_fields_set}
    return {"name": name, **layer} if isinstance(layer, dict) else layer


@cache
def _checks() -> tuple[TypeAdapter[AnyLayer], TypeAdapter[Shape]]:
    """Return what validates a layer of any kind, and a shape."""
    return TypeAdapter(AnyLayer), TypeAdapter(Shape)


def _with_inputs(layers: list[Any], own_input: Any) -> list[Any]:
    """Return the layers with the inputs that tables among them leave out.

    Parameters
    ----------
    layers
        Layers and tables of them, in order, each with a name.
    own_input
        Shape ``(C, H, W)`` of the network's own input, None where the first layer tells it.

    Returns
    -------
    list
        Up to the first layer that is wrong, since those behind it cannot be told their inputs; all layers
        where none is. The check of the whole network says what is wrong.
    """
    if not any(_lacks_input(layer) for layer in layers):
        return layers
    any_layer, shape = _checks()
    try:
        shapes = {} if own_input is None else {OWN_INPUT: shape.validate_python(plain_value(own_input))}
    except ValidationError:
        return layers
    complete: list[Any] = []
    before = OWN_INPUT
    for place, layer in enumerate(layers):
        table = layer
        if shapes and _lacks_input(layer):
            names = layer.get("inputs") or (before,)
            _check_earlier(names, shapes, place, layer["name"])
            table = _with_input(layer, [shapes[name] for name in names])
        try:
            complete.append(any_layer.validate_python(table))
        except (ValidationError, InputError):
            return [*complete, table]
        before = complete[-1].name
        shapes[before] = complete[-1].output
        shapes.setdefault(OWN_INPUT, complete[-1].input)
    return complete


def _lacks_input(layer: Any) -> bool:
    """Whether this is the table of a layer that takes its input's shape from what it reads."""
    given = layer.get("inputs") if isinstance(layer, dict) else 0
    named = given is None or (
        isinstance(given, list | tuple) and all(isinstance(name, str) for name in given)
    )
    return named and layer.get("kind") != "input" and "input" not in layer


def _with_input(layer: dict[str, Any], given: Sequence[tuple[int, int, int]]) -> dict[str, Any]:
    """Return a layer's table with the input that it has when it reads these shapes ``(C, H, W)``."""
    kind = layer.get("kind")
    if kind == "fc":  # what it reads is flattened
        table = {"kernel": (1, 1), **layer, "input": (sum(map(prod, given)), 1, 1)}
        if "outputs" in table and "kernels" not in table:
            table["kernels"] = table.pop("outputs")
        return table
    if kind == "mul":  # the other operands may be of a single pixel
        return {**layer, "input": max(given, key=prod)}
    if kind in ("add", "matmul", "function", "opaque"):  # the shape of the first operand
        return {**layer, "input": given[0]}
    return {**layer, "input": (sum(shape[0] for shape in given), *given[0][1:])}


def _check_earlier(names: Iterable[str], earlier: Collection[str], place: int, layer: str) -> None:
    """Refuse what a layer names as its inputs and is neither an earlier layer nor the network's input."""
    for name in names:
        if name not in earlier and name != OWN_INPUT:
            limit = (
                f"layer {layer} can read earlier layers only, as layers stand in the order of "
                f'execution, or "{OWN_INPUT}", the network\'s own input'
            )
            raise InputError(f"network.layers[{place}].inputs", name, limit)


def _check_reads(layer: AnyLayer, field: str) -> None:
    """Refuse too few inputs or too many, and one that stands twice where all are joined."""
    names = layer.inputs or ()
    count = len(names) if layer.inputs is not None else layer.kind != "input"
    least, most = {"add": (2, None), "mul": (2, None), "input": (0, 0), "matmul": (2, 2)}.get(
        layer.kind, (1, None)
    )
    if count < least:
        limit = f"layer {layer.name}, of kind {layer.kind}, needs at least {least}"
        raise InputError(f"{field}.inputs", layer.inputs, limit)
    if most is not None and count > most:
        limit = f"layer {layer.name}, of kind {layer.kind}, reads {most or 'nothing'}"
        raise InputError(f"{field}.inputs", layer.inputs, limit)
    if layer.kind not in (*OPERANDS, "matmul") and len(set(names)) < len(names):
        limit = f"layer {layer.name} names an input twice, which only kinds add, mul and matmul may"
        raise InputError(f"{field}.inputs", layer.inputs, limit)


def _takes(layer: AnyLayer, given: list[tuple[int, int, int]]) -> bool:
    """Whether a layer takes values of these shapes."""
    if layer.kind == "input":
        return not given
    if layer.kind == "matmul":
        return given[0] == layer.input and prod(given[1]) == layer.groups * layer.depth * layer.columns
    if layer.kind == "add":
        return set(given) == {layer.input}
    if layer.kind == "mul":
        return {layer.input} <= set(given) <= {layer.input, (layer.input[0], 1, 1)}
    if layer.kind == "fc":
        return sum(map(prod, given)) == prod(layer.input)
    if layer.kind in ("opaque", "function"):
        return given[0] == layer.input
    channels = sum(shape[0] for shape in given)
    return {(channels, *shape[1:]) for shape in given} == {layer.input}
