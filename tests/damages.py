"""Damages to JSON and Parquet files, as tables and at random, and what a command may
answer.

Tests import it as ``from damages import json_damages, parquet_damages, answer``.
"""

from __future__ import annotations

import json
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import MAX_S, Ended, call

Damage = tuple[str, Callable[[bytes], bytes]]
"""A name, and what becomes of a file's content."""

TABLE_DAMAGES = (
    *(
        "dropped",
        "twice",
        "text",
        "list",
        "integer",
        "null",
        "nulls_all",
        "nan",
        "infinite",
    ),
    *("negative", "huge", "reversed", "swapped", "row_twice", "row_gone", "no_rows"),
)

NOT_JSON = {
    "NaN": "NaN",
    "infinite": "-Infinity",
    "overflow": "1e999",
    "digits_400": "1" + "0" * 400,
    "digits_5000": "1" + "0" * 5000,
    "deep_list": "[" * 3000 + "]" * 3000,
    "deep_group": '{"a":' * 3000 + "1" + "}" * 3000,
    "surrogate": '"\\ud800"',
}
VALUES: dict[str, Any] = {
    "null": None,
    "true": True,
    "zero": 0,
    "negative": -1,
    "fraction": 1.5,
    "large": 10**30,
    "tiny": 5e-324,
    "huge": 1e308,
    "text": "wrong",
    "no_text": "",
    "control": "a\nb\x1b[31m\x00",
    "long": "x" * 10_000,
    "list": [],
    "list_of_null": [None],
    "group": {},
    "group_of_group": {"a": {"b": 1}},
}
_MARK = "@damaged@"


def answer(
    *arguments: object,
    names: tuple[str, ...] = ("",),
    allowed: tuple[int, ...] = (0, 2),
) -> Ended:
    """Run a command: it succeeds or says quickly, in a line each, what is wrong with
    which file."""
    started = time.process_time()
    ended = call(*arguments)
    message = f"{' '.join(map(str, arguments))}\n{ended.code}\n{ended.err}"
    assert time.process_time() - started < MAX_S, message
    assert ended.code in allowed, message
    assert "internal error" not in ended.err, message
    assert "errors.pydantic.dev" not in ended.err, message
    for line in ended.problems:
        assert line.isprintable(), message
        assert len(line) < 500, message
    if ended.code == 2:
        assert ended.problems, message
        for problem in ended.problems:
            assert any(name in problem for name in names), message
    elif ended.code == 0:
        assert not ended.err, message
        figures = ended.out.lstrip().partition("\n")[2]  # below the name
        assert not re.search(r"\b(nan|inf|infinity)\b", figures, re.IGNORECASE), (
            ended.out
        )
    return ended


def json_damages(content: bytes) -> Iterator[Damage]:
    """Yield damages of every key of a JSON file, and of the file."""
    yield from _whole_file()
    data = json.loads(content)
    for place in _places(data):
        name = ".".join(map(str, place))
        for kind, raw in {
            **NOT_JSON,
            **{k: json.dumps(v) for k, v in VALUES.items()},
        }.items():
            yield f"{name}={kind}", _replaced(data, place, raw)
        yield f"{name} removed", _without(data, place)
        if isinstance(place[-1], str):
            yield f"{name} twice", _key_twice(data, place)


def parquet_damages(content: bytes, metadata_key: bytes = b"") -> Iterator[Damage]:
    """Yield damages of every column, of the metadata and of the file."""
    yield from _whole_file()
    table = pq.read_table(pa.BufferReader(content))
    for column in table.column_names:
        for kind in TABLE_DAMAGES:
            yield f"{column} {kind}", _table_damage(column, kind)
    yield "no metadata", lambda c: _written(_table(c).replace_schema_metadata(None))
    for kind in ("naive", "nanoseconds", "seconds", "date", "zone"):
        yield f"timestamp {kind}", _time_damage(kind)
    if metadata_key:
        for name, damage in json_damages((table.schema.metadata or {})[metadata_key]):
            yield f"metadata {name}", _metadata_damage(metadata_key, damage)


def csv_damages(content: bytes) -> Iterator[Damage]:
    """Yield damages of every field of a table's header and first rows, and of the file."""  # noqa: E501
    yield from _whole_file()
    rows = [line.split(",") for line in content.decode().splitlines()]
    values = {**NOT_JSON, **{kind: str(value) for kind, value in VALUES.items()}}
    for row, column in np.ndindex(min(len(rows), 3), len(rows[0])):
        for kind, value in values.items():
            changed = [list(fields) for fields in rows]
            changed[row][column] = value
            text = "".join(",".join(fields) + "\n" for fields in changed)
            yield f"{row}.{column}={kind}", lambda _, text=text: text.encode()


def random_damage(content: bytes, rng: np.random.Generator) -> Damage:
    """Return a damage of the bytes: cut, overwritten, taken out or repeated."""
    at = sorted(int(k) for k in rng.integers(0, len(content) + 1, 2))
    junk = rng.bytes(int(rng.integers(1, 9)))
    kind = int(rng.integers(4))
    changed = (
        content[: at[0]],
        content[: at[0]] + junk + content[at[0] + len(junk) :],
        content[: at[0]] + content[at[1] :],
        content[: at[1]] + content[at[0] :],
    )[kind]
    return f"bytes {kind} at {at} {junk.hex()}", lambda _: changed


def put_pipe(path: Path) -> None:
    """Put a named pipe in a file's place."""
    path.unlink()
    os.mkfifo(path)


