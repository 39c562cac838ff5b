"""A battery that holds the supply steady.

Each interval of length dt asks for a supply: the load within a ramp limit r of the supply before,
``clip(load, supply - r dt, supply + r dt)``, or the load through a first-order lag of time constant
tau. The battery gives the difference b = load - supply as far as its power and its store reach;
what it can't cover passes through, and is counted. With e the energy stored::

    e' = e - b dt / eta_d   (b > 0, discharging)        e' = e - b dt eta_c   (b < 0, charging)

A part ``feedback (e_ref - e)`` of the supply brings the store back to its reference. All of it is
O(1) an interval and its state is handed on, so that results do not depend on blocks. ASSUMPTION
[J]: reactive power passes it unchanged.

References
----------
Sheet "Flexibility and mitigation", section 5 (C3, C6); parameters are assumed where it says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field, model_validator

from diploee.columns import Column
from diploee.facility.base import POWER, Block, StageSpec, Values, tenth_ms
from diploee.facility.meters import ColumnMeter
from diploee.jit import njit
from diploee.measures.distribution import Energy, HoursAbove, Most
from diploee.measures.ramps import TurningPoints
from diploee.metric import Metric
from diploee.model import SCALES, Model
from diploee.tables import Float64Array, Int64Array
from diploee.units import J_PER_MWH, MS_PER_H, MS_PER_S, S_PER_MIN, W_PER_KW, W_PER_MW

ROUNDING_W = 1e-3
"""A smaller shortfall is rounding [W]."""

DEPTHS_PERCENT = (1, 10, 20, 50, 100)
"""Edges of the classes of a cycle's depth [% of the nominal energy]; all depths are added up."""

_PARTS = 10**9
"""The state of charge is counted in such parts of the nominal energy."""


class Store(NamedTuple):
    """A battery in W, J and s."""

    power_w: float  # most that it takes and gives [W]
    # Energy that it may be emptied and filled to, and what it is brought back to [J]
    least_j: float
    most_j: float
    reference_j: float
    # Efficiencies, 0-1
    charge: float = 1.0
    discharge: float = 1.0
    feedback_per_s: float = 0.0  # power that brings it back, per energy that lacks [1/s]
    gives_w: float = np.nan  # most that it gives [W]; as much as it takes if NaN


class Hold(NamedTuple):
    """Limits on the ramps and the lag of the supply."""

    # Largest ramps [W/s]; infinite for none
    up_w_per_s: float = np.inf
    down_w_per_s: float = np.inf
    lag_s: float = 0.0  # time constant of the lag [s]; 0 for none


@dataclass(frozen=True, eq=False)
class Held:
    """Supply, battery and store under a load, each of shape (n,)."""

    supply_w: Float64Array  # what is drawn [W]
    battery_w: Float64Array  # what the battery gives, negative where it takes [W]
    stored_j: Float64Array  # energy in it at the end of each interval [J]
    uncovered_w: Float64Array  # by how much it misses the supply that was asked for [W]
    # Supply of the last interval, or the lag's level [W], and energy stored [J]
    state: tuple[float, float]


def hold(
    load_w: Float64Array, dt_s: float, store: Store, asked: Hold, state: tuple[float, float]
) -> Held:
    """Hold the supply of a load by a store."""
    rows = np.empty((4, load_w.size))
    if np.isnan(store.gives_w):
        store = store._replace(gives_w=store.power_w)
    numbers = Store(*map(float, store)), Hold(*map(float, asked))
    last = _hold(load_w, dt_s, *numbers, *state, rows)
    return Held(rows[0], rows[1], rows[2], rows[3], last)


@njit()
def _hold(
    load_w: Float64Array,
    dt_s: float,
    store: Store,
    asked: Hold,
    supply_w: float,
    stored_j: float,
    rows: Float64Array,
) -> tuple[float, float]:
    lag_s, charge, discharge = asked.lag_s, store.charge, store.discharge
    # A lag of interval means: the level y after an interval, and the mean over it.
    kept = np.exp(-dt_s / lag_s) if lag_s > 0 else 0.0
    level_w = supply_w
    for k in range(load_w.size):
        wish_w = load_w[k] + store.feedback_per_s * (store.reference_j - stored_j)
        if lag_s > 0:
            asked_w = wish_w + (level_w - wish_w) * (1 - kept) * lag_s / dt_s
            level_w = wish_w + (level_w - wish_w) * kept
        else:
            lowest_w = supply_w - asked.down_w_per_s * dt_s
            asked_w = min(max(wish_w, lowest_w), supply_w + asked.up_w_per_s * dt_s)
        gives_w = load_w[k] - asked_w
        if gives_w > 0:
            room_w = max(stored_j - store.least_j, 0.0) * discharge / dt_s
            gives_w = min(gives_w, store.gives_w, room_w)
            stored_j -= gives_w * dt_s / discharge
        else:
            room_w = max(store.most_j - stored_j, 0.0) / charge / dt_s
            gives_w = -min(-gives_w, store.power_w, room_w)
            stored_j -= gives_w * dt_s * charge
        supply_w = load_w[k] - gives_w
        rows[0, k] = supply_w
        rows[1, k] = gives_w
        rows[2, k] = stored_j
        rows[3, k] = abs(supply_w - asked_w)
    return (level_w if lag_s > 0 else supply_w), stored_j


