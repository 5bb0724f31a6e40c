"""What shells complete, by click's own protocol; bash and help pages, too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests import command

from tilewright.core import catalogue

SCRIPT = r"""
eval "$(_TILEWRIGHT_COMPLETE=bash_source {tilewright})"
compopt() {{ :; }}  # for which a completion would have to be going on
COMP_WORDS=(tilewright solve mnist-tcpa-p)
COMP_CWORD=2
_tilewright_completion {tilewright}
printf '%s\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture
def completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def complete(line: str, shell: str = "bash") -> list[tuple[str, str]]:
        """Return the kind and the text of each answer to a line whose last word has been begun."""
        words = line.split(" ")
        monkeypatch.setenv("_TILEWRIGHT_COMPLETE", f"{shell}_complete")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
        done = command.run(tmp_path)
        assert done.returncode == 0 and done.stderr == ""
        if shell == "zsh":
            lines = done.stdout.splitlines()
            return list(zip(lines[::3], lines[1::3], strict=True))
        return [(kind, text) for kind, _, text in (each.partition(",") for each in done.stdout.splitlines())]

    return complete


def plain(answers: list[tuple[str, str]]) -> list[str]:
    return [text for kind, text in answers if kind == "plain"]


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_commands_instances_machines_and_files_are_completed(shell: str, completed) -> None:
    assert plain(completed("tilewright s", shell)) == ["solve", "sweep", "simulate"]
    instances = completed("tilewright solve mnist-tcpa-p", shell)
    assert plain(instances) == ["mnist-tcpa-pareto", "mnist-tcpa-placed"]
    assert "file" in dict(instances)
    every = [path.stem for room in catalogue.ROOMS for path in catalogue.instances(room)]
    assert set(every) <= set(plain(completed("tilewright check ", shell)))
    assert "alexnet" in plain(completed("tilewright compare s1-example2 al", shell))
    machines = plain(completed("tilewright solve alexnet --machine e", shell))
    assert machines == ["esp32-s3", "ethos-u55", "eyeriss"]
    assert plain(completed("tilewright solve alexnet --room b", shell)) == ["bitwidth"]
    assert plain(completed("tilewright list m", shell)) == ["models", "machines"]
    assert "s1-grid" in plain(completed("tilewright reproduce s1", shell))
    assert "file" in dict(completed("tilewright check s1-example2 r", shell))
    assert plain(completed("tilewright solve s1-example2 --ti", shell)) == ["--time-limit"]


def test_methods_are_those_of_the_room(completed) -> None:
    for room, name in (("grouping", "s1-example2"), ("allocation", "mnist-tcpa")):
        found = plain(completed(f"tilewright solve {name} --with "))
        assert {"auto", *catalogue.heuristics(room)} <= set(found)
        others = {one for other in catalogue.ROOMS if other != room for one in catalogue.heuristics(other)}
        assert not (others - set(catalogue.heuristics(room))) & set(found)
    assert "exact" in plain(completed("tilewright solve s1-example2 --with ex"))
    listed = plain(completed("tilewright compare s1-example2 --with zigzag,st"))
    assert listed == ["zigzag,strips"]
    assert "zigzag" in plain(completed("tilewright solve nowhere.toml --with zig"))
    assert "zigzag" in plain(completed("tilewright solve s1-example2 --warm-start z"))
    assert "ordered" in plain(completed("tilewright export s1-example2 --with o"))


def test_bash_takes_what_is_completed(tmp_path: Path) -> None:
    bash = subprocess.run(["bash", "-c", "echo ${BASH_VERSINFO[0]}"], capture_output=True, text=True)
    if bash.returncode or int(bash.stdout) < 5:
        pytest.skip("bash is older than 5")
    tilewright = Path(sys.executable).with_name("tilewright")
    done = subprocess.run(
        ["bash", "-c", SCRIPT.format(tilewright=tilewright)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{tilewright.parent}:{os.environ['PATH']}"},
        check=False,
    )
    assert done.stdout.split() == ["mnist-tcpa-pareto", "mnist-tcpa-placed"], done.stderr


@pytest.mark.parametrize("arguments", [(), ("solve",), ("check",), ("list",), ("report",)])
def test_help_fits_a_screen(arguments: tuple[str, ...], tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = command.run(tmp_path, *arguments, "--help").stdout.splitlines()
    assert 5 < len(lines) <= 50 and max(map(len, lines)) <= 80
    if not arguments:
        assert not [line for line in lines[1:] if line.endswith("...")]
        commands = [line.split()[0] for line in lines[lines.index("Commands:") + 1 :]]
        assert commands[:2] == ["solve", "check"]
