"""`ensure`: what makes an artifact anew, and several callers at once."""

from __future__ import annotations

import hashlib
import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from benchmark_builders import leaderboard_data, tiny_spec, write_json, write_results
from command_line import wait_until
from killing import answer

from diploee.base.errors import InputError
from diploee.integrations.openg2g import (
    InferenceData,
    InferenceDataParams,
    InferenceModelSpec,
    ITLMixtureModel,
    LogisticModelStore,
    compiled,
)
from diploee.integrations.openg2g.compiled import MANIFEST
from diploee.integrations.openg2g.sources import LeaderboardSource, ResultsSource

SPEC = tiny_spec(batch_sizes=(8, 64))


def place_of(kind):
    """Return the folder of an artifact of `SPEC` within a cache."""
    return Path(SPEC.cache_hash()) / kind.kind


class Counting:
    """A source that counts how often its data were read."""

    def __init__(self, source):
        self.source, self.reads = source, 0

    def read(self, spec, *, traces=True):
        self.reads += 1
        return self.source.read(spec, traces=traces)

    def sha256(self, spec):
        return self.source.sha256(spec)


@pytest.fixture
def results(tmp_path):
    return Counting(ResultsSource(write_results(tmp_path / "raw", sizes=(8, 64))))


@pytest.fixture
def data_dir(tmp_path):
    return tmp_path / "data" / "specs"


def same(first, second):
    assert first.models.keys() == second.models.keys()
    for label, model in first.models.items():
        other = second.models[label]
        assert model.itl == other.itl
        assert model.power_w.keys() == other.power_w.keys()
        for size, power_w in model.power_w.items():
            np.testing.assert_array_equal(power_w, other.power_w[size])
        assert json.loads(json.dumps(dict(model.details))) == dict(other.details)
    return True


@pytest.fixture(scope="module")
def fit_once():
    """Fit the same samples once for all tests, which look at when they are fitted."""
    fit, found = ITLMixtureModel.fit, {}

    def fit_first(samples, **options):
        key = (samples.tobytes(), *options.items())
        if key not in found:
            found[key] = fit(samples, **options)
        return found[key]

    return staticmethod(fit_first)


@pytest.fixture(autouse=True)
def quick(monkeypatch, fit_once):
    """Leave out fits done before."""
    monkeypatch.setattr(ITLMixtureModel, "fit", fit_once)


# --- what makes it anew


def test_second_call_reads_what_the_first_one_compiled(data_dir, results):
    first = InferenceData.ensure(data_dir, [SPEC], results)
    second = InferenceData.ensure(data_dir, [SPEC], results)
    assert results.reads == 1
    assert same(first, second)
    assert same(first, InferenceData.load(data_dir, [SPEC]))
    assert same(first, InferenceData.ensure(data_dir, [SPEC]))
    fits = LogisticModelStore.ensure(data_dir, [SPEC], results)
    again = LogisticModelStore.ensure(data_dir, [SPEC], results)
    assert results.reads == 2
    assert fits["Tiny"] == again["Tiny"]
    assert fits["Tiny"] == LogisticModelStore.load(data_dir, [SPEC])["Tiny"]


def test_artifacts_lie_in_the_folder_that_the_cache_hash_of_their_spec_names(
    data_dir, results
):
    InferenceData.ensure(data_dir, [SPEC], results)
    LogisticModelStore.ensure(data_dir, [SPEC], results)
    data, fits = (
        f"{SPEC.cache_hash()}/{kind}" for kind in ("inference_data", "logistic_models")
    )
    found = {
        str(path.relative_to(data_dir))
        for path in data_dir.rglob("*")
        if path.is_file()
    }
    assert found == {
        f"{data}/_manifest.json",
        f"{data}/itl_fit.json",
        f"{data}/trace.csv",
        f"{fits}/_manifest.json",
        f"{fits}/logistic_fit.json",
    }


def test_changed_parameters_compile_anew(data_dir, results):
    fine = InferenceData.ensure(data_dir, [SPEC], results)
    coarse_params = InferenceDataParams(dt_s=0.5)
    coarse = InferenceData.ensure(data_dir, [SPEC], results, dt_s=0.5)
    assert results.reads == 2
    assert fine["Tiny"].power_w[8].size == 5 * coarse["Tiny"].power_w[8].size
    assert same(coarse, InferenceData.load(data_dir, [SPEC], coarse_params))
    assert same(fine, InferenceData.load(data_dir, [SPEC]))
    with pytest.raises(
        InputError, match=r"cached inference_data is not there for these"
    ):
        InferenceData.load(data_dir, [SPEC], InferenceDataParams(dt_s=0.2))


