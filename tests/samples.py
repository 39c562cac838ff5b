"""Published samples by name, and made-up files of the same formats where they are not
at hand.

Tests take the fixture ``sample``, which gives both by the same names.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

from diploee.integrations.zeus import KNOWN_WORKLOADS

PUBLISHED = Path(__file__).parents[2] / "shared" / "data"
"""The samples, which are no part of the repository."""
ML_ENERGY = "ml_energy/meta-llama__Llama-3.1-70B-Instruct__lm-arena-chat.json"
AZURE = "azure_llm_2023/AzureLLMInferenceTrace_code.csv"
MOONCAKE = "mooncake/conversation_trace_head300.jsonl"
SERVEGEN = "servegen/m-large_chunk-78-trace.csv"
WATTAMETER = "wattameter"
ZEUS = "zeus"
MLPERF = "mlperf_power"


def _write(path: Path, lines: Iterable[str], end: str = "\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(line + end for line in lines).encode())


def _azure(folder: Path) -> None:
    """An hour of code completion, less at its end: long prompts and short answers."""
    rng = np.random.default_rng(2_023)
    start = datetime(2023, 11, 16, 18, 17, 3)
    times_s = np.sort(rng.triangular(0, 900, 3_500, 4_000))
    lengths = rng.lognormal((7.2, 2.8), (1.0, 0.9), (times_s.size, 2)).astype(int) + 1
    rows = (
        (
            f"{start + timedelta(seconds=float(t)):%Y-%m-%d %H:%M:%S.%f}0,{context},"
            f"{answer}"
        )
        for t, (context, answer) in zip(times_s, lengths, strict=True)
    )
    _write(folder / AZURE, ["TIMESTAMP,ContextTokens,GeneratedTokens", *rows], "\r\n")


def _mooncake(folder: Path) -> None:
    """300 requests of a conversation, their arrivals in steps of 3 s."""
    rng = np.random.default_rng(300)
    rows = (
        {
            "timestamp": int(time_ms),
            "input_length": int(rng.integers(1, 20_000)),
            "output_length": int(rng.integers(1, 900)),
            "hash_ids": list(range(int(rng.integers(1, 20)))),
        }
        for time_ms in np.sort(rng.integers(0, 35, 300)) * 3_000
    )
    _write(folder / MOONCAKE, map(json.dumps, rows))


def _servegen(folder: Path) -> None:
    """Two weeks of one client's rates, ten minutes a row."""
    rates = np.random.default_rng(78).integers(1, 4_000, 2_016) / 600
    rows = (
        f"{600 * k},{rate},0.92,Gamma,1.17,0.16"
        for k, rate in enumerate(rates.tolist())
    )
    _write(folder / SERVEGEN, rows, "\r\n")


def _wattameter(folder: Path) -> None:
    """14 s of four GPUs and two CPU packages, whose counters and powers agree."""
    rng = np.random.default_rng(14)
    start = datetime(2025, 10, 7, 9, 38, 40, 617_145)
    devices = {
        "nvml": [f"gpu-{k}[{unit}]" for unit in ("mW", "C") for k in range(4)],
        "rapl": [
            f"cpu-{k}{part}[{unit}]"
            for unit in ("uJ", "W")
            for k in (0, 1)
            for part in ("", "-core")
        ],
    }
    for kind, tags in devices.items():
        t_s = np.round(0.0065 + 0.1 * np.arange(140) + rng.uniform(0, 0.002, 140), 6)
        if kind == "nvml":
            gpu_mw = 75_000 + rng.integers(0, 500_000, (140, 4))
            values = np.hstack([gpu_mw, np.full((140, 4), 41)]).tolist()
        else:
            power_w = rng.uniform(50, 90, (140, 4)) * (1, 0.01, 1, 0.01)
            joules = np.cumsum(
                np.diff(t_s, prepend=t_s[0])[:, None] * np.roll(power_w, 1, 0), 0
            )
            counter_uj = 18_000_000_000 + np.rint(1e6 * joules).astype(int)
            values = [
                [*counted, *power]
                for counted, power in zip(
                    counter_uj.tolist(), power_w.tolist(), strict=True
                )
            ]
        head = f"# {start:%Y-%m-%d_%H:%M:%S.%f} -"
        rows = (
            (
                f"  {start + timedelta(seconds=t):%Y-%m-%d_%H:%M:%S.%f} 45560 "
                f"{' '.join(map(str, row))}"
            )
            for t, row in zip(t_s.tolist(), values, strict=True)
        )
        _write(
            folder / WATTAMETER / f"{kind}_wattameter.log",
            [
                f"{head} Power data for run 10989526",
                f"{head} Tracking started",
                f"# timestamp                  reading-time[ns] {' '.join(tags)}",
                *rows,
            ],
        )


