"""Power at the point of interconnection: energies by part, ratios, power factor,
demand."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from math import hypot, sqrt
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from builders import TYPICAL_DENVER, tiny_run, tiny_scenario

from diploee import Run
from diploee.base.clock import WallClock
from diploee.base.column_specs import catalogue
from diploee.base.errors import InputError, ScenarioError
from diploee.base.measures.streaming import sum_quanta, to_quanta
from diploee.facility import STAGES, Block
from diploee.facility.point_of_interconnection import (
    Billing,
    PointOfInterconnectionSpec,
)
from diploee.grid.export import export_run
from diploee.metrics.billing import (
    adjust_for_power_factor,
    excess_reactive_demand,
    power_factor,
    ratchets,
)
from diploee.metrics.poi import PoiMetrics
from diploee.power.blocks import AC_COLUMNS, POWER_COLUMNS
from diploee.reports.build import build_report
from diploee.simulation.size import scale_scenario

COLUMNS = catalogue(
    POWER_COLUMNS, AC_COLUMNS, *(s.columns for s in STAGES.by_name.values())
)
MW = 1e6
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
DENVER = ZoneInfo("America/Denver")
START = datetime(2018, 1, 1, tzinfo=DENVER)


def chain(poi_mw: Any, poi_mvar: Any, step_ms: int = MINUTE) -> Block:
    """Return a block as the chain leaves it: parts in fixed shares, which sum to the
    whole."""
    power_w = np.asarray(poi_mw, dtype=float) * MW
    shares = {
        "it_power_w": 0.7,
        "it_ac_power_w": 0.8,
        "pdu_loss_w": 0.01,
        "ups_loss_w": 0.04,
        "transformer_loss_w": 0.01,
        "cooling_w": 0.12,
        "auxiliary_power_w": 0.02,
    }
    columns = {name: share * power_w for name, share in shares.items()}
    reactive_var = np.full(power_w.shape, np.asarray(poi_mvar, dtype=float) * MW)
    of_poi = {
        "facility_power_w": power_w,
        "poi_power_w": power_w,
        "poi_reactive_var": reactive_var,
    }
    return Block(0, step_ms, columns | of_poi)


def measured(
    block: Block,
    start: datetime = START,
    transient_ms: int = 0,
    cuts: Any = (),
    **terms: Any,
) -> dict[str, Any]:
    """Return the blocks of the metrics, the intervals handed over in several parts."""
    metrics = PoiMetrics(WallClock(start, block.dt_ms), COLUMNS, **terms)
    edges = [0, *(int(k) * block.dt_ms for k in cuts), block.end_ms]
    for begin_ms, end_ms in pairwise(edges):
        metrics.add(block.part(begin_ms, end_ms), transient_ms)
    return metrics.blocks()


def demand(found: dict[str, Any], month: str, minutes: int) -> dict[str, Any]:
    entry = next(e for e in found["billing"]["months"] if e["month"] == month)
    return next(d for d in entry["demand"] if d["interval_min"] == minutes)


def test_constant_power_has_its_closed_form() -> None:
    found = measured(chain(np.full(31 * 1440, 10.0), 5.0), contract_mva=12.0)
    poi, (month,) = found["poi"], found["billing"]["months"]
    hours, mva = 31 * 24, sqrt(125)
    shares = {"device": 7, "node_overhead": 1, "pdu": 0.1, "ups": 0.4}
    shares |= {"transformers": 0.1, "cooling": 1.2, "auxiliary": 0.2, "total": 10}
    energy = {f"{part}_mwh": mw * hours for part, mw in shares.items()}
    assert poi["energy"] == pytest.approx(energy)
    assert (poi["pue"], poi["ppue_cooling"], poi["tue_device"]) == pytest.approx(
        (1 / 0.8, 1 + 0.12 / 0.8, 1 / 0.7)
    )
    found_factors = (poi["lagging_power_factor"], poi["peak"]["power_factor"])
    assert found_factors == pytest.approx((10 / mva,) * 2)
    assert poi["leading_power_factor"] == 1
    assert poi["headroom"]["mva"] == pytest.approx(12 - mva)
    assert poi["headroom"]["over_h"] == 0
    assert (poi["drawn_mvarh"], poi["supplied_mvarh"]) == pytest.approx((5 * hours, 0))
    assert month["complete"] and month["hours"] == hours
    assert [d["interval_min"] for d in month["demand"]] == [15, 30, 60]
    for of_interval in month["demand"]:
        assert of_interval["max_mva"] == pytest.approx(mva)
        assert of_interval["load_factor"] == pytest.approx(1)
        assert of_interval["time"] == "2018-01-01T00:00:00-07:00"


def test_reactive_energy_drawn_and_supplied_is_not_netted() -> None:
    q_mvar = np.where(np.arange(1440) % 20 < 10, 3.0, -1.0)
    found = measured(chain(np.full(1440, 4.0), q_mvar))
    poi, (month,) = found["poi"], found["billing"]["months"]
    assert (month["drawn_mvarh"], month["supplied_mvarh"]) == pytest.approx((36, 12))
    assert month["lagging_power_factor"] == pytest.approx(96 / hypot(96, 36))
    assert month["leading_power_factor"] == pytest.approx(96 / hypot(96, 12))
    assert (poi["reactive"]["max_mvar"], poi["reactive"]["min_mvar"]) == (3, -1)
    assert poi["reactive"]["min_mvar_time"][11:16] == "00:10"
    assert poi["reactive"]["leading_h"] == pytest.approx(12)
    assert poi["reactive"]["lagging_h"] == pytest.approx(12)


def test_apparent_demand_is_formed_of_the_means_of_p_and_q() -> None:
    """Q swings within the interval; the mean of kVA would be larger, as hypot is
    convex."""
    q_mvar = np.where(np.arange(60) % 2, 4.0, -2.0)
    found = measured(chain(np.full(60, 3.0), q_mvar))
    # Eight of fifteen minutes at 4 Mvar
    most = q_mvar.reshape(4, 15).mean(axis=1).max()
    assert demand(found, "2018-01", 15)["max_mva"] == pytest.approx(hypot(3, most))
    assert demand(found, "2018-01", 60)["max_mva"] == pytest.approx(hypot(3, 1))
    of_single_mva = (hypot(3, 4) + hypot(3, 2)) / 2
    assert hypot(3, 1) < of_single_mva < found["poi"]["apparent"]["max_mva"]


def test_largest_kw_kva_and_kvar_have_times_of_their_own() -> None:
    p_mw, q_mvar = np.full(1440, 2.0), np.zeros(1440)
    p_mw[60:75] = 6  # 01:00
    p_mw[120:135], q_mvar[120:135] = 5, 4  # 02:00
    q_mvar[180:195] = 4.5  # 03:00
    q_mvar[240:255] = -3  # 04:00
    of = demand(measured(chain(p_mw, q_mvar)), "2018-01", 15)
    assert (of["max_mw"], of["max_mvar"], of["min_mvar"]) == (6, 4.5, -3)
    assert of["max_mva"] == pytest.approx(hypot(5, 4))
    keys = ("time", "max_mva_time", "max_mvar_time", "min_mvar_time")
    times = [of[key][11:16] for key in keys]
    assert times == ["01:00", "02:00", "03:00", "04:00"]
    assert of["power_factor"] == 1


@pytest.mark.parametrize(("month", "day", "hours"), [(3, 11, 743), (11, 4, 721)])
def test_a_month_with_a_change_of_the_clock_has_an_hour_less_or_more(
    month: int, day: int, hours: int
) -> None:
    start = datetime(2018, month, 1, tzinfo=DENVER)
    p_mw = np.full(hours * 4 + 96, 2.0)
    p_mw[hours * 4 :] = 3  # the day behind the month
    found = measured(chain(p_mw, 0.5, 15 * MINUTE), start)
    entry = found["billing"]["months"][0]
    assert entry["complete"] and entry["hours"] == hours
    assert entry["energy_mwh"] == pytest.approx(2 * hours)
    assert not found["billing"]["months"][1]["complete"]
    for minutes in (15, 30, 60):
        of = demand(found, f"2018-{month:02}", minutes)
        assert (of["max_mw"], of["load_factor"]) == pytest.approx((2, 1))


def test_months_are_those_of_the_wall_clock() -> None:
    """The last local hour of January, which is already February in UTC, belongs to
    January."""
    start = datetime(2018, 1, 31, 22, tzinfo=timezone(timedelta(hours=-7)))
    p_mw = np.repeat([1.0, 5.0, 2.0], 60)
    found = measured(chain(p_mw, 0.0), start)
    months = {e["month"]: e for e in found["billing"]["months"]}
    assert months["2018-01"]["energy_mwh"] == pytest.approx(6)
    assert months["2018-02"]["energy_mwh"] == pytest.approx(2)
    assert demand(found, "2018-01", 60)["max_mw"] == 5
    assert demand(found, "2018-02", 60)["max_mw"] == 2
    assert list(found["poi"]["monthly"]) == ["2018-01", "2018-02"]


def year(seed: int, n_days: int = 70) -> Block:
    rng = np.random.default_rng(seed)
    n = n_days * 288
    return chain(rng.uniform(2, 11, n), rng.uniform(-2, 4, n), 5 * MINUTE)


def test_block_cuts_change_no_value() -> None:
    block, rng = year(1), np.random.default_rng(2)
    terms = {"contract_mva": 9.0, "billing": Billing(ratchet=0.8)}
    terms["transient_ms"] = 3 * HOUR
    whole = measured(block, **terms)
    for n_cuts in (1, 7, 200):
        cuts = np.sort(rng.choice(np.arange(1, len(block)), n_cuts, replace=False))
        assert measured(block, cuts=cuts, **terms) == whole


def test_months_sum_to_the_totals() -> None:
    found = measured(year(3))
    poi, months = found["poi"], found["billing"]["months"]
    assert len(months) == 3
    for name, total in poi["energy"].items():
        of_months = sum(of["energy"][name] for of in poi["monthly"].values())
        assert of_months == pytest.approx(total, rel=1e-12)
    for name in ("drawn_mvarh", "supplied_mvarh"):
        assert sum(m[name] for m in months) == pytest.approx(poi[name], rel=1e-12)
    total = poi["energy"]["total_mwh"]
    assert sum(m["energy_mwh"] for m in months) == pytest.approx(total, rel=1e-12)
    assert total == pytest.approx(sum(poi["energy"].values()) - total, rel=1e-9)
    assert max(m["demand"][0]["max_mw"] for m in months) <= poi["peak"]["max_mw"]


def test_the_time_in_which_a_run_fills_up_is_in_energies_alone() -> None:
    p_mw, q_mvar = np.full(1440, 5.0), np.full(1440, 1.0)
    p_mw[:60], q_mvar[:60] = 0.5, -2  # empty, so leading
    found = measured(chain(p_mw, q_mvar), transient_ms=60 * MINUTE)
    poi = found["poi"]
    assert poi["energy"]["total_mwh"] == pytest.approx(0.5 + 23 * 5)
    assert poi["supplied_mvarh"] == pytest.approx(2)
    assert (poi["reactive"]["min_mvar"], poi["reactive"]["leading_h"]) == (1, 0)


def test_a_run_that_never_fills_up_has_no_extremes() -> None:
    found = measured(chain(np.full(60, 5.0), 1.0), transient_ms=HOUR)
    assert "peak" not in found["poi"] and found["poi"]["pue"] == pytest.approx(1.25)
    assert found["billing"]["months"][0]["demand"] == []
    assert len(found["billing"]["absent"]) == 3


def test_hours_above_the_contract_are_counted() -> None:
    power = chain(np.repeat([4.0, 8.0], [90, 30]), 3.0)
    for unit, contract, most in (("mva", 6.0, hypot(8, 3)), ("mw", 5.0, 8.0)):
        key, use = f"contract_{unit}", most / contract
        expected = {key: contract, unit: contract - most, "fraction": 1 - use}
        found = measured(power, **{key: contract})["poi"]["headroom"]
        assert found == pytest.approx(expected | {"over_h": 0.5, "use": use})
    assert "headroom" not in measured(chain(np.ones(60), 0.0))["poi"]


def test_parts_that_a_facility_lacks_are_not_reported() -> None:
    block = chain(np.full(60, 2.0), 0.1)
    lacks = {"cooling_w", "ups_loss_w"}
    without = {name: of for name, of in block.columns.items() if name not in lacks}
    poi = measured(Block(0, MINUTE, without))["poi"]
    assert "cooling_mwh" not in poi["energy"] and "ups_mwh" not in poi["energy"]
    assert poi["ppue_cooling"] is None


def test_what_other_stages_take_is_a_part_of_its_own(tmp_path: Path) -> None:
    size = {"power_mw": 0.01, "energy_mwh": 0.01}
    battery = {"kind": "battery", **size, "smoothing_s": 600, "auxiliary_kw": 0.5}
    changes = metered() | {"duration": "1 d"}
    changes["facility.stages"].insert(0, battery)
    run = tiny_run(tmp_path / "run", changes)
    energy, series = run.metrics["poi"]["energy"], run.facility()
    gives_mwh = series["battery_power_w"].to_numpy(float).sum() / 60 / 1e6
    assert energy["other_mwh"] == pytest.approx(0.012 - gives_mwh, rel=1e-4)
    assert energy.pop("total_mwh") == pytest.approx(sum(energy.values()), rel=1e-7)


def test_rules_of_a_tariff() -> None:
    assert power_factor(3, -4) == 0.6 and power_factor(0, 0) is None
    assert adjust_for_power_factor(100, 0.8, 0.95) == pytest.approx(118.75)
    assert (
        adjust_for_power_factor(100, 0.95, 0.95)
        == adjust_for_power_factor(100, None, 0.95)
        == 100
    )
    assert excess_reactive_demand(70, 100, 0.62) == pytest.approx(8)
    assert (
        excess_reactive_demand(-70, 100, 0.62)
        == excess_reactive_demand(62, 100, 0.62)
        == 0
    )
    assert power_factor(1, 0.62) == pytest.approx(0.85, abs=1e-3)


def test_a_ratchet_looks_back_eleven_months_and_flags_what_it_cannot_see() -> None:
    demands = [10.0, *[4.0] * 13]
    found = ratchets(demands, 0.8)
    assert [value for value, _ in found] == [0, *[8.0] * 11, *[3.2] * 2]
    assert [lower_bound for _, lower_bound in found] == [*[True] * 11, *[False] * 3]


def two_years(**rules: Any) -> list[dict[str, Any]]:
    """Return the months of 25 at one hour: the first at 10 MW, the others at 4 MW, pf
    0.8."""
    clock_hours = 24 * (31 + 365 + 334)
    p_mw = np.full(clock_hours, 4.0)
    p_mw[: 31 * 24] = 10
    rules = {"interval_min": 60, **rules}
    found = measured(chain(p_mw, 0.75 * p_mw, HOUR), billing=Billing(**rules))
    return found["billing"]["months"]


def test_billed_demand_follows_its_rules_in_their_order() -> None:
    rules = {"power_factor_min": 0.95, "ratchet": 0.8, "contract_minimum_mw": 4.8}
    months = two_years(**rules, kvar_free_share=0.62)
    first, second, later = (months[k]["billed"] for k in (0, 1, 13))
    raised = 0.95 / 0.8
    assert first["for_power_factor_mw"] == first["max_mw"] == pytest.approx(10 * raised)
    assert first["reactive_mvar"] == pytest.approx(7.5 - 6.2)
    assert (first["ratchet_mw"], first["lower_bound"]) == (0, True)
    assert second["max_mw"] == second["ratchet_mw"] == pytest.approx(0.8 * 10 * raised)
    assert (later["max_mw"], later["lower_bound"]) == (4.8, False)
    flags = [month["billed"]["lower_bound"] for month in months[:13]]
    assert flags == [*[True] * 11, False, False]


def test_a_month_seen_in_part_leaves_the_ratchet_a_lower_bound() -> None:
    late, terms = START.replace(day=2), Billing(interval_min=60, ratchet=0.8)
    found = measured(chain(np.full(24 * 395, 4.0), 1.0, HOUR), late, billing=terms)
    months = found["billing"]["months"]
    assert not months[0]["complete"]
    flags = [m["billed"]["lower_bound"] for m in months]
    assert flags == [*[True] * 12, *[False] * (len(flags) - 12)]


def test_demand_that_the_resolution_does_not_hold_is_reported() -> None:
    found = measured(chain(np.full(48, 2.0), 0.0, HOUR))["billing"]
    assert [d["interval_min"] for d in found["months"][0]["demand"]] == [60]
    assert [a["interval_min"] for a in found["absent"]] == [15, 30]


def test_rules_on_a_demand_that_the_run_cannot_hold_are_refused() -> None:
    remedy = r"15 min is shorter than the run's resolution of 3600 s; have: '60'"
    with pytest.raises(InputError, match=remedy):
        PoiMetrics(WallClock(START, HOUR), COLUMNS, billing=Billing(ratchet=0.5))
    hourly = Billing(ratchet=0.5, interval_min=60)
    PoiMetrics(WallClock(START, HOUR), COLUMNS, billing=hourly)


@pytest.fixture(scope="module")
def metered_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run over the turn of a month, with typical weather."""
    terms = {"contract_mva": 0.05, "billing": {"ratchet": 0.8}}
    meter = {"kind": "point_of_interconnection", **terms}
    auxiliary = {"kind": "auxiliary_load", "power_kw": 1.0}
    changes = {
        "start": "2018-01-31",
        "duration": "2 d",
        "facility.node_types.node.ac_power": "air_hgx",
        "facility.stages": [
            "pdu",
            "ups",
            "air_chiller",
            auxiliary,
            "transformers",
            meter,
        ],
    }
    folder = tmp_path_factory.mktemp("metered") / "run"
    return tiny_run(folder, changes | TYPICAL_DENVER)


