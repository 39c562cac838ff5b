from __future__ import annotations

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

pytest.importorskip("resource", reason="limits on file size need POSIX")

INNER = """
from diploee.base.jit import njit

FACTOR = 3

@njit(inline="always")
def times(x):
    return FACTOR * x

@njit()
def tripled(x):
    return times(x)
"""
OUTER = """
from diploee.base.jit import njit
from {inner} import tripled

@njit()
def total(values):
    \"\"\"Add up.\"\"\"
    found = 0 * values[0]
    for k in range(values.size):
        found += _and_one(tripled(values[k]))
    return found

@njit()
def _and_one(x):
    return x + 1
"""
VALUES = np.arange(10)
TOTAL = 3 * 45 + 10

_NAMES = (f"kernels_{k}" for k in itertools.count())


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], ModuleType]:
    """Load the two modules of kernels anew, as a new process would."""
    inner, outer = next(_NAMES), next(_NAMES)
    (tmp_path / f"{inner}.py").write_text(INNER, "utf-8")
    (tmp_path / f"{outer}.py").write_text(OUTER.format(inner=inner), "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")

    def load() -> ModuleType:
        for name in (inner, outer):
            sys.modules.pop(name, None)
        return importlib.import_module(outer)

    return load


@pytest.fixture
def no_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave nothing beside the modules or at home where numba could write, for root
    neither."""
    (tmp_path / "__pycache__").write_text("a file", "utf-8")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, "/proc/nope")
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))


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


@pytest.mark.slow
def test_what_uses_linear_algebra_beside_the_kernels_has_it(
    load: Callable[[], ModuleType],
) -> None:
    """Kernels do without scipy.linalg; it is still found and loaded where it is called
    for."""
    assert load().total(VALUES) == TOTAL
    square = np.array([[4.0, 1.0], [1.0, 3.0]])
    compiled = numba.njit(lambda of: np.cov(of @ np.linalg.inv(of)))
    assert compiled(square) == pytest.approx(np.cov(np.eye(2)))


def test_without_compilation_kernels_are_python(
    load: Callable[[], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numba.config, "DISABLE_JIT", True)
    assert load().total(VALUES) == TOTAL


@pytest.mark.slow
@pytest.mark.usefixtures("no_cache_folder")
@pytest.mark.parametrize("given", ["", "/proc/nope"])
def test_code_is_kept_in_a_private_folder_where_numba_finds_no_place(
    load: Callable[[], ModuleType],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    given: str,
) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", given)
    for expected in (0, 1):
        module = load()
        assert module.total(VALUES) == TOTAL
        assert hits(module) == expected
    (folder,) = (tmp_path / "tmp").iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert cached(folder)


def open_to_all(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)


def a_link(folder: Path) -> None:
    target = folder.with_name("target")
    target.mkdir(mode=0o700)
    folder.symlink_to(target)


def of_another(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    os.chown(folder, os.getuid() + 1, -1)


def a_file(folder: Path) -> None:
    folder.write_text("", "utf-8")


@pytest.mark.slow
@pytest.mark.usefixtures("no_cache_folder")
@pytest.mark.parametrize("plant", [open_to_all, a_link, of_another, a_file])
def test_folder_that_others_may_have_made_or_can_write_is_not_used(
    load: Callable[[], ModuleType], tmp_path: Path, plant: Callable[[Path], None]
) -> None:
    if plant is of_another and os.getuid():
        pytest.skip("only root can give a folder away")
    plant(tmp_path / "tmp" / f"diploee-{os.getuid()}")
    assert load().total(VALUES) == TOTAL
    assert not cached(tmp_path)


@pytest.mark.slow
@pytest.mark.usefixtures("no_cache_folder")
def test_working_folder_gets_no_cache_where_no_folder_for_temporary_files_is_left(
    load: Callable[[], ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path / "tmp")
    assert load().total(VALUES) == TOTAL
    assert not list((tmp_path / "tmp").iterdir())


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "half": lambda data: data[: len(data) // 2],
    "cut": lambda data: data[:-1],
    "foreign": lambda data: b"\x80\x05" + bytes(range(256)),
    "reversed": lambda data: data[::-1],
}


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
def test_damaged_cache_is_replaced(
    load: Callable[[], ModuleType], tmp_path: Path, suffix: str
) -> None:
    assert load().total(VALUES) == TOTAL
    for name, damage in DAMAGES.items():  # what each leaves is whole again for the next
        for path in cached(tmp_path):
            if path.suffix == f".{suffix}":
                path.write_bytes(damage(path.read_bytes()))
        for expected in (0, 1):
            module = load()
            assert module.total(VALUES) == TOTAL
            assert (name, hits(module)) == (name, expected)


@pytest.mark.slow
def test_code_of_another_signature_is_not_taken(
    load: Callable[[], ModuleType], tmp_path: Path
) -> None:
    module = load()
    assert module.total(VALUES) == TOTAL
    assert module.total(VALUES * 1.5) == pytest.approx(1.5 * 135 + 10)
    first, second = sorted(tmp_path.rglob("*.total-*.nbc"))
    swapped = first.read_bytes(), second.read_bytes()
    second.write_bytes(swapped[0])
    first.write_bytes(swapped[1])
    module = load()
    assert module.total(VALUES) == TOTAL
    assert module.total(VALUES * 1.5) == pytest.approx(1.5 * 135 + 10)


def start(module: ModuleType, before: str = "") -> subprocess.Popen[str]:
    """Call `total` in a process of its own, after other code; it prints its result
    alone."""
    assert module.__file__ is not None
    folder = Path(module.__file__).parent
    code = (
        f"{before}\nimport numpy, {module.__name__} as m; "
        "print(m.total(numpy.arange(10)))"
    )
    return subprocess.Popen(
        [sys.executable, "-BW", "error", "-c", code],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.slow
def test_full_disk_costs_only_the_cache(
    load: Callable[[], ModuleType], tmp_path: Path
) -> None:
    full = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, 2_000))"
    assert start(load(), full).communicate()[0] == f"{TOTAL}\n"
    assert not [path for path in cached(tmp_path) if path.suffix == ".nbc"]
    assert not list(tmp_path.rglob("*.tmp*"))


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
@pytest.mark.usefixtures("no_cache_folder")
def test_nothing_is_kept_for_a_system_that_knows_no_owners(
    load: Callable[[], ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "getuid")
    assert load().total(VALUES) == TOTAL
    assert not list((tmp_path / "tmp").iterdir())


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


def test_code_is_compiled_anew_where_a_module_that_it_takes_kernels_from_has_changed(
    load: Callable[[], ModuleType], tmp_path: Path
) -> None:
    assert load().total(VALUES) == TOTAL
    (inner,) = [
        path
        for path in tmp_path.glob("kernels_*.py")
        if "FACTOR = 3" in path.read_text()
    ]
    inner.write_text(INNER.replace("FACTOR = 3", "FACTOR = 10 "), "utf-8")
    module = load()
    assert module.total(VALUES) == 10 * 45 + 10
    assert hits(module) == 0
