"""The foreign files that a scenario names: logs, traces; and their content hashes."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

from diploee.files import Stamp, input_stamp
from diploee.scenario.models import Scenario


def input_files(scenario: Scenario) -> tuple[str, ...]:
    """Return the files and folders that a scenario replays or reads, as it names them, sorted."""
    names: set[str | None] = set()
    for jobs in scenario.streams.values():
        if jobs.replay is not None:
            names.add(jobs.replay.log)
        if jobs.zeus is not None:
            names |= {jobs.zeus.train, jobs.zeus.power, jobs.zeus.groups}
    for requests in scenario.request_streams.values():
        if requests.replay is not None:
            names.add(requests.replay.trace)
    return tuple(sorted(name for name in names if name is not None))


def input_hashes(scenario: Scenario) -> dict[str, str]:
    """Return the SHA-256 of each input file by name.

    That of a folder is over the names and contents of its files. A missing file is left out:
    whoever reads it says so.
    """
    found = {}
    for name in input_files(scenario):
        path = scenario.folder / name
        parts = sorted(path.rglob("*")) if path.is_dir() else [path]
        files = [part for part in parts if part.is_file()]
        digests = [_sha256(file, input_stamp(file, name)) for file in files]
        if path.is_file():
            found[name] = digests[0]
        elif files:  # names tell services and kinds
            names = [file.relative_to(path).as_posix() for file in files]
            lines = "\n".join(f"{n} {d}" for n, d in zip(names, digests, strict=True))
            found[name] = hashlib.sha256(lines.encode()).hexdigest()
    return found


@lru_cache(maxsize=256)
def _sha256(path: Path, stamp: Stamp) -> str:  # noqa: ARG001  # a changed file is read again
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
