"""Sources of measurements of the ML.ENERGY benchmark.

- Leaderboard files: one per model and task, with all measured configurations, each with
  mean power, latency percentiles and throughput. They have no power over time and no
  latency samples, which suffices for logistic fits but not for traces.
- Result files: a ``results.json`` for each benchmark run, whose path names the
  configuration, ``<task>/results/<organisation>/<model>/<GPU>/num_gpus+4+
  max_num_seqs+128+.../results.json``.
- The data set of benchmark v3, which is gated: its owners grant access on request, and
  an access token identifies the user. It is read through the optional package
  `mlenergy-data`, imported on first use.

References
----------
.. [1] https://ml.energy/leaderboard, data under Apache-2.0
.. [2] https://github.com/ml-energy/benchmark
.. [3] https://huggingface.co/datasets/ml-energy/benchmark-v3
.. [4] https://pypi.org/project/mlenergy-data (import name `mlenergy.data` from 0.4)
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field, PositiveInt, Strict

from diploee.base.errors import (
    InputError,
    LogFormatError,
    did_you_mean,
    one_line,
    one_of,
)
from diploee.base.tables import Float64Array
from diploee.base.units import MAX_NUMBER, MS_PER_S
from diploee.base.validation import Record, parse_json, validate_record
from diploee.importers.text.file_bytes import read_bytes
from diploee.integrations.openg2g.benchmark_runs import (
    BenchmarkRun,
    BenchmarkSource,
    Measurement,
    PowerReadings,
    select_measurements,
)
from diploee.integrations.openg2g.inference_model_spec import InferenceModelSpec

Positive = Annotated[float, Field(gt=0, le=MAX_NUMBER)]


class Parallelization(Record):
    """Tensor and expert parallelism: GPUs that share a model's layers and experts."""

    tensor_parallel: PositiveInt | None = None
    expert_parallel: PositiveInt | None = None


class Summary(Record):
    """Mean or median values of one measured configuration, by the benchmark's names."""

    max_num_seqs: PositiveInt
    avg_power_watts: Positive
    median_itl_ms: Positive
    output_throughput_tokens_per_sec: Positive

    def run(self) -> BenchmarkRun:
        """Return the summary as a benchmark run, without power over time."""
        return BenchmarkRun(
            batch_size=self.max_num_seqs,
            mean_power_w=self.avg_power_watts,
            median_itl_s=self.median_itl_ms / MS_PER_S,
            throughput_tps=self.output_throughput_tokens_per_sec,
        )


class _Configuration(Summary):
    """One measured configuration of a leaderboard file."""

    gpu_model: str
    num_gpus: PositiveInt
    parallelization: Parallelization = Parallelization()

    @property
    def spec_fields(self) -> dict[str, Any]:
        """Values of the configuration by field name of a spec."""
        parallel = {
            name: getattr(self.parallelization, name)
            for name in Parallelization.model_fields
        }
        return {
            "gpu_model": self.gpu_model,
            "gpus_per_replica": self.num_gpus,
            **parallel,
        }


class Leaderboard(Record):
    """Content of a leaderboard file: the configurations of one model and task."""

    model_id: str
    task: str
    configurations: list[_Configuration]


