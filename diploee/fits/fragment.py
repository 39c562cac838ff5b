"""A learned stream as a piece of a scenario, or as the whole.

Its pool, its YAML, its files.
"""

from __future__ import annotations

import json
import os
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import yaml

from diploee.base.errors import InputError, LogFormatError, did_you_mean, one_of
from diploee.base.files import check_file, whole_file
from diploee.base.tables import Float64Array
from diploee.base.units import HOURS_PER_DAY
from diploee.fits.weeks import WeekFit
from diploee.importers.job_logs.read import JOB_LOG_FORMATS
from diploee.importers.registry import Formats
from diploee.importers.request_traces import servegen
from diploee.importers.request_traces.read import TRACE_FORMATS
from diploee.importers.text.text import first_block
from diploee.scenario.loading import load_scenario, scenario_from_dict
from diploee.scenario.models import Scenario

Named = Callable[[str], str]
"""Returns how errors call an argument: `str` in Python, as an option on the command
line."""

FitCommand = Literal["fit", "fit-requests"]

_KINDS: dict[FitCommand, str] = {"fit": "job log", "fit-requests": "request trace"}

WEEKDAYS = (
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
)
WIDTH = 100


def check_place(
    out: Path | None, force: bool, *inputs: Path | str | None, named: Named = str
) -> None:
    """Raise `InputError`, before any work, if a fragment can't go to a place."""
    if out is not None:
        check_file(out, force, inputs=inputs, option=named("out"))


class Target(NamedTuple):
    """Where a fitted stream goes."""

    scenario: Scenario | Path | str | None  # what it is for, if it is known
    pool: str | None  # its pool
    stream: str  # its name
    out: Path | None  # the file
    named: Named = str  # how errors call an argument


def pool_of(
    scenario: Scenario | Path | str | None,
    pool: str | None,
    default: str = "main",
    named: Named = str,
) -> tuple[Scenario | None, str]:
    """Return the scenario that a stream is for, if any, and the stream's pool."""
    if scenario is None:
        return None, pool or default
    base = scenario if isinstance(scenario, Scenario) else load_scenario(scenario)
    names = base.pool_names()
    if pool is None and len(names) == 1:
        return base, names[0]
    if pool not in names:
        near = did_you_mean(pool or "", names)
        found = "none" if pool is None else repr(pool)
        raise InputError(
            f"{named('pool')}: must be one of {one_of(names)}, found {found}{near}"
        )
    return base, pool


def check_fragment(text: str, base: Scenario | None) -> None:
    """Raise `ScenarioError` if a fragment does not load in its scenario."""
    if base is not None:
        data: dict[str, Any] = base.model_dump(mode="json")
        # One pool serves one stream: the scenario's own would be in the way.
        scenario_from_dict(
            data | {"streams": {}, "request_streams": {}} | yaml.safe_load(text)
        )


def into_scenario(
    text: str, base: Scenario | None, pool: str, out: Path | None, named: Named = str
) -> str:
    """Return a checked fragment, as a whole scenario for a file with a base.

    The streams of its pool give way to it, those of other pools stay; relative names of
    files start from the new folder.
    """
    check_fragment(text, base)
    if base is None or out is None:
        return text
    data = _told_from(
        out.absolute().parent,
        base.folder.absolute(),
        base.model_dump(mode="json", exclude_unset=True),
    )
    groups = {
        group: {name: s for name, s in data.pop(group, {}).items() if s["pool"] != pool}
        for group in ("streams", "request_streams")
    }
    fitted = yaml.safe_load(text)
    ((own, (name,)),) = fitted.items()
    for others in groups.values():
        if name in others:
            raise InputError(
                f"{named('stream')}: '{name}' is a stream of pool "
                f"'{others[name]['pool']}' of the scenario; give another name"
            )
    rest = groups.pop(own)
    data |= {group: others for group, others in groups.items() if others}
    # The fragment ends within its streams: others of the kind follow it.
    # What a scenario may be called
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", out.stem):
        data["name"] = out.stem
    whole = (
        _yaml(data) + text + "".join(f"  {line}\n" for line in _yaml(rest).splitlines())
    )
    scenario_from_dict(yaml.safe_load(whole))
    return whole


def _yaml(data: dict[str, Any]) -> str:
    return (
        yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=100)
        if data
        else ""
    )


def _told_from(folder: Path, old: Path, data: Any) -> Any:
    """Return data with relative file names rewritten for another folder."""
    if isinstance(data, dict):
        return {key: _told_from(folder, old, value) for key, value in data.items()}
    if isinstance(data, list):
        return [_told_from(folder, old, value) for value in data]
    is_file = (
        isinstance(data, str)
        and "." in data
        and "\n" not in data
        and (old / data).exists()
    )
    if not is_file or Path(data).is_absolute():
        return data
    return Path(os.path.relpath(old / data, folder)).as_posix()