def test_folder_of_a_spec_without_batch_sizes_is_that_of_the_sizes_found(
    data_dir, results
):
    all_sizes = InferenceModelSpec(**SPEC.model_dump(exclude={"batch_sizes"}))
    found = InferenceData.ensure(data_dir, [all_sizes], results)["Tiny"].spec
    assert found.batch_sizes == (8, 64)
    assert [path.name for path in data_dir.iterdir()] == [found.cache_hash()]


def test_generate_takes_parameters_by_name_and_no_source_as_openg2g_does(
    results, monkeypatch
):
    monkeypatch.setattr(compiled, "MlEnergySource", lambda: results)
    coarse = InferenceData.generate([SPEC], dt_s=0.5)
    assert same(
        coarse, InferenceData.generate([SPEC], results, InferenceDataParams(dt_s=0.5))
    )
    assert coarse["Tiny"].dt_s == 0.5


def test_changed_source_data_compile_anew(tmp_path, data_dir):
    path, data = tmp_path / "x.json", leaderboard_data()
    source = Counting(LeaderboardSource(write_json(path, data)))
    first = LogisticModelStore.ensure(data_dir, [SPEC], source)
    for configuration in data["configurations"]:
        configuration["avg_power_watts"] += 100
    write_json(path, data)
    second = LogisticModelStore.ensure(data_dir, [SPEC], source)
    assert source.reads == 2
    power = second["Tiny"].power
    assert power.eval(8) == pytest.approx(first["Tiny"].power.eval(8) + 100)
    assert LogisticModelStore.ensure(data_dir, [SPEC], source)["Tiny"] == second["Tiny"]
    assert LogisticModelStore.ensure(data_dir, [SPEC])["Tiny"] == second["Tiny"]
    assert source.reads == 2


@pytest.mark.parametrize(
    "changes",
    [
        {"model_label": "Other"},
        {"itl_deadline_s": 0.03},
        {"feasible_batch_sizes": (8,)},
    ],
)
def test_label_deadline_and_feasible_sizes_compile_nothing_anew(
    data_dir, results, changes
):
    InferenceData.ensure(data_dir, [SPEC], results)
    other = tiny_spec(**{"batch_sizes": (8, 64)} | changes)
    found = InferenceData.ensure(data_dir, [other], results)[other.model_label]
    assert results.reads == 1
    assert found.spec == other
    small = tiny_spec(model_label="Small", batch_sizes=(8,))  # alone is compiled
    assert (
        list(InferenceData.ensure(data_dir, [other, small], results).models)[1]
        == "Small"
    )
    assert results.reads == 2


@pytest.mark.parametrize("kind", [InferenceData, LogisticModelStore])
def test_other_schema_version_compiles_anew_and_keeps_the_old_one(
    data_dir, results, monkeypatch, kind
):
    kind.ensure(data_dir, [SPEC], results)
    with monkeypatch.context() as patch:
        patch.setattr(kind, "schema_version", 2)
        with pytest.raises(InputError, match="is not there"):
            kind.load(data_dir, [SPEC])
        kind.ensure(data_dir, [SPEC], results)
        kind.ensure(data_dir, [SPEC], results)
    assert results.reads == 2
    kind.ensure(data_dir, [SPEC], results)
    assert results.reads == 2


def test_without_a_source_an_empty_cache_says_what_to_do(data_dir):
    with pytest.raises(
        InputError, match="the cached logistic_models is not there for these"
    ):
        LogisticModelStore.load(data_dir, [SPEC])
    with pytest.raises(
        InputError, match="LogisticModelStore has no parameters, found 'dt_s'"
    ):
        LogisticModelStore.ensure(data_dir, [SPEC], dt_s=0.5)
    with pytest.raises(InputError, match="no model spec given"):
        LogisticModelStore.ensure(data_dir, [])
    with pytest.raises(InputError, match="two specs have the label 'Tiny'"):
        InferenceData.load(data_dir, [SPEC, tiny_spec()])


