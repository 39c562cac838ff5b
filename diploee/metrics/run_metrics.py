"""`RunMetrics`, the sink of `metrics.json`, and `GridMetrics`, its grid metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from diploee.base.boundary import ErrorMaker, check_type, named_errors
from diploee.base.clock import RunClock, WallClock
from diploee.base.errors import InputError
from diploee.base.measures.distribution import Distribution
from diploee.base.measures.ramps_and_swings import Rainflow
from diploee.base.measures.spectrum import BandRms, Spectrum
from diploee.base.measures.streaming import Measure, MeasureRunner, to_mw, to_quanta
from diploee.base.metric import check_declared, flatten
from diploee.base.tables import Float64Array
from diploee.base.units import MS_PER_H, W_PER_MW
from diploee.facility.base import POWER, Block, Stage, StageMeters, interpolated_s
from diploee.facility.point_of_interconnection import PointOfInterconnectionSpec
from diploee.loads.base import Load, load_metrics
from diploee.metrics.catalogue import MEASURES, RunMeasure, core_blocks
from diploee.metrics.causes import Causes, add_causes
from diploee.metrics.demand import FacilityMetrics, Peaks, demand_block, demand_sums
from diploee.metrics.load_changes import Changes, Extreme, Key, rainflow_block
from diploee.metrics.poi import PoiMetrics
from diploee.metrics.spectral_bands import (
    NONE,
    Readings,
    no_spectrum_reason,
    profile_support,
    reported_bands,
    spectrum_block,
)
from diploee.power.blocks import AC_COLUMNS, POWER_COLUMNS
from diploee.profiles.profile import Provenance
from diploee.scenario.models import Facility
from diploee.schedule.schedule import Transient

RELATIVE_THRESHOLD = 0.01
"""Hysteresis of the rainflow count, as a fraction of the rated power."""

# Hysteresis of the rainflow count without rated power [W]
UNRATED_THRESHOLD_W = 1e3

DURATION_PERCENTS = (
    0.0,
    0.01,
    0.02,
    0.05,
    0.1,
    0.2,
    0.5,
    *(float(n) for n in range(1, 101)),
)
"""Points of the load duration curve [% of the time], denser at the highest power."""


def _measure_error(name: str) -> ErrorMaker:
    """Return a factory of errors that name an extension measure."""
    return lambda text: InputError(f"measure '{name}'{text}")


def _open_measure(added: RunMeasure, clock: WallClock) -> Measure:
    """Create an extension measure, and check its methods."""
    with named_errors("opening it", _measure_error(added.name)):
        measure = added.open(clock)
        check_type(
            "n_window",
            measure.n_window,
            int,
            "a whole number",
            _measure_error(added.name),
        )
    return measure


def _measure_values(name: str, measure: Measure) -> Mapping[str, Any]:
    """Return an extension measure's values, which must match its declaration."""
    make_error = _measure_error(name)
    with named_errors("result", make_error):
        values = measure.result()
        check_type("its result", values, Mapping, "values by name", make_error)
    values_by_key = dict(flatten(values, f"measures.{name}."))
    declared = MEASURES[name].metrics
    check_declared(values_by_key.items(), declared, make_error)
    if missing := [
        m.key for m in declared if "<" not in m.key and m.key not in values_by_key
    ]:
        raise make_error(
            f" lacks metric '{missing[0]}', which it declares; give it, None if unknown"
        )
    return values


