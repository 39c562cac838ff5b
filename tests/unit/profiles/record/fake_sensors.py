"""Sensors of a known signal, and a clock that the test moves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from diploee.profiles.record import Reading

NS = 1_000_000_000


@dataclass
class Clock:
    """Stands still until it is told to wait; waits are late by up to `late_s`, and end in time."""

    end_s: float
    late_s: float = 0.0
    now_ns: int = 5_000_000_000
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))

    def __call__(self) -> int:
        return self.now_ns

    @property
    def t_s(self) -> float:
        return self.now_ns / NS - 5.0

    def wait(self, seconds: float) -> bool:
        late_s = self.rng.uniform(0, self.late_s) if self.late_s else 0.0
        seconds = min(seconds + late_s, self.end_s - self.t_s)
        self.now_ns += max(0, round(seconds * NS))
        return self.t_s >= self.end_s - 1e-9


@dataclass
class FakeSensor:
    """Power and energy as functions of the time [s]."""

    clock: Clock
    power_w: Callable[[float], float] | None = None
    energy_j: Callable[[float], float] | None = None
    device: str = "gpu-0"
    label: str = "Fake GPU"
    averaging_window_s: float | None = 0.0
    counter_range_j: float = np.inf
    read_takes_s: float = 0.0

    def read(self) -> Reading:
        self.clock.now_ns += round(self.read_takes_s * NS)
        t_s = self.clock.t_s
        return Reading(
            np.nan if self.power_w is None else self.power_w(t_s),
            np.nan if self.energy_j is None else self.energy_j(t_s) % self.counter_range_j,
        )
