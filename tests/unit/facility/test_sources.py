"""Sources and stores that a user writes as a stage: what the site draws, and from
where."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
from builders import TYPICAL_DENVER, Keeps, tiny_library, tiny_run, tiny_scenario

from diploee import Run
from diploee import run as simulate
from diploee.base.column_specs import TAKEN_OFF, Column
from diploee.base.errors import InputError, StageError
from diploee.base.units import MEGAWATT
from diploee.cli.display import show_run
from diploee.facility import STAGES, Block, StageSpec
from diploee.facility.base import POWER
from diploee.grid.limits import Limits, check_limits
from diploee.metrics.attribution_text import cause_text
from diploee.reports.build import build_report
from diploee.reports.data import read_run
from diploee.reports.datasheet import data_sheet
from diploee.reports.drawing.charts import Line, Stack
from diploee.reports.stack_charts import overview_chart, poi_charts
from diploee.simulation.size import rated_at_meter_w

METER = {
    "kind": "point_of_interconnection",
    "contract_mva": 8,
    "billing": {"power_factor_min": 0.95, "kvar_free_share": 0.62, "ratchet": 0.8},
}
SIZE = {"power_mw": 0.5, "energy_mwh": 0.5}
BATTERY: Any = {"kind": "battery", "smoothing_s": 600, **SIZE}
CHAIN: list[Any] = ["pdu", "ups", "wse", "auxiliary_load", "transformers", METER]


TURBINE = ("turbine_w", "W", "facility", "mean", "at its terminals", "output")


@pytest.fixture(autouse=True)
def turbine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register a turbine, as a file of a user does."""
    monkeypatch.setattr(STAGES, "added", {})

    @STAGES.register
    class Turbine(StageSpec):
        """A turbine that runs from one hour of the day to another."""

        columns: ClassVar = (Column(*TURBINE, role="source", part="turbine"),)
        boundary: ClassVar[str | None] = "behind a turbine"
        kind: Literal["turbine"] = "turbine"
        power_mw: float
        from_h: float = 6.0

        def apply(self, block: Block, state: None) -> tuple[dict[str, Any], None]:
            hour = block.starts_ms / 3.6e6 % 24
            given_w = self.power_mw * 1e6 * ((hour >= self.from_h) & (hour < 18))
            return {"turbine_w": given_w, POWER: block.columns[POWER] - given_w}, None


def site(place: int | None = None, power_mw: float = 1.0, **changes: Any) -> Any:
    """Return a site of 3 MW of devices, with a turbine before the stage of a number."""
    stages = list(CHAIN)
    if place is not None:
        stages.insert(place, {"kind": "turbine", "power_mw": power_mw})
    return tiny_scenario(
        {
            "duration": "1 d",
            "facility.pools.main.n_nodes": 2_000,
            "facility.node_types.node.ac_power": "air_hgx",
            **TYPICAL_DENVER,
            "facility.stages": stages,
            "streams.training.target_utilization": 0.002,
            **changes,
        }
    )


def simulated(folder: Path, scenario: Any, **how: Any) -> tuple[Run, dict[str, float]]:
    kept = Keeps()
    library = tiny_library()
    how = {"profiles": library, "engine": "compiled", "sinks": [kept], **how}
    run, names = simulate(scenario, folder, **how), kept.blocks[0].columns
    return run, {name: float(kept[name].sum(dtype=np.float64)) for name in names}


def overhead(sums: dict[str, float], columns: Any) -> float:
    """Return what losses, cooling and loads draw over what the nodes draw."""
    drawn = sum(sums[c.name] for c in columns if c.role in ("loss", "cooling", "load"))
    return drawn / sums["it_ac_power_w"]


def test_a_source_at_the_meter_leaves_the_pue_as_it_is(tmp_path: Path) -> None:
    without, _ = simulated(tmp_path / "without", site())
    run, _ = simulated(tmp_path / "with", site(5))
    for key in ("pue", "ppue_cooling", "tue_device", "gross_mwh"):
        assert run.metrics["poi"][key] == pytest.approx(
            without.metrics["poi"][key], rel=1e-9
        )
    energy, before = run.metrics["poi"]["energy"], without.metrics["poi"]["energy"]
    assert energy["turbine_mwh"] == pytest.approx(-12, rel=1e-9)
    assert energy["total_mwh"] == pytest.approx(before["total_mwh"] - 12, rel=1e-9)


@pytest.mark.parametrize("place", [0, 1, 2, 4])
def test_a_source_further_inside_changes_the_pue_by_the_losses_it_changes(
    tmp_path: Path, place: int
) -> None:
    without, sums = simulated(tmp_path / "without", site())
    run, inside = simulated(tmp_path / "with", site(place))
    change = overhead(inside, run.columns) - overhead(sums, without.columns)
    found = run.metrics["poi"]["pue"] - without.metrics["poi"]["pue"]
    assert change < -1e-5 and found == pytest.approx(change, abs=1e-9)
    # No less heat is in the hall: of the cooling only what the less losses were is
    # gone.
    assert inside["cooling_w"] == pytest.approx(sums["cooling_w"], rel=0.02)


