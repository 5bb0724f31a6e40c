"""Pictures of fusion plans: whole files of every kind of plan, which show what was measured."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import THOROUGH, in_turn, thinned
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from picture_checks import check, check_fits, imported, written

from tilewright.core import catalogue
from tilewright.fusion import Plan, Problem, simulate
from tilewright.fusion import plot as pictures
from tilewright.fusion.group.best_tile import best_tile
from tilewright.fusion.plan import Group, Tile
from tilewright.heuristics.fusion import greedy, layerwise
from tilewright.plotting.layered_graph import Item, LayeredGraph
from tilewright.simulator import Report
from tilewright.spec.errors import InputError
from tilewright.spec.network import Network
from tilewright.spec.validation import validated

pytestmark = pytest.mark.filterwarnings("error")

MACHINE = {
    "conv_array": [4, 4, 2],
    "clock_mhz": 100,
    "input_bytes": 60_000,
    "output_bytes": 60_000,
    "parameter_bytes": 60_000,
    "load_mb_per_s": 400,
    "save_mb_per_s": 400,
    "operands_per_cycle": 8,
    "issue_cycles": 300,
}

CHAIN = {"conv": {"kernel": [3, 3], "padding": [1, 1, 1, 1]}, "pool": {"kernel": [1, 1], "op": "max"}}


def layer(name: str, kind: str = "conv", inputs: list[str] | None = None) -> dict[str, Any]:
    """Return a layer whose input and output are 4 maps of 12x12."""
    more = {"kernels": 4, **CHAIN["conv"]} if kind == "conv" else CHAIN.get(kind, {})
    return {"name": name, "kind": kind, "input": [4, 12, 12], **more} | ({"inputs": inputs} if inputs else {})


def problem(*layers: dict[str, Any], machine: dict[str, Any] | None = None) -> Problem:
    return Problem.model_validate({"network": {"layers": layers}, "machine": MACHINE | (machine or {})})


def bundled(name: str) -> Problem:
    machine = MACHINE | {"conv_array": [12, 12, 4]}
    machine |= {f"{buffer}_bytes": 220_000 for buffer in ("input", "output", "parameter")}
    network = validated(Network, catalogue.shared("networks", name))
    return Problem.model_validate({"network": network, "machine": machine})


ODD = problem(
    layer("a $x_"),
    layer("b<&>", "pool"),
    layer("c", inputs=["a $x_"]),
    layer("d", "add", ["b<&>", "c"]),
    layer("é/" * 60),
    {"name": "s", "kind": "map", "op": "softmax", "input": [4, 12, 12]},
)
PROBLEMS = {
    "odd": ODD,
    "one operation": problem(layer("only")),
    "side by side": problem(*(layer(f"conv{number}", inputs=["input"]) for number in range(12))),
    "no issue": problem(layer("a"), layer("b"), machine={"issue_cycles": 0}),
    "long names": problem(*(layer("part/" * 30 + str(number)) for number in range(9))),
    "hundreds": problem(*(layer(f"block{number // 3}/conv{number}") for number in range(110))),
    "squeezenet": bundled("squeezenet"),
}
CASES = [(name, how) for name in PROBLEMS for how in ("greedy", "layerwise")]
PLANS = {"greedy": greedy.plan, "layerwise": layerwise.plan}


class Solved(dict[tuple[str, str], tuple[Problem, Plan, Report]]):
    """Problems with plan and report, by name and heuristic; each is solved when it is first asked for."""

    def __missing__(self, case: tuple[str, str]) -> tuple[Problem, Plan, Report]:
        name, how = case
        plan = PLANS[how](PROBLEMS[name])
        self[case] = PROBLEMS[name], plan, simulate(PROBLEMS[name], plan)
        return self[case]


@pytest.fixture(scope="module")
def solved() -> Solved:
    return Solved()


# Sheets ----------------------------------------------------------------------------------------------


@pytest.mark.nightly
@pytest.mark.parametrize("case", thinned(CASES, 2), ids=" ".join)
def test_every_kind_of_plan(case: tuple[str, str], solved: Solved, tmp_path: Path) -> None:
    assert solved[case][2].valid
    suffixes = in_turn(pictures.ACCEPTED, CASES.index(case))
    for suffix in suffixes:
        pictures.draw(*solved[case], tmp_path / f"a{suffix}", title="a $b^{ name & <tag>")
        check(tmp_path / f"a{suffix}")
    assert len(list(tmp_path.iterdir())) == len(suffixes)
    check_fits(pictures.sheet(*solved[case]))


@pytest.mark.nightly
def test_all_operations_are_named_and_groups_numbered(solved: Solved) -> None:
    asked, plan, report = solved["squeezenet", "greedy"]
    words = Counter(written(pictures.sheet(asked, plan, report)))
    assert all(words[op.name] for op in asked.ops)
    # On the graph, and beside what the group moves.
    assert all(words[str(n)] == 2 for n, group in enumerate(plan.groups, 1) if len(group.nodes) > 1)
    assert f"{report.measures.traffic_bytes / 1e6:,.2f} MB" in " ".join(words)
    fused = sum(len(group.nodes) > 1 for group in plan.groups)
    alone = len(plan.groups) - fused
    assert f"(a) The graph: {fused} fused groups" + f", {alone} operations alone" * bool(alone) in words
    counts = f"{fused} fused" + f", {alone} alone" * bool(alone)
    assert f"{len(plan.groups)} of {len(asked.ops)} operations: {counts}" in words


@pytest.mark.by_day(1)
@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_the_numbers_are_what_was_measured(case: tuple[str, str], solved: Solved) -> None:
    asked, plan, report = solved[case]
    numbers = {op.name: op.number for op in asked.ops}
    groups = list(report.measures.groups.values())
    for group in groups:
        tile = Tile(**group.tile.to_json())
        fused = asked.fused([numbers[name] for name in group.operations])
        loaded, parameters, saved = pictures.traffic_of(fused, tile).tolist()
        assert (loaded + parameters, saved) == (group.loaded_bytes, group.saved_bytes)
        work = pictures._Work.of(fused, tile)
        assert work.cycles == group.duration_cycles
        busy = {engine: cycles for engine, cycles in group.busy_cycles.items() if cycles}
        assert {pictures.ENGINES[engine]: work.busy(engine) for engine in work.used} == busy
    moved = pictures._Moved.of(asked, plan, [pictures.ALONE] * len(plan.groups), report)
    assert moved.after.sum() == report.measures.traffic_bytes
    for sums, at in ((moved.before, 4), (moved.after, 5)):
        assert (np.sum([row[at] for row in moved.rows], axis=0) == sums).all()
    if case[1] == "layerwise":
        assert (moved.before == moved.after).all()
    if len(moved.rows) == len(groups):
        for row, group in zip(moved.rows, groups, strict=True):
            engine = max(group.busy_cycles, key=group.busy_cycles.__getitem__)
            assert row.time.split()[:2] == [f"{group.duration_cycles:,}", engine]


@pytest.mark.nightly
def test_the_group_over_time_saves_the_most(solved: Solved) -> None:
    asked, plan, report = solved["squeezenet", "greedy"]
    numbers = {op.name: op.number for op in asked.ops}
    saved = {
        tuple(group.operations): sum(best_tile(asked, (numbers[n],)).cycles for n in group.operations)
        - group.duration_cycles  # type: ignore[union-attr]
        for group in report.measures.groups.values()
        if len(group.operations) > 1
    }
    assert saved[pictures.most_saved(asked, plan).nodes] == max(saved.values())
    asked, plan, report = solved["squeezenet", "layerwise"]
    longest = max(report.measures.groups.values(), key=lambda group: group.duration_cycles)
    assert [*pictures.most_saved(asked, plan).nodes] == longest.operations


@pytest.mark.by_day(1)
@pytest.mark.parametrize("suffix", pictures.ACCEPTED)
def test_groups_over_time(suffix: str, solved: Solved, tmp_path: Path) -> None:
    asked, plan, _ = solved["squeezenet" if THOROUGH else "long names", "greedy"]
    pictures.timeline(asked, plan, tmp_path / f"a{suffix}")
    pictures.timeline(asked, plan.groups[:3], tmp_path / f"b{suffix}", title="three groups")
    check(tmp_path / f"a{suffix}")
    check(tmp_path / f"b{suffix}")


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 40)), max_size=60), st.floats(0.1, 50))
def test_joined_spans_keep_what_is_busy(steps: list[tuple[int, int]], pixel: float) -> None:
    times = np.cumsum(np.array(steps, dtype=np.int64).reshape(-1))
    begins, ends = times[::2], times[1::2]
    spans = list(pictures._spans(begins, ends, pixel))
    assert sum(span.share * (span.end - span.begin) for span in spans) == pytest.approx((ends - begins).sum())
    assert all(0 < span.share <= 1 for span in spans)
    assert all(one.end <= other.begin for one, other in pairwise(spans))
    assert all(span.joined or span.end - span.begin > 2 * pixel for span in spans)
    assert {span.begin for span in spans} <= {*begins.tolist()}
    assert {span.end for span in spans} <= {*ends.tolist()}


# One panel -------------------------------------------------------------------------------------------


@pytest.mark.nightly
@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_the_traffic_of_groups_is_drawn_on_given_axes(case: tuple[str, str], solved: Solved) -> None:
    figure = Figure(figsize=(9, 6))
    ax = figure.add_subplot()
    assert pictures.plot(*solved[case], ax=ax) is ax
    report = solved[case][2]
    bars = [patch.get_width() for patch in ax.patches]
    after = bars[len(bars) // 2 :]  # first what operations move alone, then what groups do
    if len(report.measures.groups) <= pictures.MAX_ROWS:
        assert sum(after) == report.measures.traffic_bytes
    FigureCanvasAgg(figure).draw()


@pytest.mark.by_day(1)
@pytest.mark.parametrize("case", [("odd", "greedy"), ("squeezenet", "greedy")], ids=" ".join)
def test_without_axes_there_is_a_figure_of_pyplot(
    case: tuple[str, str], solved: Solved, new_figures: list[Figure]
) -> None:
    ax = pictures.plot(*solved[case])
    assert new_figures == [ax.figure]
    check_fits(new_figures[0])


# Where operations lie --------------------------------------------------------------------------------


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[tuple[int, ...]], list[int]]:
    """Draw what each operation reads, and its group."""
    producers: list[tuple[int, ...]] = []
    for number in range(draw(st.integers(1, 40))):
        sources = st.integers(max(-1, number - draw(st.sampled_from([1, 3, 12]))), number - 1)
        producers.append(tuple(draw(st.lists(sources, min_size=1, max_size=3))))
    groups = draw(st.lists(st.integers(0, 9), min_size=len(producers), max_size=len(producers)))
    return producers, groups


@settings(deadline=None)
@given(graphs(), st.integers(1, 5))
def test_edges_lead_down_and_nothing_overlaps(
    graph: tuple[list[tuple[int, ...]], list[int]], columns: int
) -> None:
    producers, groups = graph
    wide, tall = box = (1.0, 0.2)
    layers = LayeredGraph(producers, groups, columns, box, (0.1, 0.1))
    assert len(layers.order) == len(layers.columns) == len(layers.y)
    assert layers.columns[-1] < columns
    for number, read in enumerate(producers):
        for producer in read:
            assert layers.row[producer] < layers.row[number]
            ends = layers.row[producer], layers.row[number]
            same = layers.columns[ends[0]] == layers.columns[ends[1]]
            assert (
                layers.y[ends[0]] < layers.y[ends[1]]
                if same
                else layers.columns[ends[0]] < layers.columns[ends[1]]
            )
    for row, items in enumerate(layers.order):
        assert [layers.item(item.number, row) for item in items] == items
        for left, right in pairwise(items):
            boxes = (left.column < 0) + (right.column < 0)
            assert layers.x[right] - layers.x[left] > 0.5 * wide * boxes
    places = [(layers.x[Item(n)], layers.y[layers.row[n]]) for n in range(-1, len(producers))]
    for (x, y), (other_x, other_y) in combinations(places, 2):
        assert abs(x - other_x) > wide or abs(y - other_y) > tall
    assert all(wide / 2 - 1e-6 <= x <= layers.width - wide / 2 + 1e-6 for x, _ in places)
    assert all(-1e-6 <= x <= layers.width + 1e-6 for x in layers.x.values())
    assert max(layers.y) < layers.height


@settings(deadline=None)
@given(graphs(), st.integers(1, 3))
def test_lines_join_what_reads_and_what_is_read(
    graph: tuple[list[tuple[int, ...]], list[int]], columns: int
) -> None:
    producers, groups = graph
    layers = LayeredGraph(producers, groups, columns, (1.0, 0.2), (0.1, 0.1))
    starts = {(segment.row, segment.start.number) for segment in layers.segments}
    for segment in layers.segments:
        assert layers.columns[segment.row] == layers.columns[segment.row + 1]
        assert segment.start in layers.order[segment.row]
        assert segment.end in layers.order[segment.row + 1]
        if segment.group is not None:
            assert segment.group == groups[segment.start.number]
        if segment.end.number != segment.start.number:
            assert segment.start.number in producers[segment.end.number]
            inside = segment.start.number >= 0 and groups[segment.start.number] == groups[segment.end.number]
            assert (segment.group is not None) == inside
    for number, read in enumerate(producers):
        for producer in read:
            rows = range(layers.row[producer], layers.row[number])
            assert all(
                (row, producer) in starts for row in rows if layers.columns[row] == layers.columns[row + 1]
            )


def test_what_lies_beside_its_column_is_near_its_middle() -> None:
    chain = [(number - 1,) for number in range(20)]
    layers = LayeredGraph(chain, [0] * 20, 1, (1.0, 0.2), (0.1, 0.1))
    assert {round(x, 6) for x in layers.x.values()} == {0.5}


@pytest.mark.nightly
def test_neighbouring_groups_differ_in_colour(solved: Solved) -> None:
    asked, plan, _ = solved["squeezenet", "greedy"]
    drawn = pictures.Drawing(asked, plan)
    for op in asked.ops:
        for producer in op.producers:
            one, other = (drawn.groups.of_op[number] for number in (op.number, producer))
            if producer >= 0 and one != other and drawn.groups.colours[one] != pictures.ALONE:
                assert drawn.groups.colours[one] != drawn.groups.colours[other]


# Plans that break a rule -----------------------------------------------------------------------------


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    "groups",
    [
        (Group(("nothing", "a $x_", "a $x_"), None), Group(("a $x_", "c", "d"), None)),
        (Group(tuple(op.name for op in reversed(ODD.ops)), Tile(1, 1, 1, 1)),),
        (Group(("d", "c"), Tile(900, 1, 1, 1)), Group(("s",), Tile(1, 1, 1, 1))),
    ],
    ids=["names", "order", "tile"],
)
def test_a_broken_plan_has_its_rule_and_its_graph(groups: tuple[Group, ...], tmp_path: Path) -> None:
    report = simulate(ODD, Plan(groups))
    assert report.violation is not None
    pictures.draw(ODD, Plan(groups), report, tmp_path / "a.png")
    check(tmp_path / "a.png")
    figure = pictures.sheet(ODD, Plan(groups), report, title="a name")
    check_fits(figure)
    assert any(report.violation.rule in words for words in written(figure))
    assert {"a $x_", "b<&>", "c", "d", "s"} <= {*written(figure)}


def test_the_traffic_of_a_broken_plan_is_not_drawn() -> None:
    plan = Plan((Group(("d", "c"), Tile(900, 1, 1, 1)), Group(("s",), Tile(1, 1, 1, 1))))
    report = simulate(ODD, plan)
    assert report.violation is not None
    ax = pictures.plot(ODD, plan, report, ax=Figure().add_subplot())
    assert report.violation.rule in ax.texts[0].get_text().replace("\n", " ")


def test_wrong_numbers_are_named() -> None:
    plan = layerwise.plan(ODD)
    wrong = simulate(ODD, plan)
    wrong.numeric = False
    assert any("differ" in words for words in written(pictures.sheet(ODD, plan, wrong)))


# Files -----------------------------------------------------------------------------------------------


@pytest.mark.nightly
def test_other_suffixes_are_refused(solved: Solved, tmp_path: Path) -> None:
    asked, plan, report = solved["odd", "greedy"]
    with pytest.raises(InputError, match=r"\.png or \.svg"):
        pictures.draw(asked, plan, report, tmp_path / "a.gif")
    with pytest.raises(InputError, match=r"\.png or \.svg"):
        pictures.timeline(asked, plan, tmp_path / "a.gif")
    assert not list(tmp_path.iterdir())


@pytest.mark.nightly
@pytest.mark.parametrize("suffix", pictures.ACCEPTED)
def test_the_same_bytes_each_time(suffix: str, solved: Solved, tmp_path: Path) -> None:
    contents = []
    for name in ("a", "b"):
        pictures.draw(*solved["odd", "greedy"], tmp_path / (name + suffix))
        contents.append((tmp_path / (name + suffix)).read_bytes())
    assert contents[0] == contents[1]


def test_importing_is_cheap() -> None:
    assert imported("tilewright.fusion.plot", {"matplotlib", "PIL", "highspy"}) == set()
