"""Forced oscillation in ANDES: the IEEE 39-bus system, and a published table of 240
buses."""

from __future__ import annotations

import csv
import gzip
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from samples import PUBLISHED
from scipy.stats import spearmanr

pytestmark = [pytest.mark.grid_tools, pytest.mark.filterwarnings("default")]

andes: Any = pytest.importorskip("andes", reason="needs diploee[grid-test]")

RATE = 30  # samples per second of the published metric
STEP_S = 1 / 60


def square(
    hz: float, cycles: int, low_mw: float, high_mw: float
) -> list[tuple[float, float]]:
    """Return the steps of a square wave from 1 s on: instants [s] and powers [MW]."""
    halves = range(2 * cycles)
    return [(round(1 + k / 2 / hz, 6), low_mw if k % 2 else high_mw) for k in halves]


def alter(system: Any, steps: list[tuple[float, float]], **of: str) -> None:
    for k, (time_s, mw) in enumerate(steps):
        named = {
            "idx": f"A{k}",
            "name": f"A{k}",
            "t": time_s,
            "attr": "v",
            "method": "=",
        }
        system.add("Alter", {**named, **of, "amount": mw / 100})


def simulated(system: Any, end_s: float) -> tuple[np.ndarray, np.ndarray]:
    """Return times, and the power of each unit [MW] at them."""
    system.setup()
    assert system.PFlow.run()
    config = system.TDS.config
    config.tstep, config.fixt, config.no_tqdm, config.criteria, config.tf = (
        STEP_S,
        1,
        1,
        0,
        end_s,
    )
    assert system.TDS.run()
    return np.array(system.dae.ts.t), np.array(system.dae.ts.y)[
        :, system.GENROU.Pe.a
    ] * 100


def swings(time_s: np.ndarray, power_mw: np.ndarray, hz: float) -> np.ndarray:
    """Return the largest peak to peak of a cycle, of samples every 1/30 s behind 1 s
    [MW]."""
    even_s = np.arange(RATE, int(time_s[-1] * RATE + 1e-6) + 1) / RATE
    rows = np.searchsorted(time_s, even_s - 1e-6)[1:]  # the first of equal stamps
    edges = np.arange(0, len(rows) + 1, round(RATE / hz))
    return np.max(
        [np.ptp(power_mw[rows[a:b]], axis=0) for a, b in pairwise(edges)], axis=0
    )


def load(system: Any, bus: int, mw: float) -> None:
    p0 = mw / 100
    system.add(
        "PQ", {"idx": "DC", "name": "DC", "bus": bus, "Vn": 345.0, "p0": p0, "q0": 0.0}
    )


def test_a_square_at_0_6_hz_moves_the_units_of_ieee_39_by_what_the_guide_says() -> None:
    path = andes.get_case("ieee39/ieee39_full.xlsx")
    system = andes.load(path, setup=False, no_output=True, default_config=True)
    for key, value in {"p2p": 1, "p2z": 0, "q2q": 1, "q2z": 0}.items():
        setattr(system.PQ.config, key, value)
    load(system, 16, 100.0)
    alter(system, square(0.6, 6, 100, 200), model="PQ", dev="DC", src="Ppf")
    time_s, power_mw = simulated(system, 11.0)
    order = np.argsort(system.GENROU.bus.v)
    found = np.ptp(power_mw[time_s >= 1], axis=0)[order]
    assert found == pytest.approx(
        [20.15, 10.35, 22.48, 47.22, 27.12, 24.23, 33.55, 12.75, 29.37, 180.94],
        rel=0.02,
    )


DATA = PUBLISHED / "dynamics"
WITHOUT = ("REGCA1", "REECB1", "REPCA1")
AS_SHIPPED = "1.0130, 0.0130, 0.0000, 0.0000, 1.0130, 0.1130"
SWAPPED = "0.0020, 0.0000, 1.0130, 0.0130, 1.0130, 0.1130"
"""A1 to A6 of the stabilisers: ANDES 2.0 drops the numerator where A3 and A4 are 0."""


@pytest.mark.skipif(not DATA.exists(), reason="needs the published case of 240 buses")
def test_swings_of_240_buses_have_the_pattern_that_was_published(
    tmp_path: Path,
) -> None:
    records = (
        gzip.decompress((DATA / "wecc240.dyr.gz").read_bytes()).decode().split("/")
    )
    kept = "/".join(r for r in records if not any(name in r for name in WITHOUT))
    assert kept.count(AS_SHIPPED) == 10
    (tmp_path / "sync.dyr").write_text(kept.replace(AS_SHIPPED, SWAPPED))
    (tmp_path / "case.raw").write_bytes(
        gzip.decompress((DATA / "wecc240.raw.gz").read_bytes())
    )
    system = andes.load(
        str(tmp_path / "case.raw"),
        addfile=str(tmp_path / "sync.dyr"),
        setup=False,
        no_output=True,
        default_config=True,
    )
    load(system, 6508, 1e-4)
    # Constant power; others impedances
    powers = {"ap": 0.0, "aq": 0.0, "bp": 0.0, "bq": 0.0}
    system.add("FLoad", {"idx": "FDC", "name": "FDC", "pq": "DC", **powers})
    alter(system, square(1.2, 8, 0, 100), model="FLoad", dev="FDC", src="pv0")
    time_s, power_mw = simulated(system, 7.667)
    found = swings(time_s, power_mw, 1.2)

    with (DATA / "pnnl_6508_1.2hz_100mw_units.csv").open() as file:
        rows = list(csv.DictReader(file))
    pairs: dict[int, int] = {}  # row by unit: those of the same bus and start power
    for unit in np.argsort(-power_mw[0]):
        near = [
            (abs(float(row["p0_mw"]) - power_mw[0, unit]), k)
            for k, row in enumerate(rows)
            if int(row["bus"]) == system.GENROU.bus.v[unit] and k not in pairs.values()
        ]
        if near and min(near)[0] < 50:
            pairs[int(unit)] = min(near)[1]
    assert len(pairs) == 102
    ours = found[list(pairs)]
    published = np.array([float(rows[k]["p_swing_mw"]) for k in pairs.values()])
    large = published > 5
    assert (np.sum(ours > 5), np.sum(large)) == (44, 36)
    assert np.corrcoef(ours, published)[0, 1] == pytest.approx(0.991, abs=0.003)
    assert spearmanr(ours, published)[0] == pytest.approx(0.957, abs=0.005)
    ratio = ours[large] / published[large]
    assert np.percentile(ratio, [25, 50, 75]) == pytest.approx(
        [1.14, 1.30, 1.56], abs=0.02
    )
    assert (ours.max(), published.max()) == pytest.approx((126.8, 110.6), abs=0.3)
    assert ours.argmax() == published.argmax()

    system.EIG.run()
    root = np.array(system.EIG.mu)
    with np.errstate(all="ignore"):
        hz, damping = root.imag / 2 / np.pi, -100 * root.real / np.abs(root)
    for mode_hz, percent in ((0.375, 8.3), (0.756, 3.5), (0.985, 4.7), (1.300, 4.5)):
        near = (np.abs(hz - mode_hz) < 0.003) & (np.abs(damping - percent) < 0.2)
        assert near.any(), mode_hz
