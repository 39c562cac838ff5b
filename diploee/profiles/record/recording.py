"""From samples to a profile with its true bandwidth, its energy checked against the counters.

GPU power is sampled: readings are joined by straight lines. Where a sensor has a counter alone, as
CPU packages do, its differences are the mean power between the times at which it moved. The step of
the profile is the difference of the summed energy at its edges, so no energy is lost.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from diploee.errors import InputError
from diploee.profiles.profile import CPU_POWER, DEVICE_POWER, GPU_POWER, PowerProfile, Provenance
from diploee.profiles.record.sampler import Samples
from diploee.profiles.record.sensors import Sensor
from diploee.profiles.resample import (
    US_PER_MS,
    US_PER_S,
    EnergyCurve,
    joint_power_w,
    round_keeping_energy,
    usable_bandwidth_hz,
)
from diploee.tables import Float64Array, Int64Array
from diploee.units import MS_PER_S

_NS_PER_US = 1_000
MOST_W = 5_000.0
"""No device draws more: a counter that moves faster was reset or read wrongly [W]."""
LEAST_RUNS = 20
"""A refresh time is only read from a sensor whose value changed so often."""


@dataclass(frozen=True, eq=False)
class _Device:
    """One sensor's energy over the recording, and what limits it."""

    curve: EnergyCurve
    interval_s: float
    window_s: float
    counter_j: float
    sampled_j: float


