"""ML.ENERGY benchmark v3: folders of ``results.json`` files as the benchmark writes them.

The place of a file tells what was measured, ``<task>/results/<organisation>/<model>/<GPU>/
num_gpus+4+max_num_seqs+128+.../results.json``; where it does not, keys in the file do.

References
----------
.. [1] https://github.com/ml-energy/benchmark
"""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field, PositiveInt

from diploee.errors import InputError, LogFormatError
from diploee.neighbours.openg2g.runs import BenchmarkRun, BenchmarkRuns, PowerReadings
from diploee.neighbours.openg2g.selection import Measured, select
from diploee.neighbours.openg2g.sources.leaderboard import Positive
from diploee.neighbours.openg2g.spec import InferenceModelSpec
from diploee.plain_data import Record, parse_json
from diploee.tables import Float64Array
from diploee.textio.source import read_bytes
from diploee.units import LARGEST_NUMBER

RESULTS = "results.json"
POWER_KEY = "timeline.power.device_instant"
_KEYS = ("model_id", "gpu_model", "num_gpus", "max_num_seqs")

_Time = Annotated[float, Field(ge=-LARGEST_NUMBER, le=LARGEST_NUMBER)]
_AtLeastZero = Annotated[float, Field(ge=0, le=LARGEST_NUMBER)]
_Pair = Annotated[list[_Time], Field(min_length=2, max_length=2)]
_Readings = Annotated[list[_Pair], Field(min_length=2)]


class Told(Record):
    """Facts that a file may hold about itself."""

    model_id: str | None = None
    gpu_model: str | None = None
    num_gpus: PositiveInt | None = None
    max_num_seqs: PositiveInt | None = None


class Power(Record):
    """Pairs of time [s] and power [W] by GPU."""

    device_instant: Annotated[dict[str, _Readings], Field(min_length=1)]


class Timeline(Record):
    """When the steady state was, and the power in time."""

    steady_state_start_time: _Time
    steady_state_end_time: _Time
    power: Power


class Request(Record):
    """One request: whether it succeeded, and its inter-token latencies [s]."""

    success: bool = True
    itl: list[_AtLeastZero] | None = None


class Results(Record):
    """Fields that are read of a result file."""

    timeline: Timeline
    results: list[Request]
    steady_state_energy: Positive | None = None
    steady_state_duration: Positive | None = None
    steady_state_energy_per_token: Positive | None = None
    output_throughput: Positive | None = None


class ResultsSource:
    """Reads the result files below a folder.

    Parameters
    ----------
    folder : pathlib.Path or str
        Searched for ``results.json`` at any depth.
    licence : str
        Licence of the measurements, for provenance.
    """

    def __init__(self, folder: Path | str, licence: str = "unknown") -> None:
        self.folder = Path(folder)
        self.licence = licence

    def read(
        self,
        spec: InferenceModelSpec,
        *,
        traces: bool = True,  # noqa: ARG002  # everything lies in the same file
    ) -> BenchmarkRuns:
        """Read the runs of a spec, power and latencies included.

        Raises
        ------
        LogFormatError
            If a file can't be read or is not a benchmark's result.
        InputError
            If the folder has no such model, task, GPU or batch size.
        """
        counts: Counter[str] = Counter()
        digest = hashlib.sha256()
        runs = []
        for measured in self._selected(spec):
            content = read_bytes(measured.data)
            digest.update(hashlib.sha256(content).digest())
            where = str(measured.data)
            found = parse_json(content, where, Results, LogFormatError, finite=False)
            runs.append(run_of(found, where, measured.batch_size, counts))
            n_gpus = len(runs[-1].power)
            if n_gpus != spec.gpus_per_replica:
                raise LogFormatError(
                    f"{measured.data}: '{POWER_KEY}' has {n_gpus} GPUs, expected "
                    f"{spec.gpus_per_replica} as its place says; restore the file"
                )
        source = f"ML.ENERGY benchmark results in {self.folder.name}"
        return BenchmarkRuns(
            source, self.licence, digest.hexdigest(), tuple(runs), counts=dict(counts)
        )

    def sha256(self, spec: InferenceModelSpec) -> str:
        """Return the hash over the result files of a spec."""
        digest = hashlib.sha256()
        for measured in self._selected(spec):
            digest.update(hashlib.sha256(read_bytes(measured.data)).digest())
        return digest.hexdigest()

    def _selected(self, spec: InferenceModelSpec) -> list[Measured[Path]]:
        files = sorted(self.folder.rglob(RESULTS))
        if not files:
            raise InputError(
                f"{self.folder}: no '{RESULTS}' below this folder; give the folder of a benchmark"
            )
        return select(map(_measured, files), spec, str(self.folder))


