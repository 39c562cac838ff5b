"""PDUs, UPS, transformers and the point of interconnection: active and reactive power."""  # noqa: E501

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import Keeps, tiny_run
from pvlib.transformer import simple_efficiency

from diploee.base.clock import RunClock
from diploee.base.errors import InputError, StageError
from diploee.base.model import assumed_keys
from diploee.facility import STAGES, Block, SiteView, Weather
from diploee.facility.base import POWER, REACTIVE, StageMeters, Stages, check_order
from diploee.facility.transformers import PRESETS
from diploee.facility.ups import CURVES

CLOCK = RunClock(datetime(2018, 1, 1), UTC, 86_400_000, 60_000)
SITE = SiteView(CLOCK, 10e6, True)
PDU: Any = {"kind": "pdu"}
UPS: Any = {"kind": "ups"}
POI: Any = {"kind": "point_of_interconnection"}
LOSS: Any = {"kind": "constant_loss", "loss_fraction": 0.1}
TWO: Any = {
    "kind": "transformers",
    "units": [
        {"preset": "mv_lv", "rated_mva": 16},
        {"preset": "hv_mv", "rated_mva": 20},
    ],
}


def opened(stages: Sequence[Any], site: SiteView = SITE) -> Stages:
    specs = [STAGES.read(stage) for stage in stages]
    columns = tuple(column for spec in specs for column in spec.columns)
    return Stages([spec.open(replace(site, columns=columns)) for spec in specs])


def through(
    stages: Sequence[Any], power_w: Any, reactive_var: Any = 0.0, site: SiteView = SITE
) -> dict[str, np.ndarray]:
    power_w = np.atleast_1d(np.asarray(power_w, dtype=float))
    reactive_var = np.broadcast_to(
        np.asarray(reactive_var, dtype=float), power_w.shape
    ).copy()
    chain = opened(stages, site)
    columns = {"it_ac_power_w": power_w, POWER: power_w, REACTIVE: reactive_var}
    (block,) = chain.pass_blocks(iter([Block(0, 100, columns)]))
    return dict(block.columns)


def golden_stages(cooling: str) -> list[Any]:
    """Return the site whose values were computed apart."""
    plant = {"kind": cooling, "other_heat_kw": 20}
    return [PDU, UPS, plant, {"kind": "auxiliary_load"}, TWO, POI]


def site_at(*wet_bulb_c: float) -> SiteView:
    """Return a site whose wet bulb goes from one temperature to the other over its day."""  # noqa: E501
    ends_ms, one = np.array([0, CLOCK.horizon_ms]), np.ones(2)
    wet_c = np.broadcast_to(np.array(wet_bulb_c, dtype=float), 2).copy()
    weather = Weather(ends_ms, wet_c + 8, wet_c, 101_325 * one, "a line", False)
    return replace(SITE, weather=weather)


def through_golden_site(
    cooling: str, wet_bulb_c: float, power_w: Any
) -> dict[str, np.ndarray]:
    """Return what the site draws at a constant wet bulb, from steady on."""
    return through(golden_stages(cooling), power_w, -2.4e5, site_at(wet_bulb_c))


@pytest.mark.parametrize(
    ("it_mw", "cooling", "wet_bulb_c", "poi_mw", "poi_mvar"),
    [
        (10, "wse", 15, 11.33264, 0.75954),
        (10, "wse", 22, 12.65387, 1.41555),
        (4, "wse", 15, 4.52987, -0.30611),
        (10, "dlc_tower", 15, 11.02245, 0.61030),
    ],
)
def test_the_golden_site_draws_its_active_and_reactive_power(
    it_mw: float, cooling: str, wet_bulb_c: float, poi_mw: float, poi_mvar: float
) -> None:
    found = through_golden_site(cooling, wet_bulb_c, 1e6 * it_mw)
    for name, expected in (("poi_power_w", poi_mw), ("poi_reactive_var", poi_mvar)):
        assert found[name][0] / 1e6 == pytest.approx(expected, rel=1e-4)


