"""Every source gives the same types; whatever is wrong with it is one clear line."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from benchmark_builders import (
    GPU,
    ITL,
    MIXTURE,
    MODEL,
    POWER,
    SIZES,
    TASK,
    THROUGHPUT,
    leaderboard_data,
    results_data,
    results_path,
    tiny_spec,
    write_json,
    write_results,
)
from samples import ML_ENERGY, PUBLISHED

from diploee.base.errors import InputError, LogFormatError
from diploee.integrations.openg2g import (
    InferenceData,
    InferenceModelSpec,
    LogisticModelStore,
    TrainingTrace,
)
from diploee.integrations.openg2g.sources import (
    LeaderboardSource,
    MlEnergySource,
    ResultsSource,
)
from diploee.integrations.openg2g.sources.ml_energy import spread_chunks

SAMPLE = PUBLISHED / ML_ENERGY


def one_line(call, text, kind=InputError):
    with pytest.raises(kind) as error:
        call()
    assert text in str(error.value)
    assert "\n" not in str(error.value)
    return str(error.value)


# --- ML.ENERGY leaderboard


@pytest.fixture
def leaderboard(tmp_path):
    write_json(tmp_path / "org__Tiny-8B__gpqa.json", leaderboard_data())
    return LeaderboardSource(tmp_path)


def test_leaderboard_file_gives_the_measured_values(leaderboard, tmp_path):
    runs = leaderboard.read(tiny_spec(batch_sizes=(16, 8)))
    assert [run.batch_size for run in runs.runs] == [8, 16]
    assert runs.runs[0].mean_power_w == float(POWER.eval(8))
    assert runs.runs[0].median_itl_s == pytest.approx(float(ITL.eval(8)))
    assert runs.runs[1].throughput_tps == float(THROUGHPUT.eval(16))
    single = LeaderboardSource(tmp_path / "org__Tiny-8B__gpqa.json")
    of_spec = tiny_spec(batch_sizes=(16, 8))
    assert single.read(of_spec).sha256 == runs.sha256


def test_leaderboard_has_no_traces(leaderboard):
    one_line(
        lambda: InferenceData.generate([tiny_spec()], leaderboard),
        "'Tiny': batch size 8: the source has no power in time",
    )


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"model_id": "org/Tiny-9B"}, "did you mean 'org__Tiny-8B__gpqa'?"),
        ({"gpu_model": "H10"}, "no GPU 'H10' of 'Tiny' (have: 'H100'); set gpu_model"),
        ({"gpus_per_replica": 4}, "no number of GPUs '4' of 'Tiny' (have: '2')"),
        ({"tensor_parallel": 1}, "no tensor parallelism '1'"),
        ({"batch_sizes": (8, 512)}, "no batch size '512' of 'Tiny' (have: '8', '16'"),
    ],
)
def test_what_the_leaderboard_lacks_is_named_with_what_it_has(
    leaderboard, changes, text
):
    one_line(lambda: leaderboard.read(tiny_spec(**changes)), text)


def test_a_single_leaderboard_file_of_another_model_is_refused(leaderboard):
    single = LeaderboardSource(leaderboard.path / "org__Tiny-8B__gpqa.json")
    one_line(
        lambda: single.read(tiny_spec(model_id="org/Tiny-8C")),
        "no model 'org/Tiny-8C' of 'Tiny' (have: 'org/Tiny-8B'); set model_id; did",
    )


def test_two_parallelisms_are_distinguished(tmp_path):
    data = leaderboard_data()
    other = [
        c | {"parallelization": {"tensor_parallel": 1}} for c in data["configurations"]
    ]
    data["configurations"] += other
    source = LeaderboardSource(write_json(tmp_path / "x.json", data))
    one_line(
        lambda: source.read(tiny_spec()),
        "was measured with tensor parallelism '1', '2'; set tensor_parallel",
    )
    assert len(source.read(tiny_spec(tensor_parallel=1)).runs) == len(SIZES)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ('{"model_id": "a",\n "configurations": [', ":2: not valid JSON"),
        (
            '{"model_id": "m", "task": "t", "configurations": []}',
            "has no measurements",
        ),
    ],
)
def test_damaged_leaderboard_file_is_one_clear_line(tmp_path, content, text):
    path = tmp_path / "x.json"
    path.write_text(content, encoding="utf-8")
    one_line(lambda: LeaderboardSource(path).read(tiny_spec()), text)


@pytest.mark.skipif(not SAMPLE.exists(), reason="the ML.ENERGY sample is not at hand")
def test_leaderboard_sample_is_read_and_fitted():
    spec = InferenceModelSpec(
        model_label="Llama-3.1-70B",
        model_id="meta-llama/Llama-3.1-70B-Instruct",
        gpu_model="H100",
        task="lm-arena-chat",
        gpus_per_replica=4,
        batch_sizes=(8, 16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024),
    )
    source = LeaderboardSource(SAMPLE.parent)
    fits = LogisticModelStore.generate([spec], source)["Llama-3.1-70B"]
    # What others quote of the same data: 1765, 2184 and 2548 W at 8, 128 and 1024
    # sequences.
    powers = {run.batch_size: run.mean_power_w for run in source.read(spec).runs}
    assert [round(powers[size]) for size in (8, 128, 1024)] == [1765, 2184, 2548]
    assert fits.power.span == pytest.approx(868, abs=1)
    assert fits.itl.r2 >= 0.991
    one_line(
        lambda: source.read(spec.model_copy(update={"gpu_model": "A100"})),
        "no GPU 'A100' of 'Llama",
    )


# --- results.json


def test_results_folder_gives_power_latencies_and_means(tmp_path):
    source = ResultsSource(write_results(tmp_path, sizes=(8, 16)))
    runs = source.read(tiny_spec(batch_sizes=(8, 16)))
    run = runs.runs[0]
    assert len(run.power) == 2
    assert run.steady_s[1] - run.steady_s[0] == pytest.approx(20.0)
    assert run.mean_power_w == pytest.approx(float(POWER.eval(8)))
    assert run.throughput_tps == pytest.approx(float(THROUGHPUT.eval(8)))
    assert run.itl_samples_s.size == 1_000
    assert run.median_itl_s == pytest.approx(float(MIXTURE.quantile(0.5)), rel=0.05)


def test_without_an_energy_counter_readings_and_the_whole_run_are_taken(tmp_path):
    for size in (8, 64):
        data = results_data(size)
        for key in ("energy", "duration", "energy_per_token"):
            del data[f"steady_state_{key}"]
        write_json(results_path(tmp_path, size), data)
    source, spec = ResultsSource(tmp_path), tiny_spec(batch_sizes=(8, 64))
    run = source.read(spec).runs[0]
    assert run.mean_power_w is None
    assert run.throughput_tps == pytest.approx(0.5 * float(THROUGHPUT.eval(8)))
    fits = LogisticModelStore.generate([spec], source)["Tiny"]
    # About 400 readings of 20 W noise.
    assert float(fits.power.eval(8)) == pytest.approx(float(POWER.eval(8)), abs=8)


def test_chunks_share_their_latency_among_their_tokens():
    counts = Counter()
    requests = [[0, 0, 0.4, 0, 0.1], [], [0.3, 0, 0], [0, 0]]
    spread = spread_chunks([np.array(r, dtype=float) for r in requests], counts)
    assert np.allclose(spread, [0.2, 0.2, 0.1, 0.1, 0.1, 0.1])
    assert counts == {"latencies_before_the_first_chunk": 4, "tokens_in_chunks": 5}
    assert spread_chunks([], counts).size == 0


def test_failed_requests_and_repeated_stamps_are_dropped_and_counted(tmp_path):
    data = results_data(8)
    data["results"][0] = {"success": False, "itl": [9.0]}
    readings = data["timeline"]["power"]["device_instant"]["0"]
    readings.append([readings[5][0], 1e6])
    write_json(results_path(tmp_path, 8), data)
    runs = ResultsSource(tmp_path).read(tiny_spec(batch_sizes=(8,)))
    assert runs.counts["failed_requests"] == 1
    assert runs.counts["readings_at_a_repeated_stamp"] == 1
    assert runs.runs[0].itl_samples_s.max() < 9
    assert max(r.power_w.max() for r in runs.runs[0].power) < 1e6


READINGS = "timeline.power.device_instant"


@pytest.mark.parametrize(
    ("place", "value", "text"),
    [
        (f"{READINGS}.1", None, "has 1 GPUs, expected 2 as its place says"),
        (f"{READINGS}.1.350", [1.0, -5.0], "1.350.1: must be at least 0"),
        ("timeline.steady_state_end_time", 5.0, "the steady state ends at 5 s"),
        ("results", [], "no inter-token latency above 0"),
    ],
)
def test_damaged_result_file_is_one_clear_line(tmp_path, place, value, text):
    data = results_data(8)
    *above, last = place.split(".")
    here = data
    for key in above:
        here = here[int(key) if isinstance(here, list) else key]
    if isinstance(here, list):
        here.insert(int(last), value)
    else:
        here[last] = value
        if value is None:
            del here[last]
    path = write_json(results_path(tmp_path, 8), data)
    message = one_line(
        lambda: ResultsSource(tmp_path).read(tiny_spec(batch_sizes=(8,))),
        text,
        LogFormatError,
    )
    assert message.startswith(str(path))


def test_cut_result_file_and_empty_folder_are_one_clear_line(tmp_path):
    path = write_json(results_path(tmp_path, 8), results_data(8))
    path.write_text(path.read_text()[:1000])
    spec = tiny_spec(batch_sizes=(8,))
    one_line(
        lambda: ResultsSource(tmp_path).read(spec), "not valid JSON", LogFormatError
    )
    one_line(
        lambda: ResultsSource(tmp_path / "none").read(spec), "no 'results.json' below"
    )
    one_line(
        lambda: ResultsSource(tmp_path).read(tiny_spec(gpu_model="B200")),
        "no GPU 'B200' of 'Tiny' (have: 'H100')",
    )
    stray = write_json(tmp_path / "stray" / "results.json", {})
    one_line(
        lambda: ResultsSource(stray.parent).read(spec),
        "its place must say what was measured",
    )


# --- the hub, through the package mlenergy-data (here a stand-in of its interface of 0.4)  # noqa: E501


@dataclass(frozen=True)
class FakeRun:
    max_num_seqs: int
    avg_power_watts: float
    median_itl_ms: float
    output_throughput_tokens_per_sec: float
    model_id: str = MODEL
    task: str = TASK
    gpu_model: str = GPU
    num_gpus: int = 2
    tensor_parallel: int = 2
    expert_parallel: int = 1
    weight_precision: str = "bfloat16"
    is_stable: bool = True
    _results_path: str = "somewhere"

    def read_results_json(self):
        return results_data(self.max_num_seqs)


class FakeRuns:
    loaded: tuple = ()

    @classmethod
    def from_hf(cls, repo_id, *, stable_only=True):
        cls.loaded = (repo_id, stable_only)
        return [
            FakeRun(
                n,
                float(POWER.eval(n)),
                1e3 * float(ITL.eval(n)),
                float(THROUGHPUT.eval(n)),
                is_stable=n > 8,
            )
            for n in SIZES
        ]

    @classmethod
    def from_directory(cls, root, *, stable_only=True):
        raise FileNotFoundError(f"no runs/llm.parquet\nin {root}")


@pytest.fixture
def package(monkeypatch):
    records = ModuleType("mlenergy.data.records")
    records.LLMRuns = FakeRuns
    monkeypatch.setitem(sys.modules, "mlenergy", ModuleType("mlenergy"))
    monkeypatch.setitem(sys.modules, "mlenergy.data", ModuleType("mlenergy.data"))
    monkeypatch.setitem(sys.modules, "mlenergy.data.records", records)
    return records


def test_hub_gives_summaries_and_raw_results(package):
    source = MlEnergySource()
    spec = tiny_spec(batch_sizes=(8, 16))
    runs = source.read(spec)
    assert FakeRuns.loaded == ("ml-energy/benchmark-v3", False)
    assert [run.batch_size for run in runs.runs] == [8, 16]
    assert runs.runs[0].median_itl_s == pytest.approx(float(ITL.eval(8)))
    assert len(runs.runs[0].power) == 2
    assert source.read(spec, traces=False).runs[0].power == ()
    assert source.read(spec).sha256 == runs.sha256
    assert runs.counts["unstable_runs"] == 1
    one_line(lambda: source.read(tiny_spec(precision="fp8")), "no precision 'fp8' of")
    fits = LogisticModelStore.generate([tiny_spec()], source)["Tiny"]
    assert np.allclose(fits.power.eval(SIZES), POWER.eval(SIZES), rtol=1e-4)


SNIPPETS = """
inference_data = InferenceData.ensure(data_dir, models, dt_s=0.1)
training_trace = TrainingTrace.ensure(Path("data/training_trace.csv"))
logistic_models = LogisticModelStore.ensure(data_dir, models)
"""
"""As OpenG2G's description of its data has them."""


