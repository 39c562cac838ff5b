"""Inference: request rates to instances, served and unserved requests and latency."""

from diploee.loads.services.capacity import (
    Capacity,
    max_request_rate_rps,
    service_capacity,
    sustained_throughput_rps,
)
from diploee.loads.services.columns import SERVICE_COLUMNS, service_columns
from diploee.loads.services.curves import (
    Curves,
    LatencyCurve,
    PowerCurve,
    ServiceCurves,
)
from diploee.loads.services.instances import instances_needed
from diploee.loads.services.plan import plan_services
from diploee.loads.services.requests import RequestRates, request_rates
from diploee.loads.services.reserve import reserve_nodes, reserved_node_shares
from diploee.loads.services.service_plan import (
    PlannedService,
    RequestMatch,
    ServicePlan,
    service_labels,
)
from diploee.loads.services.timeline import (
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
