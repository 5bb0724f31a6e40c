"""Commands that are killed at any moment: the file is as before or complete, and nothing is left behind."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
from pathlib import Path

from tests.fuzz import command_line
from tests.fuzz.trials import Wrong

from tilewright.run.instance import Instance, read
from tilewright.run.result import Result
from tilewright.spec.errors import TilewrightError

NIGHTLY = 2

SLOW = """room = "grouping"
[layer]
input = [1, 12, 12]
kernels = 1
kernel = [3, 3]
[machine]
group_size = 3
"""
"""An instance that no method solves in the time of a trial."""

OLDER = '{"an older": "file"}\n'

METHODS = ["zigzag", "zigzag", "strips", "lns", "auto", "exact", "lives@highs", "ordered@gecode"]

SECONDS = 30.0
"""How long the command may take to end, and its processes after it, on a busy machine."""


def command(rng: random.Random) -> list[str]:
    """Return arguments that write ``x.json``."""
    if rng.random() < 0.3:
        methods = ",".join(rng.sample(METHODS[2:], 2))
        return ["compare", "slow.toml", "--with", methods, "--time-limit", "2", "-o", "x.json"]
    return ["solve", "slow.toml", "--with", rng.choice(METHODS), "--time-limit", "3", "-o", "x.json"]


def check_file(path: Path, compared: bool, older: bool, instance: Instance) -> None:
    """Raise unless the file is as before or complete."""
    if not path.exists():
        if older:
            raise Wrong("the older file is gone")
        return
    text = path.read_text()
    if older and text == OLDER:
        return
    try:
        entries = json.loads(text)
    except ValueError as error:
        raise Wrong(f"half a file: {error}: {text[-200:]}") from None
    if compared:
        if not isinstance(entries, list) or not all({"instance", "method"} <= set(each) for each in entries):
            raise Wrong(f"no comparison: {text[:500]}")
        return
    try:
        Result.read(path).of(instance)
    except TilewrightError as error:
        raise Wrong(f"no result: {error}") from None


def check_end(process: subprocess.Popen[str], sent: signal.Signals, begun: bool) -> None:
    """Raise unless the command ends soon, as documented, and says nothing unseemly."""
    done = command_line.finished(process, SECONDS)
    if sent is signal.SIGKILL or (done.returncode == -sent and not command_line.own_frames(done.stderr)):
        return  # before Python has come to the command
    if begun and done.returncode == -sent:
        raise Wrong(f"no exit status: {command_line.told(done)}")
    command_line.checked(done)


def trial(rng: random.Random, scratch: Path) -> None:
    """Start one command, send one signal or two, and look at what is there."""
    folder, temporary = scratch / "work", scratch / "tmp"
    folder.mkdir()
    temporary.mkdir()
    (folder / "slow.toml").write_text(SLOW)
    path, older = folder / "x.json", rng.random() < 0.5
    if older:
        path.write_text(OLDER)
    arguments, mark = command(rng), str(scratch)
    sent = rng.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGINT])
    environment = command_line.environment(TILEWRIGHT_TRIAL=mark, TMPDIR=str(temporary))
    process = command_line.start(folder, *arguments, env=environment)
    moment = rng.choice([rng.uniform(0, 1), rng.uniform(0, 6)])
    try:
        time.sleep(moment)
        process.send_signal(sent)
        if rng.random() < 0.2:
            time.sleep(rng.uniform(0, 0.5))
            process.send_signal(sent)
        check_end(process, sent, moment > 3)
        left = command_line.survivors(mark, SECONDS)
        if left:
            raise Wrong(f"processes survive: {left}")
        check_file(path, arguments[0] == "compare", older, read(folder / "slow.toml"))
        if sent is not signal.SIGKILL:
            surplus = {*folder.iterdir()} - {path, folder / "slow.toml"} | {*temporary.iterdir()}
            if surplus:
                raise Wrong(f"files are left: {sorted(map(str, surplus))}")
    except Wrong as wrong:
        raise Wrong(f"{sent.name} after {moment:.2f} s: {' '.join(arguments)}: {wrong}") from None
    finally:
        command_line.survivors(mark, 0, kill=True)
