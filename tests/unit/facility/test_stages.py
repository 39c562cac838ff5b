"""Stages between the devices and the meter: energy, states, and what they may not do."""  # noqa: E501

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
from builders import Keeps, tiny_library, tiny_run, tiny_scenario
from command_line import call

from diploee import open_run
from diploee import run as simulate
from diploee.base.column_specs import Column
from diploee.base.errors import InputError, StageError
from diploee.base.metric import Metric
from diploee.facility import STAGES, Block, EnergyMeter, StageSpec
from diploee.facility.base import POWER

CHAIN = [
    {"kind": "auxiliary_load", "power_kw": 3.5},
    {"kind": "constant_loss", "loss_fraction": 0.04},
]


class Lag:
    """A stage with a state: half of the power of an interval arrives in the next one."""  # noqa: E501

    columns = (
        Column("late_power_w", "W", "facility", "mean", None, "power still under way"),
        Column(
            "lag_w", "W", "facility", "mean", None, "net power into the lag", "store"
        ),
    )
    boundary = "behind a lag"

    def start(self) -> float:
        return 0.0

    def apply(self, block: Block, late_w: float) -> tuple[dict[str, np.ndarray], float]:
        power_w = block.columns["facility_power_w"]
        late = power_w / 2
        before = np.concatenate([[late_w], late[:-1]])
        lag_w = late - before
        return {"late_power_w": late, "lag_w": lag_w, POWER: power_w - lag_w}, float(
            late[-1]
        )


def run_chain(tmp_path: Path, resolution: str, stages: Any = (), **how: Any) -> Keeps:
    kept = Keeps()
    changes = {"duration": "26 h", "resolution": resolution, "facility.stages": CHAIN}
    how = {"force": True, "stages": stages, "sinks": [kept], **how}
    tiny_run(tmp_path / "run", changes, **how)
    return kept


@pytest.mark.parametrize("how", [{"window_days": 1, "n_threads": 3}, {"n_threads": 0}])
def test_a_stage_with_a_state_gives_the_same_bits_however_a_run_is_cut(
    tmp_path: Path, how: dict[str, Any]
) -> None:
    whole = run_chain(tmp_path, "1 min", [Lag()])
    parts = run_chain(tmp_path, "1 min", [Lag()], **how)
    for column in ("facility_power_w", "late_power_w"):
        assert whole[column].tobytes() == parts[column].tobytes()


def test_a_run_says_where_its_power_is_taken(tmp_path: Path) -> None:
    run = tiny_run(tmp_path / "run", {"duration": "1 h", "facility.stages": CHAIN})
    device = run.boundary("it_power_w")
    assert run.boundary() == (
        f"{device}, with a constant auxiliary load, behind a loss that is a "
        "constant part of it"
    )
    power_mw = run.metrics["power"]["mean_mw"]
    assert power_mw * 1e6 == pytest.approx(
        run.facility()["facility_power_w"].mean(), rel=1e-6
    )
    assert power_mw * 1e6 > run.facility()["it_power_w"].mean() / 0.96


class Odd:
    """A stage from outside, of which a test changes what it declares or gives."""

    columns: Any = Lag.columns
    boundary: Any = None

    def start(self) -> None:
        return None

    def apply(self, block: Block, state: None) -> Any:
        return {}, None


def gives(make: Any) -> dict[str, Any]:
    """Return what `apply` does with a block."""
    return {"apply": lambda _self, block, _state: make(block)}


def late_w(make: Any) -> dict[str, Any]:
    return gives(lambda block: ({"late_power_w": make(len(block))}, None))


def role(**keys: Any) -> dict[str, Any]:
    column = Column("odd_w", "W", "facility", "mean", None, "odd")
    return {"columns": (replace(column, **keys),)}


def measures(key: str, given: dict[str, float] | None = None) -> dict[str, Any]:
    """Return a metric that is declared, and a meter of its value."""
    metric = Metric(key, "1", "mean lateness", "{:.2f}", view="main")
    meter = SimpleNamespace(add=lambda _: None, values=lambda: given or {})
    return {"metrics": (metric,), "meter": lambda _: meter}


