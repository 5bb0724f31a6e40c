"""Performance profiles and cactus plots: what they show, and that names and lines keep apart."""

from __future__ import annotations

from math import inf
from pathlib import Path

import pytest

from tilewright.plotting import Profile, draw_cactus, draw_profiles, profiles
from tilewright.plotting.style import new_figure
from tilewright.spec.errors import InputError

SECONDS = {"exact": [0.5, 2.0, inf], "auto": [0.25, 4.0, 9.0], "none": [inf, inf, inf]}
RATIOS = {"exact": [1.0, 1.0, inf], "auto": [1.0, 1.5, 1.0], "none": [inf, inf, inf]}
PROFILE = Profile("grouping", 10.0, SECONDS, RATIOS)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("draw", [draw_profiles, draw_cactus])
def test_pictures_are_written_and_what_is_none_is_refused(draw: object, tmp_path: Path) -> None:
    assert callable(draw)
    draw([PROFILE, PROFILE], tmp_path / "all.png")
    draw([PROFILE], tmp_path / "one.svg")
    text = (tmp_path / "one.svg").read_text()
    assert text.startswith("<?xml") and (tmp_path / "all.png").stat().st_size > 10_000
    with pytest.raises(InputError, match="nothing to compare"):
        draw([], tmp_path / "none.png")


def test_lines_say_what_share_a_method_solves_within_a_factor() -> None:
    axes = new_figure(4, 3).add_subplot()
    profiles._cost_profile(axes, PROFILE)
    hair = profiles.HAIR
    shown = {str(line.get_label()): line for line in axes.lines}
    first = {name: line.get_ydata()[0] for name, line in shown.items()}
    last = {name: line.get_ydata()[-1] for name, line in shown.items()}
    assert first == {
        "exact": pytest.approx(2 / 3 + hair),
        "auto": pytest.approx(2 / 3),
        "none": pytest.approx(-hair),
    }
    assert last == {"exact": first["exact"], "auto": pytest.approx(1), "none": first["none"]}
    assert shown["auto"].get_xdata()[1] == pytest.approx(1.5)


def test_a_cactus_counts_proofs_over_time() -> None:
    axes = new_figure(4, 3).add_subplot()
    profiles._cactus(axes, PROFILE)
    auto = next(line for line in axes.lines if line.get_label() == "auto")
    assert [round(y) for y in auto.get_ydata()] == [0, 1, 2, 3, 3]
    assert list(auto.get_xdata()) == [0.01, 0.25, 4.0, 9.0, 10.0]


def test_methods_beyond_the_colours_are_dashed(tmp_path: Path) -> None:
    many = {f"method {number}": [float(number + 1)] for number in range(20)}
    axes = new_figure(4, 3).add_subplot()
    profiles._cactus(axes, Profile("many", 30.0, many, many))
    assert (
        len({(line.get_color(), line.get_linestyle(), str(line._dash_pattern)) for line in axes.lines}) == 20
    )
