"""Recordings of known signals: energy exact to the sampling, true bandwidth, every repair."""

import re
import threading
import time

import numpy as np
import pytest
from fake_sensors import NS, Clock, FakeSensor

from diploee.errors import InputError
from diploee.profiles.profile import CPU_POWER, DEVICE_POWER, GPU_POWER
from diploee.profiles.record import Sampler, recorded_profile

HZ, SWING_W, BASE_W = 0.4, 150.0, 400.0
STEPS_S, STEP_W = (7.03, 21.47), 200.0


def power_w(t_s):
    """A sine, and 200 W more between two times."""
    between = (t_s >= STEPS_S[0]) & (t_s < STEPS_S[1])
    return BASE_W + SWING_W * np.sin(2 * np.pi * HZ * t_s) + STEP_W * between


def energy_j(t_s):
    """Its integral since 0."""
    sine = SWING_W / (2 * np.pi * HZ) * (1 - np.cos(2 * np.pi * HZ * t_s))
    step = STEP_W * (np.clip(t_s, *STEPS_S) - STEPS_S[0])
    return BASE_W * t_s + sine + step


def record(clock, *sensors, interval_s=0.1, **options):
    sampler = Sampler(sensors, interval_s, clock)
    sampler.run(clock.wait)
    return recorded_profile(
        sampler.samples,
        sensors,
        workload="w",
        profile_id="p",
        step_ms=round(interval_s * 1000),
        **options,
    )


def repairs(profile):
    return {k: n for k, n in profile.provenance.counts.items() if n and k != "samples"}


def sampling_error_j(duration_s, interval_s):
    """Most that straight lines between samples may be off: curvature, and an edge each."""
    curvature = (2 * np.pi * HZ) ** 2 * SWING_W
    return duration_s * interval_s**2 / 12 * curvature + len(STEPS_S) * STEP_W * interval_s / 2


@pytest.mark.parametrize("late_s", [0.0, 0.03])
def test_sampled_power_keeps_the_energy_to_what_the_sampling_allows(late_s):
    clock = Clock(end_s=40.0, late_s=late_s)
    profile = record(clock, FakeSensor(clock, power_w, energy_j))
    assert profile.duration_ms == pytest.approx(40_000, abs=150)
    exact_j = energy_j(profile.duration_ms / 1000)
    assert abs(profile.energy_j - exact_j) < sampling_error_j(40, 0.1 + late_s)
    spectrum = np.abs(np.fft.rfft(profile.power_w[100:200] - profile.power_w[100:200].mean())) / 50
    assert np.argmax(spectrum) == 4  # 0.4 Hz in 10 s
    assert spectrum[4] == pytest.approx(SWING_W, rel=0.02)


def test_energy_of_the_profile_is_that_of_its_samples_to_the_last_digit():
    clock = Clock(end_s=30.0)
    sampler = Sampler([sensor := FakeSensor(clock, power_w)], 0.1, clock)
    sampler.run(clock.wait)
    samples = sampler.samples
    profile = recorded_profile(samples, [sensor], workload="w", profile_id="p")
    t_s = (samples.t_ns[:, 0] - samples.t_ns[0, 0]) / NS
    whole = t_s <= profile.duration_ms / 1000 + 1e-9
    trapezoid_j = np.trapezoid(samples.power_w[whole, 0], t_s[whole])
    assert profile.energy_j == pytest.approx(trapezoid_j, rel=1e-7)


def test_recorded_energy_is_held_against_the_counter_in_the_notes():
    clock = Clock(end_s=40.0)
    reads_low = FakeSensor(clock, lambda t: 0.98 * power_w(t), energy_j)
    notes = record(clock, reads_low).provenance.notes
    assert "GPU power is instantaneous, sampled and joined by straight lines" in notes
    assert f"by their counters {energy_j(40.0):,.1f} J" in notes
    off_percent = float(re.search(r"\(([+-][0-9.]+)%\)", notes)[1])
    assert off_percent == pytest.approx(-2.0, abs=0.15)
    no_counter = record(Clock(40.0), *[FakeSensor(Clock(40.0), power_w)])
    assert "no energy counter to hold the samples against" in no_counter.provenance.notes


def test_counter_alone_gives_the_exact_energy_also_through_its_wraps():
    clock = Clock(end_s=40.0, late_s=0.02)
    cpu = FakeSensor(
        clock,
        energy_j=lambda t: 900 + energy_j(t),
        device="cpu-0",
        averaging_window_s=None,
        counter_range_j=5000.0,
    )
    profile = record(clock, cpu)
    exact_j = energy_j(profile.duration_ms / 1000)
    # exact at the counter's readings; between the last two it is a straight line
    assert profile.energy_j == pytest.approx(exact_j, abs=0.1 * 600)
    assert repairs(profile)["counter_wraps"] == (900 + energy_j(40.0)) // 5000
    assert profile.provenance.power_boundary == CPU_POWER
    assert profile.provenance.bandwidth_hz == pytest.approx(4.4, rel=0.1)  # 0.44 over 0.1 s


