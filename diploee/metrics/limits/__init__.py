"""Limits on a load, and whether it meets them: kinds of limits, presets by name, three verdicts.

A kind, registered with `LIMITS`, is a model of its keys in YAML that makes checks of itself for
what a run shows; a `Check` turns the stream into comparable values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diploee.metrics.limits.check import Amount as Amount
    from diploee.metrics.limits.check import Check as Check
    from diploee.metrics.limits.check import LimitSpec as LimitSpec
    from diploee.metrics.limits.check import NotAssessable as NotAssessable
    from diploee.metrics.limits.check import Shown as Shown
    from diploee.metrics.limits.check import check_of_run as check_of_run
    from diploee.metrics.limits.file import LIMITS as LIMITS
    from diploee.metrics.limits.file import Limits as Limits
    from diploee.metrics.limits.file import load_limits as load_limits
    from diploee.metrics.limits.mitigation import Mitigation as Mitigation
    from diploee.metrics.limits.mitigation import mitigate as mitigate
    from diploee.metrics.limits.report import LimitReport as LimitReport
    from diploee.metrics.limits.report import LimitResult as LimitResult
    from diploee.metrics.limits.report import check_limits as check_limits
else:
    from diploee.fronts import front

    __all__, __getattr__, __dir__ = front(__name__)
