"""Plain tables of whole-job power: read exactly, or refused with the row's number."""

import hashlib

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diploee.errors import DiploeeError, LogFormatError, ProfileError
from diploee.importers.power_logs.plain import import_plain
from diploee.metrics.grid.bandwidth import profile_support
from diploee.profiles.profile import UNKNOWN_BOUNDARY
from diploee.textio import sheets


def load(path, **options):
    return import_plain(path, workload="w", profile_id="p", **{"n_nodes": 2} | options)


def csv(folder, text):
    path = folder / "job.csv"
    path.write_text(text)
    return path


def parquet(folder, **columns):
    path = folder / "job.parquet"
    pq.write_table(pa.table(columns), path)
    return path


def test_csv_is_read_with_its_step_and_hash(tmp_path):
    path = csv(tmp_path, "note,t_s,power_w\na,5.0,1000\nb,5.1,1200.5\nc,5.2,0\n\n")
    profile = load(path, licence="CC0-1.0")
    assert (profile.n_nodes, profile.dt_ms) == (2, 100)
    np.testing.assert_array_equal(profile.power_w, np.float32([1000, 1200.5, 0]))
    provenance = profile.provenance
    assert provenance.source_sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (provenance.kind, provenance.source, provenance.licence) == (
        "measured",
        "job.csv",
        "CC0-1.0",
    )
    assert provenance.sampling_interval_s == 0.1


def test_what_is_not_told_is_unknown_and_claims_no_bandwidth(tmp_path):
    """A table at 0.1 s may come from a driver that averages over 1 s: no more is claimed."""
    unknown = load(csv(tmp_path, "t_s,power_w\n0,1\n0.1,2")).provenance
    assert unknown.power_boundary == UNKNOWN_BOUNDARY
    assert (unknown.averaging_window_s, unknown.bandwidth_hz) == (None, 0.44)
    assert unknown.notes.startswith("Averaging of the readings unknown: no more is claimed")
    support = profile_support([unknown])
    assert (support.trusted_hz, support.flagged_hz, support.min_step_s) == (0.25, 0.44, 2.0)
    slow = load(csv(tmp_path, "t_s,power_w\n0,1\n60,2")).provenance
    assert (slow.averaging_window_s, slow.bandwidth_hz) == (None, 0.44 / 60)


def test_what_is_told_stands_in_the_provenance_and_gates_the_metrics(tmp_path):
    told = load(
        csv(tmp_path, "t_s,power_w\n0,1\n0.1,2"),
        averaging_window_s=0.0,
        power_boundary="node AC input",
        sampling_interval_s=0.05,
        bandwidth_hz=4.0,
    ).provenance
    assert (told.power_boundary, told.notes) == ("node AC input", "")
    assert (told.sampling_interval_s, told.bandwidth_hz) == (0.05, 4.0)
    assert profile_support([told]).trusted_hz == pytest.approx(3.2)


@pytest.mark.parametrize("header", ["t_s,power_W", "T_S,Power_W", "power_W,t_s,power_w"])
def test_case_of_a_column_does_not_matter_where_one_is_meant(tmp_path, header):
    rows = {2: "0,5\n1,7\n", 3: "9,0,5\n9,1,7\n"}[header.count(",") + 1]
    np.testing.assert_array_equal(load(csv(tmp_path, f"{header}\n{rows}")).power_w, [5, 7])


def test_two_columns_that_differ_from_the_name_in_case_are_refused(tmp_path):
    with pytest.raises(LogFormatError, match="column 'power_w' is there 2 times"):
        load(csv(tmp_path, "t_s,power_W,Power_W\n0,1,1\n1,1,1\n"))
    with pytest.raises(LogFormatError, match=":3: column 'power_W' is '-2'"):
        load(csv(tmp_path, "t_s,power_W\n0,1\n1,-2\n"))


def test_a_constant_is_added_per_node_and_named(tmp_path):
    path = csv(tmp_path, "t_s,power_w\n0,100\n1,200\n")
    profile = load(path, n_nodes=2, add_w=50.0, power_boundary="GPUs")
    np.testing.assert_array_equal(profile.power_w, [200, 300])
    words = "GPUs, plus a constant 50 W per node, which is assumed"
    assert profile.provenance.power_boundary == words
    with pytest.raises(ProfileError, match="add_w is nan, expected 0 to 1,000,000"):
        load(path, add_w=float("nan"))


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int32])
def test_parquet_gives_the_same_as_csv(tmp_path, kind):
    table = pd.DataFrame(
        {"t_s": np.arange(50, dtype=kind), "power_w": np.arange(50, dtype=kind) * 7}
    )
    table.to_csv(tmp_path / "job.csv", index=False)
    table.to_parquet(tmp_path / "job.parquet", index=False)
    from_csv, from_parquet = load(tmp_path / "job.csv"), load(tmp_path / "job.parquet")
    assert from_csv.dt_ms == 1000
    assert from_csv.sha256 == from_parquet.sha256


def test_parquet_that_unpacks_beyond_the_limit_is_refused_unread(tmp_path, monkeypatch):
    path = parquet(tmp_path, t_s=np.arange(10_000.0), power_w=np.ones(10_000))
    monkeypatch.setattr(sheets, "MAX_UNPACKED_BYTES", 1 << 17)
    with pytest.raises(LogFormatError, match=r"job\.parquet: unpacks to more than 0 MiB"):
        load(path)


