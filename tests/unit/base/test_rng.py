"""Named random streams."""

from __future__ import annotations

import numpy as np

from diploee.base.rng import named_rng


def test_a_name_and_a_seed_give_the_same_numbers_each_time() -> None:
    first, again = (named_rng(7, "workload", "training", 0).random(5) for _ in range(2))
    assert first.tolist() == again.tolist()


def test_seed_zero_differs_from_other_seeds_and_is_no_random_seed() -> None:
    zero = named_rng(0, "a").random(3).tolist()
    assert zero == named_rng(0, "a").random(3).tolist()
    assert zero != named_rng(1, "a").random(3).tolist()


def test_different_names_give_independent_streams() -> None:
    names = [("a",), ("b",), ("a", "b"), ("ab",), ("a", 0), ("a", 1), ("a", "0", "")]
    draws = np.array([named_rng(3, *name).random(2_000) for name in names])
    correlation = np.corrcoef(draws) - np.eye(len(names))
    assert np.abs(correlation).max() < 0.1


def test_parts_of_a_name_do_not_run_together() -> None:
    assert named_rng(0, "ab", "c").random() != named_rng(0, "a", "bc").random()
