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
from diploee.studio.edits import REMOVED, parse_yaml, set_key, set_list, to_flow_yaml

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


def differences(after: str) -> list[str]:
    """Return the lines that come in place of others, or leave, as of a diff."""
    before, now = TEXT.splitlines(), after.splitlines()
    new = [line for line in now if line not in before]
    gone = [line for line in before if line not in now]
    kept = [line for line in now if line not in new]
    assert kept == [line for line in before if line not in gone]
    return [f"+{line}" for line in new] + [f"-{line}" for line in gone]


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
            "facility.pools.a.x",
            "s",
            "    a: {n_nodes: 4, node_type: h, x: s}   # the first",
        ),
        ("facility.stages.1.mode", "none", "    - {kind: ups, mode: none}"),
        ("facility.stages.2.power_mw", 2.5, "      power_mw: 2.5"),
        ("streams.x", {"pool": "a"}, "streams: {x: {pool: a}}"),
    ],
)
def test_edit_changes_one_line_and_keeps_its_comment(
    key: str, value: Any, line: str
) -> None:
    after = set_key(TEXT, key, value)
    new, gone = differences(after)
    assert (new, gone[:1]) == (f"+{line}", "-")
    assert get_value(yaml.safe_load(after), key) == value


def test_new_key_of_a_block_is_a_line_behind_the_others_and_takes_that_line_out() -> (
    None
):
    for key in ("seed", "facility.pools.b.scheduler", "facility.stages.2.energy_mwh"):
        (new,) = differences(set_key(TEXT, key, 7))
        assert new.lstrip("+ ") == f"{key.rpartition('.')[2]}: 7"
    taken = set_key(TEXT, "facility.pools.b.n_nodes", REMOVED)
    assert taken == TEXT.replace("      n_nodes: 5\n", "")
    assert set_key(TEXT, "facility.none", REMOVED) == TEXT


ECO, BATTERY = {"kind": "ups", "mode": "eco"}, {"kind": "battery", "power_mw": 1}


@pytest.mark.parametrize(
    ("items", "lines"),
    [
        (["pdu", "dlc_tower", ECO, BATTERY], ["+    - dlc_tower"]),
        (["pdu", BATTERY], ["-    - {kind: ups, mode: eco}"]),
        (["pdu", "ups", BATTERY], ["+    - ups", "-    - {kind: ups, mode: eco}"]),
    ],
)
def test_item_joins_leaves_or_changes_and_the_others_stay(
    items: list[Any], lines: list[str]
) -> None:
    assert differences(set_list(TEXT, "facility.stages", items)) == lines


def test_edit_within_an_anchor_changes_that_key_alone_and_writes_the_rest_out() -> None:
    text = "a: &one {x: 1, y: 2}\nb: *one\n"
    for changed, other in ("ab", "ba"):
        found = yaml.safe_load(set_key(text, f"{changed}.x", 5))
        assert found == {changed: {"x": 5, "y": 2}, other: {"x": 1, "y": 2}}


@pytest.mark.parametrize("text", ["a: [", "a: !!python/object:os.system {}", "- 1"])
def test_text_that_is_no_scenario_is_refused_in_words(text: str) -> None:
    with pytest.raises(ScenarioError):
        set_key(text, "a", 1)


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
    before, _ = parse_yaml(text)
    keys = [key for key in before if not isinstance(before[key], list)]
    key = data.draw(
        st.sampled_from([*keys, "facility.pools", "facility.stages", "new", "a.b.c"])
    )
    assert parse_yaml(set_key(text, key, value))[0] == with_value_of(before, key, value)
    assert parse_yaml(to_flow_yaml({"x": value}))[0] == {"x": value}


def with_value_of(data: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    """Set a key in a copy, as a reader of the text would expect."""
    copy: dict[str, Any] = yaml.safe_load(yaml.safe_dump(data))
    at, *rest = copy, *key.split(".")
    for part in rest[:-1]:
        at = at.setdefault(part, {})
    at[rest[-1]] = value
    return copy
