"""Starter scenario of `diploee init`: a metered colocation site from seven answers.

All other values are those of the shipped scenario.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from diploee.base.clock import fixed_zone, named_zone
from diploee.base.files.paths import shipped
from diploee.base.model import Model, Share, default
from diploee.scenario.synchronous import SynchronousJob

JOB_NODES = (2, 4, 8, 16)
"""Node counts of the measured jobs of llama2_70b_lora."""

FAILURES_PER_1000_DAYS = 1.9
"""Failures per 1,000 days of a node of 4 GPUs. Assumed: half of Llama 3's, of nodes of
8."""


class SiteAnswers(Model):
    """Answers to the seven questions of `diploee init`."""

    poi_mw: Annotated[float, Field(gt=0, le=100_000)] = default(
        20.0, "Power at the meter with all nodes at their ratings [MW]."
    )
    training_share: Share = default(0.7, "Fraction of the nodes for training, 0-1.")
    colocation_share: Share = default(
        0.0,
        (
            "Fraction of the nodes for tenants with their own jobs, 0-1; the remaining "
            "nodes serve requests."
        ),
    )
    largest_job: Share = default(
        0.25,
        "Fraction of the training nodes in the largest job, which runs synchronously, "
        "0-1.",
    )
    occupancy: Annotated[float, Field(ge=0.01, le=0.95)] = default(
        0.65, "Mean busy fraction of the nodes outside the largest job, 0.01-0.95."
    )
    time_zone: str = default(
        "America/Chicago", "Time zone, or a UTC offset such as -06:00."
    )
    climate: Literal["denver", "greensboro"] = default(
        "greensboro", "Weather of Denver (dry) or Greensboro (humid)."
    )

    @field_validator("time_zone")
    @classmethod
    def _is_a_zone(cls, text: str) -> str:
        fixed_zone(text) if text[:1] in "+-" else named_zone(text)
        return text

    @model_validator(mode="after")
    def _shares_fit(self) -> SiteAnswers:
        if self.training_share + self.colocation_share > 1:
            raise ValueError(
                f"training_share {self.training_share:g} and colocation_share "
                f"{self.colocation_share:g} are more than 1 together; lower one"
            )
        return self


def starter_text(site: SiteAnswers, name: str, n_nodes: int) -> str:
    """Return the text of a commented scenario file of a site."""
    pools = _nodes_by_pool(site, n_nodes)
    spare = _spare_nodes(pools["pretraining"])
    is_fixed = site.time_zone[:1] in "+-"
    values = {
        "name": name,
        "poi_mw": f"{site.poi_mw:g}",
        "zone": f'{"utc_offset" if is_fixed else "time_zone"}: "{site.time_zone}"',
        "offset": site.time_zone if is_fixed else _standard_offset(site.time_zone),
        "climate": site.climate,
        "occupancy": f"{site.occupancy:g}",
        "classes": _job_classes(pools["training"]),
        "spare": spare,
        "failures": FAILURES_PER_1000_DAYS,
        "n_largest": pools["pretraining"] - spare,
        "flexibility": _FLEXIBILITY,
        "colocation": _shipped_jobs(pools["colocation"]),
    }
    pool_lines = [
        f"    {pool}: {{node_type: h100_4x, n_nodes: {n}}}\n"
        for pool, n in pools.items()
        if n
    ]
    templates = {
        "pretraining": _PRETRAINING,
        "training": _TRAINING,
        "colocation": _COLOCATION,
    }
    streams = [text.format(**values) for pool, text in templates.items() if pools[pool]]
    serving = [_SERVING.format(**values)] if pools["serving"] else []
    head = ["\nstreams:\n"] if streams else []
    return "".join(
        [
            _HEAD.format(**values),
            *pool_lines,
            _STAGES.format(**values),
            *head,
            *streams,
            *serving,
        ]
    )


def _nodes_by_pool(site: SiteAnswers, n_nodes: int) -> dict[str, int]:
    """Return the nodes of each pool, at least two in each requested pool."""
    n_let = (
        max(round(n_nodes * site.colocation_share), 2) if site.colocation_share else 0
    )
    n_training = (
        max(round(n_nodes * site.training_share), 2) if site.training_share else 0
    )
    n_training = min(n_training, n_nodes - n_let)
    n_largest = round(n_training * site.largest_job)
    n_largest = (
        0 if n_largest < 2 else n_training if n_training - n_largest < 2 else n_largest
    )
    return {
        "pretraining": n_largest,
        "training": n_training - n_largest,
        "colocation": n_let,
        "serving": n_nodes - n_let - n_training,
    }


def _spare_nodes(n_nodes: int) -> int:
    """Return the spare nodes of a synchronous job on about `n_nodes` nodes."""
    job = {"n_nodes": n_nodes or 1, "period_s": 6, "work_days": 120}
    return SynchronousJob(
        **job, failures_per_1000_node_days=FAILURES_PER_1000_DAYS
    ).spares(n_nodes)


def _shipped_jobs(n_nodes: int) -> str:
    """Return the jobs and the calendar of the shipped `colocation_10mw`."""
    text = shipped("scenario")["colocation_10mw"].read_text("utf-8")
    jobs = text[text.index("    # Job mix:") :]
    shares = _fit_sizes({2: 0.5, 4: 0.25, 8: 0.15, 16: 0.1}, n_nodes)
    node_counts = ", ".join(f"{n}: {fraction:g}" for n, fraction in shares.items())
    return re.sub(r"(?m)^      n_nodes: .*$", f"      n_nodes: {{{node_counts}}}", jobs)


def _fit_sizes(shares: dict[int, float], n_nodes: int) -> dict[int, float]:
    """Return fractions of jobs by node count; too large jobs get the largest count."""
    max_nodes = max(
        (n_nodes_of_job for n_nodes_of_job in JOB_NODES if n_nodes_of_job <= n_nodes),
        default=JOB_NODES[0],
    )
    fitted: dict[int, float] = {}
    for n_nodes_of_job, fraction in shares.items():
        fitted[min(n_nodes_of_job, max_nodes)] = (
            fitted.get(min(n_nodes_of_job, max_nodes), 0) + fraction
        )
    return fitted


def _job_classes(n_nodes: int) -> str:
    """Return the job classes, with 4 and 16 nodes if the pool is large enough."""
    duration, lines = f"&hours {_HOURS}", []
    for n_job_nodes, fraction in _fit_sizes({4: 0.6, 16: 0.4}, n_nodes).items():
        lines += [
            "      - workload: llama2_70b_lora",
            f"        n_nodes: {n_job_nodes}",
            f"        probability: {fraction:g}",
            f"        duration: {duration}",
        ]
        duration = "*hours"
    return "".join(f"{line}\n" for line in lines)


def _standard_offset(name: str) -> str:
    """Return the offset of a zone's standard time, as ``-06:00``."""
    winter = datetime(2027, 1, 4, tzinfo=named_zone(name))
    offset = (winter.utcoffset() or timedelta()) - (winter.dst() or timedelta())
    return winter.astimezone(timezone(offset)).isoformat()[-6:]


