"""Tasks on a real Dask cluster of two processes, of which one is killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import nightly

import tilewright as tw
from tilewright.run.batch.journal import Journal

distributed = pytest.importorskip("distributed")

EXAMPLE, AXES = "s1-example2", {"machine.group_size": [2, 3, 4, 5, 6, 7, 8, 9]}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with distributed.LocalCluster(
        2, threads_per_worker=1, dashboard_address=None, silence_logs=50
    ) as running:
        yield running


def answers(swept: tw.Sweep) -> list[Any]:
    return [(point.values, point.status, point.result and point.result.plan) for point in swept.points]


@pytest.mark.nightly
@pytest.mark.slow
def test_a_killed_worker_changes_nothing(cluster: Any) -> None:
    with distributed.Client(cluster, set_as_default=False) as client:
        workers = list(client.run(os.getpid).values())
    assert len(workers) == 2

    def kill(_point: tw.Point) -> None:
        if workers:
            os.kill(workers.pop(), signal.SIGKILL)
            workers.clear()

    swept = tw.sweep(EXAMPLE, AXES, method="zigzag", scheduler=cluster.scheduler_address, on_point=kill)
    assert not workers
    assert answers(swept) == answers(tw.sweep(EXAMPLE, AXES, method="zigzag"))
    compared = tw.compare([EXAMPLE], ["zigzag", "strips"], scheduler=cluster.scheduler_address)
    alone = tw.compare([EXAMPLE], ["zigzag", "strips"])
    assert [(e.method, e.result and e.result.plan) for e in compared] == [
        (e.method, e.result and e.result.plan) for e in alone
    ]


def test_addresses_are_checked() -> None:
    with pytest.raises(tw.InputError, match="--scheduler"):
        tw.sweep(EXAMPLE, AXES, scheduler="local:none")


@nightly
def test_what_is_answered_outlives_the_scheduler(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", "0", "--no-dashboard"]
    scheduler = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert scheduler.stderr is not None
    address = next(found[0] for line in scheduler.stderr if (found := re.search(r"tcp://[\d.]+:\d+", line)))
    worker = subprocess.Popen(
        [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-nanny"],
        stderr=subprocess.DEVNULL,
    )
    try:
        with pytest.raises(tw.TilewrightError, match="is gone; the same command again goes on"):
            tw.sweep(
                EXAMPLE,
                AXES,
                method="zigzag",
                scheduler=address,
                journal=tmp_path / "journal",
                on_point=lambda _point: scheduler.kill(),
            )
    finally:
        for process in (scheduler, worker):
            process.kill()
            process.wait()
    with Journal(tmp_path / "journal") as journal:
        assert 0 < len(journal) <= 8
    again = tw.sweep(EXAMPLE, AXES, method="zigzag", journal=tmp_path / "journal")
    assert answers(again) == answers(tw.sweep(EXAMPLE, AXES, method="zigzag"))
