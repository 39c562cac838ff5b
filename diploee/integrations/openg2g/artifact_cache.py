"""Cached data compiled from benchmarks: `InferenceData` and `LogisticModelStore`.

`InferenceData` has power traces and latency mixtures. `LogisticModelStore` has logistic
fits of power, latency and throughput. Both are stored in a folder for the spec, named
by OpenG2G's rule. Data written by OpenG2G can be read too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np

from diploee.base.errors import Brief, InputError, LogFormatError, one_of
from diploee.base.tables import Float64Array
from diploee.base.units import whole_ms
from diploee.base.validation import checked
from diploee.integrations.openg2g.benchmark_runs import (
    REPLICA_POWER,
    BenchmarkRun,
    BenchmarkRuns,
    BenchmarkSource,
    PowerReadings,
    median_trace_w,
    run_power_w,
    sampling_interval_s,
)
from diploee.integrations.openg2g.folder import (
    FIT_FILE,
    FITS,
    ITL_FILE,
    MANIFEST,
    TRACE_COLUMNS,
    TRACE_FILE,
    LatencyFits,
    LogisticFits,
    format_columns,
    read,
    read_details,
    read_trace_rows,
    spec_folder,
    write,
)
from diploee.integrations.openg2g.inference_model_spec import InferenceModelSpec
from diploee.integrations.openg2g.itl_mixture import ITLMixtureModel
from diploee.integrations.openg2g.logistic import LogisticModel
from diploee.integrations.openg2g.operating_curves import ServingFits
from diploee.integrations.openg2g.sources.ml_energy import MlEnergySource
from diploee.profiles.meter_response import resolvable_range
from diploee.profiles.profile import PowerProfile, Provenance
from diploee.profiles.resample import round_keeping_energy

STEP_S = 0.1
# Attribute of a run by quantity, and its description for errors.
_MEASURED = {
    "power": ("mean_power_w", "mean power and no power in time"),
    "itl": ("median_itl_s", "inter-token latency"),
    "throughput": ("throughput_tps", "throughput"),
}


@dataclass(frozen=True, eq=False)
class CompiledModel:
    """Data compiled for one model spec, with its source and licence."""

    spec: InferenceModelSpec
    # JSON values: source, licence, dropped data, hash of the source data
    details: Mapping[str, Any]


M = TypeVar("M", bound=CompiledModel)


@dataclass(frozen=True, eq=False)
class CompiledData(Brief, ABC, Generic[M]):
    """Data compiled for several model specs, cached in folders."""

    models: Mapping[str, M]  # by label

    needs_traces: ClassVar[bool] = False
    last_file: ClassVar[str]  # data file whose presence means complete data

    @classmethod
    @abstractmethod
    def _compile(
        cls,
        spec: InferenceModelSpec,
        runs: BenchmarkRuns,
        details: dict[str, Any],
        dt_s: float,
    ) -> M:
        """Compile the data of a spec from its runs, and add to `details`."""

    @classmethod
    @abstractmethod
    def _files(cls, model: M) -> Mapping[str, bytes]:
        """Return the content of a model's data files by file name."""

    @classmethod
    @abstractmethod
    def read(cls, folder: Path, spec: InferenceModelSpec, dt_s: float = STEP_S) -> M:
        """Read the compiled data of a spec from its folder."""

    @classmethod
    def generate(
        cls,
        specs: Sequence[InferenceModelSpec],
        source: BenchmarkSource | None = None,
        dt_s: float = STEP_S,
    ) -> Self:
        """Compile the data of specs with different labels from their measurements.

        The default source is the ML.ENERGY benchmark on the Hugging Face hub. `dt_s` is
        the step of traces [s], a whole number of milliseconds.
        """
        _check_labels(specs)
        whole_ms(dt_s)
        source, models = source or MlEnergySource(), {}
        for spec in (_with_batch_sizes(spec, source) for spec in specs):
            runs = source.read(spec, traces=cls.needs_traces)
            details = {
                "source": runs.source,
                "licence": runs.licence,
                "source_sha256": runs.sha256,
            }
            try:
                model = cls._compile(spec, runs, details, dt_s)
            except InputError as error:
                raise InputError(
                    f"{runs.source}: '{spec.model_label}': {error}"
                ) from error
            models[spec.model_label] = model
        return cls(models)

    def save(self, data_dir: Path | str) -> None:
        """Write every model into its folder, ``<data_dir>/<spec.cache_hash()>/``."""
        for model in self.models.values():
            folder = Path(data_dir) / model.spec.cache_hash()
            write(folder, model.spec, self._files(model))

    @classmethod
    def load(
        cls,
        data_dir: Path | str,
        specs: Sequence[InferenceModelSpec],
        dt_s: float = STEP_S,
    ) -> Self:
        """Read the models of specs from files written by `save` or OpenG2G.

        `data_dir` may also be the folder of one spec.
        """
        _check_labels(specs)
        return cls(
            {
                spec.model_label: cls.read(spec_folder(data_dir, spec), spec, dt_s)
                for spec in specs
            }
        )

    @classmethod
    def ensure(
        cls,
        data_dir: Path | str,
        specs: Sequence[InferenceModelSpec],
        source: BenchmarkSource | None = None,
        dt_s: float = STEP_S,
    ) -> Self:
        """Read the models of specs, and compile and save missing models first.

        Existing data are used whatever their source; `generate` and `save` replace
        them.
        """
        _check_labels(specs)
        result: dict[str, M] = {}
        for requested in specs:
            spec = _with_batch_sizes(requested, source or MlEnergySource())
            if not (spec_folder(data_dir, spec) / cls.last_file).exists():
                cls.generate([spec], source, dt_s).save(data_dir)
            result |= cls.load(data_dir, [spec], dt_s).models
        return cls(result)


