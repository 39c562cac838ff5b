"""YAML of a fitted stream: a scenario snippet, or a complete scenario.

Its pool, its YAML, its files.
"""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import yaml

from diploee.base.errors import InputError, LogFormatError, did_you_mean, one_of
from diploee.base.files import check_output_file, whole_file
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

WIDTH = 100


def check_place(
    out: Path | None, force: bool, *inputs: Path | str | None, named: Named = str
) -> None:
    """Raise `InputError` early if a snippet can't be written to a path."""
    if out is not None:
        check_output_file(out, force, inputs=inputs, option=named("out"))


class Target(NamedTuple):
    """Target of a fitted stream."""

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
    """Return the stream's scenario, if any, and its pool."""
    if scenario is None:
        return None, pool or default
    base = scenario if isinstance(scenario, Scenario) else load_scenario(scenario)
    names = base.pool_names()
    if pool is None and len(names) == 1:
        return base, names[0]
    if pool not in names:
        near = did_you_mean(pool or "", names)
        result = "none" if pool is None else repr(pool)
        raise InputError(
            f"{named('pool')}: must be one of {one_of(names)}, found {result}{near}"
        )
    return base, pool


def stream_yaml(
    head: Iterable[str],
    group: Literal["streams", "request_streams"],
    entry: dict[str, Any],
    target: Target,
    base: Scenario | None,
) -> str:
    """Return a stream as YAML below its comments, or a base's whole scenario.

    The streams of its pool give way to it, those of other pools stay; relative names of
    files start from the new folder.
    """
    name, pool, out = target.stream, entry["pool"], target.out
    data: dict[str, Any] = {group: {name: entry}}
    if base is not None:
        # One pool serves one stream: the scenario's own would be in the way.
        free = {"streams": {}, "request_streams": {}} | data
        scenario_from_dict(base.model_dump(mode="json") | free)
    if base is not None and out is not None:
        given = base.model_dump(mode="json", exclude_unset=True)
        whole = _rebase_paths(out.absolute().parent, base.folder.absolute(), given)
        for own in ("streams", "request_streams"):
            streams = whole.pop(own, {}).items()
            others = {key: of for key, of in streams if of["pool"] != pool}
            if name in others:
                raise InputError(
                    f"{target.named('stream')}: '{name}' is a stream of pool "
                    f"'{others[name]['pool']}' of the scenario; give another name"
                )
            if result := data.get(own, {}) | others:
                whole[own] = result
        # What a scenario may be called
        if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", out.stem):
            whole["name"] = out.stem
        scenario_from_dict(whole)
        data = whole
    wrapper = textwrap.TextWrapper(WIDTH, initial_indent="# ", subsequent_indent="#   ")
    comments = [line for text in head for line in wrapper.wrap(text)]
    shown = yaml.safe_dump(
        data, default_flow_style=None, sort_keys=False, allow_unicode=True, width=WIDTH
    )
    return "\n".join([*comments, shown])


def _rebase_paths(folder: Path, old: Path, data: Any) -> Any:
    """Return data with relative file names rewritten for another folder."""
    if isinstance(data, dict):
        return {key: _rebase_paths(folder, old, value) for key, value in data.items()}
    if isinstance(data, list):
        return [_rebase_paths(folder, old, value) for value in data]
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
    """Write a scenario snippet to the requested path."""
    if out is not None:
        with whole_file(out, force) as path:
            path.write_text(text, encoding="utf-8")


@contextmanager
def naming_the_other_command(
    path: Path, command: FitCommand, name: str | None
) -> Iterator[None]:
    """Name the fitting command in the error on an unreadable file."""
    own, others = (JOB_LOG_FORMATS, TRACE_FORMATS)[:: 1 if command == "fit" else -1]
    (other,) = (each for each in _KINDS if each != command)
    try:
        yield
    except LogFormatError as error:
        if (
            name is None
            and _recognised(own, path) is None
            and (result := _recognised(others, path))
        ):
            raise InputError(
                f"{path}: is a {_KINDS[other]} ({result}), not a {_KINDS[command]}; "
                f"fit it with 'diploee {other}'"
            ) from error
        raise


def _recognised(formats: Formats[Any], path: Path) -> str | None:
    """Return the detected format of a file or folder, or None."""
    if path.is_dir():
        name = servegen.FORMAT.name
        return (
            name
            if name in formats and next(path.rglob(servegen.CHUNKS), None)
            else None
        )
    try:
        known = formats.detect(first_block(path)[0])
    except LogFormatError:
        return None
    return None if known is None else str(known.name)