def test_the_golden_site_has_its_cooling_bus_and_power_factor() -> None:
    found = through_golden_site("wse", 15, 10e6)
    bus_w = found["poi_power_w"][0] - found["transformer_loss_w"][0]
    assert found["cooling_w"][0] == pytest.approx(0.62541e6, rel=1e-4)
    assert bus_w == pytest.approx(11.24904e6, rel=1e-4)
    for wet_bulb_c, factor in ((15, 0.99776), (22, 0.99380)):
        found = through_golden_site("wse", wet_bulb_c, 10e6)
        apparent_va = np.hypot(found["poi_power_w"], found["poi_reactive_var"])
        assert found["poi_power_w"] / apparent_va == pytest.approx(factor, rel=1e-4)


@pytest.mark.parametrize(
    ("mode", "efficiency"),
    [
        ("double_conversion", [94.98, 95.99, 95.97, 95.69]),
        ("high_efficiency_dc", [95.90, 97.23, 97.38, 97.23]),
        ("eco", [98.50, 99.12, 99.27, 99.30]),
        ("econversion", [98.50, 99.12, 99.27, 99.30]),
        ("none", [100, 100, 100, 100]),
    ],
)
def test_a_ups_has_the_efficiency_of_its_mode(
    mode: str, efficiency: list[float]
) -> None:
    load = np.array([0.25, 0.5, 0.75, 1])
    found = through([{"kind": "ups", "mode": mode, "installed_mw": 8}], 8e6 * load)
    np.testing.assert_allclose(
        8e8 * load / found["ups_input_w"], efficiency, atol=0.006
    )


@pytest.mark.parametrize(
    ("mode", "behind_var"),
    [
        ("double_conversion", -0.05 * 13.5e6),
        ("high_efficiency_dc", -0.05 * 13.5e6),
        ("eco", -4e5),
        ("none", -4e5),
        ("econversion", 0.0),
    ],
)
def test_a_ups_hides_passes_or_cancels_the_nodes_reactive_power(
    mode: str, behind_var: float
) -> None:
    found = through([{"kind": "ups", "mode": mode}], [1e6, 9e6], -4e5)
    np.testing.assert_allclose(found[REACTIVE], behind_var)


def test_a_ups_leads_by_its_filter_the_more_the_less_it_is_loaded() -> None:
    load = np.array([0.1, 0.25, 0.5, 1])
    found = through(
        [{"kind": "ups", "mode": "none", "installed_mw": 1}], 1e6 * load, -0.05e6
    )
    factor = found[POWER] / np.hypot(found[POWER], found[REACTIVE])
    np.testing.assert_allclose(factor, [0.894, 0.981, 0.995, 0.999], atol=6e-4)


@pytest.mark.parametrize(
    ("keys", "installed_mw"),
    [
        ({}, 13.5),
        ({"redundancy": "n"}, 10),
        ({"redundancy": "n+1"}, 13.5),
        ({"redundancy": "2n"}, 20),
        ({"installed_mw": 17.0}, 17),
    ],
)
def test_a_ups_is_installed_for_the_design_power_and_its_redundancy(
    keys: dict[str, Any], installed_mw: float
) -> None:
    assert STAGES.read(UPS | keys).open(SITE).installed_mw == pytest.approx(
        installed_mw
    )


def test_a_users_own_ups_has_its_efficiencies() -> None:
    own = {"kind": "table", "efficiency": {0.2: 0.93, 0.6: 0.96, 1.0: 0.95}}
    found = through([UPS | {"efficiency": own, "installed_mw": 1}], [2e5, 6e5, 1e6])
    np.testing.assert_allclose(
        found["ups_input_w"], [2e5 / 0.93, 6e5 / 0.96, 1e6 / 0.95]
    )
    np.testing.assert_allclose(found[REACTIVE], -5e4)


def test_dry_type_transformers_have_the_efficiency_of_the_rule() -> None:
    """99.28 % at 35 % load, 10 CFR 431.196 for 1000 kVA; no load loss and load loss
    alike there."""
    unit = {"preset": "dry_type", "rated_mva": 1}
    found = through([{"kind": "transformers", "units": [unit]}], 0.35e6)
    assert 0.35e6 / found[POWER][0] == pytest.approx(0.9928, abs=1e-4)
    unit = {"preset": "mv_lv", "rated_mva": 1}
    found = through([{"kind": "transformers", "units": [unit]}], 0.5e6)
    assert 0.5e6 / found[POWER][0] == pytest.approx(0.9953, abs=1e-4)


