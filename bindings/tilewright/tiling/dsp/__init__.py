"""Tiling on a scratchpad DSP; `kind` is its face."""