def test_a_run_measures_its_point_of_interconnection(metered_run: Run) -> None:
    poi, billing = metered_run.metrics["poi"], metered_run.metrics["billing"]
    series, energy = metered_run.facility(), dict(poi["energy"])

    def stored_mwh(column: str) -> float:
        return series[column].to_numpy(float).sum() / 60 / 1e6

    total_mwh = energy.pop("total_mwh")
    assert total_mwh == pytest.approx(stored_mwh("poi_power_w"), rel=1e-6)
    assert total_mwh == pytest.approx(sum(energy.values()), rel=1e-6)
    ac_mwh, device_mwh = stored_mwh("it_ac_power_w"), stored_mwh("it_power_w")
    for key, expected in (
        ("pue", total_mwh / ac_mwh),
        ("tue_device", total_mwh / device_mwh),
        ("ppue_cooling", 1 + energy["cooling_mwh"] / ac_mwh),
    ):
        assert poi[key] == pytest.approx(expected, rel=1e-6)
    ups_mwh = metered_run.metrics["ups"]["energy_mwh"]
    assert energy["ups_mwh"] == pytest.approx(ups_mwh)
    assert 1 < poi["ppue_cooling"] < poi["pue"] < poi["tue_device"]
    assert [entry["month"] for entry in billing["months"]] == ["2018-01", "2018-02"]
    assert billing["months"][1]["billed"]["lower_bound"]
    (warning,) = (w for w in metered_run.manifest["warnings"] if "weather" in w)
    assert "headroom, ratchets are not those of a hot year" in warning
    figures = {f.key: f for section in metered_run.sections() for f in section.figures}
    for key in ("poi.headroom.use", "poi.headroom.mva", "poi.supplied_mvarh"):
        assert figures[key].value is not None
    assert figures["poi.pue"].shown == f"{poi['pue']:.4f}"


