"""`ServicesLoad`: the services of all request streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from diploee.columns import Columns
from diploee.facility.base import Block, Values
from diploee.loads.services.banks import ServingLoad, serving_segments
from diploee.loads.services.columns import SERVICE_COLUMNS, service_columns
from diploee.loads.services.metrics import request_metrics
from diploee.loads.services.plan import plan_services
from diploee.loads.services.service_plan import ServicePlan
from diploee.power import Segments
from diploee.profiles import PowerProfile, ProfileLibrary
from diploee.scenario import Scenario

if TYPE_CHECKING:
    from diploee.inputs import Inputs


class ServicesLoad:
    """The services of all request streams, planned for the whole run when they are opened.

    Flexible services answer the scenario's events where they are `answering`.
    """

    def __init__(
        self, scenario: Scenario, inputs: Inputs, library: ProfileLibrary, answering: bool = False
    ) -> None:
        flexibility = scenario.flexibility
        self.plans: Sequence[ServicePlan] = plan_services(
            scenario.request_streams,
            scenario.facility,
            scenario.clock,
            scenario.seed,
            inputs.curves,
            inputs.traces,
            flexibility.spans_ms(scenario.clock) if answering and flexibility else (),
        )
        self.serving: ServingLoad = serving_segments(
            self.plans, inputs.curves, scenario.facility, scenario.seed, library
        )
        self.columns: Columns = SERVICE_COLUMNS if scenario.request_streams else ()
        self.library, self.banks = self.serving.library, self.serving.banks
        self.replicas: Sequence[Any] = ()
        self.profile_ids = self.serving.profile_ids
        self.ac_twins: Mapping[int, PowerProfile] = self.serving.twins

    @property
    def bend(self) -> bool:
        """Whether an event changes what any service does."""
        return any(service.cap is not None for plan in self.plans for service in plan.services)

    def between(self, begin_ms: int, end_ms: int) -> Segments:
        """Return what starts in a window."""
        return self.serving.between(begin_ms, end_ms)

    def values(self, block: Block) -> Values:
        """Return request rates, instances and backlog of each service over a block."""
        return service_columns(self.plans, block.t0_ms, block.dt_ms, len(block))

    def metrics(self, pool: str | None = None) -> dict[str, Any]:
        """Return the `requests` block of one pool or of all."""
        plans = [plan for plan in self.plans if pool in (None, plan.pool)]
        return {"requests": request_metrics(plans)} if plans else {}
