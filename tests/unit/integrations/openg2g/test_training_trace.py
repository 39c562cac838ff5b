"""The synthetic training trace against its description, as a file and as a profile."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError

from diploee.base.errors import InputError, LogFormatError, ProfileError
from diploee.integrations.openg2g import TrainingTrace, TrainingTraceParams

PLAIN = {
    "high_noise_w": 0,
    "low_noise_w": 0,
    "smoothing_s": 0,
    "dips_per_s": 0,
    "ramp_s": 0,
}


def trace_w(**changes):
    return TrainingTrace.generate(TrainingTraceParams(**changes)).power_w


def runs_of(values):
    """Return values and lengths of constant stretches."""
    edges = np.flatnonzero(np.diff(values)) + 1
    cuts = np.concatenate([[0], edges, [values.size]])
    return values[cuts[:-1]], np.diff(cuts)


def test_default_trace_has_the_described_length_and_step():
    trace = TrainingTrace.generate()
    assert trace.power_w.shape == trace.t_s.shape == (10_000,)
    assert (trace.t_s[0], trace.t_s[-1]) == (0, pytest.approx(999.9))
    np.testing.assert_array_equal(trace.power_w, TrainingTrace.generate().power_w)
    assert trace.power_w.min() >= 0


def test_plateaus_alternate_within_their_lengths():
    levels, lengths = runs_of(trace_w(**PLAIN, duration_s=20_000))
    assert (levels[::2] == 225).all()
    assert (levels[1::2] == 175).all()
    high_s, low_s = lengths[:-1:2] / 10, lengths[1:-1:2] / 10
    assert 35 <= high_s.min() < 35.5
    assert 39.5 < high_s.max() <= 40
    assert 10 <= low_s.min() < 10.5
    assert 14.5 < low_s.max() <= 15


def test_mean_is_that_of_the_plateaus():
    values = trace_w(duration_s=50_000, dips_per_s=0, ramp_s=0)
    high, low = 37.5, 12.5
    expected = (high * 225 + low * 175) / (high + low)
    # 1000 pairs of plateaus; the noise of 50 W averages out to 0.07 W.
    assert values.mean() == pytest.approx(expected, abs=0.5)


def test_noise_is_smoothed_over_three_samples():
    levels = trace_w(**PLAIN, duration_s=5_000)
    quiet = {name: value for name, value in PLAIN.items() if "noise" not in name}
    noise = trace_w(**quiet, duration_s=5_000) - levels
    assert noise.std() == pytest.approx(50, rel=4 / np.sqrt(2 * noise.size))
    smooth = trace_w(**quiet | {"smoothing_s": 0.3}, duration_s=5_000) - levels
    inside = (
        np.abs(np.convolve(np.abs(np.diff(levels)), np.ones(4), "full")[: smooth.size])
        == 0
    )
    assert smooth[inside].std() == pytest.approx(50 / np.sqrt(3), rel=0.02)
    lag = [np.corrcoef(smooth[:-k], smooth[k:])[0, 1] for k in (1, 2, 3)]
    assert lag == pytest.approx([2 / 3, 1 / 3, 0], abs=4 / np.sqrt(smooth.size))


def test_dips_come_at_their_rate_with_their_depth():
    flat = PLAIN | {"low_power_w": 225.0, "dips_per_s": 0.01}
    values = trace_w(**flat, duration_s=200_000)
    lowered = 225 - values
    n_dips = np.count_nonzero(lowered)
    # 2000 expected, each one step of 0.1 s.
    assert abs(n_dips - 2_000) < 4 * np.sqrt(2_000)
    single = lowered[(lowered > 0) & (lowered < 200)]
    assert 120 <= single.min() < 120.1
    assert 124.9 < single.max() <= 125
    fine = TrainingTraceParams(**flat, duration_s=20_000, dt_s=0.01)
    _, lengths = runs_of(TrainingTrace.generate(fine).power_w)
    dips = lengths[lengths < 100]
    # 0.06 to 0.14 s; where two overlap, or at the end, a stretch may be shorter or
    # longer.
    assert np.mean((dips >= 6) & (dips <= 14)) > 0.97
    assert {6, 14} <= set(dips.tolist())
    assert np.median(dips) == pytest.approx(10, abs=1)


def test_start_is_never_above_the_ramp():
    values = trace_w()
    ramp = np.linspace(50, 225, 180)
    assert (values[:180] <= ramp).all()
    assert values[0] == 50
    assert values[200:400].mean() > 200
    assert not np.array_equal(values, trace_w(seed=3))
    assert trace_w(ramp_s=0)[:100].mean() > 200


def test_profile_is_the_trace_of_all_gpus():
    trace = TrainingTrace.generate()
    profile = trace.profile(4, 8)
    assert (profile.profile_id, profile.workload) == (
        "synthetic_training-4n",
        "synthetic_training",
    )
    assert (profile.n_nodes, profile.dt_ms, profile.duration_ms) == (4, 100, 1_000_000)
    assert profile.energy_j == pytest.approx(32 * 0.1 * trace.power_w.sum(), rel=1e-6)
    assert profile.provenance.kind == "reference"
    assert "not measured" in profile.provenance.notes
    assert "32 GPUs" in profile.provenance.notes
    assert profile.provenance.bandwidth_hz == pytest.approx(0.44 / 0.3)
    with pytest.raises(InputError, match="gpus_per_node is 0, expected 1 to 1,000"):
        trace.profile(4, 0)
    with pytest.raises(ProfileError, match="n_nodes is 0, expected 1 to 1,000,000"):
        trace.profile(0, 4)


def test_csv_comes_back_bit_by_bit(tmp_path):
    trace = TrainingTrace.generate(TrainingTraceParams(duration_s=30))
    trace.save(tmp_path / "trace.csv")
    assert (tmp_path / "trace.csv").read_text().startswith("t_s,power_W\n0,50\n0.1,")
    read = TrainingTrace.load(tmp_path / "trace.csv")
    np.testing.assert_array_equal(read.power_w, trace.power_w)
    assert read.dt_s == 0.1
    assert read.params is None
    assert "not measured" not in read.profile(1, 1).provenance.notes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("t_s,power_W\n0,1\n", "1 rows, expected two or more"),
        ("t_s,power_W\n0,1\n1,-5\n", ":3: column 'power_W' is '-5'"),
        ("t_s,power_W\n0,1\n1,1\n3,1\n", "is '1', expected an even step of 1.5 s"),
        ("t_s,power_W\n0,1\n0.0001,1\n", "the step must be a whole number of"),
    ],
)
def test_damaged_csv_is_one_clear_line(tmp_path, text, message):
    path = tmp_path / "trace.csv"
    path.write_text(text)
    with pytest.raises(LogFormatError) as error:
        TrainingTrace.load(path)
    assert message in str(error.value)
    assert str(error.value).startswith(str(path))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"dt_s": 0.0001}, "whole number of milliseconds"),
        ({"duration_s": 0.01}, "are 0 samples"),
        ({"duration_s": 1e9}, "expected 1 to 100,000,000"),
        ({"low_power_w": 300}, "is 300, expected at most high_power_w, 225"),
        (
            {"high_plateau_s": (40, 35)},
            r"must be \[least, greatest\], found \[40, 35\]",
        ),
        ({"high_plateau_s": (0, 1), "low_plateau_s": (0, 1)}, "at least one step"),
    ],
)
def test_wrong_parameters_are_refused(changes, text):
    with pytest.raises(ValidationError, match=text):
        TrainingTraceParams(**changes)


def test_training_trace_as_a_file_is_made_once(tmp_path):
    path = tmp_path / "data" / "trace.csv"
    short = TrainingTraceParams(duration_s=60.0)
    made = TrainingTrace.ensure(path, short)
    written = path.read_bytes()
    for params in (short, None):
        again = TrainingTrace.ensure(path, params)
        np.testing.assert_allclose(again.power_w, made.power_w, atol=1e-6)
    other = short.model_copy(update={"seed": 3})  # what is there is taken
    np.testing.assert_array_equal(
        TrainingTrace.ensure(path, other).power_w, made.power_w
    )
    assert path.read_bytes() == written
    path.write_text("t_s,power_W\n0,100\n0.1,200\n")  # measured: read as it is
    assert TrainingTrace.ensure(path).power_w.tolist() == [100.0, 200.0]