@pytest.mark.parametrize("first", ["turbine", "battery", "ramp_limit"])
def test_parts_of_the_energy_add_up_to_the_total(tmp_path: Path, first: str) -> None:
    ramps = {"up_mw_per_min": 0.001, "down_mw_per_min": 0.001}
    inside: dict[str, dict[str, Any]] = {
        "turbine": {"kind": "turbine", "power_mw": 2.0},
        "battery": BATTERY | {"auxiliary_kw": 9},
        "ramp_limit": {"kind": "ramp_limit", "curtails": True, **ramps},
    }
    stages = [inside[first], *CHAIN]
    run, sums = simulated(tmp_path / "run", site(**{"facility.stages": stages}))
    for of in (run.metrics["poi"], *run.metrics["poi"]["monthly"].values()):
        energy = dict(of["energy"])
        total = energy.pop("total_mwh")
        assert sum(energy.values()) == pytest.approx(total, rel=1e-7)
    taken_off = sum(sums[c.name] for c in run.columns if c.role in TAKEN_OFF)
    gross = (sums["poi_power_w"] + taken_off) / 60e6
    assert run.metrics["poi"]["gross_mwh"] == pytest.approx(gross, rel=1e-8)


def test_a_battery_counts_to_the_pue_by_its_losses_alone(tmp_path: Path) -> None:
    stages = [*CHAIN[:5], BATTERY, METER]
    without, _ = simulated(tmp_path / "without", site())
    run, sums = simulated(tmp_path / "with", site(**{"facility.stages": stages}))
    lost = sums["battery_loss_w"] / sums["it_ac_power_w"]
    change = run.metrics["poi"]["pue"] - without.metrics["poi"]["pue"]
    assert lost > 1e-6 and change == pytest.approx(lost, abs=1e-9)


def test_two_stages_of_a_kind_have_columns_metrics_and_parts_of_their_own(
    tmp_path: Path,
) -> None:
    battery = BATTERY | {"auxiliary_kw": 9}
    generator = {"kind": "generator", "power_mw": 0.3, "above_mw": 1.0}
    second = {"power_mw": 0.1, "name": "second"}
    twice = [battery, battery | second, generator, generator | second]
    changes = {"facility.stages": [*CHAIN[:5], *twice, METER], "duration": "4 h"}
    run, sums = simulated(tmp_path / "run", site(**changes))
    for kind in ("battery", "generator"):
        assert run.metrics[kind].keys() == run.metrics[f"second_{kind}"].keys()
        assert run.metrics[kind] != run.metrics[f"second_{kind}"]
    assert {"second_battery_power_w", "second_generator_w"} <= set(sums)
    energy = dict(run.metrics["poi"]["energy"])
    total = energy.pop("total_mwh")
    assert sum(energy.values()) == pytest.approx(total, rel=1e-7)
    names = ("generator", "second_generator")
    given = [run.metrics[name]["energy_mwh"] for name in names]
    assert min(given) > 0
    assert energy["generator_mwh"] == pytest.approx(-sum(given), rel=1e-6)
    losses = [c.name for c in run.columns if c.role == "loss"]
    assert "second_battery_loss_w" in losses
    assert sums["loss_w"] == pytest.approx(sum(sums[name] for name in losses), rel=1e-9)


def test_a_size_at_the_meter_is_that_without_the_source() -> None:
    stages = ["pdu", {"kind": "turbine", "power_mw": 9}, "transformers", METER]
    dry = {"facility.weather": None, "facility.stages": stages}
    without = dry | {"facility.stages": [stages[0], *stages[2:]]}
    assert rated_at_meter_w(site(**dry)) == rated_at_meter_w(site(**without))


def test_a_cause_names_the_source_and_its_sign(tmp_path: Path) -> None:
    run, _ = simulated(tmp_path / "run", site(5))
    ramps = {e["interval_s"]: e for e in run.metrics["grid"]["ramps"]["intervals"]}
    for way, sign in (("up", 1), ("down", -1)):
        cause = ramps[300.0][way]["cause"]
        (part,) = (part for part in cause["parts"] if part.get("of") == "turbine")
        assert part["mw"] == pytest.approx(sign, abs=1e-9)
        assert cause_text(cause).startswith(f"stage turbine {sign:+.2f} MW")


