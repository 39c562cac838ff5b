"""WattAMeter import: every generation of the format, every trap, and energy against
theory."""

import hashlib
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import WATTAMETER

from diploee.base.errors import LogFormatError
from diploee.importers.power_logs.wattameter import import_wattameter, parse_log
from diploee.profiles.resample import round_keeping_energy

START = datetime(2025, 10, 7, 9, 38, 40, 617_145)
RANGE_UJ = 65_532_610_987
TWO_LINES = [
    "# 2025-10-07_09:38:40.617145 - Power data for run 10989526",
    "# 2025-10-07_09:38:40.617145 - Tracking started",
]
ONE_LINE = ["# 2025-10-07_09:38:40.617145 - WattAMeter run 8df135df"]
NVML_TAGS = [f"gpu-{i}[{unit}]" for unit in ("mW", "C") for i in range(2)]
RAPL_TAGS = [
    f"cpu-{i}{part}[{unit}]"
    for unit in ("uJ", "W")
    for i in (0, 1)
    for part in ("", "-core")
]


def stamp(t_s):
    return (START + timedelta(seconds=float(t_s))).strftime("%Y-%m-%d_%H:%M:%S.%f")


def header(tags):
    return "# timestamp                  reading-time[ns] " + " ".join(tags)


def row(t_s, *values):
    return f"  {stamp(t_s)} 45560 " + " ".join(map(str, values))


def nvml(t_s, gpu_mw, preamble=()):
    """Two GPUs: `gpu_mw` a number or one reading a row, the second GPU at 100 W."""
    readings = np.broadcast_to(gpu_mw, len(t_s))
    rows = [row(t, a, 100_000, 41, 42) for t, a in zip(t_s, readings, strict=True)]
    return [*preamble, header(NVML_TAGS), *rows]


def rapl(
    t_s, cpu_w=100.0, preamble=(), start_uj=5_000_000_000, flush=None, counter=None
):
    """Two packages with a counter from `start_uj`, the second at rest; cores hold
    nonsense."""
    t_s = np.asarray(t_s, dtype=float)
    if counter is None:
        counter = (start_uj + np.rint((t_s - t_s[0]) * cpu_w * 1e6)).astype(np.int64)
        counter %= RANGE_UJ
    rows = []
    for i, (t, uj) in enumerate(zip(t_s, counter, strict=True)):
        power = [cpu_w, 7e5, 0.0, 7e5]
        if i == t_s.size - 1 or (flush and (i + 1) % flush == 0):
            power = []
        rows.append(row(t, uj, int(t * 9e8), 77, int(t * 9e8), *power))
    return [*preamble, header(RAPL_TAGS), *rows]


def write(folder, name, lines):
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    return path


def load(*paths, **options):
    return import_wattameter(paths, workload="w", profile_id="p", **options)


def load_pair(folder, nvml_lines, rapl_lines, **options):
    return load(
        write(folder, "nvml_wattameter.log", nvml_lines),
        write(folder, "rapl_wattameter.log", rapl_lines),
        **options,
    )


def grid(duration_s=20.0, step_s=0.1, seed=None):
    t_s = np.arange(0, duration_s + step_s / 2, step_s)
    if seed is not None:
        t_s[1:] += np.random.default_rng(seed).uniform(0, 0.9 * step_s, t_s.size - 1)
    return np.round(t_s, 6)


T_S = grid()
GPU, CPU = nvml(T_S, 300_000), rapl(T_S, 50.0)
COUNTER = (5e9 + np.rint(T_S * 50e6)).astype(np.int64)


def changed(values, at, to):
    """Return values of which some are others."""
    values = np.array(values)
    values[at] = to
    return values


