"""The report in a real headless Chromium: it opens, draws, and reacts, without a
network.

``DIPLOEE_SCREENSHOTS=FOLDER`` keeps the screenshots, for the README.
"""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from command_line import wait_until

from diploee import load_scenario
from diploee import run as simulate
from diploee.api.sites import starter
from diploee.reports import write_report
from diploee.reports.build import build_report
from diploee.scenario.starter import SiteAnswers

pytestmark = [
    pytest.mark.browser,
    # sockets of selenium's own HTTP client, closed when it is collected
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

LOCAL = ("file:", "data:", "blob:", "about:")
WIDE, NARROW = (1280, 900), (400, 800)
SIZE_LIMIT = 3_000_000
YEAR_LIMIT_S = 60.0


@pytest.fixture(scope="session")
def run_folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Five weeks of the 10 MW colocation data center at two utilizations."""
    folders = []
    for target in (0.4, 0.8):
        overrides = [f"streams.training.target_utilization={target}"]
        scenario = load_scenario("colocation_10mw", ["duration=5 weeks", *overrides])
        folders.append(tmp_path_factory.mktemp("runs") / f"at-{target}")
        simulate(scenario, folders[-1], engine="compiled")
    return folders


@pytest.fixture(scope="session")
def fine_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Half a day of the same at 0.1 s, with its worst windows."""
    folder = tmp_path_factory.mktemp("runs") / "fine"
    scenario = load_scenario("colocation_10mw", ["duration=12 h", "resolution=0.1 s"])
    simulate(scenario, folder, engine="compiled", event_windows=True)
    return folder


@pytest.fixture(scope="session")
def fine_page(fine_folder: Path) -> Path:
    out = fine_folder.parent / "fine.html"
    write_report([fine_folder], out)
    return out


@pytest.fixture(scope="session")
def page(run_folders: list[Path]) -> Path:
    out = run_folders[0].parent / "one.html"
    write_report(run_folders[:1], out)
    return out


@pytest.fixture(scope="session")
def compared(run_folders: list[Path]) -> Path:
    out = run_folders[0].parent / "two.html"
    write_report(run_folders, out)
    return out


@pytest.fixture(scope="session")
def pools_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight days of a campus of three pools behind its point of interconnection, with
    limits."""
    folder = tmp_path_factory.mktemp("pools")
    scenario = load_scenario("campus_100mw_synchronous", ["duration=8 d"])
    simulate(scenario, folder / "campus", engine="compiled", event_windows=True)
    write_report([folder / "campus"], folder / "campus.html", limits=["ercot_nprr1191"])
    return folder / "campus.html"


@pytest.fixture(scope="session")
def template_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two days of the site that `diploee init` writes, of four pools, with two sets of
    limits."""
    folder = tmp_path_factory.mktemp("template")
    given = {"training_share": 0.6, "colocation_share": 0.1, "largest_job": 0.5}
    text, *_ = starter(SiteAnswers(poi_mw=20, **given), "site.yaml")
    (folder / "site.yaml").write_text(text, encoding="utf-8")
    scenario = load_scenario(folder / "site.yaml", ["duration=2 d"])
    simulate(scenario, folder / "run", engine="compiled")
    limits = ["ercot_nprr1191", "ercot_lcl_2026_06"]
    write_report([folder / "run"], folder / "site.html", limits=limits)
    return folder / "site.html"


def open_page(browser: Any, path: Path, size: tuple[int, int] = WIDE) -> None:
    """Open a page in a window of the given size and wait until all figures are drawn."""  # noqa: E501
    browser.get("about:blank")
    browser.get_log("browser")
    browser.get_log("performance")
    set_size(browser, size)
    browser.get(path.resolve().as_uri())
    wait_for(browser, "document.documentElement.dataset.drawn === 'true'")


def set_size(browser: Any, size: tuple[int, int]) -> None:
    metrics = {"width": size[0], "height": size[1]}
    metrics |= {"deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def wait_for(browser: Any, condition: str, limit_s: float = 300) -> None:
    end = time.monotonic() + limit_s
    while not browser.execute_script(f"return {condition}"):
        assert time.monotonic() < end, f"not within {limit_s} s: {condition}"
        time.sleep(0.05)


def requests(browser: Any) -> list[str]:
    """Return the addresses that were asked for since the last call."""
    log = browser.get_log("performance")
    messages = [json.loads(entry["message"])["message"] for entry in log]
    sent = [of for of in messages if of["method"] == "Network.requestWillBeSent"]
    return [message["params"]["request"]["url"] for message in sent]


PLOT = (
    "const [figure, nth] = arguments[0].split(/-(?=[0-9]+$)/);"
    "const p = document.querySelectorAll(`#${figure} .plot`)[nth - 1];"
)
"""Finds the n-th plot of a figure, such as `carpet-1`."""


def centre_of(browser: Any, plot: str) -> tuple[float, float]:
    """Scroll to a plot, its fold opened, and return the centre of its axes in the
    window."""
    unfold = (
        "for (let e = p; e; e = e.parentElement) if (e.tagName === 'DETAILS') e.open "
        "= true;"
    )
    browser.execute_script(PLOT + unfold, plot)
    time.sleep(0.3)  # figures in it take its width
    box = browser.execute_script(
        PLOT + "p.scrollIntoView({block: 'center'});"
        "const b = p.querySelector('.background').getBoundingClientRect();"
        "return [b.left, b.top, b.width, b.height]",
        plot,
    )
    return box[0] + box[2] / 2, box[1] + box[3] / 2


def mouse(browser: Any, kind: str, x: float, y: float, buttons: int = 0) -> None:
    event = {"type": kind, "x": x, "y": y, "buttons": buttons, "button": "none"}
    if buttons or kind == "mouseReleased":
        event |= {"button": "left", "clickCount": 1}
    browser.execute_cdp_cmd("Input.dispatchMouseEvent", event)


def hover(browser: Any, plot: str) -> str:
    """Hover the middle of a plot and return the text of its label."""
    x, y = centre_of(browser, plot)
    mouse(browser, "mouseMoved", x - 9, y)
    mouse(browser, "mouseMoved", x, y)
    script = (
        PLOT + "const t = p.querySelector('.tip'); return t.hidden ? '' : t.innerText"
    )
    for _ in range(40):
        if text := str(browser.execute_script(script, plot)):
            return text
        time.sleep(0.05)
    return ""


def x_ticks(browser: Any, plot: str) -> list[str]:
    """Return the texts of the axes."""
    script = (
        "return [...p.querySelectorAll('.role-axis text')].map(a => "
        "a.textContent).sort()"
    )
    return list(browser.execute_script(PLOT + script, plot))


@contextmanager
def printed(browser: Any) -> Iterator[None]:
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    yield
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def keep(browser: Any, folder: Path | None, name: str) -> None:
    """Keep a screenshot of the whole page."""
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    options = {"captureBeyondViewport": True}
    picture = browser.execute_cdp_cmd("Page.captureScreenshot", options)["data"]
    (folder / f"{name}.png").write_bytes(base64.b64decode(picture))


@pytest.mark.parametrize("name", ["page", "fine_page", "compared", "pools_page"])
def test_page_opens_without_an_error_or_a_request(
    name: str, browser: Any, request: pytest.FixtureRequest
) -> None:
    place = request.getfixturevalue(name)
    open_page(browser, place)
    assert place.stat().st_size < SIZE_LIMIT
    assert browser.get_log("browser") == []
    asked = requests(browser)
    assert any(address.startswith("file:") for address in asked)
    assert [address for address in asked if not address.startswith(LOCAL)] == []


@pytest.mark.parametrize("name", ["pools_page", "template_page"])
@pytest.mark.parametrize(("width", "most"), [(1400, 9_000), (420, 14_000)])
def test_page_with_closed_folds_is_no_taller_than_a_reader_scrolls(
    name: str, width: int, most: int, browser: Any, request: pytest.FixtureRequest
) -> None:
    open_page(browser, request.getfixturevalue(name), (width, 900))
    height = "return document.documentElement.scrollHeight"
    assert browser.execute_script(height) <= most


@pytest.mark.parametrize("name", ["fine_page", "pools_page"])
def test_no_table_is_cut_in_a_wide_window(
    name: str, browser: Any, request: pytest.FixtureRequest
) -> None:
    open_page(browser, request.getfixturevalue(name), (1400, 900))
    cut = browser.execute_script(
        "return [...document.querySelectorAll('.table')].filter(t => t.scrollWidth > "
        "t.clientWidth + 1).map(t => t.innerText.slice(0, 40))"
    )
    assert cut == []


def test_browser_refuses_every_request_of_the_page(browser: Any, page: Path) -> None:
    open_page(browser, page)
    refused = browser.execute_async_script(
        "const done = arguments[0];"
        "fetch('http://127.0.0.1:9/').then(() => done('sent'), () => done('refused'))"
    )
    assert refused == "refused"
    assert "Content Security Policy" in str(browser.get_log("browser"))


@pytest.mark.parametrize("name", ["page", "fine_page"])
def test_every_figure_has_drawn_with_its_axis_titles(
    name: str,
    browser: Any,
    request: pytest.FixtureRequest,
    run_folders: list[Path],
    fine_folder: Path,
    screenshots: Path | None,
) -> None:
    open_page(browser, request.getfixturevalue(name))
    expected = {
        f"{chart.id}-{index}": panel
        for chart in build_report(
            [run_folders[0] if name == "page" else fine_folder]
        ).charts
        for index, panel in enumerate(chart.panels, start=1)
    }
    drawn = browser.execute_script(
        "return [...document.querySelectorAll('.plot')].map(p => { const b = "
        "p.querySelector('svg').getBoundingClientRect(); const marks = "
        "p.querySelectorAll('.role-mark path[d], .role-mark image').length; const "
        "titles = [...p.querySelectorAll('.role-axis-title')].map(t => "
        "t.textContent); return [b.width, b.height, marks, titles]})"
    )
    assert len(drawn) == len(expected)
    for (plot, panel), (width, height, marks, titles) in zip(
        expected.items(), drawn, strict=True
    ):
        assert width > 300, plot
        assert height > 200, plot
        assert marks > 0, plot
        assert set(titles) == {panel.x.label, panel.y.label}
    keep(browser, screenshots, "report-wide" if name == "page" else "report-fine")


def test_hover_tells_the_value_and_on_carpet_and_stack_date_and_hour(
    browser: Any, page: Path
) -> None:
    open_page(browser, page)
    units = {"bands-2": "MW", "duration-1": "MW", "queue-1": "%", "months-1": "MWh"}
    for plot, unit in units.items():
        assert unit in hover(browser, plot), plot
    stacked = {"carpet-1": ["Power"], "overview-1": ["devices", "total", "facility"]}
    for plot, names in stacked.items():
        where, *values = hover(browser, plot).split("\n")
        assert re.fullmatch(r"\w{3}, \d+ \w{3} 2018, \d\d:\d\d", where)
        for name in names:
            assert any(re.fullmatch(rf"{name}: \d+\.\d+ MW", text) for text in values)


def test_hover_tells_ramps_and_event_windows(browser: Any, fine_page: Path) -> None:
    open_page(browser, fine_page)
    told = {"ramps-1": ["largest: ", "P99: ", "MW"], "zooms-1": ["every 0.1 s: ", "MW"]}
    for plot, words in told.items():
        text = hover(browser, plot)
        assert [word for word in words if word not in text] == []


def test_texts_of_the_spectrum_stand_within_their_figure(
    browser: Any, fine_page: Path
) -> None:
    for size in (WIDE, NARROW):
        open_page(browser, fine_page, size)
        boxes = browser.execute_script(
            "const box = e => { const b = e.getBoundingClientRect();"
            " return [b.left, b.right, b.top, b.bottom] };"
            "const p = document.querySelector('#spectrum .plot');"
            "return [box(p), ...[...p.querySelectorAll('.mark-text.role-mark text')]"
            ".filter(t => t.textContent).map(box)]"
        )
        (left, right, top, bottom), *texts = boxes
        assert texts
        for one in texts:
            assert left <= one[0] < one[1] <= right
            assert top <= one[2] < one[3] <= bottom
        for k, one in enumerate(texts):
            for other in texts[:k]:
                apart = one[0] >= other[1] or other[0] >= one[1]
                apart = apart or one[2] >= other[3] or other[2] >= one[3]
                assert apart, (size, one, other)


def test_hover_and_legend_tell_all_compared_runs(
    browser: Any, compared: Path, screenshots: Path | None
) -> None:
    open_page(browser, compared)
    script = PLOT + "return p.querySelector('.role-legend').textContent"
    legend = browser.execute_script(script, "bands-2")
    keep(browser, screenshots, "report-compared")
    for text in (hover(browser, "duration-1"), legend):
        assert "target utilization 0.4" in text
        assert "target utilization 0.8" in text


def test_dragging_zooms_all_figures_of_the_days_and_a_double_click_resets(
    browser: Any, page: Path
) -> None:
    open_page(browser, page)
    names = ("overview-1", "carpet-1", "bands-1")
    before = {name: x_ticks(browser, name) for name in names}
    x, y = centre_of(browser, "overview-1")
    mouse(browser, "mouseMoved", x - 120, y)
    mouse(browser, "mousePressed", x - 120, y, buttons=1)
    for step in range(-100, 101, 20):
        mouse(browser, "mouseMoved", x + step, y, buttons=1)
    mouse(browser, "mouseReleased", x + 100, y)

    def zoomed() -> list[str]:
        return [name for name in names if x_ticks(browser, name) != before[name]]

    wait_until(lambda: zoomed() == ["overview-1", "carpet-1"])
    fire = PLOT + "p.dispatchEvent(new MouseEvent('dblclick'))"
    browser.execute_script(fire, "carpet-1")
    wait_until(lambda: not zoomed())


def test_a_figure_is_one_tab_stop_says_what_it_shows_and_zooms_by_keys(
    browser: Any, page: Path
) -> None:
    open_page(browser, page)
    stops = (
        "return [...document.querySelectorAll('figure')].map(f => "
        "[f.tabIndex, f.querySelectorAll('[tabindex], a, button, input').length])"
    )
    assert {tuple(stop) for stop in browser.execute_script(stops)} == {(0, 0)}
    label = (
        "return document.querySelector('figure#overview').getAttribute('aria-label')"
    )
    assert " MW on " in browser.execute_script(label)
    before = x_ticks(browser, "overview-1")
    press = (
        "document.querySelector('figure#overview').dispatchEvent(new "
        "KeyboardEvent('keydown', {key: arguments[0]}))"
    )
    browser.execute_script(press, "+")
    wait_until(lambda: x_ticks(browser, "overview-1") != before)
    browser.execute_script(press, "Escape")
    wait_until(lambda: x_ticks(browser, "overview-1") == before)


def test_dark_figures_are_dark_and_their_texts_clear(browser: Any, page: Path) -> None:
    open_page(browser, page)
    colours = (
        "const t = document.querySelector('#overview svg text'); return "
        "[getComputedStyle(t).fill, "
        "getComputedStyle(t.closest('figure')).backgroundColor]"
    )
    seen = []
    for scheme in ("light", "dark"):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        seen.append(
            [brightness(colour) for colour in browser.execute_script(f"{colours}")]
        )
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    (ink, paper), (dark_ink, dark_paper) = seen
    assert paper - ink > 150
    assert dark_ink - dark_paper > 150


def brightness(colour: str) -> float:
    """Return the mean of the parts of `rgb(r, g, b)`."""
    parts = [
        float(part) for part in colour.partition("(")[2].rstrip(")").split(",")[:3]
    ]
    return sum(parts) / 3


@pytest.mark.parametrize("name", ["page", "fine_page", "compared"])
def test_narrow_window_cuts_nothing_off(
    name: str, browser: Any, request: pytest.FixtureRequest, screenshots: Path | None
) -> None:
    open_page(browser, request.getfixturevalue(name), NARROW)
    assert (
        browser.execute_script("return document.documentElement.scrollWidth")
        == NARROW[0]
    )
    widths = browser.execute_script(
        "return [...document.querySelectorAll('.plot svg')].map(s => "
        "s.getBoundingClientRect()).map(b => [b.left, b.right])"
    )
    assert all(left >= 0 and right <= NARROW[0] for left, right in widths)
    keep(browser, screenshots, f"report-narrow-{name}")


def test_figures_follow_the_window(browser: Any, page: Path) -> None:
    open_page(browser, page)
    set_size(browser, NARROW)
    fits = (
        "[...document.querySelectorAll('.plot svg')]"
        f".every(s => s.getBoundingClientRect().right <= {NARROW[0]})"
    )
    wait_for(browser, fits, 10)


@pytest.mark.parametrize("name", ["fine_page", "compared"])
def test_printed_page_is_light_and_complete(
    name: str, browser: Any, request: pytest.FixtureRequest, screenshots: Path | None
) -> None:
    open_page(browser, request.getfixturevalue(name))
    with printed(browser):
        style = "return getComputedStyle(document.querySelector('{}')).{}"
        assert browser.execute_script(style.format("body", "backgroundColor")) == (
            "rgb(255, 255, 255)"
        )
        assert browser.execute_script(style.format("nav", "display")) == "none"
        assert browser.execute_script(style.format(".table", "overflowX")) == "visible"
        set_size(browser, (718, 1000))
        cut = browser.execute_script(
            "return [...document.querySelectorAll('table, .plot svg')]"
            ".filter(e => e.getBoundingClientRect().right > 719).length"
        )
        assert cut == 0
    set_size(browser, WIDE)
    options = {"preferCSSPageSize": True, "printBackground": False}
    pdf = base64.b64decode(browser.execute_cdp_cmd("Page.printToPDF", options)["data"])
    assert pdf.startswith(b"%PDF")
    if screenshots is not None:
        (screenshots / f"report-{name}.pdf").write_bytes(pdf)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["colocation_10mw", "campus_100mw_synchronous"])
def test_page_of_a_one_minute_year_is_small_quick_and_opens(
    name: str, browser: Any, tmp_path: Path
) -> None:
    windows = {"event_windows": name.startswith("campus")}
    simulate(load_scenario(name), tmp_path / "year", engine="compiled", **windows)
    start = time.monotonic()
    write_report([tmp_path / "year"], tmp_path / "year.html")
    assert time.monotonic() - start < YEAR_LIMIT_S
    assert (tmp_path / "year.html").stat().st_size < SIZE_LIMIT
    open_page(browser, tmp_path / "year.html")
    assert browser.get_log("browser") == []
    assert "MW" in hover(browser, "carpet-1")