_HOURS = (
    "{lognormal: [{weight: 1, median_s: 14400, sigma: 1.0}], min_s: 1800, max_s: "
    "604800}"
)

_HEAD = """\
# Written by `diploee init`. Every key, with what it may be: `diploee schema --markdown`.
# Nothing here was measured at your site: replace what is marked ASSUMPTION by what you know.
name: {name}
description: A site of {poi_mw} MW at its meter

start: 2027-01-01        # from 1 January, as 8760 formats ask for
duration: 1 year
warm_up: 1 week          # a site in operation, not one that fills up
resolution: 60 s
seed: 0                  # another one draws other jobs

facility:
  {zone}
  weather:               # ASSUMPTION: typical days; better {{kind: file, path: my.epw}}
    kind: typical_day
    station: {climate}
    utc_offset: "{offset}"
  node_types:
    h100_4x:             # 4 x NVIDIA H100 SXM (700 W), 2 x AMD EPYC 9554 (360 W), measured for
      n_gpus: 4          # arXiv:2604.07345; ac_power: what fans, memory and supplies add (assumed)
      gpu_tdp_w: 700
      n_cpus: 2
      cpu_tdp_w: 360
      idle_power_w: 420
      warm_power_w: 580  # with a model loaded, as measured: 4 x 113 W and the CPUs
      ac_power: dlc
  pools:                 # a number for which the meter reads {poi_mw} MW with all at their ratings
"""  # noqa: E501

