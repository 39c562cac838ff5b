"""Child process that runs one job of a studio at a time.

A job is a line of JSON on standard input. The job's messages are lines of JSON on
standard output; the last one has ``end``. SIGINT stops the current job and removes its
unfinished files. The process ends if its output is closed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from functools import partial
from math import inf
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from diploee import api
from diploee.base.errors import DiploeeError, RunTooLongError
from diploee.base.files import reason
from diploee.base.metric import NONE
from diploee.base.progress import Progress, Update, stop_with
from diploee.base.units import MS_PER_H, power_unit
from diploee.base.version import full_version
from diploee.facility.base import POWER, Block
from diploee.grid.export.registry import FORMATS
from diploee.importers.input_reader import InputReader
from diploee.profiles.library import ProfileLibrary
from diploee.reports.build import build_report, report_page
from diploee.reports.compare import Comparison, compare
from diploee.reports.datasheet import write_datasheet
from diploee.reports.drawing.charts import MUTED, Area, Axis, Chart, Line, Panel, colour
from diploee.reports.drawing.page import Figures
from diploee.runs.folder import default_folder
from diploee.runs.formatting import interval
from diploee.runs.parquet_files import FACILITY_FILE
from diploee.runs.reader import RunFolder
from diploee.scenario.models import Scenario
from diploee.studio.page_contents import StudioFolder, checked_scenario, week_text

Say = Callable[..., None]
EVERY_S = 0.1
"""Minimum interval of progress messages [s]."""
MAX_POINTS = 12_000
"""Maximum number of points of a chart; more are drawn as hourly means and extremes."""
MAX_DIFFERENCES, MAX_PICTURES = 6, 20


class ReportedProgress(Progress):
    """Progress of stages, sent as messages to the page."""

    def __init__(self, say: Say) -> None:
        self._say = say

    @contextmanager
    def stage(self, name: str) -> Iterator[Update]:
        """Report the progress of a stage while it lasts."""
        last_s = 0.0

        def update(fraction: float, text: str) -> None:
            nonlocal last_s
            if time.monotonic() - last_s >= EVERY_S:
                last_s = time.monotonic()
                self._say(stage=name, fraction=round(fraction, 4), text=text)

        self._say(stage=name, fraction=0.0, text="")
        yield update

    def tell(self, text: str) -> None:
        """Send a warning to the page."""
        self._say(warning=text)

    def forecast(self, text: str) -> None:
        """Send the run's forecast time and memory to the page."""
        self._say(forecast=text)