@dataclass(frozen=True)
class _CycleCount:
    """Rainflow cycles of a state of charge, half-cycles as halves (ASTM E1049-85, 5.4.4)."""

    # Cycles of each class of `DEPTHS_PERCENT`; both edges belong to the last
    classes: tuple[float, ...]
    deepest: float  # depth of the deepest cycle or half-cycle, 0-1
    # Depths of all cycles added up, the smallest ones too, in full cycles
    depths: float


class ChargeCycles:
    """Counts the rainflow cycles of a state of charge given in consecutive blocks.

    Depths are whole billionths of the nominal energy: counts do not depend on blocks.
    """

    def __init__(self) -> None:
        self._points = TurningPoints(1)
        self._classes = np.zeros(len(DEPTHS_PERCENT) + 1, dtype=np.int64)
        self._deepest = self._depths = 0

    def add(self, charge: Float64Array) -> None:
        """Add consecutive states of charge, 0-1."""
        parts = np.rint(charge * _PARTS).astype(np.int64)
        for closed in self._points.add(parts, 0, 0):
            self._classes += 2 * _by_depth(closed[0])
            self._depths += 2 * int(closed[0].sum())
            self._deepest = max(self._deepest, int(closed[0].max(initial=0)))

    def count(self) -> _CycleCount:
        """Return the cycles so far."""
        halves = np.abs(np.diff(self._points.residue))
        classes = self._classes + _by_depth(halves)
        classes[-2] += classes[-1]
        return _CycleCount(
            tuple((classes[1:-1] / 2).tolist()),
            max(self._deepest, int(halves.max(initial=0))) / _PARTS,
            (self._depths + int(halves.sum())) / 2 / _PARTS,
        )


