from __future__ import annotations

from typing import Annotated

import pytest
from builders import tiny_run
from limit_runs import check, fake_run
from pydantic import Field

from diploee.base.errors import InputError
from diploee.base.files.paths import shipped
from diploee.grid.limits import LIMITS, Check, Limits, LimitSpec
from diploee.grid.limits.file import load_limits

FULL = """\
name: our utility
ramps:
  - {interval: 10 s, up_mw_per_s: 0.5, down_mw_per_s: 0.4}
  - {interval: 1 min, up_mw_per_min: 2}
swings:
  - {window: 10 s, max_mw: 0.5}
band_rms:
  - {low_hz: 0.1, high_hz: 0.25, max_rms_mw: 0.05}
peaks:
  - {max_mw: 8}
  - {max_mw: 7.5, interval: 15 min}
daily_energy_mwh: 120
"""


def write(folder, text):
    path = folder / "limits.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def problems(folder, text):
    path = write(folder, text)
    with pytest.raises(InputError) as caught:
        load_limits(path)
    return [line.removeprefix(f"{path}") for line in str(caught.value).splitlines()]


def test_every_kind_of_limit_loads(tmp_path):
    limits = load_limits(write(tmp_path, FULL))
    rates = [
        [(way, a.mw, *rest) for way, a, *rest in ramp.rates()] for ramp in limits.ramps
    ]
    assert rates[0] == [("up", 0.5, "MW/s", 1_000), ("down", 0.4, "MW/s", 1_000)]
    assert rates[1] == [("up", 2.0, "MW/min", 60_000)]
    assert (limits.swings[0].window, limits.peaks[0].interval) == (10_000, None)
    assert limits.peaks[1].interval == 900_000
    assert limits.daily_energy_mwh == 120


class NightLimit(LimitSpec):
    """Largest power at night."""

    key = "nights"
    max_mw: Annotated[float, Field(gt=0)]
    quantity = property(lambda self: "power at night")

    def checks(self, shown):
        yield from ()


@pytest.fixture
def register():
    """Register kinds, and take them out again."""
    known, added = dict(Limits.model_fields), dict(LIMITS.added)
    yield LIMITS.register
    LIMITS.added.clear()
    LIMITS.added.update(added)
    for key in set(Limits.model_fields) - set(known):
        del Limits.model_fields[key]
    Limits.model_rebuild(force=True)


def test_kind_added_after_a_first_file_is_a_key_of_the_next(tmp_path, register):
    load_limits(write(tmp_path, FULL))
    register(NightLimit)
    (limit,) = load_limits(write(tmp_path, "nights:\n  - {max_mw: 3}\n")).nights
    assert limit.max_mw == 3
    (problem,) = problems(tmp_path, "nights:\n  - {max_mw: -3}\n")
    assert problem == ":2 nights.0.max_mw: must be above 0, found -3"


def test_run_with_a_limit_of_one_s_own_is_checked_where_nobody_knows_the_kind(
    tmp_path, register
):
    added = dict(LIMITS.added)
    register(NightLimit)
    own = Limits.model_validate({"nights": [{"max_mw": 3}], "peaks": [{"max_mw": 9}]})
    run = tiny_run(tmp_path / "run", {"duration": "1 h"}, limits=[own])
    known = run.limits("example")
    LIMITS.added.clear()
    LIMITS.added.update(added)
    del Limits.model_fields["nights"]
    Limits.model_rebuild(force=True)
    assert run.limits("example") == known


def odd(key):
    return type("Odd", (NightLimit,), {"key": key})


class Unchecked(LimitSpec):
    """Says what it limits, and checks nothing."""

    key = "unchecked"
    quantity = property(lambda self: "something")


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Unchecked, "limit kind 'unchecked': Unchecked has no 'checks'; give it all"),
        (odd("notes"), "files of limits have that key"),
        (odd("ramps"), "'ramps' is taken by RampLimit"),
        (odd(None), "Odd: give 'key' a default, the kind's name"),
    ],
)
def test_kind_that_lacks_something_is_refused_when_it_is_registered(
    register, kind, words
):
    with pytest.raises(InputError, match=words):
        register(kind)


