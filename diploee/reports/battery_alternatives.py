"""Comparison of a battery with changes to large jobs that also meet the limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

from diploee.base.errors import InputError, RunTooLongError
from diploee.base.units import MS_PER_DAY, S_PER_MIN
from diploee.grid.limits.file import Limits
from diploee.grid.limits.mitigation import Mitigation, load_statistics, meter_power
from diploee.grid.limits.report import LimitReport, check_limits
from diploee.runs.reader import RunFolder
from diploee.runs.sections import Section, SectionTable, Statistic
from diploee.scenario.loading import scenario_from_dict, with_overrides

SHARES = (0.5, 0.25, 0.125)
"""Sizes of the largest job that are tried until the limits are met, as fractions of
its original size."""

PLAIN = ("as it is", "battery")
"""Rows whose results are known without a new simulation."""

NO_BATTERY = (0.0, 0.0, 0.0)


def battery_sections(
    run: RunFolder,
    limits: Sequence[Limits],
    mitigation: Mitigation,
    simulate: Callable[..., RunFolder],
    at_most_s: float = 600.0,
) -> list[Section]:
    """Return sections on a battery's effect on a run, and on alternatives.

    Parameters
    ----------
    run : RunFolder
        The run that the battery was sized on.
    limits : sequence of Limits
        The limits that it was sized for.
    mitigation : Mitigation
        Result of `mitigate`.
    simulate : callable
        Function that simulates a scenario into a folder, as `diploee.run` does.
    at_most_s : float, optional
        Computing time for all alternatives together [s]. An alternative is left out if
        its forecast exceeds the time that remains.

    Returns
    -------
    list of Section
        The battery's section; then a table of the alternatives, if a battery is needed.
    """
    if mitigation.stage is None:
        return [mitigation.section()]
    before, after = zip(
        *(values for *values, _ in mitigation.comparison.values()), strict=True
    )
    sizes = mitigation.power_mw, mitigation.usable_mwh, mitigation.full_cycles
    rows = [
        *_measure_cells(PLAIN[0], NO_BATTERY, before, mitigation.before),
        *_measure_cells(PLAIN[1], sizes, after, mitigation.after),
    ]
    notes, solved_kinds, end_s = [], set(), monotonic() + at_most_s
    alternatives = list(_alternatives(run))
    for kind, name, keys in alternatives:
        if kind in solved_kinds:
            continue
        try:
            left_s = max(end_s - monotonic(), 0)
            figures, reports = _simulate_changed(run, keys, limits, simulate, left_s)
        except RunTooLongError as error:
            notes.append(
                f"{name}: not simulated, as it is forecast to take "
                f"{error.time_s / S_PER_MIN:.2g} min of the {left_s / S_PER_MIN:.2g} "
                "left; more by --at-most"
            )
            continue
        except InputError as error:
            notes.append(f"{name}: can't be tried: {error}")
            continue
        rows += _measure_cells(name, NO_BATTERY, figures, reports)
        if not any(report.not_met for report in reports):
            solved_kinds.add(kind)
    days = run.scenario.horizon_ms / MS_PER_DAY
    other = "no synchronous job is there to be changed"
    if alternatives:
        other = (
            "what changes a synchronous job is simulated again over them, with the "
            "same seed"
        )
    section_notes = (
        (
            f"energy, full cycles and verdicts over {days:.3g} days; the battery is "
            f"applied to the run's power, {other}"
        ),
        *notes,
    )
    return [
        mitigation.section(),
        Section(
            "cures",
            "Cures",
            (),
            (SectionTable("Cures", tuple(rows), first="cure"),),
            (),
            section_notes,
        ),
    ]


def _measure_cells(
    cure: str,
    sizes: Sequence[float],
    figures: Sequence[float],
    reports: Sequence[LimitReport],
) -> Iterator[Statistic]:
    """Yield the table cells of a measure: battery size, peak, energy, limits."""
    columns = ("battery", "MW"), ("usable", "MWh"), ("full cycles", "")
    for (quantity, unit), value in zip(columns, sizes, strict=True):
        yield Statistic(cure, value, unit, quantity=quantity)
    yield Statistic(cure, figures[0], "MW", quantity="peak")
    yield Statistic(cure, figures[-1], "MWh", quantity="energy")
    for number, report in enumerate(reports, 1):
        verdict = f"{report.span_verdict}: {report.margin_text()}"
        yield Statistic(cure, verdict, quantity=report.name or f"limits {number}")


def _alternatives(run: RunFolder) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield measures on synchronous jobs: kind, name, and values by dotted key."""
    scenario = run.scenario
    training = {
        name: stream.synchronous
        for name, stream in scenario.streams.items()
        if stream.synchronous
    }
    if not training:
        return
    smooth = [
        name for name in training if scenario.streams[name].power_smoothing is None
    ]
    if smooth:
        keys: dict[str, Any] = {
            f"streams.{name}.power_smoothing": {} for name in smooth
        }
        yield "smoothing", "power_smoothing: {}", keys
    nodes = {
        (name, k): job.nodes(
            scenario.facility.node_type_of(scenario.streams[name].pool).n_gpus
        )
        for name, spec in training.items()
        for k, job in enumerate(spec.jobs)
    }
    (name, k), largest = max(nodes.items(), key=lambda item: item[1])
    job = training[name].jobs[k]
    unit = "n_nodes" if job.n_nodes else "n_gpus"
    for share in SHARES:
        size = int((getattr(job, unit) or 0) * share)
        if size:
            key = f"streams.{name}.synchronous.jobs.{k}.{unit}"
            yield (
                "smaller",
                f"largest job on {int(largest * share):,} nodes",
                {key: size},
            )


def _simulate_changed(
    run: RunFolder,
    keys: dict[str, Any],
    limits: Sequence[Limits],
    simulate: Callable[..., RunFolder],
    at_most_s: float,
) -> tuple[list[float], list[LimitReport]]:
    """Simulate a run with changed keys; return its statistics and limit reports."""
    data, _ = with_overrides(run.manifest["scenario"], (), keys)
    with TemporaryDirectory() as folder:
        again = simulate(
            scenario_from_dict(data),
            Path(folder) / "run",
            jobs_file=False,
            at_most_s=at_most_s,
        )
        figures = load_statistics(meter_power(again), again.scenario.resolution_ms)
        return [value for _, value, _ in figures], [
            check_limits(again, one) for one in limits
        ]
