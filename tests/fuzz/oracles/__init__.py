"""Optima by enumeration, apart from the package: plain JSON of problems and plans in, costs out.

One module per room has ``best(problem)``, the least cost of all plans (of a front its points, in order), or
None where there is no plan, and ``cost(problem, plan)``, that of one plan. Both walk through plans as docs/
defines them, step by step, and share no line with what they judge. Others: ``tests.oracles``.
"""

from __future__ import annotations

from tests.oracles import Refused, TooLarge

__all__ = ["Refused", "TooLarge"]
