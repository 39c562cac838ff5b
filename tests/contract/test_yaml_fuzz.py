"""Damaged files of users: each loads, or is refused in plain lines, within seconds."""

from __future__ import annotations

import random
import re
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from builders import tiny_library
from command_line import MAX_S
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from diploee.base.errors import InputError
from diploee.base.files.paths import shipped
from diploee.fits.jobs.classes import read_rules
from diploee.grid.limits.file import load_limits
from diploee.integrations.openg2g import load_specs
from diploee.scenario import Scenario, load_scenario, scenario_from_dict
from diploee.sweeps import Sweep, load_ensemble, load_sweep
from diploee.sweeps.expand import expand

LIMITS = """name: grid code
ramps:
  - {interval: 10 s, up_mw_per_s: 0.1, down_mw_per_min: 3}
swings:
  - {window: 1 min, max_mw: 2}
  - {window: 5 s, max_mw: {mw: 2, percent_of_peak: 3}, filter: {low_hz: 0.1, high_hz: 55}}
band_rms:
  - {low_hz: 0.1, high_hz: 0.2, max_rms_mw: 0.5}
lines:
  - {low_hz: 0.1, high_hz: 0.2, max_amplitude_mw: {percent_of_nominal: 0.25}, mark: S2}
power_factor:
  - {min_lagging: 0.95}
load_factor:
  - {min: 0.75, interval: 1 h}
peaks:
  - {max_mw: 12, interval: 15 min}
daily_energy_mwh: 200
"""  # noqa: E501
SPECS = """models:
  - model_label: a
    model_id: org/a
    gpu_model: H100
    task: chat
    gpus_per_replica: 4
    itl_deadline_s: 0.08
    batch_sizes: [8, 16, 32]
    feasible_batch_sizes: [8, 16]
  - {model_label: b, model_id: org/b, gpu_model: H100, task: chat, batch_sizes: [4]}
"""
RULES = """- {workload: a, max_nodes: 4}
- workload: b
  scale_from_n_nodes: 2
  type: ai
"""
N_FILES, N_BATCHES = 100, 20
OF_PYDANTIC = re.compile(
    r"Input should|valid (dict|tuple|integer|number|string|list)|pydantic|https?:|type="
    r"|instance of|another value \(|Traceback|Extra inputs|Field required|Value error"
    r"|function-|\[key\]"
)
WORDS = (
    *re.split(
        r"\s{2,}",
        r"""null  true  ~  ''  []  {}  [[[]]]  -1  0  1e308  .nan  -.inf  1e999  010
        1:30  2018-13-45  =  <<  9999-12-31  !!bool x  !!timestamp x  !x  ! 5  &a
        !!python/name:os.system   &a [*a]  *a  "\uD800"  "\0"  "\e[31m"  '  "  |  >  %
        @  <<: *a  <<: {x: 1}  ? {a: 1}  ? [a]  - -  :  ---  ...  # x  1 year  60 s
        1e3 d  ../x  /dev/zero  .  x""",
    ),
    *("9" * 400, "9" * 5_000, "0x" + "f" * 900, "[" * 2_000, "{a: " * 900),
    *("a " * 5_000, "\x1b", "\u202e", "\ufeff", "\t", "\r", "\u2028", ": "),
)


def damaged(text: str, draw: random.Random) -> str:
    """Return a text with one to six lines, words or characters changed."""
    lines = text.split("\n")
    for _ in range(draw.randint(1, 6)):
        row, other = draw.randrange(len(lines)), draw.randrange(len(lines))
        line, word = lines[row], draw.choice(WORDS)
        match draw.randrange(9):
            case 0:
                lines.insert(row, lines[other])
            case 1 if len(lines) > 1:
                del lines[row]
            case 2:
                lines[row], lines[other] = lines[other], line
            case 3:
                lines[row] = f"{line.partition(':')[0]}: {word}"
            case 4:
                lines[row] = f"{word}{line.lstrip()[len(word) :]}"
            case 5:
                lines[row] = f"{' ' * draw.randint(0, 9)}{line.strip()}"
            case 6:
                at = draw.randint(0, len(line))
                lines[row] = line[:at] + word + line[at:]
            case 7:
                a, b = sorted(draw.randint(0, len(line)) for _ in "ab")
                lines[row] = line[:a] + line[b:]
            case 8:
                lines = lines[: row + 1] + lines[draw.randrange(len(lines)) :]
    return "\n".join(lines)


def looked_at(found: object) -> None:
    """Look at what was loaded as the commands do."""
    if isinstance(found, Scenario):
        assert found.n_intervals >= 1
        assert found.horizon_ms == found.n_intervals * found.resolution_ms
        assert found.start_with_zone.timestamp() < 1e11
        again = scenario_from_dict(found.model_dump(mode="json"))
        assert again.sha256() == found.sha256()
    if isinstance(found, Sweep):
        expand(found, tiny_library(), max_runs=20)


def check_messages(error: InputError) -> None:
    assert error.problems
    for problem in error.problems:
        assert problem.isprintable(), problem
        assert re.match(r"\S.*?(: | \.\.\. )\S", problem), problem  # a long key is cut
        assert len(problem) < 500, problem
        assert not OF_PYDANTIC.search(problem), problem


def kinds() -> list[tuple[Callable[[Path], object], str]]:
    scenarios = [path.read_text("utf-8") for path in shipped("scenario").values()]
    sweeps = [path.read_text("utf-8") for path in shipped("sweep").values()]
    return [
        *((load_scenario, text) for text in scenarios),
        *((load_ensemble, text) for text in scenarios[:1]),
        *((read, text) for read in (load_sweep, load_ensemble) for text in sweeps),
        *((load_limits, LIMITS), (load_specs, SPECS), (read_rules, RULES)) * 3,
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "batch",
    [0, *(pytest.param(k, marks=pytest.mark.fuzz) for k in range(1, N_BATCHES))],
)
def test_damaged_file_loads_or_is_refused_in_plain_lines(
    tmp_path: Path, batch: int
) -> None:
    draw = random.Random(batch)
    path = tmp_path / "damaged.yaml"
    n_refused = 0
    for _ in range(N_FILES):
        read, text = draw.choice(kinds())
        path.write_bytes(damaged(text, draw).encode("utf-8", "surrogatepass"))
        started = time.process_time()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                looked_at(read(path))
        except InputError as error:
            n_refused += 1
            check_messages(error)
        assert time.process_time() - started < MAX_S, path.read_text(
            "utf-8", errors="replace"
        )
    assert n_refused > 0


PARTS = "facility pools main n_nodes streams training classes 0 seed x"
keys = st.lists(st.sampled_from(["", *PARTS.split()]), max_size=5).map(".".join)


@pytest.mark.slow
@settings(phases=[Phase.explicit, Phase.reuse, Phase.generate], max_examples=50)
@given(
    st.lists(st.text(max_size=20) | st.tuples(keys, st.text(max_size=9)), min_size=1)
)
def test_any_override_loads_or_fails_with_its_key(
    scenario_file: Path, given_: list[str | tuple[str, str]]
) -> None:
    words = [each if isinstance(each, str) else "=".join(each) for each in given_]
    try:
        load_scenario(scenario_file, words[:3])
    except InputError as error:
        check_messages(error)
