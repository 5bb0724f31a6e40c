"""What was measured of buffers that were allocated in one memory."""

from __future__ import annotations

from tilewright.core.measures import Count, InCycles, measures


@measures
class AddressesMeasures(InCycles):
    """Of buffers in one memory."""

    memory_addresses: Count
    """The height: addresses from 0 to the highest that is used."""
    live_addresses: Count
    """Most addresses of all buffers that live at one time."""
    buffers: Count
    """How many there are."""