_STAGES = """\
  stages:                # ASSUMPTION: from the nodes to the grid, ratings by their defaults
    - pdu
    - {{kind: ups, mode: double_conversion, redundancy: n+1}}
    - dlc_tower
    - auxiliary_load
    - {{kind: transformers, units: [{{preset: mv_lv}}, {{preset: hv_mv}}]}}
    - {{kind: point_of_interconnection, contract_mva: {poi_mw}}}  # for the headroom
"""  # noqa: E501

_PRETRAINING = """\
  pretraining:           # the largest job: all its nodes compute, wait, fail and restart together
    pool: pretraining
    synchronous:         # ASSUMPTION: three models in turn, 120 days of work each, in iterations of
      jobs:              # 6 s; levels and failures by the defaults of SynchronousJob (REFERENCE.md)
        - &largest
          name: first
          n_nodes: {n_largest}
          spare_nodes: {spare}
          period_s: 6
          work_days: 120
          failures_per_1000_node_days: {failures}  # of 8 GPUs 3.8 (Llama 3), here half the GPUs
          planned_per_1000_node_days: 0.21
        - {{<<: *largest, name: second}}
        - {{<<: *largest, name: third}}
"""  # noqa: E501

_FLEXIBILITY = """\
    # Jobs that may run slower or wait when the grid calls: without this line, no megawatt
    # of `diploee firm` is non-firm. Tiers 1 to 3 lose up to 10, 25 or 50 % of throughput.
    # flexibility: {tier: 1}
"""  # noqa: E501

_COLOCATION = """\
  colocation:            # tenants of colocation_10mw, the data center of the paper
    pool: colocation
    target_utilization: {occupancy}
{flexibility}
{colocation}"""

_TRAINING = """\
  training:
    pool: training
    target_utilization: {occupancy}
{flexibility}    classes:             # ASSUMPTION: widths, and hours, median 4; `diploee fit` learns yours
{classes}    calendar:            # ASSUMPTION: half again as many submissions by day as by night
      hour_of_day: [0.85, 0.8, 0.8, 0.8, 0.8, 0.85, 0.9, 1.0, 1.1, 1.2, 1.2, 1.2,
                    1.15, 1.2, 1.2, 1.2, 1.15, 1.1, 1.05, 1.0, 0.95, 0.95, 0.9, 0.85]
      day_of_week: [1.02, 1.02, 1.02, 1.02, 1.0, 0.95, 0.95]
"""  # noqa: E501

_SERVING = """
request_streams:
  chat:
    pool: serving
    target_utilization: {occupancy}
    overload: reject
    fluctuation:         # ASSUMPTION: as in inference_1mw
      relative_std: 0.05
      correlation_time_s: 600
      common_share: 0.5
      reference_rate_rps: 3434.91
    services:            # Llama-3 70B, as measured: `diploee scenarios show inference_1mw_warm`
      coding:
        probability: 0.381
        max_request_rate_rps: 100
        power_curve: llama3_70b_coding_power
        latency_curve: llama3_70b_coding_latency
        standby: warm              # models stay loaded; or cold, as in the paper
        instance_utilization: 0.7  # ASSUMPTION: an autoscaler's target; range 0.5-0.8
      conversation:
        probability: 0.619
        max_request_rate_rps: 50
        power_curve: llama3_70b_conversation_power
        latency_curve: llama3_70b_conversation_latency
        standby: warm              # models stay loaded; or cold, as in the paper
        instance_utilization: 0.7  # ASSUMPTION: an autoscaler's target; range 0.5-0.8
    calendar:            # ASSUMPTION: users of one region, awake by day
      hour_of_day: [0.7, 0.6, 0.55, 0.5, 0.5, 0.55, 0.65, 0.8, 1.0, 1.2, 1.3, 1.35,
                    1.35, 1.35, 1.35, 1.35, 1.3, 1.25, 1.2, 1.15, 1.1, 1.05, 0.95, 0.85]
      day_of_week: [1.05, 1.06, 1.06, 1.05, 1.02, 0.88, 0.88]
"""  # noqa: E501
