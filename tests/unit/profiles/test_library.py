"""The profile library and its tools: order, files, checks that name every problem,
trimming."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from builders import profile, tiny_library
from command_line import call
from hypothesis import given, settings
from hypothesis import strategies as st

from diploee.base.errors import ProfileError
from diploee.profiles import ProfileLibrary
from diploee.profiles.check import check_library
from diploee.profiles.derived import trim_profile
from diploee.profiles.store import add_profile, read_profile, write_profile


def test_a_library_is_in_order_and_extended_at_its_end_in_the_given_order() -> None:
    base, added = tiny_library(), [profile(name, [1.0]) for name in ("z", "a", "m")]
    assert base.ids == ("draw-1n-1", "tune-2n-1", "tune-2n-2", "tune-4n-1")
    extended = base.extended(added)
    assert extended.ids == (*base.ids, "z", "a", "m")
    assert extended[5] is extended.get("a") is added[1]
    assert extended.entries == (*base.entries, *added)
    assert extended.select("m", 1) == (6,)
    assert len(base) == 4


def test_an_ordered_library_may_be_empty_and_be_extended() -> None:
    empty = ProfileLibrary.in_order([])
    assert (len(empty), empty.ids, empty.entries) == (0, (), ())
    assert empty.extended([profile("z", [3.0]), profile("a", [1.0])]).ids == ("z", "a")


def test_a_library_to_draw_from_needs_profiles_of_different_ids() -> None:
    with pytest.raises(ProfileError, match="at least one"):
        ProfileLibrary([])
    with pytest.raises(ProfileError, match="two profiles have the id 'a'"):
        ProfileLibrary([profile("a", [1.0]), profile("b", [1.0]), profile("a", [2.0])])


@pytest.mark.parametrize(
    ("power_w", "stored"),
    [
        ([0, 7, 2_400], pa.int32()),
        ([0, 2**31 - 128], pa.int32()),  # the largest float32 below 2^31
        ([0, 2**31], pa.float32()),
        ([0, 3e38], pa.float32()),
        ([0.5, 7], pa.float32()),
        ([-0.0, 7], pa.float32()),
    ],
)
def test_whole_watts_are_stored_as_integers_where_they_fit(
    tmp_path: Path, power_w: list[float], stored: pa.DataType
) -> None:
    path = tmp_path / "a.parquet"
    write_profile(profile("a", power_w), path)
    assert pq.read_schema(path).field("power_w").type == stored
    assert read_profile(path).power_w.tobytes() == np.float32(power_w).tobytes()


@pytest.mark.slow
@settings(max_examples=40)
@given(
    power_w=st.lists(
        st.floats(-0.0, width=32, allow_infinity=False) | st.integers(0, 2**33),
        min_size=1,
    )
)
def test_every_profile_comes_back_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, power_w: list[float]
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.parquet"
    written = profile("a", power_w)
    write_profile(written, path, force=True)
    assert read_profile(path).sha256 == written.sha256


def of(name, power_w, n_nodes=2, **options):
    return profile(name, power_w, n_nodes=n_nodes, **options)


def good(name="good", n=50):
    return of(name, np.linspace(2000, 5000, n))


def rewritten(path, **columns):
    """Replace columns of a profile's file and keep its head."""
    table = pq.read_table(path)
    values = {name: table[name].to_numpy() for name in table.column_names} | columns
    changed = pa.table({name: pa.array(v) for name, v in values.items()})
    pq.write_table(changed.replace_schema_metadata(table.schema.metadata), path)


def problems(folder, **limits):
    return {
        f.path.name: f.problems
        for f in check_library(folder, **limits).files
        if f.problems
    }


# --- check ----------------------------------------------------------------------------


def test_shipped_profiles_have_no_problem():
    checked = check_library("reference")
    assert (len(checked.files), checked.n_problems) == (47, 0)
    assert len(checked.classes) == 9
    assert sum(checked.classes.values()) == 47


def test_samples_above_the_rated_power_and_a_gap_are_reported(tmp_path):
    path = add_profile(good(), tmp_path)
    power_w = np.linspace(2000, 5000, 50)
    t_ms = np.arange(50) * 1000
    t_ms[30:] += 5000
    rewritten(path, power_w=power_w, t_ms=t_ms)
    (found,) = problems(tmp_path).values()
    assert found == (
        "step after row 29 is 6000 ms, expected 1000 ms without gaps (1 such rows); "
        "resample the data",
    )
    power_w[20] = 30_000
    add_profile(of(path.stem, power_w), tmp_path, force=True)
    (found,) = problems(tmp_path).values()
    assert found[0].startswith(
        "1 values above 1.2 times the rated 3,520 W of a node, up to 1.5e+04"
    )


@pytest.mark.parametrize("node_w", [150, 8_000])
def test_a_mean_outside_idle_to_rated_is_reported(tmp_path, node_w):
    add_profile(of("odd", np.full(9, 2.0 * node_w)), tmp_path)
    (found,) = problems(tmp_path).values()
    words = f"mean of {node_w:,} W a node is outside 420 W idle to 3,520 W rated"
    assert words in found[-1]
    assert problems(tmp_path, idle_w=0.0, rated_w=1e6) == {}