def recorded_profile(
    samples: Samples,
    sensors: Sequence[Sensor],
    *,
    workload: str,
    profile_id: str,
    n_nodes: int = 1,
    step_ms: int = 100,
    source: str = "",
    licence: str = "unknown",
    remarks: str = "",
) -> PowerProfile:
    """Return the profile of a recording.

    Parameters
    ----------
    samples : Samples
        What was read.
    sensors : sequence of Sensor
        The sensors of its columns.
    workload, profile_id, n_nodes, step_ms
        As in `PowerProfile`.
    source, licence : str
        For the provenance; the sensors' labels follow the source.
    remarks : str
        Stands at the end of the notes.

    Returns
    -------
    PowerProfile
        From the last sensor's first to the first sensor's last good reading.

    Raises
    ------
    InputError
        If the recording is shorter than a step, or a sensor gave fewer than two good readings.
    """
    counts = {"samples": int(samples.t_ns.shape[0]), "missed_ticks": samples.n_missed}
    counts |= {"failed_reads": 0, "counter_wraps": 0, "counter_jumps_bridged": 0}
    origin_ns = int(samples.t_ns.min(initial=np.iinfo(np.int64).max))
    devices = [
        _device(sensor, (samples.t_ns[:, k] - origin_ns) // _NS_PER_US, samples, k, counts)
        for k, sensor in enumerate(sensors)
    ]
    power_w = joint_power_w([device.curve for device in devices], step_ms * US_PER_MS)
    if power_w.size == 0:
        raise InputError(
            f"the command ended before a step of {step_ms / MS_PER_S:g} s was recorded; record a "
            "longer one"
        )
    bandwidth_hz = min(usable_bandwidth_hz(d.interval_s, d.window_s) for d in devices)
    provenance = Provenance(
        kind="measured",
        source="; ".join(filter(None, (source, _labels(sensors)))),
        licence=licence,
        sampling_interval_s=round(max(device.interval_s for device in devices), 4),
        averaging_window_s=round(max(device.window_s for device in devices), 4),
        bandwidth_hz=min(bandwidth_hz, 0.5 * MS_PER_S / step_ms),
        source_sha256=_sha256(samples),
        power_boundary=_boundary(sensors),
        notes=_notes(devices, sensors, remarks),
        counts=counts,
    )
    return PowerProfile(
        profile_id, workload, n_nodes, step_ms, round_keeping_energy(power_w), provenance
    )


def _device(
    sensor: Sensor, t_us: Int64Array, samples: Samples, k: int, counts: dict[str, int]
) -> _Device:
    power_w, energy_j = samples.power_w[:, k], samples.energy_j[:, k]
    counter_us, counter_j = _counter(sensor, t_us, energy_j, counts)
    interval_s = float(np.median(np.diff(t_us))) / US_PER_S if t_us.size > 1 else 0.0
    if sensor.averaging_window_s is None:
        counts["failed_reads"] += int(np.isnan(energy_j).sum())
        moved = np.concatenate(([True], np.diff(counter_j) > 0))[: counter_j.size]
        curve = EnergyCurve(counter_us[moved], counter_j[moved])
        _check(sensor, curve)
        # A counter gives the mean from one of its moves to the next.
        moves_s = float(np.median(np.diff(curve.t_us))) / US_PER_S
        return _Device(curve, moves_s, moves_s, np.nan, np.nan)
    good = np.flatnonzero(~np.isnan(power_w) & _increasing(t_us))
    counts["failed_reads"] += int(np.isnan(power_w).sum())
    curve = EnergyCurve.from_readings(t_us[good], power_w[good])
    _check(sensor, curve)
    refresh_s = interval_s * _typical_run(power_w[good])
    inside = (counter_us >= curve.t_us[0]) & (counter_us <= curve.t_us[-1])
    at_us, at_j = counter_us[inside], counter_j[inside]
    compared = at_us.size > 1
    return _Device(
        curve,
        refresh_s,
        sensor.averaging_window_s,
        float(at_j[-1] - at_j[0]) if compared else np.nan,
        float(np.diff(curve.at(at_us[[0, -1]]))[0]) if compared else np.nan,
    )


def _counter(
    sensor: Sensor, t_us: Int64Array, energy_j: Float64Array, counts: dict[str, int]
) -> tuple[Int64Array, Float64Array]:
    """Return the good readings of a counter as energy since the first, wraps undone."""
    good = np.flatnonzero(~np.isnan(energy_j) & _increasing(t_us))
    steps_j, dt_s = np.diff(energy_j[good]), np.diff(t_us[good]) / US_PER_S
    drops = steps_j < 0
    steps_j = np.where(drops, steps_j + sensor.counter_range_j, steps_j)
    wrong = ~(steps_j <= MOST_W * dt_s)
    counts["counter_wraps"] += int((drops & ~wrong).sum())
    counts["counter_jumps_bridged"] += int(wrong.sum())
    if wrong.any():  # reset, or nonsense: the mean of the other intervals stands for it
        typical_w = steps_j[~wrong].sum() / dt_s[~wrong].sum() if not wrong.all() else 0.0
        steps_j = np.where(wrong, typical_w * dt_s, steps_j)
    return t_us[good], np.concatenate(([0.0], np.cumsum(steps_j)))[: good.size]


def _increasing(t_us: Int64Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.concatenate(([True], np.diff(t_us) > 0))[: t_us.size]


def _check(sensor: Sensor, curve: EnergyCurve) -> None:
    if curve.t_us.size < 2:
        raise InputError(
            f"{sensor.device} ({sensor.label}): {curve.t_us.size} good readings, expected two or "
            "more; record a longer command"
        )


def _typical_run(values: Float64Array) -> float:
    """Return how many samples in a row have the same value: how slowly the driver refreshes it."""
    edges = np.flatnonzero(np.diff(values) != 0)
    if edges.size < LEAST_RUNS:
        return 1.0  # a steady load, or a short one: nothing to tell
    return float(np.median(np.diff(edges)))


def _labels(sensors: Sequence[Sensor]) -> str:
    labels = [sensor.label for sensor in sensors]
    return ", ".join(f"{labels.count(label)} x {label}" for label in dict.fromkeys(labels))


def _boundary(sensors: Sequence[Sensor]) -> str:
    kinds = {sensor.device[:3] for sensor in sensors}
    if kinds == {"gpu", "cpu"}:
        return DEVICE_POWER
    return GPU_POWER if kinds == {"gpu"} else CPU_POWER


def _notes(devices: Sequence[_Device], sensors: Sequence[Sensor], remarks: str) -> str:
    windows = [s.averaging_window_s for s in sensors if s.averaging_window_s is not None]
    notes = []
    if windows:
        how = f"averaged over {max(windows):g} s" if max(windows) else "instantaneous"
        notes.append(f"GPU power is {how}, sampled and joined by straight lines")
    if any(sensor.averaging_window_s is None for sensor in sensors):
        notes.append("power of devices with a counter alone is its mean from move to move")
    pairs = [(d.sampled_j, d.counter_j) for d in devices if d.counter_j > 0]
    if pairs:
        sampled_j, counter_j = map(sum, zip(*pairs, strict=True))
        notes.append(
            f"energy of {len(pairs)} GPUs by the samples {sampled_j:,.1f} J, by their counters "
            f"{counter_j:,.1f} J ({sampled_j / counter_j - 1:+.2%})"
        )
    elif windows:
        notes.append("no energy counter to hold the samples against")
    return "; ".join(filter(None, (*notes, remarks)))


def _sha256(samples: Samples) -> str:
    digest = hashlib.sha256()
    for values in (samples.t_ns, samples.power_w, samples.energy_j):
        digest.update(np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()