def test_a_run_names_the_terms_that_it_assumed(metered_run: Run) -> None:
    assumed = metered_run.manifest["assumed"]
    assert {"facility.stages.1.filter_share", "facility.stages.4.units"} <= set(assumed)
    assert not any("contract_mva" in key or "power_kw" in key for key in assumed)
    ranges = metered_run.manifest["ranges"]
    assert ranges["facility.stages.1.filter_share"] == [0.0, 0.15]
    rated_mw = metered_run.scenario.facility.supplied_power_w / 1e6
    assert ranges["facility.stages.4.units.0.rated_mva"] == pytest.approx(
        [1.3 * rated_mw, 2.2 * rated_mw]
    )
    place = export_run(metered_run, "playback", metered_run.folder.with_name("p.csv"))
    told = json.loads(place.with_name("p.csv.meta.json").read_text())["reactive_power"]
    assert all(key in told for key in assumed)


def test_the_report_has_the_months_and_what_is_billed(metered_run: Run) -> None:
    report = build_report([metered_run.folder])
    section = next(section for section in report.sections if section.id == "poi")
    tables = {table.title: table for table in section.tables}
    demands = [f"Demand over {minutes} min" for minutes in (15, 30, 60)]
    names = ["Energy by part", "Energy and power factor", *demands, "Billed demand"]
    assert list(tables) == names
    energy, billed = tables["Energy by part"], tables["Billed demand"]
    assert list(energy.rows) == ["2018-01", "2018-02", "Whole run"]
    total = metered_run.metrics["poi"]["energy"]["total_mwh"] * 1e3
    assert energy.rows["Whole run"]["Total"].value == pytest.approx(total)
    assert list(billed.units) == ["Ratchet", "Billed"]
    assert "2018-01 and 2018-02" in section.notes[0]
    assert "Lower bounds" in section.notes[1]


