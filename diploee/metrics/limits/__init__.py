"""Limits on a load, and whether it meets them: kinds of limits, presets by name, three verdicts.

A kind, registered with `LIMITS`, is a model of its keys in YAML that makes checks of itself for
what a run shows; a `Check` turns the stream into comparable values.
"""

from diploee.metrics.limits.check import Check, LimitSpec, Shown, check_of_run
from diploee.metrics.limits.file import LIMITS, Limits, find_limits, load_limits, shipped_limits
from diploee.metrics.limits.report import LimitReport, LimitResult, check_limits, seen_by

__all__ = [
    "LIMITS", "Check", "LimitReport", "LimitResult", "LimitSpec", "Limits", "Shown", "check_limits",
    "check_of_run", "find_limits", "load_limits", "seen_by", "shipped_limits",
]  # fmt: skip
