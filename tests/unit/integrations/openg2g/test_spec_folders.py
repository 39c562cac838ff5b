"""Folders of specs: written, read and taken over, as OpenG2G has them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from benchmark_builders import (
    ITL,
    MIXTURE,
    POWER,
    THROUGHPUT,
    leaderboard_data,
    tiny_spec,
    write_json,
    write_openg2g,
    write_results,
)

from diploee.base.errors import InputError, LogFormatError
from diploee.integrations.openg2g import (
    InferenceData,
    InferenceModelSpec,
    LogisticModelStore,
    specs_of,
)
from diploee.integrations.openg2g.sources import LeaderboardSource, ResultsSource

SPEC = tiny_spec(batch_sizes=(8, 64))


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return ResultsSource(write_results(tmp_path_factory.mktemp("raw"), sizes=(8, 64)))


def same(first, second):
    for label, model in first.models.items():
        other = second.models[label]
        assert model.itl == other.itl
        for size, power_w in model.power_w.items():
            np.testing.assert_array_equal(power_w, other.power_w[size])
        assert json.loads(json.dumps(dict(model.details))) == dict(other.details)
    return first.models.keys() == second.models.keys()


def test_what_was_compiled_is_read_from_the_folder_of_its_hash(tmp_path, results):
    made = InferenceData.generate([SPEC], results)
    assert same(made, InferenceData.ensure(tmp_path, [SPEC], results))
    fits = LogisticModelStore.ensure(tmp_path, [SPEC], results)
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*")} == {
        f"{SPEC.cache_hash()}/{name}"
        for name in (
            "_manifest.json",
            "itl_fit.json",
            "trace.csv",
            "logistic_fit.json",
        )
    }
    absent = ResultsSource("nowhere")  # it is not asked again
    assert same(made, InferenceData.ensure(tmp_path, [SPEC], absent))
    again = LogisticModelStore.ensure(tmp_path, [SPEC], absent)
    assert again["Tiny"] == fits["Tiny"]
    other = tiny_spec(batch_sizes=(8, 64), model_label="Other", itl_deadline_s=0.03)
    found = InferenceData.ensure(tmp_path, [other], absent)["Other"]
    assert found.spec == other
    coarse = InferenceData.load(tmp_path, [SPEC], dt_s=0.5)["Tiny"]
    assert coarse.power_w[8].mean() == pytest.approx(
        made["Tiny"].power_w[8].mean(), 1e-2
    )
    (place,) = specs_of(tmp_path)
    assert same(made, InferenceData.load(place, [SPEC]))


def test_saving_again_replaces_what_was_made_of_other_data(tmp_path):
    path, data = tmp_path / "x.json", leaderboard_data()
    source = LeaderboardSource(write_json(path, data))
    first = LogisticModelStore.ensure(tmp_path / "data", [SPEC], source)
    for configuration in data["configurations"]:
        configuration["avg_power_watts"] += 100
    write_json(path, data)
    kept = LogisticModelStore.ensure(tmp_path / "data", [SPEC], source)
    assert kept["Tiny"] == first["Tiny"]
    LogisticModelStore.generate([SPEC], source).save(tmp_path / "data")
    power = LogisticModelStore.load(tmp_path / "data", [SPEC])["Tiny"].power
    assert power.eval(8) == pytest.approx(first["Tiny"].power.eval(8) + 100)


def test_folder_of_a_spec_without_batch_sizes_is_that_of_the_sizes_found(
    tmp_path, results
):
    all_sizes = InferenceModelSpec(**SPEC.model_dump(exclude={"batch_sizes"}))
    found = LogisticModelStore.ensure(tmp_path, [all_sizes], results)
    spec = found.models["Tiny"].spec
    assert spec.batch_sizes == (8, 64)
    assert [path.name for path in tmp_path.iterdir()] == [spec.cache_hash()]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda at: LogisticModelStore.load(at, [SPEC]), "logistic_fit.json: can't be"),
        (lambda at: LogisticModelStore.ensure(at, []), "no model spec given"),
        (lambda at: InferenceData.load(at, [SPEC, tiny_spec()]), "two specs have the"),
        (lambda at: specs_of(at), "no finished spec folder of OpenG2G"),
    ],
)
def test_what_is_not_there_is_one_line(tmp_path, call, text):
    with pytest.raises(InputError, match=text) as error:
        call(tmp_path)
    assert "\n" not in str(error.value)


def test_a_folder_of_openg2g_is_found_by_its_hash_and_gives_its_own_fits(tmp_path):
    spec = tiny_spec(batch_sizes=(64, 8), feasible_batch_sizes=(64,), precision="fp8")
    # The digest of OpenG2G 0.2.0's own InferenceModelSpec(...).cache_hash() of the same
    # fields.
    assert spec.cache_hash() == "63538b9675a073a2"
    folder = write_openg2g(tmp_path / spec.cache_hash(), spec)
    fits = LogisticModelStore.ensure(tmp_path, [spec])["Tiny"]
    assert (fits.power, fits.itl, fits.throughput) == (POWER, ITL, THROUGHPUT)
    data = InferenceData.ensure(tmp_path, [spec])["Tiny"]
    assert data.details["source"] == "OpenG2G spec 63538b9675a073a2"
    assert data.itl[8] == MIXTURE
    assert np.allclose(data.power_w[64], float(POWER.eval(64)))
    assert data.power_w[64].size == 100
    ((found, taken),) = specs_of(tmp_path).items()
    assert (found, taken.cache_hash()) == (folder, spec.cache_hash())
    (folder / "logistic_fit.json").unlink()
    assert InferenceData.load(tmp_path, [spec])["Tiny"].itl[8] == MIXTURE


@pytest.mark.parametrize(
    ("file", "old", "new", "text"),
    [
        ("trace.csv", "power_total_W", "power_W", "'power_total_W' is missing"),
        ("trace.csv", "\n64,", "\n65,", "nothing of batch size 64"),
        ("itl_fit.json", '"loc"', '"lco"', "per_batch.8.loc: this key is missing"),
        ("logistic_fit.json", '"k": 0.9', '"k": 0', "power.k: must be a"),
        ("logistic_fit.json", '"latency"', '"latancy"', "no fit of 'itl'"),
        ("logistic_fit.json", "{", "", "not valid JSON"),
        ("_manifest.json", '"H100"', "3", "spec.gpu_model: must be text"),
    ],
)
def test_a_damaged_folder_is_one_clear_line(tmp_path, file, old, new, text):
    path = write_openg2g(tmp_path / "abc") / file
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(LogFormatError) as error:
        specs_of(tmp_path)
        InferenceData.load(path.parent, [tiny_spec()])
        LogisticModelStore.load(path.parent, [tiny_spec()])
    assert text in str(error.value) and "\n" not in str(error.value)
    assert str(error.value).startswith(str(path))