def _with_batch_sizes(
    spec: InferenceModelSpec, source: BenchmarkSource
) -> InferenceModelSpec:
    """Return a spec with batch sizes, by default all batch sizes of its source."""
    if spec.batch_sizes:
        return spec
    sizes = {one.batch_size for one in source.selected(spec)}
    fields = spec.model_dump() | {"batch_sizes": sorted(sizes)}
    where = f"'{spec.model_label}'"
    return checked(fields, InferenceModelSpec, lambda _: where)


def _check_labels(specs: Sequence[InferenceModelSpec]) -> None:
    labels = [spec.model_label for spec in specs]
    if not labels:
        raise InputError("no model spec given; give one or more")
    twice = sorted(label for label, n in Counter(labels).items() if n > 1)
    if twice:
        raise InputError(f"two specs have the label '{twice[0]}'; labels must differ")


@dataclass(frozen=True, eq=False)
class ModelFits(CompiledModel):
    """Logistic fits of one served model's power, latency and throughput."""

    fits: ServingFits


class LogisticModelStore(CompiledData[ModelFits]):
    """Logistic fits of several served models against batch size.

    The fitted points are medians over the runs of each batch size in `fit_batch_sizes`:
    mean power [W], median inter-token latency [s] and throughput [tokens/s] against
    log2 of the batch size.
    """

    last_file = FIT_FILE

    def __getitem__(self, model_label: str) -> ServingFits:
        return self.models[model_label].fits

    @classmethod
    def _compile(
        cls,
        spec: InferenceModelSpec,
        runs: BenchmarkRuns,
        details: dict[str, Any],
        dt_s: float,
    ) -> ModelFits:
        sizes, by_batch = spec.fit_batch_sizes, runs.by_batch()
        if len(sizes) < 2:
            raise InputError(
                f"one batch size, {sizes[0]}, gives no curve; give two or more"
            )
        points = {
            quantity: [_median(by_batch[size], quantity, dt_s) for size in sizes]
            for quantity in FITS.values()
        }
        details["points"] = {"batch_size": list(sizes), **points}
        x = np.log2(sizes)
        models = {name: LogisticModel.fit(x, y) for name, y in points.items()}
        return _fits(spec, models, details)

    @classmethod
    def _files(cls, model: ModelFits) -> dict[str, bytes]:
        fits = {name: getattr(model.fits, field) for name, field in FITS.items()}
        file = LogisticFits(details=dict(model.details), **fits)
        return {FIT_FILE: file.content()}

    @classmethod
    def read(
        cls, folder: Path, spec: InferenceModelSpec, dt_s: float = STEP_S
    ) -> ModelFits:
        """Read the logistic fits of a spec from its folder."""
        del dt_s
        path = folder / FIT_FILE
        result: LogisticFits = read(path, LogisticFits)
        models = {
            field: fit
            for name, field in FITS.items()
            if (fit := getattr(result, name)) is not None
        }
        if lacking := [name for name in FITS.values() if name not in models]:
            raise LogFormatError(f"{path}: no fit of {one_of(lacking)}")
        details = read_details(folder, result.details)
        try:
            return _fits(spec, models, details)
        except InputError as problem:
            raise LogFormatError(f"{path}: {problem}") from problem


