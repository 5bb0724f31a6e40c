"""Random convolutions axis by axis: any kernel, stride, dilation and padding, for strategies of all rooms."""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import strategies as st


class Axis(NamedTuple):
    """What a convolution is along rows, or along columns; padding before and after the input."""

    length: int
    kernel: int
    stride: int
    dilation: int
    before: int
    after: int


@st.composite
def axes(
    draw: st.DrawFn,
    outputs: st.SearchStrategy[int],
    *,
    kernel: st.SearchStrategy[int],
    stride: st.SearchStrategy[int],
    dilation: st.SearchStrategy[int],
    padding: int,
) -> Axis:
    """Draw an axis with so many outputs, whose last rows the stride may skip.

    Parameters
    ----------
    padding
        At most, on each side; it is always less than what the kernel spans.
    """
    size, step, spread = draw(kernel), draw(stride), draw(dilation)
    extent = spread * (size - 1) + 1
    padded = (draw(outputs) - 1) * step + extent + draw(st.integers(0, step - 1))
    before = draw(st.integers(0, min(padding, extent - 1)))
    after = draw(st.integers(0, min(padding, extent - 1, padded - before - 1)))
    return Axis(padded - before - after, size, step, spread, before, after)


def layer_table(channels: int, down: Axis, across: Axis, **rest: Any) -> dict[str, Any]:
    """Return the table of a layer with two axes."""
    return {
        "input": [channels, down.length, across.length],
        "kernel": [down.kernel, across.kernel],
        "stride": [down.stride, across.stride],
        "dilation": [down.dilation, across.dilation],
        "padding": [down.before, down.after, across.before, across.after],
        **rest,
    }
