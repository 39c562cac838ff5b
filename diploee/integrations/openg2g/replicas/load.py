"""`ReplicasLoad`: power of served model replicas with controlled batch sizes.

The planned power of each stream is converted to segments: one profile for each number
of busy nodes.

Replica i of a model at batch size b draws ``a_i p_b(t + phi_i D_b)``: its template p_b,
repeated with its length D_b, from a random phase phi_i, times a random amplitude a_i.
Phase and amplitude of each replica are sampled once per run, so that added replicas do
not change the others. The
noise of R replicas, independent with standard deviation ``f a_i p``, is one normal
sample with standard deviation ``f sqrt(sum (a_i p)^2)``. Batch sizes change only
between control intervals; in each interval, the mean latency over replicas is sampled
once from the mixture of its batch size. ASSUMPTION (judgement): a change of batch size
is instantaneous and keeps the phase within the template, and the replicas of all models
fill nodes without gaps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, cast

import numpy as np

from diploee.base.clock import RunClock
from diploee.base.errors import (
    InputError,
    WorkloadError,
    did_you_mean,
    one_line,
    one_of,
    shown,
)
from diploee.base.files.paths import shipped_folder
from diploee.base.rng import named_rng
from diploee.base.tables import Float64Array, Int64Array
from diploee.base.units import MS_PER_H, MS_PER_S, S_PER_H, W_PER_MW
from diploee.facility.base import Block, Values
from diploee.integrations.openg2g.artifact_cache import (
    InferenceData,
    LogisticModelStore,
    ModelData,
)
from diploee.integrations.openg2g.folder import specs_of
from diploee.integrations.openg2g.replicas.columns_and_metrics import (
    CAP_COLUMN,
    OF_STREAM,
    replica_columns,
)
from diploee.integrations.openg2g.replicas.settings import ReplicaModel, ReplicaStream
from diploee.integrations.openg2g.replicas.views import (
    Constraint,
    ControlSetting,
    ControlView,
    ModelSetting,
    Observed,
)
from diploee.loads.inputs import Inputs
from diploee.loads.services.instance_groups import InstanceGroup, InstanceGroupLoad
from diploee.profiles.library import ProfileLibrary
from diploee.profiles.profile import PowerProfile, Provenance
from diploee.profiles.resample import round_keeping_energy
from diploee.scenario.models import Facility, Scenario

SOURCE = "ML.ENERGY leaderboard: Llama-3.1-70B-Instruct on 4 x H100, lm-arena-chat"
LICENCE = "Apache-2.0 (leaderboard); this synthesis BSD-3-Clause"
NOTES = (
    "Synthesised by diploee about the published mean power at each batch size, not "
    "measured. ASSUMPTION: noise of 2 % of it that falls above 0.4 Hz. Summed over "
    "replicas."
)
MAX_STEPS = 20_000_000
"""Maximum steps of a stream's power; each step needs about 50 bytes of memory."""


@dataclass(frozen=True, eq=False)
class _ServedModelData:
    """Data of a served model: measurements, and the scenario's settings."""

    # Power templates of a replica and latency mixtures by batch size
    measured: ModelData
    # Feasible batch sizes, deadline and fits of the scenario
    setting: ModelSetting
    # True for shipped data, synthesised about published values
    shipped: bool


Datasets = Mapping[tuple[str, str], _ServedModelData]
"""Data of served models by stream and model name."""


def load_replica_data(
    specs: Mapping[str, ReplicaStream], folder: Path
) -> dict[tuple[str, str], _ServedModelData]:
    """Read the data of all models in all replica streams, by stream and model name.

    Data folders are relative to `folder`, or shipped.
    """
    result = {}
    for stream, spec in specs.items():
        for name, model in spec.models.items():
            where = f"replica_streams.{stream}.models.{name}"
            try:
                result[stream, name] = _load(model, spec.step_s, folder)
            except InputError as error:
                raise InputError(f"{where}: {error}") from error
    return result


def find_data(name: str, folder: Path) -> Path:
    """Return the path of a data folder, relative to `folder` or shipped."""
    if (folder / name).is_dir():
        return folder / name
    shipped = {path.name: path for path in _shipped().glob("*") if path.is_dir()}
    if name in shipped:
        return shipped[name]
    raise InputError(
        f"data: no folder '{one_line(name)}' next to the scenario and no built-in data "
        f"of that name (shipped: {one_of(shipped)}){did_you_mean(name, shipped)}"
    )


