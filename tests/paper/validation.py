"""The program beside what was published and measured: all sections, and the page of them.

``python tests/paper/validation.py`` writes docs/VALIDATION.md; files of published years of a
facility (timestamp, power_W, utilization) may follow, whose median weeks it compares, too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from checks import Check, Section, Simulate
from metered import eight_gpu_runs, metered_shapes, node_power, power_usage, supply_efficiency
from paper_figures import figures
from paper_tables import LEVELS, TABLE_3, TABLE_4, Table, run_times_and_power

from diploee.outputs import Run
from diploee.profiles import ProfileLibrary
from diploee.scenario import load_scenario
from diploee.simulation import simulate
from diploee.tables import Float64Array
from diploee.units import MS_PER_DAY, MS_PER_H, MS_PER_MIN

DAYS, HOURS = 7, 24
VARIED = replace(TABLE_3, title="Table 3 with jobs that differ", scenario="colocation_10mw_varied")
PAGE = Path(__file__).parents[2] / "docs" / "VALIDATION.md"

HEAD = """# Validation

The program beside published and measured figures. `just validation` writes this page: it simulates
the years and types no figure. *Accepted* is the range that the tests require; rows without one are
shown only. *Off* is the distance from the published figure. `diploee profiles compare` compares
imported measurements of jobs with the profiles that ship.
"""
OPEN = """## Without a comparison

- Nothing below 5 minutes was compared with the meter of a facility: no public trace of one resolves
  it.
- The weekly curves of the paper were read off its figures to find the calendars that ship; the
  curves themselves do not ship. With the published data set, `just validation FILE` compares a year
  of power and utilization of a facility hour by hour.
- Reactive power, harmonics and ride-through follow data sheets and standards, not measurements of
  sites.
- Failures, restarts and phases of synchronous jobs follow reports of operators; no meter of such a
  site is public.
"""


SECTIONS: dict[str, Callable[[Simulate], Section]] = {
    "table-3": lambda run_of: year_table(TABLE_3, run_of),
    "table-3-varied": lambda run_of: year_table(VARIED, run_of),
    "table-4": lambda run_of: year_table(TABLE_4, run_of),
    "profiles": lambda _: run_times_and_power(ProfileLibrary.open()),
    "figures": lambda _: figures(ProfileLibrary.open()),
    "metered-runs": lambda _: eight_gpu_runs(),
    "nodes": lambda _: node_power(),
    "supplies": lambda _: supply_efficiency(),
    "pue": power_usage,
    "shape": metered_shapes,
}
"""The comparisons by name, each a function of one that simulates."""


def simulate_in(folder: Path) -> Simulate:
    """Return a function that runs a shipped scenario with values, each in a folder of its own."""

    def run_of(name: str, values: tuple[str, ...]) -> Run:
        place = folder / f"run-{len(list(folder.iterdir()))}"
        scenario = load_scenario(name, list(values))
        return simulate(scenario, place, engine="compiled", jobs_file=False)

    return run_of


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
    lines = [
        HEAD,
        f"{len(asked) - len(misses)} of {len(asked)} figures with an accepted range are met.",
    ]
    lines += [f"- Not met: {check.what}: {_found(check)}" for check in misses]
    for section in found:
        lines += ["", f"## {section.title}", "", f"Source: {section.source}.", ""]
        if section.checks:
            lines += ["| | published | found | off | accepted |", "|---|---|---|---|---|"]
            lines += [_row(check) for check in section.checks]
        if section.remark:
            lines += ["", section.remark]
    return "\n".join([*lines, "", OPEN])


def weekly_curve(path: Path, simulate: Simulate) -> Section:
    """Return how the median week of a published year of a colocation facility compares."""
    series = pd.read_csv(path, index_col="timestamp", parse_dates=True).interpolate()
    if not {"power_W", "utilization"} <= set(series):
        return Section(f"Median week of {path.name}", str(path), (), "It lacks utilization.")
    step_ms = round((series.index[1] - series.index[0]).total_seconds() * 1000)
    mean = float(series["utilization"].mean())
    level = min(LEVELS, key=lambda at: abs(at / 100 - mean))
    run = simulate(TABLE_3.scenario, (f"{TABLE_3.key}={TABLE_3.values[level]}",))
    published = median_week(series["power_W"].to_numpy(), step_ms, series.index[0])
    power_w = run.facility(["it_power_w"])["it_power_w"].to_numpy().astype(np.float64)
    found = median_week(power_w, MS_PER_MIN, run.scenario.clock.start)
    rms = float(np.sqrt(np.mean((found / published - 1) ** 2)))
    correlation = float(np.corrcoef(published, found)[0, 1])
    return Section(
        f"Median week at {level} % utilization",
        str(path.name),
        [
            Check("correlation of the hourly medians of the week", "", 1.0, correlation),
            Check("rms difference, as a fraction", "", 0.0, rms),
            Check("largest hour", "MW", float(published.max()) / 1e6, float(found.max()) / 1e6),
            Check("smallest hour", "MW", float(published.min()) / 1e6, float(found.min()) / 1e6),
        ],
    )


def median_week(power_w: Float64Array, step_ms: int, start: datetime) -> Float64Array:
    """Return the median power of each hour of the week [W], shape (168,), from Monday 00:00."""
    midnight = start.replace(hour=0, minute=0, second=0, microsecond=0)
    begins_ms = start.weekday() * MS_PER_DAY + (start - midnight) // timedelta(milliseconds=1)
    hour = (begins_ms + np.arange(power_w.size) * step_ms) // MS_PER_H % (DAYS * HOURS)
    order = np.argsort(hour, kind="stable")
    parts = np.split(power_w[order], np.searchsorted(hour[order], np.arange(1, DAYS * HOURS)))
    return np.array([np.median(part) if part.size else np.nan for part in parts])


def _row(check: Check) -> str:
    unit = f" [{check.unit}]" if check.unit else ""
    off = "" if check.off is None else f"{100 * check.off:+.1f} %"
    accepted = ""
    if check.accepted is not None:
        accepted = " to ".join(map(_number, check.accepted)) + ("" if check.holds else ": **no**")
    cells = (check.what + unit, _number(check.published), _number(check.found), off, accepted)
    return f"| {' | '.join(cells)} |"


def _found(check: Check) -> str:
    return f"{_number(check.found)} {check.unit}, published {_number(check.published)}"


def _number(value: float | None) -> str:
    if value is None:
        return "none"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        run_of = simulate_in(Path(folder))
        found = [section(run_of) for section in SECTIONS.values()]
        found += [weekly_curve(Path(path), run_of) for path in sys.argv[1:]]
    PAGE.write_text(validation_page(found), "utf-8")
    sys.exit(any(check.holds is False for section in found for check in section.checks))