def test_epoch_seconds_at_a_tenth_keep_their_step(tmp_path):
    t_s = 1.7e9 + np.arange(10_000) * 0.1
    profile = load(parquet(tmp_path, t_s=t_s, power_w=np.ones(t_s.size)))
    assert profile.dt_ms == 100


def test_averaging_window_sets_the_bandwidth(tmp_path):
    profile = load(csv(tmp_path, "t_s,power_w\n0,1\n0.1,2"), averaging_window_s=1.0)
    assert profile.provenance.bandwidth_hz == 0.44


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", r"job.csv:1: the file is empty"),
        ("t_s,power\n0,1\n1,1", r"job.csv:1: column 'power_w' is missing, .* \(found: 't_s'"),
        ("t_s,power_w,t_s\n0,1,0", r"job.csv:1: column 't_s' is there 2 times"),
        ("t_s,power_w\n", r"job.csv: 0 rows, expected two or more"),
        ("t_s,power_w\n0,1", r"job.csv: 1 rows, expected two or more"),
        ("t_s,power_w\n0,1\n1,\n2,1", r"job.csv:3: column 'power_w' is '', expected a numb"),
        ("t_s,power_w\n0,1\n1,nan\n2,nan", r"job.csv:3: column 'power_w' is 'nan' \(2 such rows\)"),
        ("t_s,power_w\n0,1\n1,x\n2,1", r"job.csv:3: column 'power_w' is 'x'"),
        ("t_s,power_w\n0,1\n1,1e39\n2,1", r"job.csv:3: column 'power_w' is '1e39'"),
        ("t_s,power_w\n0,1\n1,1\n2,-3", r"job.csv:4: column 'power_w' is '-3'"),
        ("t_s,power_w\n0,1\n1,1\n2,1\n4,1", r"job.csv:5: step is 2000 ms, expected 1000 ms"),
        ("t_s,power_w\n0,1\n1,1\n1,1", r"job.csv:4: step is 0 ms"),
        ("t_s,power_w\n0,1\n0.0333,1\n0.0666,1", r"job.csv:3: step is 33.3 ms, expected a whole"),
        ("t_s,power_w\n1,1\n0,1", r"job.csv:3: step is -1000 ms"),
        ("t_s,power_w\n0,1\n1,1,1\n2,1", r"job.csv:3: 3 fields, expected 2 as in the header"),
    ],
)  # fmt: skip
def test_bad_csv_is_refused_in_one_line_with_its_row(tmp_path, text, problem):
    with pytest.raises(LogFormatError, match=problem) as caught:
        load(csv(tmp_path, text))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        (
            {"t_s": [0.0, 1.0], "power_w": [1.0, None]},
            r": row 1: column 'power_w' is null",
        ),
        (
            {"t_s": [0.0, 1.0], "power_w": [1.0, np.nan]},
            r": row 1: column 'power_w' is nan",
        ),
        ({"t_s": [0.0, 1.0, 3.0], "power_w": [1.0] * 3}, r"job.parquet: row 2: step is 2000 ms"),
        ({"t_s": [[0.0], [1.0]], "power_w": [1.0, 1.0]}, r"'t_s' is of type list"),
        ({"t_s": [0.0, 1.0]}, r"column 'power_w' is missing"),
    ],
)
def test_bad_parquet_is_refused_with_its_row(tmp_path, columns, problem):
    with pytest.raises(LogFormatError, match=problem):
        load(parquet(tmp_path, **columns))


def test_files_that_are_not_readable_are_refused(tmp_path):
    with pytest.raises(LogFormatError, match="can't be read"):
        load(tmp_path / "none.csv")
    (tmp_path / "job.parquet").write_bytes(b"PAR1 no parquet PAR1")
    with pytest.raises(LogFormatError, match="not a readable Parquet file"):
        load(tmp_path / "job.parquet")


def test_arguments_out_of_range_are_refused(tmp_path):
    path = csv(tmp_path, "t_s,power_w\n0,1\n1,1")
    with pytest.raises(ProfileError, match="n_nodes"):
        load(path, n_nodes=0)
    with pytest.raises(ProfileError, match="averaging_window_s"):
        load(path, averaging_window_s=-1.0)
    with pytest.raises(ProfileError, match="sampling_interval_s is 0"):
        load(path, sampling_interval_s=0.0)
    with pytest.raises(ProfileError, match=r"at most 0\.5 Hz, half the rate of readings every 1 s"):
        load(path, sampling_interval_s=0.1, bandwidth_hz=5.0)


@settings(max_examples=100)
@given(
    head=st.sampled_from([b"", b"t_s,power_w\n", b"t_s,power_w\n0,1\n1,2\n"]),
    data=st.binary(max_size=60) | st.text('0123456789,.-\n"e_', max_size=60).map(str.encode),
    suffix=st.sampled_from(["csv", "parquet"]),
)
def test_no_bytes_raise_anything_but_the_packages_own_error(tmp_path, head, data, suffix):
    path = tmp_path / f"job.{suffix}"
    path.write_bytes(head + data)
    try:
        profile = load(path)
    except DiploeeError as error:
        assert "\n" not in str(error)
    else:
        assert np.isfinite(profile.energy_j)