def _fits(
    spec: InferenceModelSpec,
    models: Mapping[str, LogisticModel],
    details: Mapping[str, Any],
) -> ModelFits:
    sizes = spec.fit_batch_sizes
    fits = ServingFits(**models, smallest_batch=sizes[0], largest_batch=sizes[-1])
    return ModelFits(spec, details, fits)


def _median(runs: Sequence[BenchmarkRun], quantity: str, dt_s: float) -> float:
    name, words = _MEASURED[quantity]
    values = [getattr(run, name) for run in runs]
    if quantity == "power":
        for k, run in enumerate(runs):
            if values[k] is None and run.power:
                values[k] = float(run_power_w(run, dt_s).mean())
    measured = [value for value in values if value is not None]
    if not measured:
        raise InputError(
            f"no {words} of batch size {runs[0].batch_size}; use a source that has "
            "it, or leave this size out of the fit"
        )
    return float(np.median(measured))


@dataclass(frozen=True, eq=False)
class ModelData(CompiledModel):
    """Power traces and latency mixtures of one served model, by batch size."""

    dt_s: float  # step of the traces [s]
    # Steady-state power of one replica, the sum over its GPUs, by batch size [W]
    power_w: Mapping[int, Float64Array]
    itl: Mapping[int, ITLMixtureModel]  # inter-token latency by batch size

    def profile(self, batch_size: int, n_nodes: int = 1) -> PowerProfile:
        """Return the power trace of one replica at a batch size as a profile."""
        if batch_size not in self.power_w:
            raise InputError(
                f"'{self.spec.model_label}' has no trace of batch size {batch_size} "
                f"(have: {one_of(self.power_w)})"
            )
        interval_s = float(self.details.get("sampling_interval_s", self.dt_s))
        n_runs = self.details.get("runs", {}).get(str(batch_size), 1)
        provenance = Provenance(
            kind="measured",
            source=str(self.details.get("source", "")),
            licence=str(self.details.get("licence", "unknown")),
            source_sha256=str(self.details.get("source_sha256", "")),
            sampling_interval_s=interval_s,
            averaging_window_s=self.dt_s,
            bandwidth_hz=resolvable_range(self.dt_s, interval_s).flagged_hz,
            power_boundary=REPLICA_POWER,
            notes=f"Steady state at batch size {batch_size}, resampled; "
            + (
                f"median over {n_runs} runs at each step." if n_runs > 1 else "one run."
            ),
            counts=dict(self.details.get("counts", {})),
        )
        label = "".join(
            c if c.isalnum() or c in "._-" else "_" for c in self.spec.model_label
        )
        return PowerProfile(
            profile_id=f"serving-{label}-batch{batch_size}",
            workload=f"serving-{label}",
            n_nodes=n_nodes,
            dt_ms=whole_ms(self.dt_s),
            power_w=round_keeping_energy(self.power_w[batch_size]),
            provenance=provenance,
        )


