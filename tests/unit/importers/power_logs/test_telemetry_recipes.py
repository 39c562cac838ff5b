"""Recipes of `docs/telemetry.md`: each makes a plain table of a tool's output, and it
imports."""

import re
import shlex
from pathlib import Path

import pytest
from command_line import call
from readme_logs import N_TICKS, write_telemetry

from diploee.profiles import read_profile

PAGE = Path(__file__).parents[4] / "docs" / "telemetry.md"
BLOCK = re.compile(r"^```(python|bash)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RECIPES = {
    section.partition("\n")[0]: dict(BLOCK.findall(section))
    for section in PAGE.read_text("utf-8").split("\n## ")[1:]
    if "```python" in section
}
EVERY_S = {"IPMI": 10, "Redfish": 10, "DCGM: Prometheus": 10, "Slurm": 10}


def test_the_page_has_a_recipe_of_some_ten_lines_for_each_tool():
    tools = ("dmon", "Prometheus", "IPMI", "Redfish", "amd-smi", "Slurm", "spl.txt")
    assert all(any(tool in title for title in RECIPES) for tool in tools)
    assert max(block["python"].count("\n") for block in RECIPES.values()) <= 13


@pytest.mark.parametrize("title", RECIPES)
def test_a_recipe_makes_a_table_whose_devices_are_summed_once(
    title, tmp_path, monkeypatch
):
    write_telemetry(tmp_path)
    monkeypatch.chdir(tmp_path)
    exec(compile(RECIPES[title]["python"], title, "exec"), {})
    words = shlex.split(RECIPES[title]["bash"].replace("\\\n", " "))
    ended = call(*words[1:])
    assert ended.code == 0, ended.err
    (file,) = (tmp_path / "telemetry").glob("*.parquet")
    profile = read_profile(file)
    assert profile.mean_power_w == pytest.approx(800)
    assert profile.duration_ms == 1000 * N_TICKS * EVERY_S.get(title, 1)
    assert profile.provenance.repairs == []