def _shipped() -> Path:
    return shipped_folder("profiles") / "serving"


def _load(model: ReplicaModel, step_s: float, folder: Path) -> _ServedModelData:
    place = find_data(model.data, folder)
    specs = specs_of(place)
    if len(specs) > 1:
        labels = one_of(spec.model_label for spec in specs.values())
        raise InputError(
            f"data: {model.data} has several models ({labels}); name one's folder"
        )
    ((spec_folder, spec),) = specs.items()
    data = InferenceData.read(spec_folder, spec, step_s)
    fits = LogisticModelStore.read(spec_folder, spec).fits
    feasible = tuple(sorted(model.feasible_batch_sizes or spec.feasible))
    _check_sizes("feasible_batch_sizes", feasible, data.power_w, "the data")
    _check_sizes("batch_size", (model.batch_size,), feasible, "the feasible ones")
    deadline_s = model.itl_deadline_s or spec.itl_deadline_s
    setting = ModelSetting(feasible, model.batch_size, deadline_s, fits)
    return _ServedModelData(data, setting, place.is_relative_to(_shipped()))


def _check_sizes(
    key: str,
    sizes: tuple[int, ...],
    have: Mapping[int, object] | tuple[int, ...],
    whose: str,
) -> None:
    unknown = sorted(set(sizes) - set(have))
    if unknown:
        raise InputError(
            f"{key}: {one_of(unknown)} is not among {whose} (have: "
            f"{one_of(sorted(have))})"
        )


class ReplayedModel:
    """Operation of one served model over C control intervals.

    Arrays have shape (C,). `itl_s` is the drawn mean latency over replicas [s], NaN
    without replicas.
    """

    def __init__(
        self,
        name: str,
        spec: ReplicaStream,
        data: _ServedModelData,
        n_replicas: Int64Array,
        seed: int,
        of_stream: str,
    ) -> None:
        self.name, self.data, self.n_replicas = name, data, n_replicas
        self.batch_size = np.zeros(n_replicas.size, dtype=np.int64)
        self.itl_s = np.full(n_replicas.size, np.nan)
        self._latency = named_rng(seed, "replicas", of_stream, name, "latency")
        rng, max_replicas = (
            named_rng(seed, "replicas", of_stream, name, "replicas"),
            int(n_replicas.max()),
        )
        # The first replicas have the same values for any number of replicas
        samples = rng.random((max_replicas, 2)).T
        low, high = spec.amplitude_range
        self._amplitude = low + (high - low) * samples[0]
        self._phase = samples[1] * spec.staggered

    @cached_property
    def throughput_tps(self) -> Float64Array:
        """Output tokens per second of all replicas by the fit, shape (C,).

        Valid after the last control interval.
        """
        replica_tps = np.maximum(
            self.data.setting.fits.throughput.eval(self.batch_size), 0.0
        )
        return np.asarray(self.n_replicas * replica_tps, dtype=np.float64)

    def observe_latency(self, k: int, batch_size: int) -> Observed:
        """Draw the mean latency in control interval k, and return the observation."""
        n_replicas = int(self.n_replicas[k])
        self.batch_size[k] = batch_size
        if n_replicas:
            mixture = self.data.measured.itl[batch_size]
            self.itl_s[k] = float(mixture.sample_avg(n_replicas, self._latency))
        return Observed(n_replicas, batch_size, float(self.itl_s[k]))

    def sums(
        self, batch_size: int, n_replicas: int
    ) -> tuple[Float64Array, Float64Array]:
        """Return the sums of replica power [W] and of its square [W^2] per step.

        The sums are over the first `n_replicas` replicas and one length of the template
        at a batch size.
        """
        template_w = self.data.measured.power_w[batch_size]
        starts = np.floor(self._phase[:n_replicas] * template_w.size).astype(np.int64)
        amplitude = self._amplitude[:n_replicas]

        # A sum over replicas is a circular correlation of the template with the number
        # of replicas by start.
        def summed(weight: Float64Array, values_w: Float64Array) -> Float64Array:
            begin = np.bincount(starts, weight, values_w.size)
            spectrum = np.fft.rfft(values_w) * np.fft.rfft(begin).conj()
            return np.fft.irfft(spectrum, values_w.size)

        total_w = summed(amplitude, template_w)
        squares_w2 = summed(amplitude**2, template_w**2)
        return total_w, np.maximum(squares_w2, 0.0)


