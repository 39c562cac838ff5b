"""The campus that is calibrated to meters has the figures of its sources with another
seed, too."""

from __future__ import annotations

from pathlib import Path

import pytest
from metered import metered_shapes
from validation import simulate_in

pytestmark = pytest.mark.accept


def test_shape_is_that_of_metered_colocation_whatever_the_seed(tmp_path: Path) -> None:
    checks = metered_shapes(simulate_in(tmp_path), seed=1).checks
    assert [check.holds for check in checks] == [True, True, True, False]
