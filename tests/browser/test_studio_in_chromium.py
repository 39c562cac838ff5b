"""The studio in a real headless Chromium: a site is built, seen, mended and taken away."""  # noqa: E501

from __future__ import annotations

import json
import shlex
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from command_line import PATIENCE_S, run

from diploee import open_run
from diploee.studio.page_contents import StudioFolder
from diploee.studio.server import Studio

exceptions = pytest.importorskip("selenium.common.exceptions")
keys = pytest.importorskip("selenium.webdriver.common.keys").Keys

pytestmark = [
    pytest.mark.browser,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

RAMPS = """\
name: ramps
ramps:
  - {interval: 10 min, up_mw_per_min: 0.07, down_mw_per_min: 0.07}
"""


@pytest.fixture
def studio(tmp_path: Path) -> Iterator[Studio]:
    """A studio on a folder with a file of limits."""
    folder = tmp_path.resolve() / "site"
    folder.mkdir()
    (folder / "ramps.yaml").write_text(RAMPS, "utf-8")
    made = Studio(StudioFolder(folder), 3600)
    thread = threading.Thread(target=made.serve)
    thread.start()
    yield made
    made.server.should_exit = True
    thread.join(PATIENCE_S)


class Seen:
    """The page in a browser."""

    def __init__(self, browser: Any, studio: Studio) -> None:
        self.browser = browser
        browser.get("about:blank")  # the page before asks its stopped studio no more
        browser.get_log("browser")
        browser.get(studio.address)

    def at(self, selector: str) -> Any:
        return self.browser.find_element("css selector", selector)

    def wait(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            # The page draws itself anew
            with suppress(exceptions.StaleElementReferenceException):
                if condition():
                    return
            assert time.monotonic() < deadline, self.status
            time.sleep(0.05)

    @property
    def status(self) -> str:
        text: str = self.at("#status").text
        return text

    def type(self, key: str, text: str) -> None:
        """Replace the text of a field; the page may fill in a default meanwhile."""
        self.at(f"[name='{key}']").send_keys(keys.CONTROL, "a", keys.NULL, text)

    def choose(self, key: str, value: str) -> None:
        """Choose from a list."""
        self.at(f"[name='{key}'] option[value='{value}']").click()

    def ask_for_year(self) -> str:
        """Run the whole and return the text of its report's first screen."""
        self.wait(lambda: "this week only" in self.at("#picture-kind").text)
        self.at("#year").click()
        self.wait(
            lambda: (
                self.status == "Done." and "whole run" in self.at("#picture-kind").text
            )
        )
        return self.first_screen()

    def wait_for_week(self) -> None:
        """Wait until the week's run has ended, whatever follows it."""
        self.wait(lambda: self.browser.find_elements("css selector", "#report iframe"))
        self.wait(lambda: not self.status.startswith("Week"))

    def first_screen(self) -> str:
        self.wait(
            lambda: (
                len(self.browser.find_elements("css selector", "#report iframe")) == 1
            )
        )
        self.browser.switch_to.frame(self.at("#report iframe"))
        self.wait(lambda: self.browser.find_elements("css selector", "#answer"))
        text: str = self.at("#answer").text
        self.browser.switch_to.default_content()
        return text

    def taken(self, what: str) -> str:
        """Return what a button copies."""
        self.browser.execute_script(
            "window.taken = ''; navigator.clipboard.writeText = (t) => { window.taken "
            "= t; return Promise.resolve(); }"
        )
        self.at(f"[data-copy='{what}']").click()
        text: str = self.browser.execute_script("return window.taken")
        return text


def test_site_is_built_seen_mended_taken_away_and_runs_the_same_by_command_line(
    browser: Any, studio: Studio, tmp_path: Path
) -> None:
    page = Seen(browser, studio)
    page.wait(lambda: browser.find_elements("css selector", "[name='site.poi_mw']"))
    site = {
        "poi_mw": "10",
        "training_share": "0",
        "largest_job": "0",
        "colocation_share": "1",
    }
    for name, value in site.items():
        page.type(f"site.{name}", value)
    page.choose("limits", "[ramps.yaml]")
    page.wait(lambda: "ramps.yaml" in page.at("#command").get_attribute("textContent"))
    assert "not met" in page.ask_for_year()

    page.type("facility.stages.battery.power_mw", "5")
    page.type("facility.stages.battery.smoothing_s", "1800")
    page.wait(lambda: "smoothing_s: 1800" in page.at("#yaml").get_attribute("value"))
    assert "battery" in page.at("#line").text
    text = page.ask_for_year()
    assert "not met" not in text
    assert "met" in text
    assert "fall within" in page.at("#differences").text

    yaml, command = page.taken("text"), page.taken("command")
    (tmp_path / "ramps.yaml").write_text(RAMPS, "utf-8")
    (tmp_path / "taken.yaml").write_text(yaml, "utf-8")
    done = run(
        "run",
        "taken.yaml",
        "--engine",
        "compiled",
        "--quiet",
        "--out",
        "own",
        cwd=tmp_path,
    )
    assert (done.code, done.err) == (0, "")
    (newest, *_) = sorted(
        studio.runs_folder.iterdir(), key=lambda p: -p.stat().st_mtime
    )
    for name in ("facility.parquet", "metrics.json", "limits.json"):
        assert (newest / name).read_bytes() == (tmp_path / "own" / name).read_bytes()
    for line in command.splitlines():
        words = [
            *shlex.split(line)[1:],
            *(["--set", "duration=2 h"] if " run " in line else []),
        ]
        assert run(*words, cwd=tmp_path).code == 0
    (of_command,) = (tmp_path / "runs").iterdir()
    seen, again = open_run(newest).manifest, open_run(of_command).manifest
    for part in ("facility", "streams", "request_streams", "seed", "limits"):
        assert json.dumps(seen["scenario"][part]) == json.dumps(again["scenario"][part])


@pytest.mark.parametrize("width", [420, 800, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_fits_its_window_and_every_control_has_a_name(
    width: int, scheme: str, browser: Any, studio: Studio, screenshots: Path | None
) -> None:
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    browser.set_window_size(width, 1000)
    page = Seen(browser, studio)
    page.wait_for_week()
    page.at("#search").send_keys("battery")
    page.wait(lambda: "key" in page.at("#count").text)
    wide, inner = browser.execute_script(
        "return [document.documentElement.scrollWidth, window.innerWidth]"
    )
    assert wide <= inner
    unnamed = browser.execute_script(
        "return [...document.querySelectorAll('input, select, textarea, button, "
        "iframe, progress')].filter((e) => !(e.labels && e.labels.length || "
        "e.getAttribute('aria-label') || e.title || e.textContent.trim())).map((e) => "
        "e.outerHTML)"
    )
    assert unnamed == []
    if screenshots is not None:
        page.at("#search").clear()
        browser.execute_script("scrollTo(0, 0)")
        browser.save_screenshot(str(screenshots / f"studio-{width}-{scheme}.png"))
    problems = [
        line for line in browser.get_log("browser") if line["level"] == "SEVERE"
    ]
    assert problems == []


def test_chosen_limit_is_shown_by_its_field_while_it_has_the_focus(
    browser: Any, studio: Studio
) -> None:
    page = Seen(browser, studio)
    page.wait(lambda: browser.find_elements("css selector", "[name='limits']"))
    browser.execute_script("document.querySelector(\"[name='limits']\").focus()")
    page.choose("limits", "[ramps.yaml]")
    page.wait(lambda: "ramps.yaml" in page.at("#command").get_attribute("textContent"))
    assert page.at("[name='limits']").get_attribute("value") == "[ramps.yaml]"


def test_report_of_an_earlier_site_is_greyed_and_named_until_its_own_is_there(
    browser: Any, studio: Studio
) -> None:
    page = Seen(browser, studio)
    page.wait_for_week()
    page.type("site.poi_mw", "30")
    page.wait(
        lambda: page.at("#report-kind").text.startswith("Not the site in the form")
    )
    assert "20 MW at the meter" in page.at("#report-kind").text
    assert "ghost" in page.at("#report").get_attribute("class")
    page.at("#year").click()
    page.wait(lambda: page.status.startswith("Year"))
    assert not page.at("[data-take='datasheet']").is_enabled()
    page.wait(
        lambda: page.status == "Done." and "whole run" in page.at("#report-kind").text
    )
    assert "ghost" not in page.at("#report").get_attribute("class")
    assert page.at("[data-take='datasheet']").is_enabled()


def test_date_of_six_digits_is_an_error_at_its_field_and_blocks_nothing(
    browser: Any, studio: Studio
) -> None:
    page = Seen(browser, studio)
    page.wait_for_week()
    browser.execute_script(
        "const f = document.getElementById('from'); f.value = '123456-01-01';"
        "f.dispatchEvent(new Event('change'))"
    )
    page.wait(lambda: "Not a date" in page.at("#from-error").text)
    page.type("site.occupancy", "0.5")
    page.wait(lambda: "preliminary" in page.at("#picture-kind").text.lower())
    page.wait(lambda: page.at("#differences").text != "")


def test_run_longer_than_allowed_is_run_when_its_button_is_pressed_again(
    browser: Any, studio: Studio
) -> None:
    studio.at_most_s = 6  # between the forecasts of a week and of the year
    page = Seen(browser, studio)
    page.wait(lambda: "press the button" in page.status)
    assert "--" not in page.status
    assert page.at("#year").text.startswith("Run it all the same")
    page.at("#year").click()
    page.wait(lambda: page.status == "Done.")


def test_mistake_is_shown_at_its_field_and_nothing_runs_until_it_is_mended(
    browser: Any, studio: Studio
) -> None:
    page = Seen(browser, studio)
    page.wait_for_week()
    page.type("site.occupancy", "7")
    page.wait(lambda: "at most 0.95" in page.at("#f-site_occupancy-error").text)
    assert page.at("[name='site.occupancy']").get_attribute("aria-invalid") == "true"
    assert not page.at("#year").is_enabled()
    page.type("site.occupancy", "0.5")
    page.wait(lambda: page.at("#f-site_occupancy-error").text == "")
    page.wait(lambda: page.at("#differences").text != "")
    page.at("#undo").click()
    page.wait(
        lambda: page.at("[name='site.occupancy']").get_attribute("value") != "0.5"
    )


def test_cancelled_run_leaves_nothing(browser: Any, studio: Studio) -> None:
    page = Seen(browser, studio)
    page.wait_for_week()
    page.at("#year").click()
    page.wait(lambda: page.status.startswith("Year: "))
    page.at("#cancel").click()
    assert page.status.startswith("Cancelled")
    page.wait(lambda: not [*studio.runs_folder.glob("*")])