class InferenceData(CompiledData[ModelData]):
    """Power traces and latency mixtures of several served models.

    For every batch size, the steady-state power is summed over the GPUs and resampled
    to the median duration of the runs, and a mixture is fitted to the latencies of all
    runs.
    """

    needs_traces, last_file = True, ITL_FILE

    def __getitem__(self, model_label: str) -> ModelData:
        return self.models[model_label]

    @classmethod
    def _compile(
        cls,
        spec: InferenceModelSpec,
        runs: BenchmarkRuns,
        details: dict[str, Any],
        dt_s: float,
    ) -> ModelData:
        power_w, itl = {}, {}
        by_batch = runs.by_batch()
        for size, size_runs in by_batch.items():
            try:
                power_w[size] = median_trace_w(size_runs, dt_s)
                itl[size] = ITLMixtureModel.fit(
                    np.concatenate([run.itl_samples_s for run in size_runs])
                )
            except InputError as error:
                raise InputError(f"batch size {size}: {error}") from error
        details |= {
            "dt_s": dt_s,
            "runs": {str(size): len(group) for size, group in by_batch.items()},
            "sampling_interval_s": sampling_interval_s(runs.runs),
            "counts": {name: n for name, n in runs.counts.items() if n},
        }
        return ModelData(spec, details, dt_s, power_w, itl)

    @classmethod
    def _files(cls, model: ModelData) -> dict[str, bytes]:
        lengths = [power_w.size for power_w in model.power_w.values()]
        columns = (
            np.repeat(np.array(list(model.power_w), dtype=np.int64), lengths),
            np.concatenate([np.arange(n) * model.dt_s for n in lengths]),
            np.concatenate(list(model.power_w.values())),
        )
        mixtures = {str(size): mixture for size, mixture in model.itl.items()}
        fits = LatencyFits(details=dict(model.details), per_batch=mixtures)
        return {
            TRACE_FILE: format_columns(dict(zip(TRACE_COLUMNS, columns, strict=True))),
            ITL_FILE: fits.content(),
        }

    @classmethod
    def read(
        cls, folder: Path, spec: InferenceModelSpec, dt_s: float = STEP_S
    ) -> ModelData:
        """Read the traces and mixtures of a spec from its folder, at a step [s]."""
        path = folder / ITL_FILE
        result: LatencyFits = read(path, LatencyFits)
        batch, t_s, power_w = read_trace_rows(folder / TRACE_FILE)
        mixtures = {int(size): mixture for size, mixture in result.per_batch.items()}
        runs, traces_w, itl, n_repeated = [], {}, {}, 0
        for size in sorted(spec.batch_sizes):
            rows = batch == size
            if np.count_nonzero(rows) < 2 or size not in mixtures:
                lacking = path if size not in mixtures else folder / TRACE_FILE
                raise LogFormatError(
                    f"{lacking}: nothing of batch size {size}, which {MANIFEST} lists"
                )
            itl[size] = mixtures[size]
            readings, n_dropped = PowerReadings.from_pairs(t_s[rows], power_w[rows])
            runs.append(BenchmarkRun(size, power=(readings,)))
            n_repeated += n_dropped
            are_means = result.details.get("dt_s") == dt_s
            traces_w[size] = power_w[rows] if are_means else run_power_w(runs[-1], dt_s)
        counts = {"readings_at_a_repeated_stamp": n_repeated} if n_repeated else {}
        defaults = {
            "runs": {str(size): 1 for size in itl},
            "sampling_interval_s": sampling_interval_s(runs),
            "counts": counts,
        }
        details = defaults | read_details(folder, result.details)
        return ModelData(spec, details, dt_s, traces_w, itl)
