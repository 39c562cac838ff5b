"""What the commands share that learn a stream from a log and write it as a piece of a scenario."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from diploee.scenario import Scenario

FitCommand = Literal["fit", "fit-requests"]

_KINDS: dict[FitCommand, str] = {"fit": "job log", "fit-requests": "request trace"}


def check_confidence(confidence: float) -> None:
    """Raise `InputError` unless a level of limits lies between 0 and 1."""
    from diploee.errors import InputError

    if not 0 < confidence < 1:
        raise InputError(f"--confidence: must lie between 0 and 1, found {confidence:g}")


def check_free(out: Path | None, force: bool, *inputs: Path | str | None) -> None:
    """Raise `InputError` if a file at the place may not be replaced, or is itself an input.

    Parameters
    ----------
    out : pathlib.Path or None
        Where a fragment goes.
    force : bool
        A file there may be replaced, unless it is an input.
    *inputs : pathlib.Path, str or None
        What the command reads; names that are no files are of no concern.
    """
    from diploee.errors import InputError, OutputExistsError

    for path in inputs:
        if out is not None and path is not None and _is_same_file(out, Path(path)):
            raise InputError(f"--out: {out} is an input of this command; give another place")
    if out is not None and out.exists() and not force:
        raise OutputExistsError(f"{out}: exists; use --force to replace it, or another --out")


def check_folder(plots: Path | None, out: Path | None) -> None:
    """Raise `OutputError` if pictures can't go to a folder, before anything is written."""
    from diploee.errors import OutputError

    if plots is None:
        return
    if out is not None and plots.absolute() == out.absolute():
        raise OutputError(f"--plots: {plots} is the file of --out; give a folder of its own")
    standing = next((p for p in (plots, *plots.absolute().parents) if p.exists()), plots)
    if standing.exists() and not standing.is_dir():
        raise OutputError(f"--plots: {standing} is a file, expected a folder; give another place")


def _is_same_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except (OSError, ValueError):
        return False


def pool_of(
    scenario: str | None, pool: str | None, default: str = "main"
) -> tuple[Scenario | None, str]:
    """Return the scenario that a stream is for, if one was given, and the stream's pool.

    Raises
    ------
    InputError
        If the scenario has no such pool, or several and none was named.
    """
    from diploee.errors import InputError, did_you_mean, one_of
    from diploee.scenario import load_scenario

    if scenario is None:
        return None, pool or default
    base = load_scenario(scenario)
    names = base.pool_names()
    if pool is None and len(names) == 1:
        return base, names[0]
    if pool not in names:
        near = did_you_mean(pool or "", names)
        found = "none" if pool is None else repr(pool)
        raise InputError(f"--pool: must be one of {one_of(names)}, found {found}{near}")
    return base, pool


def column_names(given: list[str] | None, meanings: Collection[str]) -> dict[str, str] | None:
    """Return columns by meaning, as ``--column MEANING=NAME`` gave them.

    Raises
    ------
    InputError
        If one is of another form, or of a meaning that is not known.
    """
    from diploee.errors import InputError, did_you_mean, one_of, shown

    pairs = [text.partition("=") for text in given or ()]
    for meaning, equals, name in pairs:
        if not (meaning and equals and name):
            raise InputError(f"--column: expected MEANING=NAME, found '{meaning}{equals}{name}'")
        if meaning not in meanings:
            raise InputError(
                f"--column: unknown meaning {shown(meaning)}, expected one of {one_of(meanings)}"
                f"{did_you_mean(meaning, meanings)}"
            )
    return {meaning: name for meaning, _, name in pairs} or None


def check_fragment(text: str, base: Scenario | None) -> None:
    """Raise `ScenarioError` if a fragment's streams do not load in the scenario they are for."""
    import yaml

    from diploee.scenario import scenario_from_dict

    if base is not None:
        data: dict[str, Any] = base.model_dump(mode="json")
        # One pool serves one stream: the scenario's own would be in the way.
        scenario_from_dict(data | {"streams": {}, "request_streams": {}} | yaml.safe_load(text))


def write_fragment(text: str, out: Path | None) -> None:
    """Write a fragment to a file, if one was asked for."""
    from diploee.files import whole_file

    if out is not None:
        with whole_file(out) as partial:
            partial.write_text(text, encoding="utf-8")


@contextmanager
def naming_the_other_command(path: Path, command: FitCommand, name: str | None) -> Iterator[None]:
    """Name the command that fits a file which this one can't read.

    Parameters
    ----------
    path : pathlib.Path
        What the block reads.
    command : {"fit", "fit-requests"}
        The command that reads it.
    name : str or None
        Format that the user named.

    Raises
    ------
    InputError
        If the format that was named, or the content, is that of the other command alone.
    """
    from diploee.errors import InputError, LogFormatError
    from diploee.workload.importers import JOB_LOG_FORMATS, TRACE_FORMATS

    of_requests = command == "fit-requests"
    own, others = tuple(JOB_LOG_FORMATS), TRACE_FORMATS
    if of_requests:
        own, others = others, own
    (other,) = (each for each in _KINDS if each != command)
    remedy = f"not a {_KINDS[command]}; fit it with 'diploee {other}'"
    if name in others and name not in own:
        raise InputError(f"{path}: '{name}' is a format of a {_KINDS[other]}, {remedy}")
    try:
        yield
    except LogFormatError as error:
        # The first line tells a trace; a log's format is sought last, for it is read as a whole.
        if name is None and (_trace_format(path) is None) == of_requests:
            log_format = _log_format(path)
            if (log_format is not None) == of_requests:
                found = log_format or _trace_format(path)
                raise InputError(f"{path}: is a {_KINDS[other]} ({found}), {remedy}") from error
        raise


def _trace_format(path: Path) -> str | None:
    """Return the format of a request trace, None if it is of no known one."""
    from diploee.errors import LogFormatError
    from diploee.workload.importers.requests import servegen
    from diploee.workload.importers.requests.reading import sniff

    if path.is_dir() and next(path.rglob(servegen.CHUNKS), None) is None:
        return None
    try:
        return sniff(path)
    except LogFormatError:
        return None


def _log_format(path: Path) -> str | None:
    """Return the format of a job log, None if it is of no known one."""
    from diploee.errors import LogFormatError
    from diploee.workload.importers.jobs import JOB_LOG_FORMATS
    from diploee.workload.importers.jobs.text_file import read_text

    try:
        file = read_text(path)
    except LogFormatError:
        return None
    return next((name for name, known in JOB_LOG_FORMATS.items() if known.recognises(file)), None)
