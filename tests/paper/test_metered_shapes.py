"""The campus that is calibrated to meters has the figures of its sources with another seed, too."""

from __future__ import annotations

import pytest

from diploee.published.page import simulated
from diploee.published.sites import metered_shapes

pytestmark = pytest.mark.slow


def test_shape_is_that_of_metered_colocation_whatever_the_seed() -> None:
    with simulated() as run_of:
        checks = metered_shapes(run_of, seed=1).checks
    assert sum(bool(check.holds) for check in checks) == 3
    assert not [check for check in checks if check.holds is False]
