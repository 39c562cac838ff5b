"""Node types by the name of their GPUs."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from diploee.scenario.pools import NODE_PRESETS, NodeType


@pytest.mark.parametrize("name", NODE_PRESETS)
def test_a_preset_is_between_idle_warm_and_rated(name: str) -> None:
    node = NodeType(preset=name)
    assert node.warm_power_w is not None
    assert 0 < node.idle_power_w < node.warm_power_w < node.rated_power_w
    # a GPU with a loaded model draws 30 to 75 W more than an idle one
    assert 28 <= (node.warm_power_w - node.idle_power_w) / node.n_gpus <= 75


def test_a_preset_of_the_papers_node_draws_what_the_paper_says() -> None:
    node = NodeType(preset="4xh100")
    assert node.rated_power_w == 3_520
    assert node.idle_power_w == pytest.approx(420, rel=0.05)


def test_a_preset_gives_way_to_what_is_given_and_has_a_known_name() -> None:
    assert NodeType(preset="8xh200", idle_power_w=800).idle_power_w == 800
    with pytest.raises(ValidationError, match="must be '4xa100', "):
        NodeType(preset="9xh200")
