"""The studio's server: it answers its own page alone, whatever else is sent to it."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from studio_pages import served

from diploee.base.errors import InputError
from diploee.studio import server
from diploee.studio.server import Studio

JSON = "application/json"
SECRET = "what only the folder's owner may read"


class NoJobs:
    """Takes down what would run."""

    asked: ClassVar[list[Any]] = []

    async def start_child(self) -> None: ...

    async def close(self) -> None: ...

    async def run(self, job: Any, _writes: Path) -> AsyncGenerator[Any, None]:
        NoJobs.asked.append(job)
        yield {"end": True, "problems": []}


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    """A studio on a folder, in a thread, whose runs are taken down alone."""
    outer = tmp_path_factory.mktemp("outer").resolve()
    folder = outer / "folder"
    (folder / "runs").mkdir(parents=True)
    (outer / "other.yaml").write_text(f"name: {SECRET}\n", "utf-8")
    (outer / "run").mkdir()
    (outer / "run" / "manifest.json").write_text(SECRET, "utf-8")
    (folder / "runs" / "link").symlink_to(outer / "run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "JobQueue", NoJobs)
        with served(folder, 60) as made:
            yield made


@pytest.fixture
def unasked() -> Iterator[None]:
    """Nothing runs within the test."""
    before = len(NoJobs.asked)
    yield
    assert len(NoJobs.asked) == before


def ask(
    studio: Studio,
    method: str = "POST",
    name: str = "run",
    body: Any = None,
    token: str | None = None,
    **changed: str | None,
) -> tuple[int, bytes, dict[str, str]]:
    """Send a request as the page does, but for what is changed; None leaves a header
    out."""
    headers: dict[str, str | None] = {
        "Host": f"127.0.0.1:{studio.port}",
        "Origin": f"http://127.0.0.1:{studio.port}",
        "Content-Type": JSON,
        "X-Studio": studio.token,
    }
    headers |= {key.replace("_", "-"): value for key, value in changed.items()}
    content = {"page": "p", "span": "week"} if body is None else body
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    place = f"/{studio.token if token is None else token}/{name}"
    connection = http.client.HTTPConnection("127.0.0.1", studio.port, timeout=60)
    connection.putrequest(method, place, skip_host=True, skip_accept_encoding=True)
    for key, value in headers.items():
        if value is not None:
            connection.putheader(key, value)
    connection.putheader("Content-Length", str(len(data)))
    connection.endheaders(data)
    answer = connection.getresponse()
    found = answer.status, answer.read(), {k.lower(): v for k, v in answer.getheaders()}
    connection.close()
    return found


def test_own_page_is_answered_and_its_run_runs(studio: Studio) -> None:
    before = len(NoJobs.asked)
    assert ask(studio)[0] == 200
    assert len(NoJobs.asked) == before + 1
    status, page, headers = ask(studio, "GET", "")
    assert status == 200
    assert b"<h1>diploee studio" in page
    assert "script-src 'self'" in headers["content-security-policy"]
    assert headers["referrer-policy"] == "no-referrer"


REFUSED: dict[str, dict[str, Any]] = {
    "foreign origin": {"Origin": "http://evil.example"},
    "sandboxed origin": {"Origin": "null"},
    "no origin": {"Origin": None},
    "rebound host with the port": {"Host": "evil.example:{port}"},
    "host without the port": {"Host": "127.0.0.1"},
    "host and origin of a stranger": {
        "Host": "evil.example",
        "Origin": "http://evil.example",
    },
    "cross-site fetch": {"Sec_Fetch_Site": "cross-site"},
    "another token": {"token": "x" * 32},
    "token with more": {"token": "{token}x"},
    "no token in the header": {"X_Studio": None},
    "token that is no ASCII": {"token": "%C3%A4"},
    "form of another site": {"Content_Type": "text/plain"},
    "no type": {"Content_Type": None},
    "method": {"method": "PUT"},
    "page without the token": {"method": "GET", "name": "", "token": ""},
    "page with part of the token": {
        "method": "GET",
        "name": "",
        "token": "{token:.10}",
    },
}


@pytest.mark.usefixtures("unasked")
@pytest.mark.parametrize("change", REFUSED.values(), ids=REFUSED)
def test_request_that_is_not_of_the_page_runs_nothing_and_says_nothing(
    change: dict[str, Any], studio: Studio
) -> None:
    filled = {
        key: value and value.format(port=studio.port, token=studio.token)
        for key, value in change.items()
    }
    status, body, headers = ask(studio, **filled)
    assert status in (403, 405)
    assert body == b"refused\n"
    assert "access-control-allow-origin" not in headers
    assert studio.token not in str(headers)


def test_two_hosts_in_one_request_are_refused(studio: Studio) -> None:
    with socket.create_connection(("127.0.0.1", studio.port), 60) as line:
        hosts = f"Host: 127.0.0.1:{studio.port}\r\nHost: evil.example\r\n"
        line.sendall(f"GET /{studio.token}/ HTTP/1.1\r\n{hosts}\r\n".encode())
        assert line.recv(100).split()[1] in (b"400", b"403")


@pytest.mark.parametrize(
    "name",
    [
        "frames/../../other.yaml",
        "frames/..%2f..%2f/report",
        "frames/x/..%2f..%2fother",
        "server.py",
        "frames/x/report",
        f"frames/{'x' * 5000}/report",
        "page.js/../server.py",
    ],
)
def test_no_file_is_reached_by_its_path(name: str, studio: Studio) -> None:
    status, body, _ = ask(studio, "GET", name)
    assert status in (403, 404, 405)
    assert SECRET.encode() not in body
    assert b"import" not in body


@pytest.mark.usefixtures("unasked")
@pytest.mark.parametrize("name", ["../../run", "link", ".", "/etc", "a\0b", "x" * 5000])
def test_run_outside_of_the_folder_is_neither_opened_nor_taken(
    name: str, studio: Studio
) -> None:
    for place, what in (("run", ""), ("take", "datasheet")):
        body = {"page": "p", "runs": [name], "what": what}
        status, answer, _ = ask(studio, name=place, body=body)
        assert status == 400
        assert SECRET.encode() not in answer


def test_scenario_outside_of_the_folder_is_not_read(studio: Studio) -> None:
    for file in (
        "../other.yaml",
        str(studio.studio_folder.folder.parent / "other.yaml"),
    ):
        body = {"page": "p", "draft": {"start": "file", "file": file}}
        status, answer, _ = ask(studio, name="state", body=body)
        assert status == 200
        assert "outside of" in json.loads(answer)["problems"][0]["message"]
        assert SECRET.encode() not in answer


@pytest.mark.parametrize("name", ["../x", "/tmp/x", "a/b", ""])
def test_nothing_is_saved_under_a_name_that_is_a_path(
    name: str, studio: Studio
) -> None:
    before = sorted(studio.studio_folder.folder.parent.rglob("*"))
    text = f"name: '{name}'\nfacility: {{}}\n"
    body = {"page": "p", "draft": {"start": "text", "text": text}}
    assert ask(studio, name="save", body=body)[0] == 400
    assert sorted(studio.studio_folder.folder.parent.rglob("*")) == before


@pytest.mark.usefixtures("unasked")
@pytest.mark.parametrize(
    "size", ["Content-Length: 1" + "0" * 12, "Transfer-Encoding: chunked"]
)
def test_body_that_is_huge_or_in_pieces_is_refused_before_it_is_read(
    size: str, studio: Studio
) -> None:
    with socket.create_connection(("127.0.0.1", studio.port), 60) as line:
        own = f"127.0.0.1:{studio.port}"
        head = [
            f"POST /{studio.token}/run HTTP/1.1",
            f"Host: {own}",
            f"Origin: http://{own}",
            f"X-Studio: {studio.token}",
            f"Content-Type: {JSON}",
        ]
        line.sendall("\r\n".join([*head, size, "", ""]).encode())
        assert line.recv(100).split()[1] == b"413"


@pytest.mark.usefixtures("unasked")
@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"\xff",
        {"page": "p"},
        {"page": "p", "span": "month"},
        {"page": "../p", "span": "week"},
        {"page": "p", "span": "week", "more": 1},
        {"page": "p", "span": "week", "start": "now"},
        {"page": "p", "span": "week", "draft": {"edits": [["a", "b"]] * 501}},
        {"page": "p", "span": "week", "draft": {"text": "x" * 600_000}},
    ],
)
def test_body_that_no_page_sends_is_refused_in_words(body: Any, studio: Studio) -> None:
    status, answer, _ = ask(studio, body=body)
    assert status == 400
    assert "Traceback" not in answer.decode()
    assert json.loads(answer)["problems"][0]["message"]


def test_yaml_that_stands_for_gigabytes_is_refused(studio: Studio) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]" for k in range(1, 12)]
    body = {"page": "p", "draft": {"start": "text", "text": "\n".join(lines)}}
    status, answer, _ = ask(studio, name="state", body=body)
    assert status == 200
    assert "more than" in json.loads(answer)["problems"][0]["message"]


def test_it_listens_on_the_loopback_address_alone(studio: Studio) -> None:
    assert studio.socket.getsockname()[0] == "127.0.0.1"


def test_port_that_is_taken_is_one_line(studio: Studio) -> None:
    with pytest.raises(InputError, match=f"--port: {studio.port} can't be taken"):
        Studio(studio.studio_folder, 60, studio.port)


def test_draft_is_saved_once_and_replaced_on_request_alone(studio: Studio) -> None:
    draft = {
        "start": "file",
        "file": "colocation_10mw_poi",
        "edits": [["name", "mine"]],
    }
    body = {"page": "p", "draft": draft}
    assert json.loads(ask(studio, name="save", body=body)[1]) == {"saved": "mine.yaml"}
    status, answer, _ = ask(studio, name="save", body=body)
    assert status == 400
    assert json.loads(answer)["exists"] is True
    assert ask(studio, name="save", body=body | {"force": True})[0] == 200
    text = json.loads(ask(studio, name="state", body=body)[1])["text"]
    assert (studio.studio_folder.folder / "mine.yaml").read_text("utf-8") == text
    (studio.studio_folder.folder / "mine.yaml").unlink()


def test_folder_that_vanished_is_one_line_naming_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path.resolve() / "site"
    folder.mkdir()
    monkeypatch.setattr(server, "JobQueue", NoJobs)
    with served(folder, 60) as made:
        made.results_folder.cleanup()
        folder.rmdir()
        for name in ("run", "save", "start", "state"):
            status, answer, _ = ask(made, name=name)
            lines = [of["message"] for of in json.loads(answer).get("problems", [])]
            assert status in (200, 400)
            assert all(
                str(tmp_path) in line or "diploee-studio" in line for line in lines
            )
            assert bool(lines) is (status == 400)