class LeaderboardSource(BenchmarkSource):
    """Source of mean values in leaderboard files, without power over time.

    Parameters
    ----------
    path : pathlib.Path or str
        Path of a file, or of a folder with files
        ``<organisation>__<model>__<task>.json``.
    """

    licence = "Apache-2.0"

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    def _source_title(self, spec: InferenceModelSpec) -> str:
        return f"ML.ENERGY leaderboard, {self._path_of(spec).name}"

    def selected(self, spec: InferenceModelSpec) -> list[Measurement]:
        """Return the measured configurations of a spec."""
        path = self._path_of(spec)
        board = parse_json(
            read_bytes(path), str(path), Leaderboard, LogFormatError, finite=False
        )
        shared = {"model_id": board.model_id, "task": board.task}
        measured = (
            Measurement(shared | config.spec_fields, config.max_num_seqs, config)
            for config in board.configurations
        )
        return select_measurements(measured, spec, str(path))

    def _read_run(self, one: Measurement, *_: Any) -> tuple[bytes, BenchmarkRun]:
        config: _Configuration = one.data
        return config.model_dump_json().encode(), config.run()

    def _path_of(self, spec: InferenceModelSpec) -> Path:
        if not self.path.is_dir():
            return self.path
        name = f"{spec.model_id.replace('/', '__')}__{spec.task}"
        have = sorted(file.stem for file in self.path.glob("*.json"))
        if name not in have:
            raise InputError(
                f"{self.path}: no file '{name}.json' for '{spec.model_label}' "
                f"({len(have)} files, such as "
                f"{one_of(have[:3])}){did_you_mean(name, have)}"
            )
        return self.path / f"{name}.json"


RESULTS = "results.json"
POWER_KEY = "timeline.power.device_instant"

_Time = Annotated[float, Field(ge=-MAX_NUMBER, le=MAX_NUMBER)]
_AtLeastZero = Annotated[float, Field(ge=0, le=MAX_NUMBER)]
_Pair = Annotated[tuple[_Time, _AtLeastZero], Strict(False)]
_Readings = Annotated[list[_Pair], Field(min_length=2)]


class PowerTrace(Record):
    """Pairs of time [s] and power [W] by GPU."""

    device_instant: Annotated[dict[str, _Readings], Field(min_length=1)]


class Timeline(Record):
    """Start and end of the steady state [s], and power over time."""

    steady_state_start_time: _Time
    steady_state_end_time: _Time
    power: PowerTrace


class Request(Record):
    """One request's success and inter-token latencies [s]."""

    success: bool = True
    itl: list[_AtLeastZero] | None = None


class ResultFile(Record):
    """Content of a result file: the keys that are read."""

    timeline: Timeline
    results: list[Request]
    steady_state_energy: Positive | None = None
    steady_state_duration: Positive | None = None
    steady_state_energy_per_token: Positive | None = None
    output_throughput: Positive | None = None


class ResultsSource(BenchmarkSource):
    """Source of benchmark runs in the result files below a folder.

    Parameters
    ----------
    folder : pathlib.Path or str
        Folder with ``results.json`` files at any depth.
    licence : str
        Licence of the measurements, for provenance.
    """

    def __init__(self, folder: Path | str, licence: str = "unknown") -> None:
        self.folder = Path(folder)
        self.licence = licence

    def _source_title(self, spec: InferenceModelSpec) -> str:  # noqa: ARG002
        return f"ML.ENERGY benchmark results in {self.folder.name}"

    def selected(self, spec: InferenceModelSpec) -> list[Measurement]:
        """Return the result files of a spec."""
        files = sorted(self.folder.rglob(RESULTS))
        if not files:
            raise InputError(
                f"{self.folder}: no '{RESULTS}' below this folder; give the folder of "
                "a benchmark"
            )
        return select_measurements(
            map(_find_measurements, files), spec, str(self.folder)
        )

    def _read_run(
        self, one: Measurement, spec: InferenceModelSpec, _: bool, counts: Counter[str]
    ) -> tuple[bytes, BenchmarkRun]:
        where, content = str(one.data), read_bytes(one.data)
        result = parse_json(content, where, ResultFile, LogFormatError, finite=False)
        run = benchmark_run(result, where, one.batch_size, counts)
        if len(run.power) != spec.gpus_per_replica:
            raise LogFormatError(
                f"{where}: '{POWER_KEY}' has {len(run.power)} GPUs, expected "
                f"{spec.gpus_per_replica} as its place says; restore the file"
            )
        return content, run


