"""Specs from Python and YAML, and what their hash covers."""

from __future__ import annotations

import pytest
from benchmark_builders import tiny_spec

from diploee.base.errors import ScenarioError
from diploee.integrations.openg2g import load_specs

SPECS = """\
models:
  - model_label: Llama-3.1-70B
    model_id: meta-llama/Llama-3.1-70B-Instruct
    gpu_model: H100
    task: lm-arena-chat
    gpus_per_replica: 4
    itl_deadline_s: 0.08
    batch_sizes: [8, 16, 32]
    feasible_batch_sizes: [8, 16]
  - model_label: Tiny
    model_id: org/tiny
    gpu_model: H100
    task: gpqa
    batch_sizes: [8]
"""


def test_specs_of_a_file_keep_its_order(tmp_path):
    path = tmp_path / "specs.yaml"
    path.write_text(SPECS)
    large, tiny = load_specs(path)
    found = (large.model_label, large.gpus_per_replica, large.feasible)
    assert found == ("Llama-3.1-70B", 4, (8, 16))
    assert (tiny.feasible, tiny.itl_deadline_s, tiny.tensor_parallel) == (
        (8,),
        None,
        None,
    )


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({"model_label": "Another name"}, True),
        ({"itl_deadline_s": 0.2}, True),
        ({"feasible_batch_sizes": (8,)}, True),
        ({"batch_sizes": (256, 8, 16, 32, 64, 128)}, True),
        ({"model_id": "org/other"}, False),
        ({"gpus_per_replica": 4}, False),
        ({"tensor_parallel": 1}, True),
        ({"tensor_parallel": 2}, False),
        ({"batch_sizes": (8, 16)}, False),
        ({"fit_exclude_batch_sizes": (8,)}, False),
    ],
)
def test_hash_covers_what_changes_data_alone(changes, same):
    assert (tiny_spec(**changes).cache_hash() == tiny_spec().cache_hash()) is same
    assert len(tiny_spec().cache_hash()) == 16


@pytest.mark.parametrize(
    ("old", "new", "line", "text"),
    [
        ("[8, 16, 32]", "[8, 16, 16]", 2, "batch_sizes has 16 twice"),
        ("sizes: [8, 16]", "sizes: [8, 64]", 2, "has '64', which is not in"),
        ("label: Tiny", "label: Llama-3.1-70B", 1, "have the label 'Llama-3.1-70B'"),
        ("gpu_model: H100", "gpu_modle: H100", 4, "did you mean 'gpu_model'?"),
        ("itl_deadline_s: 0.08", "tensor_parallel: 8", 2, "most gpus_per_replica, 4"),
        (
            "task: gpqa\n    batch_sizes: [8]",
            "task: gpqa\n    batch_sizes: [8]\n    fit_exclude_batch_sizes: [8]",
            10,
            "leaves no batch size for the logistic fits",
        ),
    ],
)
def test_a_wrong_spec_is_one_clear_line(tmp_path, old, new, line, text):
    path = tmp_path / "specs.yaml"
    assert old in SPECS
    path.write_text(SPECS.replace(old, new, 1))
    with pytest.raises(ScenarioError) as error:
        load_specs(path)
    found = [problem for problem in error.value.problems if text in problem]
    assert found, error.value.problems
    assert found[0].startswith((f"{path}:{line} ", f"{path}:{line}:"))
    assert "\n" not in found[0]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("", "is empty; expected a list 'models:'"),
        ("models: []", "found an empty list"),
        ("- 3", "expected a list 'models:', found a list of 1"),
    ],
)
def test_another_file_is_one_clear_line(tmp_path, content, text):
    path = tmp_path / "specs.yaml"
    path.write_text(content)
    with pytest.raises(ScenarioError) as error:
        load_specs(path)
    (problem,) = error.value.problems
    assert text in problem
    assert problem.startswith(str(path))
