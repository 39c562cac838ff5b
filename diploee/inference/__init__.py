"""Inference: request rates to instances, served and unserved requests and latency."""

from diploee.inference.capacity import (
    Capacity,
    max_request_rate_rps,
    service_capacity,
    sustained_throughput_rps,
)
from diploee.inference.columns import SERVICE_COLUMNS, service_columns
from diploee.inference.curves import (
    Curves,
    LatencyCurve,
    PowerCurve,
    ServiceCurves,
)
from diploee.inference.instances import instances_needed
from diploee.inference.plan import plan_services
from diploee.inference.requests import RequestRates, request_rates
from diploee.inference.reserve import reserve_nodes, reserved_node_shares
from diploee.inference.service_plan import (
    PlannedService,
    RequestMatch,
    ServicePlan,
    service_labels,
)
from diploee.inference.timeline import (
    ScalingRules,
    ServedRequests,
    cut_at_crossings,
    fifo_wait_s,
    serve_requests,
)

__all__ = [
    "SERVICE_COLUMNS",
    "Capacity",
    "Curves",
    "LatencyCurve",
    "PlannedService",
    "PowerCurve",
    "RequestMatch",
    "RequestRates",
    "ScalingRules",
    "ServedRequests",
    "ServiceCurves",
    "ServicePlan",
    "cut_at_crossings",
    "fifo_wait_s",
    "instances_needed",
    "max_request_rate_rps",
    "plan_services",
    "request_rates",
    "reserve_nodes",
    "reserved_node_shares",
    "serve_requests",
    "service_capacity",
    "service_columns",
    "service_labels",
    "sustained_throughput_rps",
]
