"""`diploee recurring`: its tables, its JSON, and one line for bad input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result
from zeus_builders import GROUP_HEADER, HAND_POWER, HAND_TRAIN, POWER_HEADER, TRAIN_HEADER, write

from diploee.cli.zeus import zeus_command
from diploee.errors import InputError
from diploee.files.places import shipped_folder

TRACES = shipped_folder("profiles") / "zeus"
app = typer.Typer()
app.command("zeus")(zeus_command)


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, list(map(str, arguments)))


def printed(*arguments: object) -> str:
    result = call(*arguments)
    assert result.exit_code == 0, result
    return result.output


def refused(*arguments: object) -> str:
    error = call(*arguments).exception
    assert isinstance(error, InputError), error
    text = str(error)
    assert "\n" not in text
    return text


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return (
        write(tmp_path / "summary_train.csv", TRAIN_HEADER, *HAND_TRAIN),
        write(tmp_path / "summary_power_toy.csv", POWER_HEADER, *HAND_POWER),
    )


TOY = ("--workload", "toy", "--target", 0.5, "--batch-size", 16)


def test_tables_show_savings_and_the_simulation(files: tuple[Path, Path]) -> None:
    text = printed(*files, *TOY, "--seeds", 2)
    assert "Best savings over the default pair of batch size and power limit on toy" in text
    assert "zeus with power limit jit, eta 0.5, beta 2" in text
    savings, simulated = (line for line in text.splitlines() if line.startswith("toy"))
    assert "16, 200 W" in savings
    assert savings.split()[4:7] == ["28.0", "49.3", "69.6"]
    assert simulated.split()[1] == "80"
    assert len(simulated) < 100
    assert "1 paths that never reach the target" in text
    assert "late cost: from a job's recurrence 31 on, over the oracle's" in text
    assert "  -: no job" not in text
    short = printed(*files, *TOY, "--seeds", 2, "--recurrences", 30)
    assert "  -: no job recurs more than 30 times" in short


def test_json_tells_the_same(files: tuple[Path, Path]) -> None:
    content = json.loads(printed(*files, *TOY, "--seeds", 2, "--json", "--optimizer", "default"))
    assert content["gpu"] == "toy"
    assert content["settings"]["power_limit_optimizer"] == "max"
    assert content["savings"]["toy"]["energy"]["power_limit_only"]["fraction"] == pytest.approx(
        0.28
    )
    (row,) = content["simulated"]
    assert row["n_recurrences"] == 80
    assert row["batch_size"] == 16
    assert content["left_out"] == {"paths that never reach the target": 1}
    savings = json.loads(printed(*files, *TOY, "--savings", "--json", "--eta", 1))
    assert "simulated" not in savings
    assert savings["savings"]["toy"]["cost"] == savings["savings"]["toy"]["energy"]
    fixed = ("--optimizer", "default", "--power-limit", 100, "--seeds", 1, "--json")
    content = json.loads(printed(*files, *TOY, *fixed))
    assert content["settings"]["power_limit_optimizer"] == 100
    assert content["simulated"][0]["power_limit_w"] == 100


def test_without_files_the_shipped_synthetic_traces_are_used() -> None:
    built_in = json.loads(printed("--seeds", 2, "--json"))
    assert built_in["gpu"] == "synthetic"
    train, power = TRACES / "summary_train.csv", TRACES / "summary_power_synthetic.csv"
    assert json.loads(printed(train, power, "--seeds", 2, "--json")) == built_in
    assert all(name.startswith("synthetic-") for name in built_in["savings"])


def test_groups_replace_the_recurrences() -> None:
    options = ("--groups", TRACES / "groups.csv", "--seeds", 1, "--json")
    content = json.loads(printed(*options))
    assert sum(row["n_recurrences"] for row in content["simulated"]) == 12 * 40
    content = json.loads(printed(*options, "--workload", "synthetic-vision"))
    assert content["left_out"]["recurrences of other datasets in the group trace"] == 8 * 40


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--workload", "syntetic-vision"), "unknown dataset 'syntetic-vision', expected one that"),
        (("--gpu", "v100"), "--gpu: chooses among given traces, found 'v100'; name TRAIN_CSV"),
        (("--power-limit", 160), "power limit 160 W was never measured for batch size 16 on synth"),
        (
            ("--batch-size", 100),
            "--batch-size 100: synthetic-vision: batch size 100 is not in the data, expec",
        ),
        (
            ("--target", 0.7),
            "--target 0.7: synthetic-vision: target metric 0.7 is not in the train trace",
        ),
        (("--eta", 2), "--eta: must be a number of 0 or more and at most 1, found 2"),
        (("--beta", 1), "--beta: must be a number above 1"),
        (("--seeds", -1), "--seeds: must be a whole number of 1 or more and at most 20,000,000"),
        (("--seed", -1), "--seed: must be a whole number of 0 or more and at most 9,223,372,036,8"),
        (("--power-limit", 100, "--power-limit-optimizer", "max"), "expected one of them"),
        (("--groups", "g.csv", "--recurrences", 40), "--groups and --recurrences: expected one"),
        (("--optimizer", "grid"), "--optimizer: unknown batch size optimizer 'grid'"),
    ],
)
def test_bad_option_is_one_line_with_what_is_allowed(
    options: tuple[object, ...], words: str
) -> None:
    assert words in refused(*options)


def test_bad_file_is_one_line_with_its_place(files: tuple[Path, Path], tmp_path: Path) -> None:
    train, power = files
    assert "expected a power trace too" in refused(train)
    assert "no power trace of the GPU 'a100' (have: 'toy')" in refused(
        train, power, "--gpu", "a100"
    )
    bad = write(tmp_path / "bad.csv", TRAIN_HEADER, "toy,net,8,sgd,0.1,1,0.5,soon")
    assert "bad.csv:2: column 'target_epoch' is 'soon'" in refused(bad, power)
    groups = write(tmp_path / "g.csv", GROUP_HEADER, "g,0,1,tyo,1")
    assert "g.csv:2: unknown dataset 'tyo'" in refused(train, power, *TOY, "--groups", groups)
