"""Access to the bytes of foreign files, decompressed if they are compressed.

Only regular files are read, up to a maximum size. Compression is detected from the
content.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import stat
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, cast

import pyarrow as pa

from diploee.base.errors import LogFormatError, one_line
from diploee.base.files import reason

PIECE_BYTES = 1 << 23
"""Chunk size of decompression [bytes]."""

MAX_UNPACKED_BYTES = 1 << 32
"""Maximum size of a decompressed file in memory [bytes]."""

MIN_BOMB_BYTES = 1 << 26
MAX_RATIO = 100
"""Maximum compression ratio of a file that decompresses to over `MIN_BOMB_BYTES`.

Logs compress to a tenth, at best to a fiftieth; a file with a higher ratio is refused
while it is decompressed."""

_PACKINGS: Mapping[bytes, tuple[str, Callable[[Any], Any]]] = {
    b"\x1f\x8b": ("gzip", lambda file: gzip.GzipFile(fileobj=file)),
    b"\xfd7zXZ\x00": ("xz", lzma.LZMAFile),
    b"\x28\xb5\x2f\xfd": ("zstd", lambda file: pa.CompressedInputStream(file, "zstd")),
    b"BZh": ("bzip2", bz2.BZ2File),
}
_KINDS = {
    stat.S_IFDIR: "Is a directory",
    stat.S_IFIFO: "it is a named pipe",
    stat.S_IFSOCK: "it is a socket",
    stat.S_IFCHR: "it is a device",
    stat.S_IFBLK: "it is a device",
}


def open_file(path: Path) -> BinaryIO:
    """Open a regular file for reading, or raise `LogFormatError` for anything else."""
    with convert_os_errors(path, "give a readable file"):
        kind = stat.S_IFMT(path.stat().st_mode)
        if kind == stat.S_IFREG:
            return path.open("rb")
        raise ValueError(_KINDS.get(kind, "it is no regular file"))


def read_bytes(path: Path) -> bytes:
    """Return the bytes of a regular file as stored, that is, not decompressed."""
    with open_file(path) as file, convert_os_errors(path, "give a readable file"):
        return file.read()


def existing_file(path: Path, key: str) -> Path:
    """Return the path if it exists, else raise `LogFormatError` that names the key."""
    with convert_os_errors(path, f"{key} is relative to the scenario file"):
        path.stat()
    return path


@contextmanager
def convert_os_errors(path: Path, remedy: str) -> Iterator[None]:
    """Convert operating system errors to `LogFormatError` with path and remedy."""
    try:
        yield
    except (OSError, ValueError) as error:  # a name with a null byte is a ValueError
        why = reason(error) if isinstance(error, OSError) else str(error)
        raise LogFormatError(
            f"{one_line(str(path))}: can't be read ({why}); {remedy}"
        ) from error


def decompress(path: Path, data: bytes) -> bytes:
    """Return file content, decompressed if it is compressed; errors name the path."""
    if not data.startswith(tuple(_PACKINGS)):
        return data
    parts, size = [], 0
    for part in decompress_chunks(path, io.BytesIO(data)):
        parts.append(part)
        size += len(part)
        if size > MAX_UNPACKED_BYTES:
            fail_size(path, MAX_UNPACKED_BYTES)
    return b"".join(parts)


def decompress_chunks(path: Path, file: BinaryIO) -> Iterator[bytes]:
    """Yield chunks of an open file, decompressed if it is compressed.

    Errors name the path.
    """
    magic = file.read(8)
    file.seek(0)
    name, unpack = next(
        (packing for head, packing in _PACKINGS.items() if magic.startswith(head)),
        ("plain", None),
    )
    try:
        stream = cast("BinaryIO", unpack(file) if unpack else file)
        done = 0
        while piece := stream.read(PIECE_BYTES):
            done += len(piece)
            limit = max(MIN_BOMB_BYTES, MAX_RATIO * file.tell())
            if unpack and done > limit:
                fail_size(path, limit, f", {MAX_RATIO} times its size or more")
            yield piece
    except (EOFError, OSError, ValueError, zlib.error, lzma.LZMAError) as error:
        why = one_line((str(error).splitlines() or [type(error).__name__])[0])
        raise LogFormatError(
            f"{path}: not a whole {name} file ({why}); copy it again"
        ) from error


def fail_size(path: Path, limit: float, which: str = "") -> NoReturn:
    """Raise `LogFormatError` for a file with more than `limit` decompressed bytes."""
    raise LogFormatError(
        f"{path}: unpacks to more than {limit / 2**20:,.0f} MiB{which}, which is no "
        "log that can be read; unpack it and look at it, or split it"
    )
