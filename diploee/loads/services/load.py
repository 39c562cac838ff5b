"""`ServicesLoad`: the services of all request streams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from diploee.facility.base import Block, Values
from diploee.loads.services.banks import BankLoad, serving_segments
from diploee.loads.services.columns import SERVICE_COLUMNS, service_columns
from diploee.loads.services.metrics import request_metrics
from diploee.loads.services.plan import plan_services
from diploee.loads.services.service_plan import ServicePlan
from diploee.profiles import ProfileLibrary
from diploee.scenario import Scenario

if TYPE_CHECKING:
    from diploee.inputs import Inputs


class ServicesLoad(BankLoad):
    """The services of all request streams, planned for the whole run when they are opened.

    Flexible services answer the scenario's events where they are `answering`.
    """

    def __init__(
        self, scenario: Scenario, inputs: Inputs, library: ProfileLibrary, answering: bool = False
    ) -> None:
        flexibility, facility, seed = scenario.flexibility, scenario.facility, scenario.seed
        self.plans: Sequence[ServicePlan] = plan_services(
            scenario.request_streams,
            facility,
            scenario.clock,
            seed,
            inputs.curves,
            inputs.traces,
            flexibility.spans_ms(scenario.clock) if answering and flexibility else (),
        )
        lowered = serving_segments(self.plans, inputs.curves, facility, seed, library)
        super().__init__(lowered.banks, lowered.library, lowered.standby_w, lowered.ac_profiles)
        self.columns = SERVICE_COLUMNS if scenario.request_streams else ()

    @property
    def bend(self) -> bool:
        """Whether an event changes what any service does."""
        return any(service.cap is not None for plan in self.plans for service in plan.services)

    def values(self, block: Block) -> Values:
        """Return request rates, instances and backlog of each service over a block."""
        return service_columns(self.plans, block.t0_ms, block.dt_ms, len(block))

    def metrics(self, pool: str | None = None) -> dict[str, Any]:
        """Return the `requests` block of one pool or of all."""
        plans = [plan for plan in self.plans if pool in (None, plan.pool)]
        return {"requests": request_metrics(plans)} if plans else {}