def test_sums_of_quanta_are_those_of_the_single_values() -> None:
    power_w = np.random.default_rng(4).uniform(-9e6, 9e6, (1 << 20) + 5)
    quanta = to_quanta(power_w)
    assert sum_quanta(power_w) == (quanta.sum(), quanta[quanta > 0].sum())
    for bad in (np.nan, np.inf, 2e11):
        with pytest.raises(InputError, match="must be finite and within"):
            sum_quanta(np.array([1.0, bad, 1.0]))


def metered(**keys: Any) -> dict[str, Any]:
    stage = {"kind": "point_of_interconnection", **keys}
    return {"facility.node_types.node.ac_power": "dlc", "facility.stages": [stage]}


def test_billing_without_a_rule_is_one_line_with_its_place() -> None:
    words = "bills nothing without a rule; give one of 'power_f"
    with pytest.raises(InputError, match=rf"^.*facility\.stages\.0.*{words}.*$"):
        tiny_scenario(metered(billing={"interval_min": 30}))


def test_a_site_in_another_size_has_its_contract_in_that_size() -> None:
    site = tiny_scenario(
        metered(contract_mva=2, billing={"contract_minimum_mw": 1, "ratchet": 0.8})
    )
    (stage,) = scale_scenario(site, 3).facility.stages
    assert isinstance(stage, PointOfInterconnectionSpec) and stage.billing is not None
    assert stage.contract_mva == 6
    assert (stage.billing.contract_minimum_mw, stage.billing.ratchet) == (3, 0.8)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"resolution": "30 min"}, "'30', '60', found 15"),
        ({"resolution": "48 s"}, "'60', found 15"),
        ({"start": "2018-01-01T00:00:30"}, "none, found 15"),
        ({"duration": "10 min"}, "none, found 15"),
    ],
)
def test_a_run_is_refused_rules_that_it_holds_no_demand_for_when_it_loads(
    changes: dict[str, str], text: str
) -> None:
    words = rf"stages\.\d\.billing\.interval_min: .* {text}"
    with pytest.raises(ScenarioError, match=words):
        tiny_scenario(metered(billing={"ratchet": 0.8}) | changes)
