"""`diploee fit`: a log in, a piece of a scenario out that loads, runs and says how well
it fits."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
import yaml
from builders import tiny_data, tiny_library, write_scenario
from fit_logs import MONDAY_MS, job_log, submissions
from typer.testing import CliRunner

from diploee import generate_jobs
from diploee.base.errors import (
    InputError,
    LogFormatError,
    OutputExistsError,
    WorkloadError,
)
from diploee.cli.fit import fit_command
from diploee.fits.fragment import Target, stream_yaml
from diploee.fits.jobs.job_log_fit import JobLogFit, fit_job_log
from diploee.fits.jobs.scenario_entry import job_stream
from diploee.scenario import Calendar, ClassRule, load_scenario, scenario_from_dict

APP = typer.Typer()
APP.command()(fit_command)
N_WEEKS = 4
BY_HOUR = 1.5 + np.sin(np.arange(168) / 24 * 2 * np.pi)


def run(*arguments: object) -> str:
    ended = CliRunner().invoke(APP, [str(a) for a in arguments], catch_exceptions=False)
    assert ended.exit_code == 0, ended.output
    return ended.stdout


def jobs_of_weeks(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Submissions of four bursty weeks, node counts and durations of a few distinct
    values."""
    rng = np.random.default_rng(seed)
    mean = np.tile(4 * BY_HOUR, N_WEEKS) * rng.gamma(1.0, 1.0, N_WEEKS * 168)
    submit_ms = np.sort(submissions(rng.poisson(mean), rng))
    n_nodes = rng.choice([1, 2, 3, 8], submit_ms.size, p=[0.5, 0.3, 0.15, 0.05])
    return (
        submit_ms,
        n_nodes,
        np.maximum(np.rint(rng.lognormal(7, 1, submit_ms.size)), 1),
    )


