"""Scenario YAML of a fitted stream: a snippet, or a complete scenario."""

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
from diploee.importers.text.text_lines import first_block
from diploee.scenario.loading import load_scenario, scenario_from_dict
from diploee.scenario.models import Scenario

Named = Callable[[str], str]
"""Function that returns an argument's name in errors: the same name in Python, the
option on the command line."""

FitCommand = Literal["fit", "fit-requests"]

_KINDS: dict[FitCommand, str] = {"fit": "job log", "fit-requests": "request trace"}

WIDTH = 100


def check_output_path(
    out: Path | None, force: bool, *inputs: Path | str | None, named: Named = str
) -> None:
    """Raise `InputError` early if the snippet cannot be written to a path."""
    if out is not None:
        check_output_file(out, force, inputs=inputs, option=named("out"))


class Target(NamedTuple):
    """Destination of a fitted stream: scenario, pool, name of the stream, and file."""

    scenario: Scenario | Path | str | None  # its scenario, if there is one
    pool: str | None  # name of the pool
    stream: str  # name of the stream
    out: Path | None  # file to write
    named: Named = str  # argument names in errors


def find_pool(
    scenario: Scenario | Path | str | None,
    pool: str | None,
    default: str = "main",
    named: Named = str,
) -> tuple[Scenario | None, str]:
    """Return the scenario of a fitted stream, if any, and the name of its pool."""
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
    """Return a fitted stream as YAML with comments, within its scenario if any.

    The stream replaces the scenario's streams of the same pool; streams of other pools
    stay. Relative file names are rewritten for the folder of the new file.
    """
    name, pool, out = target.stream, entry["pool"], target.out
    data: dict[str, Any] = {group: {name: entry}}
    if base is not None:
        # A pool serves one stream, so the scenario's streams are left out
        free = {"streams": {}, "request_streams": {}} | data
        scenario_from_dict(base.model_dump(mode="json") | free)
    if base is not None and out is not None:
        base_data = base.model_dump(mode="json", exclude_unset=True)
        scenario_data = _rebase_paths(
            out.absolute().parent, base.folder.absolute(), base_data
        )
        for group_name in ("streams", "request_streams"):
            streams = scenario_data.pop(group_name, {}).items()
            others = {key: spec for key, spec in streams if spec["pool"] != pool}
            if name in others:
                raise InputError(
                    f"{target.named('stream')}: '{name}' is a stream of pool "
                    f"'{others[name]['pool']}' of the scenario; give another name"
                )
            if result := data.get(group_name, {}) | others:
                scenario_data[group_name] = result
        # The characters of a valid scenario name
        if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", out.stem):
            scenario_data["name"] = out.stem
        scenario_from_dict(scenario_data)
        data = scenario_data
    wrapper = textwrap.TextWrapper(WIDTH, initial_indent="# ", subsequent_indent="#   ")
    comments = [line for text in head for line in wrapper.wrap(text)]
    yaml_text = yaml.safe_dump(
        data, default_flow_style=None, sort_keys=False, allow_unicode=True, width=WIDTH
    )
    return "\n".join([*comments, yaml_text])


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
    """Write a scenario snippet to a file, if one is requested."""
    if out is not None:
        with whole_file(out, force) as path:
            path.write_text(text, encoding="utf-8")


@contextmanager
def suggest_other_command(
    path: Path, command: FitCommand, name: str | None
) -> Iterator[None]:
    """Raise an error that names the right fit command for a file of another kind.

    An example is a request trace as the file of `diploee fit`.
    """
    own, others = (JOB_LOG_FORMATS, TRACE_FORMATS)[:: 1 if command == "fit" else -1]
    (other,) = (each for each in _KINDS if each != command)
    try:
        yield
    except LogFormatError as error:
        if (
            name is None
            and _detect_format(own, path) is None
            and (result := _detect_format(others, path))
        ):
            raise InputError(
                f"{path}: is a {_KINDS[other]} ({result}), not a {_KINDS[command]}; "
                f"fit it with 'diploee {other}'"
            ) from error
        raise


def _detect_format(formats: Formats[Any], path: Path) -> str | None:
    """Return the name of the detected format of a file or folder, or None."""
    if path.is_dir():
        name = servegen.FORMAT.name
        return (
            name
            if name in formats and next(path.rglob(servegen.CHUNKS), None)
            else None
        )
    try:
        log_format = formats.detect(first_block(path)[0])
    except LogFormatError:
        return None
    return None if log_format is None else str(log_format.name)