def signal_fails(self, shown):
    step_ms = shown.clock.step_ms
    yield Check(
        self.quantity, 1.0, "MW", step_ms, step_ms, lambda stretch: stretch.nothing
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"checks": lambda self, shown: None}, "its checks raised TypeError"),
        ({"checks": lambda self, shown: [3]}, "its checks raised AttributeError"),
        (
            {"quantity": property(lambda self: self.nothing)},
            "its checks raised AttributeError",
        ),
        ({"checks": signal_fails}, "its checks raised AttributeError: 'Chunk' obj"),
    ],
)
def test_kind_that_fails_on_a_run_is_named_in_one_line(
    tmp_path, register, changes, words
):
    register(type("Odd", (NightLimit,), changes))
    run = fake_run(tmp_path, [1.0] * 60, 60)
    with pytest.raises(InputError, match=f"^limit kind 'nights': {words}"):
        check(run, nights=[{"max_mw": 1}])


def test_all_problems_are_named_with_line_key_and_remedy(tmp_path):
    text = """\
ramps:
  - interval: 10
    up_mw_per_s: 1
  - interval: 10 s
    up_mw_per_sec: 1
swings:
  - window: 10 s
    max_mw: -1
peek: 3
"""
    found = problems(tmp_path, text)
    assert found[0] == (
        ":2 ramps.0.interval: must be a number and a unit (ms, s, min, h), such as "
        "'60 s', found 10"
    )
    assert found[1].startswith(":5 ramps.1.up_mw_per_sec: unknown key 'up_mw_per_sec'")
    assert found[1].endswith("; did you mean 'up_mw_per_s'?")
    assert found[2] == ":8 swings.0.max_mw: must be above 0, found -1"
    assert found[3].startswith(":9 peek: unknown key 'peek' (allowed: 'name', ")
    assert len(found) == 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ": is empty; expected limits such as 'daily_energy_mwh: 100'"),
        (
            "- 1\n",
            ":1: expected limits such as 'daily_energy_mwh: 100', found a list of 1",
        ),
        ("name: x\n", ":1: sets no limit; give ramps, swings, band_rms, peaks or"),
        ("ramps:\n  - {interval: 10 s}\n", ":2 ramps.0: give a rate: up_mw_per_s,"),
        (
            "band_rms:\n  - {low_hz: 0.2, high_hz: 0.1, max_rms_mw: 1}\n",
            ":2 band_rms.0: high_hz must be above low_hz, found 0.2 to 0.1",
        ),
        ("peaks:\n  - {max_mw: {}}\n", ":2 peaks.0.max_mw: give mw, percent_of_peak"),
        (
            "ramps:\n  - {interval: 1 min, percentile: 75, up_mw_per_min: 3}\n",
            ":2 ramps.0: a percentile is of ramps either way",
        ),
        (
            "changes:\n  - {above_mw: 1e9, max_mw_per_s: 1e-308}\n",
            (
                ":2 changes.0: above_mw over max_mw_per_s, the time of a change, must "
                "be 0.1 s to 1 h"
            ),
        ),
        (
            "reactive_power:\n  - {min_mvar: 2, max_mvar: 1}\n",
            ":2 reactive_power.0: max_mvar must be above min_mvar, found 2 to 1",
        ),
        ("power_factor:\n  - {}\n", ":2 power_factor.0: give min_lagging or"),
        ("peaks: [\n", ":2: not valid YAML"),
        ("peaks:\n  - {max_mw: 1}\npeaks: []\n", ":3 peaks: key given twice"),
    ],
)
def test_bad_file_is_refused_with_its_place(tmp_path, text, message):
    (found,) = problems(tmp_path, text)
    assert found.startswith(message)


def test_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"no\.yaml: no such limits file or shipped"):
        load_limits(tmp_path / "no.yaml")


def test_unknown_preset_names_the_nearest():
    with pytest.raises(InputError, match=r"; did you mean 'ercot_nprr1191'\?"):
        load_limits("ercot_nprr1911")


def test_every_preset_tells_its_source_and_that_it_is_no_primary():
    for name, path in shipped("limits").items():
        limits = load_limits(name)
        assert limits == load_limits(path)
        if name != "example":
            assert limits.source and limits.status
            assert "check the primary source before you rely on it" in limits.origin
            assert {spec.mark for _, spec in limits.each()} == {"S2"}
