"""Tables 7.3 to 7.6 of the thesis on the imaging DSP, predicted by the model of the inner loop."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.papers import figures as reproducing
from tilewright.papers.idsp import compute
from tilewright.papers.idsp.between import operations
from tilewright.papers.idsp.compute import predictions
from tilewright.tiling.dsp.inner_loop import loop_costs
from tilewright.tiling.dsp.inner_search import best_loop
from tilewright.tiling.dsp.vector_unit import VectorUnit

LAYERS = {(network, one.name): one for network in ("lenet5-clone", "alexnet") for one in predictions(network)}
EQUAL = {
    ("lenet5-clone", "conv1"),
    ("lenet5-clone", "fc3"),
    ("alexnet", "conv4"),
    ("alexnet", "fc8"),
}


@pytest.mark.parametrize("key", LAYERS, ids=" ".join)
def test_rows_are_as_far_from_the_thesis_as_the_docs_say(key: tuple[str, str]) -> None:
    one = LAYERS[key]
    assert 0.88 <= one.cycles / one.of.row["cycles"] <= (1.06 if key == ("lenet5-clone", "conv2") else 1)
    most = {("alexnet", "conv2"): 0.081, ("alexnet", "conv5"): 0.068}.get(key, 0.011)
    assert abs(one.transfers / one.counted - 1) <= most
    assert (one.transfers == one.counted) == (key in EQUAL)


def test_what_differs_in_two_rows() -> None:
    """Conv3 counts begin and end of outputs 128 times, not 48; conv5 has 14 rows and columns."""
    conv3, conv5 = LAYERS["alexnet", "conv3"], LAYERS["alexnet", "conv5"]
    ends = conv3.costs.start_transfers + conv3.costs.end_transfers
    assert conv3.outputs == 8 * 6
    assert conv3.transfers + (8 * 16 - 8 * 6) * ends == conv3.counted
    one = conv5.costs
    assert conv5.transfers + conv5.tiles * one.sums // 13 == conv5.counted
    fc3 = LAYERS["lenet5-clone", "fc3"]
    every_tile = fc3.tiles * (fc3.costs.start_transfers + fc3.costs.end_transfers)
    assert fc3.tiles * fc3.costs.transfers + every_tile == fc3.of.row["vector_transfers"]  # table 7.3


def test_registers_are_those_for_which_the_text_holds() -> None:
    """Both conv2 spill and no other layer: 24 to 33, of which the default is the middle."""

    def holds(registers: int) -> bool:
        unit = VectorUnit(registers=registers)
        every = {key: loop_costs(unit, one.work, one.loop) for key, one in LAYERS.items()}
        return all(
            costs.fits and (costs.spilled > 0) == (name == "conv2") for (_, name), costs in every.items()
        )

    assert [registers for registers in range(16, 50) if holds(registers)] == list(range(24, 34))
    assert VectorUnit().registers == (24 + 33) // 2


def test_conv1_over_columns_is_the_fastest_that_spills_nothing() -> None:
    found = compute.without_spills(LAYERS["lenet5-clone", "conv1"])
    clean = {vector: cycles for vector, (_, cycles) in found.items() if cycles}
    assert min(clean.values()) == clean["x"] == clean["y"] == found["x"][0]
    assert found["c"][0] < clean["x"] < clean["c"]


def test_best_loops_are_at_most_as_slow_as_the_manual_ones() -> None:
    for one in LAYERS.values():
        fastest, cheapest = one.best(VectorUnit()), one.best(VectorUnit(), energy=True)
        manual = one.costs.total()
        assert fastest.cycles <= cheapest.cycles
        assert fastest.cycles <= manual[0]
        spent = [60_000 * cycles + 66_600 * moved for cycles, moved in (manual, cheapest[2:4], fastest[2:4])]
        assert spent[1] <= min(spent[0], spent[2])


def test_a_larger_body_never_hurts() -> None:
    work = LAYERS["lenet5-clone", "conv1"].work
    cycles = [best_loop(VectorUnit(unrolled_macs=most), work).cycles for most in (1, 8, 32, 128, 512)]
    assert cycles == sorted(cycles, reverse=True)


def test_pools_and_normalisations_take_little_time_and_more_energy() -> None:
    """What docs/dsp-compute.md says of whole networks; the thesis's numbers are of layers alone."""
    assert {each.name for each in operations("alexnet")} == {"pool1", "norm1", "pool2", "norm2", "pool5"}
    for network, most, energy in (("lenet5-clone", 0.007, 1.142), ("alexnet", 0.004, 1.055)):
        alone, on_chip, steps = compute.whole(network)
        times = [each["milliseconds"] for each in (alone, on_chip, steps)]
        assert times == sorted(times)
        assert times[2] / times[0] < 1 + most
        spent = [each["picojoules_per_op"] for each in (alone, on_chip, steps)]
        assert spent[1] / spent[0] < 1.002
        assert spent[2] / spent[0] == pytest.approx(energy, abs=0.001)


def test_a_pool_is_at_least_its_instructions() -> None:
    """AlexNet's pool5: 8 maxima for 8 images, 36 places and 8 vectors of 256 maps; 9 loads at most."""
    pool = operations("alexnet")[-1]
    vectors = 8 * 36 * 256 // 32
    assert pool.loop.vector == "c"
    assert 8 * vectors <= pool.cycles <= 2 * 8 * vectors
    assert vectors * (1 + 4) <= pool.vectors <= vectors * (1 + 9)
    assert pool.accesses == 8 * 256 * (13 * 13 + 6 * 6)


def test_what_is_printed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    reproducing.run("idsp-compute", time_limit=1, folder=tmp_path)
    shown = capsys.readouterr().out
    for words in (
        "52,224 |   52,224        = *",  # table 7.3
        "326,144 |   326,144        =",  # table 7.4
        "7,089,792 |7,089,792        = *",  # table 7.5
        "LeNet-5, transfers: 9.1 | 9.04 | -0.7 %",
        "vectors of x:    208,408    208,408",
        "LeNet-5, milliseconds: 8.44 | 8.712 +3.2 % | 8.744 +3.6 % | 8.766 +3.9 %",
        "AlexNet: 14% | 0.3% | 0.4%",
    ):
        assert words in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_stars_are_the_layers_of_whose_loop_a_part_is_chosen(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """All but AlexNet's conv2; section 7.5 says of no other all of its loop."""
    reproducing.run("idsp-compute", time_limit=1, folder=tmp_path)
    rows, loops = capsys.readouterr().out.split("The manual inner loops", 1)
    chosen = [line for line in rows.splitlines() if line.startswith(("  LeNet-5", "  AlexNet"))]
    assert [line.split()[1] for line in chosen if not line.endswith("*")] == ["conv2"]
    assert len(chosen) == 12
    assert " c/k n8 c2 k4 x kernel       64  31.9  24 of 28  body: c, k\n" in loops