def test_power_that_is_exported_is_counted_and_survives_everything(
    tmp_path: Path,
) -> None:
    run, sums = simulated(tmp_path / "run", site(5, 20.0))
    poi, power_w = run.metrics["poi"], run.facility(["poi_power_w"])["poi_power_w"]
    exported = -power_w.to_numpy(np.float64).clip(max=0).sum() / 60e6
    assert exported > 100 and poi["exported_mwh"] == pytest.approx(exported, rel=1e-6)
    assert poi["exported_h"] == pytest.approx(12)
    (month,) = run.metrics["billing"]["months"]
    assert month["exported_mwh"] == poi["exported_mwh"]
    assert month["energy_mwh"] == pytest.approx(sums["poi_power_w"] / 60e6)
    assert 0 < month["lagging_power_factor"] <= 1 and 0 < poi["pue"] < 2
    for demand in month["demand"]:
        assert demand["load_factor"] is None
    power, grid = run.metrics["power"], run.metrics["grid"]
    assert power["load_factor"] is grid["load_factor"] is None
    assert power["peak_to_average_ratio"] is None
    build_report([run.folder])
    figures = {f.item: f for s in data_sheet(run).sections for f in s.figures}
    load_factor = figures["Load factor of the peak, 1 min means"]
    assert load_factor.value is None and "exports" in load_factor.note
    assert figures["Energy exported"].value == poi["exported_mwh"]


def test_limits_do_not_take_a_load_that_exports_for_one_between_nothing_and_its_peak(
    tmp_path: Path,
) -> None:
    run, _ = simulated(tmp_path / "run", site(5, 90.0))
    power_mw = run.facility(["poi_power_w"])["poi_power_w"] / 1e6
    assert power_mw.max() < 20 < np.ptp(power_mw)
    swing = {"swings": [{"window": "1 s", "max_mw": 20}]}
    assert check_limits(run, Limits.model_validate(swing)).verdict == "inconclusive"


def test_a_run_with_a_stage_that_is_not_registered_here_says_how_to_read_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _ = simulated(tmp_path / "run", site(5, duration="1 h"))
    monkeypatch.setattr(STAGES, "added", {})
    with pytest.raises(
        InputError, match=r"a kind of stage .*, found 'turbine'.*module is imported"
    ) as caught:
        _ = Run(run.folder).scenario
    assert "\n" not in str(caught.value)


def test_a_stage_that_changes_the_power_without_a_role_is_refused(
    tmp_path: Path,
) -> None:
    class Silent:
        columns = (Column("panel_w", "W", "facility", "mean", None, "output"),)
        boundary = None

        def start(self) -> None:
            return None

        def apply(self, block: Block, state: None) -> tuple[dict[str, Any], None]:
            half_w = block.columns[POWER] / 2
            return {"panel_w": half_w, POWER: half_w}, state

    with pytest.raises(StageError, match="Silent changes facility_power_w") as caught:
        tiny_run(tmp_path / "run", stages=[Silent()])
    for role in ("loss", "cooling", "load", *TAKEN_OFF):
        assert f"'{role}'" in str(caught.value)
    assert not list(tmp_path.iterdir())
    Silent.columns = (replace(*Silent.columns, role="source"),)
    tiny_run(tmp_path / "run", stages=[Silent()])


def test_stacks_of_power_reach_the_gross_power(tmp_path: Path) -> None:
    run, _ = simulated(tmp_path / "run", site(5, 20.0))
    layers = poi_charts(read_run(run.folder, "run"), MEGAWATT)[0].panels[0].layers
    stack, line = layers
    assert isinstance(stack, Stack) and isinstance(line, Line)
    assert (stack.parts >= -1e-6).all()
    assert line.y.min() < -10 and stack.parts.sum(axis=0).min() > 2.6
    chart = overview_chart(read_run(run.folder, "run", in_parts=True), MEGAWATT)
    assert "below the top by what sources and stores give" in chart.caption
    stack = chart.panels[0].layers[0]
    assert isinstance(stack, Stack)
    layers = chart.panels[0].layers
    (net,) = (of for of in layers if getattr(of, "name", "") == "facility")
    given_mw = run.facility(["turbine_w"])["turbine_w"].to_numpy() / 1e6
    assert (stack.parts.sum(axis=0) - net.y)[:-1] == pytest.approx(given_mw, abs=1e-4)


def test_a_stage_that_reads_what_only_a_run_has_leaves_the_rated_power_unknown(
    tmp_path: Path,
) -> None:
    class Queue:
        columns = (Column("desk_w", "W", "facility", "mean", None, "desk", "load"),)
        boundary = None

        def start(self) -> None:
            return None

        def apply(self, block: Block, state: None) -> tuple[dict[str, Any], None]:
            desk_w = 1.0 * block.columns["queued_jobs"]
            return {"desk_w": desk_w, POWER: block.columns[POWER] + desk_w}, state

    run = tiny_run(tmp_path / "run", stages=[Queue()])
    assert run.metrics["power"]["rated_mw"] is run.metrics["grid"]["headroom"] is None


def test_the_table_of_a_run_says_where_power_of_its_pools_is_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pool = {"node_type": "node", "n_nodes": 5}
    run, _ = simulated(tmp_path / "run", site(**{"facility.pools.side": pool}))
    show_run(run)
    words = " ".join(capsys.readouterr().out.split())
    devices = run.boundary("it_power_w")
    assert f"at the point of interconnection; of a pool: {devices}." in words