OTHER_TAGS = ["gpu-0[mJ]", "gpu-0[%gpu]", "gpu-0[TX KiB]", "gpu-0[mW]", "gpu-0[%mem]"]
LOGS = {
    "one line before the header": (
        nvml(T_S, 300_000, ONE_LINE),
        rapl(T_S, 50.0, ONE_LINE),
        {"rows_without_power": 1},
    ),
    "two lines before the header": (
        nvml(T_S, 300_000, TWO_LINES),
        rapl(T_S, 50.0, TWO_LINES),
        {"rows_without_power": 1},
    ),
    "tags of no power, and with a space": (
        [header(OTHER_TAGS), *(row(t, 9, 99, 12345, 400_000, 80) for t in T_S)],
        CPU,
        {},
    ),
    "a counter of a GPU without power": (
        [header(["gpu-0[mJ]", "gpu-0[C]", "gpu-0[W]"])]
        + [
            row(t, 10**9 + int(t * 400_000), 40, *([400.0] if t < 20 else []))
            for t in T_S
        ],
        CPU,
        {"rows_without_power": 2},
    ),
    "a package listed by two interfaces": (
        GPU,
        [header(["cpu-0-r0[uJ]", "cpu-0-r1[uJ]", "cpu-0-core[uJ]", "psys[uJ]"])]
        + [row(t, *[1 + int(t * 50e6)] * 4) for t in T_S],
        {},
    ),
    "columns in another order after a restart": (
        [*GPU[:101], *ONE_LINE, header(["gpu-1[mW]", "gpu-0[C]", "gpu-0[mW]"])]
        + [row(t, 100_000, 41, 300_000) for t in T_S[100:]],
        CPU,
        {"repeated_headers": 1},
    ),
    "a header without rows": ([header(NVML_TAGS), *GPU], CPU, {"repeated_headers": 1}),
    "failed reads of a GPU": (
        nvml(T_S, changed(np.full(T_S.size, 300_000), slice(50, 53), [0, -5, 0])),
        CPU,
        {"failed_reads": 3},
    ),
    "rows without power before each flush": (
        GPU,
        rapl(T_S, 50.0, flush=36),
        {"rows_without_power": 201 // 36 + 1},
    ),
    "a counter that wraps": (
        GPU,
        rapl(T_S, 50.0, start_uj=RANGE_UJ - 300_000_001),
        {"counter_wraps": 1},
    ),
    "failed reads of a counter": (
        GPU,
        rapl(T_S, counter=changed(COUNTER, [0, 1, 70, 71, 72, 200], 0)),
        {"failed_reads": 6, "counter_wraps": 0},
    ),
    "a counter that jumps": (
        GPU,
        rapl(T_S, counter=COUNTER + 10**9 * (np.arange(T_S.size) >= 100)),
        {"counter_intervals_bridged": 1},
    ),
    "stamps that come twice or too late": (
        nvml(np.insert(T_S, [50, 51, 120], [T_S[49], T_S[40], T_S[100]]), 300_000),
        CPU,
        {"rows_at_a_repeated_time": 3},
    ),
}


@pytest.mark.parametrize("name", LOGS)
def test_oddities_of_a_log_are_repaired_without_loss_of_energy_and_counted(
    tmp_path, name
):
    gpu, cpu, counts = LOGS[name]
    profile = load_pair(tmp_path, gpu, cpu, max_lost=0.05)
    assert (profile.n_nodes, profile.dt_ms, profile.power_w.size) == (1, 100, 200)
    np.testing.assert_allclose(profile.power_w, 450.0, rtol=1e-4)
    assert profile.provenance.counts.items() >= counts.items()


def test_codecarbon_log_is_a_whole_node_and_its_memory_is_left_out(tmp_path):
    names = "time (s)  cpu 0 (W) cpu 1 (W) gpu 0 (W) ram 0 (W)"
    rows = [
        f"  {stamp(t)[:-3]} {t:.3e} {101.5:.3e} {98.5:.3e} {4.0e2:.3e} {38.0:.3e}"
        for t in np.arange(0, 20, 0.5)
    ]
    lines = [*TWO_LINES, f"# timestamp               {names}", *rows]
    profile = load(write(tmp_path, "power_1.log", lines))
    assert profile.n_nodes == 1
    np.testing.assert_allclose(profile.power_w, 600.0, rtol=1e-6)
    assert profile.provenance.sampling_interval_s == 0.5


def test_readings_above_800_w_take_the_next_good_one(tmp_path):
    readings = np.where(T_S < 9.95, 200_000, 300_000)
    readings[[99, 100, 200]] = 900_000  # the last row has nothing after it
    profile = load_pair(tmp_path, nvml(T_S, readings), rapl(T_S, 0.001))
    assert profile.provenance.counts["readings_above_800_w"] == 3
    np.testing.assert_allclose(
        profile.power_w[[97, 98, 99, 199]], [300, 350, 400, 400], atol=0.01
    )


def test_limit_of_readings_can_be_raised_for_larger_devices(tmp_path):
    pair = (nvml(T_S, 1_000_000), rapl(T_S))
    profile = load_pair(tmp_path, *pair, max_reading_w=1_400.0)
    np.testing.assert_allclose(profile.power_w, 1_200.0, rtol=1e-5)
    with pytest.raises(LogFormatError, match="gpu-0: 0 good power readings in 201"):
        load_pair(tmp_path, *pair)


def test_cpu_power_holds_from_its_row_to_the_next(tmp_path):
    t_s = grid()
    watts = np.where(np.arange(t_s.size - 1) < 100, 50.0, 150.0)
    counter = np.concatenate(
        ([10**9], 10**9 + np.cumsum(np.rint(watts * 0.1e6)))
    ).astype(np.int64)
    profile = load_pair(tmp_path, nvml(t_s, 1), rapl(t_s, counter=counter))
    np.testing.assert_allclose(
        profile.power_w[[98, 99, 100, 101]] - 100, [50, 50, 150, 150], atol=0.01
    )


def test_two_refreshes_of_a_gpus_counter_between_two_readings_keep_their_energy(
    tmp_path,
):
    refreshes = [k - (k % 10 == 5) for k in range(T_S.size)]  # each tenth comes late
    gpu = [row(t, 10**9 + 60_000 * k) for t, k in zip(T_S, refreshes, strict=True)]
    profile = load_pair(tmp_path, [header(["gpu-0[mJ]"]), *gpu], CPU)
    assert "counter_intervals_bridged" not in profile.provenance.counts
    meter = profile.provenance.meter
    assert (meter.field, meter.kind) == ("energy", "counter")
    np.testing.assert_allclose(
        np.sort(profile.power_w - 50)[[0, 100, -1]], [0, 600, 1200], atol=1
    )
    assert profile.mean_power_w == pytest.approx(650, rel=1e-3)


# After 300 s the package at rest may have wrapped unseen too.
@pytest.mark.parametrize(("gap_s", "n_bridged"), [(5.0, 1), (70.0, 1), (300.0, 2)])
def test_counter_reset_at_a_restart_is_bridged(tmp_path, gap_s, n_bridged):
    t_s, later_s = grid(), grid() + 20 + gap_s
    gpu = nvml(t_s, 300_000) + nvml(later_s, 300_000)
    cpu = rapl(t_s, 50.0, start_uj=30_000_000_000) + rapl(later_s, 50.0, start_uj=10**9)
    with pytest.raises(
        LogFormatError, match="without a good reading of gpu-0, expected"
    ):
        load_pair(tmp_path, gpu, cpu)
    profile = load_pair(tmp_path, gpu, cpu, max_lost=1.0)
    counts = profile.provenance.counts
    assert counts["counter_wraps"] == 0
    assert counts["counter_intervals_bridged"] == n_bridged
    # Of each device
    assert (counts["repeated_headers"], counts["gaps_bridged"]) == (2, 4)
    assert f"{gap_s:g} s" in profile.provenance.notes
    np.testing.assert_allclose(profile.power_w, 450.0, rtol=1e-5)


def kept_rows(t_s):
    """Rows of a log with these stamps that its parser keeps, and its counts of the
    others."""
    text = "\n".join(nvml(t_s, 300_000)).encode()
    log = parse_log(Path("nvml.log"), text, max_lost=1.0)
    assert (np.diff(log.t_us) > 0).all()
    counts = {
        repair.cause: repair.n_rows for repair in log.account.repair_fractions(1.0, 1.0)
    }
    causes = ("rows_at_a_repeated_time", "rows_out_of_order")
    return (log.line - 2).tolist(), tuple(counts.get(cause, 0) for cause in causes)


def test_a_clock_that_stands_ahead_for_one_row_loses_that_row_alone(tmp_path):
    t_s = grid(1_000.0)
    wild_s = t_s.copy()
    wild_s[4_000] += 600
    profile = load_pair(
        tmp_path, nvml(wild_s, 300_000), rapl(wild_s, 50.0, counter=t_s * 50e6 + 1)
    )
    counts = profile.provenance.counts
    # One in each file, at that of a later row
    assert counts["rows_at_a_repeated_time"] == 2
    assert profile.power_w.size == 10_000
    np.testing.assert_allclose(profile.power_w, 450.0, rtol=1e-5)


@pytest.mark.parametrize(
    ("t_s", "kept", "counts"),
    [
        ([5, 5, 5], [0], (2, 0)),
        ([3, 2], [1], (0, 1)),
        ([10, 11, 12, 0, 1], [0, 1, 2], (0, 2)),
        ([0, 1, 2, 0, 1, 2], [0, 1, 2], (3, 0)),
    ],
)
def test_the_longest_run_of_increasing_stamps_is_kept(t_s, kept, counts):
    assert kept_rows(t_s) == (kept, counts)


@given(
    n_rows=st.integers(2, 120),
    # Where each wild row stands and where its stamp belongs, both as places between
    # good rows.
    wild=st.lists(st.tuples(st.integers(0, 120), st.integers(0, 120)), max_size=8),
)
def test_a_few_wild_rows_in_a_good_log_are_dropped_alone(n_rows, wild):
    # A stamp displaced by more rows than there are wild ones: no run through it is the
    # longest.
    far = [
        (at, to)
        for at, to in wild
        if max(at, to) <= n_rows and abs(at - to) > len(wild)
    ]
    rows = [(row, 0, float(row)) for row in range(n_rows)]
    rows += [(at, -1, to - 0.5) for at, to in far]
    rows.sort(key=lambda found: found[:2])
    kept, counts = kept_rows([t_s for *_, t_s in rows])
    assert [rows[k] for k in kept] == [found for found in rows if found[1] == 0]
    assert counts == (0, len(far))


@given(t_s=st.lists(st.integers(0, 12), min_size=1, max_size=12))
def test_no_log_loses_more_rows_than_it_must(t_s):
    kept, counts = kept_rows(t_s)
    longest = [1] * len(t_s)  # by trying all pairs
    for i in range(len(t_s)):
        longest[i] += max((longest[j] for j in range(i) if t_s[j] < t_s[i]), default=0)
    assert len(kept) == max(longest)
    assert sum(counts) == len(t_s) - len(kept)


def write_nodes(folder, n_nodes, slurm_id="7", shift_s=0.0):
    t_s = grid(seed=3)
    for i in range(n_nodes):
        tail = f"wattameter_emissions_parsed_slurmid_{slurm_id}_node_x{i}.log"
        write(folder, f"nvml_{tail}", nvml(t_s + i * shift_s, 200_000 + 1_000 * i))
        write(folder, f"rapl_{tail}", rapl(t_s + i * shift_s + 0.01, 50.0))


def test_nodes_of_a_folder_are_paired_by_host_and_summed_over_their_overlap(tmp_path):
    write_nodes(tmp_path, 3, shift_s=0.4)
    write(tmp_path, "wattameter.log", ONE_LINE)  # WattAMeter's own register of runs
    with pytest.raises(
        LogFormatError, match=r"of 20\.9 s that others cover: .* 7\.8% of the time"
    ):
        load(tmp_path, n_nodes=3)
    profile = load(tmp_path, n_nodes=3, max_lost=0.08)
    assert profile.n_nodes == 3
    np.testing.assert_allclose(profile.power_w, 200 + 201 + 202 + 3 * 150, rtol=1e-4)
    assert profile.duration_ms <= (20.1 - 0.8) * 1000


@pytest.mark.parametrize(
    ("names", "options", "problem"),
    [
        (
            ["nvml_node_a", "rapl_node_a"],
            {"n_nodes": 4},
            r"logs of 1 nodes?, expected 4",
        ),
        (["nvml_a", "rapl_a", "nvml_node_b"], {}, r"nvml_node_b.log: 0 logs of CPU"),
        (["nvml_node_a", "rapl_node_b"], {}, r"no partner"),
        (["nvml_1_w", "nvml_2_w", "rapl_1_w"], {}, r"2 logs of GPU power"),
        ([], {}, r"no '\*.log' in this folder"),
    ],
)
def test_logs_that_are_not_those_of_the_nodes_of_one_job_are_refused(
    tmp_path, names, options, problem
):
    for name in names:
        write(tmp_path, f"{name}.log", GPU if name.startswith("nvml") else CPU)
    with pytest.raises(LogFormatError, match=problem):
        load(tmp_path, **options)


def test_one_of_several_jobs_is_chosen_and_no_log_is_refused(tmp_path):
    write_nodes(tmp_path, 1, "7")
    write_nodes(tmp_path, 2, "8")
    assert load(tmp_path, slurm_id="8").n_nodes == 2
    with pytest.raises(LogFormatError, match=r"Slurm jobs '7', '8', expected one"):
        load(tmp_path, slurm_id="9")
    with pytest.raises(LogFormatError, match="no WattAMeter log given"):
        load()


def test_provenance_tells_source_hash_interval_and_bandwidth(tmp_path):
    t_s = grid()
    found = load_pair(
        tmp_path, nvml(t_s, 300_000), rapl(t_s), source="doi:1", licence="CC BY 4.0"
    ).provenance
    paths = (tmp_path / f"{kind}_wattameter.log" for kind in ("nvml", "rapl"))
    data = b"".join(path.read_bytes() for path in paths)
    assert found.source_sha256 == hashlib.sha256(data).hexdigest()
    assert (found.source, found.licence) == ("doi:1", "CC BY 4.0")
    assert found.sampling_interval_s == pytest.approx(0.1)
    assert (found.averaging_window_s, found.bandwidth_hz) == (1.0, 0.44)


ROWS = nvml(grid(1.0), 300_000)


def swap(old, new):
    """The log with a word of its fifth line changed."""
    return [*ROWS[:4], ROWS[4].replace(old, new), *ROWS[5:]]


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (TWO_LINES, r":1: a row without a header"),
        ([*TWO_LINES, header(NVML_TAGS)], r":3: a header without rows"),
        (["# time power", *ROWS[1:]], r":2: a row without a header.*'# time power'"),
        ([header(["gpu-0[C]", "psys[uJ]"]), row(0, 1, 2)], r":1: no column of GPU"),
        ([header(["gpu-0[mW]", "gpu-0[mW]"]), row(0, 1, 2)], r":1: .* is there sev"),
        ([*ROWS[:3], ROWS[3][:45], *ROWS[4:]], r":4: 4 fields, expected 6"),
        (swap("10-07", "02-30"), r":5: column 'timestamp' is '2025-02-30"),
        (swap("_", "T"), r":5: column 'timestamp' is .*, expected YYYY-mm-dd_HH"),
        (swap(" 300000", " N/A"), r":5: .*\[mW\]' is 'N/A', expected a number"),
        (swap(" 300000", " 1e999"), r":5: column .* is '1e999'"),
        (ROWS[:2], r":2: a single row"),
        (nvml(grid(1.0), 0), r":2: gpu-0: 0 good power readings in 11 rows, .*gpu-1"),
        ([*ROWS, header(["gpu-0[mW]"]), row(9, 1)], r":13: the devices change to gpu"),
    ],
)
def test_bad_log_is_refused_in_one_line_with_its_place(tmp_path, lines, problem):
    with pytest.raises(
        LogFormatError, match=r"nvml_wattameter.log" + problem
    ) as caught:
        load_pair(tmp_path, lines, rapl(grid(1.0)))
    assert str(tmp_path) in str(caught.value)