LAGS: dict[str, Any] = {"apply": Lag.apply, "start": Lag.start}
FROM = r" \(block from 0 h of the run\)$"
MISTAKES: list[tuple[dict[str, Any], str]] = [
    (
        late_w(lambda n: np.zeros(n + 1)),
        r"gives .*shape \(\d+,\) .*, expected \(\d+,\)",
    ),
    (late_w(lambda _: 5.0), rf"gives .*of shape \(\) of float64, expected.*{FROM}"),
    (late_w(lambda n: np.full(n, 1j)), "gives .*of complex128, expected"),
    (late_w(lambda n: ["x"] * n), "gives .*of <U1, expected"),
    (gives(lambda b: ({POWER: np.full(len(b), np.nan)}, None)), "gives .*not finite"),
    (gives(lambda b: b.power), f"apply raised AttributeError: 'Block' object.*{FROM}"),
    (
        gives(lambda b: ({"o_w": np.zeros(len(b))}, None)),
        "gives .*'o_w', which it does",
    ),
    (gives(lambda _: None), "apply raised TypeError: cannot unpack"),
    (gives(lambda _: open("/none")), "apply raised FileNotFoundError"),  # noqa: PTH123, SIM115
    ({}, "lacks column 'lag_w', which it declares"),
    (
        role(role="loss") | gives(lambda b: ({"odd_w": -b.columns[POWER]}, None)),
        "gives column 'odd_w' with -.*, expected 0 or more",
    ),
    ({"columns": "lag_w"}, "columns must be a tuple of Column, found 'lag_w'"),
    ({"boundary": 5}, "boundary must be text or None, found 5"),
    ({"place": "roof"}, "has the place 'roof', expected 'pdu', "),
    (
        LAGS | measures("lag.a") | {"meter": lambda _: None},
        "its meter's add raised AttributeError",
    ),
    ({"meter": lambda _: open("/none")}, "meter raised FileNotFoundError"),  # noqa: PTH123, SIM115
    (measures("power.max_mw"), "declares metric 'power.max_mw'; name it as in"),
    (measures("late"), "declares metric 'late'"),
    (LAGS | measures("lag.a", {"lag.b": 1}), r"gives metric 'lag.b', .*: 'lag.a'\)"),
    (LAGS | measures("lag.a", {"lag.a": np.nan}), "gives nan for 'lag.a', expected a"),
    (role(role="sauce"), "column 'odd_w' has the role 'sauce'"),
    (role(role="load", unit="kW"), "column 'odd_w' has .* is of kW per facility"),
    (role(role="load", part="total"), "column 'odd_w' has .*, part 'total'"),
    (role(role="load", part="Solar PV"), "column 'odd_w' has .*, part 'Solar PV'"),
]


@pytest.mark.parametrize(
    ("changes", "text"), MISTAKES, ids=[text for _, text in MISTAKES]
)
def test_a_mistake_in_a_stage_names_it_in_one_line_and_nothing_is_kept(
    tmp_path: Path, changes: dict[str, Any], text: str
) -> None:
    with pytest.raises(StageError, match=f"Odd'?:? {text}"):
        run_chain(tmp_path, "1 h", [type("Odd", (Odd,), changes)()])
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_stage_or_is_given_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StageError, match="must be a tuple of Column, found 0"):
        run_chain(tmp_path, "1 h", [object()])
    with pytest.raises(
        StageError, match=r"^stages: found the class Odd, expected an object"
    ):
        run_chain(tmp_path, "1 h", [Odd])
    with pytest.raises(InputError, match="'late_power_w' is declared twice"):
        run_chain(tmp_path, "1 h", [Lag(), Lag()])
    with pytest.raises(InputError, match="'auxiliary_power_w' is declared twice"):
        tiny_run(tmp_path / "run", {"facility.stages": [CHAIN[0], CHAIN[0]]})


@pytest.mark.parametrize("kind", [list, np.int8, np.float16])
def test_a_stage_may_give_its_power_as_numbers_of_any_kind(
    tmp_path: Path, kind: Any
) -> None:
    class Gives(Odd):
        columns = (
            Column("sun_w", "W", "facility", "mean", None, "sun", role="source"),
        )

        def apply(self, block: Block, state: None) -> Any:
            power_w = np.full(len(block), 100)
            sun_w = list(power_w) if kind is list else power_w.astype(kind)
            return {"sun_w": sun_w, POWER: block.columns[POWER] - 100}, None

    kept = run_chain(tmp_path, "1 h", [Gives()])
    assert (kept["sun_w"] == 100).all()


