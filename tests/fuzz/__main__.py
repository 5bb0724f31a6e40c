"""Attack the product, with all campaigns or those named: ``python -m tests.fuzz --minutes 60``."""

from __future__ import annotations

import argparse
import sys
import time

from tests.fuzz import problems, trials


def main() -> int:
    """Run campaigns and print a table of trials and failures; return 1 if there was a failure."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("campaigns", nargs="*", help=f"of {', '.join(trials.names())}; by default all")
    parser.add_argument("--minutes", type=float, help="of all campaigns together, in equal shares")
    parser.add_argument("--count", type=int, help="trials of each campaign; by default 20 without --minutes")
    parser.add_argument("--seed", type=int, default=0, help="of the first trial")
    parser.add_argument("--methods", default="", help="pattern of the methods that solve problems: '*@*'")
    told = parser.parse_args()
    problems.CHOSEN = told.methods
    chosen = told.campaigns or trials.names()
    if unknown := sorted(set(chosen) - set(trials.names())):
        parser.error(f"no such campaign: {', '.join(unknown)}; there are {', '.join(trials.names())}")
    count = 20 if told.count is None and told.minutes is None else told.count
    share = float("inf") if told.minutes is None else 60 * told.minutes / len(chosen)
    failed = 0
    for name in chosen:
        tally = trials.run(name, told.seed, count, time.monotonic() + share)
        failed += len(tally.failures)
        print(
            f"{name:16} {tally.tried:7} tried {tally.skipped:6} skipped {len(tally.failures):4} failed "
            f"{tally.seconds:7.0f} s",
            flush=True,
        )
        if tally.methods:
            print(
                "  " + ", ".join(f"{method} {times}" for method, times in sorted(tally.methods.items())),
                flush=True,
            )
        for seed, found in tally.failures[:10]:
            print(f"  --seed {seed}: {found}", flush=True)
        if tally.interrupted:
            break
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
