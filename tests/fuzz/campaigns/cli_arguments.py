"""Command lines at random: a documented exit status, never a traceback."""

from __future__ import annotations

import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any

from tests.fuzz import command_line, samples
from tests.fuzz.trials import Wrong

NIGHTLY = 15

SECONDS = 120.0

WORDS = [
    "", " ", "x", "-", "--", "-x", "--json=1", "é", "\u202e", "😀", "\udcff", "a\nb", "\x1b[31m", "0", "-1",
    "1e9", "nan", "inf", "1" * 400, "x" * 300, "x/" * 3000, "auto", "all", "none", ".", "..", "~",
    "nothing.toml", "nothing.json", "/nonexistent/x", "/dev/null", "/dev/full", "/dev/stdin",
    "/proc/self/mem", "folder", "folder.toml", "folder.json", "locked.json", "empty.toml", "empty.json",
    "binary.json", "link.json", "circle.json", "circle.toml", "fifo.json", "s1-example2", "[]", "{}",
    "$HOME", "*", "\\", "'", '"', "%s", "a=b", "x=1,3,8,8", "=", "tiling", "grouping", "highs", "gecode",
    "@", "@gecode", "exhaustive@gecode", "loops@", "greedy,", ",", "greedy,exhaustive",
]  # fmt: skip

COMMANDS: dict[str, tuple[list[list[str]], dict[str, list[str] | None]]] = {
    "solve": (
        [["INSTANCE"]],
        {
            "--with": [
                "auto",
                "greedy",
                "exhaustive",
                "layerwise",
                "parametric",
                "loops@gecode",
                "states",
                "ideals",
            ],
            "--warm-start": ["auto", "none", "greedy", "RESULT"],
            "--time-limit": ["1", "2", "0.01", "1e-9", "5"],
            "--threads": ["1", "2", "256"],
            "--seed": ["0", "7", "2147483647"],
            "-o": ["OUT"],
            "--plot": ["PICTURE"],
            "--json": None,
            "--machine": ["idsp", "nmp"],
            "--room": ["tiling", "fusion"],
        },
    ),
    "compare": (
        [["INSTANCE"], ["INSTANCE", "INSTANCE"]],
        {
            "--with": ["greedy", "greedy,exhaustive", "exhaustive", "loops@gecode"],
            "--time-limit": ["1", "2"],
            "--jobs": ["1", "2", "256"],
            "--seed": ["0"],
            "-o": ["OUT"],
            "--plot": ["PICTURE"],
            "--json": None,
        },
    ),
    "check": ([["INSTANCE", "RESULT"]], {"--time-limit": ["1", "3", "1e-6"], "--json": None}),
    "simulate": (
        [["INSTANCE", "RESULT"]],
        {
            "--numeric": None,
            "--steps": ["0", "1", "1000000"],
            "--seed": ["1"],
            "--plot": ["PICTURE"],
            "--json": None,
        },
    ),
    "emit": ([["INSTANCE", "RESULT"]], {"-o": ["OUT"]}),
    "assemble": ([["OUT"]], {"-o": ["OUT"]}),
    "disassemble": ([["OUT"]], {"-o": ["DIR"]}),
    "execute": ([["OUT"]], {"--fifo": ["0", "1"], "--json": None}),
    "export": ([["INSTANCE"]], {"-o": ["OUT"], "--with": ["lives", "ordered", "tiles", "nothing"]}),
    "import": (
        [["net.onnx"]],
        {
            "-o": ["DIR"],
            "--room": ["tiling", "fusion", "allocation", "grouping"],
            "--machine": ["idsp", "dnnvm-zu2"],
            "--layers": None,
            "--input": ["x=1,3,8,8", "x=1,3"],
            "--allow-unknown": None,
            "--json": None,
        },
    ),
    "list": ([[], ["rooms"], ["models"], ["heuristics"], ["solvers"]], {"--json": None}),
    "reproduce": ([[]], {}),
    "doctor": ([[]], {}),
}
"""Of each command: the arguments that it takes, and the values that its options take."""


def filled(word: str, rng: random.Random) -> str:
    """Return an argument for a placeholder."""
    match word:
        case "INSTANCE":
            return f"{rng.choice(list(samples.SAMPLES))}.toml"
        case "RESULT":
            return f"{rng.choice(list(samples.SAMPLES))}.json"
        case "OUT":
            return rng.choice(["out.json", "out", "é.json", "folder/out.json", "dsp.json", "dsp.toml"])
        case "PICTURE":
            return rng.choice(["p.png", "p.svg", "p.pdf", "p.gif", "p.bmp", "p", "out.json", ".png"])
        case "DIR":
            return rng.choice(["out", "new/er", "folder", "dsp.json"])
    return word


