"""README and `docs/`: every block runs as it stands, every command is one that there
is."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from functools import cache
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from readme_logs import write_logs, write_telemetry

import diploee
from diploee.cli.app import application

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = {
    str(path.relative_to(ROOT)): BLOCK.findall(path.read_text("utf-8"))
    for path in [
        ROOT / "README.md",
        ROOT / "SKILL.md",
        *sorted((ROOT / "docs").rglob("*.md")),
    ]
}
INSTALL = [
    "pip install . && diploee run colocation_10mw\n",
    'pip install -e ".[test]" && pytest -n auto\n',
]
"""The README's first two blocks, which `.ci/run` runs."""
RUN = {
    name: [
        (language, "\n".join(block for _, block in part))
        for language, part in groupby(
            [b for b in blocks if b[0] in ("bash", "python") and b[1] not in INSTALL],
            key=itemgetter(0),
        )
    ]
    for name, blocks in PAGES.items()
}
"""Blocks of one language run together up to one of the other, as cells of a notebook."""  # noqa: E501


SHORTER = {
    "duration=1 week": "duration=2 days",
    "duration=4 weeks": "duration=1 week",
    '"4 weeks"': '"2 days"',
    "--runs 40": "--runs 20",
    "--seeds 4": "--seeds 2",
    '"1 year", engine': '"2 weeks", engine',
}
"""Spans and counts of readers, and shorter ones that show as well whether a block runs."""  # noqa: E501


REPORTED = """
for folder in sorted(Path("runs").iterdir()):
    assert diploee.report(folder, f"{folder.name}.html").stat().st_size > 100_000
"""
"""Check of every run of the page on Python."""


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, blocks in RUN.items() if blocks])
def test_every_block_of_a_page_runs_in_turn(name: str, tmp_path: Path) -> None:
    write_logs(tmp_path / "job_4711")
    write_telemetry(tmp_path)
    bin_folder = Path(sys.executable).parent
    blocks, strict = RUN[name], []
    if name == "README.md":
        shutil.copytree(ROOT / "scenarios", tmp_path / "scenarios")
        first = INSTALL[0].partition(" && ")[2].strip()
        blocks, strict = (
            [("bash", f"{first} --engine compiled --quiet"), *blocks],
            ["-W", "error"],
        )
    if name == "docs/python.md":
        blocks = [(language, block + REPORTED) for language, block in blocks]
    for language, block in blocks:
        for long, short in SHORTER.items():
            block = block.replace(long, short)
        line = {
            "bash": [
                "bash",
                "-euo",
                "pipefail",
                "-c",
                f'PATH="{bin_folder}:$PATH"\n{block}',
            ],
            "python": [sys.executable, *strict, "-c", block],
        }[language]
        done = subprocess.run(
            line, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{block}\n{done.stderr}"


def commands(block: str) -> list[list[str]]:
    """Return the words of every command of diploee in a block of bash, without
    redirections."""
    block = re.sub(
        r"<<'END'.*?^END$", "", block.replace("\\\n", " "), flags=re.M | re.S
    )
    found = []
    for line in re.split(r"\n|&&|;", block):
        words = shlex.split(
            re.split(r"\s[>|]\s", line.removeprefix("$ "))[0], comments=True
        )
        if words[:1] == ["diploee"]:
            found.append(words[1:])
    return found


def test_every_block_is_written_right_and_every_command_is_one_that_there_is() -> None:
    for name, (language, block) in ((n, b) for n, of in PAGES.items() for b in of):
        if language == "yaml":
            assert yaml.safe_load(block), (name, block)
        if language == "python":
            compile(block, name, "exec")
        for words in commands(block) if language in ("bash", "console") else ():
            command, told = every_command(), f"{name}: {' '.join(words)}"
            while hasattr(command, "commands"):
                assert words[0] in command.commands, told
                command = command.commands[words.pop(0)]
            command.make_context(told, words)


@cache
def every_command() -> Any:
    return typer.main.get_command(application())


def test_navigation_names_every_page_once() -> None:
    def places(entry: Any) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        inner = entry.values() if isinstance(entry, dict) else entry
        return [place for each in inner for place in places(each)]

    text = (ROOT / "mkdocs.yml").read_text("utf-8")
    named = places(yaml.load(text, yaml.BaseLoader)["nav"])
    generated = {f"reference/{of}.md" for of in ("keys", "sweep_keys", "commands")}
    pages = {
        str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")
    }
    assert len(named) == len(set(named))
    assert pages | generated == {
        place for place in named if not place.startswith("notebooks/")
    }


def test_version_is_that_of_the_newest_release_or_a_development_version_after_it() -> (
    None
):
    citation = yaml.load((ROOT / "CITATION.cff").read_text("utf-8"), yaml.BaseLoader)
    heads = re.findall(
        r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE
    )
    assert heads[:2] == ["Unreleased", citation["version"]]
    number, _, development = diploee.__version__.partition(".dev")
    ahead = [*map(int, number.split("."))] > [*map(int, citation["version"].split("."))]
    assert (number == citation["version"] and not development) or (
        ahead and development == "0"
    )


def test_ci_runs_the_install_blocks_word_for_word() -> None:
    assert [block for language, block in PAGES["README.md"] if language == "bash"][
        :2
    ] == INSTALL
    ci = (ROOT / ".ci" / "run").read_text("utf-8")
    assert all(f"readme_block {n}" in ci for n in (1, 2))


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 150
