from __future__ import annotations

import ast
import importlib
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import numba
import numpy as np
import pytest

import diploee

KERNELS = """
from diploee.base.jit import njit

FACTOR = 3

@njit()
def total(values):
    \"\"\"Add up.\"\"\"
    found = 0 * values[0]
    for k in range(values.size):
        found += _and_one(_times(values[k]))
    return found

@njit(inline="always")
def _times(x):
    return FACTOR * x

@njit()
def _and_one(x):
    return x + 1
"""
VALUES = np.arange(10)
TOTAL = 3 * 45 + 10

_NAMES = (f"kernels_{k}" for k in itertools.count())


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], ModuleType]:
    """Load the module of kernels anew, as a new process would."""
    name = next(_NAMES)
    (tmp_path / f"{name}.py").write_text(KERNELS, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")

    def load() -> ModuleType:
        sys.modules.pop(name, None)
        return importlib.import_module(name)

    return load


def cached(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.nb?"))


def hits(module: ModuleType) -> int:
    return sum(module.total.stats.cache_hits.values())


@pytest.mark.slow
def test_kernels_that_call_kernels_are_compiled_once_for_all_processes(
    load: Callable[[], ModuleType], tmp_path: Path
) -> None:
    first = load()
    imported = first.total
    assert imported.__doc__ == "Add up."
    assert first.total(VALUES) == TOTAL
    assert imported(VALUES * 1.0) == TOTAL  # as by a module that imported it before
    assert all(hasattr(f, "nopython_signatures") for f in (first.total, first._and_one))
    assert {path.parent.name for path in cached(tmp_path)} == {"__pycache__"}
    second = load()
    assert second.total(VALUES) == TOTAL
    assert hits(second) == 1


def test_without_compilation_kernels_are_python(
    load: Callable[[], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numba.config, "DISABLE_JIT", True)
    assert load().total(VALUES) == TOTAL


@pytest.mark.slow
def test_code_that_is_kept_and_can_t_be_read_is_compiled_and_kept_anew(
    load: Callable[[], ModuleType], tmp_path: Path
) -> None:
    """As of a version whose classes had other names: numba reads an index whole."""
    assert load().total(VALUES) == TOTAL
    for path in tmp_path.rglob("*.nbi"):
        path.write_bytes(path.read_bytes()[:-20])
    assert load().total(VALUES) == TOTAL
    third = load()
    assert third.total(VALUES) == TOTAL
    assert hits(third) == 1


@pytest.mark.slow
@pytest.mark.parametrize("given", ["", "/proc/nope"])
def test_kernels_are_compiled_and_not_kept_where_no_folder_can_be_written(
    load: Callable[[], ModuleType],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    given: str,
) -> None:
    # Which keeps root out, too
    (tmp_path / "__pycache__").write_text("a file", "utf-8")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, "/proc/nope")
    monkeypatch.setattr(numba.config, "CACHE_DIR", given)
    assert load().total(VALUES) == TOTAL
    assert not cached(tmp_path)


def start(module: ModuleType) -> subprocess.Popen[str]:
    """Call `total` in a process of its own; it prints its result alone."""
    assert module.__file__ is not None
    return subprocess.Popen(
        [
            sys.executable,
            "-BW",
            "error",
            "-c",
            f"import numpy, {module.__name__} as m; print(m.total(numpy.arange(10)))",
        ],
        cwd=Path(module.__file__).parent,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.slow
def test_processes_that_compile_at_once_do_not_disturb_each_other(
    load: Callable[[], ModuleType], tmp_path: Path
) -> None:
    module = load()
    processes = [start(module) for _ in range(2)]
    assert [process.communicate()[0] for process in processes] == [f"{TOTAL}\n"] * 2
    assert not list(tmp_path.rglob("*.tmp*"))
    assert load().total(VALUES) == TOTAL


@pytest.mark.slow
def test_threads_that_come_first_together_get_the_same(
    load: Callable[[], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that comes while another makes a kernel must not see it before what it calls
    is made."""
    make = numba.njit

    def slow(**options: Any) -> Any:
        time.sleep(0.1)
        return make(**options)

    monkeypatch.setattr(numba, "njit", slow)
    module = load()
    with ThreadPoolExecutor(8) as threads:
        calls = []
        for _ in range(8):
            calls.append(threads.submit(module.total, VALUES))
            time.sleep(0.04)
        assert [call.result() for call in calls] == [TOTAL] * 8


def test_code_is_compiled_anew_where_its_module_has_changed(
    load: Callable[[], ModuleType], tmp_path: Path
) -> None:
    assert load().total(VALUES) == TOTAL
    (path,) = tmp_path.glob("kernels_*.py")
    path.write_text(KERNELS.replace("FACTOR = 3", "FACTOR = 10 "), "utf-8")
    module = load()
    assert module.total(VALUES) == 10 * 45 + 10
    assert hits(module) == 0


def kernels_of(path: Path) -> dict[str, set[str]]:
    """Return the names that each kernel of a file uses."""
    return {
        node.name: {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.FunctionDef)
        and any("njit" in ast.unparse(decorator) for decorator in node.decorator_list)
    }


def test_kernels_call_none_of_another_file_whose_changes_numba_would_not_see() -> None:
    files = {
        path: kernels_of(path) for path in Path(diploee.__file__).parent.rglob("*.py")
    }
    everywhere = {name for kernels in files.values() for name in kernels}
    assert len(everywhere) > 40
    for path, kernels in files.items():
        for name, used in kernels.items():
            assert used & everywhere <= set(kernels), (path, name)
