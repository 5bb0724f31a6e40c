"""No room to write, no files to open: an exit status, the answer on standard output, older files unharmed."""

from __future__ import annotations

import os
import random
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.fuzz import command_line, samples
from tests.fuzz.trials import Skip, Wrong

NIGHTLY = 4

OLDER = b'{"an older": "file"}\n'

ROOM = "dsp-network"


def commands(output: str, rng: random.Random) -> list[str]:
    """Return arguments that write a file; the instance and a result of it lie in the working folder."""
    instance = f"{ROOM}.toml"
    solve = ["solve", instance, "--with", rng.choice(["greedy", "exhaustive", "auto"]), "--time-limit", "10"]
    return rng.choice(
        [
            [*solve, "-o", output],
            [*solve, "-o", output, "--json"],
            ["compare", instance, "--with", "greedy,exhaustive", "--time-limit", "5", "-o", output],
            ["emit", instance, "result.json", "-o", output],
            [*solve, "--plot", f"{output}.png"],
        ]
    )


@contextmanager
def full(folder: Path, rng: random.Random, *, read_only: bool) -> Iterator[None]:
    """Mount a small file system on a folder, and fill it or make it read-only; skip where nobody may."""
    size = rng.choice([4, 8, 16])
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", str(folder)], capture_output=True
    )
    if done.returncode != 0:
        raise Skip
    try:
        (folder / "x.json").write_bytes(OLDER)
        if read_only:
            subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True, capture_output=True)
        else:
            fill(folder / "filler")
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True, capture_output=True)


def fill(path: Path) -> None:
    """Write a file until there is no room."""
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 1024)
        except OSError:
            return


def limited(kind: int, limit: int) -> Any:
    """Return what sets a limit in the new process."""
    return lambda: resource.setrlimit(kind, (limit, limit))


def judge(done: subprocess.CompletedProcess[Any], arguments: list[str], output: Path, older: bool) -> None:
    """Raise unless the file is as before or complete, and the answer is told where it is not."""
    after = output.read_bytes() if output.is_file() else None
    before = OLDER if older else None
    if done.returncode == 0 and after == before:
        raise Wrong(f"exit status 0, and nothing is written: {command_line.told(done)}")
    if done.returncode != 0 and after != before and not complete(arguments, after):
        raise Wrong(f"another file than before, and not complete: {after!r:.200}: {command_line.told(done)}")
    refused = done.returncode in (2, 3) and not done.stdout and "output" in done.stderr
    if done.returncode != 0 and arguments[0] in ("solve", "compare") and "--plot" not in arguments:
        told = '"objective"' in done.stdout if "--json" in arguments else "objective" in done.stdout
        if not told and not refused:  # before any work was done
            raise Wrong(f"the answer is lost: {command_line.told(done)}")


def complete(arguments: list[str], content: bytes | None) -> bool:
    """Whether a file that was written is whole."""
    ends = {"emit": b"}\n"}.get(arguments[0], b".\x42\x60\x82" if "--plot" in arguments else b"\n")
    return content is not None and content.endswith(ends[-2:])


def trial(rng: random.Random, scratch: Path) -> None:
    """Run one command where something is missing."""
    work, target = scratch / "work", scratch / "target"
    work.mkdir()
    target.mkdir()
    samples.write(ROOM, work)
    (work / "result.json").write_text(samples.text(ROOM))
    way = rng.choice(["file size", "/dev/full", "stdout full", "disk full", "read-only", "open files"])
    output, older = target / "x.json", rng.random() < 0.5
    arguments = commands("/dev/full" if way == "/dev/full" else str(output), rng)
    if "--plot" in arguments:
        output = target / "x.json.png"
    if older:
        output.write_bytes(OLDER)
    options: dict[str, Any] = {}
    if way == "file size":
        options["preexec_fn"] = limited(resource.RLIMIT_FSIZE, rng.choice([0, 1, 100, 1000, 3000]))
    elif way == "open files":
        options["preexec_fn"] = limited(resource.RLIMIT_NOFILE, rng.randint(6, 40))
    try:
        if way in ("disk full", "read-only"):
            with full(target, rng, read_only=way == "read-only"):
                older = output.exists()
                done = command_line.finished(command_line.start(work, *arguments))
                judge(command_line.checked(done), arguments, output, older)
            return
        if way == "stdout full":
            with open("/dev/full", "w") as nowhere:
                done = command_line.finished(command_line.start(work, *arguments, stdout=nowhere))
            command_line.checked(done)
            if done.returncode == 0:
                raise Wrong(f"exit status 0, and nobody is told: {command_line.told(done)}")
            return
        done = command_line.finished(command_line.start(work, *arguments, **options))
        if way == "open files" and not command_line.own_frames(done.stderr) and done.returncode:
            return  # Python itself does not come as far as the command
        command_line.checked(done)
        if way != "/dev/full":
            judge(done, arguments, output, older)
        if any(name.startswith(".") for name in os.listdir(target)):
            raise Wrong(f"a temporary file is left: {os.listdir(target)}")
    except Wrong as wrong:
        raise Wrong(f"{way}: {wrong}") from None
