"""`diploee fit-requests`: a trace in, a request stream out that loads and tells what it
knows."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from command_line import Ended, call
from serving_builders import serving_data

from diploee.base.rng import named_rng
from diploee.base.tables import Float64Array
from diploee.base.units import HOURS_PER_WEEK
from diploee.fits.requests.fit import fit_requests
from diploee.fits.requests.scenario_entry import request_stream
from diploee.importers import read_request_trace
from diploee.scenario import scenario_from_dict

MONDAY_MS = int(datetime(2024, 5, 6, tzinfo=UTC).timestamp() * 1000)
N_WEEKS = 2
WEIGHTS = 1 + 0.8 * np.sin(np.arange(HOURS_PER_WEEK) / 24 * 2 * np.pi)
PER_HOUR = 40.0


def arrivals_ms(
    seed: int = 0, n_weeks: int = N_WEEKS, weights: Float64Array = WEIGHTS
) -> Any:
    """Draw Poisson requests [ms since Monday 00:00], in order, no two at the same time."""  # noqa: E501
    rng = named_rng(seed, "test", "requests")
    counts = rng.poisson(np.tile(PER_HOUR * weights, n_weeks))
    hours = np.repeat(np.arange(counts.size), counts)
    return np.unique((hours + rng.random(hours.size)) * 3_600_000 // 1).astype(np.int64)


def azure_text(at_ms: Any, inputs: Any, outputs: Any) -> str:
    stamps = np.datetime_as_string((MONDAY_MS + at_ms).astype("datetime64[ms]"))
    rows = zip(stamps, inputs, outputs, strict=True)
    lines = [f"{stamp.replace('T', ' ')}0000,{i},{o}" for stamp, i, o in rows]
    return "\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *lines]) + "\n"


@pytest.fixture(scope="module")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two weeks of requests in Azure's format; answers have 450 to 549 tokens."""
    at_ms = arrivals_ms()
    rng = named_rng(1, "test", "lengths")
    file = tmp_path_factory.mktemp("trace") / "azure.csv"
    inputs = rng.integers(1, 4000, at_ms.size)
    file.write_text(
        azure_text(at_ms, inputs, rng.integers(450, 550, at_ms.size)), "utf-8"
    )
    return file


@pytest.fixture
def relative(tmp_path: Path) -> Path:
    """Three days of requests of two services that count from an origin of their own."""
    at_ms = arrivals_ms(n_weeks=1)
    at_ms = at_ms[at_ms < 3 * 86_400_000]
    lines = [
        f"{at},{100 + k % 7},{300 + k % 11},{'ab'[k % 4 == 0]}"
        for k, at in enumerate(at_ms)
    ]
    file = tmp_path / "relative.csv"
    header = "time_ms,input_tokens,output_tokens,service"
    file.write_text("\n".join([header, *lines]) + "\n", "utf-8")
    return file


def done(*arguments: object) -> str:
    ended = call("fit-requests", *arguments)
    assert (ended.code, ended.err) == (0, "")
    return ended.out


def refused(*arguments: object, command: str = "fit-requests") -> str:
    ended: Ended = call(command, *arguments)
    assert ended.code == 2
    assert ended.out == ""
    return ended.problem


def test_printed_fragment_is_the_fit_and_loads_in_a_scenario(azure: Path) -> None:
    text = done(azure, "--stream", "chat", "--pool", "main")
    fragment = yaml.safe_load(text)
    assert fragment == {
        "request_streams": {
            "chat": request_stream(fit_requests(read_request_trace(azure)), pool="main")
        }
    }
    loaded = scenario_from_dict(serving_data() | fragment).request_streams["chat"]
    assert loaded.services["all"].output_tokens == 512
    assert loaded.calendar.hour_of_week is not None
    # The mean of an hour is Poisson with 80 requests on average; the lines between
    # double errors.
    error = np.array(loaded.calendar.hour_of_week) - WEIGHTS
    assert np.abs(error).max() < 2 * 5 * np.sqrt(WEIGHTS.max() / (N_WEEKS * PER_HOUR))
    assert loaded.request_rate_rps == pytest.approx(
        PER_HOUR / 3600, rel=5 / np.sqrt(N_WEEKS * HOURS_PER_WEEK * PER_HOUR)
    )


