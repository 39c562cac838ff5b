"""Study of firm demand: firm levels of a site, by notice, set of calls and seed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field, InstanceOf, NonNegativeFloat

from diploee.api.sites import (
    AnyProfiles,
    AnyScenario,
    load_scenario,
    open_library,
    site_of,
)
from diploee.base.arguments import AnyDuration, as_list, checked_arguments
from diploee.base.clock import NamedSpan
from diploee.base.errors import Brief, InputError, RunTooLongError
from diploee.base.model import Model, default, unset
from diploee.base.progress import Progress, Update, stage, usual_progress
from diploee.base.units import MS_PER_DAY, MS_PER_H, MS_PER_S, S_PER_MIN, W_PER_MW
from diploee.base.validation import checked
from diploee.grid.firm.calls import BLOCKS_H
from diploee.grid.firm.study import FirmResult, firm_results
from diploee.grid.firm.undisturbed import simulate_year
from diploee.importers.peak_intervals import read_peak_intervals
from diploee.power.blocks import MAX_THREADS
from diploee.profiles.library import ProfileLibrary
from diploee.reports.firm import firm_chart, firm_sections, recommendation
from diploee.runs.sections import Section, as_html
from diploee.scenario.loading import locate_errors
from diploee.scenario.models import Scenario
from diploee.scenario.times import FixedSpan, span_ms
from diploee.scenario.yaml_lines import dotted_key
from diploee.simulation.cost_forecast import duration, slowness
from diploee.simulation.prepared import RunOptions

if TYPE_CHECKING:
    import pandas as pd

    from diploee.reports.drawing.pictures import Picture

MAX_NOTICE_MS = 7 * MS_PER_DAY
MAX_COUNT = 100
"""Maximum number of levels, and of seeds."""
NOTICES = ("0 s", "10 min", "1 h", "24 h")
S_PER_RESULT, S_PER_NODE_STEP = 0.05, 1.6e-9
"""Processor time of a result, and additional time per step and node of the pools with
tolerant jobs [s]; measured on a year of 10 MW and 150 MW in steps of 5 min."""


class FirmOptions(Model):
    """Options of a study of firm demand: levels, notices, calls and seeds."""

    levels: Annotated[int, Field(ge=1, le=MAX_COUNT)] | None = unset(
        "Number of levels, evenly from minimum to peak of the undisturbed year; 10 by "
        "default."
    )
    level: tuple[NonNegativeFloat, ...] = default(
        (), "Firm level [MW], instead of --levels."
    )
    notice: Annotated[tuple[FixedSpan, ...], Field(min_length=1)] = default(
        NOTICES, "Time from the notice of a call to its start, at most a week."
    )
    peaks: Annotated[str, Field(min_length=1)] | None = unset(
        "The grid's peak hours, as further calls: a table with start, and end or "
        "duration_min."
    )
    seeds: Annotated[int, Field(ge=1, le=MAX_COUNT)] = default(
        3, "Number of seeds, beginning with the scenario's."
    )
    step: FixedSpan = default("5 min", "Time step of the dispatch; it divides an hour.")
    at_most: Annotated[float, Field(gt=0)] | None = unset(
        "Refuse a study with a longer forecast."
    )


@dataclass(frozen=True)
class FirmStudy(Brief):
    """Results of a study of firm demand: relief and costs of each firm level."""

    name: str  # of the scenario
    bounds_mw: tuple[float, float]  # minimum and peak of the first seed's year
    days: float  # simulated with each seed
    step_ms: int
    can_wait: bool  # whether any job or service tolerates a call
    results: tuple[FirmResult, ...]

    def brief(self) -> str:
        """Return the site, the number of levels, and the peak as text."""
        levels = {each.level_mw for each in self.results}
        return f"{self.name}: {len(levels)} levels, peak {self.bounds_mw[1]:.4g} MW"

    def frame(self) -> pd.DataFrame:
        """Return a row per seed, level, set of calls and notice.

        Two quantities differ by call, so a row has their P5, P50 and P95: the mean
        relief in a call [MW], and its fraction of the mean power above the level.
        """
        import pandas as pd

        return pd.DataFrame.from_records(
            [dict(_result_row(each)) for each in self.results]
        )

    @property
    def recommendation(self) -> str:
        """One sentence: the recommended firm level, with its range over seeds."""
        return recommendation(self.results, self.bounds_mw)

    def sections(self) -> list[Section]:
        """Return the table of levels, with the recommendation."""
        facts = self.bounds_mw, self.days, self.step_ms, self.can_wait
        return firm_sections(self.name, self.results, *facts)

    def plot(self) -> Picture:
        """Draw relief against delayed work of jobs, as a picture for notebooks."""
        from diploee.reports.drawing.pictures import Picture

        return Picture(firm_chart(self.name, self.results))

    def _repr_html_(self) -> str:
        return as_html(self.name, self.sections())


def _result_row(result: FirmResult) -> Iterator[tuple[str, Any]]:
    for field in fields(result):
        value = getattr(result, field.name)
        if isinstance(value, tuple):
            percentiles = np.percentile(value, (5, 50, 95)) if value else [None] * 3
            unit = "_mw" if field.name == "dependable" else ""
            for percent, each in zip((5, 50, 95), percentiles, strict=True):
                yield f"{field.name}_p{percent}{unit}", each
        else:
            yield field.name, value


@checked_arguments
def firm(
    site: AnyScenario,
    *,
    levels: int | None = None,
    level: float | Sequence[float] = (),
    notice: str | Sequence[str] = NOTICES,
    peaks: Path | str | None = None,
    seeds: int = 3,
    step: AnyDuration = "5 min",
    at_most: float | None = None,
    profiles: AnyProfiles = (),
    progress: InstanceOf[Progress] | None = None,
) -> FirmStudy:
    """Compare firm levels of a site: relief, delayed work, and equivalent battery.

    Parameters
    ----------
    site : Scenario, mapping, path or str
        A scenario, its content, its file, or the name of a shipped one. Its own events
        are left out.
    levels : int
        Number of firm levels, evenly from the minimum to the peak of the undisturbed
        year; 10 by default.
    level : float or sequence of float, optional
        Firm levels [MW], instead of `levels`.
    notice : str or sequence of str
        Times from the notice of a call to its start.
    peaks : path, optional
        CSV file of the grid's peak hours, as further calls.
    seeds : int
        Number of seeds, beginning with the scenario's.
    step : str
        Time step of the dispatch, which divides an hour.
    at_most : float, optional
        Refuse a study with a longer forecast [min].
    profiles : ProfileLibrary, path, or sequence of path
        Power profiles of the jobs; the shipped reference profiles by default.
    progress : Progress, optional
        Called with the stages and their progress.

    Returns
    -------
    FirmStudy
        Its `frame()` has a row per seed, level, set of calls and notice.

    Raises
    ------
    InputError
        If an option is invalid, or a policy of the site acts on running jobs.
    RunTooLongError
        If the forecast is longer than ``at_most`` [min].
    """
    options = {
        "levels": levels,
        "level": tuple(map(float, as_list(level))),
        "notice": tuple(as_list(notice)),
        "peaks": None if peaks is None else str(peaks),
        "seeds": seeds,
        "step": step,
        "at_most": at_most,
    }
    study_options = checked(
        options, FirmOptions, dotted_key, lambda lines: InputError("; ".join(lines))
    )
    library, progress = open_library(profiles), progress or usual_progress()
    scenario = load_scenario(site)
    with locate_errors(site) if isinstance(site, Path | str) else nullcontext():
        return _study(scenario, study_options, library, progress)


def _study(
    scenario: Scenario,
    options: FirmOptions,
    library: ProfileLibrary,
    progress: Progress,
) -> FirmStudy:
    step_ms = span_ms(options.step)
    if step_ms <= 0 or MS_PER_H % step_ms:
        raise InputError(f"--step: must divide an hour, found {options.step}")
    if step_ms < MS_PER_S:  # a year of shorter steps does not fit into memory
        raise InputError(f"--step: must be at least 1 s, found {options.step}")
    if scenario.horizon_ms % step_ms:
        raise InputError(
            f"--step: {options.step} must divide the duration of the run, "
            f"{scenario.duration}"
        )
    spans: Sequence[NamedSpan] = (
        read_peak_intervals(options.peaks) if options.peaks else ()
    )
    notices_ms = sorted({span_ms(text) for text in options.notice})
    if notices_ms[-1] > MAX_NOTICE_MS:
        raise InputError(f"--notice: must be at most 7 d, found {options.notice[-1]}")
    levels_w = [mw * W_PER_MW for mw in options.level]
    if levels_w and options.levels:
        raise InputError("--level: must not be given with levels; leave out one")
    n_levels, n_steps = (
        len(levels_w) or options.levels or 10,
        scenario.horizon_ms // step_ms,
    )
    refuse = partial(_refuse_long, options, n_levels, n_steps, progress)
    results, bounds, can_wait = list[FirmResult](), (0.0, 0.0), False
    for k in range(options.seeds):
        changes = {"seed": scenario.seed + k, "flexibility": None, "limits": ()}
        changes |= {"resolution": step_ms, "step": None}
        seed_scenario = scenario.model_copy(update=changes)
        with stage(f"seed {seed_scenario.seed}", progress) as update:
            site = site_of(seed_scenario, library, RunOptions(engine=None))
            year = simulate_year(
                site,
                partial(_update_half, update, 0.0),
                None if k else refuse,
            )
            if not k:
                least_w, most_w = float(year.power_w.min()), float(year.power_w.max())
                bounds = least_w / W_PER_MW, most_w / W_PER_MW
                can_wait = year.services is not None or bool(year.jobs.start_ms.size)
                levels_w = levels_w or np.linspace(least_w, most_w, n_levels).tolist()
            results += firm_results(
                year,
                seed_scenario.seed,
                levels_w,
                notices_ms,
                spans,
                partial(_update_half, update, 0.5),
            )
    days = scenario.horizon_ms / MS_PER_DAY
    return FirmStudy(scenario.name, bounds, days, step_ms, can_wait, tuple(results))


def _update_half(update: Update, done: float, fraction: float, text: str) -> None:
    """Report the progress of a half of a stage, `done` being 0 or 0.5."""
    update(done + fraction / 2, text)


def _refuse_long(
    options: FirmOptions,
    n_levels: int,
    n_steps: int,
    progress: Progress,
    year_s: float,
    n_nodes: int,
) -> None:
    """Show the forecast of a study; raise an error if it is longer than `at_most`."""
    n_results = (
        n_levels * len(options.notice) * (1 + len(BLOCKS_H) + bool(options.peaks))
    )
    result_s = S_PER_RESULT + n_steps * n_nodes * S_PER_NODE_STEP
    n_threads = min(os.cpu_count() or 1, MAX_THREADS)
    time_s = options.seeds * (year_s + n_results * result_s / n_threads * slowness())
    text = f"{options.seeds} x {n_results} results take about {duration(time_s)}"
    if options.at_most is not None and time_s > options.at_most * S_PER_MIN:
        error = RunTooLongError(
            f"{text}, more than --at-most {options.at_most:g} min; raise it, or take "
            "fewer seeds, levels or notices"
        )
        error.time_s = time_s
        raise error
    progress.forecast(text)
