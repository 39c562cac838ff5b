"""`ReplicaStream -> ReplicaPlan`: power, batch sizes and latency of replicas, step by step.

Replica i of a model at batch size b draws ``a_i p_b(t + phi_i D_b)``: its template p_b, repeated
with its length D_b, from a place phi_i of its own, times an amplitude a_i; both are drawn once per
run, so that more replicas add to those that run. The noise of R replicas, independent and of the
standard deviation ``f a_i p``, is one normal draw of ``f sqrt(sum (a_i p)^2)``. Batch sizes change
between control intervals alone, in each of which the mean latency over replicas is drawn once from
the mixture of its batch size. ASSUMPTION: a change of batch size is instantaneous, and the place in
the template, as a part of its length, is that which it would have by then; replicas of all models
fill nodes without gaps [J].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

from diploee.clock import RunClock
from diploee.errors import InputError, WorkloadError, did_you_mean, one_line, one_of, shown
from diploee.files.places import shipped_folder
from diploee.neighbours.openg2g import (
    InferenceData,
    InferenceDataParams,
    LogisticModelStore,
    ServingFits,
)
from diploee.neighbours.openg2g.inference_data import ModelData
from diploee.neighbours.openg2g.replicas.control import (
    Constraint,
    ControlSetting,
    ControlView,
    ModelSetting,
    Observed,
)
from diploee.neighbours.openg2g.sources import OpenG2GSource
from diploee.scenario import Facility
from diploee.scenario.replica_streams import ReplicaModel, ReplicaStream
from diploee.streams import stream
from diploee.tables import Float64Array, Int64Array
from diploee.units import MS_PER_S

MOST_STEPS = 20_000_000
"""Steps of the power of a stream; each takes some 50 bytes while it is planned."""


@dataclass(frozen=True, eq=False)
class _ReplicaData:
    """Data of a served model."""

    measured: ModelData  # templates of a replica's power and latency mixtures by batch size
    setting: ModelSetting  # feasible batch sizes, deadline and fits, as the scenario has them
    shipped: bool  # whether they are the shipped ones, synthesised about published facts


Datasets = Mapping[tuple[str, str], _ReplicaData]
"""By the names of stream and model."""


def load_replica_data(
    specs: Mapping[str, ReplicaStream], folder: Path
) -> dict[tuple[str, str], _ReplicaData]:
    """Read the data of all models of all streams; names of data are relative to a folder."""
    found = {}
    for of_stream, spec in specs.items():
        for name, model in spec.models.items():
            where = f"replica_streams.{of_stream}.models.{name}"
            try:
                found[of_stream, name] = _load(model, spec.step_s, folder)
            except InputError as error:
                raise InputError(f"{where}: {error}") from error
    return found


def find_data(name: str, folder: Path) -> Path:
    """Return the folder of data given by shipped name or by path relative to a folder."""
    if (folder / name).is_dir():
        return folder / name
    shipped = {path.name: path for path in _shipped().glob("*") if path.is_dir()}
    if name in shipped:
        return shipped[name]
    raise InputError(
        f"data: no folder '{one_line(name)}' beside the scenario and no shipped data of that name "
        f"(shipped: {one_of(shipped)}){did_you_mean(name, shipped)}"
    )


def _shipped() -> Path:
    return shipped_folder("profiles") / "serving"


def _load(model: ReplicaModel, step_s: float, folder: Path) -> _ReplicaData:
    place = find_data(model.data, folder)
    source = OpenG2GSource(place)
    specs = source.specs()
    if len(specs) > 1:
        labels = one_of(spec.model_label for spec in specs)
        raise InputError(f"data: {model.data} holds several models ({labels}); name one's folder")
    (spec,) = specs
    data = InferenceData.generate(specs, source, InferenceDataParams(dt_s=step_s))
    fits: ServingFits = LogisticModelStore.generate(specs, source)[spec.model_label]
    feasible = tuple(sorted(model.feasible_batch_sizes or spec.feasible))
    _check_sizes("feasible_batch_sizes", feasible, data[spec.model_label].power_w, "the data")
    _check_sizes("batch_size", (model.batch_size,), feasible, "the feasible ones")
    deadline_s = model.itl_deadline_s or spec.itl_deadline_s
    setting = ModelSetting(feasible, model.batch_size, deadline_s, fits)
    return _ReplicaData(data[spec.model_label], setting, place.is_relative_to(_shipped()))


def _check_sizes(
    key: str, sizes: tuple[int, ...], have: Mapping[int, object] | tuple[int, ...], whose: str
) -> None:
    unknown = sorted(set(sizes) - set(have))
    if unknown:
        raise InputError(
            f"{key}: {one_of(unknown)} is not among {whose} (have: {one_of(sorted(have))})"
        )


class ReplayedModel:
    """Operation of one model, control interval by control interval: arrays of shape (C,).

    `itl_s` is the mean latency over replicas, as drawn, NaN where none runs.
    """

    def __init__(
        self,
        name: str,
        spec: ReplicaStream,
        data: _ReplicaData,
        n_replicas: Int64Array,
        seed: int,
        of_stream: str,
    ) -> None:
        self.name, self.data, self.n_replicas = name, data, n_replicas
        self.batch_size = np.zeros(n_replicas.size, dtype=np.int64)
        self.itl_s = np.full(n_replicas.size, np.nan)
        self._latency = stream(seed, "replicas", of_stream, name, "latency")
        rng, most = stream(seed, "replicas", of_stream, name, "replicas"), int(n_replicas.max())
        drawn = rng.random((most, 2)).T  # of the first replicas the same, however many follow
        low, high = spec.amplitude_range
        self._amplitude = low + (high - low) * drawn[0]
        self._phase = drawn[1] * spec.staggered

    @cached_property
    def throughput_tps(self) -> Float64Array:
        """Output tokens per second, by the fit, after the last control interval."""
        of_each = np.maximum(self.data.setting.fits.throughput.eval(self.batch_size), 0.0)
        return np.asarray(self.n_replicas * of_each, dtype=np.float64)

    def seen(self, k: int, batch_size: int) -> Observed:
        """Draw the mean latency of a control interval at a batch size, and return what it was."""
        n_replicas = int(self.n_replicas[k])
        self.batch_size[k] = batch_size
        if n_replicas:
            mixture = self.data.measured.itl[batch_size]
            self.itl_s[k] = float(mixture.sample_avg(n_replicas, self._latency))
        return Observed(n_replicas, batch_size, float(self.itl_s[k]))

    def sums(self, batch_size: int, n_replicas: int) -> tuple[Float64Array, Float64Array]:
        """Return the sum of the first replicas' power over the template [W], and of its square."""
        template_w = self.data.measured.power_w[batch_size]
        places = np.floor(self._phase[:n_replicas] * template_w.size).astype(np.int64)
        amplitude = self._amplitude[:n_replicas]

        # A sum over replicas is a circular correlation of the template with how many begin where.
        def summed(weight: Float64Array, values_w: Float64Array) -> Float64Array:
            begin = np.bincount(places, weight, values_w.size)
            spectrum = np.fft.rfft(values_w) * np.fft.rfft(begin).conj()
            return np.fft.irfft(spectrum, values_w.size)

        total_w = summed(amplitude, template_w)
        squares_w2 = summed(amplitude**2, template_w**2)
        return total_w, np.maximum(squares_w2, 0.0)