@cache
def fitted(**options: Any) -> JobLogFit:
    submit_ms, n_nodes, duration_s = jobs_of_weeks()
    log = job_log(submit_ms, n_nodes, duration_s, utc_offset_min=60)
    return fit_job_log(log, [ClassRule(workload="tune")], tiny_library(), **options)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Generate two weeks of the fragment; its year is that of `test_generated_year`."""
    monkeypatch.setattr("diploee.fits.jobs.goodness_of_fit.YEAR_D", 14)


def numbers(*arguments: object) -> Any:
    return json.loads(run(*arguments, "--json"), parse_constant=pytest.fail)


def write_log(path: Path, header: str, rows: Iterable[str]) -> Path:
    path.write_text("\n".join([header, *rows]) + "\n", "utf-8")
    return path


@pytest.fixture
def log_file(tmp_path: Path) -> Path:
    rows = (
        f"{np.datetime64(int(submit), 'ms')}Z,{nodes},{duration:g}"
        for submit, nodes, duration in zip(*jobs_of_weeks(), strict=True)
    )
    return write_log(tmp_path / "log.csv", "submit_time,nodes,duration", rows)


@pytest.fixture
def tune(library_folder: Path) -> tuple[object, ...]:
    return ("--workload", "tune", "--profiles", library_folder)


@pytest.fixture
def options(log_file: Path, tune: tuple[object, ...]) -> tuple[object, ...]:
    return (log_file, *tune, "--pool", "main")


@pytest.mark.parametrize("durations", ["quantiles", "profile"])
def test_fragment_is_the_fit_and_loads_in_a_scenario(durations: str) -> None:
    fit = fitted(durations=durations)
    data = {"streams": {"logged": job_stream(fit, "main")}}
    stream = scenario_from_dict(tiny_data() | data).streams["logged"]
    arrivals = fit.arrivals
    assert stream.jobs_per_day == pytest.approx(arrivals.jobs_per_day, rel=1e-5)
    assert arrivals.dispersion is not None
    assert stream.dispersion == pytest.approx(arrivals.dispersion, rel=1e-4)
    weights, wanted = stream.calendar.week_weights(), arrivals.calendar.week_weight
    np.testing.assert_allclose(weights, wanted, rtol=1e-4, atol=1e-4)
    assert stream.calendar.month is None
    for c, of_fit in zip(stream.classes, fit.classes, strict=True):
        assert (c.workload, c.n_nodes) == (of_fit.workload, of_fit.n_nodes)
        assert c.profile_n_nodes == of_fit.profile_n_nodes
        assert c.probability == pytest.approx(of_fit.probability, abs=1e-7)
        assert c.duration == (of_fit.duration and of_fit.duration.model)


@pytest.mark.slow
def test_a_fragment_generates_the_log_again() -> None:
    """Fit, draw, fit: the second fit's limits hold the first fit's values."""
    fit = fitted()
    data = tiny_data({"start": "2018-01-01", "duration": "30 weeks"})
    data |= {"streams": {"logged": job_stream(fit, "main")}}
    jobs = generate_jobs(scenario_from_dict(data), tiny_library()).jobs
    log = job_log(MONDAY_MS + jobs.submit_ms, jobs.n_nodes, jobs.duration_ms / 1000)
    again = fit_job_log(log, [ClassRule(workload="tune")], tiny_library())
    arrivals, scatter = again.arrivals, again.arrivals.scatter
    per_day = fit.arrivals.jobs_per_day
    assert arrivals.jobs_per_day_low <= per_day <= arrivals.jobs_per_day_high
    assert scatter is not None and fit.arrivals.dispersion is not None
    assert scatter.low <= fit.arrivals.dispersion <= scatter.high
    weight = fit.arrivals.calendar.week_weight
    inside = (arrivals.week_low <= weight) & (weight <= arrivals.week_high)
    assert inside.mean() > 0.9
    for first, second in zip(fit.classes, again.classes, strict=True):
        assert second.low - 0.01 <= first.probability <= second.high + 0.01
        assert first.duration is not None and second.duration is not None
        levels = np.array([0.1, 0.5, 0.9])
        upto = first.duration.model.cdf(second.duration.model.quantile(levels))
        np.testing.assert_allclose(upto, levels, atol=0.06)


def test_names_that_yaml_would_misread_are_quoted() -> None:
    entry, target = job_stream(fitted(), "2: x"), Target(None, None, "no", None)
    data = yaml.safe_load(stream_yaml((), "streams", entry, target, None))
    assert list(data["streams"]) == ["no"]
    assert data["streams"]["no"]["pool"] == "2: x"


def test_months_and_hours_of_the_day_are_written_where_fitted() -> None:
    rng = np.random.default_rng(1)
    rules, library = [ClassRule(workload="tune")], tiny_library()
    season = 1 + 0.5 * np.cos(np.arange(8_800) / 8_760 * 2 * np.pi)
    of_days = np.repeat([1.4, 1.4, 1.4, 1.4, 0.6, 0.4, 0.4], 24)
    for mean, keys in (
        (season, ["month"]),
        (9.0 * BY_HOUR[:100], ["hour_of_day"]),
        (np.tile(9.0 * BY_HOUR * of_days, 4), ["hour_of_day", "day_of_week"]),
        (np.full(30, 9.0), []),
    ):
        log = job_log(submissions(rng.poisson(mean), rng))
        fit = fit_job_log(log, rules, library)
        calendar = job_stream(fit, "main").get("calendar", {})
        assert list(calendar) == keys
        if "day_of_week" in keys:
            weights = Calendar.model_validate(calendar).week_weights()
            wanted = fit.arrivals.calendar.week_weight
            np.testing.assert_allclose(weights, wanted, rtol=1e-3)


def test_command_prints_a_fragment_writes_it_and_gives_all_numbers_as_json(
    options: tuple[object, ...], tmp_path: Path
) -> None:
    options = (*options, "--years", "law")
    text, out = run(*options), tmp_path / "made" / "stream.yaml"
    assert text.startswith("# Fitted by diploee")
    assert "log.csv (csv)" in text and "limits at 95%" in text
    assert f"Written: {out}" in run(*options, "--out", out)
    assert out.read_text("utf-8") == text
    scenario_from_dict(tiny_data() | yaml.safe_load(text))
    with pytest.raises(OutputExistsError, match="--force"):
        run(*options, "--out", out)
    found = numbers(*options)
    assert len(found["hour_of_week"]["weight"]) == 168
    assert found["jobs_per_day"]["low"] < found["jobs_per_day"]["value"]
    assert (found["arrivals"], found["format"]) == ("gamma", "csv")
    assert sum(c["n_jobs"] for c in found["classes"]) == found["n_jobs"]


@pytest.mark.parametrize(
    ("years", "allowed", "first"),
    [
        ("law", 1e-9, "# Years are drawn from the fitted distributions"),
        ("auto", 9, "# Years are drawn from the fitted distributions"),
        ("auto", 1e-9, "# Years play the log's own weeks in random order; "),
        ("weeks", 9, "# Years play the log's own weeks in random order; "),
    ],
)
def test_the_first_thing_said_is_where_years_come_from(
    options: tuple[object, ...],
    monkeypatch: pytest.MonkeyPatch,
    years: str,
    allowed: float,
    first: str,
) -> None:
    like = dict.fromkeys(("busy nodes, mean", "busy nodes, P50 of hours"), allowed)
    monkeypatch.setattr("diploee.fits.jobs.goodness_of_fit.TOLERANCES", like)
    head, decision, *_ = run(*options, "--years", years).splitlines()
    assert head.startswith("# Fitted by diploee")
    assert decision.startswith(first)


def test_scenario_gives_the_pool_and_its_size(
    tune: tuple[object, ...], log_file: Path, tmp_path: Path
) -> None:
    base = write_scenario(tmp_path / "base.yaml", {"facility.pools.main.n_nodes": 4})
    text = run(log_file, *tune, "--scenario", base)
    assert "wider than the pool" in text
    classes = yaml.safe_load(text)["streams"]["jobs"]["classes"]
    assert max(c["n_nodes"] for c in classes) == 3
    with pytest.raises(InputError, match=r"--pool: must be one of 'main'"):
        run(log_file, *tune, "--scenario", base, "--pool", "mian")


@pytest.mark.parametrize(
    ("changes", "is_told"),
    [
        ({}, True),
        ({"facility.pools.main.scale_profiles": "by_tdp"}, False),
        (None, False),
    ],
)
def test_a_pool_with_other_gpus_than_the_profiles_is_reported_with_the_remedy(
    changes: dict[str, str] | None, is_told: bool, log_file: Path, tmp_path: Path
) -> None:
    """A scenario is written, and would be refused as it runs: the fit says so before."""  # noqa: E501
    other = {} if changes is None else changes | {"facility.node_types.node.n_gpus": 8}
    base = write_scenario(tmp_path / "base.yaml", other)
    text = run(log_file, "--workload", "llama2_70b_lora", "--scenario", base)
    words = "set facility.pools.main.scale_profiles: by_tdp, or give profiles of"
    assert (words in " ".join(text.replace("#", " ").split())) == is_told


@pytest.mark.slow
def test_a_scenario_is_written_as_a_whole_that_runs(
    tune: tuple[object, ...], log_file: Path, tmp_path: Path
) -> None:
    """The stream takes the place of those of its pool; another pool's and its files
    stay."""
    shutil.copy(log_file, tmp_path / "other.csv")
    replay = {"log": "other.csv", "rules": [{"workload": "tune"}]}
    changes = {
        "facility.pools.side": {"node_type": "node", "n_nodes": 8},
        "streams.replayed": {"pool": "side", "replay": replay},
    }
    base = write_scenario(tmp_path / "base.yaml", changes)
    out = tmp_path / "made" / "site.yaml"
    given = (log_file, *tune, "--scenario", base, "--pool", "main")
    assert f"\nnext: diploee run {out} --profiles " in run(*given, "--out", out)
    site = load_scenario(out)
    assert (site.name, list(site.streams)) == ("site", ["jobs", "replayed"])
    assert site.streams["replayed"].replay.log == "../other.csv"
    run(*given, "--out", tmp_path / "my site.yaml")
    assert load_scenario(tmp_path / "my site.yaml").name == "tiny"
    assert site.facility == load_scenario(base).facility
    jobs = generate_jobs(site, tiny_library()).jobs
    assert set(jobs.pool_id.tolist()) == {0, 1}
    with pytest.raises(InputError, match="--stream: 'replayed' is a stream of pool"):
        run(*given, "--stream", "replayed", "--out", tmp_path / "no.yaml")
    assert list(yaml.safe_load(run(*given))) == ["streams"]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ((), "either --workload or --rules, .*'draw', 'tune'"),
        (("--confidence", "1"), "--confidence"),
        (("--column", "submit"), "--column: expected MEANING=NAME"),
        (("--column", "submitted=a"), "--column: must be .*; did you mean 'submit'"),
        (("--format", "slurm"), "column 'JobID' is missing"),
        (
            ("--from", "2030-01-02", "--to", "2030-01-01"),
            "no job to fit is submitted from 2030-01-02 00:00 to 2030-01-02 00:00",
        ),
        (("--months",), "month 2"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    log_file: Path, library_folder: Path, given: tuple[str, ...], text: str
) -> None:
    if given:
        given = ("--workload", "tune", *given)
    with pytest.raises((InputError, WorkloadError), match=text) as caught:
        run(log_file, "--profiles", library_folder, *given)
    assert "\n" not in str(caught.value)


AZURE = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00.0099300+00:00,9,1\n"
)
SERVEGEN = "0,1.5,1.0,Gamma,1.0,0.5\n600,1.5,1.0,Gamma,1.0,0.5\n"


def test_a_request_trace_or_a_folder_with_one_is_refused_with_the_command_for_it(
    tmp_path: Path,
) -> None:
    with pytest.raises(LogFormatError, match="can't be read"):
        run(tmp_path, "--workload", "tune")
    trace = tmp_path / "chunk-1-trace.csv"
    for text, path, name in (
        (AZURE, trace, "azure-llm"),
        (SERVEGEN, trace, "servegen"),
        (SERVEGEN, tmp_path, "servegen"),
    ):
        trace.write_text(text, "utf-8")
        with pytest.raises(InputError) as caught:
            run(path, "--workload", "tune")
        assert str(caught.value) == (
            f"{path}: is a request trace ({name}), not a job log; fit it with 'diploee "
            "fit-requests'"
        )


def test_a_broken_job_log_is_no_request_trace(tmp_path: Path) -> None:
    """Its header has a column that a trace may have too."""
    log = tmp_path / "log.csv"
    header = "timestamp,submit_time,nodes,duration"
    write_log(log, header, ["1,2024-01-01,1,60", "1,no,1,60"])
    with pytest.raises(LogFormatError) as caught:
        run(log, "--workload", "tune")
    assert str(caught.value).startswith(f"{log}:3: ")
    write_log(log, "what,ever", ["1,2"])
    with pytest.raises(LogFormatError, match="not a job log of a known format"):
        run(log, "--workload", "tune")


READING: dict[str, Any] = {
    "columns": {"submit": "came", "duration": "run_min", "nodes": "n"},
    "time_format": "%d.%m.%Y %H:%M",
    "duration_unit": "min",
    "utc_offset": "+02:00",
}


@pytest.fixture
def own_log(tmp_path: Path) -> Path:
    rows = ("04.03.2024 09:10,90,4", "05.03.2024 14:00,15,2")
    last = "12.03.2024 08:30,1440,2.5"
    return write_log(tmp_path / "own.csv", "came,run_min,n", [*rows, last])


def test_all_jobs_of_a_short_log_are_learned_as_the_options_say(
    own_log: Path, tune: tuple[object, ...]
) -> None:
    columns = [f"--column={key}={name}" for key, name in READING["columns"].items()]
    rest = ("--time-format", READING["time_format"], "--duration-unit", "min")
    found = numbers(own_log, *tune, *columns, *rest, "--utc-offset", "+02:00")
    assert (found["n_jobs"], found["utc_offset_min"]) == (3, 120)
    assert {c["n_nodes"] for c in found["classes"]} == {2, 3, 4}
    mean_s = [c["duration"]["mean_s"] for c in found["classes"]]
    assert mean_s == pytest.approx([60 * 15, 60 * 1440, 60 * 90])
    assert "repaired 1: fractional node counts rounded up" in found["import"]


def test_the_only_replay_of_a_log_in_the_scenario_tells_how_to_read_it(
    own_log: Path, tune: tuple[object, ...], tmp_path: Path
) -> None:
    replay = {"log": own_log.name, "rules": [{"workload": "tune"}], **READING}
    stream = {"pool": "main", "replay": replay}
    base = write_scenario(tmp_path / "base.yaml", {"streams.training": stream})
    given = (own_log, *tune, "--scenario", base)
    found = numbers(*given)
    assert (found["n_jobs"], found["utc_offset_min"]) == (3, 120)
    told = "columns, duration_unit, time_format, utc_offset of the scenario's replay"
    assert any(told in note for note in found["notes"])
    other = numbers(*given, "--duration-unit", "s", "--utc-offset", "+01:00")
    assert other["utc_offset_min"] == 60
    mean_s = [one["classes"][0]["duration"]["mean_s"] for one in (found, other)]
    assert mean_s[0] == pytest.approx(60 * mean_s[1])


@pytest.mark.slow
def test_states_zero_durations_and_cpu_only_choose_the_jobs(
    tmp_path: Path, tune: tuple[object, ...]
) -> None:
    rows = ["3,8,failed", "0,8,completed", "5,0,completed"]
    rows += ["7,8,completed", "9,8,cancelled"]
    lines = [f"2024-01-0{k + 1} 10:00,{row}" for k, row in enumerate(rows)]
    log = write_log(tmp_path / "log.csv", "submit,duration,gpus,state", lines)
    options = (log, *tune, "--gpus-per-node", "4")
    for given, n_jobs in (
        ((), 4),
        (("--zero-durations", "one-second"), 5),
        (("--cpu-only", "drop"), 3),
        (("--state", "completed"), 2),
        (("--state", "completed", "--state", "failed"), 3),
    ):
        assert numbers(*options, *given)["n_jobs"] == n_jobs
    said = run(*options)
    assert "1 failed, 1 cancelled" in said
    assert "1 node = 4 GPUs, as given" in said


@pytest.mark.slow
def test_what_a_node_of_processors_is_stands_in_the_log_unless_it_is_given(
    tmp_path: Path, tune: tuple[object, ...]
) -> None:
    """The same with and without a scenario, whose pool has nodes of GPUs."""
    base = write_scenario(tmp_path / "base.yaml")
    rest = "-1 -1 -1 -1 -1 1 1 1 1 1 1 -1 -1"
    rows = [f"{k} {k * 9000} 0 600 {64 * k} {rest}" for k in (1, 2, 3)]
    header = "; MaxNodes: 10\n; MaxProcs: 640"
    for head, given, told, n_nodes in (
        (header, (), "64 processors, from the log's header", [1, 2, 3]),
        (header, ("--scenario", base), "64 processors, from the log's", [1, 2, 3]),
        (header, ("--gpus-per-node", 32), "32 processors, as given", [2, 4, 6]),
        ("; UnixStartTime: 0", (), "1 processor", [64, 128, 192]),
    ):
        log = write_log(tmp_path / "log.swf", head, rows)
        found = numbers(log, *tune, *given)
        assert any(f"noted 3: 1 node = {told}" in line for line in found["import"])
        assert [c["n_nodes"] for c in found["classes"]] == n_nodes


def test_cost_of_whole_nodes_to_small_jobs_is_reported_without_a_scenario_too(
    tmp_path: Path, tune: tuple[object, ...]
) -> None:
    rows = (
        f"2024-01-{1 + k // 24:02d}T{k % 24:02d}:00:00,3600,1,1" for k in range(400)
    )
    log = write_log(tmp_path / "small.csv", "submit,duration,nodes,gpus", rows)
    told = run(log, *tune, "--gpus-per-node", 4)
    text = " ".join(told.replace("#", " ").split())
    assert "400 jobs on fewer GPUs than the 4 of a node take a whole one each" in text
    assert "take 4 times the nodes of their GPU time; set allocate: gpus" in text


def test_an_input_is_never_replaced(
    options: tuple[object, ...], log_file: Path, tmp_path: Path
) -> None:
    before = log_file.read_bytes()
    (tmp_path / "link.csv").symlink_to(log_file)
    for name in ("log.csv", "link.csv"):
        with pytest.raises(InputError, match=r"--out: .* is an input of this command"):
            run(*options, "--out", tmp_path / name, "--force")
    assert log_file.read_bytes() == before


def test_stamps_that_name_no_zone_are_in_that_of_the_scenario(
    tmp_path: Path, tune: tuple[object, ...]
) -> None:
    zone = {"facility.time_zone": "America/Phoenix"}
    base = write_scenario(tmp_path / "base.yaml", zone)
    for offset, offset_min, said in (("", -420, True), ("+02:00", 120, False)):
        rows = (f"2024-07-0{day} 09:10{offset},5400,2" for day in (1, 2, 3))
        log = write_log(tmp_path / "log.csv", "submit,duration,nodes", rows)
        found = numbers(log, *tune, "--scenario", base)
        assert found["utc_offset_min"] == offset_min
        note = "stamps without a zone are in the scenario's, America/Phoenix"
        assert (note in found["notes"]) == said


@pytest.mark.parametrize(("n_nodes", "noted"), [(12, False), (2_000, True)])
def test_a_log_of_a_far_smaller_machine_than_the_pool_is_noted(
    tmp_path: Path, tune: tuple[object, ...], n_nodes: int, noted: bool
) -> None:
    rows = (f"2024-07-0{1 + k // 24}T{k % 24:02d}:10:00Z,5400,2" for k in range(48))
    log = write_log(tmp_path / "log.csv", "submit,duration,nodes", rows)
    size = {"facility.pools.main.n_nodes": n_nodes}
    base = write_scenario(tmp_path / "base.yaml", size)
    notes = numbers(log, *tune, "--scenario", base)["notes"]
    found = [note for note in notes if "set facility.pools.main.n_nodes" in note]
    assert len(found) == noted and all("asks for 3.0" in note for note in found)


def test_weeks_of_a_log_of_processors_have_its_nodes_in_a_scenario_of_gpus_too(
    tune: tuple[object, ...], tmp_path: Path
) -> None:
    base = write_scenario(tmp_path / "base.yaml", {"facility.pools.main.n_nodes": 8})
    rows = (
        f"{k} {4 * 3_600 * k} 0 7200 4 -1 -1 4 -1 -1 1 1 1 -1 1 -1 -1 -1"
        for k in range(35 * 6)
    )
    header = "; UnixStartTime: 1514764800\n; MaxNodes: 8"
    log = write_log(tmp_path / "log.swf", header, rows)
    for more in ((), ("--scenario", base)):
        found = numbers(log, *tune, "--years", "weeks", *more)["figures"]
        mean = next(f for f in found if f["name"] == "busy nodes, mean")
        assert mean["generated"] == pytest.approx(mean["log"], rel=0.05)


def test_years_are_those_whose_worst_error_is_the_smaller(
    options: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of node time, median and P99, each by what is allowed of it, whichever kind is
    nearer."""
    names = ("busy nodes, mean", "busy nodes, P50 of hours", "busy nodes, P99 of hours")
    kinds = set()
    found = {years: numbers(*options, "--years", years) for years in ("law", "weeks")}
    for allowed in ((1e-3, 1, 1), (1, 1e-3, 1), (1, 1, 1e-3)):
        like = dict(zip(names, allowed, strict=True))
        monkeypatch.setattr("diploee.fits.jobs.goodness_of_fit.TOLERANCES", like)
        monkeypatch.setattr("diploee.fits.jobs.from_log.TOLERANCES", like)
        found["auto"] = numbers(*options, "--years", "auto")
        worst = {
            years: max(
                abs(f["generated"] / f["log"] - 1) / like[f["name"]]
                for f in one["figures"]
                if f["name"] in like
            )
            for years, one in found.items()
        }
        assert worst["auto"] == min(worst["law"], worst["weeks"])
        assert found["auto"]["years"] == min(("law", "weeks"), key=worst.__getitem__)
        assert "more than is aimed at" in found["auto"]["decision"]
        kinds.add(found["auto"]["years"])
    assert kinds == {"law", "weeks"}