def test_each_stage_is_measured_in_a_block_of_its_own_that_every_reader_shows(
    tmp_path: Path,
) -> None:
    run = tiny_run(tmp_path / "run", {"facility.stages": CHAIN, "duration": "1 d"})
    series, hours = run.facility(), 1 / 60
    found = {"auxiliary_load": "auxiliary_power_w", "constant_loss": "loss_power_w"}
    for block, column in found.items():
        energy_mwh = series[column].to_numpy(float).sum() * hours / 1e6
        assert run.metrics[block]["energy_mwh"] == pytest.approx(energy_mwh, rel=1e-6)
    figures = {f.key: f for section in run.sections() for f in section.figures}
    page = call("schema", "--outputs").out
    for block in found:
        figure = figures[f"{block}.energy_mwh"]
        assert figure.value == pytest.approx(run.metrics[block]["energy_mwh"] * 1000)
        assert f"| `{block}.energy_mwh` | MWh |" in page


def test_a_stage_from_outside_has_its_metrics_in_the_run_and_its_sections(
    tmp_path: Path,
) -> None:
    stages = [type("Measured", (Lag,), measures("lag.late", {"lag.late": 0.25}))()]
    run = tiny_run(tmp_path / "run", stages=stages)
    assert run.metrics["lag"] == {"late": 0.25}
    sections = open_run(run.folder).sections()
    (figure,) = (f for s in sections for f in s.figures if f.key == "lag.late")
    assert (figure.item, figure.shown) == ("Mean lateness", "0.25")


def test_a_stage_from_outside_is_one_class_with_a_name_in_scenarios(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(STAGES, "added", {})
    chiller = ("chiller_power_w", "W", "facility", "mean", None, "chiller")

    @STAGES.register
    class Chiller(StageSpec):
        """Draws a part of the IT power."""

        columns: ClassVar = (Column(*chiller, role="cooling"),)
        metrics: ClassVar = (
            Metric("chiller.energy_mwh", "MWh", "chilling", view="table"),
        )
        boundary: ClassVar[str | None] = "with a chiller"
        kind: Literal["chiller"] = "chiller"
        part: float = 0.25

        def meter(self) -> EnergyMeter:
            return EnergyMeter("chiller_power_w", "chiller.energy_mwh")

        def apply(
            self, block: Block, state: None
        ) -> tuple[dict[str, np.ndarray], None]:
            own_w = self.part * block.columns["it_power_w"]
            power_w = block.columns["facility_power_w"] + own_w
            return {"chiller_power_w": own_w, "facility_power_w": power_w}, None

    scenario = tiny_scenario({"facility.stages": ["chiller", CHAIN[0]]})
    run = simulate(scenario, tmp_path / "run", profiles=tiny_library())
    series = run.facility()
    np.testing.assert_allclose(
        series["chiller_power_w"], series["it_power_w"] / 4, rtol=1e-6
    )
    assert run.metrics["chiller"]["energy_mwh"] == pytest.approx(
        series["it_power_w"].to_numpy(float).sum() / 4 / 60 / 1e6, rel=1e-6
    )
    page = call("schema", "--outputs").out
    assert "facility, with `chiller`" in page
    assert "| `chiller.energy_mwh` | MWh | chilling |" in page


HALF_MORE = """
from typing import Literal
from diploee.base import Column
from diploee.facility import StageSpec
class HalfMore(StageSpec):
    columns = (Column("more_w", "W", "facility", "mean", None, "more", role="load"),)
    kind: Literal["half_more"] = "half_more"
    part: float = 0.5
    def apply(self, block, state):
        power_w = block.columns["facility_power_w"]
        more_w = self.part * power_w
        return {"more_w": more_w, "facility_power_w": power_w + more_w}, None
"""


def test_a_stage_goes_by_its_import_path_which_the_run_keeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "half_more.py").write_text(HALF_MORE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(STAGES, "added", {})
    stage = {"kind": "half_more:HalfMore", "part": 0.25}
    scenario = tiny_scenario({"facility.stages": [stage], "duration": "1 h"})
    run = simulate(scenario, tmp_path / "run", profiles=tiny_library())
    STAGES.added.clear()  # as in another process
    assert open_run(run.folder).scenario == scenario
    assert run.manifest["scenario"]["facility"]["stages"] == [stage]
    (part,) = run.manifest["own_parts"]
    assert part["name"] == "half_more:HalfMore"
    series = run.facility()
    np.testing.assert_allclose(series["more_w"], series["it_power_w"] / 4, rtol=1e-6)
