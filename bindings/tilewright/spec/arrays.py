"""What is done with arrays in several places."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def distinct(values: NDArray[Any], axis: int | None = None) -> NDArray[Any]:
    """Return the different values of a list, or slices of an array along an axis, in ascending order.

    As ``numpy.unique``, which loads ``numpy.ma`` without an index, a tenth of the first solve, and hashes
    the values, which takes more than ten times as long as sorting them.
    """
    if axis is None and values.ndim == 1:
        ordered = np.sort(values)
        return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(ordered) else ordered
    found: NDArray[Any] = np.unique(values, return_index=True, axis=axis)[0]
    return found