class ReplicaPlan:
    """Operation of the replicas of one stream, over C control intervals, in one pass."""

    def __init__(
        self,
        name: str,
        spec: ReplicaStream,
        facility: Facility,
        clock: RunClock,
        seed: int,
        datasets: Datasets,
    ) -> None:
        self.stream, self.pool, self.spec, self._seed = name, spec.pool, spec, seed
        horizon_ms = clock.horizon_ms
        if horizon_ms // spec.step_ms > MOST_STEPS:
            raise WorkloadError(
                f"replica_streams.{name}: {horizon_ms / MS_PER_S:,.0f} s are more than "
                f"{MOST_STEPS:,} steps of {spec.step_s:g} s; shorten the run, or raise step_s"
            )
        n_control = -(-horizon_ms // spec.control_ms)
        edges_ms = np.arange(n_control + 1, dtype=np.int64) * spec.control_ms
        # Edges of the control intervals [ms], shape (C + 1,)
        self.edges_ms = np.minimum(edges_ms, horizon_ms)
        starts_s = self.edges_ms[:-1] / MS_PER_S
        self.models = tuple(
            ReplayedModel(key, spec, datasets[name, key], replicas_at(m, starts_s), seed, name)
            for key, m in spec.models.items()
        )
        n_gpus = sum(m.n_replicas * m.data.measured.spec.gpus_per_replica for m in self.models)
        node_gpus = facility.node_type_of(spec.pool).n_gpus
        self.n_nodes = -(-np.asarray(n_gpus, dtype=np.int64) // node_gpus)  # shape (C,)
        most, have = int(self.n_nodes.max()), facility.pools[spec.pool].n_nodes
        if most > have:
            raise WorkloadError(
                f"replica_streams.{name}: the replicas take up to {most:,} nodes of {node_gpus} "
                f"GPUs, pool '{spec.pool}' has {have:,}; give fewer replicas or more nodes"
            )
        # Power of all replicas' GPUs [W], step by step
        self.power_w = np.zeros(int(horizon_ms) // spec.step_ms)
        # By control interval: mean power [W]; largest excess of the signal's constraints [1], and
        # the cap [W] or voltage [p.u.], both NaN without a signal
        self.mean_power_w, self.excess, self.signal = np.full((3, n_control), np.nan)
        self._operate()

    def _operate(self) -> None:
        """Go through the run, control interval by control interval."""
        spec, step_ms, edges_ms = self.spec, self.spec.step_ms, self.edges_ms
        settings = {model.name: model.data.setting for model in self.models}
        try:
            controller = spec.controller.open(ControlSetting(settings, spec.control_interval_s))
        except InputError as error:
            raise InputError(f"replica_streams.{self.stream}.controller: {error}") from error
        sums = {model.name: lru_cache(64)(model.sums) for model in self.models}  # few occur
        noise = stream(self._seed, "replicas", self.stream, "noise")
        batch = {name: setting.batch_size for name, setting in settings.items()}
        for k in range(self.n_nodes.size):
            steps = np.arange(edges_ms[k] // step_ms, edges_ms[k + 1] // step_ms)
            total_w, squares_w2 = np.zeros(steps.size), np.zeros(steps.size)
            for model in self.models:
                if n_replicas := int(model.n_replicas[k]):
                    of_model_w, of_square_w2 = sums[model.name](batch[model.name], n_replicas)
                    total_w += of_model_w[steps % of_model_w.size]
                    squares_w2 += of_square_w2[steps % of_model_w.size]
            if spec.noise_fraction:
                deviation_w = spec.noise_fraction * np.sqrt(squares_w2)
                total_w += deviation_w * noise.standard_normal(steps.size)
            self.power_w[steps] = np.maximum(total_w, 0.0)
            mean_w = self.mean_power_w[k] = self.power_w[steps].mean()
            constraints: tuple[Constraint, ...] = ()
            if spec.signal is not None:
                at_s = float(edges_ms[k]) / MS_PER_S
                constraints = spec.signal.constraints(at_s, mean_w)
                self.signal[k] = spec.signal.value(at_s, mean_w)
                self.excess[k] = max(constraint.excess for constraint in constraints)
            seen = {model.name: model.seen(k, batch[model.name]) for model in self.models}
            end_s = float(edges_ms[k + 1]) / MS_PER_S
            view = ControlView(end_s, seen, float(mean_w), constraints)
            batch = batch | self._checked(controller.decide(view), settings)

    def _checked(
        self, chosen: Mapping[str, int], settings: Mapping[str, ModelSetting]
    ) -> dict[str, int]:
        where = f"replica_streams.{self.stream}.controller: it chose"
        for name, size in chosen.items():
            if name not in settings:
                raise InputError(f"{where} for '{name}' (have: {one_of(settings)})")
            if size not in (have := settings[name].feasible):
                raise InputError(
                    f"{where} {shown(size)} for '{name}', which is not feasible "
                    f"(have: {one_of(have)})"
                )
        return dict(chosen)

    @property
    def signal_kind(self) -> str:
        """``cap``, ``voltage`` or empty."""
        return "" if self.spec.signal is None else self.spec.signal.kind

    def mean_replicas(self, begin_ms: int, end_ms: int) -> float:
        """Return the replicas of all models, mean over a span of time [ms]."""
        count: Int64Array = np.sum([model.n_replicas for model in self.models], axis=0)
        edges_ms: Int64Array = np.clip(self.edges_ms, begin_ms, end_ms)
        inside_ms = np.diff(edges_ms)
        return float(count @ inside_ms) / (end_ms - begin_ms)


def replica_labels(plans: Sequence[ReplicaPlan]) -> list[tuple[str, ...]]:
    """Return the models' names in results: with their stream before a dot where two share one."""
    names = [model.name for plan in plans for model in plan.models]
    alone = len(set(names)) == len(names)
    return [
        tuple(model.name if alone else f"{plan.stream}.{model.name}" for model in plan.models)
        for plan in plans
    ]


def plan_replicas(
    specs: Mapping[str, ReplicaStream],
    facility: Facility,
    clock: RunClock,
    seed: int,
    datasets: Datasets,
) -> list[ReplicaPlan]:
    """Replay the replicas of all streams, without a warm-up."""
    return [
        ReplicaPlan(name, spec, facility, clock, seed, datasets) for name, spec in specs.items()
    ]


def replicas_at(model: ReplicaModel, times_s: Float64Array) -> Int64Array:
    """Return how many replicas run at times [s], rounded to the nearest; half rounds to even."""
    at_s, counts = [0.0], [model.replicas]
    for ramp in model.ramps:
        at_s += [ramp.begin_s, ramp.end_s]
        counts += [counts[-1], ramp.replicas]
    level = np.interp(times_s, at_s, counts)
    for ramp in model.ramps:  # a ramp without length is a step, on from its time
        if ramp.begin_s == ramp.end_s:
            level = np.where(times_s == ramp.end_s, ramp.replicas, level)
    return np.rint(level).astype(np.int64)
