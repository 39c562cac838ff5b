"""The stages that a scenario may name."""

from __future__ import annotations

from diploee.facility.base import StageSpec
from diploee.kinds import Kinds

STAGES: Kinds[StageSpec] = Kinds("stage", StageSpec, "diploee.facility")
"""Stages by name: one module of this package each, and those registered from outside."""