class PowerPreview:
    """Sink of a run's blocks that draws the power before the metrics are ready."""

    def __init__(
        self, scenario: Scenario, before: Any, show: Callable[[str], None]
    ) -> None:
        self._scenario, self._before, self._show = scenario, before, show
        self._powers: list[Any] = []
        self.series: Any = None  # times and means [W], for the next chart

    def add(self, block: Block) -> None:
        """Add a block of the run; draw the power after the last block."""
        self._powers.append(np.asarray(block.columns[POWER], np.float64))
        if block.end_ms >= self._scenario.n_intervals * self._scenario.resolution_ms:
            self.draw(np.concatenate(self._powers))

    def draw(self, power_w: Any) -> None:
        """Draw the power of the whole run [W]."""
        self._show(Figures().page(self._chart(power_w)))

    def _chart(self, power_w: Any) -> Chart:
        """Return the chart of the run's power, and of the previous run's."""
        scenario = self._scenario
        steps_per_hour = max(MS_PER_H // scenario.resolution_ms, 1)
        every = steps_per_hour if power_w.size > MAX_POINTS else 1
        blocks = power_w[: power_w.size // every * every].reshape(-1, every)
        start = np.datetime64(scenario.start, "ms")
        x = start + np.arange(len(blocks)) * np.timedelta64(
            every * scenario.resolution_ms, "ms"
        )
        self.series = (x, blocks.mean(axis=1))
        unit = power_unit(float(power_w.max(initial=0.0)))
        layers: list[Area | Line] = []
        if every > 1:
            low, high = blocks.min(axis=1) / unit.watts, blocks.max(axis=1) / unit.watts
            layers.append(
                Area(x, low, high, "least to most within", colour(0), 0.25, unit.power)
            )
        if self._before is not None:
            previous_x, previous_w = self._before
            layers.append(
                Line(
                    previous_x,
                    previous_w / unit.watts,
                    "before",
                    MUTED,
                    unit.power,
                    dash="dot",
                    width=1.2,
                    means=True,
                )
            )
        name = f"{interval(every * scenario.resolution_ms)} mean"
        layers.append(
            Line(
                x,
                self.series[1] / unit.watts,
                name,
                colour(0),
                unit.power,
                width=1.4,
                means=True,
            )
        )
        axes = (
            Axis("Day", "date"),
            Axis(f"Facility power [{unit.power}]", from_zero=True),
        )
        end = scenario.start + timedelta(milliseconds=scenario.horizon_ms)
        return Chart(
            "power",
            f"Facility power, {scenario.start:%Y-%m-%d} to {end:%Y-%m-%d}",
            (
                "Power at the meter; without a point of interconnection, behind the "
                "last stage."
            ),
            (Panel(*axes, tuple(layers)),),
        )


class Worker:
    """State of the child process, with caches for later jobs."""

    def __init__(self, say: Say) -> None:
        self.say = say
        self._library = ProfileLibrary.open()
        self._reader = InputReader()
        # Last series of each page, by start and length of the run
        self._series: dict[tuple[str, datetime, int], Any] = {}
        self._done: dict[
            str, Path
        ] = {}  # finished runs of whole periods, by the scenario's hash
        Figures().scripts()  # takes a second the first time

    def run(self, job: dict[str, Any]) -> None:
        """Simulate a scenario, or a week of it; write its pages, and compare it."""
        studio_folder, folder, frames = (
            StudioFolder(Path(job["root"])),
            Path(job["folder"]),
            Path(job["frames"]),
        )
        is_week = job["span"] == "week"
        text = week_text(job["text"], job["start"]) if is_week else job["text"]
        scenario = checked_scenario(text, folder, studio_folder)
        inputs = self._reader.load(scenario, self._library)
        out, result = frames / "run", None
        if not is_week:
            runs, sha256 = studio_folder.resolve_inside("runs"), scenario.sha256()
            first = runs / f"{scenario.name}-{sha256[:8]}"
            result = _existing_run(
                self._done.get(sha256, first), sha256, sha256 in self._done
            )
            out = default_folder(scenario.name, sha256, runs)
        key = (job["page"], scenario.start, scenario.horizon_ms)
        keep = partial(self._write_page, frames, "picture")
        watch = PowerPreview(scenario, self._series.get(key), keep)
        if result is not None:
            watch.draw(_power_w(result))
        else:
            result = api.run(
                scenario,
                out,
                inputs=inputs,
                engine=None,
                sinks=[watch],
                progress=ReportedProgress(self.say),
                at_most_s=job["at_most_s"],
                at_most_mb=_memory_mb(),
            )
            if not is_week:
                self._done[sha256] = result.folder
        if len(self._series) > MAX_PICTURES:
            self._series.pop(next(iter(self._series)))
        self._series[key] = watch.series
        self.say(stage="page", fraction=0.0, text="")
        self._make_report([result], frames)
        self.say(run=str(result.folder), **self._differences(job.get("before"), result))

    def show_runs(self, job: dict[str, Any]) -> None:
        """Make the page of finished runs, compared if there are several."""
        runs, frames, before = (
            [*map(RunFolder.open, job["runs"])],
            Path(job["frames"]),
            None,
        )
        for run in runs[:2]:
            watch = PowerPreview(
                run.scenario, before, partial(self._write_page, frames, "picture")
            )
            watch.draw(_power_w(run))
            before = watch.series
        self._make_report(runs, frames)
        more = self._differences(job["runs"][0], runs[1]) if len(runs) == 2 else {}
        self.say(run=str(runs[0].folder), **more)

    def write_file(self, job: dict[str, Any]) -> None:
        """Write the data sheet or an export of a run."""
        out, run = Path(job["frames"]), api.open_run(job["run"])
        if job["what"] == "datasheet":
            file = write_datasheet(
                run.folder, out / f"{run.folder.name}-datasheet.html"
            )[0]
        else:
            known = FORMATS[job["what"]]
            suffix = (known.suffixes or ("",))[0]
            leap: dict[str, Any] = (
                {"leap_day": "drop-feb29"} if known.whole_year else {}
            )
            file = run.export(
                job["what"], out / f"{run.folder.name}-{known.name}{suffix}", **leap
            )
            if file.is_dir():
                file = Path(shutil.make_archive(str(file), "zip", file))
        self.say(file=str(file))

    def _make_report(self, runs: list[RunFolder], frames: Path) -> None:
        """Write the report page of runs into the result's folder."""
        report = build_report([run.folder for run in runs])
        self._write_page(frames, "report", report_page(report))

    def _write_page(self, frames: Path, name: str, page: str) -> None:
        """Write a page of the result, and send its name."""
        (frames / f"{name}.html").write_text(page, "utf-8")
        self.say(frame=name)

    def _differences(self, before: str | None, run: RunFolder) -> dict[str, Any]:
        """Return the differences from the previous run if its period is the same."""
        if not before or not (Path(before) / FACILITY_FILE).exists():
            return {}
        try:
            if _run_period(RunFolder.open(before)) != _run_period(run):
                return {}
            return {"differences": _difference_texts(compare(before, run.folder))}
        except DiploeeError:  # a run of another version
            return {}


def _run_period(run: RunFolder) -> tuple[datetime, int]:
    """Return start and length [ms] of a run."""
    return run.scenario.start, run.scenario.horizon_ms


def _power_w(run: RunFolder) -> Any:
    """Return the facility power of a run [W]."""
    return run.facility([POWER])[POWER].to_numpy()


def _difference_texts(comparison: Comparison) -> list[str]:
    """Return the main differences of two runs as text, the most important first."""
    rows = [row for row in comparison.rows if not row.has_equal_text]
    lines = []
    for row in rows[:MAX_DIFFERENCES]:
        before, after, change = row.cells
        lines.append(f"{row.metric.heading}: {before} to {after} ({change or NONE})")
    if n_left := len(rows) - len(lines):
        lines.append(f"{n_left} more figures differ")
    return lines or ["No figure differs from the run before."]


def _existing_run(folder: Path, sha256: str, is_known: bool) -> RunFolder | None:
    """Return an existing run of the same scenario and version, or None.

    With `is_known` the hash is not compared, because a scenario scaled by
    `facility.size` has the hash of the scaled site in its manifest.
    """
    try:
        run = RunFolder.open(folder)
        result, version = (
            run.manifest.get(k) for k in ("scenario_sha256", "diploee_version")
        )
        return (
            run if is_known or (result, version) == (sha256, full_version()) else None
        )
    except DiploeeError:
        return None


def _memory_mb() -> float:
    """Return the available memory [MB]; infinite if unknown."""
    with suppress(OSError):
        result = re.search(
            r"MemAvailable:\s*(\d+)", Path("/proc/meminfo").read_text("ascii")
        )
        return int(result[1]) * 1024 / 1e6 if result else inf
    return inf


def is_within_import(frame: FrameType | None) -> bool:
    """Return whether a frame imports a module.

    A module whose import is interrupted may remain unusable in this process; the job
    stops at its next progress message instead.
    """
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def main() -> None:
    """Run jobs from standard input until it ends."""
    warnings.simplefilter("ignore")
    pipe = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # nothing else may write to it
    busy = False

    def say(**message: Any) -> None:
        pipe.write(json.dumps(message, default=str) + "\n")
        pipe.flush()

    def stop(_number: int, frame: FrameType | None) -> None:
        if busy:
            stop_with(KeyboardInterrupt())
            if not is_within_import(frame):
                raise KeyboardInterrupt

    signal.signal(signal.SIGINT, stop)
    worker = Worker(say)
    say(ready=True)
    for text in sys.stdin:
        problems: list[str] = []
        too_long_s = 0.0
        try:
            busy = True
            job = json.loads(text)
            {"run": worker.run, "look": worker.show_runs, "take": worker.write_file}[
                job["do"]
            ](job)
        except KeyboardInterrupt:
            problems = ["stopped"]
        except RunTooLongError as error:
            problems, too_long_s = list(error.problems), error.time_s
        except DiploeeError as error:
            problems = list(error.problems)
        except BrokenPipeError:
            return
        except OSError as error:
            problems = [f"{error.filename}: {reason(error)}"]
        except MemoryError:
            problems = ["out of memory; take fewer nodes or a shorter duration"]
        except Exception as error:
            words = f"internal error: {type(error).__name__}: {error}; please report it"
            say(end=True, problems=[words])
            raise
        finally:
            busy = False
            stop_with(None)
        say(end=True, problems=problems, too_long_s=too_long_s)


if __name__ == "__main__":
    main()
