"""Meters of open GPU traces, which are no part of the repository: their edges give the
window."""

from __future__ import annotations

import json
import tarfile

import numpy as np
import pytest
from samples import PUBLISHED

from diploee import import_profile
from diploee.base.errors import InputError

SERVING = PUBLISHED / "serving_power"
MIN_STEP_W = 120.0
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not SERVING.is_dir(), reason="the open traces are not at hand"),
]


WINDOWS_S = np.arange(0.02, 1.3, 0.01)[:, None, None]
BEGINS_S = np.arange(-0.3, 0.3, 0.01)[None, :, None]


def fitted_windows_s(t_s, power_w):
    """Windows of isolated edges: the ramp P = lo + (hi - lo) clip((t - t0) / w, 0, 1)."""  # noqa: E501
    found, at = [], 16
    while at < power_w.size - 20:
        before, after = power_w[at - 10 : at], power_w[at + 13 : at + 20]
        step_w, flat_w = (
            after.mean() - before.mean(),
            min(np.ptp(before), np.ptp(after)),
        )
        if (
            abs(power_w[at + 1] - power_w[at]) < 8
            or abs(step_w) < MIN_STEP_W
            or flat_w > 4
        ):
            at += 1
            continue
        part = slice(at - 4, at + 18)
        share = (power_w[part] - before.mean()) / step_w
        into = (t_s[part] - t_s[at] - BEGINS_S) / WINDOWS_S
        residual = np.sqrt(np.mean((np.clip(into, 0, 1) - share) ** 2, axis=2))
        best = np.unravel_index(np.argmin(residual), residual.shape)
        if residual[best] < 0.02:
            found.append(float(WINDOWS_S[best[0], 0, 0]))
        at += 20
    return found


def served(gpu):
    """Readings of the serving traces of a GPU: times [s] and power [W] of each device."""  # noqa: E501
    with tarfile.open(SERVING / "vllm_traces.tar.gz") as traces:
        for name in traces.getnames():
            if f"_{gpu}_" not in name:
                continue
            trace = json.load(traces.extractfile(name))
            t_s = np.array(trace["ts"], dtype=float)
            if np.median(np.diff(t_s)) < 0.15:
                for power_w in trace["per_gpu"].values():
                    yield t_s - t_s[0], np.array(power_w, dtype=float)


@pytest.mark.parametrize("gpu", ["H100", "H200"])
def test_edges_of_h100_and_h200_last_a_second(gpu):
    windows_s = [window_s for of in served(gpu) for window_s in fitted_windows_s(*of)]
    assert len(windows_s) >= 30
    assert 1.00 <= np.median(windows_s) <= 1.03


def test_falls_of_an_a100_take_less_than_a_reading():
    shares = []
    for _, power_w in served("A100"):
        for at in np.flatnonzero(power_w[:-12] - power_w[2:-10] > MIN_STEP_W):
            low_w = power_w[at + 3 : at + 12]
            if np.ptp(low_w) < 4 and power_w[at] - power_w[at + 1] > 8:
                high_w = power_w[at - 5 : at].mean()
                shares.append(
                    (power_w[at + 1] - low_w.mean()) / (high_w - low_w.mean())
                )
    # A window of w has a value between in w of 0.1 s of the falls.
    between = [share for share in shares if 0.1 < share < 0.9]
    assert len(shares) >= 15
    assert 0.1 * len(between) / len(shares) <= 0.05


@pytest.mark.parametrize(
    ("run", "gpu", "flagged_hz"),
    [("pt010_r1", "A100", 0.0), ("pt203_r1", "H100", 0.44)],
)
def test_import_of_a_trace_has_the_meter_of_its_gpu(run, gpu, flagged_hz):
    path = PUBLISHED / "training_power" / f"lora_4gpu_{run}.csv.gz"
    given = {"workload": "w", "n_nodes": 1, "gpu": gpu, "power_unit": "W"}
    given |= {
        "time_column": "timestamp",
        "device_column": ["gpu_id"],
        "power_column": ["power_w"],
    }
    assert import_profile(path, "plain", **given).provenance.bandwidth_hz == flagged_hz
    if gpu == "A100":
        with pytest.raises(InputError, match="the same at all times and known to 5%"):
            import_profile(path, "plain", **given, restore=True)
        return
    read, restored = (
        import_profile(path, "plain", **given, restore=of) for of in (False, True)
    )
    assert restored.mean_power_w == pytest.approx(read.mean_power_w, rel=1e-3)
    assert restored.provenance.restored_hz == 0.7
