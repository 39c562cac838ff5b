"""Rules that map logged jobs to workloads: in code and as a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from fit_logs import job_log
from pydantic import ValidationError

from diploee.base.errors import ScenarioError, WorkloadError
from diploee.fits.jobs.classes import read_rules
from diploee.loads.jobs.class_rules import assign_classes, nearest_n_nodes
from diploee.scenario import ClassRule


def test_the_first_rule_that_fits_wins_and_bounds_are_as_said() -> None:
    log = job_log(
        submit_ms=range(6),
        n_nodes=[1, 2, 4, 8, 2, 2],
        duration_s=[60, 60, 60, 60, 599.999, 600],
        types=("train", "eval"),
        type_id=[0, 0, 0, 0, 1, 1],
    )
    rules = (
        ClassRule(workload="a", type="eval", min_duration_s=600),
        ClassRule(workload="b", type="eval", max_duration_s=600),
        ClassRule(workload="c", min_nodes=2, max_nodes=4),
        ClassRule(workload="d", min_nodes=4),
    )
    found = assign_classes(log.jobs, log.types, rules)
    assert found.tolist() == [-1, 2, 2, 3, 1, 0]


def test_without_rules_no_job_fits() -> None:
    log = job_log(range(3))
    assert assign_classes(log.jobs, log.types, ()).tolist() == [-1, -1, -1]


def test_a_kind_that_the_log_does_not_have_is_named() -> None:
    log = job_log(range(3), types=("train", "eval"))
    with pytest.raises(
        WorkloadError, match=r"rule 1: .*'evel' .*did you mean 'eval'\?"
    ):
        assign_classes(log.jobs, log.types, (ClassRule(workload="a", type="evel"),))


def test_nearest_size_is_by_ratio_and_the_lower_of_two() -> None:
    wanted = {1: 1, 2: 1, 3: 4, 4: 4, 7: 4, 8: 4, 9: 16, 64: 16, 2**31 - 1: 16}
    found = nearest_n_nodes(np.array(list(wanted), dtype=np.int32), [16, 1, 4, 4])
    assert found.tolist() == list(wanted.values())


@pytest.mark.parametrize(
    "bounds",
    [{"min_nodes": 3, "max_nodes": 2}, {"min_duration_s": 60, "max_duration_s": 60}],
)
def test_a_rule_that_no_job_can_fit_is_refused(bounds: dict[str, float]) -> None:
    with pytest.raises(ValidationError, match="no job could fit"):
        ClassRule.model_validate({"workload": "a", **bounds})


@pytest.mark.parametrize("head", ["", "rules:\n"])
def test_rules_are_read_from_a_list_of_yaml(tmp_path: Path, head: str) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(
        f"{head}- {{workload: tune, min_nodes: 2}}\n- workload: draw\n", "utf-8"
    )
    assert read_rules(file) == (
        ClassRule(workload="tune", min_nodes=2),
        ClassRule(workload="draw"),
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "- workload: a\n  max_node: 2\n",
            "rules.yaml:2 0.max_node: unknown key 'max_node'",
        ),
        ("rules: []\n", "rules.yaml:1: expected a list of rules"),
        ("", "rules.yaml: is empty"),
    ],
)
def test_bad_rules_are_named_with_file_and_line(
    tmp_path: Path, text: str, problem: str
) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(text, "utf-8")
    with pytest.raises(ScenarioError) as caught:
        read_rules(file)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)
