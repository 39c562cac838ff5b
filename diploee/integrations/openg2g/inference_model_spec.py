"""`InferenceModelSpec`: a served model's measurements and service limits.

A YAML file of specs has a list ``models:`` whose entries have the fields as keys.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, PositiveFloat, PositiveInt, model_validator

from diploee.base.errors import one_of
from diploee.base.model import Model, default, document_fields, unset
from diploee.base.units import whole_ms
from diploee.base.validation import checked
from diploee.scenario.yaml_lines import key_location, load_yaml_with_lines

BatchSize = Annotated[int, Field(gt=0, strict=True)]
"""Sequences served at once: a server's limit of concurrent requests, ``max_num_seqs``."""  # noqa: E501


def _check_whole_ms(step_s: float) -> float:
    whole_ms(step_s)
    return step_s


StepS = Annotated[float, Field(gt=0, le=1e9), AfterValidator(_check_whole_ms)]
"""Step of traces [s], a whole number of milliseconds."""

NOT_DATA = {"model_label", "itl_deadline_s", "feasible_batch_sizes"}
"""Fields that affect serving only, not the data compiled from measurements."""

ABSENT = {"precision": "bfloat16", "tensor_parallel": 1, "expert_parallel": 1}
"""OpenG2G's default values of optional fields."""


@document_fields
class InferenceModelSpec(Model):
    """Spec of one served model: its measurements, and the limits of serving.

    Raises
    ------
    pydantic.ValidationError
        If a field is unknown, missing or out of range, or a batch size is not in
        `batch_sizes`; `load_specs` raises `InputError` instead.
    """

    model_label: str = Field(
        min_length=1, description="Name of the model in tables and errors."
    )
    model_id: str = Field(
        min_length=1,
        description="Name of the model in the benchmark, such as "
        "meta-llama/Llama-3.1-70B-Instruct.",
    )
    gpu_model: str = Field(
        min_length=1, description="Measured GPU model, such as H100."
    )
    task: str = Field(
        min_length=1,
        description=(
            "Benchmark task, which sets the prompts, such as lm-arena-chat or gpqa."
        ),
    )
    gpus_per_replica: PositiveInt = default(1, "GPUs per replica of the model.")
    tensor_parallel: PositiveInt | None = unset(
        "Tensor parallelism: GPUs that share each layer; as measured if absent, if "
        "unique."
    )
    expert_parallel: PositiveInt | None = unset(
        "Expert parallelism: GPUs that share the experts of each layer; as measured if "
        "absent."
    )
    precision: str | None = unset(
        "Precision of the weights, such as bfloat16 or fp8; as measured if absent.",
        min_length=1,
    )
    itl_deadline_s: PositiveFloat | None = unset(
        "Maximum inter-token latency in service [s]; none if absent."
    )
    batch_sizes: tuple[BatchSize, ...] = default(
        (),
        "Batch sizes (max_num_seqs) whose measurements are used; all if absent.",
        min_length=1,
    )
    feasible_batch_sizes: tuple[BatchSize, ...] | None = unset(
        "Batch sizes allowed in service; all of batch_sizes if absent.",
        min_length=1,
    )
    fit_exclude_batch_sizes: tuple[BatchSize, ...] = default(
        (), "Batch sizes excluded from the logistic fits only."
    )

    @model_validator(mode="after")
    def _sizes_fit(self) -> InferenceModelSpec:
        for name in ("batch_sizes", "feasible_batch_sizes", "fit_exclude_batch_sizes"):
            sizes = getattr(self, name) or ()
            twice = sorted(size for size, n in Counter(sizes).items() if n > 1)
            if twice:
                raise ValueError(f"{name} has {twice[0]} twice; give each size once")
            unknown = sorted(set(sizes) - set(self.batch_sizes))
            if unknown and self.batch_sizes:
                raise ValueError(
                    f"{name} has {one_of(unknown)}, which is not in batch_sizes "
                    f"(have: {one_of(sorted(self.batch_sizes))}); add or remove it"
                )
        if self.batch_sizes and not self.fit_batch_sizes:
            raise ValueError(
                "fit_exclude_batch_sizes leaves no batch size for the logistic fits"
            )
        for name in ("tensor_parallel", "expert_parallel"):
            if (getattr(self, name) or 1) > self.gpus_per_replica:
                raise ValueError(
                    f"{name} is {getattr(self, name)}, expected at most "
                    f"gpus_per_replica, {self.gpus_per_replica}"
                )
        return self

    @property
    def feasible(self) -> tuple[int, ...]:
        """Allowed batch sizes of serving, in increasing order."""
        return tuple(sorted(self.feasible_batch_sizes or self.batch_sizes))

    @property
    def fit_batch_sizes(self) -> tuple[int, ...]:
        """Batch sizes of the logistic fits, in increasing order."""
        return tuple(sorted(set(self.batch_sizes) - set(self.fit_exclude_batch_sizes)))

    def cache_hash(self) -> str:
        """Return the hash that names the spec's folder, by OpenG2G's rule.

        The hash has 16 hexadecimal digits and covers the fields that affect compiled
        data: not the label, the deadline, the feasible batch sizes, or the order of
        batch sizes. For a spec without batch sizes the folder is that of the spec with
        all batch sizes of the source, ``InferenceData.ensure(...)[label].spec``.
        """
        stated = self.model_dump(mode="json", exclude=NOT_DATA, exclude_none=True)
        fields = {
            name: sorted(value) if isinstance(value, list) else value
            for name, value in (ABSENT | stated).items()
        }
        # OpenG2G hashes json.dumps with its default separators.
        text = json.dumps(fields, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


class _SpecsFile(Model):
    models: tuple[InferenceModelSpec, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _labels_differ(self) -> _SpecsFile:
        labels = Counter(spec.model_label for spec in self.models)
        if twice := [label for label, n in labels.items() if n > 1]:
            raise ValueError(f"two models have the label '{twice[0]}'; labels differ")
        return self


def load_specs(path: Path | str) -> tuple[InferenceModelSpec, ...]:
    """Read the model specs of a YAML file.

    Parameters
    ----------
    path : pathlib.Path or str
        Path of a file with a list ``models:``.

    Returns
    -------
    tuple of InferenceModelSpec
        Specs with different labels, in the order of the file.

    Raises
    ------
    ScenarioError
        With one line for each problem: file, line, key, allowed and actual value.
    """
    data, lines = load_yaml_with_lines(Path(path), "a list 'models:'")
    return checked(data, _SpecsFile, partial(key_location, Path(path), lines)).models