def _whole_file() -> Iterator[Damage]:
    yield "empty", lambda _: b""
    yield "one byte", lambda c: c[:1]
    yield "half", lambda c: c[: len(c) // 2]
    yield "cut", lambda c: c[:-9]
    yield "zeros", lambda c: bytes(len(c))
    yield "other", lambda _: b"\xff\xfe not this"
    yield "deep", lambda _: b"[" * 100_000
    for name, value in VALUES.items():
        yield f"whole={name}", lambda _, v=value: json.dumps(v).encode()


def _places(
    data: Any, place: tuple[str | int, ...] = ()
) -> Iterator[tuple[str | int, ...]]:
    items = list(data.items()) if isinstance(data, dict) else list(enumerate(data))
    for key, value in items if isinstance(data, dict) else items[:1]:
        yield (*place, key)
        if isinstance(value, dict | list):
            yield from _places(value, (*place, key))


def _copy_with(
    data: Any, place: tuple[str | int, ...], change: Callable[[Any, Any], None]
) -> str:
    copy = json.loads(json.dumps(data))
    here = copy
    for key in place[:-1]:
        here = here[key]
    change(here, place[-1])
    return json.dumps(copy)


def _replaced(
    data: Any, place: tuple[str | int, ...], raw: str
) -> Callable[[bytes], bytes]:
    def damage(_: bytes) -> bytes:
        text = _copy_with(data, place, lambda here, key: here.__setitem__(key, _MARK))
        return text.replace(json.dumps(_MARK), raw).encode()

    return damage


def _without(data: Any, place: tuple[str | int, ...]) -> Callable[[bytes], bytes]:
    return lambda _: _copy_with(
        data, place, lambda here, key: here.__delitem__(key)
    ).encode()


def _key_twice(data: Any, place: tuple[str | int, ...]) -> Callable[[bytes], bytes]:
    def damage(_: bytes) -> bytes:
        text = _copy_with(data, place, lambda here, key: here.__setitem__(_MARK, None))
        return text.replace(json.dumps(_MARK), json.dumps(place[-1])).encode()

    return damage


def _table(content: bytes) -> pa.Table:
    return pq.read_table(pa.BufferReader(content))


def _written(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return bytes(sink.getvalue())


def _metadata_damage(
    key: bytes, damage: Callable[[bytes], bytes]
) -> Callable[[bytes], bytes]:
    def change(content: bytes) -> bytes:
        table = _table(content)
        metadata = dict(table.schema.metadata or {})
        metadata[key] = damage(metadata[key])
        return _written(table.replace_schema_metadata(metadata))

    return change


def _time_damage(kind: str) -> Callable[[bytes], bytes]:
    types = {
        "naive": pa.timestamp("ms"),
        "nanoseconds": pa.timestamp("ns", "UTC"),
        "seconds": pa.timestamp("s", "UTC"),
        "date": pa.date64(),
        "zone": pa.timestamp("ms", "No/Where"),
    }

    def damage(content: bytes) -> bytes:
        table = _table(content)
        for at, name in enumerate(table.column_names):
            if pa.types.is_timestamp(table.schema.field(name).type):
                values = table[name].cast(pa.int64()).fill_null(0)
                factor = {"nanoseconds": 1_000_000, "seconds": 0.001}.get(kind, 1)
                values = pa.array(
                    (values.to_numpy(zero_copy_only=False) * factor).astype(np.int64)
                )
                table = table.set_column(at, name, values.cast(types[kind]))
        return _written(table)

    return damage


def _table_damage(column: str, kind: str) -> Callable[[bytes], bytes]:
    def damage(content: bytes) -> bytes:
        table = _table(content)
        at, n = table.column_names.index(column), table.num_rows
        values, type_ = table[column].combine_chunks(), table.schema.field(column).type
        middle, rows = n // 2, np.arange(n)
        if kind == "dropped":
            return _written(table.drop_columns([column]))
        if kind == "twice":
            return _written(table.append_column(table.schema.field(column), values))
        taken = {
            "reversed": rows[::-1],
            "swapped": np.concatenate([rows[middle:], rows[:middle]]),
            "row_twice": np.insert(rows, middle, middle),
            "row_gone": np.delete(rows, middle),
            "no_rows": rows[:0],
        }
        if kind in taken:
            return _written(table.take(pa.array(taken[kind])))
        plain = values.cast(pa.float64(), safe=False) if _is_number(type_) else None
        known: dict[str, pa.Array] = {
            "text": pa.array(["x"] * n),
            "list": pa.array([[1]] * n),
            "integer": pa.array([7] * n),
            "nulls_all": pa.nulls(n, type_),
            "null": pa.array(
                [None if k == middle else v for k, v in enumerate(values)], type_
            ),
        }
        worst = {"nan": np.nan, "infinite": np.inf, "negative": -1e6, "huge": 1e308}
        if kind in worst:
            numbers = (
                np.zeros(n)
                if plain is None
                else plain.to_numpy(zero_copy_only=False).copy()
            )
            numbers[middle : middle + 1] = worst[kind]
            known[kind] = pa.array(numbers)
        return _written(table.set_column(at, column, known[kind]))

    return damage


def _is_number(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_))


def a_device(folder: Path) -> Path:
    """Return a device that a defect may destroy: one of our own where the user is root."""  # noqa: E501
    if os.geteuid() != 0:
        return Path(os.devnull)  # nobody else can replace it
    device = folder / "device"
    try:
        os.mknod(device, stat.S_IFCHR | 0o666, Path(os.devnull).stat().st_rdev)
    except OSError:
        pytest.skip("no device can be made here")
    return device