def line(rng: random.Random) -> list[str]:
    """Return a command line, with a few words that do not belong there."""
    name = rng.choice([*COMMANDS, "solve", "compare", "check", "simulate", "emit"])
    arguments, options = COMMANDS[name]
    words = [filled(word, rng) for word in rng.choice(arguments)]
    if name in ("solve", "compare"):
        words += ["--time-limit", "2"]
    if name == "import":
        words += ["-o", "out"]
    for option in rng.sample(list(options), rng.randint(0, min(3, len(options)))):
        values = options[option]
        at = rng.randint(0, len(words))
        words[at:at] = [option] if values is None else [option, filled(rng.choice(values), rng)]
    for _ in range(rng.choice([0, 0, 1, 1, 2])):
        at = rng.randint(0, len(words))
        match rng.randrange(4):
            case 0:
                words.insert(at, rng.choice(WORDS))
            case 1 if words:
                del words[min(at, len(words) - 1)]
            case _ if words:
                words[min(at, len(words) - 1)] = rng.choice(WORDS)
    if rng.random() < 0.03:
        return [rng.choice(WORDS), *words]
    # A figure of a paper takes minutes.
    return [name] if name == "reproduce" else [name, *words]


def furnish(folder: Path) -> None:
    """Put files into a folder, good ones and others."""
    for name in samples.SAMPLES:
        samples.write(name, folder)
        (folder / f"{name}.json").write_text(samples.text(name))
    for name in ("folder", "folder.toml", "folder.json"):
        (folder / name).mkdir()
    for name in ("empty.toml", "empty.json", "locked.json"):
        (folder / name).touch()
    (folder / "locked.json").chmod(0)
    (folder / "binary.json").write_bytes(bytes(range(256)) * 4)
    (folder / "link.json").symlink_to("dsp.json")
    (folder / "circle.json").symlink_to("circle.json")
    (folder / "circle.toml").symlink_to("circle.toml")
    os.mkfifo(folder / "fifo.json")
    (folder / "net.onnx").write_bytes(network())


def network() -> bytes:
    """Return a small ONNX file."""
    from onnx import TensorProto, helper

    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"]), helper.make_node("Relu", ["y"], ["z"])],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)],
        [helper.make_tensor("w", TensorProto.FLOAT, [4, 3, 3, 3], [0.0] * 108)],
    )
    return helper.make_model(
        graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]
    ).SerializeToString()


def closed(descriptors: list[int]) -> Any:
    """Return what closes standard streams in the new process."""
    return lambda: [os.close(each) for each in descriptors]


def streams(rng: random.Random, folder: Path, arguments: list[str]) -> None:
    """Run a command in a process of its own whose standard streams are closed, full, or read by nobody."""
    way = rng.choice(["closed", "no reader", "full", "narrow", "ascii", "plain", "plain"])
    options: dict[str, Any] = {}
    changes: dict[str, str] = {}
    if way == "closed":
        options["preexec_fn"] = closed(rng.sample([0, 1, 2], rng.randint(1, 3)))
    elif way == "narrow":
        changes = {"COLUMNS": rng.choice(["1", "0", "-3", "x"]), "TERM": rng.choice(["", "dumb", "xterm"])}
    elif way == "ascii":
        changes = {"PYTHONIOENCODING": rng.choice(["ascii", "latin-1"]), "LC_ALL": "C", "PYTHONUTF8": "0"}
    arguments = [word for word in arguments if "\0" not in word]
    environment = command_line.environment(**changes)
    if way == "full":
        with open("/dev/full", "w") as nowhere:
            kind = rng.choice(["stdout", "stderr"])
            process = command_line.start(folder, *arguments, env=environment, **{kind: nowhere})
            done = command_line.finished(process, SECONDS)
    else:
        process = command_line.start(folder, *arguments, env=environment, **options)
        if way == "no reader":
            assert process.stdout is not None
            process.stdout.close()
            process.stdout = None
        done = command_line.finished(process, SECONDS)
    if way in ("closed", "no reader") and done.returncode == 120:
        return  # Python's own, for what cannot be flushed at its end
    try:
        command_line.checked(done)
    except Wrong as wrong:
        raise Wrong(f"{way}: {wrong}") from None
    if way == "plain":
        check_json(arguments, done)


def check_json(arguments: list[str], done: subprocess.CompletedProcess[Any]) -> None:
    """Raise unless ``--json`` prints JSON and nothing else."""
    if "--json" not in arguments or not done.stdout or "--help" in arguments:
        return
    try:
        json.loads(done.stdout)
    except ValueError as error:
        raise Wrong(f"no JSON: {error}: {command_line.told(done)}") from None


def trial(rng: random.Random, scratch: Path) -> None:
    """Run one command line, mostly in this process."""
    folder = scratch / "one" / "two"  # "..", too, is of this trial
    folder.mkdir(parents=True)
    furnish(folder)
    arguments = line(rng)
    if rng.random() < 0.15:
        try:
            streams(rng, folder, arguments)
        except (ValueError, UnicodeError, subprocess.SubprocessError) as error:
            raise Wrong(f"{arguments}: {error!r}") from error
        return
    done = command_line.run(folder, *arguments, seconds=SECONDS)
    check_json(arguments, done)
    if done.returncode == 2 and not done.stderr.strip():
        raise Wrong(f"no word on what is wrong: {command_line.told(done)}")