def _zeus(folder: Path) -> None:
    """Six workloads on two GPUs; half of the default batch size needs the least energy."""  # noqa: E501
    rng = np.random.default_rng(6)
    key = "dataset,network,batch_size,optimizer"
    train = [f"{key},learning_rate,run,target_metric,target_epoch"]
    power = {
        gpu: [f"{key},power_limit,time_per_epoch,average_power"]
        for gpu in ("v100", "a40")
    }
    for spec in (s for name, s in KNOWN_WORKLOADS.items() if "synthetic" not in name):
        for share in (0.25, 0.5, 1, 2, 4):
            size = int(share * spec.default_batch_size)
            key = f"{spec.dataset},{spec.network},{size},{spec.optimizer}"
            for run in range(1, 5):
                for effort, target in (
                    (1.0, spec.target_metric),
                    (0.5, spec.target_metric / 2),
                ):
                    at_best = min(10, spec.max_epochs / 2.3)
                    epochs = (
                        at_best
                        * effort
                        * (1 + abs(np.log2(2 * share)))
                        * rng.uniform(0.9, 1.1)
                    )
                    reached = "nan" if share == 4 and run < 4 else round(epochs)
                    train.append(f"{key},0.001,{run},{target:g},{reached}")
            if share == 0.25 and spec.dataset == "squad":
                continue  # trained and never measured
            for gpu, highest_w in (("v100", 250), ("a40", 300)):
                demand_w = highest_w * (0.7 + 0.05 * np.log2(4 * share))
                for limit_w in range(100, highest_w + 1, 25):
                    drawn_w = min(limit_w, demand_w)
                    slower = 0.1 + 0.9 * np.cbrt((demand_w - 50) / (drawn_w - 50))
                    time_s = 60 / share**0.3 * slower
                    power[gpu].append(f"{key},{limit_w},{time_s},{drawn_w}")
    _write(folder / ZEUS / "summary_train.csv", train)
    for gpu, rows in power.items():
        _write(folder / ZEUS / f"summary_power_{gpu}.csv", rows)


def _mllog(key: str, time_ms: float, value: object) -> str:
    event = {"namespace": "", "time_ms": round(time_ms), "event_type": "POINT_IN_TIME"}
    return (
        f":::MLLOG {json.dumps({**event, 'key': key, 'value': value, 'metadata': ''})}"
    )


def _mlperf(folder: Path) -> None:
    """Runs on one node and on four that share two meters, on both sides of the
    supplies.

    A logger stalls once for 15 s and repeats its stamp; the supplies give out 0.935 of
    2.8 kW and 0.973 of 7.2 kW.
    """
    rng = np.random.default_rng(4)
    start_ms = 1_715_257_320_207
    for n_nodes, run in (
        (1, "result_4951-2_1"),
        (1, "result_4951-2_3"),
        (4, "result_5740-1_1"),
    ):
        system = f"{n_nodes}xSMC-H100-SXM-80GB"
        t_ms = np.round(
            start_ms + 4_000 + 2_006 * np.arange(200) + rng.uniform(-15, 15, 200)
        )
        t_ms = np.delete(t_ms, range(100, 107))
        t_ms[108] = t_ms[107]
        for meter in range((n_nodes + 1) // 2):
            busy = (t_ms > start_ms + 60_000) & (t_ms < start_ms + 360_000)
            ac_w = np.rint(np.where(busy, 7_200, 2_800) + rng.normal(0, 20, t_ms.size))
            dc_w = np.rint(np.where(busy, 0.973, 0.935) * ac_w)
            for side, power_w in (("ac", ac_w), ("dc", dc_w)):
                results = (
                    folder
                    / MLPERF
                    / f"smc-{side}-power"
                    / "results"
                    / system
                    / "llama2"
                )
                lines = [_mllog("power_measurement_start", start_ms, "null")]
                readings = zip(t_ms, power_w.astype(int).tolist(), strict=True)
                lines += [
                    _mllog("power_reading", at_ms, watts) for at_ms, watts in readings
                ]
                for node in range(meter * 2 + 1, min(meter * 2 + 2, n_nodes) + 1):
                    _write(results / "power" / run / f"node_{node}.txt", lines)
        submission = folder / MLPERF / "smc-ac-power"
        marks = (
            ("init_start", -20),
            ("init_stop", 57),
            ("run_start", 57),
            ("block_start", 57),
        )
        more = (
            ("block_stop", 200),
            ("eval_start", 200),
            ("eval_stop", 230),
            ("run_stop", 360),
        )
        _write(
            submission / "results" / system / "llama2" / f"{run}.txt",
            ["+ echo 'Beginning trial 1 of 10'"]
            + [
                f"0: {_mllog(key, start_ms + 1_000 * s, None)}"
                for key, s in (*marks, *more)
            ],
        )
        described = {
            "number_of_nodes": str(n_nodes),
            "accelerators_per_node": "8",
            "accelerator_model_name": "NVIDIA H100-SXM5-80GB",
        }
        _write(submission / "systems" / f"{system}.json", [json.dumps(described)])


WRITERS: dict[str, Callable[[Path], None]] = {
    AZURE: _azure,
    MOONCAKE: _mooncake,
    SERVEGEN: _servegen,
    WATTAMETER: _wattameter,
    ZEUS: _zeus,
    MLPERF: _mlperf,
}


def synthetic_sample(folder: Path, name: str) -> Path:
    """Write a synthetic sample and return its place."""
    WRITERS[name](folder)
    return folder / name
