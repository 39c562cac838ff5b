"""The README's commands and Python are run as they stand.

`.ci/run` runs the first two blocks, which install the package; here run all the others.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from readme_logs import write_logs

import diploee

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
PROFILES_PAGE = (ROOT / "docs" / "profiles.md").read_text("utf-8")
N_INSTALL_BLOCKS = 2


def fenced(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def user_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("user")
    shutil.copytree(ROOT / "scenarios", folder / "scenarios")
    write_logs(folder / "job_4711")
    run_block("diploee run colocation_10mw --engine compiled --quiet", folder)  # the first block
    return folder


def run_block(block: str, folder: Path) -> None:
    bin_folder = Path(sys.executable).parent
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", f'PATH="{bin_folder}:$PATH"\n{block}'],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_ci_runs_the_install_blocks_word_for_word() -> None:
    blocks = fenced("bash")[:N_INSTALL_BLOCKS]
    assert blocks == [
        "pip install . && diploee run colocation_10mw\n",
        'pip install -e ".[test]" && pytest -n auto\n',
    ]
    ci = (ROOT / ".ci" / "run").read_text("utf-8")
    assert all(f"readme_block {n + 1}" in ci for n in range(N_INSTALL_BLOCKS))


@pytest.mark.slow
@pytest.mark.parametrize("block", fenced("bash")[N_INSTALL_BLOCKS:])
def test_every_command_of_the_readme_runs(block: str, user_folder: Path) -> None:
    run_block(block, user_folder)


@pytest.mark.slow
@pytest.mark.parametrize("block", fenced("python"))
def test_every_python_block_of_the_readme_runs(block: str, user_folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", block],
        cwd=user_folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_an_imported_profile_replaces_its_class_and_leaves_the_others(
    tmp_path: Path,
) -> None:
    write_logs(tmp_path / "job_4711")
    importing = "diploee profiles import wattameter job_4711/ --workload llama2_70b_lora"
    assert importing in PROFILES_PAGE
    run_block(f"{importing} --out my_profiles", tmp_path)
    running = "--profiles my_profiles --profiles reference"
    assert running in PROFILES_PAGE
    day = '--engine compiled --set "duration=1 day" --out run'
    run_block(f"diploee run colocation_10mw {running} {day}", tmp_path)
    run = diploee.open_run(tmp_path / "run")
    imported = run.manifest["profiles"]["llama2_70b_lora-2n"]
    assert imported["provenance"]["kind"] == "measured"
    jobs = run.jobs()
    drawn = set(jobs["profile_id"])
    assert {"llama2_70b_lora-2n", "llama2_70b_lora-4n-1"} <= drawn
    assert not any(name.startswith("llama2_70b_lora-2n-") for name in drawn)
    ended = jobs["end_time"] < "2018-01-02T00:00:00Z"
    mine = jobs[(jobs["profile_id"] == "llama2_70b_lora-2n") & ended]
    assert mine["energy_j"].to_numpy() == pytest.approx(2 * 750 * 30, rel=1e-5)
