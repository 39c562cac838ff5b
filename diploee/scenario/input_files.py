"""The foreign files that a scenario names: logs, traces, weather; and their content hashes."""

from __future__ import annotations

import hashlib
from pathlib import Path

from diploee.errors import LogFormatError, one_line
from diploee.files import reason
from diploee.scenario.models import Scenario


def input_files(scenario: Scenario) -> tuple[str, ...]:
    """Return the files and folders that a scenario replays or reads, as it names them, sorted."""
    facility = scenario.facility
    names: set[str | None] = {name for stage in facility.stages for name in stage.files}
    if facility.weather is not None:
        names.update(facility.weather.files)
    for jobs in scenario.streams.values():
        if jobs.replay is not None:
            names.add(jobs.replay.log)
        if jobs.zeus is not None:
            names |= {jobs.zeus.train, jobs.zeus.power, jobs.zeus.groups}
    for name, requests in scenario.request_streams.items():
        names.update(replay.trace for replay in requests.replays(name).values())
    for replicas in scenario.replica_streams.values():
        names.update(model.data for model in replicas.models.values())
    if scenario.flexibility is not None:
        names.update(signal.file for signal in scenario.flexibility.signals.given().values())
    return tuple(sorted(name for name in names if name is not None))


def content_hash(path: Path) -> str | None:
    """Return the SHA-256 of a file, or of the names and contents of a folder's files.

    None where there is none: whoever reads it says so.
    """
    if path.is_file():
        return _sha256(path)
    files = sorted(part for part in path.rglob("*") if part.is_file()) if path.is_dir() else []
    if not files:
        return None
    # names tell services and kinds
    lines = "\n".join(f"{f.relative_to(path).as_posix()} {_sha256(f)}" for f in files)
    return hashlib.sha256(lines.encode()).hexdigest()


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise LogFormatError(f"{one_line(str(path))}: can't be read ({reason(error)})") from error
