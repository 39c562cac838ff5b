"""The cache of compiled artifacts: a folder each, named by the hash of what it is made from.

An artifact is a folder ``<data>/<hash>/<kind>/`` with a few files and the manifest `_manifest.json`
with their hashes, which whoever reads compares. The folder appears whole or not at all: of several
callers that compile the same artifact at once the first wins, and the others discard theirs.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

from pydantic import Field

from diploee import __version__
from diploee.errors import InputError
from diploee.files import FolderKind, check_is_file, is_staged, reason, remove_leftovers, writing
from diploee.plain_data import SHA256, Record, read_json

MANIFEST = "_manifest.json"
HASH_DIGITS = 16
_READ_ATTEMPTS, _PAUSE_S = 100, 0.005

T = TypeVar("T")


def content_hash(data: Mapping[str, Any]) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of JSON values, keys sorted."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:HASH_DIGITS]


@dataclass(frozen=True)
class Artifact:
    """A complete artifact as it was read."""

    place: Path  # its folder
    files: Mapping[str, bytes]  # content of its files, checked against the manifest
    details: Mapping[str, Any]  # what its writer noted

    def file(self, name: str) -> tuple[Path, bytes]:
        """Return a file's path and content; `InputError` where there is none of that name."""
        if name not in self.files:
            raise InputError(f"{MANIFEST} lists no {name}")
        return self.place / name, self.files[name]


class _Manifest(Record):
    files: dict[
        Annotated[str, Field(pattern="^[A-Za-z0-9_][A-Za-z0-9_.-]*$")],
        Annotated[str, Field(pattern=SHA256)],
    ]
    details: dict[str, Any]


@dataclass(frozen=True)
class Cached(Generic[T]):
    """One artifact of a cache: what it is made from, and how it is read."""

    data_dir: Path
    kind: str  # name of its kind, such as ``"inference_data"``, and of its folder
    made_from: Mapping[str, Any]  # JSON values: parameters and the version of its files
    # Makes the content of the files, or raises `InputError`: then it is damaged
    parse: Callable[[Artifact], T]
    source_sha256: str | None = None  # hash of the source data; None accepts it from any

    @property
    def place(self) -> Path:
        """Its folder."""
        return self.data_dir / content_hash(self.made_from) / self.kind

    def find(self) -> T | str:
        """Return the content, or as a clause why there is none to use."""
        remove_leftovers(self.place.parent)
        for _ in range(_READ_ATTEMPTS):
            is_written = is_staged(self.place.parent)
            found = self._read()
            if not (isinstance(found, str) and is_written):
                break
            time.sleep(_PAUSE_S)
        return found

    def load(self) -> T:
        """Return the content, or raise `InputError`."""
        found = self.find()
        if isinstance(found, str):
            raise InputError(
                f"{self.place}: the cached {self.kind} {found}; generate it from its source"
            )
        return found

    def save(self, files: Mapping[str, bytes], details: Mapping[str, Any]) -> None:
        """Write the artifact, unless another was quicker; a damaged one is replaced."""
        manifest = {
            "made_from": self.made_from,
            "files": {name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
            "details": details,
            "diploee_version": __version__,
        }
        kind = FolderKind("an artifact", MANIFEST, (), lambda _: (MANIFEST, *map(escape, files)))
        with writing(force=True) as new:
            item = new.folder(self.place, kind, option="--data-dir")
            item.unless = lambda: not isinstance(self._read(), str)
            for name, content in files.items():
                (item.path / name).write_bytes(content)
            text = json.dumps(manifest, indent=2, sort_keys=True, allow_nan=False)
            (item.path / MANIFEST).write_text(f"{text}\n", encoding="utf-8")

    def _read(self) -> T | str:
        if not self.place.exists():
            return "is not there for these parameters"
        try:
            manifest = read_json(self.place / MANIFEST, _Manifest)
            if self.source_sha256 not in (None, manifest.details.get("source_sha256")):
                return "was made from other source data"
            files = {name: self._file(name, sha256) for name, sha256 in manifest.files.items()}
            return self.parse(Artifact(self.place, files, manifest.details))
        except InputError as error:
            return f"is damaged ({error})"

    def _file(self, name: str, sha256: str) -> bytes:
        check_is_file(self.place / name)
        try:
            content = (self.place / name).read_bytes()
        except OSError as error:
            raise InputError(f"{name}: {reason(error)}") from error
        if hashlib.sha256(content).hexdigest() != sha256:
            raise InputError(f"{name} was changed")
        return content
