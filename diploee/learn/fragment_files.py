"""A learned stream as a piece of a scenario, or as the whole: its places, its pool, its text."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import yaml

from diploee.errors import InputError, LogFormatError, did_you_mean, one_of
from diploee.files import Writing, check_file, writing
from diploee.importers import JOB_LOG_FORMATS, TRACE_FORMATS
from diploee.importers.registry import Formats
from diploee.importers.request_traces import servegen
from diploee.scenario import Scenario, load_scenario, scenario_from_dict
from diploee.textio.text import first_block

Named = Callable[[str], str]
"""Returns how errors call an argument: `str` in Python, as an option on the command line."""

FitCommand = Literal["fit", "fit-requests"]

_KINDS: dict[FitCommand, str] = {"fit": "job log", "fit-requests": "request trace"}


def check_places(
    out: Path | None,
    force: bool,
    *inputs: Path | str | None,
    plots: Path | None = None,
    named: Named = str,
) -> None:
    """Raise `InputError`, before any work, if a fragment or its pictures can't go to a place."""
    if out is not None:
        check_file(out, force, inputs=inputs, option=named("out"))
    if plots is None:
        return
    if out is not None and plots.absolute() == out.absolute():
        raise InputError(
            f"{named('plots')}: {plots} is the file of {named('out')}; give a folder of its own"
        )
    check_file(plots / "week.png", force, inputs=inputs, option=named("plots"))


def pool_of(
    scenario: Scenario | Path | str | None,
    pool: str | None,
    default: str = "main",
    named: Named = str,
) -> tuple[Scenario | None, str]:
    """Return the scenario that a stream is for, if one was given, and the stream's pool."""
    if scenario is None:
        return None, pool or default
    base = scenario if isinstance(scenario, Scenario) else load_scenario(scenario)
    names = base.pool_names()
    if pool is None and len(names) == 1:
        return base, names[0]
    if pool not in names:
        near = did_you_mean(pool or "", names)
        found = "none" if pool is None else repr(pool)
        raise InputError(f"{named('pool')}: must be one of {one_of(names)}, found {found}{near}")
    return base, pool


def check_fragment(text: str, base: Scenario | None) -> None:
    """Raise `ScenarioError` if a fragment's streams do not load in the scenario they are for."""
    if base is not None:
        data: dict[str, Any] = base.model_dump(mode="json")
        # One pool serves one stream: the scenario's own would be in the way.
        scenario_from_dict(data | {"streams": {}, "request_streams": {}} | yaml.safe_load(text))


def into_scenario(
    text: str, base: Scenario | None, pool: str, out: Path | None, named: Named = str
) -> str:
    """Return a checked fragment, as a whole scenario where it goes to a file and has a base.

    The streams of its pool give way to it, those of other pools stay; relative names of files start
    from the new folder.
    """
    check_fragment(text, base)
    if base is None or out is None:
        return text
    data = _told_from(out.absolute().parent, base.folder.absolute(), base.model_dump(
        mode="json", exclude_unset=True
    ))  # fmt: skip
    groups = {
        group: {name: s for name, s in data.pop(group, {}).items() if s["pool"] != pool}
        for group in ("streams", "request_streams")
    }
    fitted = yaml.safe_load(text)
    ((own, (name,)),) = fitted.items()
    for others in groups.values():
        if name in others:
            raise InputError(
                f"{named('stream')}: '{name}' is a stream of pool '{others[name]['pool']}' of the "
                "scenario; give another name"
            )
    rest = groups.pop(own)
    data |= {group: others for group, others in groups.items() if others}
    # The fragment ends within its streams: others of the kind follow it.
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", out.stem):  # what a scenario may be called
        data["name"] = out.stem
    whole = _yaml(data) + text + "".join(f"  {line}\n" for line in _yaml(rest).splitlines())
    scenario_from_dict(yaml.safe_load(whole))
    return whole


def _yaml(data: dict[str, Any]) -> str:
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=100) if data else ""


def _told_from(folder: Path, old: Path, data: Any) -> Any:
    """Return data with the relative names of files there rewritten to start from another folder."""
    if isinstance(data, dict):
        return {key: _told_from(folder, old, value) for key, value in data.items()}
    if isinstance(data, list):
        return [_told_from(folder, old, value) for value in data]
    is_file = isinstance(data, str) and "." in data and "\n" not in data and (old / data).exists()
    if not is_file or Path(data).is_absolute():
        return data
    return Path(os.path.relpath(old / data, folder)).as_posix()


def write_fragment(
    text: str,
    out: Path | None,
    force: bool,
    plots: Path | None = None,
    draw: Callable[[Path, Writing], list[Path]] | None = None,
) -> list[Path]:
    """Write a fragment and its pictures, where they were asked for, together; return the files."""
    with writing(force) as files:
        if out is not None:
            files.file(out).write_text(text, encoding="utf-8")
        drawn = [] if plots is None or draw is None else draw(plots, files)
    return drawn if out is None else [out, *drawn]


@contextmanager
def naming_the_other_command(path: Path, command: FitCommand, name: str | None) -> Iterator[None]:
    """Name the command that fits a file which this one can't read."""
    own, others = (JOB_LOG_FORMATS, TRACE_FORMATS)[:: 1 if command == "fit" else -1]
    (other,) = (each for each in _KINDS if each != command)
    remedy = f"not a {_KINDS[command]}; fit it with 'diploee {other}'"
    if name in others and name not in own:
        raise InputError(f"{path}: '{name}' is a format of a {_KINDS[other]}, {remedy}")
    try:
        yield
    except LogFormatError as error:
        if name is None and _recognised(own, path) is None and (found := _recognised(others, path)):
            raise InputError(f"{path}: is a {_KINDS[other]} ({found}), {remedy}") from error
        raise


def _recognised(formats: Formats[Any], path: Path) -> str | None:
    """Return which of some formats a file or folder is of, None if it is of none."""
    if path.is_dir():
        name = servegen.FORMAT.name
        return name if name in formats and next(path.rglob(servegen.CHUNKS), None) else None
    try:
        known = formats.recognised(first_block(path)[0])
    except LogFormatError:
        return None
    return None if known is None else str(known.name)
