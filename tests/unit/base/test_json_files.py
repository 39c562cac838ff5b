"""Whatever a JSON file holds, it is what was asked for or one line that names the file."""  # noqa: E501

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from diploee.base.errors import InputError
from diploee.base.validation import MAX_BYTES, Record, parse_json, read_json


class Part(Record):
    size: Annotated[float, Field(gt=0)]
    count: Annotated[int, Field(ge=1, le=10)] = 1


@dataclass
class Span:
    width: float


class Whole(Record):
    name: str
    span: Span | None = None
    parts: tuple[Part, ...] = Field(default=(), strict=False)


GOOD = {"name": "x", "parts": [{"size": 1, "count": 2, "more": None}], "other": [1]}
BAD: list[tuple[str, str]] = [
    ("", ": not valid JSON (EOF while parsing a value"),
    ("[" * 200_000, ": not valid JSON (recursion limit exceeded"),
    ('{"name": NaN}', ": not valid JSON"),
    ('{"name": "x", "other": [-Infinity]}', ": not valid JSON"),
    ('{"name": "x", "other": 1' + "0" * 5000 + "}", "(number out of range"),
    ('{"name": "\\ud800"}', ": not valid JSON"),
    ("null", ": must be a group of keys, found null"),
    ("{}", ": name: this key is missing"),
    ('{"name": "x", "span": 5}', ": span: must be a group of keys, found 5"),
    ('{"name": "x", "parts": {}}', ": parts: must be a list, found an empty group"),
    ('{"name": "x", "parts": [{"size": "5"}]}', ": parts.0.size: must be a number"),
    ('{"name": "x", "parts": [{"size": 1e999}]}', ": parts.0.size: must be a number"),
    (
        '{"name": "x", "parts": [{}, {}, {}, {}]}',
        "0.size: this key is missing; 3 more such problems",
    ),
]


def problem_of(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        read_json(path, Whole)
    text = str(caught.value)
    assert text.startswith(str(path))
    assert text.isprintable()
    assert len(text) < 500
    return text.removeprefix(str(path))


@pytest.mark.parametrize(("text", "words"), BAD, ids=[str(k) for k in range(len(BAD))])
def test_bad_content_is_one_line_that_names_the_file(
    tmp_path: Path, text: str, words: str
) -> None:
    path = tmp_path / "x.json"
    path.write_text(text, "utf-8")
    assert words in problem_of(path)


def test_good_content_is_read_with_its_further_keys(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    for encoding in ("utf-8", "utf-8-sig"):
        path.write_text(json.dumps(GOOD), encoding)
        found = read_json(path, Whole)
        assert (found.name, found.parts[0].size, found.parts[0].count) == ("x", 1.0, 2)
        assert read_json(path, dict) == GOOD


def test_what_is_no_text_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    assert problem_of(path) == ": no such file"
    path.write_bytes(b'{"name": "\xff"}')
    assert problem_of(path) == (
        ":1: not valid JSON (invalid unicode code point); is the file complete?"
    )
    path.write_text("{}", "utf-16")
    assert problem_of(path).startswith(":1: not valid JSON")
    with path.open("wb") as file:
        file.truncate(MAX_BYTES + 1)  # takes no space on the disk
    assert problem_of(path).startswith(
        ": is of 1,073,741,825 bytes, JSON is read up to"
    )


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes on this system")
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    os.mkfifo(path)
    assert problem_of(path) == ": is no file"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.slow
@given(VALUES | st.fixed_dictionaries({"name": st.text(), "parts": VALUES}))
def test_any_value_is_a_record_or_an_error_of_one_line(value: Any) -> None:
    try:
        found = parse_json(json.dumps(value), "x.json", Whole)
    except InputError as error:
        assert str(error).startswith("x.json")
        assert str(error).isprintable()
        assert len(str(error)) < 500
    else:
        assert found.name == value["name"]


@given(st.binary())
def test_any_bytes_are_a_value_or_an_error_of_one_line(content: bytes) -> None:
    try:
        parse_json(content, "x.json", dict)
    except InputError as error:
        assert str(error).startswith("x.json")
        assert str(error).isprintable()
