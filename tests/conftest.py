"""Fixtures shared by all tests; pytest also puts this folder on the path, for
`builders`."""

from __future__ import annotations

import gc
import os
import shutil

# Before NumPy comes in: its threads would only wait for each other, beside pytest's own
# workers.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from builders import tiny_library, tiny_scenario, write_library, write_scenario
from hypothesis import HealthCheck, settings
from samples import PUBLISHED, synthetic_sample

from diploee.profiles import ProfileLibrary
from diploee.scenario import Scenario

MEMORY = Path("/dev/shm")
MARKED = ("bench", "browser", "dask", "grid_tools", "paper")
"""Folders whose tests all have a marker."""

if not hasattr(os, "mkfifo"):
    os.mkfifo = lambda *_: pytest.skip("no pipes on this system")

gc.disable()  # until all tests are collected: what they are made of stays to the end

# The same examples on every machine, and time enough for a kernel that compiles at its
# first call. A fixture is set up once for all examples of a test: each writes its files
# anew.
settings.register_profile(
    "diploee",
    derandomize=True,
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("diploee")


def is_default(config: pytest.Config) -> bool:
    """Whether the default suite runs."""
    return "not slow" in config.getoption("markexpr")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import nothing of folders of which the default suite takes no test."""
    parts = collection_path.relative_to(Path(__file__).parent).parts
    return True if parts and parts[0] in MARKED and is_default(config) else None


def pytest_configure(config: pytest.Config) -> None:
    """Keep the files of tests in memory: tens of thousands of small ones would wait for
    the disk.

    The default suite alone, which writes some 100 MB.
    """
    if (
        is_default(config)
        and os.access(MEMORY, os.W_OK)
        and shutil.disk_usage(MEMORY).free > 4 << 30
    ):
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name bytes, long text and lambdas by their parameter; pytest numbers them.

    Content such as a packed file may differ between the workers that must agree on test
    names.
    """
    name = getattr(val, "__name__", val)
    if isinstance(name, str) and (
        len(name) > 100 or not name.isprintable() or name == "<lambda>"
    ):
        return argname
    return argname if isinstance(val, bytes) else None


class _Backwards(pytest.Dir):
    """A folder whose tests are collected from the last to the first."""

    def collect(self) -> Iterator[pytest.Item | pytest.Collector]:
        yield from reversed([*super().collect()])


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Dir | None:
    """Let every other worker begin at the end: half of what it needs others have
    compiled then."""
    backwards = os.environ.get("PYTEST_XDIST_WORKER", "gw0")[-1] in "13579"
    return _Backwards.from_parent(parent, path=path) if backwards else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have one order of files, wherever collecting began."""
    items.sort(key=lambda item: item.path)


def pytest_collection_finish() -> None:
    """Look no more for garbage among the tests themselves."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)  # without pytest-xdist there are no workers
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give a file to one worker, in order: what a file's tests share is made once."""
    from xdist.scheduler import LoadFileScheduling

    config.option.loadscopereorder = False
    return LoadFileScheduling(config, log) if config.option.dist == "load" else None


@pytest.fixture(scope="session", autouse=True)
def _without_the_time_of_the_disk(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """Sync nothing: no power is cut here, and one test sees that files are synced."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _handle: None)
        yield
    if (
        tmp_path_factory.getbasetemp().is_relative_to(MEMORY)
        and not request.session.testsfailed
    ):
        shutil.rmtree(tmp_path_factory.getbasetemp(), ignore_errors=True)


@pytest.fixture(params=["synthetic", "published"])
def sample(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], Path]:
    """Find a sample by its name in `samples`; synthetic ones always, published ones if
    at hand."""

    def find(name: str) -> Path:
        if request.param == "synthetic":
            return synthetic_sample(tmp_path / "samples", name)
        if not (PUBLISHED / name).exists():
            pytest.skip(f"the published sample {name} is not at hand")
        return PUBLISHED / name

    return find


@pytest.fixture
def scenario() -> Scenario:
    """Two days of jobs on a pool of 12 nodes."""
    return tiny_scenario()


@pytest.fixture(scope="session")
def library() -> ProfileLibrary:
    """Four profiles of two workloads, on 1, 2 and 4 nodes."""
    return tiny_library()


@pytest.fixture
def scenario_file(tmp_path: Path) -> Path:
    """The tiny scenario as a file."""
    return write_scenario(tmp_path / "tiny.yaml")


@pytest.fixture(scope="session")
def library_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny library as a folder of profile files; do not change it."""
    return write_library(tmp_path_factory.mktemp("profiles"))