def linear_energy_j(t_s, power_w, start_s, end_s):
    """Integral of straight lines between readings, on the union of stamps and window
    ends."""
    inside = t_s[(t_s > start_s) & (t_s < end_s)]
    at = np.concatenate(([start_s], inside, [end_s]))
    return np.trapezoid(np.interp(at, t_s, power_w), at)


@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**32 - 1),
    step_ms=st.integers(1, 700),
    n_rows=st.integers(90, 300),
)
def test_energy_is_that_of_the_raw_signal_at_any_step(tmp_path, seed, step_ms, n_rows):
    rng = np.random.default_rng(seed)
    gpu_s, cpu_s = (
        np.round(rng.uniform(0, 1) + np.cumsum(rng.uniform(0.02, 0.3, n_rows)), 6)
        for _ in "ab"
    )
    gpu_mw = rng.integers(60_000, 700_000, n_rows)
    counter = 10**9 + np.cumsum(rng.integers(200_000, 3_000_000, n_rows))
    profile = load_pair(
        tmp_path,
        nvml(gpu_s, gpu_mw),
        rapl(cpu_s, counter=counter),
        step_ms=step_ms,
        max_lost=0.5,
    )
    start_s = max(gpu_s[0], cpu_s[0])
    end_s = start_s + profile.duration_ms / 1000
    assert 0 <= min(gpu_s[-1], cpu_s[-1]) - end_s < step_ms / 1000 + 1e-6
    gpu_j = linear_energy_j(gpu_s, gpu_mw / 1e3 + 100, start_s, end_s)
    cpu_j = np.diff(np.interp([start_s, end_s], cpu_s, counter / 1e6))[0]
    # float32 storage: half a rounding of the largest value, whatever the number of
    # steps.
    rounding_j = float(profile.power_w.max()) * 2.0**-24 * step_ms / 1000
    assert profile.energy_j == pytest.approx(gpu_j + cpu_j, rel=1e-11, abs=rounding_j)


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1))
def test_coarser_steps_are_the_means_of_finer_ones(tmp_path, seed):
    rng = np.random.default_rng(seed)
    t_s = grid(seed=seed)
    pair = nvml(t_s, rng.integers(1, 700_000, t_s.size)), rapl(t_s, 80.0)
    fine, coarse = (
        load_pair(tmp_path, *pair, step_ms=step_ms) for step_ms in (50, 400)
    )
    whole = fine.power_w[: coarse.power_w.size * 8].reshape(-1, 8).astype(float)
    np.testing.assert_allclose(coarse.power_w, whole.mean(axis=1), rtol=1e-6)


