"""A first scenario of one's own: training and serving at a meter, from five answers."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Annotated, Literal

from pydantic import Field, field_validator

from diploee.clock import fixed_zone, named_zone
from diploee.model import Model, Share

WIDTHS = (2, 4, 8, 16)
"""Nodes of the measured jobs of llama2_70b_lora."""


class Site(Model):
    """Answers to the five questions."""

    poi_mw: Annotated[float, Field(gt=0, le=100_000)] = Field(
        default=20.0, description="Power at the meter with all nodes at their ratings [MW]."
    )
    training_share: Share = Field(
        default=0.7, description="Share of the nodes that train, 0-1; the others serve requests."
    )
    occupancy: Annotated[float, Field(ge=0.01, le=0.95)] = Field(
        default=0.65, description="Mean share of the nodes that are busy, 0.01-0.95."
    )
    time_zone: str = Field(
        default="America/Chicago", description="Time zone, or an offset such as -06:00."
    )
    climate: Literal["denver", "greensboro"] = Field(
        default="greensboro", description="Weather of Denver (dry) or Greensboro (humid)."
    )

    @field_validator("time_zone")
    @classmethod
    def _is_a_zone(cls, text: str) -> str:
        fixed_zone(text) if text[:1] in "+-" else named_zone(text)
        return text


def starter_text(site: Site, name: str, n_nodes: int) -> str:
    """Return a commented scenario file of a site."""
    n_training = max(round(n_nodes * site.training_share), 2) if site.training_share else 0
    pools = {"training": n_training, "serving": n_nodes - n_training}
    wide = max((width for width in WIDTHS if width <= n_training), default=WIDTHS[0])
    is_fixed = site.time_zone[:1] in "+-"
    words = {
        "name": name,
        "poi_mw": f"{site.poi_mw:g}",
        "zone": f'{"utc_offset" if is_fixed else "time_zone"}: "{site.time_zone}"',
        "offset": site.time_zone if is_fixed else _standard_offset(site.time_zone),
        "climate": site.climate,
        "occupancy": f"{site.occupancy:g}",
        "classes": _classes(wide),
    }
    shown = [
        f"    {pool}: {{node_type: h100_4x, n_nodes: {n}}}\n" for pool, n in pools.items() if n
    ]
    streams = [
        text.format(**words)
        for pool, text in (("training", _TRAINING), ("serving", _SERVING))
        if pools[pool]
    ]
    return "".join([_HEAD.format(**words), *shown, _STAGES.format(**words), *streams])


def _classes(widest: int) -> str:
    """Return the job classes, of 4 and 16 nodes where the pool has them."""
    shares: dict[int, float] = {}
    for width, share in ((4, 0.6), (16, 0.4)):
        shares[min(width, widest)] = shares.get(min(width, widest), 0) + share
    duration, lines = f"&hours {_HOURS}", []
    for width, share in shares.items():
        lines += [
            "      - workload: llama2_70b_lora",
            f"        n_nodes: {width}",
            f"        probability: {share:g}",
            f"        duration: {duration}",
        ]
        duration = "*hours"
    return "".join(f"{line}\n" for line in lines)


def _standard_offset(name: str) -> str:
    """Return the offset of a zone's standard time, as ``-06:00``."""
    winter = datetime(2027, 1, 4, tzinfo=named_zone(name))
    offset = (winter.utcoffset() or timedelta()) - (winter.dst() or timedelta())
    return winter.astimezone(timezone(offset)).isoformat()[-6:]


_HOURS = "{lognormal: [{weight: 1, median_s: 14400, sigma: 1.0}], min_s: 1800, max_s: 604800}"

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
      ac_power: dlc
  pools:                 # a number for which the meter reads {poi_mw} MW with all at their ratings
"""

_STAGES = """\
  stages:                # ASSUMPTION: from the nodes to the grid, ratings by their defaults
    - pdu
    - {{kind: ups, mode: double_conversion, redundancy: n+1}}
    - dlc_tower
    - auxiliary_load
    - {{kind: transformers, units: [{{preset: mv_lv}}, {{preset: hv_mv}}]}}
    - {{kind: point_of_interconnection, contract_mva: {poi_mw}}}  # for the headroom
"""

_TRAINING = """
streams:
  training:
    pool: training
    target_utilization: {occupancy}
    classes:             # ASSUMPTION: widths, and hours, median 4; `diploee fit` learns yours
{classes}    calendar:            # ASSUMPTION: half again as many submissions by day as by night
      hour_of_day: [0.85, 0.8, 0.8, 0.8, 0.8, 0.85, 0.9, 1.0, 1.1, 1.2, 1.2, 1.2,
                    1.15, 1.2, 1.2, 1.2, 1.15, 1.1, 1.05, 1.0, 0.95, 0.95, 0.9, 0.85]
      day_of_week: [1.02, 1.02, 1.02, 1.02, 1.0, 0.95, 0.95]
"""

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
    services:            # Llama-3 70B, as measured: `diploee scenarios show inference_1mw`
      coding:
        probability: 0.381
        max_request_rate_rps: 100
        power_curve: llama3_70b_coding_power
        latency_curve: llama3_70b_coding_latency
      conversation:
        probability: 0.619
        max_request_rate_rps: 50
        power_curve: llama3_70b_conversation_power
        latency_curve: llama3_70b_conversation_latency
    calendar:            # ASSUMPTION: users of one region, awake by day
      hour_of_day: [0.7, 0.6, 0.55, 0.5, 0.5, 0.55, 0.65, 0.8, 1.0, 1.2, 1.3, 1.35,
                    1.35, 1.35, 1.35, 1.35, 1.3, 1.25, 1.2, 1.15, 1.1, 1.05, 0.95, 0.85]
      day_of_week: [1.05, 1.06, 1.06, 1.05, 1.02, 0.88, 0.88]
"""
