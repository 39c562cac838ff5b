"""The report in a real headless Chromium: it opens, draws, and reacts, without a network.

``DIPLOEE_SCREENSHOTS=FOLDER`` keeps the screenshots, for the README.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from diploee import load_scenario, simulate
from diploee.reports import write_report
from diploee.reports.build import build_report

pytestmark = [
    pytest.mark.browser,
    # sockets of selenium's own HTTP client, closed when it is collected
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

LOCAL = ("file:", "data:", "blob:", "about:")
WIDE, NARROW = (1280, 900), (400, 800)
SIZE_LIMIT = 6_000_000
YEAR_LIMIT_S = 60.0


@pytest.fixture(scope="session")
def run_folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Five weeks of the 10 MW colocation data center at two utilizations."""
    folders = []
    for target in (0.4, 0.8):
        overrides = ["duration=5 weeks", f"streams.training.target_utilization={target}"]
        folder = tmp_path_factory.mktemp("runs") / f"at-{target}"
        simulate(load_scenario("colocation_10mw", overrides), folder, engine="compiled")
        folders.append(folder)
    return folders


@pytest.fixture(scope="session")
def fine_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Half a day of the same at 0.1 s, with its worst windows."""
    folder = tmp_path_factory.mktemp("runs") / "fine"
    overrides = ["duration=12 h", "resolution=0.1 s"]
    simulate(
        load_scenario("colocation_10mw", overrides), folder, engine="compiled", event_windows=True
    )
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
    """Eight days of a campus of three pools behind its point of interconnection, with limits."""
    folder = tmp_path_factory.mktemp("pools")
    scenario = load_scenario("campus_100mw_synchronous", ["duration=8 d"])
    simulate(scenario, folder / "campus", engine="compiled", event_windows=True)
    write_report([folder / "campus"], folder / "campus.html", limits=["ercot_nprr1191"])
    return folder / "campus.html"


def open_page(browser: Any, path: Path, size: tuple[int, int] = WIDE) -> None:
    """Open a page in a window of the given size and wait until all figures are drawn."""
    browser.get("about:blank")
    browser.get_log("browser")
    browser.get_log("performance")
    set_size(browser, size)
    browser.get(path.resolve().as_uri())
    wait_for(browser, "document.documentElement.dataset.drawn === 'true'")


def set_size(browser: Any, size: tuple[int, int]) -> None:
    metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def wait_for(browser: Any, condition: str, limit_s: float = 300) -> None:
    end = time.monotonic() + limit_s
    while not browser.execute_script(f"return {condition}"):
        assert time.monotonic() < end, f"not within {limit_s} s: {condition}"
        time.sleep(0.05)


def requests(browser: Any) -> list[str]:
    """Return the addresses that were asked for since the last call."""
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    ]


def centre_of(browser: Any, plot: str) -> tuple[float, float]:
    """Scroll to a plot and return the centre of its axes in the window."""
    box = browser.execute_script(
        "const p = document.getElementById(arguments[0]); p.scrollIntoView({block: 'center'});"
        "const b = p.querySelector('.nsewdrag').getBoundingClientRect();"
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
    label = f"document.querySelector('#{plot} .hoverlayer')"
    wait_for(browser, f"{label}.textContent.length > 0")
    return str(browser.execute_script(f"return {label}.textContent"))


def x_range(browser: Any, plot: str) -> list[Any]:
    script = "return document.getElementById(arguments[0])._fullLayout.xaxis.range"
    return list(browser.execute_script(script, plot))


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


@pytest.mark.parametrize("name", ["fine_page", "pools_page"])
def test_no_table_is_cut_in_a_wide_window_and_no_button_lies_on_a_title(
    name: str, browser: Any, request: pytest.FixtureRequest
) -> None:
    open_page(browser, request.getfixturevalue(name), (1400, 900))
    cut = "[...document.querySelectorAll('.table')].filter(t => t.scrollWidth > t.clientWidth + 1)"
    assert browser.execute_script(f"return {cut}.map(t => t.innerText.slice(0, 40))") == []
    set_size(browser, NARROW)
    covered = browser.execute_script(
        "const over = (a, b) => a.right > b.left && a.left < b.right && a.bottom > b.top"
        " && a.top < b.bottom;"
        "const words = e => { const r = document.createRange(); r.selectNodeContents(e);"
        " return [...r.getClientRects()]; };"
        "return [...document.querySelectorAll('figure')].filter(f => [...f.querySelectorAll("
        "'.modebar-container')].some(m => [...f.querySelectorAll('h3, h4')].some(h => words(h)"
        ".some(w => over(w, m.querySelector('.modebar').getBoundingClientRect()))))).map(f => f.id)"
    )
    assert covered == []


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
        for chart in build_report([run_folders[0] if name == "page" else fine_folder]).charts
        for index, panel in enumerate(chart.panels, start=1)
    }
    drawn = browser.execute_script(
        "return [...document.querySelectorAll('.plot')].map(p => {"
        " const b = p.querySelector('.main-svg').getBoundingClientRect();"
        " const title = t => (p.querySelector('.g-' + t + 'title') || {}).textContent;"
        " const marks = p.querySelectorAll('.trace path, .heatmaplayer image').length;"
        " return [p.id, b.width, b.height, marks, title('x'), title('y')]})"
    )
    assert [plot[0] for plot in drawn] == list(expected)
    for plot, width, height, marks, x_title, y_title in drawn:
        assert width > 300, plot
        assert height > 200, plot
        assert marks > 0, plot
        assert (x_title, y_title) == (expected[plot].x.label, expected[plot].y.label)
    keep(browser, screenshots, "report-wide" if name == "page" else "report-fine")


@pytest.mark.parametrize(
    ("plot", "unit"),
    [
        ("carpet-1", "MW"),
        ("bands-2", "MW"),
        ("duration-1", "MW"),
        ("queue-1", "%"),
        ("demand-1", "MW"),
    ],
)
def test_hover_tells_the_value(plot: str, unit: str, browser: Any, page: Path) -> None:
    open_page(browser, page)
    assert unit in hover(browser, plot)


@pytest.mark.parametrize(
    ("plot", "words"),
    [("ramps-1", ["largest: ", "P99: ", "MW"]), ("zooms-1", ["every 0.1 s: ", "MW"])],
)
def test_hover_tells_ramps_and_event_windows(
    plot: str, words: list[str], browser: Any, fine_page: Path
) -> None:
    open_page(browser, fine_page)
    told = hover(browser, plot)
    assert [word for word in words if word not in told] == []


def test_double_click_shows_the_whole_window_of_an_event_window(
    browser: Any, fine_page: Path
) -> None:
    open_page(browser, fine_page)
    plot = "zooms-2"
    x, y = centre_of(browser, plot)
    seconds = (
        f"(() => {{ const r = document.getElementById('{plot}')._fullLayout.xaxis.range;"
        " return (new Date(r[1]) - new Date(r[0])) / 1000; })()"
    )
    assert browser.execute_script(f"return {seconds}") == 30
    for _ in range(30):  # on a busy machine two clicks may come too late to be one double-click
        for _ in range(2):
            mouse(browser, "mousePressed", x, y, buttons=1)
            mouse(browser, "mouseReleased", x, y)
        time.sleep(1)
        if browser.execute_script(f"return {seconds} > 200"):
            return
    pytest.fail("the axis still shows a part of the window")


def test_texts_of_the_spectrum_stand_within_their_figure(browser: Any, fine_page: Path) -> None:
    for size in (WIDE, NARROW):
        open_page(browser, fine_page, size)
        boxes = browser.execute_script(
            "const box = e => { const b = e.getBoundingClientRect();"
            " return [b.left, b.right, b.top, b.bottom] };"
            "const p = document.getElementById('spectrum-1');"
            "return [box(p), ...[...p.querySelectorAll('.textpoint')]"
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
                assert apart or one[2] >= other[3] or other[2] >= one[3], (size, one, other)


def test_hover_tells_all_compared_runs(browser: Any, compared: Path) -> None:
    open_page(browser, compared)
    text = hover(browser, "duration-1")
    assert "target utilization 0.4" in text
    assert "target utilization 0.8" in text


def test_dragging_zooms_in_and_a_double_click_resets(browser: Any, page: Path) -> None:
    open_page(browser, page)
    plot = "duration-1"
    before = x_range(browser, plot)
    x, y = centre_of(browser, plot)
    mouse(browser, "mouseMoved", x - 120, y)
    mouse(browser, "mousePressed", x - 120, y, buttons=1)
    for step in range(-100, 101, 20):
        mouse(browser, "mouseMoved", x + step, y, buttons=1)
    mouse(browser, "mouseReleased", x + 100, y)
    axis = f"document.getElementById('{plot}')._fullLayout.xaxis"
    wait_for(browser, f"{axis}.range[0] > {before[0]} && {axis}.range[1] < {before[1]}")
    browser.execute_script(f"document.querySelector('#{plot} [data-title=\"Reset axes\"]').click()")
    wait_for(browser, f"Math.abs({axis}.range[1] - {before[1]}) < 1e-9")


def test_zooming_the_days_of_one_figure_zooms_those_of_the_others(browser: Any, page: Path) -> None:
    open_page(browser, page)
    script = "Plotly.relayout('overview-1', {'xaxis.range[0]': '%s', 'xaxis.range[1]': '%s'})"
    day, hours = x_range(browser, "carpet-1")[0][:10], ("06:00", "18:00")
    browser.execute_script(script % tuple(f"{day} {hour}" for hour in hours))
    wait_for(browser, f"String({AXIS % 'carpet-1'}.range[0]).includes('06:00')")
    week = x_range(browser, "bands-1")
    assert "06:00" not in str(week[0])  # another axis is left alone


AXIS = "document.getElementById('%s')._fullLayout.xaxis"


@pytest.mark.parametrize("plot", ["overview-1", "duration-1", "carpet-1"])
def test_the_data_of_a_figure_are_downloaded_as_they_are_drawn(
    plot: str, browser: Any, page: Path
) -> None:
    open_page(browser, page)
    text = browser.execute_async_script(
        "const done = arguments[1];"
        "URL.createObjectURL = b => { b.text().then(done); return 'blob:none'; };"
        "HTMLAnchorElement.prototype.click = () => {};"
        "document.querySelector('#' + arguments[0] + ' [data-title=\"Download the data as CSV\"]')"
        ".click();",
        plot,
    )
    head, *rows = list(csv.reader(io.StringIO(text)))
    assert len(head) == 4 and head[3] == "value"
    drawn = "document.getElementById(arguments[0])._fullData"
    if plot == "carpet-1":
        shown = browser.execute_script(f"return Array.from({drawn}[0].z[3])", plot)
        found = [float(row[3]) for row in rows[3 * len(shown) : 4 * len(shown)]]
    else:
        shown = browser.execute_script(f"return Array.from({drawn}.at(-1).y)", plot)
        found = [float(row[2]) for row in rows[-len(shown) :]]
    assert found == pytest.approx(shown) and len(found) > 1
    assert all(row[1] for row in rows)


def test_a_figure_can_be_saved_as_a_picture(browser: Any, page: Path) -> None:
    open_page(browser, page)
    picture = browser.execute_async_script(
        "const done = arguments[0];"
        "Plotly.toImage('carpet-1', {format: 'png'}).then(done, e => done(String(e)))"
    )
    assert picture.startswith("data:image/png;base64,")


@pytest.mark.parametrize("name", ["page", "fine_page", "compared"])
def test_narrow_window_cuts_nothing_off(
    name: str, browser: Any, request: pytest.FixtureRequest, screenshots: Path | None
) -> None:
    open_page(browser, request.getfixturevalue(name), NARROW)
    assert browser.execute_script("return document.documentElement.scrollWidth") == NARROW[0]
    widths = browser.execute_script(
        "return [...document.querySelectorAll('.main-svg')].map(s => s.getBoundingClientRect())"
        ".map(b => [b.left, b.right])"
    )
    assert all(left >= 0 and right <= NARROW[0] for left, right in widths)
    keep(browser, screenshots, f"report-narrow-{name}")


def test_figures_follow_the_window(browser: Any, page: Path) -> None:
    open_page(browser, page)
    set_size(browser, NARROW)
    fits = (
        "[...document.querySelectorAll('.main-svg')]"
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
            "return [...document.querySelectorAll('table, .main-svg')]"
            ".filter(e => e.getBoundingClientRect().right > 719).length"
        )
        assert cut == 0
    set_size(browser, WIDE)
    options = {"preferCSSPageSize": True, "printBackground": False}
    pdf = base64.b64decode(browser.execute_cdp_cmd("Page.printToPDF", options)["data"])
    assert pdf.startswith(b"%PDF")
    if screenshots is not None:
        (screenshots / f"report-{name}.pdf").write_bytes(pdf)


def test_screenshot_of_compared_runs(
    browser: Any, compared: Path, screenshots: Path | None
) -> None:
    open_page(browser, compared)
    legend = browser.execute_script("return document.querySelector('#bands-2 .legend').textContent")
    assert "target utilization 0.4" in legend
    assert "target utilization 0.8" in legend
    keep(browser, screenshots, "report-compared")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["colocation_10mw", "campus_100mw_synchronous"])
def test_page_of_a_one_minute_year_is_small_quick_and_opens(
    name: str, browser: Any, tmp_path: Path
) -> None:
    by_pool = name.startswith("campus")
    simulate(load_scenario(name), tmp_path / "year", engine="compiled", event_windows=by_pool)
    start = time.monotonic()
    write_report([tmp_path / "year"], tmp_path / "year.html")
    assert time.monotonic() - start < YEAR_LIMIT_S
    assert (tmp_path / "year.html").stat().st_size < SIZE_LIMIT
    open_page(browser, tmp_path / "year.html")
    assert browser.get_log("browser") == []
    assert "MW" in hover(browser, "carpet-1")