class ReplicaPlan:
    """Planned operation and power of one stream's replicas over C control intervals."""

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
        if horizon_ms // spec.step_ms > MAX_STEPS:
            raise WorkloadError(
                f"replica_streams.{name}: {horizon_ms / MS_PER_S:,.0f} s are more "
                f"than {MAX_STEPS:,} steps of {spec.step_s:g} s; shorten the run, or "
                "raise step_s"
            )
        n_control = -(-horizon_ms // spec.control_ms)
        edges_ms = np.arange(n_control + 1, dtype=np.int64) * spec.control_ms
        # Edges of the control intervals [ms], shape (C + 1,)
        self.edges_ms = np.minimum(edges_ms, horizon_ms)
        starts_s = self.edges_ms[:-1] / MS_PER_S
        self.models = tuple(
            ReplayedModel(
                key, spec, datasets[name, key], replicas_at(m, starts_s), seed, name
            )
            for key, m in spec.models.items()
        )
        n_gpus = sum(
            m.n_replicas * m.data.measured.spec.gpus_per_replica for m in self.models
        )
        node_gpus = facility.node_type_of(spec.pool).n_gpus
        self.n_nodes = -(-np.asarray(n_gpus, dtype=np.int64) // node_gpus)  # shape (C,)
        max_nodes, have = int(self.n_nodes.max()), facility.pools[spec.pool].n_nodes
        if max_nodes > have:
            raise WorkloadError(
                f"replica_streams.{name}: the replicas take up to {max_nodes:,} nodes "
                f"of {node_gpus} GPUs, pool '{spec.pool}' has {have:,}; give fewer "
                "replicas or more nodes"
            )
        # Power of all replicas' GPUs in each step [W]
        self.power_w = np.zeros(int(horizon_ms) // spec.step_ms)
        # Mean power [W], relative excess over the cap [1] and cap [W] per control
        # interval; excess and cap are NaN without a cap
        self.mean_power_w, self.excess, self.cap_w = np.full((3, n_control), np.nan)
        self._operate()

    def _operate(self) -> None:
        """Compute power and control decisions for each control interval of the run."""
        spec, step_ms, edges_ms = self.spec, self.spec.step_ms, self.edges_ms
        settings = {model.name: model.data.setting for model in self.models}
        try:
            controller = spec.controller.open(
                ControlSetting(settings, spec.control_interval_s)
            )
        except InputError as error:
            raise InputError(
                f"replica_streams.{self.stream}.controller: {error}"
            ) from error
        # Few combinations of batch size and replicas occur
        sums = {model.name: lru_cache(64)(model.sums) for model in self.models}
        noise = named_rng(self._seed, "replicas", self.stream, "noise")
        batch = {name: setting.batch_size for name, setting in settings.items()}
        for k in range(self.n_nodes.size):
            steps = np.arange(edges_ms[k] // step_ms, edges_ms[k + 1] // step_ms)
            total_w, squares_w2 = np.zeros(steps.size), np.zeros(steps.size)
            for model in self.models:
                if n_replicas := int(model.n_replicas[k]):
                    model_w, model_w2 = sums[model.name](batch[model.name], n_replicas)
                    total_w += model_w[steps % model_w.size]
                    squares_w2 += model_w2[steps % model_w.size]
            if spec.noise_fraction:
                deviation_w = spec.noise_fraction * np.sqrt(squares_w2)
                total_w += deviation_w * noise.standard_normal(steps.size)
            self.power_w[steps] = np.maximum(total_w, 0.0)
            mean_w = self.mean_power_w[k] = self.power_w[steps].mean()
            constraints: tuple[Constraint, ...] = ()
            if spec.signal is not None:
                cap_w = self.cap_w[k] = spec.signal.at_w(float(edges_ms[k]) / MS_PER_S)
                excess = self.excess[k] = mean_w / cap_w - 1
                constraints = (Constraint("cap", float(excess), 1 / cap_w),)
            observed = {
                model.name: model.observe_latency(k, batch[model.name])
                for model in self.models
            }
            end_s = float(edges_ms[k + 1]) / MS_PER_S
            view = ControlView(end_s, observed, float(mean_w), constraints)
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

    def mean_replicas(self, begin_ms: int, end_ms: int) -> float:
        """Return the mean number of replicas of all models between two times [ms]."""
        count: Int64Array = np.sum([model.n_replicas for model in self.models], axis=0)
        edges_ms: Int64Array = np.clip(self.edges_ms, begin_ms, end_ms)
        overlap_ms = np.diff(edges_ms)
        return float(count @ overlap_ms) / (end_ms - begin_ms)


def replica_labels(plans: Sequence[ReplicaPlan]) -> list[tuple[str, ...]]:
    """Return the models' labels in results: names, or ``stream.model`` if repeated."""
    names = [model.name for plan in plans for model in plan.models]
    are_unique = len(set(names)) == len(names)
    return [
        tuple(
            model.name if are_unique else f"{plan.stream}.{model.name}"
            for model in plan.models
        )
        for plan in plans
    ]


def replicas_at(model: ReplicaModel, times_s: Float64Array) -> Int64Array:
    """Return the number of running replicas at times [s], rounded (half to even)."""
    ramp_s, counts = [0.0], [model.replicas]
    for ramp in model.ramps:
        ramp_s += [ramp.begin_s, ramp.end_s]
        counts += [counts[-1], ramp.replicas]
    level = np.interp(times_s, ramp_s, counts)
    for ramp in model.ramps:  # a ramp without length is a step at its time
        if ramp.begin_s == ramp.end_s:
            level = np.where(times_s == ramp.end_s, ramp.replicas, level)
    return np.rint(level).astype(np.int64)


class ReplicasLoad(InstanceGroupLoad):
    """Load of the replicas of all streams, planned for the whole run when opened."""

    def __init__(
        self, scenario: Scenario, inputs: Inputs, library: ProfileLibrary
    ) -> None:
        specs, facility = (
            cast("dict[str, ReplicaStream]", scenario.replica_streams),
            scenario.facility,
        )
        clock, seed, data = scenario.clock, scenario.seed, inputs.replicas
        self.plans = [
            ReplicaPlan(name, spec, facility, clock, seed, data)
            for name, spec in specs.items()
        ]
        super().__init__(*_groups_by_stream(self.plans, facility, library))
        self.columns = replica_columns(specs)

    def values(self, block: Block) -> Values:
        """Return mean replicas, batch sizes, latency, tokens and caps per step.

        The latency is the mean over replicas and time.
        """
        edges_ms = block.t0_ms + np.arange(len(block) + 1, dtype=np.int64) * block.dt_ms
        result: dict[str, Float64Array] = {}
        for plan, labels in zip(self.plans, replica_labels(self.plans), strict=True):

            def means(
                values: Float64Array | Int64Array, plan: ReplicaPlan = plan
            ) -> Float64Array:
                # Differences of the integral at the edges are the same for any blocks.
                steps = values * np.diff(plan.edges_ms)
                integral = np.concatenate(([0.0], np.cumsum(steps)))
                return (
                    np.diff(np.interp(edges_ms, plan.edges_ms, integral)) / block.dt_ms
                )

            for model, label in zip(plan.models, labels, strict=True):
                replicas = means(model.n_replicas)
                with_any = model.n_replicas > 0
                weighted_s = means(
                    np.where(with_any, model.itl_s * model.n_replicas, 0.0)
                )
                result[f"n_replicas.{label}"] = replicas
                result[f"batch_size.{label}"] = means(model.batch_size)
                result[f"itl_s.{label}"] = np.divide(
                    weighted_s, replicas, np.zeros(len(block)), where=replicas > 0
                )
                result[f"tokens_per_s.{label}"] = means(model.throughput_tps)
            if plan.spec.signal is not None:
                values = np.where(np.isfinite(plan.cap_w), plan.cap_w, 0.0)
                result[f"{CAP_COLUMN.name}.{plan.stream}"] = means(values)
        return {name: values.astype(np.float32) for name, values in result.items()}

    def metrics(self, pool: str | None = None) -> dict[str, Any]:
        """Return the metrics block `replicas` of one pool or all, or nothing."""
        plans = [plan for plan in self.plans if pool in (None, plan.pool)]
        if not plans:
            return {}
        models = {
            label: _of_model(model, np.diff(plan.edges_ms) / MS_PER_S)
            for plan, labels in zip(plans, replica_labels(plans), strict=True)
            for model, label in zip(plan.models, labels, strict=True)
        }
        return {
            "replicas": {
                "models": models,
                "streams": {p.stream: _of_stream(p) for p in plans},
            }
        }


def _groups_by_stream(
    plans: Sequence[ReplicaPlan], facility: Facility, library: ProfileLibrary
) -> tuple[list[InstanceGroup], ProfileLibrary]:
    """Return an instance group per stream, and the library with the groups' profiles.

    The power of an instance group is the planned power of its stream plus
    `other_node_power_w` of each busy node.
    """
    profiles: list[PowerProfile] = []
    banks, first = list[InstanceGroup](), len(library)
    for plan in plans:
        starts = np.flatnonzero(np.diff(plan.n_nodes, prepend=-1))
        edges_ms = np.append(plan.edges_ms[starts], plan.edges_ms[-1])
        n_nodes, size = plan.n_nodes[starts], starts.size
        factor = facility.node_type_of(plan.pool).busy_power_factor
        weight = np.where(n_nodes > 0, factor, 0.0)
        provenance = _provenance(plan)
        profile_id = first + len(profiles) + np.cumsum(n_nodes > 0) - 1
        for k in np.flatnonzero(n_nodes).tolist():
            rows = slice(*(edges_ms[k : k + 2] // plan.spec.step_ms))
            power_w = plan.power_w[rows] + n_nodes[k] * plan.spec.other_node_power_w
            profiles.append(
                PowerProfile(
                    f"~replicas-{plan.stream}-{k}",
                    f"replicas-{plan.stream}",
                    int(n_nodes[k]),
                    plan.spec.step_ms,
                    round_keeping_energy(power_w),
                    provenance,
                )
            )
        none = np.zeros(size, dtype=np.int64)
        id_ = np.maximum(profile_id, 0).astype(np.int32)
        pool_id = list(facility.pools).index(plan.pool)
        banks.append(InstanceGroup(pool_id, edges_ms, n_nodes, weight, id_, none, plan))
    return banks, library.extended(profiles)


def _provenance(plan: ReplicaPlan) -> Provenance:
    """Return the provenance of a stream's power, from its first model's template."""
    data = plan.models[0].data
    provenance = data.measured.profile(data.setting.batch_size).provenance
    if data.shipped:
        return replace(
            provenance, kind="reference", source=SOURCE, licence=LICENCE, notes=NOTES
        )
    return replace(provenance, notes=f"{provenance.notes} Summed over replicas.")


def _of_model(model: ReplayedModel, step_s: Float64Array) -> dict[str, Any]:
    weight, runs = model.n_replicas * step_s, model.n_replicas > 0
    deadline_s = model.data.setting.itl_deadline_s
    result: dict[str, Any] = {
        "mean_replicas": float(weight.sum() / step_s.sum()),
        "mean_batch_size": None,
        "batch_changes_per_hour": float(
            np.count_nonzero(np.diff(model.batch_size)) / step_s.sum() * S_PER_H
        ),
        "tokens_per_s": float(model.throughput_tps @ step_s / step_s.sum()),
        "itl_s": {"mean": None, "p50": None, "p99": None},
        "itl_deadline_s": deadline_s,
        "hours_over_deadline": None,
    }
    if runs.any():
        itl_s, time_s = model.itl_s[runs], step_s[runs]
        median, p99 = np.quantile(
            itl_s, (0.5, 0.99), weights=time_s, method="inverted_cdf"
        ).tolist()
        mean = float(np.average(itl_s, weights=weight[runs]))
        result["mean_batch_size"] = float(np.average(model.batch_size, weights=weight))
        result["itl_s"] = {"mean": mean, "p50": median, "p99": p99}
        if deadline_s is not None:
            result["hours_over_deadline"] = float(
                time_s[itl_s > deadline_s].sum() / S_PER_H
            )
    return result


def _of_stream(plan: ReplicaPlan) -> dict[str, Any]:
    step_h = np.diff(plan.edges_ms) / MS_PER_H
    hours, mean_mw = step_h.sum(), plan.mean_power_w @ step_h / step_h.sum() / W_PER_MW
    result = {"mean_mw": float(mean_mw), "energy_mwh": float(mean_mw * hours)}
    if plan.spec.signal is None:
        return result | dict.fromkeys(m.key for m in OF_STREAM if m.key not in result)
    over = np.maximum(plan.excess, 0.0)
    last = slice(-max(over.size // 10, 1), None)
    return result | {
        "violation_h": float(step_h[over > 0].sum()),
        "violation_mean": float(over @ step_h / hours),
        "violation_max": float(over.max()),
        "violation_end": float(np.average(over[last], weights=step_h[last])),
    }
