"""The cache of compiled artifacts: one folder each, whole or not at all, stamped by its manifest.

An artifact is a folder ``<data>/<hash>/<kind>/`` with a few files and, written last, the manifest
`_manifest.json`: schema version, parameters, hash of the source data, hash of every file. The
folder is written beside its place and renamed, so that a reader never sees half of it, and whoever
reads holds the files against the manifest. Of several callers that compile the same artifact at
once, the first to rename wins and the others discard their copies.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from diploee.errors import InputError, shown

MANIFEST = "_manifest.json"
HASH_DIGITS = 16
_READ_ATTEMPTS, _QUIET_READS = 100, 5
_PAUSE_S = 0.005


@dataclass(frozen=True)
class Stamp:
    """What an artifact is made from; a change of any part makes it anew.

    Parameters
    ----------
    kind : str
        Name of the artifact's kind, such as ``"inference_data"``, and of its folder.
    schema_version : int
        Version of its files.
    parameters : mapping
        What it was asked for, JSON values only.
    source_sha256 : str or None
        Hash of the source data; None accepts an artifact from any.
    """

    kind: str
    schema_version: int
    parameters: Mapping[str, Any]
    source_sha256: str | None = None


@dataclass(frozen=True)
class Artifact:
    """A complete artifact as it was read.

    Parameters
    ----------
    place : pathlib.Path
        Its folder.
    files : mapping of str to bytes
        Content of its files, checked against the manifest.
    details : mapping
        What its writer noted besides the stamp.
    """

    place: Path
    files: Mapping[str, bytes]
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Miss:
    """Why there is no artifact to use.

    Parameters
    ----------
    reason : str
        A clause such as ``"is not there"``.
    may_pass : bool
        A writer at work may be the cause.
    """

    reason: str
    may_pass: bool = False


def content_hash(data: Mapping[str, Any]) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of JSON values, keys sorted."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:HASH_DIGITS]


def find_artifact(place: Path, stamp: Stamp) -> Artifact | str:
    """Read an artifact if it is there, complete and made from what the stamp says.

    Parameters
    ----------
    place : pathlib.Path
        Its folder.
    stamp : Stamp
        What it shall be made from.

    Returns
    -------
    Artifact or str
        The artifact, or why there is none to use, as a clause.

    Raises
    ------
    InputError
        If it is of a newer schema version than the stamp's.
    """
    found = read_once(place, stamp)
    quiet = 0
    for _ in range(_READ_ATTEMPTS):
        if isinstance(found, Artifact):
            return found
        # A writer that replaces the folder at this moment lets it look missing or half exchanged:
        # go on while one that it set aside stands there, and for a few reads without one, as the
        # exchange may have ended since the read.
        busy = any(beside(place, "old"))
        quiet += not busy
        if not found.may_pass or quiet > _QUIET_READS:
            break
        if busy:
            time.sleep(_PAUSE_S)
        found = read_once(place, stamp)
    return found if isinstance(found, Artifact) else found.reason


def load_artifact(place: Path, stamp: Stamp) -> Artifact:
    """Read an artifact, or say why there is none to use and what to do.

    Raises
    ------
    InputError
        If there is none to use.
    """
    found = find_artifact(place, stamp)
    if isinstance(found, str):
        raise InputError(f"{place}: the cached {stamp.kind} {found}; generate it from its source")
    return found


def read_once(place: Path, stamp: Stamp) -> Artifact | Miss:
    """Read an artifact once; arguments and errors as for `find_artifact`."""
    try:
        text = (place / MANIFEST).read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        unfinished = "was never finished (it has no manifest)"
        return Miss(unfinished if place.is_dir() else "is not there", may_pass=True)
    except (OSError, UnicodeDecodeError) as error:
        return Miss(f"can't be read ({error})")
    try:
        manifest = json.loads(text)
    except (ValueError, RecursionError):
        return Miss(f"is damaged ({MANIFEST} is not valid JSON)")
    version = manifest.get("schema_version") if isinstance(manifest, dict) else None
    if not isinstance(version, int) or manifest.get("kind") != stamp.kind:
        return Miss(f"is damaged ({MANIFEST} is not that of a {stamp.kind})")
    if version > stamp.schema_version:
        raise InputError(
            f"{place}: the cached {stamp.kind} has schema version {version}, this version of "
            f"diploee reads up to {stamp.schema_version}; update diploee or use another data folder"
        )
    changed = _what_changed(manifest, stamp)
    return Miss(changed) if changed else _files(place, manifest)


def _what_changed(manifest: Mapping[str, Any], stamp: Stamp) -> str | None:
    version = manifest["schema_version"]
    if version < stamp.schema_version:
        return f"has schema version {version}, older than {stamp.schema_version}"
    wanted = json.loads(json.dumps(stamp.parameters))
    held = manifest.get("parameters")
    held = held if isinstance(held, dict) else {}
    for name in sorted(wanted.keys() | held.keys()):
        if wanted.get(name) != held.get(name):
            was, now = shown(held.get(name)), shown(wanted.get(name))
            return f"was made with {name} = {was}, wanted is {now}"
    if stamp.source_sha256 not in (None, manifest.get("source_sha256")):
        return "was made from other source data"
    return None


def _files(place: Path, manifest: Mapping[str, Any]) -> Artifact | Miss:
    hashes, details = manifest.get("files"), manifest.get("details")
    if not isinstance(hashes, dict) or not isinstance(details, dict):
        return Miss(f"is damaged ({MANIFEST} lists no files)")
    files: dict[str, bytes] = {}
    for name, sha256 in hashes.items():
        try:
            content = (place / name).read_bytes()
        except OSError as error:
            return Miss(f"is damaged ({name}: {error.strerror})", may_pass=True)
        if hashlib.sha256(content).hexdigest() != sha256:
            return Miss(f"is damaged ({name} was changed)", may_pass=True)
        files[name] = content
    return Artifact(place, files, details)


def beside(place: Path, *kinds: str) -> list[Path]:
    """Return the hidden folders beside an artifact, of writers at work or that were killed.

    Parameters
    ----------
    place : pathlib.Path
        The artifact's folder.
    *kinds : str
        ``"partial"``, what is being written; ``"old"``, what is being replaced.
    """
    return [path for kind in kinds for path in place.parent.glob(f".{place.name}.{kind}-*")]
