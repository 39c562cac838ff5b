"""Years from logs that no process of the fit has made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from made_logs import AIMED_INSIDE, AIMS, Outcome, outcome, outcome_of
from samples import PUBLISHED

pytestmark = pytest.mark.slow

LISA = {"submit": "submit", "duration": "run_ms", "nodes": "nodes"}


def assert_like_its_log(found: Outcome) -> None:
    for ratio, aim in zip(
        (found.p50, found.p99, found.node_time), AIMS.values(), strict=True
    ):
        assert ratio == pytest.approx(1, abs=aim)
    assert found.inside >= AIMED_INSIDE


@pytest.mark.parametrize(
    ("process", "seed"), [("campaigns", 0), ("campaigns", 3), ("flurries", 5)]
)
def test_years_of_a_log_whose_distributions_miss_it_are_like_it(
    process: str, seed: int, tmp_path: Path
) -> None:
    assert_like_its_log(outcome(process, seed, "auto", tmp_path))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("surf_lisa_2022.csv.gz", {"columns": LISA, "duration_unit": "ms"}),
        ("sdsc_sp2_5000.swf.gz", {}),
        ("lublin_256_new2.swf.gz", {}),
    ],
)
def test_years_of_a_public_log_are_like_it(name: str, options: dict[str, Any]) -> None:
    path = PUBLISHED / "job_logs" / name
    if not path.exists():
        pytest.skip(f"needs {name}")
    assert_like_its_log(outcome_of(path, **options))
