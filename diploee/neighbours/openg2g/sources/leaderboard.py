"""ML.ENERGY leaderboard: per model and task one JSON file with all measured configurations.

The files hold mean power, latency percentiles and throughput, no power in time and no samples:
enough for logistic fits, not for traces.

References
----------
.. [1] https://ml.energy/leaderboard, data under Apache-2.0
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated

from pydantic import Field, PositiveInt

from diploee.errors import InputError, LogFormatError, did_you_mean, one_of
from diploee.neighbours.openg2g.runs import BenchmarkRun, BenchmarkRuns
from diploee.neighbours.openg2g.selection import Measured, select
from diploee.neighbours.openg2g.spec import InferenceModelSpec
from diploee.plain_data import Record, parse_json
from diploee.textio.source import read_bytes
from diploee.units import LARGEST_NUMBER

LICENCE = "Apache-2.0"
Positive = Annotated[float, Field(gt=0, le=LARGEST_NUMBER)]
_MS_PER_S = 1e3


class Parallelization(Record):
    """How a model is spread over GPUs."""

    tensor_parallel: PositiveInt | None = None
    expert_parallel: PositiveInt | None = None


class Summary(Record):
    """Means of one measured configuration, as the benchmark names them."""

    max_num_seqs: PositiveInt
    avg_power_watts: Positive
    median_itl_ms: Positive
    output_throughput_tokens_per_sec: Positive

    def run(self) -> BenchmarkRun:
        """Return it as a measurement."""
        return BenchmarkRun(
            batch_size=self.max_num_seqs,
            mean_power_w=self.avg_power_watts,
            median_itl_s=self.median_itl_ms / _MS_PER_S,
            throughput_tps=self.output_throughput_tokens_per_sec,
        )


class Configuration(Summary):
    """One measured configuration of a leaderboard file."""

    gpu_model: str
    num_gpus: PositiveInt
    parallelization: Parallelization = Parallelization()


class Leaderboard(Record):
    """A leaderboard file: one model and task."""

    model_id: str
    task: str
    configurations: list[Configuration]

    def measured(self) -> list[Measured[Configuration]]:
        """Return all configurations under the names of a spec."""
        return [
            Measured(
                model_id=self.model_id,
                task=self.task,
                gpu_model=config.gpu_model,
                gpus_per_replica=config.num_gpus,
                tensor_parallel=config.parallelization.tensor_parallel,
                batch_size=config.max_num_seqs,
                data=config,
                expert_parallel=config.parallelization.expert_parallel,
            )
            for config in self.configurations
        ]


class LeaderboardSource:
    """Reads leaderboard files.

    Parameters
    ----------
    path : pathlib.Path or str
        A file, or a folder of files named ``<organisation>__<model>__<task>.json``.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    def read(
        self,
        spec: InferenceModelSpec,
        *,
        traces: bool = True,  # noqa: ARG002  # everything lies in the same file
    ) -> BenchmarkRuns:
        """Read the configurations of a spec; there is no power in time, whatever `traces` says.

        Raises
        ------
        LogFormatError
            If the file can't be read or is not a leaderboard file.
        InputError
            If it has no such model, task, GPU or batch size.
        """
        file = self._file(spec)
        content = read_bytes(file)
        board = parse_json(content, str(file), Leaderboard, LogFormatError, finite=False)
        runs = [one.data.run() for one in select(board.measured(), spec, str(file))]
        sha256 = hashlib.sha256(content).hexdigest()
        return BenchmarkRuns(f"ML.ENERGY leaderboard, {file.name}", LICENCE, sha256, tuple(runs))

    def sha256(self, spec: InferenceModelSpec) -> str:
        """Return the hash of the file of a spec."""
        return hashlib.sha256(read_bytes(self._file(spec))).hexdigest()

    def _file(self, spec: InferenceModelSpec) -> Path:
        if not self.path.is_dir():
            return self.path
        name = f"{spec.model_id.replace('/', '__')}__{spec.task}"
        have = sorted(file.stem for file in self.path.glob("*.json"))
        if name not in have:
            raise InputError(
                f"{self.path}: no file '{name}.json' for '{spec.model_label}' "
                f"({len(have)} files, such as {one_of(have[:3])}){did_you_mean(name, have)}"
            )
        return self.path / f"{name}.json"
