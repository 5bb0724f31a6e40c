"""Sheets of tilings: of one layer, a network, a front; `tilewright.tiling.plot` is their face."""