SACCT = "JobID|Submit|Start|End|ElapsedRaw|NNodes|AllocTRES|State"


def jobs_of_sacct() -> Iterator[tuple[np.datetime64, int, int]]:
    """Yield submission, run time [s] and nodes of six weeks of jobs on one or two
    nodes."""
    rng = np.random.default_rng(2)
    for hour in np.repeat(np.arange(6 * 168), rng.poisson(1.5, 6 * 168)).tolist():
        into_s = 3_600 * hour + int(rng.integers(3_600))
        at = np.datetime64("2026-01-05T00:00:00") + np.timedelta64(into_s, "s")
        yield at, int(rng.lognormal(8, 0.8)) + 60, int(rng.choice([1, 1, 2]))


@pytest.mark.parametrize(
    ("n_gpus", "years"), [(None, "weeks"), (4, "weeks"), (None, "law")]
)
def test_a_job_is_as_wide_in_the_comparison_and_the_holdout_as_in_the_fit(
    tune: tuple[object, ...], tmp_path: Path, n_gpus: int | None, years: str
) -> None:
    """Of a log of nodes of eight GPUs."""
    jobs = list(jobs_of_sacct())
    rows = (
        f"{k}|{at}|{at}|{at + np.timedelta64(run_s, 's')}|{run_s}|{nodes}|"
        f"cpu={64 * nodes},gres/gpu={8 * nodes},node={nodes}|COMPLETED"
        for k, (at, run_s, nodes) in enumerate(jobs, 1)
    )
    log = write_log(tmp_path / "sacct.txt", SACCT, rows)
    given: tuple[object, ...] = (log, *tune, "--holdout", "0.5", "--years", years)
    if n_gpus is not None:
        site = {
            "facility.pools.main.n_nodes": 8,
            "facility.node_types.node.n_gpus": n_gpus,
        }
        given = (*given, "--scenario", write_scenario(tmp_path / "base.yaml", site))
    found = numbers(*given)
    wide = 8 / (n_gpus or 8)
    busy = sum(run_s * nodes * wide for _, run_s, nodes in jobs) / (6 * 168 * 3_600)
    assert found["mean_busy_nodes"] == pytest.approx(busy, rel=0.01)
    of = {f["name"]: f for f in found["figures"]}
    assert of["busy nodes, mean"]["generated"] == pytest.approx(busy, rel=0.15)
    median = of["busy nodes, P50 of hours"]
    assert median["generated"] == pytest.approx(median["log"], rel=0.25)
    assert 0.75 < found["holdout"][0]["median"] < 1.33


def test_no_figure_of_a_log_of_few_busy_hours_is_not_a_number(
    tune: tuple[object, ...], tmp_path: Path
) -> None:
    """Half of the hours idle, one wide job that a generated year may lack, and a rest
    of none."""
    at = np.datetime64("2026-01-05T09:00:00") + np.arange(35, dtype="timedelta64[D]")
    rows = (f"{moment},{1 + 63 * (k == 3)},600" for k, moment in enumerate(at))
    log = write_log(tmp_path / "log.csv", "submit,nodes,duration", rows)
    for years in ("law", "weeks", "auto"):
        given = (log, *tune, "--holdout", "0.5", "--years", years)
        assert "nan" not in run(*given)
        assert all(part["median"] is None for part in numbers(*given)["holdout"])