class GridMetrics:
    """Accumulator of the grid metrics of a power series.

    Results do not depend on how the series is cut into blocks. `readings` are the meter
    properties or provenances of the profiles that the run used, which limit the
    reported metrics. The
    threshold of the rainflow count is 1 % of the devices' rated power, or 1 kW without
    rated power. `headroom_to_w` is the rated power at the point of power measurement,
    by default that of the devices.
    """

    def __init__(
        self,
        step_ms: int,
        start: datetime,
        *,
        rated_power_w: float,
        readings: Iterable[Readings | Provenance] = (),
        headroom_to_w: float | None = None,
        interpolated_s: float = 0.0,
    ) -> None:
        self._clock = WallClock(start, step_ms)
        self._headroom_to_w = rated_power_w if headroom_to_w is None else headroom_to_w
        self._support = profile_support(readings, interpolated_s).at_resolution(step_ms)
        bands_hz = reported_bands(self._support)
        self._no_spectrum = no_spectrum_reason(step_ms)
        has_spectrum = bands_hz and not self._no_spectrum
        self._spectrum = Spectrum(step_ms, bands_hz) if has_spectrum else None
        self._rainflow = Rainflow(
            RELATIVE_THRESHOLD * rated_power_w or UNRATED_THRESHOLD_W
        )
        self._demand = demand_sums(self._clock)
        self._changes, self._peaks = Changes(self._clock), Peaks(self._clock)
        spectrum = [] if self._spectrum is None else [self._spectrum]
        self._extensions = {
            name: _open_measure(extension, self._clock)
            for name, extension in MEASURES.items()
        }
        built_in = (
            self._rainflow,
            *self._demand.values(),
            *self._changes.measures,
            *spectrum,
        )
        measures = (*built_in, *self._extensions.values())
        self._series = MeasureRunner(step_ms, measures)
        self._sum = self._count = self._n_transient = 0
        self._begin_ms: int | None = None

    def add(
        self,
        t0_ms: int,
        power_w: Float64Array,
        pools_w: Mapping[str, Float64Array] | None = None,
        transient_ms: int = 0,
    ) -> None:
        """Add the next block of mean power, from `t0_ms` [W], also per pool.

        Power before `transient_ms`, the end of the warm-up, counts in the mean only.
        Raises `ValueError` if the block does not start at the end of the last block, or
        if power is not finite.
        """
        if not power_w.size:
            return
        self._check_begin(t0_ms)
        quanta = to_quanta(power_w)
        self._sum += int(quanta.sum())
        self._count += quanta.size
        n_transient = quanta.size - self._series.add(t0_ms, quanta, transient_ms)
        self._n_transient += n_transient
        if n_transient < quanta.size:
            after_transient = slice(n_transient, None)
            pools_w = {
                name: pool_w[after_transient]
                for name, pool_w in (pools_w or {}).items()
            }
            self._peaks.add(
                power_w[after_transient],
                t0_ms + n_transient * self._clock.step_ms,
                pools_w,
            )

    def block(
        self, power_w: Distribution | None = None, energy_j: Mapping[str, float] = NONE
    ) -> dict[str, Any]:
        """Return the `grid` block of the metrics, and the load duration curve [W].

        `energy_j` is the energy of each profile [J] by its id.

        Raises `ValueError` if nothing was added.
        """
        if self._begin_ms is None:
            raise ValueError("no power was added")
        clock, support = self._clock, self._support
        mean_mw = to_mw(self._sum, self._count)
        return {
            "resolution_s": clock.step_s,
            "transient_h": self._n_transient * clock.step_ms / MS_PER_H,
            "bandwidth": support.block(energy_j),
            **self._peaks.blocks(mean_mw, self._headroom_to_w),
            "maximum_demand": demand_block(self._demand, mean_mw, clock),
            "load_duration_curve": self._duration_curve(power_w),
            **self._changes.blocks(support),
            "rainflow": rainflow_block(
                self._rainflow, clock, (self._count - self._n_transient) * clock.step_ms
            ),
            "spectrum": spectrum_block(
                self.spectrum, clock, support, self._no_spectrum
            ),
        }

    def measures_block(self) -> dict[str, Any]:
        """Return the `measures` block of the extension measures; empty if none."""
        blocks = {
            name: _measure_values(name, measure)
            for name, measure in self._extensions.items()
        }
        return {"measures": blocks} if blocks else {}

    def extremes(self) -> dict[Key, Extreme]:
        """Return the worst events so far: peak, ramps, changes and ranges."""
        peak = self._peaks.peak
        if peak is None:
            return {}
        peak_extreme = Extreme(None, (peak.at_ms, peak.at_ms + self._clock.step_ms))
        return {
            ("peak", self._clock.step_s, ""): peak_extreme
        } | self._changes.extremes()

    @property
    def end_ms(self) -> int:
        """End of the last interval added [ms since the run's start]."""
        return (self._begin_ms or 0) + self._count * self._clock.step_ms

    @property
    def spectrum(self) -> BandRms | None:
        """Power spectra of the 10-minute windows.

        None if the resolution is too coarse for spectra.
        """
        return None if self._spectrum is None else self._spectrum.result()

    def _check_begin(self, t0_ms: int) -> None:
        """Raise an error if a block does not follow the last one."""
        if self._begin_ms is None:
            if t0_ms % self._clock.step_ms:
                raise ValueError(
                    f"the first interval starts off the run's intervals: {t0_ms} ms"
                )
            self._begin_ms = t0_ms
        elif t0_ms != self.end_ms:
            raise ValueError(
                f"expected the block that starts at {self.end_ms} ms, found {t0_ms} ms"
            )

    def _duration_curve(self, power_w: Distribution | None) -> dict[str, Any] | None:
        """Return the load duration curve: power by exceedance, decreasing."""
        if power_w is None:
            return None
        decreasing_w = power_w.percentiles(
            *(100 - percent for percent in DURATION_PERCENTS)
        )
        return {
            "resolution_s": self._clock.step_s,
            "percent_of_time": list(DURATION_PERCENTS),
            "exceeded_mw": [value / W_PER_MW for value in decreasing_w],
        }