def write_fragment(text: str, out: Path | None, force: bool) -> None:
    """Write a fragment where it was asked for."""
    if out is not None:
        with whole_file(out, force) as path:
            path.write_text(text, encoding="utf-8")


@contextmanager
def naming_the_other_command(
    path: Path, command: FitCommand, name: str | None
) -> Iterator[None]:
    """Name the command that fits a file which this one can't read."""
    own, others = (JOB_LOG_FORMATS, TRACE_FORMATS)[:: 1 if command == "fit" else -1]
    (other,) = (each for each in _KINDS if each != command)
    remedy = f"not a {_KINDS[command]}; fit it with 'diploee {other}'"
    if name in others and name not in own:
        raise InputError(f"{path}: '{name}' is a format of a {_KINDS[other]}, {remedy}")
    try:
        yield
    except LogFormatError as error:
        if (
            name is None
            and _recognised(own, path) is None
            and (found := _recognised(others, path))
        ):
            raise InputError(
                f"{path}: is a {_KINDS[other]} ({found}), {remedy}"
            ) from error
        raise


def _recognised(formats: Formats[Any], path: Path) -> str | None:
    """Return which of some formats a file or folder is of, None if it is of none."""
    if path.is_dir():
        name = servegen.FORMAT.name
        return (
            name
            if name in formats and next(path.rglob(servegen.CHUNKS), None)
            else None
        )
    try:
        known = formats.recognised(first_block(path)[0])
    except LogFormatError:
        return None
    return None if known is None else str(known.name)


def comments(texts: Iterable[str]) -> list[str]:
    """Return statements as lines of comments."""
    wrapper = textwrap.TextWrapper(WIDTH, initial_indent="# ", subsequent_indent="#   ")
    return [line for text in texts for line in wrapper.wrap(text)]


def limited(
    key: str,
    level: str,
    value: float,
    low: float,
    high: float,
    digits: int,
    of_limits: int,
) -> str:
    """Return a key of a stream with the limits of its value in a comment."""
    limits = f"{number(low, of_limits)} to {number(high, of_limits)}"
    return f"    {key}: {number(value, digits)}  # {level} {limits}"


def calendar_lines(
    week_weight: Float64Array,
    month_weight: Float64Array | None,
    weeks: WeekFit | None = None,
) -> list[str]:
    """Return a stream's ``calendar`` as YAML, one row of numbers for half a day."""

    def numbers(weights: Float64Array) -> str:
        return ", ".join(number(weight, 5) for weight in weights)

    def halves(day: Float64Array) -> list[str]:
        return [f"  {numbers(half)}," for half in day.reshape(2, -1)]

    days, rows = week_weight.reshape(len(WEEKDAYS), HOURS_PER_DAY), []
    if np.ptp(week_weight) > 0:
        of_hour, of_day = days.mean(axis=0), days.mean(axis=1)
        if np.allclose(days, np.outer(of_day, of_hour), rtol=1e-9, atol=1e-12):
            rows += ["hour_of_day: [", *halves(of_hour), "]"]
            if not np.allclose(of_day, 1):
                rows.append(f"day_of_week: [{numbers(of_day)}]  # Monday first")
        else:
            named = zip(WEEKDAYS, days, strict=True)
            of_days = [
                line for name, day in named for line in (f"  # {name}", *halves(day))
            ]
            rows += ["hour_of_week: [", *of_days, "]"]
    if month_weight is not None:
        rows.append(f"month: [{numbers(month_weight)}]")
    if weeks is not None and weeks.is_told:
        rows.append(f"week_to_week: {flow(weeks.entry)}")
    return ["    calendar:", *(f"      {row}" for row in rows)] if rows else []


def word(text: str) -> str:
    """Return a text as YAML, quoted where it could be read as something else."""
    plain = (
        re.fullmatch(r"[A-Za-z][A-Za-z0-9_.-]*", text) and yaml.safe_load(text) == text
    )
    return text if plain else json.dumps(text)


def number(value: float, digits: int) -> str:
    """Return a number as YAML 1.1 reads it: no exponent without a point and a sign."""
    text = np.format_float_positional(
        value, digits, unique=False, fractional=False, trim="-"
    )
    return text if np.isfinite(value) else "infinity"


def flow(value: Any) -> str:
    """Return plain data as YAML on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{flow(k)}: {flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(flow, value)) + "]"
    return value if isinstance(value, str) else number(float(value), 12)
