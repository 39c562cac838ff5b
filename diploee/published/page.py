"""All sections, and the page that tells them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from diploee.outputs import Run
from diploee.profiles import ProfileLibrary
from diploee.profiles.library import EIGHT_GPUS, REFERENCE
from diploee.progress import Progress
from diploee.published.check import Check, Section
from diploee.published.measured import eight_gpu_runs, measured_profiles, weekly_curve
from diploee.published.nodes import node_power, supply_efficiency
from diploee.published.paper import TABLE_3, TABLE_4, Table, run_times_and_power
from diploee.published.sites import metered_shapes, power_usage
from diploee.scenario import load_scenario
from diploee.simulation import simulate

Simulate = Callable[[str, tuple[str, ...]], Run]

HEAD = """# Validation

The program beside what was published and measured. `diploee published` writes this page: it
simulates the years and types no figure. *Accepted* is what the tests hold; rows without it are told
and not asked for. *Off* is the distance from what was published. With `--measured LIBRARY` and
`--facility-power FILE` it does the same for imported measurements of jobs, and for the published
year of a whole facility, which can't ship.
"""
OPEN = """## What is not held against anything

- Nothing below 5 minutes was compared with the meter of a facility: no public trace of one resolves
  it.
- The weekly curves of the paper were read off its figures to find the calendars that ship; the
  curves themselves do not ship. With the published data set, `--facility-power` compares them hour
  by hour.
- Reactive power, harmonics and ride-through follow data sheets and standards, not measurements of
  sites.
- Failures, restarts and phases of synchronous jobs follow what operators told; no meter of such a
  site is public.
"""


SECTIONS: dict[str, Callable[[Simulate], Section]] = {
    "table-3": lambda run_of: year_table(TABLE_3, run_of),
    "table-4": lambda run_of: year_table(TABLE_4, run_of),
    "profiles": lambda _: run_times_and_power(ProfileLibrary.open()),
    "metered-runs": lambda _: eight_gpu_runs(),
    "nodes": lambda _: node_power(),
    "supplies": lambda _: supply_efficiency(),
    "pue": power_usage,
    "shape": metered_shapes,
}
"""What is compared, by name: a function of one that simulates."""


def sections(
    names: Iterable[str] = tuple(SECTIONS),
    measured: ProfileLibrary | None = None,
    curves: Sequence[Path] = (),
    progress: Progress | None = None,
) -> Iterator[Section]:
    """Simulate what the sources tell about, and yield the figures source by source.

    Parameters
    ----------
    names : iterable of str
        Which of `SECTIONS`; all by default.
    measured : ProfileLibrary, optional
        Imported measurements of jobs, to be compared as well.
    curves : sequence of pathlib.Path
        Power and utilization of published years of a whole facility.
    progress : Progress, optional
        Told of the simulations.
    """
    with simulated(progress) as run_of:
        yield from (SECTIONS[name](run_of) for name in names)
        if measured is not None:
            yield from (measured_profiles(measured, name) for name in (REFERENCE, EIGHT_GPUS))
        yield from (weekly_curve(path, run_of) for path in curves)


@contextmanager
def simulated(progress: Progress | None = None) -> Iterator[Simulate]:
    """Give a function that runs a shipped scenario with values, in a folder that goes again."""
    with TemporaryDirectory(prefix="diploee-published-") as folder:

        def run_of(name: str, values: tuple[str, ...]) -> Run:
            place = Path(folder) / f"run-{len(list(Path(folder).iterdir()))}"
            scenario = load_scenario(name, list(values))
            return simulate(scenario, place, engine="compiled", jobs_file=False, progress=progress)

        yield run_of


def year_table(table: Table, run_of: Simulate) -> Section:
    """Return all rows of a table at its four levels."""
    checks: list[Check] = []
    for level, value in table.values.items():
        metrics = run_of(table.scenario, (f"{table.key}={value}",)).metrics
        checks += [row.check(level, metrics) for row in table.rows]
    return Section(
        f"{table.title} (`{table.scenario}`)",
        "arXiv:2604.07345 (CC BY 4.0), with the digits of its published analysis",
        checks,
    )


def validation_page(found: Iterable[Section]) -> str:
    """Return sections as a page of Markdown."""
    found = list(found)
    checks = [check for section in found for check in section.checks]
    asked = [check for check in checks if check.holds is not None]
    misses = [check for check in asked if not check.holds]
    lines = [HEAD, f"{len(asked) - len(misses)} of {len(asked)} figures that are asked for hold."]
    lines += [f"- Not met: {check.what}: {_told(check)}" for check in misses]
    for section in found:
        lines += ["", f"## {section.title}", "", f"Source: {section.source}.", ""]
        if section.checks:
            lines += ["| | published | found | off | accepted |", "|---|---|---|---|---|"]
            lines += [_row(check) for check in section.checks]
        if section.remark:
            lines += ["", section.remark]
    return "\n".join([*lines, "", OPEN])


def _row(check: Check) -> str:
    unit = f" [{check.unit}]" if check.unit else ""
    off = "" if check.off is None else f"{100 * check.off:+.1f} %"
    accepted = ""
    if check.accepted is not None:
        accepted = " to ".join(map(_number, check.accepted)) + ("" if check.holds else ": **no**")
    cells = (check.what + unit, _number(check.published), _number(check.found), off, accepted)
    return f"| {' | '.join(cells)} |"


def _told(check: Check) -> str:
    return f"{_number(check.found)} {check.unit}, published {_number(check.published)}"


def _number(value: float | None) -> str:
    if value is None:
        return "none"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
