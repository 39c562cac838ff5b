"""Requests above capacity are unserved: R_incomplete of Eq. 6 (section 2.3.2)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from diploee.scenario.overloads import OverloadSpec


class Reject(OverloadSpec):
    """Leave what is above capacity unserved."""

    kind: Literal["reject"] = Field(
        default="reject",
        description="Leave what is above capacity unserved.",
    )