@given(st.lists(st.floats(0, 1e6) | st.floats(0, 1e-30), min_size=1, max_size=200))
def test_rounding_to_float32_never_adds_up(power_w):
    rounded = round_keeping_energy(np.array(power_w))
    assert (rounded >= 0).all()
    off_w = np.cumsum(rounded, dtype=np.float64) - np.cumsum(power_w)
    assert np.abs(off_w).max() <= 2.0**-24 * max(power_w) * (1 + 1e-6) + 1e-37


def logged(path):
    lines = path.read_text().splitlines()
    names = next(line for line in lines if line.startswith("# timestamp")).split()[1:]
    rows = [line.split() for line in lines if not line.startswith("#")]
    clock = [datetime.strptime(fields[0], "%Y-%m-%d_%H:%M:%S.%f") for fields in rows]
    t_s = np.array([(t - START).total_seconds() for t in clock])
    return t_s, {
        name: np.array([float(f[i]) for f in rows]) for i, name in enumerate(names) if i
    }


def test_logs_of_a_node_give_the_energy_of_an_independent_sum(sample):
    paths = [sample(WATTAMETER) / f"{k}_wattameter.log" for k in ("nvml", "rapl")]
    (gpu_s, gpu), (cpu_s, cpu) = map(logged, paths)
    profile = load(*paths[::-1], n_nodes=1)
    start_s = max(gpu_s[0], cpu_s[0])
    end_s = start_s + profile.duration_ms / 1000
    assert end_s <= min(gpu_s[-1], cpu_s[-1]) < end_s + 0.1
    watts = sum(values for name, values in gpu.items() if name.endswith("[mW]")) / 1e3
    packages = (cpu["cpu-0[uJ]"] + cpu.get("cpu-1[uJ]", 0)) / 1e6
    cpu_j = np.diff(np.interp([start_s, end_s], cpu_s, packages))[0]
    assert profile.energy_j == pytest.approx(
        linear_energy_j(gpu_s, watts, start_s, end_s) + cpu_j, rel=1e-9
    )
    # The logged package power is the same counter's difference over the interval that
    # follows.
    logged_w = cpu["cpu-0[W]"] + cpu["cpu-1[W]"]
    np.testing.assert_allclose(
        np.diff(packages) / np.diff(cpu_s), logged_w[:-1], rtol=1e-4
    )
    assert not any(profile.provenance.counts.values())
    assert profile.provenance.sampling_interval_s == pytest.approx(
        np.median(np.diff(gpu_s)), abs=1e-4
    )
