"""Duties of every reader of foreign text: all are built on one text layer."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from text_readers import READERS, TextReader, plain

from diploee.base.errors import InputError, LogFormatError
from diploee.importers.text import file_bytes

every_reader = pytest.mark.parametrize(
    "reader", READERS, ids=lambda reader: reader.name
)


def zstd(data: bytes) -> bytes:
    return bytes(pa.Codec("zstd").compress(data))


one_of_a_kind = pytest.mark.parametrize(
    "reader",
    {reader.name.partition("-")[0]: reader for reader in READERS}.values(),
    ids=lambda reader: reader.name,
)
"""For what the text layer alone does, whoever reads."""

PACKS = (gzip.compress, bz2.compress, lzma.compress, zstd)


def pack_of(reader: TextReader) -> Any:
    """Return one way to pack: all readers unpack in one layer, so that they take turns."""  # noqa: E501
    return PACKS[READERS.index(reader) % len(PACKS)]


def read(reader: TextReader, folder: Path, data: bytes, name: str = "") -> Any:
    path = folder / (name or reader.file)
    path.write_bytes(data)
    return plain(reader.read(path))


def refused(reader: TextReader, path: Path) -> str:
    with pytest.raises(InputError) as caught:
        reader.read(path)
    text = str(caught.value)
    assert path.name in text
    assert text.isprintable()
    assert len(text) < len(str(path)) + 500
    return text


@every_reader
def test_packing_is_inferred_from_the_content(
    tmp_path: Path, reader: TextReader
) -> None:
    data, pack = reader.text.encode(), pack_of(reader)
    expected = read(reader, tmp_path, data)
    assert read(reader, tmp_path, pack(data)) == expected
    if pack is not zstd:
        assert read(reader, tmp_path, pack(data[:30]) + pack(data[30:])) == expected


@every_reader
def test_line_ends_the_last_too_blank_lines_and_a_byte_order_mark_change_nothing(
    tmp_path: Path, reader: TextReader
) -> None:
    text = reader.text
    expected = read(reader, tmp_path, text.encode())
    for changed in (
        "\ufeff" + text.replace("\n", "\r\n"),
        "\ufeff" + text.replace("\n", "\r"),
        # A power logger may have been cut there.
        text.rstrip("\n") if reader.name.startswith(("jobs", "requests")) else text,
        "\n  \n" + text.replace("\n", "\n\n", 3) + "\n \n",
    ):
        assert read(reader, tmp_path, changed.encode()) == expected


@one_of_a_kind
def test_a_packed_file_that_was_cut_is_refused(
    tmp_path: Path, reader: TextReader
) -> None:
    path = tmp_path / reader.file
    data = pack_of(reader)(reader.text.encode() * 3)
    for n_bytes in (7, len(data) // 2, -1):
        path.write_bytes(data[:n_bytes])
        assert re.search(
            "stream ends before|not a whole|control byte", refused(reader, path)
        )
    path.write_bytes(gzip.compress(reader.text.encode())[:-8] + b"\0" * 8)
    assert "not a whole gzip file (CRC check failed" in refused(reader, path)


@one_of_a_kind
def test_a_file_that_unpacks_to_far_more_than_text_does_is_refused(
    tmp_path: Path, reader: TextReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_bytes, "MIN_BOMB_BYTES", 1 << 20)
    monkeypatch.setattr(file_bytes, "PIECE_BYTES", 1 << 18)
    path = tmp_path / reader.file
    path.write_bytes(gzip.compress(reader.text.encode() + b"\n" * (5 << 18)))
    assert "unpacks to more than 1 MiB, 100 times its size or more" in refused(
        reader, path
    )


class ShortReads(io.BytesIO):
    """Gives 8 KiB at most, as gzip asks for 128 KiB at a time since Python 3.12."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(8192 if size is None or size < 0 else min(size, 8192))


@pytest.mark.slow
@pytest.mark.parametrize("pack", PACKS)
def test_a_file_of_any_size_that_grows_too_much_is_refused_where_that_shows(
    tmp_path: Path, pack: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_bytes, "MIN_BOMB_BYTES", 1 << 20)
    monkeypatch.setattr(file_bytes, "PIECE_BYTES", 1 << 18)
    n_bytes = 1 << 24
    # It hides the growth of the whole
    tail = b"" if pack is zstd else pack(os.urandom(1 << 19))
    packed = pack(b"\n" * n_bytes) + tail
    unpacked = 0
    with pytest.raises(LogFormatError, match="100 times its size or more"):
        for piece in file_bytes.decompress_chunks(tmp_path / "log", ShortReads(packed)):
            unpacked += len(piece)
    assert unpacked < n_bytes / 4


def test_a_log_that_packs_to_a_fiftieth_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_bytes, "MIN_BOMB_BYTES", 1 << 16)
    monkeypatch.setattr(file_bytes, "PIECE_BYTES", 1 << 15)
    log = b"".join(
        b"%d,%s,idle,0,0,0,0,0\n" % (i, b"200.5," * 20) for i in range(20_000)
    )
    packed = gzip.compress(log)
    assert 40 < len(log) / len(packed) < 60
    assert (
        b"".join(file_bytes.decompress_chunks(tmp_path / "log", io.BytesIO(packed)))
        == log
    )


@every_reader
def test_what_is_no_regular_file_is_refused_and_never_waited_for(
    tmp_path: Path, reader: TextReader
) -> None:
    pipe, folder = tmp_path / "pipe", tmp_path / "folder"
    os.mkfifo(pipe)
    folder.mkdir()
    assert "can't be read (it is a named pipe)" in refused(reader, pipe)
    assert re.search("can't be read|no such", refused(reader, tmp_path / "none"))
    assert "can't be read (it is a device)" in refused(reader, Path("/dev/null"))
    problem = (
        r": no \S+ " if reader.takes_folders else r"can't be read \(Is a directory\)"
    )
    assert re.search(problem, refused(reader, folder))


NO_TEXT = {
    b"\x00\x01\x02" * 50: "found a control byte (0x00)",
    b"PK\x03\x04 and so on": "found a zip archive",
    "text\n".encode("utf-16"): "found UTF-16 text",
    b"\0" * 257 + b"ustar and so on": "found a tar archive",
    b"\xe9\xe8\n": "found a byte that is not UTF-8 (0xe9)",
    b"": "the file is empty, expected ",
    b"\n \n\r\n": "the file is empty, expected ",
    b"\xef\xbb\xbf": "the file is empty, expected ",
}


@one_of_a_kind
def test_content_that_is_no_text_is_refused_by_name(
    tmp_path: Path, reader: TextReader
) -> None:
    path = tmp_path / reader.file
    for content, problem in NO_TEXT.items():
        for packed in (content, gzip.compress(content)):
            path.write_bytes(packed)
            assert f"{path}:1: {problem}" in refused(reader, path)


@every_reader
def test_a_byte_of_no_text_between_the_rows_is_refused_with_its_line(
    tmp_path: Path, reader: TextReader
) -> None:
    *before, last = reader.text.encode().splitlines(keepends=True)
    path = tmp_path / reader.file
    for wrong in (b"\x00", b"\x1b[31m", b"\x07", b"\xe9"):
        path.write_bytes(b"".join([*before, wrong, last]))
        what = "a byte that is not UTF-8" if wrong == b"\xe9" else "a control byte"
        assert f"{path}:{len(before) + 1}: found {what}" in refused(reader, path)
