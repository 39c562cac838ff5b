"""A contract far from the rating is questioned, and a load above it is said."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import tiny_library, tiny_scenario, write_library, write_scenario
from command_line import call

from diploee import Run
from diploee import run as simulate
from diploee.grid.limits import Limits
from diploee.simulation.size import rated_at_meter_w


def site(contract: dict[str, float]) -> dict[str, object]:
    meter = {"kind": "point_of_interconnection", **contract}
    return {
        "duration": "1 d",
        "facility.node_types.node.ac_power": "air_hgx",
        "facility.stages": ["ups", "transformers", meter],
    }


def run_of(folder: Path, contract: dict[str, float]) -> Run:
    return simulate(tiny_scenario(site(contract)), folder, profiles=tiny_library())


RATED_MW = rated_at_meter_w(tiny_scenario(site({}))) / 1e6


@pytest.mark.parametrize(
    ("key", "of_rated", "asked"),
    [
        ("contract_mva", 0.51, ""),
        ("contract_mw", 2.9, ""),
        ("contract_mva", 1000.0, "is it in kVA"),
        ("contract_mw", 0.001, "is it in GW"),
    ],
)
def test_a_contract_far_from_the_rating_is_questioned(
    tmp_path: Path, key: str, of_rated: float, asked: str
) -> None:
    file = write_scenario(tmp_path / "a.yaml", site({key: of_rated * RATED_MW}))
    ended = call("validate", file, "--profiles", write_library(tmp_path / "library"))
    assert ended.code == 0
    told = [line for line in ended.err.splitlines() if f"{key}: " in line]
    assert [asked in line for line in told] == [True] * bool(asked)
    assert all("facility.stages.2" in line for line in told)


def test_a_contract_in_kva_is_written_in_full(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", {"contract_mva": 80_000})
    assert any(
        "contract_mva: 80,000 MVA is" in text for text in run.manifest["warnings"]
    )
    use = next(f for f in run.sections()[0].figures if f.key == "poi.headroom.use")
    assert use.note.endswith(" of 80,000 MVA")


def test_a_load_above_its_contract_is_said(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", {"contract_mw": 0.4 * RATED_MW})
    headroom = run.metrics["poi"]["headroom"]
    assert headroom["use"] > 1
    (text,) = (
        text for text in run.manifest["warnings"] if "above its contract" in text
    )
    assert f"up to {100 * headroom['use']:,.1f} % of it" in text
    assert f"in {headroom['over_h']:,.4g} h" in text


def test_a_limit_far_above_the_rating_is_questioned(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", {})
    far = {"max_mw": 1000 * RATED_MW}
    peaks = [far, far | {"interval": "15 min"}, {"max_mw": 0.05}]
    limits = Limits.model_validate({"peaks": peaks})
    plain, of_means, near = run.limits(limits).results
    assert all("is it in kW?" in result.scope for result in (plain, of_means))
    assert "kW" not in near.scope
