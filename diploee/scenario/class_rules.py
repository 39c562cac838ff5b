"""Rules that map the jobs of a log to workloads, so that they find their power profiles."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, NonNegativeFloat, PositiveInt, model_validator

from diploee.model import Model, Name, optional


class ClassRule(Model):
    """Which logged jobs take their power from a workload; of several rules the first that fits."""

    workload: Name = Field(description="Workload of the profiles, such as llama2_70b_lora.")
    scale_from_n_nodes: PositiveInt | None = Field(
        default=None,
        description="Node count of the profiles that the jobs take their power from, scaled "
        "linearly to their own; the nearest measured node count if absent.",
    )
    type: str | None = Field(
        default=None, description="Kind of job as the log names it; any if absent."
    )
    user: str | None = optional("Pattern of the user, '*' for any characters; any user if absent.")
    account: str | None = optional("Pattern of the account that pays; any account if absent.")
    name: str | None = optional("Pattern of the job's name, such as 'llama*'; any name if absent.")
    min_nodes: PositiveInt = Field(default=1, description="Fewest nodes of a job.")
    max_nodes: PositiveInt | None = Field(
        default=None, description="Most nodes of a job; no limit if absent."
    )
    min_duration_s: NonNegativeFloat = Field(
        default=0.0, description="Shortest run time of a job [s], inclusive."
    )
    max_duration_s: Annotated[float, Field(gt=0)] | None = Field(
        default=None, description="Longest run time of a job [s], exclusive; no limit if absent."
    )

    @model_validator(mode="after")
    def _bounds_are_in_order(self) -> ClassRule:
        if self.max_nodes is not None and self.max_nodes < self.min_nodes:
            raise ValueError(
                f"max_nodes {self.max_nodes} is below min_nodes {self.min_nodes}; "
                "no job could fit the rule"
            )
        if self.max_duration_s is not None and self.max_duration_s <= self.min_duration_s:
            raise ValueError(
                f"max_duration_s {self.max_duration_s:g} must be above min_duration_s "
                f"{self.min_duration_s:g}; no job could fit the rule"
            )
        return self