@pytest.mark.parametrize("preset", PRESETS)
def test_pvlib_takes_our_power_back_to_the_secondary_of_a_transformer(
    preset: str,
) -> None:
    power_w, losses = np.linspace(0, 1.2e6, 50), PRESETS[preset]
    unit = {"preset": preset, "rated_mva": 1}
    found_w = through([{"kind": "transformers", "units": [unit]}], power_w)[POWER]
    back_w = simple_efficiency(found_w, losses.p0, losses.p_k, 1e6)
    np.testing.assert_allclose(back_w, power_w, rtol=1e-9, atol=1e-6)


@pytest.mark.parametrize("mode", ["high_efficiency_dc", "eco", "econversion"])
def test_pvlib_takes_our_power_back_to_the_output_of_a_ups(mode: str) -> None:
    """Those whose loss has no linear part, as pvlib's has none."""
    power_w = np.linspace(0, 1.2e6, 50)
    found_w = through([{"kind": "ups", "mode": mode, "installed_mw": 1}], power_w)[
        "ups_input_w"
    ]
    a0, a1, a2 = CURVES[mode].coefficients[:, 0]
    assert a1 == 0
    back_w = simple_efficiency(found_w, a0, a2, 1e6)
    np.testing.assert_allclose(back_w, power_w, rtol=1e-9, atol=1e-6)


def test_transformers_stand_in_the_order_that_is_given() -> None:
    """Each sees what those before it lose: the second in a row is the first of the
    rest."""
    both = through([TWO], [2e6, 9e6], -4e5)
    one = through([TWO | {"units": TWO["units"][:1]}], [2e6, 9e6], -4e5)
    rest = through([TWO | {"units": TWO["units"][1:]}], one[POWER], one[REACTIVE])
    for name in (POWER, REACTIVE):
        np.testing.assert_array_equal(both[name], rest[name])
    loss_w = one["transformer_loss_w"] + rest["transformer_loss_w"]
    np.testing.assert_allclose(both["transformer_loss_w"], loss_w, rtol=1e-15)
    apart_va = np.hypot([2e6, 9e6], 4e5) / 16e6
    np.testing.assert_allclose(both["transformer_load"], apart_va, rtol=1e-12)


POWERS_W = np.random.default_rng(7).uniform(1e5, 12e6, 2_000)
CHAIN: list[Any] = [PDU, UPS, {"kind": "auxiliary_load", "power_kw": 80}, TWO, POI]


def test_power_at_the_meter_is_the_sum_of_its_parts() -> None:
    found = through(CHAIN, POWERS_W, -3e5)
    losses_w = found["pdu_loss_w"] + found["ups_loss_w"] + found["transformer_loss_w"]
    np.testing.assert_allclose(found["loss_w"], losses_w, rtol=1e-15)
    parts_w = POWERS_W + losses_w + found["auxiliary_power_w"]
    np.testing.assert_allclose(found["poi_power_w"], parts_w, rtol=1e-12)


def test_more_power_of_the_nodes_never_draws_less_at_the_meter() -> None:
    found = through(CHAIN, np.linspace(0, 15e6, 3_000))
    for name in ("poi_power_w", "poi_reactive_var", "loss_w", "transformer_load"):
        assert (np.diff(found[name]) > 0).all()


def test_a_swing_has_the_gain_of_the_electrical_parts_and_not_of_the_pue() -> None:
    """0.5 MW at 0.1 Hz around 7 MW behind that site's PDUs, UPS and two transformers."""  # noqa: E501
    swing_w = 0.25e6 * np.sin(2 * np.pi * 0.1 * np.arange(0, 600, 0.1))
    found_w = through_golden_site("wse", 15, 7e6 + swing_w)["poi_power_w"][-300:]
    gain = np.ptp(found_w) / np.ptp(swing_w)
    assert gain == pytest.approx(1.057, abs=0.003)
    assert found_w.mean() / 7e6 > 1.11