class RunMetrics:
    """Accumulator of all metrics of a run over its blocks.

    The facility's power is `facility_power_w`, after its stages, and `rated_w` the
    rated power at the same point [W]. The power of a pool is that of its devices.
    `readings` are the meter properties or provenances of the profiles that the run may
    use, which limit the reported metrics. The grid's extremes exclude the warm-up,
    `transient`. Blocks are at the run's resolution, except that `stages`, the stages'
    meters, receive blocks at the run's step.
    """

    def __init__(
        self,
        facility: Facility,
        clock: RunClock,
        rated_w: float,
        readings: Iterable[Readings | Provenance],
        stages: Iterable[Stage] = (),
        causes: Causes | None = None,
        transient: Transient | None = None,
    ) -> None:
        self._causes, self._transient = causes, transient
        stages = list(stages)
        self.stages = StageMeters(stages, core_blocks())
        self._whole = FacilityMetrics(rated_w, clock.step_ms)
        self._pools: dict[str, FacilityMetrics] = {}
        if len(facility.pools) > 1:
            self._pools = {
                name: FacilityMetrics(facility.pool_rated_power_w(name), clock.step_ms)
                for name in facility.pools
            }
        self._only_pool = (
            next(iter(facility.pools)) if len(facility.pools) == 1 else None
        )
        self._grid = GridMetrics(
            clock.step_ms,
            clock.start_with_zone,
            rated_power_w=facility.rated_power_w,
            readings=readings,
            headroom_to_w=rated_w,
            interpolated_s=interpolated_s(stages),
        )
        self._poi: PoiMetrics | None = None
        for spec in facility.stages:
            if isinstance(spec, PointOfInterconnectionSpec):
                stage_columns = (column for stage in stages for column in stage.columns)
                columns = (*POWER_COLUMNS, *AC_COLUMNS, *stage_columns)
                self._poi = PoiMetrics(
                    clock.wall,
                    columns,
                    spec.contract_mva,
                    spec.billing,
                    spec.contract_mw,
                )

    def add(self, block: Block) -> None:
        """Add a block to all metrics."""
        columns = block.columns
        self._whole.add(
            columns[POWER], columns["utilization"], columns.get("standing_nodes")
        )
        pools_w = {self._only_pool: columns["it_power_w"]} if self._only_pool else {}
        for name, pool_metrics in self._pools.items():
            pools_w[name] = columns[f"it_power_w.{name}"]
            installed = columns.get(f"standing_nodes.{name}")
            pool_metrics.add(pools_w[name], columns[f"utilization.{name}"], installed)
        transient_ms = self._transient.end_ms if self._transient else 0
        self._grid.add(block.t0_ms, columns[POWER], pools_w, transient_ms)
        if self._poi is not None:
            self._poi.add(block, transient_ms)
        if self._causes is not None:
            self._causes.add(block)
            self._causes.update(self._grid.extremes())

    def blocks(
        self, loads: Sequence[Load], energy_j: Mapping[str, float] = NONE
    ) -> dict[str, Any]:
        """Return all metrics, with those of loads and profile energies [J] by id."""
        result = self._whole.blocks()
        used_names = {*result, "grid", "measures", "pools", "poi"}
        result |= load_metrics(loads, None, used_names)
        result["grid"] = self._grid.block(self._whole.power_w, energy_j)
        result |= self._grid.measures_block()
        if self._causes is not None:
            add_causes(result["grid"], self._causes.entries())
        if self._pools:
            result["pools"] = {
                name: pool_metrics.blocks() | load_metrics(loads, name, used_names)
                for name, pool_metrics in self._pools.items()
            }
        if self._poi is not None:
            result |= self._poi.blocks()
        return result | self.stages.blocks()
