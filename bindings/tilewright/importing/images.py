"""Samples from a folder of images, with labels from the names of its sub-folders."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.bitwidth.data import MAX_BYTES, Samples
from tilewright.core.files import reason
from tilewright.spec.errors import InputError

ENDINGS = (".png", ".jpg", ".jpeg")
"""Of files that are read; others are passed over."""

MODES = ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr")
"""Pillow's names for pixels of 8 bits."""

MOST_PIXELS = 50_000_000
"""Of an image."""

DISTORTION = 0.02
"""Relative difference of an image's proportions from the network's that is stretched away."""

FIELD = "--calibration"

SCALE = 1 / 255
"""What pixels, from 0 to 255, are multiplied by."""


class Images(NamedTuple):
    """Pixels, shape (images, C, H, W), a mean already taken off, and what they are to be multiplied by."""

    pixels: NDArray[Any]
    scale: float
    labels: NDArray[np.int64] | None

    @property
    def samples(self) -> Samples:
        """The numbers that a network is given."""
        return Samples(self.pixels.astype(np.float64) * self.scale, self.labels)

    def arrays(self) -> dict[str, Any]:
        """Return what a file of samples holds."""
        found: dict[str, Any] = {"inputs": self.pixels, "scale": np.float64(self.scale)}
        return found if self.labels is None else {**found, "labels": self.labels}


def read_folder(
    folder: Path, shape: tuple[int, int, int], classes: int, scale: float = SCALE, mean: float = 0.0
) -> Images:
    """Return the images of a folder, in the order of their names, scaled to a network's input.

    Sub-folders are classes: their names if all are numbers, else their places in alphabetical order.

    Parameters
    ----------
    shape
        C, H, W of the input: grey for one channel, colour for three.
    classes
        Of the network, to check labels against.
    scale, mean
        The network is given (pixel - mean) * scale, pixels from 0 to 255.

    Raises
    ------
    InputError
        For what is no image, has other proportions, or a class that the network does not have.
    """
    if shape[0] not in (1, 3):
        limit = f"holds images of 1 or 3 channels, and the network reads {shape[0]}; an .npz file is needed"
        raise InputError(FIELD, str(folder), limit)
    files, labels = _listed(folder, classes)
    kind = np.uint8 if mean == 0 else np.float32
    if (size := len(files) * prod(shape) * np.dtype(kind).itemsize) > MAX_BYTES:
        raise InputError(FIELD, str(folder), f"makes {size} bytes of samples, at most {MAX_BYTES} are read")
    pixels = np.empty((len(files), *shape), dtype=kind)
    for place, file in enumerate(files):
        read = _pixels(file, shape)
        pixels[place] = read if mean == 0 else read - np.float32(mean)
    return Images(pixels, scale, labels)


def _listed(folder: Path, classes: int) -> tuple[list[Path], NDArray[np.int64] | None]:
    """Return the images of a folder or of its sub-folders, and the classes that these stand for."""
    try:
        inside = sorted(folder.iterdir())
        found = {path: _images(path) for path in inside if path.is_dir()}
        loose = _images(folder)
    except OSError as error:
        raise InputError(FIELD, str(folder), f"cannot be read: {reason(error)}") from None
    found = {path: files for path, files in found.items() if files}
    if not found and not loose:
        raise InputError(
            FIELD, str(folder), f"holds no image; read are files that end in {', '.join(ENDINGS)}"
        )
    if not found:
        return loose, None
    if loose:
        raise InputError(FIELD, loose[0].name, f"has no class, and there are sub-folders in {folder}")
    numbered = all(path.name.isdecimal() for path in found)
    labels: list[int] = []
    for place, (path, files) in enumerate(found.items()):
        label = int(path.name) if numbered else place
        if label >= classes:
            limit = f"would be class {label}, and the network's are from 0 to {classes - 1} ({folder})"
            raise InputError(FIELD, path.name, limit)
        labels += [label] * len(files)
    return [file for files in found.values() for file in files], np.array(labels, dtype=np.int64)


def _images(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in ENDINGS and path.is_file())


def _pixels(file: Path, shape: tuple[int, int, int]) -> NDArray[np.uint8]:
    """Return the pixels of an image in a network's shape, from 0 to 255."""
    try:
        from PIL import Image
    except ImportError:
        limit = "is a folder of images, which Pillow reads; install tilewright[images]"
        raise InputError(FIELD, str(file.parent), limit) from None
    channels, height, width = shape
    try:
        with Image.open(file, formats=("PNG", "JPEG")) as image:
            if image.width * image.height > MOST_PIXELS:
                told = f"has {image.width} x {image.height} pixels, at most {MOST_PIXELS} are read"
                raise InputError(FIELD, str(file), told)
            if image.mode not in MODES:
                raise InputError(FIELD, str(file), f"has pixels of kind {image.mode}; 8 bits are read")
            if abs(image.width * height / (image.height * width) - 1) > DISTORTION:
                limit = f"has {image.width} x {image.height} pixels, of other proportions than the network's "
                raise InputError(FIELD, str(file), f"{limit}{width} x {height}; cut it to these")
            plain = image.convert("L" if channels == 1 else "RGB")
            if plain.size != (width, height):
                plain = plain.resize((width, height), Image.Resampling.BILINEAR)
            pixels = np.asarray(plain, dtype=np.uint8)
    except InputError:
        raise
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise InputError(FIELD, str(file), f"cannot be read as an image: {reason(error)}") from None
    return pixels.reshape(height, width, channels).transpose(2, 0, 1)
