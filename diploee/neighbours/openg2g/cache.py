"""The cache of compiled artifacts: one folder each, whole or not at all, stamped by its manifest.

An artifact is a folder ``<data>/<hash>/<kind>/`` with a few files and, written last, the manifest
`_manifest.json`: schema version, parameters, hash of the source data, hash of every file. The
folder is written beside its place and renamed, so that a reader never sees half of it, and whoever
reads holds the files against the manifest. Of several callers that compile the same artifact at
once, the first to rename wins and the others discard their copies.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from diploee.errors import InputError, shown
from diploee.files import is_staged, remove_leftovers
from diploee.json_files import SHA256, Record, parse_json

MANIFEST = "_manifest.json"
HASH_DIGITS = 16
_READ_ATTEMPTS, _QUIET_READS = 100, 5
_PAUSE_S = 0.005

_FileName = Annotated[str, Field(pattern="^[A-Za-z0-9_][A-Za-z0-9_.-]*$")]


@dataclass(frozen=True)
class Recipe:
    """What an artifact is made from; a change of any part makes it anew."""

    kind: str  # name of the artifact's kind, such as ``"inference_data"``, and of its folder
    schema_version: int  # version of its files
    parameters: Mapping[str, Any]  # what it was asked for, JSON values only
    source_sha256: str | None = None  # hash of the source data; None accepts an artifact from any
    # Makes its content of an artifact's files, or raises `InputError`: then it is damaged, even
    # where its hashes agree
    parse: Callable[[Artifact], Any] = field(default=lambda _: None, compare=False)


@dataclass(frozen=True)
class Artifact:
    """A complete artifact as it was read."""

    place: Path  # its folder
    files: Mapping[str, bytes]  # content of its files, checked against the manifest
    # What its writer noted besides the recipe
    details: Mapping[str, Any] = field(default_factory=dict)
    content: Any = None  # what the recipe's `parse` made of the files

    def file(self, name: str) -> bytes:
        """Return a file's content; `InputError` where there is none of that name."""
        if name not in self.files:
            raise InputError(f"{MANIFEST} lists no {name}")
        return self.files[name]


class _Manifest(Record):
    kind: str
    schema_version: int
    parameters: dict[str, Any]
    source_sha256: str
    files: dict[_FileName, Annotated[str, Field(pattern=SHA256)]]
    details: dict[str, Any]


@dataclass(frozen=True)
class Miss:
    """Why there is no artifact to use."""

    reason: str  # a clause such as ``"is not there"``
    may_pass: bool = False  # a writer at work may be the cause


def content_hash(data: Mapping[str, Any]) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of JSON values, keys sorted."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:HASH_DIGITS]


def find_artifact(place: Path, recipe: Recipe) -> Artifact | str:
    """Read an artifact if it is there, complete and made from what the recipe says."""
    remove_leftovers(place.parent)
    found = read_once(place, recipe)
    quiet = 0
    for _ in range(_READ_ATTEMPTS):
        if isinstance(found, Artifact):
            return found
        # A writer that replaces the folder at this moment lets it look missing or half exchanged:
        # go on while one is at work, and for a few reads more, as it may have ended since the read.
        busy = is_staged(place.parent)
        quiet += not busy
        if not found.may_pass or quiet > _QUIET_READS:
            break
        if busy:
            time.sleep(_PAUSE_S)
        found = read_once(place, recipe)
    return found if isinstance(found, Artifact) else found.reason


def load_artifact(place: Path, recipe: Recipe) -> Artifact:
    """Read an artifact, or say why there is none to use and what to do."""
    found = find_artifact(place, recipe)
    if isinstance(found, str):
        raise InputError(f"{place}: the cached {recipe.kind} {found}; generate it from its source")
    return found


def read_once(place: Path, recipe: Recipe) -> Artifact | Miss:
    """Read an artifact once; arguments and errors as for `find_artifact`."""
    try:
        content = _content(place / MANIFEST)
    except (FileNotFoundError, NotADirectoryError):
        unfinished = "was never finished (it has no manifest)"
        return Miss(unfinished if place.is_dir() else "is not there", may_pass=True)
    except OSError as error:
        return Miss(f"can't be read ({error})")
    try:
        manifest = parse_json(content, MANIFEST, _Manifest)
    except InputError as error:
        return Miss(f"is damaged ({error})")
    version = manifest.schema_version
    if manifest.kind != recipe.kind:
        return Miss(f"is damaged ({MANIFEST} is not that of a {recipe.kind})")
    if version > recipe.schema_version:
        raise InputError(
            f"{place}: the cached {recipe.kind} has schema version {version}, this version "
            f"of diploee reads up to {recipe.schema_version}; update diploee or use another data "
            "folder"
        )
    changed = _what_changed(manifest, recipe)
    return Miss(changed) if changed else _files(place, manifest, recipe)


def _content(path: Path) -> bytes:
    if not path.is_file():  # a pipe would wait for its writer
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    return path.read_bytes()


def _what_changed(manifest: _Manifest, recipe: Recipe) -> str | None:
    version = manifest.schema_version
    if version < recipe.schema_version:
        return f"has schema version {version}, older than {recipe.schema_version}"
    wanted = json.loads(json.dumps(recipe.parameters))
    held = manifest.parameters
    for name in sorted(wanted.keys() | held.keys()):
        if wanted.get(name) != held.get(name):
            was, now = shown(held.get(name)), shown(wanted.get(name))
            return f"was made with {name} = {was}, wanted is {now}"
    if recipe.source_sha256 not in (None, manifest.source_sha256):
        return "was made from other source data"
    return None


def _files(place: Path, manifest: _Manifest, recipe: Recipe) -> Artifact | Miss:
    files: dict[str, bytes] = {}
    for name, sha256 in manifest.files.items():
        try:
            content = _content(place / name)
        except OSError as error:
            return Miss(f"is damaged ({name}: {error.strerror})", may_pass=True)
        if hashlib.sha256(content).hexdigest() != sha256:
            return Miss(f"is damaged ({name} was changed)", may_pass=True)
        files[name] = content
    artifact = Artifact(place, files, manifest.details)
    try:
        return replace(artifact, content=recipe.parse(artifact))
    except InputError as error:
        return Miss(f"is damaged ({error})")