def test_gpus_and_cpus_add_up_to_device_power():
    clock = Clock(end_s=10.0)
    gpus = [FakeSensor(clock, lambda t: 300.0, lambda t: 300.0 * t, f"gpu-{i}") for i in range(4)]
    cpus = [
        FakeSensor(clock, None, lambda t: 120.0 * t, f"cpu-{i}", "CPU", None, 65_532.0)
        for i in range(2)
    ]
    profile = record(clock, *gpus, *cpus)
    np.testing.assert_allclose(profile.power_w, 1440, rtol=1e-6)
    origin = profile.provenance
    assert origin.power_boundary == DEVICE_POWER
    assert origin.source == "4 x Fake GPU, 2 x CPU"
    assert "energy of 4 GPUs by the samples" in origin.notes
    assert "(+0.00%)" in origin.notes
    alone = record(Clock(10.0), *[FakeSensor(Clock(10.0), power_w)]).provenance
    assert alone.power_boundary == GPU_POWER


def test_true_bandwidth_is_that_of_the_interval_the_average_and_the_refresh():
    def bandwidth_hz(window_s=0.0, refresh_s=None):
        clock = Clock(end_s=30.0)
        values = np.random.default_rng(2).uniform(300, 500, 1000)
        power = (lambda t: values[int(t / refresh_s)]) if refresh_s else power_w
        sensor = FakeSensor(clock, power, averaging_window_s=window_s)
        return record(clock, sensor).provenance.bandwidth_hz

    assert bandwidth_hz() == 5.0
    assert bandwidth_hz(window_s=1.0) == 0.44
    assert bandwidth_hz(refresh_s=0.5) == pytest.approx(1.0)


def test_failed_reads_are_bridged_and_counted():
    clock = Clock(end_s=20.0)
    sensor = FakeSensor(clock, lambda t: np.nan if 5 < t < 6 else 100 + 10 * t)
    profile = record(clock, sensor)
    np.testing.assert_allclose(profile.power_w, 100 + 10 * (np.arange(200) + 0.5) / 10, rtol=1e-5)
    assert repairs(profile)["failed_reads"] == pytest.approx(9, abs=1)


def test_counter_that_is_reset_is_bridged_and_counted():
    clock = Clock(end_s=20.0)
    sensor = FakeSensor(
        clock, None, lambda t: 1e9 + 250 * t if t < 10 else 250 * (t - 10), "cpu-0", "CPU", None,
        2.0**64 / 1000,
    )  # fmt: skip
    profile = record(clock, sensor)
    np.testing.assert_allclose(profile.power_w, 250, rtol=1e-6)
    assert repairs(profile) == {"counter_jumps_bridged": 1}


def test_readings_that_take_too_long_lose_ticks_and_say_so():
    clock = Clock(end_s=20.0)
    profile = record(clock, FakeSensor(clock, power_w, read_takes_s=0.25))
    assert profile.provenance.counts["missed_ticks"] > 100
    # the middle of a reading is late by half of what it takes
    assert profile.energy_j == pytest.approx(energy_j(profile.duration_ms / 1000), rel=0.02)
    assert profile.provenance.bandwidth_hz == pytest.approx(1 / 0.6, rel=0.01)


def test_too_short_a_recording_is_refused():
    clock = Clock(end_s=0.05)
    with pytest.raises(InputError, match=r"ended before a step of 0\.1 s was recorded"):
        record(clock, FakeSensor(clock, power_w))
    clock = Clock(end_s=20.0)
    with pytest.raises(InputError, match=r"gpu-0 \(Fake GPU\): 0 good readings"):
        record(clock, FakeSensor(clock, lambda t: np.nan))


def test_sampler_runs_in_a_thread_and_raises_what_went_wrong_there():
    begun = time.monotonic_ns()
    clock = Clock(0.0)
    sampler = Sampler([FakeSensor(clock, lambda t: 5.0)], 0.01)
    with sampler.running():
        time.sleep(0.6)
    samples = sampler.samples
    passed_s = (time.monotonic_ns() - begun) / 1e9
    assert 5 <= samples.t_ns.shape[0] <= passed_s / 0.01 + 2  # one at either end
    assert begun <= samples.t_ns[0, 0] < samples.t_ns[-1, 0] <= time.monotonic_ns()
    assert (samples.power_w == 5).all()
    assert "power sampler" not in {thread.name for thread in threading.enumerate()}

    class Broken(FakeSensor):
        def read(self):
            raise RuntimeError("the sensor is gone")

    with (
        pytest.raises(RuntimeError, match="the sensor is gone"),
        Sampler([Broken(clock)], 0.01).running(),
    ):
        pass