def test_the_snippets_of_openg2gs_data_pipeline_run_word_for_word(
    package, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    names = {
        "InferenceData": InferenceData,
        "TrainingTrace": TrainingTrace,
        "Path": Path,
        "LogisticModelStore": LogisticModelStore,
        "data_dir": Path("data/specs"),
        "models": (
            tiny_spec(batch_sizes=(8, 64), precision="bfloat16", expert_parallel=1),
        ),
    }
    exec(SNIPPETS, names)  # their text is what is held
    first = {
        name: names[name]
        for name in ("inference_data", "training_trace", "logistic_models")
    }
    assert FakeRuns.loaded == ("ml-energy/benchmark-v3", False)
    assert first["inference_data"]["Tiny"].dt_s == 0.1
    assert Path("data/training_trace.csv").read_text().startswith("t_s,power_W\n")
    # The second time all lies on the disk
    monkeypatch.setattr(FakeRuns, "from_hf", None)
    exec(SNIPPETS, names)
    assert names["logistic_models"]["Tiny"] == first["logistic_models"]["Tiny"]
    power_w = first["training_trace"].power_w
    np.testing.assert_allclose(names["training_trace"].power_w, power_w, atol=1e-6)
    for size, power_w in first["inference_data"]["Tiny"].power_w.items():
        np.testing.assert_array_equal(
            names["inference_data"]["Tiny"].power_w[size], power_w
        )


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlenergy.data.records", None)
    one_line(
        lambda: MlEnergySource().read(tiny_spec()), "pip install 'diploee[mlenergy]'"
    )


def test_refused_access_and_missing_copy_are_one_line(package, monkeypatch):
    def refuse(cls, *args, **options):
        raise RuntimeError(
            "Failed to download dataset.\n1. Visit ...\n2. Set HF_TOKEN ..."
        )

    monkeypatch.setattr(FakeRuns, "from_hf", classmethod(refuse))
    message = one_line(
        lambda: MlEnergySource().read(tiny_spec()), "Failed to download dataset. 1."
    )
    site = "https://huggingface.co/datasets/ml-energy/bench"
    assert f"gated: request access on {site}" in message
    assert "set HF_TOKEN to it" in message
    one_line(
        lambda: MlEnergySource("/no/copy").read(tiny_spec()),
        "no runs/llm.parquet in /no",
    )


def test_a_compiled_copy_is_read_through_the_real_package(tmp_path):
    pytest.importorskip(
        "mlenergy.data.records", reason="the extra mlenergy-data is not installed"
    )
    import pandas as pd
    from mlenergy.data.records import LLMRun

    rows = []
    for size in SIZES:
        values = dict.fromkeys(
            (name for name in LLMRun.__dataclass_fields__ if not name.startswith("_")),
            1,
        )
        path = f"raw/{size}.json"
        write_json(tmp_path / path, results_data(size))
        rows.append(
            values
            | {
                "model_id": MODEL,
                "task": TASK,
                "gpu_model": GPU,
                "num_gpus": 2,
                "tensor_parallel": 2,
                "max_num_seqs": size,
                "avg_power_watts": float(POWER.eval(size)),
                "median_itl_ms": 1e3 * float(ITL.eval(size)),
                "output_throughput_tokens_per_sec": float(THROUGHPUT.eval(size)),
                "is_stable": True,
                "results_path": path,
                "prometheus_path": path,
            }
        )
    (tmp_path / "runs").mkdir()
    pd.DataFrame(rows).to_parquet(tmp_path / "runs" / "llm.parquet")
    source = MlEnergySource(tmp_path)
    data = InferenceData.generate([tiny_spec()], source)["Tiny"]
    assert sorted(data.power_w) == list(SIZES)
    assert json.loads(json.dumps(dict(data.details)))["runs"] == {
        str(n): 1 for n in SIZES
    }
    fits = LogisticModelStore.generate([tiny_spec()], source)["Tiny"]
    assert np.allclose(fits.itl.eval(SIZES), ITL.eval(SIZES), rtol=1e-4)
