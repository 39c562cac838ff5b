from __future__ import annotations

import pytest

from diploee.errors import InputError
from diploee.metrics.grid.limits import load_limits

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
    assert limits.ramps[0].rates() == [("up", 0.5, "MW/s", 1_000), ("down", 0.4, "MW/s", 1_000)]
    assert limits.ramps[1].rates() == [("up", 2.0, "MW/min", 60_000)]
    assert (limits.swings[0].window, limits.peaks[0].interval) == (10_000, None)
    assert limits.peaks[1].interval == 900_000
    assert limits.daily_energy_mwh == 120


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
    assert problems(tmp_path, text) == [
        ":2 ramps.0.interval: expected a number and a unit (ms, s, min, h), such as '60 s', "
        "found 10",
        ":5 ramps.1.up_mw_per_sec: unknown key 'up_mw_per_sec' (allowed: 'interval', "
        "'up_mw_per_s', 'down_mw_per_s', 'up_mw_per_min', 'down_mw_per_min'); "
        "did you mean 'up_mw_per_s'?",
        ":8 swings.0.max_mw: must be a number above 0, found -1",
        ":9 peek: unknown key 'peek' (allowed: 'name', 'ramps', 'swings', 'band_rms', 'peaks', "
        "'daily_energy_mwh'); did you mean 'peaks'?",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ": is empty; expected limits such as 'daily_energy_mwh: 100'"),
        ("- 1\n", ":1: expected limits such as 'daily_energy_mwh: 100', found a list of 1"),
        ("name: x\n", ":1: sets no limit; give ramps, swings, band_rms, peaks or daily_energy_mwh"),
        ("ramps:\n  interval: 10 s\n", ":1 ramps: must be a list, found a group of keys"),
        ("ramps:\n  - 3\n", ":2 ramps.0: must be a group of keys ('interval', "),
        ("ramps:\n  - {interval: 10 s}\n", ":2 ramps.0: give a rate: up_mw_per_s, down_mw_per_s"),
        ("swings:\n  - {window: 10 s}\n", ":2 swings.0.max_mw: this key is missing; add it"),
        (
            "band_rms:\n  - {low_hz: 0.2, high_hz: 0.1, max_rms_mw: 1}\n",
            ":2 band_rms.0: high_hz must be above low_hz, found 0.2 to 0.1",
        ),
        ("daily_energy_mwh: .inf\n", ":1 daily_energy_mwh: "),
        ("peaks: [\n", ":2: not valid YAML"),
        ("peaks:\n  - {max_mw: 1}\npeaks: []\n", ":3 peaks: key given twice"),
    ],
)
def test_bad_file_is_refused_with_its_place(tmp_path, text, message):
    (found,) = problems(tmp_path, text)
    assert found.startswith(message)


def test_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"no\.yaml: can't be read \(No such file"):
        load_limits(tmp_path / "no.yaml")
