"""Tiling on a hierarchy of memories and arrays; `kind` is its face."""