BATTERY: Any = {"kind": "battery", "power_mw": 2, "energy_mwh": 0.5, "auxiliary_kw": 20}
LIMIT: Any = {
    "kind": "ramp_limit",
    "up_mw_per_min": 4,
    "down_mw_per_min": 6,
    "ballast_mw": 1,
}


@pytest.mark.parametrize(
    ("cooling", "held"),
    [
        ("wse", BATTERY | {"smoothing_s": 30, "feedback_per_h": 4}),
        ("dlc_tower", BATTERY | {"ramp_limit": {"up_mw_per_min": 4}}),
        ("air_chiller", LIMIT),
        ("air_chiller", LIMIT | {"curtails": True}),
    ],
)
def test_blocks_cut_anywhere_give_the_same_bytes(cooling: str, held: Any) -> None:
    rng = np.random.default_rng(len(cooling))
    cuts = {0, 1, *rng.choice(POWERS_W.size, 12, replace=False).tolist(), POWERS_W.size}
    chain = opened([*golden_stages(cooling)[:-1], held, POI], site_at(5, 25))

    def blocks(edges: Sequence[int]) -> Iterator[Block]:
        for begin, end in pairwise(edges):
            power_w = POWERS_W[begin:end]
            columns = {
                "it_ac_power_w": power_w,
                POWER: power_w,
                REACTIVE: -0.04 * power_w,
            }
            yield Block(begin * 40_000, 40_000, columns)

    (whole,) = chain.pass_blocks(blocks([0, POWERS_W.size]))
    parts = list(chain.pass_blocks(blocks(sorted(cuts))))
    for name, values in whole.columns.items():
        cut = np.concatenate([part.columns[name] for part in parts])
        assert cut.tobytes() == values.tobytes(), name


def test_loads_above_a_rating_are_counted_and_not_clipped() -> None:
    given: list[Any] = [
        PDU | {"rated_mw": 8},
        UPS | {"installed_mw": 9},
        {"kind": "transformers", "units": [{"preset": "mv_lv", "rated_mva": 9.5}]},
    ]
    power_w = np.array([7e6, 8e6, 8.5e6, 9e6])
    found = through(given, power_w)
    assert found[POWER][-1] > 9.5e6
    meters = StageMeters(opened(given), [])
    meters.add(Block(0, 1_800_000, found))
    metrics = meters.blocks()
    hours = {part: values["hours_above_rating"] for part, values in metrics.items()}
    assert hours == {"pdu": 1.0, "ups": 0.5, "transformers": 0.5}
    assert metrics["pdu"]["max_load"] == pytest.approx(9 / 8)
    assert metrics["ups"]["energy_mwh"] == pytest.approx(
        found["ups_loss_w"].sum() / 2e6
    )


AC = {"facility.node_types.node.ac_power": "dlc"}


def test_a_run_warns_of_a_load_above_a_rating_and_says_where_its_power_is_taken(
    tmp_path: Path,
) -> None:
    small = UPS | {"installed_mw": 0.004}
    stages = [PDU, small, {"kind": "auxiliary_load"}, "transformers", POI]
    changes = {"duration": "12 h", "facility.stages": stages, **AC}
    run = tiny_run(tmp_path / "run", changes)
    (warning,) = (text for text in run.manifest["warnings"] if text.startswith("ups: "))
    assert "above its rating in 12 h" in warning
    assert "pdu: " not in "".join(run.manifest["warnings"])
    series = run.facility()
    np.testing.assert_array_equal(series["poi_power_w"], series["facility_power_w"])
    np.testing.assert_array_equal(
        series["poi_reactive_var"], series["facility_reactive_var"]
    )
    words = "behind transformers, at the point of interconnection"
    for column in ("facility_power_w", "facility_reactive_var"):
        assert run.boundary(column).endswith(words)
    assert run.metrics["ups"]["hours_above_rating"] == 12
    rated_w = run.scenario.facility.supplied_power_w
    np.testing.assert_allclose(series["auxiliary_power_w"], 0.01 * rated_w, rtol=1e-6)


