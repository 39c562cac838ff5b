"""Years from logs that no process of the fit has made."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_logs import AIMED_INSIDE, AIMS, outcome

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", [0, 3])
def test_years_of_a_log_with_heavy_tailed_campaigns_are_like_it(seed: int, tmp_path: Path) -> None:
    found = outcome("campaigns", seed, "auto", tmp_path)
    for ratio, aim in zip((found.p50, found.p99, found.node_time), AIMS.values(), strict=True):
        assert ratio == pytest.approx(1, abs=aim)
    assert found.inside >= AIMED_INSIDE