def test_unreadable_changed_and_repeated_files_are_reported(tmp_path):
    add_profile(good("a"), tmp_path)
    add_profile(good("a"), tmp_path / "again")
    changed = add_profile(good("b"), tmp_path)
    rewritten(changed, power_w=np.linspace(2000, 5001, 50))
    broken = add_profile(good("c"), tmp_path)
    broken.write_bytes(broken.read_bytes()[:-9])
    gone = add_profile(good("d"), tmp_path)
    pq.write_table(pq.read_table(gone).drop_columns(["power_w"]), gone)
    words = {
        "a": "its id 'a' is that of",
        "b": "so it was changed",
        "c": "can't be read",
        "d": "column 'power_w' is missing",
    }
    found = {
        path.removesuffix(".parquet"): of for path, of in problems(tmp_path).items()
    }
    assert found.keys() == words.keys()
    assert all(words[name] in of[0] for name, of in found.items())
    assert sum(check_library(tmp_path).classes.values()) == 4


def test_command_ends_with_1_where_there_is_a_problem(tmp_path):
    add_profile(good("a"), tmp_path / "lib")
    assert call("profiles", "check", tmp_path / "lib").code == 0
    path = add_profile(of("odd", np.full(9, 300.0)), tmp_path / "lib")
    ended = call("profiles", "check", tmp_path / "lib")
    assert (ended.code, ended.err) == (1, "")
    assert f"{path}: mean of 150 W a node" in ended.out
    assert "2 files, 1 problem in 1 file\n" in ended.out
    ended = call("profiles", "check", tmp_path / "lib", "--json")
    assert ended.code == 1
    assert [file["path"] for file in json.loads(ended.out)["bad_files"]] == [str(path)]
    assert call("profiles", "check", tmp_path / "lib", "--idle-w", 100).code == 0
    wrong = call("profiles", "check", tmp_path / "lib", "--idle-w", 9000)
    assert "the rated power above the idle power" in wrong.problem


# --- trim -----------------------------------------------------------------------------


def job():
    """10 s idle, 30 s of work with a dip to idle in it, 20 s idle; one sample a second."""  # noqa: E501
    power_w = np.repeat([840.0, 5000.0, 850.0], [10, 30, 20])
    power_w[25] = 800
    return of("job", power_w)


def test_idle_ends_are_cut_and_dips_within_stay():
    trimmed = trim_profile(job(), idle_w=425.0)
    np.testing.assert_array_equal(trimmed.power_w, job().power_w[10:40])
    assert trimmed.provenance.counts["trimmed_samples"] == 30
    left_out_kwh = (job().energy_j - trimmed.energy_j) / 3.6e6
    before = f"Trimmed to 10-40 s (SHA-256 before {job().sha256[:12]})"
    assert before in trimmed.provenance.notes
    assert f"without {left_out_kwh:.4g} kWh" in trimmed.provenance.notes


@pytest.mark.parametrize(
    ("options", "first", "last"),
    [
        ({"to_s": 30.5}, 0, 31),
        ({"from_s": 5.5, "to_s": 50.0}, 5, 50),
        ({"from_s": 20.0, "idle_w": 500.0}, 20, 40),
    ],
)
def test_times_are_moved_outwards_to_whole_steps(options, first, last):
    trimmed = trim_profile(job(), **options)
    np.testing.assert_array_equal(trimmed.power_w, job().power_w[first:last])


def test_times_of_a_fine_step_lose_no_sample_to_a_rounding():
    fine = profile("fine", np.arange(1000.0), dt_ms=100)
    trimmed = trim_profile(fine, from_s=0.3, to_s=70.7)
    np.testing.assert_array_equal(
        trimmed.power_w, np.arange(3.0, 707.0, dtype=np.float32)
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"from_s": -1.0}, "from_s is -1 and to_s is 60, expected two times"),
        ({"from_s": 30.0, "to_s": 20.0}, "from_s is 30 and to_s is 20"),
        ({"to_s": 99.0}, "within its 60 s"),
        ({"to_s": float("nan")}, "to_s is nan"),
        ({"idle_w": 9000.0}, "no sample above 9000 W a node"),
    ],
)
def test_trims_that_leave_nothing_are_refused(options, words):
    with pytest.raises(ProfileError, match=words):
        trim_profile(job(), **options)


def test_phases_move_with_the_start_of_what_is_kept():
    given = {"training": [[5.0, 15.0], [20.0, 60.0]], "a": [[0, 9]]}
    origin = replace(job().provenance, phases=given)
    trimmed = trim_profile(replace(job(), provenance=origin), idle_w=425.0)
    kept = {"training": [[0.0, 5.0], [10.0, 30.0]], "a": []}
    assert trimmed.provenance.phases == kept


def test_import_leaves_the_idle_ends_out(tmp_path):
    rows = "".join(f"{t},{power_w:g}\n" for t, power_w in enumerate(job().power_w))
    (tmp_path / "job.csv").write_text(f"t_s,power_w\n{rows}", "utf-8")
    arguments = (tmp_path / "job.csv", "--workload", "job", "--nodes", 2)
    arguments += ("--out", tmp_path / "lib")
    ended = call("profiles", "import", "plain", *arguments, "--idle-w", 425)
    assert (ended.code, ended.err) == (0, "")
    assert "30 trimmed samples" in ended.out
    trimmed = read_profile(tmp_path / "lib" / "job-2n.parquet")
    np.testing.assert_array_equal(trimmed.power_w, job().power_w[10:40])
    late = call("profiles", "import", "plain", *arguments, "--from", 99)
    assert late.code == 2
    assert "--from is 99 and --to is 60, expected two times" in late.problem
