"""Comparing libraries: figures of signals that theory knows, and what is only in one of
two."""

import json
from dataclasses import replace

import numpy as np
import pytest
from builders import profile
from command_line import call

from diploee.profiles import ProfileLibrary
from diploee.profiles.compare_libraries import (
    compare_libraries,
    profile_statistics,
    strongest_line_hz,
)
from diploee.profiles.profile import PowerBoundary
from diploee.profiles.store import add_profile

STEP_S = 0.1


def signal(*lines, mean_w=5000.0, duration_s=2000.0, noise_w=0.0, seed=0):
    """A constant, sines of (amplitude [W], frequency [Hz]) and white noise."""
    t_s = (np.arange(round(duration_s / STEP_S)) + 0.5) * STEP_S
    noise = np.random.default_rng(seed).standard_normal(t_s.size)
    swings_w = sum(a * np.sin(2 * np.pi * f * t_s) for a, f in lines)
    return mean_w + swings_w + noise_w * noise


def of(name, power_w, **options):
    return profile(name, power_w, dt_ms=100, **options)


def test_figures_of_sines_are_those_of_theory():
    found = profile_statistics(of("a", signal((300, 0.095), (400, 0.005), (100, 2.0))))
    assert found.mean_w == pytest.approx(5000, abs=0.1)
    std_w = np.sqrt((300**2 + 400**2 + 100**2) / 2)
    assert found.std_w == pytest.approx(std_w, rel=1e-3)
    assert found.duration_s == 2000
    assert found.band_rms_w == pytest.approx(500 / np.sqrt(2), rel=1e-3)
    assert found.swing_rms_w == pytest.approx(300 / np.sqrt(2), rel=1e-3)
    assert found.line_hz == pytest.approx(0.095, abs=2e-4)


@pytest.mark.parametrize("frequency_hz", [0.03, 0.0952, 0.1011, 0.2431])
def test_line_is_found_in_noise_to_a_part_of_a_bin(frequency_hz):
    power_w = signal((200, frequency_hz), noise_w=400)
    assert strongest_line_hz(power_w, STEP_S) == pytest.approx(frequency_hz, abs=5e-4)


def test_noise_has_no_line():
    for seed in range(5):
        white = signal(noise_w=400, seed=seed)
        assert np.isnan(strongest_line_hz(white, STEP_S))
        assert np.isnan(strongest_line_hz(5000 + np.cumsum(white - 5000), STEP_S))


def test_slow_or_short_profiles_claim_no_swings():
    slow = profile_statistics(profile("slow", signal((300, 0.095)), dt_ms=60_000))
    assert np.isnan([slow.band_rms_w, slow.swing_rms_w, slow.line_hz]).all()
    short = profile_statistics(of("short", signal((300, 0.095), duration_s=60)))
    assert np.isnan(short.line_hz)
    assert short.band_rms_w == pytest.approx(300 / np.sqrt(2), rel=0.05)


def test_constant_profile_has_no_spread():
    found = profile_statistics(of("flat", signal()))
    assert (found.std_w, found.band_rms_w) == (0, 0)
    assert np.isnan(found.line_hz)


def test_classes_are_averaged_and_those_of_one_library_stand_alone():
    first = ProfileLibrary(
        [
            of("a-1", signal((300, 0.1)), n_nodes=2),
            of("a-2", signal(mean_w=7000), n_nodes=2),
        ]
    )
    second = ProfileLibrary([of("b", signal(mean_w=5000), n_nodes=4)])
    both, alone = compare_libraries(first, second)
    assert (both.n_nodes, both.second) == (2, None)
    assert (both.first.n_profiles, both.first.n_lines) == (2, 1)
    assert both.first.figures.mean_w == pytest.approx(6000, abs=0.1)
    assert both.first.figures.line_hz == pytest.approx(0.1, abs=2e-4)
    assert (alone.n_nodes, alone.first) == (4, None)


def test_command_says_the_difference_in_percent(tmp_path):
    add_profile(of("x-1", signal((300, 0.1), mean_w=5500)), tmp_path / "a")
    add_profile(of("x-2", signal((300, 0.1), mean_w=5000)), tmp_path / "b")
    ended = call("profiles", "compare", tmp_path / "a", tmp_path / "b")
    assert (ended.code, ended.err) == (0, "")
    rows = {tuple(line.split()[:2]): line.split() for line in ended.out.splitlines()}
    assert rows["mean", "[kW]"][2:] == ["5.500", "5.000", "+10.0%"]
    assert rows["strongest", "line"][-1] == "+0.0%"
    (row,) = json.loads(
        call("profiles", "compare", tmp_path / "a", tmp_path / "b", "--json").out
    )
    assert row["first"]["figures"]["mean_w"] == pytest.approx(5500, abs=0.1)
    assert "boundaries" not in ended.out
    slow = tmp_path / "slow"
    add_profile(profile("c", signal(), dt_ms=60_000), slow)
    (row,) = json.loads(call("profiles", "compare", slow, slow, "--json").out)
    assert row["first"]["figures"]["line_hz"] is None


def test_command_says_where_the_boundaries_differ(tmp_path):
    whole = of("x-1", signal())
    origin = replace(whole.provenance, power_boundary=PowerBoundary.GPUS)
    add_profile(whole, tmp_path / "whole")
    add_profile(replace(whole, provenance=origin), tmp_path / "gpus")
    ended = call("profiles", "compare", tmp_path / "gpus", tmp_path / "whole")
    words = "x 1n: the boundaries differ, so the means must, too:\n  A: "
    assert f"{words}{PowerBoundary.GPUS}\n" in ended.out