@pytest.mark.parametrize(
    ("kind", "name", "content", "text"),
    [
        *(
            (InferenceData, name, content, text)
            for name, content, text in (
                ("trace.csv", None, "trace.csv: can't be read"),
                (
                    "trace.csv",
                    b"batch_size,relative_time_s,power_total_W\n",
                    "nothing of batch",
                ),
                ("trace.csv", b"a,b\n1,2\n", "column 'batch_size' is missing"),
                ("itl_fit.json", b"{}", "per_batch: this key is missing"),
                ("itl_fit.json", b'{"per_batch": 5}', "must be a group of keys"),
                (MANIFEST, None, "_manifest.json: no such file"),
                (MANIFEST, b"{", "not valid JSON"),
            )
        ),
        (LogisticModelStore, "logistic_fit.json", b"{}", "no fit of"),
        (LogisticModelStore, "logistic_fit.json", b"\xff\xfe", "not valid JSON"),
    ],
)
def test_damaged_artifact_is_compiled_anew(
    data_dir, results, kind, name, content, text
):
    kind.ensure(data_dir, [SPEC], results)
    path = data_dir / place_of(kind) / name
    before = path.read_bytes()
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=rf"is damaged \(.*{text}.*generate it from"):
        kind.load(data_dir, [SPEC])
    kind.ensure(data_dir, [SPEC], results)
    assert results.reads == 2
    assert path.read_bytes() == before


# --- several callers at once


def in_child(threads, action, *arguments):
    """Start something in a forked child; return what gives its answer."""
    return threads.submit(answer, lambda: action(*arguments))


def digest(model):
    found = hashlib.sha256()
    for size, power_w in model.power_w.items():
        found.update(power_w.tobytes() + repr(model.itl[size]).encode())
    return found.hexdigest()


def test_two_processes_that_compile_the_same_at_once_agree(tmp_path, data_dir):
    source = ResultsSource(write_results(tmp_path / "raw", sizes=(8, 64)))
    data_dir.mkdir(parents=True)
    marks = [data_dir / f"compiled-{name}" for name in "ab"]

    def compile_at_once(mark):
        save = InferenceData.save

        def late(*arguments):  # both have compiled and now save at once
            mark.touch()
            wait_until(lambda: all(other.exists() for other in marks))
            save(*arguments)

        InferenceData.save = late
        data = InferenceData.ensure(data_dir, [SPEC], source)
        again = InferenceData.load(data_dir, [SPEC])
        return [digest(found["Tiny"]) for found in (data, again)]

    with ThreadPoolExecutor(2) as threads:
        callers = [in_child(threads, compile_at_once, mark) for mark in marks]
        digests = [caller.result() for caller in callers]
    expected = digest(InferenceData.generate([SPEC], source)["Tiny"])
    assert digests == [[expected] * 2] * 2
    folder = (data_dir / place_of(InferenceData)).parent
    assert [path.name for path in folder.iterdir()] == ["inference_data"]


@pytest.mark.slow
def test_reader_sees_only_whole_artifacts_while_two_processes_write_and_damage_them(
    data_dir, results
):
    whole = LogisticModelStore.generate([SPEC], results)
    data_dir.mkdir(parents=True, exist_ok=True)
    marks = [data_dir / f"started-{name}" for name in "ab"]

    def write(mark):
        mark.touch()
        for _ in range(60):
            whole.save(data_dir)
            with suppress(FileNotFoundError):  # while the other one swaps the folder
                fit = data_dir / place_of(LogisticModelStore) / "logistic_fit.json"
                fit.write_bytes(b"damaged")
        return "done"

    seen = set()
    with ThreadPoolExecutor(2) as threads:
        writers = [in_child(threads, write, mark) for mark in marks]
        # A child that is forked while this one reads inherits its locks, held for good.
        wait_until(lambda: all(mark.exists() for mark in marks))
        while not all(writer.done() for writer in writers):
            try:
                assert (
                    LogisticModelStore.load(data_dir, [SPEC])["Tiny"] == whole["Tiny"]
                )
                seen.add("whole")
            except InputError as error:
                assert "is damaged" in str(error) or "is not there" in str(error)
            time.sleep(0.001)
    assert [writer.result() for writer in writers] == ["done", "done"]
    assert "whole" in seen
    whole.save(data_dir)
    assert LogisticModelStore.load(data_dir, [SPEC])["Tiny"] == whole["Tiny"]