def _measured(file: Path) -> Measured[Path]:
    """Tell what a file holds by its place; where that says too little, by its keys."""
    parts = file.parts[:-1]
    words = parts[-1].split("+") if parts else []
    config: dict[str, Any] = dict(zip(words[::2], words[1::2], strict=False))
    told: dict[str, Any] = {key: int(v) for key, v in config.items() if v.isdecimal()}
    if "results" in parts:
        at = len(parts) - 1 - parts[::-1].index("results")
        below = parts[at + 1 : -1]
        if at and len(below) == 3:
            told |= {"task": parts[at - 1], "gpu_model": below[2]}
            told["model_id"] = "/".join(below[:2])
    if not set(_KEYS) <= told.keys():
        of_file = parse_json(read_bytes(file), str(file), Told, LogFormatError, finite=False)
        told = {key: getattr(of_file, key) for key in _KEYS} | told
    batch_size = told.get("max_num_seqs")
    if not batch_size:
        raise LogFormatError(
            f"{file}: neither its folder ('num_gpus+4+max_num_seqs+128+...') nor a key "
            "'max_num_seqs' tells the batch size; restore its place"
        )
    return Measured(
        model_id=told.get("model_id"),
        task=told.get("task"),
        gpu_model=told.get("gpu_model"),
        gpus_per_replica=told.get("num_gpus"),
        tensor_parallel=told.get("tensor_parallel"),
        batch_size=batch_size,
        data=file,
        expert_parallel=told.get("expert_parallel"),
    )


def run_of(found: Results, where: str, batch_size: int, counts: Counter[str]) -> BenchmarkRun:
    """Return what one result file measured.

    Mean power and throughput come from the steady state's energy counter, where the file has it,
    else from the readings and the whole run.
    """
    timeline = found.timeline
    steady_s = (timeline.steady_state_start_time, timeline.steady_state_end_time)
    if steady_s[1] <= steady_s[0]:
        raise LogFormatError(
            f"{where}: the steady state ends at {steady_s[1]:g} s, expected after its start at "
            f"{steady_s[0]:g} s"
        )
    ok = [request for request in found.results if request.success]
    counts["failed_requests"] += len(found.results) - len(ok)
    samples_s = spread_chunks(
        [np.array(request.itl or (), dtype=np.float64) for request in ok], counts
    )
    if samples_s.size == 0:
        raise LogFormatError(f"{where}: no inter-token latency above 0 in 'results[].itl'")
    energy_j, duration_s = found.steady_state_energy, found.steady_state_duration
    per_token_j, throughput_tps = found.steady_state_energy_per_token, found.output_throughput
    if energy_j and duration_s and per_token_j:
        throughput_tps = energy_j / per_token_j / duration_s
    return BenchmarkRun(
        batch_size=batch_size,
        mean_power_w=energy_j / duration_s if energy_j and duration_s else None,
        median_itl_s=float(np.median(samples_s)),
        throughput_tps=throughput_tps,
        power=_power(timeline.power, where, counts),
        steady_s=steady_s,
        itl_samples_s=samples_s,
    )


def _power(power: Power, where: str, counts: Counter[str]) -> tuple[PowerReadings, ...]:
    found = []
    for name, pairs in power.device_instant.items():
        t_s, power_w = np.array(pairs, dtype=np.float64).T
        if (power_w < 0).any():
            row = int(np.argmax(power_w < 0))
            raise LogFormatError(
                f"{where}: {POWER_KEY}.{name}.{row}: found {power_w[row]:g} W "
                f"({int((power_w < 0).sum())} such readings), expected 0 W or more"
            )
        readings, n_dropped = PowerReadings.of_pairs(t_s, power_w)
        counts["readings_at_a_repeated_stamp"] += n_dropped
        found.append(readings)
    return tuple(found)


def spread_chunks(requests: list[Float64Array], counts: Counter[str]) -> Float64Array:
    """Share a chunk's latency among its tokens.

    A server may send several tokens at once: the first has the whole latency, the others 0. Each
    then gets an equal part. Zeros before a request's first latency belong to no chunk and are
    dropped.
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
    kept = latency_s > 0
    counts["latencies_before_the_first_chunk"] += int(length[~kept].sum())
    counts["tokens_in_chunks"] += int(length[kept & (length > 1)].sum())
    return np.repeat(latency_s[kept] / length[kept], length[kept])