def _by_depth(depths: Int64Array) -> Int64Array:
    """Return how many depths lie below, between and above the edges of the classes."""
    edges = np.array(DEPTHS_PERCENT) * (_PARTS // 100)
    found = np.searchsorted(edges, depths, side="right")
    return np.bincount(found, minlength=edges.size + 1)


_EXAMPLE = "{{kind: battery, power_mw: 2, energy_mwh: 1, {}}}"
MODES = {
    "ramp_limit": (
        "holds ramps", _EXAMPLE.format("ramp_limit: {up_mw_per_min: 5, down_mw_per_min: 5}")
    ),
    "smoothing_s": ("smooths the power by a lag", _EXAMPLE.format("smoothing_s: 600")),
}  # fmt: skip
"""Modes of a battery by key: in words, and an entry as an example."""

Rate = Annotated[float, Field(gt=0)]


State = tuple[float, float] | None
"""Supply of the interval before [W], or the lag's level, and energy stored [J]; None to begin: with
the load as it is, at the reference."""


class RampRates(Model):
    """Largest ramps of the supply."""

    up_mw_per_min: Annotated[Rate | None, SCALES] = Field(
        default=None, description="Largest rise [MW/min]."
    )
    down_mw_per_min: Annotated[Rate | None, SCALES] = Field(
        default=None, description="Largest fall [MW/min]."
    )

    @model_validator(mode="after")
    def _some(self) -> RampRates:
        if self.up_mw_per_min is None and self.down_mw_per_min is None:
            raise ValueError("give up_mw_per_min, down_mw_per_min or both")
        return self

    def hold(self) -> Hold:
        """Return them in W/s."""
        up, down = (
            np.inf if rate is None else rate * W_PER_MW / S_PER_MIN
            for rate in (self.up_mw_per_min, self.down_mw_per_min)
        )
        return Hold(up, down)


class BatterySpec(StageSpec):
    """A battery at this place of the facility that holds ramps or smooths the power."""

    columns = (
        Column("battery_power_w", "W", "facility", "mean", "at the battery's terminals",
               "what the battery gives, negative where it takes"),
        Column("battery_discharge_w", "W", "facility", "mean", "within the battery",
               "what leaves its store, losses included; negative where it fills", "store"),
        Column("battery_state_of_charge", "1", "facility", "mean", None,
               "energy in the battery at the end of the interval, of its nominal energy"),
        Column("battery_loss_w", "W", "facility", "mean", "within the battery",
               "conversion losses and auxiliary power of the battery", "loss"),
        Column("battery_uncovered_w", "W", "facility", "mean", None,
               "by how much the supply misses what the battery is asked to hold"),
    )  # fmt: skip
    metrics = (
        Metric("battery.discharged_mwh", "MWh", "energy that the battery gave", "{:,.2f}",
               view="table"),
        Metric("battery.loss_mwh", "MWh", "energy that the battery lost", "{:,.2f}", view="table"),
        Metric("battery.equivalent_full_cycles", "1", "equivalent full cycles", "{:,.1f}",
               view="table", text="energy given and taken over twice the nominal energy"),
        Metric("battery.cycled_depth", "1", "depths of all rainflow cycles added up", "{:,.1f}",
               "of the state of charge, by ASTM E1049-85, half-cycles as halves", "table"),
        Metric("battery.deepest_cycle", "%", "depth of the deepest rainflow cycle", "{:.1f}",
               "of the nominal energy", "table", 100),
        *(
            Metric(f"battery.cycles_{low}_to_{high}_percent", "1",
                   f"rainflow cycles of {low} to {high} % of the nominal energy", "{:,.1f}",
                   view="table")
            for low, high in pairwise(DEPTHS_PERCENT)
        ),
        Metric("battery.uncovered_h", "h", "time beyond what the battery covers", "{:,.2f}",
               view="table"),
        Metric("battery.uncovered_mwh", "MWh", "energy that it could not cover", "{:,.3f}"),
        Metric("battery.least_state_of_charge", "1", "least state of charge", "{:.3f}"),
        Metric("battery.most_state_of_charge", "1", "highest state of charge", "{:.3f}"),
    )  # fmt: skip
    boundary = "behind a battery"
    comes_again: ClassVar[bool] = True

    kind: Literal["battery"] = Field(
        default="battery",
        description="A battery at this place that holds ramps, or smooths the power.",
    )
    power_mw: Annotated[float, Field(gt=0), SCALES] = Field(
        description="Most that it takes and gives [MW]."
    )
    energy_mwh: Annotated[float, Field(gt=0), SCALES] = Field(
        description="Nominal energy [MWh]; usable of it: what is between least_ and "
        "most_state_of_charge, 80 % by default."
    )
    ramp_limit: RampRates | None = Field(
        default=None, description="Ramps of the supply that it holds; or smoothing_s."
    )
    smoothing_s: Annotated[float, Field(gt=0)] | None = Field(
        default=None, description="Time constant of the lag that the supply follows the load with."
    )
    charge_efficiency: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.95, description="Energy stored per energy taken, 0-1 (assumed)."
    )
    discharge_efficiency: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.95, description="Energy given per energy drawn from the store, 0-1 (assumed)."
    )
    auxiliary_kw: Annotated[float, Field(ge=0), SCALES] = Field(
        default=0.0, description="Its own constant power [kW]."
    )
    least_state_of_charge: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.1,
        description="It is not emptied below this part of its nominal energy (assumed).",
    )
    most_state_of_charge: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.9, description="It is not filled above this part of its nominal energy (assumed)."
    )
    reference_state_of_charge: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.5, description="State that it starts with, and is brought back to (assumed)."
    )
    feedback_per_h: Annotated[float, Field(ge=0)] = Field(
        default=1.0,
        description="Part of the lacking energy that it asks for per hour, to be brought back "
        "(assumed).",
    )

    @model_validator(mode="before")
    @classmethod
    def _one_mode(cls, value: Any) -> Any:
        # Before the other keys are looked at: an entry of the kind alone is shown the modes.
        modes = [key for key in MODES if isinstance(value, dict) and value.get(key) is not None]
        if isinstance(value, dict) and len(modes) != 1:
            examples = "; ".join(f"{what}: {example}" for what, example in MODES.values())
            raise ValueError(
                f"a battery has one mode, {' or '.join(MODES)}, found "
                f"{' and '.join(modes) or 'none'} ({examples})"
            )
        return value

    @model_validator(mode="after")
    def _parts_fit(self) -> BatterySpec:
        low, middle, high = (
            self.least_state_of_charge,
            self.reference_state_of_charge,
            self.most_state_of_charge,
        )
        if not low <= middle <= high or low == high:
            raise ValueError(
                "least, reference and most_state_of_charge must rise, found "
                f"{low:g}, {middle:g}, {high:g}"
            )
        return self

    def store(self) -> Store:
        """Return it in W, J and s."""
        capacity_j = self.energy_mwh * J_PER_MWH
        return Store(
            self.power_mw * W_PER_MW,
            self.least_state_of_charge * capacity_j,
            self.most_state_of_charge * capacity_j,
            self.reference_state_of_charge * capacity_j,
            self.charge_efficiency,
            self.discharge_efficiency,
            self.feedback_per_h / (MS_PER_H / MS_PER_S),
        )

    def hold(self) -> Hold:
        """Return what it holds."""
        if self.ramp_limit is not None:
            return self.ramp_limit.hold()
        return Hold(lag_s=self.smoothing_s or 0.0)

    def needed_step_ms(self) -> int | None:
        """Return a tenth of what its mode takes place in [ms]: the lag, or a ramp's minute."""
        return tenth_ms(self.smoothing_s or S_PER_MIN)

    def apply(self, block: Block, state: State) -> tuple[Values, State]:
        """Hold the facility's power, and tell what the battery does."""
        load_w, dt_s = block.columns[POWER], block.dt_ms / MS_PER_S
        auxiliary_w, store = self.auxiliary_kw * W_PER_KW, self.store()
        before = (float(load_w[0]), store.reference_j) if state is None else state
        held = hold(load_w, dt_s, store, self.hold(), before)
        loss_w = np.where(
            held.battery_w > 0,
            held.battery_w * (1 / store.discharge - 1),
            -held.battery_w * (1 - store.charge),
        )
        columns = {
            "battery_power_w": held.battery_w,
            "battery_discharge_w": held.battery_w + loss_w,
            "battery_state_of_charge": held.stored_j / (self.energy_mwh * J_PER_MWH),
            "battery_loss_w": loss_w + auxiliary_w,
            "battery_uncovered_w": held.uncovered_w,
            POWER: held.supply_w + auxiliary_w,
        }
        return columns, held.state

    def meter(self) -> _BatteryMeter:
        """Return what measures it."""
        return _BatteryMeter(self)


