"""Former place of `tilewright.core.context`, for heuristics and formulations of users' own."""

from tilewright.core.context import CONSTRUCT, Outcome, RunContext, Status
from tilewright.spec.errors import OutOfTimeError

Search = RunContext

__all__ = ["CONSTRUCT", "OutOfTimeError", "Outcome", "RunContext", "Search", "Status"]