def _find_measurements(file: Path) -> Measurement:
    """Return the measurement of a result file, from the configuration in its path."""
    parts = file.parts[:-1]
    below = parts[-5:] if len(parts) >= 5 else ()
    words = parts[-1].split("+") if parts else []
    config = dict(zip(words[::2], words[1::2], strict=False))
    n_gpus, size = (config.get(key, "") for key in ("num_gpus", "max_num_seqs"))
    if not (
        len(below) == 5
        and below[0] == "results"
        and n_gpus.isdecimal()
        and size.isdecimal()
    ):
        raise LogFormatError(
            f"{file}: its place must say what was measured, as the benchmark writes "
            "it: <task>/results/<organisation>/<model>/<GPU>/"
            "num_gpus+4+max_num_seqs+128+.../; restore it"
        )
    configuration = {
        "task": parts[-6] if len(parts) > 5 else None,
        "model_id": "/".join(below[1:3]),
        "gpu_model": below[3],
        "gpus_per_replica": int(n_gpus),
    }
    return Measurement(configuration, int(size), file)


def benchmark_run(
    content: ResultFile, where: str, batch_size: int, counts: Counter[str]
) -> BenchmarkRun:
    """Return the measurement of one result file.

    Mean power and throughput are those of the steady state if the file has its energy;
    otherwise power is the mean of the readings, and throughput that of the whole run.
    """
    timeline = content.timeline
    steady_s = (timeline.steady_state_start_time, timeline.steady_state_end_time)
    if steady_s[1] <= steady_s[0]:
        raise LogFormatError(
            f"{where}: the steady state ends at {steady_s[1]:g} s, expected after its "
            f"start at {steady_s[0]:g} s"
        )
    ok = [request for request in content.results if request.success]
    counts["failed_requests"] += len(content.results) - len(ok)
    samples_s = spread_chunks(
        [np.array(request.itl or (), dtype=np.float64) for request in ok], counts
    )
    if samples_s.size == 0:
        raise LogFormatError(
            f"{where}: no inter-token latency above 0 in 'results[].itl'"
        )
    energy_j, duration_s = content.steady_state_energy, content.steady_state_duration
    per_token_j, throughput_tps = (
        content.steady_state_energy_per_token,
        content.output_throughput,
    )
    if energy_j and duration_s and per_token_j:
        throughput_tps = energy_j / per_token_j / duration_s
    return BenchmarkRun(
        batch_size=batch_size,
        mean_power_w=energy_j / duration_s if energy_j and duration_s else None,
        median_itl_s=float(np.median(samples_s)),
        throughput_tps=throughput_tps,
        power=_power(timeline.power, counts),
        steady_s=steady_s,
        itl_samples_s=samples_s,
    )


def _power(power: PowerTrace, counts: Counter[str]) -> tuple[PowerReadings, ...]:
    result = []
    for pairs in power.device_instant.values():
        readings, n_dropped = PowerReadings.from_pairs(*np.array(pairs).T)
        counts["readings_at_a_repeated_stamp"] += n_dropped
        result.append(readings)
    return tuple(result)


def spread_chunks(requests: list[Float64Array], counts: Counter[str]) -> Float64Array:
    """Return inter-token latencies with a chunk's latency spread over its tokens [s].

    If a server sends several tokens in a chunk, the first token has the latency of the
    chunk in the data, and the others have 0. The result is an equal latency for each
    token of the chunk. Zeros before a request's first latency belong to no chunk and
    are dropped.
    """
    filled = [itl for itl in requests if itl.size]
    if not filled:
        return np.empty(0)
    joined = np.concatenate(filled)
    starts = joined > 0
    starts[np.cumsum([0, *(itl.size for itl in filled[:-1])])] = True
    first = np.flatnonzero(starts)
    length = np.diff(first, append=joined.size)
    latency_s = joined[first]
    is_chunk = latency_s > 0
    counts["latencies_before_the_first_chunk"] += int(length[~is_chunk].sum())
    counts["tokens_in_chunks"] += int(length[is_chunk & (length > 1)].sum())
    return np.repeat(latency_s[is_chunk] / length[is_chunk], length[is_chunk])


