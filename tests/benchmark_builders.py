"""Synthetic benchmark data in every format that the sources read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from diploee.integrations.openg2g import (
    InferenceModelSpec,
    ITLMixtureModel,
    LogisticModel,
    ServingFits,
)

MODEL, TASK, GPU = "org/Tiny-8B", "gpqa", "H100"
SIZES = (8, 16, 32, 64, 128, 256)
POWER = LogisticModel(span=900.0, steepness=0.9, midpoint=5.0, base=600.0)
ITL = LogisticModel(span=0.1, steepness=1.4, midpoint=7.0, base=0.02)
THROUGHPUT = LogisticModel(span=6000.0, steepness=0.6, midpoint=5.0, base=-200.0)
MIXTURE = ITLMixtureModel(0.012, 0.9, 0.3, 0.004, 0.5, 0.03)


def tiny_spec(**changes: Any) -> InferenceModelSpec:
    """A spec of the synthetic data, two GPUs a replica."""
    fields: dict[str, Any] = {
        "model_label": "Tiny",
        "model_id": MODEL,
        "gpu_model": GPU,
        "task": TASK,
        "gpus_per_replica": 2,
        "batch_sizes": SIZES,
        "itl_deadline_s": 0.05,
    }
    return InferenceModelSpec(**fields | changes)


def tiny_fits(**changes: Any) -> ServingFits:
    """The curves behind the synthetic data."""
    fields = {
        "power": POWER,
        "itl": ITL,
        "throughput": THROUGHPUT,
        "smallest_batch": SIZES[0],
        "largest_batch": SIZES[-1],
    }
    return ServingFits(**fields | changes)


def write_json(path: Path, data: Any) -> Path:
    """Write a JSON file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data))
    return path


def leaderboard_data(**changes: Any) -> dict[str, Any]:
    """The content of a leaderboard file that the curves above gave."""
    return {
        "model_id": MODEL,
        "task": TASK,
        "configurations": [
            {
                "gpu_model": GPU,
                "num_gpus": 2,
                "max_num_seqs": size,
                "avg_power_watts": float(POWER.eval(size)),
                "median_itl_ms": 1e3 * float(ITL.eval(size)),
                "output_throughput_tokens_per_sec": float(THROUGHPUT.eval(size)),
                "parallelization": {"tensor_parallel": 2},
            }
            for size in SIZES
        ],
    } | changes


def results_data(size: int, seed: int = 0, duration_s: float = 20.0) -> dict[str, Any]:
    """The content of a result file: two GPUs, 10 s of warm-up, then the steady state."""  # noqa: E501
    rng = np.random.default_rng([seed, size])
    start_s = 1.7e9 + 10.0
    power_w = float(POWER.eval(size))
    timeline = {}
    for gpu in ("0", "1"):
        t_s = (
            start_s
            - 10
            + np.cumsum(rng.uniform(0.05, 0.15, int(10 * (duration_s + 15))))
        )
        watts = np.where(
            t_s < start_s, 100.0, power_w / 2 + rng.normal(0, 20, t_s.size)
        )
        timeline[gpu] = [[float(t), float(w)] for t, w in zip(t_s, watts, strict=True)]
    throughput_tps = float(THROUGHPUT.eval(size))
    return {
        "steady_state_duration": duration_s,
        "steady_state_energy": power_w * duration_s,
        "steady_state_energy_per_token": power_w / throughput_tps,
        "output_throughput": 0.5 * throughput_tps,
        "timeline": {
            "steady_state_start_time": start_s,
            "steady_state_end_time": start_s + duration_s,
            "power": {"device_instant": timeline},
        },
        "results": [
            {"success": True, "itl": MIXTURE.sample(200, rng).tolist()}
            for _ in range(5)
        ],
    }


def results_path(folder: Path, size: int, seed: int = 0, gpu: str = GPU) -> Path:
    """The place of a result file."""
    config = f"num_gpus+2+max_num_seqs+{size}+num_request_repeats+1+seed+{seed}"
    return (
        folder
        / "run"
        / "llm"
        / TASK
        / "results"
        / MODEL
        / gpu
        / config
        / "results.json"
    )


def write_results(folder: Path, sizes: tuple[int, ...] = SIZES, seeds: int = 1) -> Path:
    """A folder of result files."""
    for size in sizes:
        for seed in range(seeds):
            data = results_data(size, seed, duration_s=20.0 + 4 * seed)
            write_json(results_path(folder, size, seed), data)
    return folder


def plain_model(model: ITLMixtureModel | LogisticModel) -> dict[str, Any]:
    """The parameters of a model under OpenG2G's names."""
    adapter: TypeAdapter[Any] = TypeAdapter(type(model))
    dumped = adapter.dump_python(model, by_alias=True, exclude_none=True)
    return {key: v for key, v in dumped.items() if not key.startswith("n_")}


def write_openg2g(folder: Path, spec: InferenceModelSpec | None = None) -> Path:
    """A spec folder as OpenG2G writes it."""
    spec = spec or tiny_spec()
    folder.mkdir(parents=True)
    rows = ["batch_size,relative_time_s,power_total_W"]
    for size in spec.batch_sizes:
        rows += [f"{size},{k / 10},{float(POWER.eval(size))}" for k in range(101)]
    (folder / "trace.csv").write_text("\n".join(rows) + "\n")
    parameters = plain_model(MIXTURE)
    per_batch = {str(size): parameters for size in spec.batch_sizes}
    write_json(folder / "itl_fit.json", {"schema": "itl", "per_batch": per_batch})
    curves = {"power": POWER, "latency": ITL, "throughput": THROUGHPUT}
    fits = {name: plain_model(curve) for name, curve in curves.items()}
    write_json(folder / "logistic_fit.json", {"schema": "logistic_v1"} | fits)
    fields = {"precision": "bfloat16", "expert_parallel": 1}
    fields |= {
        key: v for key, v in spec.model_dump(mode="json").items() if v is not None
    }
    write_json(folder / "_manifest.json", {"schema_version": 3, "spec": fields})
    return folder