OWN = {"p0": 0.001, "p_k": 0.005, "i0": 0.004, "u_k": 0.08, "rated_mva": 12}


@pytest.mark.parametrize(
    ("stage", "assumed"),
    [
        (PDU | {"linear_loss": 0.004}, {"square_loss"}),
        (UPS, {"mode", "efficiency", "redundancy", "filter_share"}),
        (UPS | {"installed_mw": 5, "filter_share": 0.02}, {"mode", "efficiency"}),
        (UPS | {"mode": "none", "redundancy": "n"}, {"redundancy"}),
        ({"kind": "auxiliary_load", "power_kw": 5}, {"power_factor"}),
        ("transformers", {"units"}),
        (
            {"kind": "transformers", "units": [{"preset": "hv_mv"}]},
            {"preset", "rated_mva"},
        ),
        ({"kind": "transformers", "units": [OWN]}, set()),
        (POI, set()),
    ],
)
def test_assumptions_of_a_stage_are_listed_by_key(
    stage: Any, assumed: set[str]
) -> None:
    assert {
        key.rpartition(".")[2] for key in assumed_keys(STAGES.read(stage))
    } == assumed


@pytest.mark.parametrize(
    ("order", "text"),
    [
        (
            [UPS, PDU],
            "stages.1: 'pdu' must not come after 'ups'; the order is pdu",
        ),
        ([PDU, TWO, LOSS, UPS], "stages.3: 'ups' must not come after 'transformers'"),
        ([POI, LOSS], "'constant_loss' must not come after 'point_of_interc"),
    ],
)
def test_stages_that_do_not_stand_in_order_are_refused_in_one_line(
    tmp_path: Path, order: list[Any], text: str
) -> None:
    with pytest.raises(StageError, match=f"^facility.*{text}.*$"):
        tiny_run(tmp_path / "run", {"facility.stages": order, **AC})
    with pytest.raises(StageError, match="'object' must not come after 'point_of_i"):
        check_order([STAGES.read(POI), object()])


def test_every_cooling_plant_stands_in_the_place_of_cooling() -> None:
    for name, spec in STAGES.by_name.items():
        cools = any(column.name == "cooling_w" for column in spec.columns)
        assert not cools or spec.place == "cooling", name


@pytest.mark.parametrize(
    "kind", ["pdu", "ups", "transformers", "point_of_interconnection"]
)
def test_a_part_of_the_chain_asks_for_the_nodes_ac_power(kind: str) -> None:
    with pytest.raises(InputError, match=r"facility\.node_types\.<name>\.ac_power"):
        STAGES.read(kind).open(SiteView(CLOCK, 10e6))
    if kind != "point_of_interconnection":
        with pytest.raises(InputError, match="which is 0 W"):
            STAGES.read(kind).open(SiteView(CLOCK, 0.0, True))


STEPS_S = {"0.1 s": 0.1, "1 s": 1, "1 min": 60, "1 h": 3_600}


def run_chain(tmp_path: Path, resolution: str) -> Keeps:
    """Return a run's blocks behind a whole chain."""
    stages = [PDU, UPS, {"kind": "auxiliary_load"}, "transformers", POI]
    span = {"duration": "26 h", "resolution": resolution}
    changes, kept = span | AC | {"facility.stages": stages}, Keeps()
    tiny_run(tmp_path / "run", changes, force=True, sinks=[kept])
    return kept


@pytest.mark.slow
def test_a_runs_energy_at_the_meter_hardly_depends_on_its_resolution(
    tmp_path: Path,
) -> None:
    """A mean's loss is a little less than the mean loss; 0.2 % is allowed."""
    power_w = [run_chain(tmp_path, name)["poi_power_w"] for name in STEPS_S]
    energy_j = [of.sum() * s for of, s in zip(power_w, STEPS_S.values(), strict=True)]
    np.testing.assert_allclose(energy_j, energy_j[0], rtol=2e-3)
    assert (np.diff(energy_j) < 0).all()
