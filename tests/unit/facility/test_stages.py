"""Stages between the devices and the meter: energy, states, and what they may not do."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
from builders import Keeps, tiny_library, tiny_scenario
from command_line import call

from diploee import open_run, simulate
from diploee.cli.display import show_run
from diploee.columns import Column
from diploee.errors import InputError, StageError
from diploee.facility import STAGES, Block, EnergyMeter, StageSpec
from diploee.facility.base import POWER
from diploee.metric import Metric
from diploee.reports.build import build_report

CHAIN = [
    {"kind": "auxiliary_load", "power_kw": 3.5},
    {"kind": "constant_loss", "loss_fraction": 0.04},
]


class Lag:
    """A stage with a state: half of the power of an interval arrives in the next one."""

    columns = (
        Column("late_power_w", "W", "facility", "mean", None, "power still under way"),
        Column("lag_w", "W", "facility", "mean", None, "net power into the lag", "store"),
    )
    boundary = "behind a lag"

    def start(self) -> float:
        return 0.0

    def apply(self, block: Block, late_w: float) -> tuple[dict[str, np.ndarray], float]:
        power_w = block.columns["facility_power_w"]
        late = power_w / 2
        before = np.concatenate([[late_w], late[:-1]])
        lag_w = late - before
        return {"late_power_w": late, "lag_w": lag_w, POWER: power_w - lag_w}, float(late[-1])


class Misbehaves:
    """Gives the power that the test sets."""

    columns = Lag.columns
    boundary = None

    def __init__(self, **columns: Any) -> None:
        self.given = columns

    def start(self) -> None:
        return None

    def apply(self, block: Block, state: None) -> tuple[dict[str, Any], None]:
        return {name: give(block) for name, give in self.given.items()}, None


def run_chain(tmp_path: Path, resolution: str, stages: Any = (), **how: Any) -> Keeps:
    kept = Keeps()
    scenario = tiny_scenario(
        {"duration": "26 h", "resolution": resolution, "facility.stages": CHAIN}
    )
    simulate(
        scenario, tmp_path / "run", library=tiny_library(), engine="compiled", force=True,
        stages=stages, sinks=[kept], **how,
    )  # fmt: skip
    return kept


@pytest.mark.slow
def test_energy_behind_the_stages_is_the_same_at_every_resolution(tmp_path: Path) -> None:
    steps_s = {"0.1 s": 0.1, "1 s": 1, "1 min": 60, "1 h": 3_600}
    energy_j = [
        run_chain(tmp_path, resolution)["facility_power_w"].sum() * step_s
        for resolution, step_s in steps_s.items()
    ]
    np.testing.assert_allclose(energy_j, energy_j[0], rtol=1e-9)


@pytest.mark.parametrize(
    "how", [{"window_days": 1, "n_threads": 1}, {"n_threads": 3}, {"n_threads": 0}]
)
def test_a_stage_with_a_state_gives_the_same_bits_however_a_run_is_cut(
    tmp_path: Path, how: dict[str, Any]
) -> None:
    whole = run_chain(tmp_path, "1 min", [Lag()])
    parts = run_chain(tmp_path, "1 min", [Lag()], **how)
    for column in ("facility_power_w", "late_power_w"):
        assert whole[column].tobytes() == parts[column].tobytes()


def test_a_run_says_where_its_power_is_taken(tmp_path: Path) -> None:
    scenario = tiny_scenario({"duration": "1 h", "facility.stages": CHAIN})
    run = simulate(scenario, tmp_path / "run", library=tiny_library())
    device = run.boundary("it_power_w")
    assert run.boundary() == (
        f"{device}, with a constant auxiliary load, behind a loss that is a constant part of it"
    )
    power_mw = run.metrics["power"]["mean_mw"]
    assert power_mw * 1e6 == pytest.approx(run.facility()["facility_power_w"].mean(), rel=1e-6)
    assert power_mw * 1e6 > run.facility()["it_power_w"].mean() / 0.96


def test_a_facility_without_stages_is_as_before(tmp_path: Path) -> None:
    plain = simulate(tiny_scenario(), tmp_path / "plain", library=tiny_library())
    none = simulate(
        tiny_scenario({"facility.stages": []}), tmp_path / "none", library=tiny_library()
    )
    for name in ("facility.parquet", "jobs.parquet", "metrics.json"):
        assert (plain.folder / name).read_bytes() == (none.folder / name).read_bytes()
    assert plain.manifest["scenario_sha256"] == none.manifest["scenario_sha256"]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"late_power_w": lambda b: np.zeros(len(b) + 1)}, r"shape \(\d+,\), expected \(\d+,\)"),
        ({"late_power_w": lambda _: 5.0}, r"of shape \(\), expected"),
        ({"other_w": lambda b: np.zeros(len(b))}, "'other_w', which it does not declare"),
        ({"facility_power_w": lambda b: np.full(len(b), np.nan)}, "that are not finite"),
        ({"late_power_w": lambda b: np.full(len(b), 1j)}, "of complex128, expected numbers"),
        ({"late_power_w": lambda b: ["x"] * len(b)}, "of <U1, expected numbers"),
    ],
)
def test_a_stage_that_gives_what_it_may_not_is_refused_and_nothing_is_kept(
    tmp_path: Path, given: dict[str, Any], text: str
) -> None:
    with pytest.raises(StageError, match=f"stage Misbehaves gives .*{text}"):
        run_chain(tmp_path, "1 min", [Misbehaves(**given)])
    assert list(tmp_path.iterdir()) == []


class Fails:
    """A stage from outside whose `apply` does as it is given."""

    columns = Lag.columns
    boundary = None

    def __init__(self, apply: Any) -> None:
        self.apply = lambda block, _state: apply(block)

    def start(self) -> None:
        return None


@pytest.mark.parametrize(
    ("apply", "text"),
    [
        (lambda _: None, "apply must return its columns by name and its state, found null"),
        (lambda _: ({}, None), "lacks column 'lag_w', which it declares"),
        (lambda _: open("/none"), r"apply raised FileNotFoundError: .*No such file"),  # noqa: PTH123, SIM115
        (lambda block: block.power, "apply raised AttributeError: 'Block' object has no"),
        (lambda block: block.columns[POWER].fill(0), "apply raised ValueError: .*read-only"),
        (lambda block: block.columns.update(a=1), "apply raised AttributeError: 'mappingproxy'"),
    ],
)
def test_what_goes_wrong_in_a_stage_names_it_and_no_option(
    tmp_path: Path, apply: Any, text: str
) -> None:
    with pytest.raises(StageError, match=f"^stage Fails:? {text}"):
        run_chain(tmp_path, "1 min", [Fails(apply)])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", [list, np.uint16, np.int8, np.float16])
def test_a_stage_may_give_its_power_as_numbers_of_any_kind(tmp_path: Path, kind: Any) -> None:
    class Gives(Fails):
        columns = (Column("sun_w", "W", "facility", "mean", None, "sun", role="source"),)

    def apply(block: Block) -> tuple[dict[str, Any], None]:
        power_w = np.full(len(block), 100)
        sun_w = list(power_w) if kind is list else power_w.astype(kind)
        return {"sun_w": sun_w, POWER: block.columns[POWER] - 100}, None

    kept = run_chain(tmp_path, "1 h", [Gives(apply)])
    assert (kept["sun_w"] == 100).all()


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        ({"columns": "lag_w"}, "columns must be a tuple of Column, found 'lag_w'"),
        ({"columns": None}, "columns must be a tuple of Column, found null"),
        ({"boundary": 5}, "boundary must be text or None, found 5"),
        ({"place": "roof"}, "has the place 'roof', expected 'pdu', "),
        ({"meter": lambda _: None}, "has a meter without add or values: null"),
        ({"meter": lambda _: open("/none")}, "meter raised FileNotFoundError"),  # noqa: PTH123, SIM115
    ],
)
def test_a_stage_that_declares_other_than_expected_is_named(
    tmp_path: Path, declared: dict[str, Any], text: str
) -> None:
    stage = type("Odd", (Fails,), declared)(lambda _: ({}, None))
    with pytest.raises(StageError, match=f"Odd'?:? {text}"):
        run_chain(tmp_path, "1 min", [stage])
    with pytest.raises(StageError, match="must be a tuple of Column, found null"):
        run_chain(tmp_path, "1 min", [object()])


def test_each_stage_is_measured_in_a_block_of_its_own_that_every_reader_shows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario = tiny_scenario({"facility.stages": CHAIN, "duration": "1 d"})
    run = simulate(scenario, tmp_path / "run", library=tiny_library())
    series, hours = run.facility(), 24 / scenario.n_intervals
    found = {"auxiliary_load": "auxiliary_power_w", "constant_loss": "loss_power_w"}
    for block, column in found.items():
        energy_mwh = series[column].to_numpy(float).sum() * hours / 1e6
        assert run.metrics[block]["energy_mwh"] == pytest.approx(energy_mwh, rel=1e-6)
    show_run(run)
    table = capsys.readouterr().out
    rows = {row[0] for row in build_report([run.folder]).sections[1].tables[0].rows}
    page = call("schema", "--outputs").out
    for block, label in (("auxiliary_load", "the auxiliary load"), ("constant_loss", "lost")):
        (line,) = (row for row in table.splitlines() if f"{label} [kWh]" in row)
        assert f"{run.metrics[block]['energy_mwh'] * 1000:,.1f}" in line
        assert any(f"{label} [kWh]" in row for row in rows)
        assert f"| `{block}.energy_mwh` | MWh |" in page


class Metered(Lag):
    """A stage whose meter gives what the test sets."""

    def __init__(self, key: str, given: dict[str, float] | None = None) -> None:
        self.metrics = (Metric(key, "1", "mean lateness", "{:.2f}", view="main"),)
        self.given = given or {}

    def meter(self) -> Metered:
        return self

    def add(self, block: Block) -> None:
        pass

    def values(self) -> dict[str, float]:
        return self.given


def test_a_stage_from_outside_has_its_metrics_in_the_run_its_table_and_its_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stages = [Metered("lag.late", {"lag.late": 0.25})]
    run = simulate(tiny_scenario(), tmp_path / "run", library=tiny_library(), stages=stages)
    assert run.metrics["lag"] == {"late": 0.25}
    show_run(open_run(run.folder))
    (line,) = (row for row in capsys.readouterr().out.splitlines() if "mean lateness" in row)
    assert "0.25" in line
    report = build_report([run.folder])
    assert ("0.25", "", "mean lateness") in report.figures
    assert ("Mean lateness", "0.25") in report.sections[1].tables[0].rows


def test_a_stage_from_outside_is_one_class_with_a_name_in_scenarios(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(STAGES, "_added", {})

    @STAGES.register
    class Chiller(StageSpec):
        """Draws a part of the IT power."""

        columns: ClassVar = (
            Column("chiller_power_w", "W", "facility", "mean", None, "chiller", role="cooling"),
        )
        metrics: ClassVar = (Metric("chiller.energy_mwh", "MWh", "chilling", view="table"),)
        boundary: ClassVar[str | None] = "with a chiller"
        kind: Literal["chiller"] = "chiller"
        part: float = 0.25

        def meter(self) -> EnergyMeter:
            return EnergyMeter("chiller_power_w", "chiller.energy_mwh")

        def apply(self, block: Block, state: None) -> tuple[dict[str, np.ndarray], None]:
            own_w = self.part * block.columns["it_power_w"]
            power_w = block.columns["facility_power_w"] + own_w
            return {"chiller_power_w": own_w, "facility_power_w": power_w}, None

    scenario = tiny_scenario({"facility.stages": ["chiller", CHAIN[0]]})
    run = simulate(scenario, tmp_path / "run", library=tiny_library())
    series = run.facility()
    np.testing.assert_allclose(series["chiller_power_w"], series["it_power_w"] / 4, rtol=1e-6)
    assert run.metrics["chiller"]["energy_mwh"] == pytest.approx(
        series["it_power_w"].to_numpy(float).sum() / 4 / 60 / 1e6, rel=1e-6
    )
    page = call("schema", "--outputs").out
    assert "facility, with `chiller`" in page
    assert "| `chiller.energy_mwh` | MWh | chilling |" in page


@pytest.mark.parametrize(
    ("stage", "text"),
    [
        (Metered("power.max_mw"), "declares metric 'power.max_mw'; name it as in"),
        (Metered("pools.late"), "declares metric 'pools.late'"),
        (Metered("late"), "declares metric 'late'"),
        (Metered("lag.a", {"lag.b": 1.0}), r"gives metric 'lag.b', .* \(declared: 'lag.a'\)"),
        (Metered("lag.a", {"lag.a": float("nan")}), "gives nan for 'lag.a', expected a finite"),
    ],
)
def test_a_metric_that_a_stage_may_not_give_is_refused_in_one_line(
    tmp_path: Path, stage: Metered, text: str
) -> None:
    with pytest.raises(StageError, match=f"stage Metered {text}") as caught:
        run_chain(tmp_path, "1 h", [stage])
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_column_name_taken_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'late_power_w' is declared twice"):
        run_chain(tmp_path, "1 min", [Lag(), Lag()])
    twice = tiny_scenario({"facility.stages": [CHAIN[0], CHAIN[0]]})
    with pytest.raises(InputError, match="'auxiliary_power_w' is declared twice"):
        simulate(twice, tmp_path / "run", library=tiny_library())


@pytest.mark.parametrize(
    ("stage", "text"),
    [
        ({"kind": "auxiliary_loads", "power_kw": 1}, "did you mean 'auxiliary_load'"),
        ({"kind": "constant_loss"}, "loss_fraction"),
        (
            {"kind": "auxiliary_load", "power_kw": -1},
            "must be a number of 0 or more, found -1",
        ),
        ({"kind": "constant_loss", "loss_fraction": 1}, "must be a number below 1, found 1"),
        ({"kind": "constant_loss", "loss": 0.1}, "loss: unknown key 'loss' (allowed: 'kind', 'lo"),
        ({"power_kw": 1}, "must be a name or a group of keys with 'kind: ...'"),
        ("constant_loss", "'constant_loss' needs 'loss_fraction'; write a group of keys"),
    ],
)
def test_a_wrong_stage_is_one_line_with_its_place(stage: Any, text: str) -> None:
    with pytest.raises(InputError) as caught:
        tiny_scenario({"facility.stages": [stage]})
    problems = [line for line in str(caught.value).splitlines() if text in line]
    assert problems, str(caught.value)
    assert all("facility.stages.0" in line for line in problems)
