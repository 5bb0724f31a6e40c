"""Gecode, for ``.mzn`` formulations: the one of MiniZinc's solvers that is driven in stages."""

from tilewright.drivers.minizinc import ThroughMiniZinc

__all__ = ["solve", "versions"]

_GECODE = ThroughMiniZinc("gecode", "gecode", tuned=True)
solve, versions = _GECODE.solve, _GECODE.versions
