"""A headless Chromium, driven through the system's chromedriver; no download."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
)
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def unavailable(reason: str) -> Any:
    """Skip, but fail where CI runs the tests: there a browser must be."""
    if os.environ.get("CI"):
        pytest.fail(f"CI must have a browser: {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    try:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
    except ImportError:
        unavailable("selenium is not installed: pip install diploee[browser-test]")
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        unavailable(
            "no chromium with chromedriver: apt-get install chromium chromium-driver"
        )
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for argument in (
        *ARGUMENTS,
        f"--user-data-dir={tmp_path_factory.mktemp('chromium')}",
    ):
        options.add_argument(argument)
    options.set_capability(
        "goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"}
    )
    chromium = webdriver.Chrome(options=options, service=Service(driver))
    yield chromium
    chromium.quit()


@pytest.fixture
def screenshots() -> Path | None:
    """Where to keep screenshots for the README: the folder in DIPLOEE_SCREENSHOTS."""
    folder = os.environ.get("DIPLOEE_SCREENSHOTS")
    return Path(folder) if folder else None
