"""Limits on a load, and whether it meets them: kinds of limits, presets by name, three verdicts.

A kind, registered with `LIMITS`, is a model of its keys in YAML that makes checks of itself for
what a run shows; a `Check` turns the stream into comparable values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diploee.grid.limits.check import Amount as Amount
    from diploee.grid.limits.check import Check as Check
    from diploee.grid.limits.check import LimitSpec as LimitSpec
    from diploee.grid.limits.check import NotAssessable as NotAssessable
    from diploee.grid.limits.check import Shown as Shown
    from diploee.grid.limits.check import check_of_run as check_of_run
    from diploee.grid.limits.file import LIMITS as LIMITS
    from diploee.grid.limits.file import Limits as Limits
    from diploee.grid.limits.file import load_limits as load_limits
    from diploee.grid.limits.mitigation import Mitigation as Mitigation
    from diploee.grid.limits.mitigation import mitigate as mitigate
    from diploee.grid.limits.report import LimitReport as LimitReport
    from diploee.grid.limits.report import LimitResult as LimitResult
    from diploee.grid.limits.report import check_limits as check_limits
else:
    from diploee.base.fronts import front

    __all__, __getattr__, __dir__ = front(__name__)
