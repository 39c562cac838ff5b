"""`ensure`: what makes an artifact anew, killed writers, several callers at once."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
from benchmark_builders import (
    leaderboard_data,
    tiny_spec,
    write_json,
    write_results,
)

from diploee.benchmark import (
    InferenceData,
    InferenceDataParams,
    LeaderboardSource,
    LogisticModelStore,
    ResultsSource,
    TrainingTrace,
    TrainingTraceParams,
    inference_data,
    logistic_store,
    training_trace,
)
from diploee.benchmark.cache import MANIFEST, Artifact, Stamp, find_artifact, load_artifact
from diploee.benchmark.cache_writing import STALE_AFTER_S, save_artifact
from diploee.errors import InputError, OutputError

SPEC = tiny_spec(batch_sizes=(8, 64))
SHORT = TrainingTraceParams(duration_s=60.0)


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


def test_artifacts_lie_under_the_hash_of_their_spec(data_dir, results):
    InferenceData.ensure(data_dir, [SPEC], results)
    LogisticModelStore.ensure(data_dir, [SPEC], results)
    folder = data_dir / SPEC.cache_hash()
    found = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    assert found == [
        "inference_data/_manifest.json",
        "inference_data/itl_fit.json",
        "inference_data/trace.csv",
        "logistic_models/_manifest.json",
        "logistic_models/logistic_fit.json",
    ]


def test_changed_parameters_compile_anew(data_dir, results):
    fine = InferenceData.ensure(data_dir, [SPEC], results)
    coarse_params = InferenceDataParams(dt_s=0.5)
    coarse = InferenceData.ensure(data_dir, [SPEC], results, coarse_params)
    assert results.reads == 2
    assert fine["Tiny"].power_w[8].size == 5 * coarse["Tiny"].power_w[8].size
    assert same(coarse, InferenceData.load(data_dir, [SPEC], coarse_params))
    with pytest.raises(InputError, match=r"made with dt_s = 0.5, wanted is 0.1; generate it"):
        InferenceData.load(data_dir, [SPEC])


def test_changed_source_data_compile_anew(tmp_path, data_dir):
    path = write_json(tmp_path / "x.json", leaderboard_data())
    source = Counting(LeaderboardSource(path))
    first = LogisticModelStore.ensure(data_dir, [tiny_spec()], source)
    data = leaderboard_data()
    for configuration in data["configurations"]:
        configuration["avg_power_watts"] += 100
    write_json(path, data)
    second = LogisticModelStore.ensure(data_dir, [tiny_spec()], source)
    assert source.reads == 2
    assert second["Tiny"].power.base == pytest.approx(first["Tiny"].power.base + 100, rel=1e-3)
    LogisticModelStore.ensure(data_dir, [tiny_spec()], source)
    assert source.reads == 2
    assert LogisticModelStore.ensure(data_dir, [tiny_spec()])["Tiny"] == second["Tiny"]


@pytest.mark.parametrize(
    "changes", [{"model_label": "Other"}, {"itl_deadline_s": 0.03}, {"feasible_batch_sizes": (8,)}]
)
def test_label_deadline_and_feasible_sizes_compile_nothing_anew(data_dir, results, changes):
    InferenceData.ensure(data_dir, [SPEC], results)
    other = tiny_spec(**{"batch_sizes": (8, 64)} | changes)
    found = InferenceData.ensure(data_dir, [other], results)[other.model_label]
    assert results.reads == 1
    assert found.spec == other


def test_only_the_spec_that_changed_is_compiled(data_dir, results):
    InferenceData.ensure(data_dir, [SPEC], results)
    small = tiny_spec(model_label="Small", batch_sizes=(8,))
    both = InferenceData.ensure(data_dir, [SPEC, small], results)
    assert results.reads == 2
    assert list(both.models) == ["Tiny", "Small"]


@pytest.mark.parametrize("module", [inference_data, logistic_store])
def test_older_schema_version_compiles_anew(data_dir, results, monkeypatch, module):
    kind = InferenceData if module is inference_data else LogisticModelStore
    kind.ensure(data_dir, [SPEC], results)
    monkeypatch.setattr(module, "SCHEMA_VERSION", 2)
    with pytest.raises(InputError, match="has schema version 1, older than 2"):
        kind.load(data_dir, [SPEC])
    kind.ensure(data_dir, [SPEC], results)
    kind.ensure(data_dir, [SPEC], results)
    assert results.reads == 2


def test_newer_schema_version_is_refused_and_kept(data_dir, results, monkeypatch):
    monkeypatch.setattr(inference_data, "SCHEMA_VERSION", 7)
    InferenceData.ensure(data_dir, [SPEC], results)
    monkeypatch.undo()
    manifest = data_dir / SPEC.cache_hash() / "inference_data" / MANIFEST
    before = manifest.read_bytes()
    text = r"schema version 7, this version of diploee reads up to 1; update diploee or use another"
    with pytest.raises(InputError, match=text) as error:
        InferenceData.ensure(data_dir, [SPEC], results)
    assert "\n" not in str(error.value)
    with pytest.raises(InputError, match=text):
        InferenceData.load(data_dir, [SPEC])
    with pytest.raises(InputError, match=text):
        InferenceData.generate([SPEC], results).save(data_dir)
    assert manifest.read_bytes() == before


def test_without_a_source_an_empty_cache_says_what_to_do(data_dir):
    with pytest.raises(InputError, match="the cached logistic_models is not there; generate it"):
        LogisticModelStore.ensure(data_dir, [SPEC])
    with pytest.raises(InputError, match="no model spec given"):
        LogisticModelStore.ensure(data_dir, [])
    with pytest.raises(InputError, match="two specs have the label 'Tiny'"):
        InferenceData.load(data_dir, [SPEC, tiny_spec()])


@pytest.mark.parametrize(
    ("file", "content", "text"),
    [
        ("trace.csv", None, r"is damaged \(trace.csv: No such file"),
        ("trace.csv", b"batch_size,relative_time_s,power_total_W\n", "trace.csv was changed"),
        ("itl_fit.json", b"{}", "itl_fit.json was changed"),
        (MANIFEST, None, "was never finished"),
        (MANIFEST, b"{", "is not valid JSON"),
        (MANIFEST, b"[]", "is not that of a inference_data"),
        (MANIFEST, b'{"kind": "inference_data", "schema_version": 1}', "made with"),
    ],
)
def test_damaged_artifact_is_compiled_anew(data_dir, results, file, content, text):
    whole = InferenceData.ensure(data_dir, [SPEC], results)
    path = data_dir / SPEC.cache_hash() / "inference_data" / file
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    with pytest.raises(InputError, match=text):
        InferenceData.load(data_dir, [SPEC])
    assert same(whole, InferenceData.ensure(data_dir, [SPEC], results))
    assert results.reads == 2
    assert same(whole, InferenceData.load(data_dir, [SPEC]))


def test_training_trace_of_other_parameters_is_another(data_dir):
    first = TrainingTrace.ensure(data_dir, SHORT)
    other = SHORT.model_copy(update={"seed": 3})
    second = TrainingTrace.ensure(data_dir, other)
    assert not np.array_equal(first.power_w, second.power_w)
    np.testing.assert_array_equal(TrainingTrace.load(data_dir, SHORT).power_w, first.power_w)
    np.testing.assert_array_equal(TrainingTrace.load(data_dir, other).power_w, second.power_w)


def test_training_trace_is_generated_once_and_anew_for_an_older_schema(data_dir, monkeypatch):
    calls = []
    synthesise = training_trace.training_power_w
    monkeypatch.setattr(
        training_trace, "training_power_w", lambda p: calls.append(p) or synthesise(p)
    )
    first = TrainingTrace.ensure(data_dir, SHORT)
    np.testing.assert_array_equal(TrainingTrace.ensure(data_dir, SHORT).power_w, first.power_w)
    assert len(calls) == 1
    monkeypatch.setattr(training_trace, "SCHEMA_VERSION", 2)
    TrainingTrace.ensure(data_dir, SHORT)
    assert len(calls) == 2
    monkeypatch.setattr(training_trace, "SCHEMA_VERSION", 1)
    with pytest.raises(InputError, match="schema version 2"):
        TrainingTrace.ensure(data_dir, SHORT)


def test_place_that_is_no_folder_is_one_clear_line(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(OutputError, match="can't be written") as error:
        TrainingTrace.ensure(tmp_path / "file", SHORT)
    assert "\n" not in str(error.value)


def test_failing_write_leaves_nothing_behind(data_dir, monkeypatch):
    TrainingTrace.ensure(data_dir, SHORT)

    def fail(self, *args, **options):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", fail)
        with pytest.raises(OutputError, match="the disk is full"):
            TrainingTrace.generate(SHORT.model_copy(update={"seed": 9})).save(data_dir)
    assert not list(data_dir.rglob(".*"))
    assert len(list(data_dir.rglob(MANIFEST))) == 1


# --- killed writers

WRITER = """
    import sys, time
    from pathlib import Path
    from diploee.benchmark import TrainingTrace, TrainingTraceParams

    def stop(where):
        print(where, flush=True)
        time.sleep(600)

    stage = sys.argv[2]
    write_bytes, rename = Path.write_bytes, Path.rename
    def half(self, content):
        write_bytes(self, content[: len(content) // 2])
        stop("half a file")
    def before_rename(self, target):
        stop("before the rename")
    def after_set_aside(self, target):
        rename(self, target)
        stop("old one set aside")
    def no_manifest(self, *args, **options):
        stop("before the manifest")
    if stage == "half": Path.write_bytes = half
    if stage == "manifest": Path.write_text = no_manifest
    if stage == "rename": Path.rename = before_rename
    if stage == "aside": Path.rename = after_set_aside
    TrainingTrace.generate(TrainingTraceParams(duration_s=60.0)).save(sys.argv[1])
"""


def start(script, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("stage", ["half", "manifest", "rename", "aside"])
def test_killed_writer_is_never_taken_for_finished(data_dir, stage):
    place = data_dir / SHORT.cache_hash() / "training_trace"
    stamp = Stamp("training_trace", 1, SHORT.model_dump(mode="json"))
    if stage == "aside":  # it is killed while it replaces an artifact of an older schema
        save_artifact(place, Stamp("training_trace", 0, stamp.parameters), {"x": b"old"})
    writer = start(WRITER, data_dir, stage)
    assert writer.stdout.readline()
    writer.kill()
    writer.communicate()
    left = [path for path in place.parent.iterdir() if path.name.startswith(".")]
    assert left
    assert isinstance(find_artifact(place, stamp), str)
    with pytest.raises(InputError, match="is not there"):
        TrainingTrace.load(data_dir, SHORT)

    expected = TrainingTrace.generate(SHORT).power_w
    np.testing.assert_array_equal(TrainingTrace.ensure(data_dir, SHORT).power_w, expected)
    np.testing.assert_array_equal(TrainingTrace.load(data_dir, SHORT).power_w, expected)

    # What it left is removed by a later writer, once it is old enough to be nobody's.
    long_ago = time.time() - STALE_AFTER_S - 60
    for path in left:
        os.utime(path, (long_ago, long_ago))
    save_artifact(place, stamp, {"training_trace.csv": b""})
    assert [path.name for path in place.parent.iterdir()] == ["training_trace"]


def test_writer_killed_in_the_middle_of_replacing_keeps_the_old_one_readable(data_dir):
    place = data_dir / SHORT.cache_hash() / "training_trace"
    old = Stamp("training_trace", 0, SHORT.model_dump(mode="json"))
    save_artifact(place, old, {"x": b"old"})
    for stage in ("half", "manifest"):
        writer = start(WRITER, data_dir, stage)
        assert writer.stdout.readline()
        writer.kill()
        writer.communicate()
        assert load_artifact(place, old).files == {"x": b"old"}


# --- several callers at once

CALLER = """
    import hashlib, sys, time
    from pathlib import Path
    from diploee.benchmark import InferenceData, InferenceModelSpec, ResultsSource
    import diploee.benchmark.inference_data as module

    data_dir, raw, name, spec = sys.argv[1:5]
    compile_ = module._compile
    def slow(*arguments):
        made = compile_(*arguments)
        Path(data_dir, f"compiled-{name}").touch()
        while not Path(data_dir, "go").exists():
            time.sleep(0.001)
        return made
    module._compile = slow
    spec = InferenceModelSpec.model_validate_json(spec)
    data = InferenceData.ensure(Path(data_dir), [spec], ResultsSource(raw))
    again = InferenceData.load(Path(data_dir), [spec])
    for found in (data, again):
        digest = hashlib.sha256()
        for size, power_w in found["Tiny"].power_w.items():
            digest.update(power_w.tobytes() + repr(found["Tiny"].itl[size]).encode())
        print(digest.hexdigest(), flush=True)
"""


def test_two_processes_that_compile_the_same_at_once_agree(tmp_path, data_dir):
    raw = write_results(tmp_path / "raw", sizes=(8, 64))
    data_dir.mkdir(parents=True)
    callers = [start(CALLER, data_dir, raw, name, SPEC.model_dump_json()) for name in "ab"]
    deadline = time.monotonic() + 60
    while not all((data_dir / f"compiled-{name}").exists() for name in "ab"):
        assert time.monotonic() < deadline
        assert all(caller.poll() is None for caller in callers)
        time.sleep(0.01)
    (data_dir / "go").touch()  # both have compiled and now save at once
    printed = [caller.communicate(timeout=60)[0].split() for caller in callers]
    assert [caller.returncode for caller in callers] == [0, 0]
    assert len({digest for lines in printed for digest in lines}) == 1
    assert len(printed[0]) == 2
    folder = data_dir / SPEC.cache_hash()
    assert [path.name for path in folder.iterdir()] == ["inference_data"]
    expected = hashlib.sha256()
    found = InferenceData.generate([SPEC], ResultsSource(raw))["Tiny"]
    for size, power_w in found.power_w.items():
        expected.update(power_w.tobytes() + repr(found.itl[size]).encode())
    assert printed[0][0] == expected.hexdigest()


REPLACER = """
    import sys
    from pathlib import Path
    from diploee.benchmark.cache import Stamp
    from diploee.benchmark.cache_writing import save_artifact

    place, name, n = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    for turn in range(n):
        letter = name if turn % 2 else name.upper()
        files = {part: letter.encode() * 50_000 for part in ("x", "y", "z")}
        save_artifact(place, Stamp("test", 1, {"letter": letter}), files)
    print("done")
"""


def test_reader_sees_only_whole_artifacts_while_two_processes_replace_them(tmp_path):
    place = tmp_path / "hash" / "test"
    writers = [start(REPLACER, place, name, 120) for name in "ab"]
    stamps = [Stamp("test", 1, {"letter": letter}) for letter in "aAbB"]
    seen = 0
    while any(writer.poll() is None for writer in writers):
        for stamp in stamps:
            found = find_artifact(place, stamp)
            if isinstance(found, Artifact):
                seen += 1
                letter = stamp.parameters["letter"].encode()
                assert found.files == dict.fromkeys(("x", "y", "z"), letter * 50000)
            elif place.parent.exists() and seen:
                assert "made with letter" in found, found
            time.sleep(0.001)
    assert [writer.communicate()[0].strip() for writer in writers] == ["done", "done"]
    assert [writer.returncode for writer in writers] == [0, 0]
    assert seen
    assert [path.name for path in place.parent.iterdir()] == ["test"]
