"""One key of a scenario's text is changed, and nothing else of it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from diploee.base.errors import ScenarioError
from diploee.base.files.paths import shipped
from diploee.scenario.loading import get_value
from diploee.studio.edits import TAKEN_OUT, edited, flow, listed, read

TEXT = """\
# A site
name: here   # its name
facility:
  pools:     # two of them
    a: {n_nodes: 4, node_type: h}   # the first
    b:
      n_nodes: 5
      node_type: h
  # behind the pools
  stages:
    - pdu    # the first
    - {kind: ups, mode: eco}
    - kind: battery
      power_mw: 1

streams: {}
"""


def changed(before: str, after: str) -> list[tuple[str, str]]:
    """Return the lines that differ, where the number of lines stays."""
    pairs = zip(before.splitlines(), after.splitlines(), strict=True)
    return [(old, new) for old, new in pairs if old != new]


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        ("name", "there", "name: there   # its name"),
        (
            "facility.pools.a.n_nodes",
            9,
            "    a: {n_nodes: 9, node_type: h}   # the first",
        ),
        ("facility.pools.b.n_nodes", 9, "      n_nodes: 9"),
        (
            "facility.pools.a.scheduler",
            "sjf",
            "    a: {n_nodes: 4, node_type: h, scheduler: sjf}   # the first",
        ),
        ("facility.stages.1.mode", "none", "    - {kind: ups, mode: none}"),
        ("facility.stages.2.power_mw", 2.5, "      power_mw: 2.5"),
        ("streams.x", {"pool": "a"}, "streams: {x: {pool: a}}"),
    ],
)
def test_edit_changes_one_line_and_keeps_its_comment(
    key: str, value: Any, line: str
) -> None:
    after = edited(TEXT, key, value)
    assert [new for _, new in changed(TEXT, after)] == [line]
    assert get_value(yaml.safe_load(after), key) == value


@pytest.mark.parametrize(
    "key", ["seed", "facility.pools.b.scheduler", "facility.stages.2.energy_mwh"]
)
def test_new_key_of_a_block_is_a_line_of_its_own_behind_the_others(key: str) -> None:
    after = edited(TEXT, key, 7)
    new = set(after.splitlines()) - set(TEXT.splitlines())
    assert [line.strip() for line in new] == [f"{key.rpartition('.')[2]}: 7"]
    assert [line for line in after.splitlines() if line not in new] == TEXT.splitlines()


def test_key_that_is_taken_out_takes_its_line_alone() -> None:
    after = edited(TEXT, "facility.pools.b.n_nodes", TAKEN_OUT)
    assert after == TEXT.replace("      n_nodes: 5\n", "")
    assert edited(TEXT, "facility.none", TAKEN_OUT) == TEXT


@pytest.mark.parametrize(
    ("items", "lines"),
    [
        (
            [
                "pdu",
                "dlc_tower",
                {"kind": "ups", "mode": "eco"},
                {"kind": "battery", "power_mw": 1},
            ],
            ["+    - dlc_tower"],
        ),
        (
            ["pdu", {"kind": "battery", "power_mw": 1}],
            ["-    - {kind: ups, mode: eco}"],
        ),
        (
            ["pdu", "ups", {"kind": "battery", "power_mw": 1}],
            ["+    - ups", "-    - {kind: ups, mode: eco}"],
        ),
    ],
)
def test_item_joins_leaves_or_changes_and_the_others_stay(
    items: list[Any], lines: list[str]
) -> None:
    before, after = (
        TEXT.splitlines(),
        listed(TEXT, "facility.stages", items).splitlines(),
    )
    found = [f"+{line}" for line in after if line not in before]
    found += [f"-{line}" for line in before if line not in after]
    assert found == lines


def test_edit_within_an_anchor_changes_that_key_alone_and_writes_the_rest_out() -> None:
    text = "a: &one {x: 1, y: 2}\nb: *one\n"
    assert yaml.safe_load(edited(text, "b.x", 5)) == {
        "a": {"x": 1, "y": 2},
        "b": {"x": 5, "y": 2},
    }
    assert yaml.safe_load(edited(text, "a.x", 5)) == {
        "a": {"x": 5, "y": 2},
        "b": {"x": 1, "y": 2},
    }


@pytest.mark.parametrize("text", ["a: [", "a: !!python/object:os.system {}", "- 1"])
def test_text_that_is_no_scenario_is_refused_in_words(text: str) -> None:
    with pytest.raises(ScenarioError):
        edited(text, "a", 1)


@settings(max_examples=12)
@given(
    st.sampled_from(sorted(shipped("scenario"))),
    st.recursive(
        st.one_of(
            st.integers(),
            st.text("ab:#{}'\" -\n", max_size=6),
            st.booleans(),
            st.none(),
        ),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.text("xy", min_size=1), inner)
        ),
        max_leaves=4,
    ),
    st.data(),
)
def test_any_edit_of_what_ships_means_what_it_says(
    name: str, value: Any, data: Any
) -> None:
    text = shipped("scenario")[name].read_text("utf-8")
    before, _ = read(text)
    keys = [key for key in before if not isinstance(before[key], list)]
    key = data.draw(
        st.sampled_from([*keys, "facility.pools", "facility.stages", "new", "a.b.c"])
    )
    assert read(edited(text, key, value))[0] == with_value_of(before, key, value)
    assert read(flow({"x": value}))[0] == {"x": value}


def with_value_of(data: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    """Set a key in a copy, as a reader of the text would expect."""
    copy: dict[str, Any] = yaml.safe_load(yaml.safe_dump(data))
    at, *rest = copy, *key.split(".")
    for part in rest[:-1]:
        at = at.setdefault(part, {})
    at[rest[-1]] = value
    return copy
