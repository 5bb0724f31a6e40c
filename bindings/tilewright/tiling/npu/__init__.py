"""Tiling on a multicore NPU; `kind` is its face."""
