"""One synchronous job swings with N, separate jobs with the root of their number."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import welch

from diploee.power import Segments
from diploee.profiles import ProfileLibrary
from diploee.scenario import load_scenario
from diploee.simulation.steps import power_series

N_NODES = 2840
JOB_NODES = 16
CYCLE_BAND_HZ = (1 / 11.0, 1 / 10.0)
N_DRAWS = 40
STEADY_S = (400, 1_100)
"""Every job is in its training cycle then: after start-up, before the first evaluation."""  # noqa: E501


@pytest.fixture(scope="module")
def cycle_rms_mw() -> dict[str, float]:
    """Band rms of the 10.5 s cycle for one 2,840-node job and for 177 jobs of 16 nodes."""  # noqa: E501
    library = ProfileLibrary.open()
    scenario = load_scenario("colocation_10mw", ["duration=30 min", "resolution=0.1 s"])
    replicates = library.select("llama2_70b_lora", JOB_NODES)

    def rms_mw(profile_id: np.ndarray, start_ms: np.ndarray, weight: float) -> float:
        n_jobs = profile_id.size
        duration_ms = np.array([library.entries[k].duration_ms for k in profile_id])
        segments = Segments(
            start_ms=start_ms,
            end_ms=np.minimum(start_ms + duration_ms, scenario.horizon_ms),
            pool_id=np.zeros(n_jobs),
            n_nodes=np.full(n_jobs, N_NODES // n_jobs),
            profile_id=profile_id,
            offset_ms=np.zeros(n_jobs),
            weight=np.full(n_jobs, weight),
        )
        power_w = power_series(segments, scenario, library)["it_power_w"].to_numpy()
        steady_w = power_w[STEADY_S[0] * 10 : STEADY_S[1] * 10]
        frequency_hz, psd = welch(steady_w, fs=10.0, nperseg=3_000, detrend="linear")
        in_band = (frequency_hz >= CYCLE_BAND_HZ[0]) & (
            frequency_hz <= CYCLE_BAND_HZ[1]
        )
        return float(np.sqrt(psd[in_band].sum() * frequency_hz[1])) / 1e6

    rng = np.random.default_rng(0)
    n_jobs = N_NODES // JOB_NODES
    coherent = rms_mw(
        np.array(replicates[:1]), np.zeros(1, dtype=int), N_NODES / JOB_NODES
    )
    draws = [
        rms_mw(rng.choice(replicates, n_jobs), rng.integers(0, 60_000, n_jobs), 1.0)
        for _ in range(N_DRAWS)
    ]
    return {
        "coherent": coherent,
        "incoherent": float(np.sqrt(np.mean(np.square(draws)))),
    }


@pytest.mark.slow
def test_one_job_on_the_whole_facility_swings_coherently(cycle_rms_mw) -> None:
    # 8.6 kW per 16-node job, two levels with 1 s edges: a fundamental of 0.68 MW rms
    # for 177.5.
    assert cycle_rms_mw["coherent"] == pytest.approx(0.68, rel=0.1)


def test_separate_jobs_swing_with_the_root_of_their_number(cycle_rms_mw) -> None:
    n_jobs = N_NODES / JOB_NODES
    expected_mw = cycle_rms_mw["coherent"] / np.sqrt(n_jobs)
    # Squares of single draws scatter by 100 % (random phases); their mean over the
    # draws by 16 %, so the root by 8 %: within three of those.
    assert cycle_rms_mw["incoherent"] == pytest.approx(expected_mw, rel=0.24)