REPOSITORY = "ml-energy/benchmark-v3"
EXTRA = "mlenergy"
TOKEN = "HF_TOKEN"
_MODULE = "mlenergy.data.records"
_MAX_REASON_LENGTH = 200


class MlEnergySource(BenchmarkSource):
    """Source of runs of the ML.ENERGY benchmark, read by its own package.

    Traces need a download of the runs' raw files. `InputError` also if the package is
    not installed, or if the data set denies access.

    Parameters
    ----------
    folder : pathlib.Path or str, optional
        A local copy of the compiled data set (with ``runs/llm.parquet``); without it
        the runs are downloaded from the hub.
    """

    licence = "gated data set ml-energy/benchmark-v3; see its page"

    def __init__(self, folder: Path | str | None = None) -> None:
        self.name = REPOSITORY if folder is None else str(folder)
        self._is_copy = folder is not None

    def _source_title(self, spec: InferenceModelSpec) -> str:  # noqa: ARG002
        return f"ML.ENERGY benchmark, {self.name}"

    def selected(self, spec: InferenceModelSpec) -> list[Measurement]:
        """Return the benchmark runs of a spec."""
        measured = (
            Measurement(
                {
                    "model_id": run.model_id,
                    "task": run.task,
                    "gpu_model": run.gpu_model,
                    "gpus_per_replica": int(run.num_gpus),
                    "tensor_parallel": int(run.tensor_parallel),
                    "expert_parallel": int(run.expert_parallel),
                    "precision": str(run.weight_precision),
                },
                int(run.max_num_seqs),
                run,
            )
            for run in self._runs
        )
        return select_measurements(measured, spec, self.name)

    @cached_property
    def _runs(self) -> list[Any]:
        try:
            llm_runs = import_module(_MODULE).LLMRuns
        except ImportError as error:
            raise InputError(
                "the ML.ENERGY benchmark is read through the package 'mlenergy-data' "
                f"({error}); install it with: pip install 'diploee[{EXTRA}]'"
            ) from error
        opened = llm_runs.from_directory if self._is_copy else llm_runs.from_hf
        return list(self._call_package(opened, self.name, stable_only=False))

    def _read_run(
        self,
        one: Measurement,
        _: InferenceModelSpec,
        traces: bool,
        counts: Counter[str],
    ) -> tuple[bytes, BenchmarkRun]:
        counts["unstable_runs"] += not one.data.is_stable
        where = f"{self.name}: run of batch size {one.data.max_num_seqs}"
        values = {k: v for k, v in asdict(one.data).items() if not k.startswith("_")}
        content = json.dumps(values, sort_keys=True, default=str).encode()
        summary = validate_record(values, Summary, where, LogFormatError).run()
        if not traces:
            return content, summary
        result = validate_record(
            self._call_package(one.data.read_results_json),
            ResultFile,
            where,
            LogFormatError,
        )
        raw = benchmark_run(result, where, summary.batch_size, counts)
        return content, replace(
            summary,
            power=raw.power,
            steady_s=raw.steady_s,
            itl_samples_s=raw.itl_samples_s,
        )

    def _call_package(self, call: Any, *args: Any, **options: Any) -> Any:
        """Call a function of the package, and convert its errors to one line."""
        try:
            return call(*args, **options)
        except Exception as error:  # whatever the hub's client may raise
            text = one_line(" ".join(str(error).split()))[:_MAX_REASON_LENGTH] or repr(
                error
            )
            remedy = (
                "the data set is gated: request access on "
                f"https://huggingface.co/datasets/{self.name}, create a token on "
                f"https://huggingface.co/settings/tokens and set {TOKEN} to it"
            )
            if self._is_copy:
                remedy = "check the folder"
            raise InputError(
                f"{self.name}: can't be read ({type(error).__name__}: {text}); {remedy}"
            ) from error
