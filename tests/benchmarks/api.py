"""Measure how long a user waits for quick answers: ``python tests/benchmarks/api.py``."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

import numpy as np
from measuring import Benchmark

import tilewright as tw


def main() -> None:
    """Run all measurements."""
    bench = Benchmark("api")
    for name in ("alexnet-conv3-64k", "inceptionv3-conv5-nmp"):
        command = [sys.executable, "-m", "tilewright", "solve", name]
        bench.time(
            f"tilewright solve {name}",
            lambda command=command: subprocess.run(command, capture_output=True),
            5,
        )
        problem = tw.read(name)
        tw.solve(problem)
        bench.time(f"solve() of {name}, warm", lambda problem=problem: tw.solve(problem), 20)

    lenet = tw.read("lenet5-idsp").problem.parts[1].problem.with_(objective={"minimise": "accesses"})
    sizes = np.geomspace(16 * 1024, 256 * 1024, 100).astype(int)

    def sweep() -> int:
        return sum(
            tw.solve(lenet.with_(machine={"memory_bytes": size})).status == "optimal" for size in sizes
        )

    proven = bench.time("fewest accesses of LeNet-5's conv2 at 100 sizes of memory", sweep, 3)
    assert proven == len(sizes)

    tw.solve("s1-example2", "strips")
    bench.time(
        "solve() by a heuristic, in a worker that waits", partial(tw.solve, "s1-example2", "strips"), 5
    )
    bench.close()


if __name__ == "__main__":
    main()
