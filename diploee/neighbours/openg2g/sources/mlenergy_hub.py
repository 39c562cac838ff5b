"""ML.ENERGY benchmark v3 through the package `mlenergy-data`, from the hub or a local copy.

The data set is gated: its owners grant access on request, and a token tells who asks. The package
is an optional extra and is imported only when it is used.

References
----------
.. [1] https://huggingface.co/datasets/ml-energy/benchmark-v3
.. [2] https://pypi.org/project/mlenergy-data (import name `mlenergy.data` from 0.4)
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

from diploee.errors import InputError, LogFormatError, one_line
from diploee.neighbours.openg2g.runs import BenchmarkRun, BenchmarkRuns
from diploee.neighbours.openg2g.selection import Measured, select
from diploee.neighbours.openg2g.sources.leaderboard import Summary
from diploee.neighbours.openg2g.sources.results_json import Results, run_of
from diploee.neighbours.openg2g.spec import InferenceModelSpec
from diploee.plain_data import checked_record

REPOSITORY = "ml-energy/benchmark-v3"
LICENCE = "gated data set ml-energy/benchmark-v3; see its page"
EXTRA = "mlenergy"
TOKEN = "HF_TOKEN"
_MODULE = "mlenergy.data.records"
_LONGEST_REASON = 200


class MlEnergySource:
    """Reads runs of the ML.ENERGY benchmark.

    Parameters
    ----------
    folder : pathlib.Path or str, optional
        A local copy of the compiled data set (with ``runs/llm.parquet``); without it the runs are
        downloaded from the hub.
    repository, revision : str
        Data set on the hub, and its branch, tag or commit.
    stable_only : bool
        Leave out runs that the data set marks as unstable.
    """

    def __init__(
        self,
        folder: Path | str | None = None,
        *,
        repository: str = REPOSITORY,
        revision: str = "main",
        stable_only: bool = False,
    ) -> None:
        self.folder = None if folder is None else Path(folder)
        self.repository = repository
        self.revision = revision
        self.stable_only = stable_only

    def read(self, spec: InferenceModelSpec, *, traces: bool = True) -> BenchmarkRuns:
        """Read the runs of a spec; with `traces` their raw files are downloaded.

        Raises
        ------
        InputError
            If the package is not installed, the data set gives no access, or it has no such model,
            task, GPU or batch size.
        """
        selected = select(map(_measured, self._runs), spec, self._name)
        counts: Counter[str] = Counter()
        counts["unstable_runs"] = sum(not one.data.is_stable for one in selected)
        runs = tuple(self._run(one.data, traces, counts) for one in selected)
        sha256 = _sha256(one.data for one in selected)
        return BenchmarkRuns(
            f"ML.ENERGY benchmark, {self._name}", LICENCE, sha256, runs, counts=dict(counts)
        )

    def sha256(self, spec: InferenceModelSpec) -> str:
        """Return the hash over the summaries of a spec's runs: raw files are not downloaded."""
        return _sha256(one.data for one in select(map(_measured, self._runs), spec, self._name))

    @property
    def _name(self) -> str:
        return str(self.folder or f"{self.repository} at {self.revision}")

    @cached_property
    def _runs(self) -> list[Any]:
        llm_runs = _package().LLMRuns
        if self.folder is not None:
            return list(
                self._try(llm_runs.from_directory, str(self.folder), stable_only=self.stable_only)
            )
        _check_token(self.repository)
        options = {"revision": self.revision, "stable_only": self.stable_only}
        return list(self._try(llm_runs.from_hf, self.repository, **options))

    def _run(self, run: Any, traces: bool, counts: Counter[str]) -> BenchmarkRun:
        where = f"{self._name}: run of batch size {run.max_num_seqs}"
        summary = checked_record(asdict(run), Summary, where, LogFormatError).run()
        if not traces:
            return summary
        found = checked_record(self._try(run.read_results_json), Results, where, LogFormatError)
        raw = run_of(found, where, summary.batch_size, counts)
        return replace(
            summary, power=raw.power, steady_s=raw.steady_s, itl_samples_s=raw.itl_samples_s
        )

    def _try(self, call: Any, *args: Any, **options: Any) -> Any:
        """Call the package and put what it raises into one line."""
        try:
            return call(*args, **options)
        except Exception as error:  # whatever the hub's client may raise
            text = one_line(" ".join(str(error).split()))[:_LONGEST_REASON] or repr(error)
            raise InputError(
                f"{self._name}: can't be read ({type(error).__name__}: {text}); check the access "
                f"to the data set, {TOKEN} and the network"
            ) from error


def _package() -> Any:
    try:
        return import_module(_MODULE)
    except ImportError as error:
        raise InputError(
            f"the ML.ENERGY benchmark is read through the package 'mlenergy-data' ({error}); "
            f"install it with: pip install 'diploee[{EXTRA}]'"
        ) from error


def _check_token(repository: str) -> None:
    """Ask for a token before a download fails for want of one."""
    if os.environ.get(TOKEN):
        return
    try:
        if import_module("huggingface_hub").get_token():
            return
    except (ImportError, AttributeError):
        pass
    raise InputError(
        f"{repository} is a gated data set and {TOKEN} is not set; request access on "
        f"https://huggingface.co/datasets/{repository}, create a token on "
        f"https://huggingface.co/settings/tokens and set {TOKEN} to it"
    )


def _measured(run: Any) -> Measured[Any]:
    return Measured(
        model_id=run.model_id,
        task=run.task,
        gpu_model=run.gpu_model,
        gpus_per_replica=int(run.num_gpus),
        tensor_parallel=int(run.tensor_parallel),
        batch_size=int(run.max_num_seqs),
        data=run,
        expert_parallel=int(run.expert_parallel),
        precision=str(run.weight_precision),
    )


def _sha256(runs: Iterable[Any]) -> str:
    """Return the hash over all public values of runs: a new measurement changes some of them."""
    digest = hashlib.sha256()
    for run in runs:
        values = {name: v for name, v in asdict(run).items() if not name.startswith("_")}
        digest.update(json.dumps(values, sort_keys=True, default=str).encode())
    return digest.hexdigest()