def test_scenario_gives_the_pool(azure: Path, tmp_path: Path) -> None:
    scenario = tmp_path / "serving.yaml"
    scenario.write_text(yaml.safe_dump(serving_data(), sort_keys=False), "utf-8")
    text = done(azure, "--scenario", scenario)
    assert yaml.safe_load(text)["request_streams"]["requests"]["pool"] == "main"


def test_lines_give_rates_weights_scatter_lengths_and_rows(
    azure: Path, tmp_path: Path
) -> None:
    repeated = tmp_path / "repeated.csv"
    lines = azure.read_text("utf-8").splitlines(keepends=True)
    repeated.write_text("".join([*lines[:5], *lines[4:]]), "utf-8")
    out = tmp_path / "made" / "stream.yaml"
    said, n = done(repeated, "--out", out), len(lines) - 1
    fit = fit_requests(read_request_trace(azure))
    weight = fit.calendar.week_weight
    low, high = int(weight.argmin()), int(weight.argmax())
    answers, minutes = fit.services[0].output_tokens, fit.dispersion
    assert answers is not None
    for told in (
        f"requests: {n:,} (in 14 days)",
        f"highest rate: {fit.peak_rate_rps:.4g} 1/s (of 60 s, 2024-05-",
        f"mean rate of a whole week: {fit.week_rate_rps:.4g} 1/s",
        f"lowest weight: {weight[low]:.4g} ({fit.week_low[low]:.4g} to",
        f"highest weight: {weight[high]:.4g} ({fit.week_low[high]:.4g} to",
        f"{minutes.index:.4g} ({minutes.low:.4g} to {minutes.high:.4g}; 1 if Poisson)",
        f"{answers.mean:.4g} | {answers.p50:.4g} | {answers.p90:.4g}",
        f"Rows: {n + 1:,} rows, {n:,} kept; dropped 1: repeated rows",
        f"Written: {out}",
    ):
        assert told in said
    text = out.read_text("utf-8")
    assert "dropped 1: repeated rows" in text
    assert "ASSUMPTION: the trace does not tell model" in text
    scenario_from_dict(
        serving_data() | yaml.safe_load(text.replace("pool: serving", "pool: main"))
    )


def test_json_gives_all_numbers(azure: Path, tmp_path: Path) -> None:
    out = tmp_path / "stream.yaml"
    text = done(
        azure, "--json", "--utc-offset", "-07:00", "--confidence", "0.9", "--out", out
    )
    found = json.loads(text, parse_constant=pytest.fail)
    fit = fit_requests(read_request_trace(azure, utc_offset="-07:00"), confidence=0.9)
    assert found["hour_of_week"]["weight"] == fit.calendar.week_weight.tolist()
    assert found["hour_of_week"]["high"] == fit.week_high.tolist()
    assert found["hour_of_week"]["detail"] == "hour_of_week"
    assert (found["utc_offset_min"], found["confidence"]) == (-420, 0.9)
    assert found["month"] is None
    assert found["dispersion"]["index"] == fit.dispersion.index
    answers = fit.services[0].output_tokens
    assert answers is not None
    assert found["services"][0]["output_tokens"]["p99"] == answers.p99
    assert found["rows"]["read"] == found["rows"]["kept"] == fit.n_requests
    assert "UTC-07:00" in out.read_text("utf-8")


def test_limits_that_are_not_known_are_null_in_json(
    azure: Path, tmp_path: Path
) -> None:
    file = tmp_path / "short.csv"
    file.write_text(
        "".join(azure.read_text("utf-8").splitlines(keepends=True)[:30]), "utf-8"
    )
    found = json.loads(
        done(file, "--json", "--step-s", "600"), parse_constant=pytest.fail
    )
    assert found["hour_of_week"]["detail"] == "uniform"
    assert found["dispersion"]["high"] is None
    assert found["fluctuation"] is None
    said = done(file, "--step-s", "600", "--out", tmp_path / "x.yaml")
    assert "calendar: flat" in said


