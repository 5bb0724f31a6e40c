"""Read weights and samples from ``.npz`` files, with suspicion."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.core.files import reason
from tilewright.simulator.arithmetic.fixed_point import Floats, Integers
from tilewright.simulator.arithmetic.integer_layer import Parameters
from tilewright.spec.errors import InputError
from tilewright.spec.network import NamedLayer

MAX_BYTES, MAX_UNPACKED = 500_000_000, 2_000_000_000
"""Largest file that is read, and most bytes of all that it holds."""


class Samples(NamedTuple):
    """Images, shape (images, C, H, W), and the right class of each."""

    inputs: Floats
    labels: Integers | None


def digest_of(path: str, field: str) -> str:
    """Return the SHA-256 of a file."""
    _size(path, field)
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _shown(path: str) -> str:
    """Return a path as errors show it, which cut the ends of long values off."""
    return path if len(path) < 50 else f".../{Path(path).name}"


def _size(path: str, field: str) -> int:
    """Return a file's size; refuse one that is not there or too large."""
    file = Path(path)
    try:
        size = file.stat().st_size if file.is_file() else None
        there = file.exists()
    except (OSError, ValueError) as error:
        raise InputError(field, _shown(path), f"cannot be read: {reason(error)}") from None
    if size is None:
        told = "is no file" if there else "no such file"
        raise InputError(field, _shown(path), f"{told}; an .npz file is needed, as numpy.savez writes it")
    if size > MAX_BYTES:
        raise InputError(field, _shown(path), f"has {size} bytes, at most {MAX_BYTES} are read")
    return size


def arrays(path: str, field: str) -> Mapping[str, NDArray[Any]]:
    """Return the arrays of a file.

    Raises
    ------
    InputError
        If it is no ``.npz`` file, holds too much, or holds what is no array of numbers.
    """
    _size(path, field)
    try:
        with zipfile.ZipFile(path) as members:
            unpacked = sum(member.file_size for member in members.infolist())
        if unpacked > MAX_UNPACKED:
            raise InputError(field, path, f"unpacks to {unpacked} bytes, at most {MAX_UNPACKED} are read")
        with np.load(path, allow_pickle=False) as file:
            found = {name: file[name] for name in file.files}
    except InputError:
        raise
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, NotImplementedError) as error:
        raise InputError(field, _shown(path), f"is no .npz file of numbers: {reason(error)}") from None
    for name, array in found.items():
        if array.dtype.kind not in "fiu":
            raise InputError(f"{field}: {name}", str(array.dtype), f"must be numbers ({path})")
    return found


def _checked(array: NDArray[Any], shape: tuple[int | None, ...], name: str, path: str) -> Floats:
    """Return an array of finite numbers of a shape, whose unknown lengths are None."""
    fits = array.ndim == len(shape) and all(
        wanted in (None, length) for wanted, length in zip(shape, array.shape, strict=True)
    )
    if not fits:
        wanted = " x ".join("any" if length is None else str(length) for length in shape)
        raise InputError(name, " x ".join(map(str, array.shape)), f"its shape must be {wanted} ({path})")
    values: Floats = array.astype(np.float64)
    if not np.isfinite(values).all():
        place = tuple(int(index) for index in np.argwhere(~np.isfinite(values))[0])
        raise InputError(f"{name}{list(place)}", str(values[place]), f"must be a finite number ({path})")
    return values


def read_parameters(path: str, layers: tuple[NamedLayer, ...]) -> dict[str, Parameters]:
    """Return the weights and biases of layers, by name; see `DataFiles`."""
    found = arrays(path, "data.weights")
    known = {f"{layer.name}.{part}" for layer in layers for part in ("weights", "bias")}
    if unknown := sorted(set(found) - known):
        raise InputError("data.weights", unknown[0], f"the network has no such weights ({path})")
    parameters = {}
    for layer in layers:
        name = f"{layer.name}.weights"
        if name not in found:
            raise InputError("data.weights", path, f"holds no {name}; it holds: {', '.join(found)}")
        weights = _checked(found[name], layer.kernels_shape, name, path)
        bias = np.zeros(layer.kernels)
        if layer.bias:
            name = f"{layer.name}.bias"
            if name not in found:
                raise InputError("data.weights", path, f"holds no {name}, and layer {layer.name} has a bias")
            bias = _checked(found[name], (layer.kernels,), name, path)
        parameters[layer.name] = Parameters(weights, bias)
    return parameters


@lru_cache(maxsize=4)
def _samples(path: str, _changed: int, shape: tuple[int, int, int], classes: int | None) -> Samples:
    found = arrays(path, "data.samples")
    if "inputs" not in found:
        raise InputError("data.samples", path, f"holds no inputs; it holds: {', '.join(found) or 'nothing'}")
    inputs = _checked(found["inputs"], (None, *shape), "inputs", path)
    if not len(inputs):
        raise InputError("data.samples", path, "holds no image; one is needed at least")
    if "scale" in found:
        inputs = inputs * float(_checked(found["scale"], (), "scale", path))
    if "labels" not in found:
        return Samples(inputs, None)
    labels = _checked(found["labels"], (len(inputs),), "labels", path).astype(np.int64)
    if classes is not None and not ((labels >= 0) & (labels < classes)).all():
        wrong = int(labels[(labels < 0) | (labels >= classes)][0])
        raise InputError("labels", wrong, f"must be from 0 to {classes - 1}, classes of the network ({path})")
    return Samples(inputs, labels)


def read_samples(path: str, shape: tuple[int, int, int], classes: int | None = None) -> Samples:
    """Return images and, if there are any, their classes; see `DataFiles`.

    Parameters
    ----------
    shape
        C, H, W of an image.
    classes
        Of the network, to check labels against.
    """
    _size(path, "data.samples")
    return _samples(path, Path(path).stat().st_mtime_ns, shape, classes)
