"""Gecode, for ``.mzn`` formulations: the one of MiniZinc's solvers that is driven in stages."""

from tilewright.drivers.minizinc import ThroughMiniZinc

__all__ = ["look_at", "solve", "versions"]

_GECODE = ThroughMiniZinc("gecode", "gecode", tuned=True)
look_at, solve, versions = _GECODE.look_at, _GECODE.solve, _GECODE.versions