def test_naive_stamps_are_local_time_of_the_zone_and_those_with_an_offset_move_to_it(
    azure: Path, tmp_path: Path
) -> None:
    aware = tmp_path / "aware.csv"
    aware.write_text(azure.read_text("utf-8").replace("0000,", "+00:00,"), "utf-8")

    def weights(trace: Path, *options: str) -> list[float]:
        fragment = yaml.safe_load(done(trace, *options))
        return fragment["request_streams"]["requests"]["calendar"]["hour_of_week"]

    here = weights(azure)
    assert weights(azure, "--utc-offset", "+08:00") == here
    moved = weights(aware, "--utc-offset", "+08:00")
    # But for the two outer steps
    assert moved == pytest.approx(np.roll(here, 8), abs=0.06)
    aware.write_text(azure.read_text("utf-8").replace("0000,", "+08:00,"), "utf-8")
    assert weights(aware) == here
    said = done(azure, "--out", tmp_path / "x.yaml")
    assert ": time stamps without a zone, taken as UTC" in said


def test_origin_of_a_trace_without_dates_is_given_or_an_assumption(
    relative: Path,
) -> None:
    assumed = "# ASSUMPTION: the trace has no dates, its origin is Monday 00:00"
    assert assumed in done(relative)
    text = done(relative, "--zero-hour-of-week", "30.5")
    assert "its origin was given as Tuesday 06:30" in text
    problem = refused(relative, "--utc-offset", "+01:00")
    assert problem.startswith(
        f"{relative}: utc_offset (--utc-offset) is for times with dates"
    )
    assert problem.endswith("give zero_hour_of_week (--zero-hour-of-week)")


def test_services_are_kept_by_name(relative: Path) -> None:
    services = yaml.safe_load(done(relative))["request_streams"]["requests"]["services"]
    assert set(services) == {"a", "b"}
    assert services["b"]["probability"] == pytest.approx(0.25, abs=0.001)
    text = done(relative, "--service", "b")
    (service,) = yaml.safe_load(text)["request_streams"]["requests"]["services"].items()
    assert service[0] == "b"
    assert (service[1]["probability"], service[1]["output_tokens"]) == (1.0, 256)


def test_columns_of_any_table_are_named_by_meaning(relative: Path) -> None:
    renamed = relative.with_name("renamed.csv")
    text = relative.read_text("utf-8")
    renamed.write_text(text.replace("time_ms,", "arrived,", 1), "utf-8")
    columns = ("--column", "time_ms=arrived", "--column", "service=service")
    found = yaml.safe_load(done(renamed, *columns))["request_streams"]["requests"]
    assert set(found["services"]) == {"a", "b"}
    assert "output_tokens" not in found["services"]["a"]
    assert "column 'come' is missing" in refused(renamed, "--column", "time_ms=come")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (("--confidence", "1"), "--confidence: must be below 1, found 1"),
        (("--step-s", "7"), "--step-s: must divide the hour"),
        (("--zero-hour-of-week", "168"), "--zero-hour-of-week: must be below 168"),
        (
            ("--zero-hour-of-week", "5"),
            "is for a trace without dates, this one has them",
        ),
        (("--utc-offset", "8"), "--utc-offset: unknown time zone '8'"),
        (
            ("--utc-offset", "+05:30", "--step-s", "3600"),
            "expected steps that divide the hour",
        ),
        (("--column", "unix=time_ms"), "--column: must be 'timestamp', 'unix_s', "),
    ],
)
def test_what_cannot_be_done_is_one_line_and_writes_nothing(
    azure: Path, tmp_path: Path, given: tuple[str, ...], text: str
) -> None:
    assert text in refused(azure, *given, "--out", tmp_path / "x.yaml")
    assert not list(tmp_path.iterdir())


JOBS = "submit_time,nodes,duration\n2024-01-01T00:00:00Z,1,60\n"


def test_a_job_log_is_refused_with_the_command_for_it(tmp_path: Path) -> None:
    log = tmp_path / "jobs.log"
    log.write_text(JOBS, "utf-8")
    said = f"{log}: is a job log (csv), not a request trace; fit it with 'diploee fit'"
    assert refused(log) == said


def test_a_broken_trace_is_no_job_log(azure: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.csv"
    broken.write_text(azure.read_text("utf-8") + "yesterday,1,1\n", "utf-8")
    n_lines = len(broken.read_text("utf-8").splitlines())
    assert refused(broken).startswith(f"{broken}:{n_lines}: ")
    nothing = tmp_path / "nothing.csv"
    nothing.write_text("what,ever\n1,2\n", "utf-8")
    assert "not a trace of a known format" in refused(nothing)
    assert "can't be read" in refused(tmp_path / "absent.csv")
