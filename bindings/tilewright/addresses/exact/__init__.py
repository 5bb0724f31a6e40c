"""The room's own search: `packing.pack` and `packing.least_height`."""
