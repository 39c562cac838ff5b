"""Replaying a job log: mapping to profiles, scaling, placing in the run, repetition."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import TINY, checked_site, tiny_data, tiny_library, write_scenario
from command_line import call

import diploee
from diploee import generate_jobs
from diploee.base.errors import InputError
from diploee.base.progress import Progress
from diploee.importers.input_reader import load_inputs
from diploee.scenario import Scenario, load_scenario
from diploee.simulation.steps import Workload
from diploee.sweeps.expand import run_hash

MONDAY = datetime(2023, 3, 6)
NODE = TINY["facility"]["node_types"]["node"]
DAY_S, WEEK_S = 86_400, 7 * 86_400
RULES = [{"workload": "draw", "max_nodes": 1}, {"workload": "tune"}]


def write_log(folder: Path, rows: list[tuple[int, int, int, int]]) -> None:
    """Write rows of (submit, wait, run time [s], nodes), times since a Monday 00:00."""
    lines = ["submitted,started,run_s,nodes"]
    for submit, wait, run_s, nodes in rows:
        stamps = [
            (MONDAY + timedelta(seconds=s)).isoformat() for s in (submit, submit + wait)
        ]
        lines.append(f"{stamps[0]},{stamps[1]},{run_s},{nodes}")
    (folder / "jobs.csv").write_text("\n".join(lines) + "\n", "utf-8")


def scenario_of(
    folder: Path, changes: dict[str, Any] | None = None, **replay: Any
) -> Scenario:
    import yaml

    columns = {
        "submit": "submitted",
        "start": "started",
        "duration": "run_s",
        "nodes": "nodes",
    }
    data = tiny_data({"start": "2018-01-01", "duration": "4 weeks", **(changes or {})})
    data["streams"] = {
        "logged": {
            "pool": "main",
            "replay": {"log": "jobs.csv", "columns": columns, "rules": RULES, **replay},
        }
    }
    path = folder / "replay.yaml"
    path.write_text(yaml.safe_dump(data), "utf-8")
    return load_scenario(path)


def replayed(
    folder: Path, changes: dict[str, Any] | None = None, **replay: Any
) -> Workload:
    return generate_jobs(scenario_of(folder, changes, **replay), tiny_library())


def left_out(workload: Workload) -> dict[str, int]:
    """Return what the replay itself left out, by cause."""
    counts = workload.matches[0].counts
    return {cause: n for cause, n in counts.items() if "on import" not in cause}


@pytest.fixture
def fortnight(tmp_path: Path) -> Path:
    """A folder with a log of two weeks, 300 jobs on 1 to 4 nodes."""
    rng = np.random.default_rng(1)
    submit = np.sort(rng.integers(0, 2 * WEEK_S, 300))
    submit[-1] = 2 * WEEK_S - 1
    rows = zip(
        submit.tolist(),
        rng.integers(0, 600, 300).tolist(),
        rng.integers(60, 7_200, 300).tolist(),
        rng.choice([1, 2, 4], 300).tolist(),
        strict=True,
    )
    write_log(tmp_path, list(rows))
    return tmp_path


FACTORS = {"time_factor": 2, "duration_factor": 0.5, "node_factor": 1.5}


@pytest.mark.parametrize(
    ("replay", "submit_s", "run_s", "nodes"),
    [
        ({}, [0, 300, 900], [600, 9_000, 1], [2, 1, 3]),
        ({"starts": "logged"}, [0, 270, 850], [600, 9_000, 1], [2, 1, 3]),
        (FACTORS, [0, 600, 1_800], [300, 4_500, 0.5], [3, 2, 4]),
    ],
)
def test_jobs_are_submitted_run_and_take_nodes_as_logged_or_by_factors(
    tmp_path: Path,
    replay: dict[str, Any],
    submit_s: list[int],
    run_s: list[float],
    nodes: list[int],
) -> None:
    write_log(tmp_path, [(100, 50, 600, 2), (400, 20, 9_000, 1), (1_000, 0, 1, 3)])
    jobs = replayed(tmp_path, align="start", repeat=False, **replay).jobs
    assert (jobs.submit_ms / 1_000).tolist() == submit_s
    assert (jobs.duration_ms / 1_000).tolist() == run_s
    assert jobs.n_nodes.tolist() == nodes


def test_rules_choose_the_profiles_and_the_nearest_node_count_is_scaled(
    tmp_path: Path,
) -> None:
    write_log(
        tmp_path, [(0, 0, 600, 1), (1, 0, 600, 2), (2, 0, 600, 3), (3, 0, 600, 9)]
    )
    workload = replayed(tmp_path, align="start", repeat=False)
    entries = workload.library.entries
    found = [
        (entries[i].workload, entries[i].n_nodes) for i in workload.jobs.profile_id
    ]
    assert found == [("draw", 1), ("tune", 2), ("tune", 4), ("tune", 4)]
    classes = [workload.classes[i].job_class for i in workload.jobs.class_id]
    assert [c.name for c in classes] == ["draw/1", "tune/2", "tune/3", "tune/9"]
    assert [c.scale_from_n_nodes for c in classes] == [None, None, 4, 4]


def test_a_log_is_played_whole_and_repeated_only_beyond_itself(tmp_path: Path) -> None:
    week = [(hour * 3_600, 0, 60, 1) for hour in range(0, 168, 12)]
    # Eight days and six hours
    more = [(WEEK_S + hour * 3_600, 0, 120, 2) for hour in (6, 30)]
    write_log(tmp_path, [*week, *more])
    jobs = replayed(tmp_path, {"duration": "14 d"}).jobs
    hours = (jobs.submit_ms // 3_600_000).tolist()
    assert hours == [*range(0, 168, 12), 174, 198, *range(168 + 36, 336, 12)]
    assert jobs.n_nodes.tolist() == [1] * 14 + [2] * 2 + [1] * 11


@pytest.mark.parametrize("factor", [0.5, 1.0, 2.5])
def test_the_rate_factor_is_the_mean_number_of_copies(
    fortnight: Path, factor: float
) -> None:
    match = replayed(fortnight, rate_factor=factor).matches[0]
    n_jobs = match.jobs_per_day * 28
    assert n_jobs == pytest.approx(600 * factor, abs=5 * np.sqrt(600) * 0.5 + 5)


def test_a_log_by_date_plays_at_its_own_date(tmp_path: Path) -> None:
    write_log(
        tmp_path, [(3_600, 0, 600, 1), (DAY_S, 0, 600, 2), (9 * WEEK_S, 0, 600, 2)]
    )
    workload = replayed(tmp_path, {"start": "2023-03-06"}, align="date")
    assert workload.jobs.submit_ms.tolist() == [3_600_000, DAY_S * 1_000]
    assert left_out(workload) == {"outside the run": 1}
    scenario = scenario_of(
        tmp_path, {"start": "2023-03-06", "duration": "2 d"}, align="date"
    )
    run = diploee.run(scenario, tmp_path / "run", profiles=tiny_library())
    assert run.scenario.sha256() == scenario.sha256()


@pytest.mark.parametrize(
    ("align", "stamps", "words"),
    [
        ("date", "", "taken as local time of the site"),
        ("weekday", "", "taken as local time of the site"),
        ("start", "", "taken as UTC"),
        ("date", "+00:00", None),
    ],
)
def test_note_on_stamps_without_a_zone_says_how_they_were_played(
    tmp_path: Path, align: str, stamps: str, words: str | None
) -> None:
    """Nine in the morning of the log is nine at the site, five hours behind UTC, or
    four there."""
    at = [f"2023-03-{day}T09:00:00{stamps}" for day in ("06", "07", "13")]
    text = "\n".join(["submitted,started,run_s,nodes", *(f"{t},{t},600,2" for t in at)])
    (tmp_path / "jobs.csv").write_text(text)
    changes = {
        "start": "2023-03-06",
        "duration": "1 d",
        "facility.utc_offset": "-05:00",
    }
    workload = replayed(tmp_path, changes, align=align)
    hour = {("start", ""): 0, ("date", "+00:00"): 4}.get((align, stamps), 9)
    assert workload.jobs.submit_ms[0] == hour * 3_600_000
    found = [cause for cause in workload.matches[0].counts if "without a zone" in cause]
    expected = f"noted on import: time stamps without a zone, {words}"
    assert found == ([] if words is None else [expected])


def test_jobs_too_wide_or_without_a_rule_are_an_error_dropped_or_clipped(
    tmp_path: Path,
) -> None:
    write_log(tmp_path, [(0, 0, 600, 2), (1, 0, 600, 40)])
    with pytest.raises(
        InputError, match=r"need up to 40 nodes, pool 'main' has 12; set too_wide"
    ):
        replayed(tmp_path, align="start")
    dropped = replayed(tmp_path, align="start", repeat=False, too_wide="drop")
    assert dropped.jobs.n_nodes.tolist() == [2]
    assert left_out(dropped) == {"wider than the pool": 1}
    assert (
        "noted on import: time stamps without a zone, taken as UTC"
        in dropped.matches[0].counts
    )
    clipped = replayed(tmp_path, align="start", repeat=False, too_wide="clip")
    assert clipped.jobs.n_nodes.tolist() == [2, 12]
    rules = [{"workload": "tune", "max_nodes": 2}]
    with pytest.raises(InputError, match=r"1 jobs of jobs\.csv fit no rule"):
        replayed(tmp_path, align="start", rules=rules)
    kept = replayed(
        tmp_path, align="start", repeat=False, rules=rules, unmatched="drop"
    )
    assert len(kept.jobs) == 1


@pytest.mark.parametrize(
    ("changes", "replay", "words"),
    [
        ({}, {"rules": [{"workload": "tun"}]}, "did you mean 'tune'"),
        (
            {"start": "2019-01-01"},
            {"align": "date"},
            "2023-03-06 00:01, the run is of 2019-01-01",
        ),
        (
            {},
            {"align": "weekday"},
            "needs a whole week; set repeat: false, or align: start",
        ),
        ({}, {"time_factor": 2.0}, "set align: start"),
    ],
)
def test_what_can_not_be_replayed_is_one_line(
    tmp_path: Path, changes: dict[str, Any], replay: dict[str, Any], words: str
) -> None:
    write_log(tmp_path, [(0, 0, 600, 2), (60, 0, 600, 1)])
    with pytest.raises(InputError, match=words) as error:
        replayed(tmp_path, changes, **replay)
    assert "\n" not in str(error.value)


def test_a_sweep_knows_a_run_again_unless_its_log_changed(tmp_path: Path) -> None:
    library = tiny_library()
    write_log(tmp_path, [(0, 0, 600, 2)])
    scenario = scenario_of(tmp_path, align="start", repeat=False)

    def named() -> str:
        return run_hash(scenario, load_inputs(scenario, library))

    first = named()
    assert named() == first
    write_log(tmp_path, [(0, 0, 601, 2)])
    assert named() != first


def test_a_log_that_needs_more_than_the_pool_gives_the_nodes_and_the_wait(
    tmp_path: Path,
) -> None:
    """A job of 12 nodes and an hour every half hour, on 12 nodes: two wait for each
    that runs."""
    write_log(tmp_path, [(1_800 * k, 0, 3_600, 12) for k in range(96)])
    changes = {"duration": "2 d", "facility.pools.main.n_nodes": 12}
    scenario = scenario_of(tmp_path, changes, align="start", repeat=False)
    told: list[str] = []

    class Watch(Progress):
        def stage(self, name: str):
            assert told or name != "simulate"  # before it simulates
            return super().stage(name)

        def tell(self, text: str) -> None:
            told.append(text)

    library = tiny_library()
    run = diploee.run(scenario, tmp_path / "run", profiles=library, progress=Watch())
    assert (
        len(told) == 1
        and "25 are needed on average, with 12 the wait grows by about 24.5 h"
        in told[0]
    )
    assert checked_site(scenario, library).warnings == tuple(told)
    (warning,) = (
        w for w in run.manifest["warnings"] if w.startswith("pool 'main': the jobs ask")
    )
    assert (
        "ask for 1.99 times its nodes, on average for 24; with 12 the wait grows"
        in warning
    )
    assert "to about 47.5 h at the end of the run: 48 jobs never started" in warning
    jobs = run.jobs()
    wait_h = (jobs["start_time"] - jobs["submit_time"]).dt.total_seconds() / 3_600
    # Of the last that started, submitted half-way
    assert wait_h.max() == pytest.approx(23.5)


LOGGED = {"facility.pools.main.scheduler": {"kind": "easy", "estimate": "logged"}}
ASKED = {"requested_time": "asked_s", "user": "who"}


def write_asked(folder: Path, asked: list[str]) -> None:
    write_log(folder, [(k, 0, 600, 2) for k in range(len(asked))])
    lines = (folder / "jobs.csv").read_text("utf-8").split()
    heads = ["asked_s,who", *(f"{value},user{k % 2}" for k, value in enumerate(asked))]
    text = "\n".join(f"{line},{head}" for line, head in zip(lines, heads, strict=True))
    (folder / "jobs.csv").write_text(text + "\n", "utf-8")


def asked_for(folder: Path, **replay: Any) -> Workload:
    names = {
        "submit": "submitted",
        "start": "started",
        "duration": "run_s",
        "nodes": "nodes",
    }
    options = {"align": "start", "repeat": False, "columns": names | ASKED, **replay}
    return replayed(folder, LOGGED, **options)


def test_requested_times_and_users_reach_the_jobs_and_what_lacks_one_is_reported(
    tmp_path: Path,
) -> None:
    write_asked(tmp_path, ["1200", "", "700"])
    workload = asked_for(tmp_path, duration_factor=0.5)
    assert workload.jobs.requested_ms.tolist() == [600_000, 0, 350_000]
    assert workload.jobs.user_id.tolist() == [1, 2, 1]
    assert left_out(workload) == {"without a requested time, run time as estimate": 1}


def test_a_scheduler_by_logged_estimates_needs_a_log_that_has_some(
    tmp_path: Path,
) -> None:
    write_asked(tmp_path, ["", ""])
    with pytest.raises(
        InputError, match=r"estimate: logged, but jobs.csv has no requested times"
    ):
        asked_for(tmp_path)
    drawn = diploee.load_scenario("colocation_10mw", values={"duration": "1 d"})
    pool = next(iter(drawn.facility.pools))
    values = {
        "duration": "1 d",
        f"facility.pools.{pool}.scheduler": LOGGED["facility.pools.main.scheduler"],
    }
    with pytest.raises(
        InputError, match=r"estimate: logged, but only jobs of a replay have a log"
    ):
        generate_jobs(diploee.load_scenario("colocation_10mw", values=values))


def write_cluster(folder: Path) -> Path:
    """Write what sacct prints of five jobs, the last one without GPUs, on their own
    days."""
    lines = ["JobID|State|Submit|Start|End|NNodes|AllocTRES|User|Account|JobName"]
    for number, (nodes, gpus, user, account, name) in enumerate(
        [
            (2, 8, "ann", "lab", "llama-sft-1"),
            (2, 8, "bob", "lab", "eval"),
            (2, 8, "bob", "own", "llama-sft-2"),
            (1, 4, "cid", "own", "other"),
            (3, 0, "cid", "own", "compile"),
        ]
    ):
        day = f"2023-03-{6 + number:02}T"
        tres = f"gres/gpu={gpus}" if gpus else "cpu=64"
        times = f"{day}00:00:00|{day}00:00:00|{day}00:30:00"
        lines.append(
            f"{70 + number}|COMPLETED|{times}|{nodes}|{tres}|{user}|{account}|{name}"
        )
    (folder / "sacct.txt").write_text("\n".join(lines) + "\n", "utf-8")
    return folder


def cluster(folder: Path, **replay: Any) -> Scenario:
    spec = {"log": "sacct.txt", "columns": None, "align": "start", "repeat": False}
    changes = {"facility.node_types.node.n_gpus": 4, "duration": "1 week"}
    return scenario_of(write_cluster(folder), changes, **spec, **replay)


def workloads_of(scenario: Scenario) -> list[str]:
    workload = generate_jobs(scenario, tiny_library())
    return [workload.classes[i].job_class.workload for i in workload.jobs.class_id]


def test_rules_go_by_user_account_and_name_of_the_job(tmp_path: Path) -> None:
    any_job = {"workload": "draw"}
    for rule, fitting in [
        ({"name": "llama-*"}, [0, 2]),
        ({"user": "bob"}, [1, 2]),
        ({"account": "own"}, [2, 3]),
        ({"user": "b*", "account": "own"}, [2]),
    ]:
        found = workloads_of(
            cluster(tmp_path, rules=[{"workload": "tune", **rule}, any_job])
        )
        assert [i for i, name in enumerate(found) if name == "tune"] == fitting
    with pytest.raises(
        InputError, match=r"rule 1: the log has no jobs of user 'anne' \(have: 'a"
    ):
        workloads_of(
            cluster(tmp_path, rules=[{"workload": "tune", "user": "anne"}, any_job])
        )


def test_single_jobs_have_the_profiles_given_by_their_ids(tmp_path: Path) -> None:
    workload = generate_jobs(
        cluster(tmp_path, profiles={71: "tune-2n-2", "73": "tune-4n-1"}), tiny_library()
    )
    ids = [workload.library.ids[i] for i in workload.jobs.profile_id]
    assert (ids[1], ids[3]) == ("tune-2n-2", "tune-4n-1")
    assert workload.classes[workload.jobs.class_id[3]].job_class.scale_from_n_nodes == 4
    assert left_out(workload)["with the profile given for them"] == 2
    with pytest.raises(InputError, match=r"no job '99' among the 5 of sacct\.txt"):
        workloads_of(cluster(tmp_path, profiles={99: "tune-2n-2"}))
    with pytest.raises(
        InputError, match=r"no profile 'tune-2n-3' .* did you mean 'tune-2n-"
    ):
        workloads_of(cluster(tmp_path, profiles={71: "tune-2n-3"}))


def test_jobs_without_gpus_leave_their_nodes_idle_or_are_refused(
    tmp_path: Path,
) -> None:
    """On the last day that job alone runs: the facility draws what it draws without a
    job."""
    scenario = cluster(tmp_path)
    assert workloads_of(scenario) == ["tune", "tune", "tune", "draw", "idle"]
    run = diploee.run(scenario, tmp_path / "run", profiles=tiny_library())
    power_w = run.facility()["it_power_w"].to_numpy()
    per_day = power_w.size // 7
    np.testing.assert_allclose(power_w[4 * per_day :], power_w[-1], rtol=1e-6)
    assert power_w[3 * per_day] > power_w[-1]
    energy_j = run.jobs()["energy_j"].to_numpy()
    idle_w = scenario.facility.node_type_of("main").idle_power_w
    assert energy_j[4] == pytest.approx(3 * 1800 * idle_w)
    told = generate_jobs(scenario, tiny_library()).matches[0].counts
    assert told["without GPUs, at idle power (cpu_jobs)"] == 1
    assert workloads_of(cluster(tmp_path, cpu_jobs="rules"))[4] == "tune"
    assert len(workloads_of(cluster(tmp_path, cpu_only="drop"))) == 4
    with pytest.raises(
        InputError, match=r"cpu_jobs: 1 jobs of sacct\.txt .* such as '74'; set"
    ):
        workloads_of(cluster(tmp_path, cpu_jobs="error"))


def test_a_profile_given_by_id_is_refused_on_other_gpus_or_scaled_like_all_others(
    tmp_path: Path,
) -> None:
    """Measured on four GPUs of 700 W; the pool's nodes have four of 1,400 W."""
    plain = tiny_library().get("tune-2n-2")
    hardware = replace(plain.provenance, gpus_per_node=4, gpu_tdp_w=700.0)
    measured = replace(
        plain, profile_id="job-71", workload="measured", provenance=hardware
    )
    library = tiny_library().extended([measured])

    def on(tdp_w: float, **pool: str) -> Workload:
        changes = {
            "facility.node_types.node": {**NODE, "n_gpus": 4, "gpu_tdp_w": tdp_w}
        }
        changes |= {f"facility.pools.main.{key}": value for key, value in pool.items()}
        replay = {
            "log": "sacct.txt",
            "columns": None,
            "align": "start",
            "repeat": False,
        }
        spec = scenario_of(
            write_cluster(tmp_path), changes, **replay, profiles={71: "job-71"}
        )
        return generate_jobs(spec, library)

    def mean_w(workload: Workload) -> float:
        return workload.library[int(workload.jobs.profile_id[1])].mean_power_w

    assert mean_w(on(700.0)) == measured.mean_power_w
    with pytest.raises(
        InputError, match=r"replay\.profiles: pool 'main' .* such as 'job-71'"
    ):
        on(1_400.0)
    assert mean_w(on(1_400.0, scale_profiles="by_tdp")) > 1.2 * measured.mean_power_w


@pytest.mark.parametrize("command", ["validate", "run"])
def test_a_wrong_log_is_refused_with_the_line_of_the_scenario_and_its_keys(
    tmp_path: Path, command: str
) -> None:
    (tmp_path / "log.csv").write_text("when,watts\n1,2\n", "utf-8")
    replay = {"log": "log.csv", "rules": [{"workload": "tune"}]}
    stream = {"pool": "main", "replay": replay}
    file = write_scenario(tmp_path / "site.yaml", {"streams.training": stream})
    line = file.read_text("utf-8").splitlines().index("    replay:") + 1
    problem = call(command, file).problem
    assert problem.startswith(
        f"{file}:{line} streams.training.replay: {tmp_path / 'log.csv'}:1: "
    )
    assert "specify the format, one of 'swf', " in problem
    assert (
        "the columns of any other table, such as {submit: NAME" in problem
        and "--" not in problem
    )
