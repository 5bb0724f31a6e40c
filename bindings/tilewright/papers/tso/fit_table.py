"""How the times of the machine are fitted, printed."""

from __future__ import annotations

from tilewright.papers.figures import Say
from tilewright.papers.tso import fitting
from tilewright.papers.tso.fitting import FITTED
from tilewright.papers.tso.plans import NAMES
from tilewright.papers.tso.table_2 import machine_text


def print_fit(say: Say) -> None:
    """Print the fit with several numbers of MACs and under other readings of the equations."""
    networks = fitting.networks()
    machine = fitting.machine()
    cores = machine.tles * machine.tlts
    say("The times of the NMP, fitted on the columns Burst and No Burst of table II, LeNet's left out: least")
    say("squares of relative distances. ps: a cycle, a byte, a burst; distances in %: Burst and No Burst of")
    say(", ".join(NAMES[name] for name in FITTED))
    _print_line("MACs per cycle and core", ("mean", "rms", "ps", "GMACs/s", "distances"), say)
    for macs in fitting.MACS:
        space = fitting.PlanSpace(networks, machine.model_copy(update={"macs_per_cycle": macs}))
        _print_fitted(f"{macs}", fitting.fit(space), cores * macs, say)
    say("")
    say("other readings of what the equations leave open, each with the better of 16 and 32 MACs per cycle")
    _print_line("", ("mean", "rms", "ps", "GMACs/s", "distances"), say)
    for name, variant in fitting.VARIANTS.items():
        spaces = {
            macs: fitting.PlanSpace(networks, machine.model_copy(update={"macs_per_cycle": macs}), variant)
            for macs in (16, 32)
        }
        fits = {macs: fitting.fit(space) for macs, space in spaces.items()}
        macs = min(fits, key=lambda macs: fits[macs].square)
        title, spread = f"{name}{'' if macs == 32 else f', {macs} MACs'}", variant.cores(machine)
        _print_fitted(title, fits[macs], macs * (spread if spread > 1 else cores), say)
        if name == "ours":
            whole = fitting.whole(spaces[32])
            _print_fitted("ours, multiples of an element's time", whole, cores * 32, say)
    say("")
    same = whole.prices == (machine.cycle_ps, machine.byte_ps, machine.burst_ps)
    say(f"instances/machines/nmp.toml {'has' if same else 'DOES NOT HAVE'} these multiples:")
    say(f"  {machine_text(machine)}")


def _print_fitted(name: str, found: fitting.Fit, macs_per_cycle: int, say: Say) -> None:
    prices = " ".join(f"{price:.0f}" for price in found.prices)
    gmacs = macs_per_cycle * 1e3 / found.prices.cycle
    distances = "  ".join(" ".join(f"{100 * value:+.1f}" for value in pair) for pair in found.residuals)
    cells = (f"{100 * found.mean:.2f}", f"{100 * found.square:.2f}", prices, f"{gmacs:.0f}", distances)
    _print_line(name, cells, say)


def _print_line(name: str, cells: tuple[str, ...], say: Say) -> None:
    mean, square, prices, gmacs, distances = cells
    say(f"  {name:<44}{mean:>6}{square:>6}  {prices:<19}{gmacs:>8}   {distances}")
