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
from typing import Any

from diploee.benchmark.runs import BenchmarkRun, BenchmarkRuns
from diploee.benchmark.selection import Measured, select
from diploee.benchmark.sources.json_text import (
    get,
    number,
    parse_object,
    read_bytes,
    whole,
)
from diploee.benchmark.spec import InferenceModelSpec
from diploee.errors import InputError, LogFormatError, did_you_mean, one_of, shown

LICENCE = "Apache-2.0"
_MS_PER_S = 1e3


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
        runs = [
            _run(config.data, where)
            for config in select(_measured(file, parse_object(file, content)), spec, str(file))
            for where in [f"{file}: configuration of batch size {config.batch_size}"]
        ]
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


def _measured(file: Path, data: dict[str, Any]) -> list[Measured[dict[str, Any]]]:
    configurations = get(data, "configurations", str(file))
    if not isinstance(configurations, list):
        raise LogFormatError(
            f"{file}: 'configurations' must be a list, found {shown(configurations)}"
        )
    found = []
    for index, config in enumerate(configurations):
        where = f"{file}: configurations[{index}]"
        if not isinstance(config, dict):
            raise LogFormatError(f"{where}: expected a group of keys, found {shown(config)}")
        parallel = config.get("parallelization") or {}
        found.append(
            Measured(
                model_id=str(get(data, "model_id", str(file))),
                task=str(get(data, "task", str(file))),
                gpu_model=str(get(config, "gpu_model", where)),
                gpus_per_replica=whole(config, "num_gpus", where),
                tensor_parallel=parallel.get("tensor_parallel"),
                batch_size=whole(config, "max_num_seqs", where),
                data=config,
            )
        )
    return found


def _run(config: dict[str, Any], where: str) -> BenchmarkRun:
    return BenchmarkRun(
        batch_size=whole(config, "max_num_seqs", where),
        mean_power_w=number(config, "avg_power_watts", where),
        median_itl_s=number(config, "median_itl_ms", where) / _MS_PER_S,
        throughput_tps=number(config, "output_throughput_tokens_per_sec", where),
    )