class _BatteryMeter(ColumnMeter):
    """Measures what a battery does over a run."""

    def __init__(self, spec: BatterySpec) -> None:
        power, uncovered, charge = (
            f"battery_{name}" for name in ("power_w", "uncovered_w", "state_of_charge")
        )
        super().__init__({
            "battery.discharged_mwh": (Energy(), lambda columns: np.maximum(columns[power], 0)),
            "battery.loss_mwh": (Energy(), "battery_loss_w"),
            "battery.uncovered_h": (HoursAbove(ROUNDING_W), uncovered),
            "battery.uncovered_mwh": (Energy(), uncovered),
            "battery.least_state_of_charge": (
                Most(-np.inf, per=-1), lambda columns: -columns[charge]
            ),
            "battery.most_state_of_charge": (Most(-np.inf), charge),
        })  # fmt: skip
        self._capacity_mwh, self._taken = spec.energy_mwh, Energy()
        self._cycles = ChargeCycles()
        self._cycles.add(np.array([spec.reference_state_of_charge]))

    def add(self, block: Block) -> None:
        """Take in a block."""
        super().add(block)
        self._taken.add(-np.minimum(block.columns["battery_power_w"], 0), block.dt_ms)
        self._cycles.add(block.columns["battery_state_of_charge"])

    def values(self) -> dict[str, float | None]:
        """Return the metrics."""
        found, cycles = super().values(), self._cycles.count()
        moved_mwh = (found["battery.discharged_mwh"] or 0.0) + self._taken.result()
        return {
            "battery.discharged_mwh": found.pop("battery.discharged_mwh"),
            "battery.loss_mwh": found.pop("battery.loss_mwh"),
            "battery.equivalent_full_cycles": moved_mwh / (2 * self._capacity_mwh),
            "battery.cycled_depth": cycles.depths,
            "battery.deepest_cycle": cycles.deepest,
            **{
                f"battery.cycles_{low}_to_{high}_percent": n
                for (low, high), n in zip(pairwise(DEPTHS_PERCENT), cycles.classes, strict=True)
            },
            **found,
        }
