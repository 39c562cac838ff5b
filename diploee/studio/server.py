"""Web server of the studio: one page on the loopback address, with a secret token.

The address contains a random token. Every request is checked for its host (against DNS
rebinding), origin, token and size.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import re
import secrets
import shutil
import socket
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from math import inf
from pathlib import Path
from typing import Any, Literal

import uvicorn
from pydantic import BaseModel, ConfigDict, Field
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from diploee.base.errors import DiploeeError, InputError, OutputExistsError
from diploee.base.files import reason, whole_file
from diploee.base.files.paths import shipped
from diploee.grid.export.registry import FORMATS
from diploee.reports.drawing.page import POLICY
from diploee.runs.folder import MANIFEST
from diploee.studio.job_queue import JobQueue
from diploee.studio.page_contents import (
    Draft,
    StudioFolder,
    checked_scenario,
    open_draft,
    page_contents,
    search_keys,
)

HOST = "127.0.0.1"
MAX_BYTES = 1_000_000
AUTOMATIC_S, KEPT = 60.0, 4
"""Maximum forecast time of an automatic run [s], and number of results that are kept
per page."""

_HERE = Path(__file__).resolve().parent
_FILES = {
    "": ("page.html", "text/html"),
    "page.css": ("page.css", "text/css"),
    "page.js": ("page.js", "text/javascript"),
}
_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_ID = r"^[A-Za-z0-9_-]{1,64}$"
_ONCE = ("host", "origin", "x-studio", "content-length")
"""Headers that may occur only once in a request."""
FRAMES = ("picture", "report")


class PageRequest(BaseModel):
    """Content of every request of a page: page id, draft and parameters."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    page: str = Field(pattern=_ID)
    draft: Draft = Field(default_factory=Draft)
    words: str = Field(default="", max_length=200)  # search text for keys
    span: Literal["", "week", "year"] = ""  # simulated period
    start: str = Field(default="", pattern=r"^(\d{4}-\d\d-\d\d)?$")  # start of a week
    # Id of the result that differences refer to
    before: str = Field(default="", max_length=64)
    automatic: bool = False  # the page started the run by itself
    patient: bool = False  # the run has no time limit
    force: bool = False  # a file may be replaced
    # Ids of results, or names of runs
    runs: tuple[str, ...] = Field(default=(), max_length=12)
    what: str = Field(default="", max_length=40)  # file to make of a run


class Guard:
    """ASGI middleware that passes only requests of the studio's own page."""

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self._app, self._token = app, token
        self._hosts = [f"{name}:{port}" for name in (HOST, "localhost")]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, and pass it to the application or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if refusal := self._refusal_status(scope, Headers(scope=scope)):
            words = "too large" if refusal == 413 else "refused"
            answer = Response(f"{words}\n", refusal, _HEADERS, "text/plain")
            await answer(scope, receive, send)
            return

        async def headed(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        path = scope["path"].partition("/")[2].partition("/")[2]
        await self._app({**scope, "path": f"/{path}", "root_path": ""}, receive, headed)

    def _refusal_status(self, scope: Scope, headers: Headers) -> int | None:
        """Return the HTTP status of a refused request; None for a valid request."""
        if scope["type"] != "http" or any(len(headers.getlist(n)) > 1 for n in _ONCE):
            return 403
        host, origin = headers.get("host"), headers.get("origin")
        token, slash, _ = scope["path"].removeprefix("/").partition("/")
        if not (
            host in self._hosts
            and headers.get("sec-fetch-site", "none") in ("none", "same-origin")
            and origin in (None, f"http://{host}")
            and hmac.compare_digest(token.encode(), self._token.encode())
            and slash
        ):
            return 403
        if scope["method"] != "POST":
            return None if scope["method"] in ("GET", "HEAD") else 405
        header_token = headers.get("x-studio", "").encode()
        kind = headers.get("content-type", "").partition(";")[0]
        if not hmac.compare_digest(header_token, self._token.encode()) or not origin:
            return 403
        if kind != "application/json":
            return 403
        size = headers.get("content-length", "")  # chunked bodies have none
        is_known = size.isdigit() and "transfer-encoding" not in headers
        return None if is_known and int(size[:20]) <= MAX_BYTES else 413


class Studio:
    """Studio: its folder, address and jobs, and the pages of their results."""

    def __init__(
        self,
        studio_folder: StudioFolder,
        at_most_s: float,
        port: int = 0,
        scenario: str = "",
    ) -> None:
        self.studio_folder, self.token = studio_folder, secrets.token_urlsafe(24)
        self.at_most_s, self._scenario = at_most_s, scenario
        self.socket = _bind_socket(port)
        self.results_folder = tempfile.TemporaryDirectory(
            prefix="diploee-studio-", ignore_cleanup_errors=True
        )
        self.temporary = Path(self.results_folder.name)
        self.jobs: JobQueue | None = None
        self._result_ids: dict[str, list[str]] = defaultdict(
            list
        )  # ids of results by page
        self._runs: dict[str, str] = {}  # run folders by id of a result
        self.port = int(self.socket.getsockname()[1])
        self.address = f"http://{HOST}:{self.port}/{self.token}/"
        self.runs_folder = studio_folder.folder / "runs"  # folder of saved runs
        self.guard = Guard(self._routes(), self.token, self.port)
        self.server = uvicorn.Server(
            uvicorn.Config(
                self.guard,
                interface="asgi3",
                ws="none",
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=3,
            )
        )

    def serve(self, tell: Callable[[], None] = lambda: None) -> None:
        """Serve requests until a signal or `should_exit` ends the server.

        `tell` is called as soon as the server handles signals. At the end, unfinished
        outputs are removed.
        """
        self._tell = tell
        with self.results_folder:
            self.server.run(sockets=[self.socket])

    def _routes(self) -> Starlette:
        @asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncIterator[None]:
            self.jobs = JobQueue()
            warm = asyncio.create_task(self.jobs.start_child())
            self._tell()
            yield
            warm.cancel()
            await self.jobs.close()

        posts = {
            "start": self._post_start,
            "state": self._post_state,
            "run": self._post_run,
            "take": self._post_take,
            "save": self._post_save,
        }
        routes = [Route(f"/{name}", self._get_file, methods=["GET"]) for name in _FILES]
        routes += [
            Route(f"/{name}", to, methods=["POST"]) for name, to in posts.items()
        ]
        routes.append(Route("/frames/{id}/{name}", self._get_frame, methods=["GET"]))
        return Starlette(
            routes=routes,
            lifespan=lifespan,
            exception_handlers={
                DiploeeError: _error_response,
                OSError: _error_response,
            },
        )

    async def _get_file(self, request: Request) -> Response:
        """Respond with a file of the studio's page."""
        name, kind = _FILES[request.url.path.rpartition("/")[2]]
        return Response(
            (_HERE / name).read_text("utf-8"),
            media_type=kind,
            headers={"Content-Security-Policy": _PAGE_POLICY},
        )

    async def _get_frame(self, request: Request) -> Response:
        """Respond with the page of a result, shown in a frame."""
        result_id, name = request.path_params["id"], request.path_params["name"]
        path = self.temporary / result_id / f"{name}.html"
        if not re.match(_ID, result_id) or name not in FRAMES or not path.is_file():
            return Response("not found\n", 404)
        policy = {"Content-Security-Policy": f"{POLICY}; frame-ancestors 'self'"}
        return FileResponse(path, media_type="text/html", headers=policy)

    async def _post_start(self, request: Request) -> Response:
        """Respond with the first draft of a new page, and the folder's contents."""
        await _parse_request(request)
        result = [path.parent for path in self.runs_folder.glob(f"*/{MANIFEST}")]
        runs = sorted(result, key=lambda folder: folder.stat().st_mtime, reverse=True)
        name = self._scenario
        return JSONResponse(
            {
                "draft": {
                    "start": "file" if name else "template",
                    "file": name,
                    "edits": [],
                },
                "folder": str(self.studio_folder.folder),
                "files": self.studio_folder.files(),
                "runs": [folder.name for folder in runs[:200]],
                "shipped": list(shipped("scenario")),
                "formats": {name: known.summary for name, known in FORMATS.items()},
            }
        )

    async def _post_state(self, request: Request) -> Response:
        """Respond with the page's contents for a draft, or with matching keys."""
        request_data = await _parse_request(request)
        if request_data.words:
            result = await asyncio.to_thread(
                search_keys, request_data.draft, self.studio_folder, request_data.words
            )
            return JSONResponse({"fields": result})
        return JSONResponse(
            await asyncio.to_thread(
                page_contents, request_data.draft, self.studio_folder
            )
        )

    async def _post_run(self, request: Request) -> Response:
        """Respond with the messages of a simulation, or of opened runs, as a stream."""
        request_data = await _parse_request(request)
        runs = [str(self._run_folder(name)) for name in request_data.runs]
        if not (request_data.span or runs):
            raise InputError("expected a span to run, or runs to open")
        site = (
            None
            if runs
            else await asyncio.to_thread(
                open_draft, request_data.draft, self.studio_folder
            )
        )
        result_id, frames = self._new_result(request_data.page)
        if site is None:
            return self._stream(
                {"do": "look", "runs": runs, "frames": str(frames)}, result_id, frames
            )
        job = {
            "do": "run",
            "text": site.text,
            "folder": str(site.folder),
            "span": request_data.span,
            "start": request_data.start,
            "before": self._runs.get(request_data.before),
            "page": request_data.page,
            "root": str(self.studio_folder.folder),
            "frames": str(frames),
            "at_most_s": inf
            if request_data.patient
            else min(self.at_most_s, AUTOMATIC_S if request_data.automatic else inf),
        }
        return self._stream(
            job, result_id, frames if request_data.span == "week" else self.runs_folder
        )

    async def _post_take(self, request: Request) -> Response:
        """Respond with a file that is made from a run: its data sheet, or an export."""
        request_data = await _parse_request(request)
        if len(request_data.runs) != 1 or request_data.what not in (
            "datasheet",
            *FORMATS,
        ):
            raise InputError(
                "expected one run, and 'datasheet' or a format of an export"
            )
        frames = Path(tempfile.mkdtemp(dir=self.temporary))
        job = {
            "do": "take",
            "run": str(self._run_folder(request_data.runs[0])),
            "what": request_data.what,
            "frames": str(frames),
        }
        file, problems = "", list[str]()
        assert self.jobs is not None
        async with aclosing(self.jobs.run(job, frames)) as messages:
            async for message in messages:
                file, problems = (
                    message.get("file", file),
                    message.get("problems", problems),
                )
        if problems or not file:
            raise InputError(problems)
        return FileResponse(
            file,
            filename=Path(file).name,
            background=BackgroundTask(shutil.rmtree, frames, ignore_errors=True),
        )

    async def _post_save(self, request: Request) -> Response:
        """Write the draft's text into the folder, under the scenario's name."""
        request_data = await _parse_request(request)

        def save() -> str:
            site = open_draft(request_data.draft, self.studio_folder)
            scenario = checked_scenario(site.text, site.folder, self.studio_folder)
            place = self.studio_folder.resolve_inside(f"{scenario.name}.yaml")
            with whole_file(place, request_data.force) as path:
                path.write_text(site.text, "utf-8")
            return place.name

        return JSONResponse({"saved": await asyncio.to_thread(save)})

    def _run_folder(self, name: str) -> Path:
        """Return a run's folder from the id of a result or the name of the folder."""
        if name in self._runs:
            return Path(self._runs[name])
        path = self.studio_folder.resolve_inside(Path("runs") / name)
        if path.parent != self.runs_folder or not (path / MANIFEST).is_file():
            raise InputError(f"'{name}' is no run in {self.runs_folder}")
        return path

    def _new_result(self, page: str) -> tuple[str, Path]:
        """Return id and folder of a new result; remove the page's oldest results."""
        result_id = secrets.token_urlsafe(12)
        (self.temporary / result_id).mkdir()
        result_ids = self._result_ids[page]
        result_ids.append(result_id)
        while len(result_ids) > KEPT:
            shutil.rmtree(self.temporary / result_ids.pop(0), ignore_errors=True)
        return result_id, self.temporary / result_id

    def _stream(self, job: dict[str, Any], result_id: str, writes: Path) -> Response:
        """Respond with a job's messages, one JSON line each."""
        assert self.jobs is not None
        messages = self.jobs.run(job, writes)

        async def lines() -> AsyncIterator[str]:
            async with aclosing(messages):
                async for message in messages:
                    if self.server.should_exit:
                        return
                    if "run" in message:
                        self._runs[result_id] = message["run"]
                        message |= {"id": result_id, "run": Path(message["run"]).name}
                    if "frame" in message:
                        kind = message["frame"]
                        message = {"frame": f"frames/{result_id}/{kind}", "kind": kind}
                    yield json.dumps(message) + "\n"

        return StreamingResponse(lines(), media_type="application/x-ndjson")


def _bind_socket(port: int) -> socket.socket:
    """Return a socket bound to the loopback address."""
    server_socket = socket.socket()
    try:
        server_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server_socket.bind((HOST, port))
        server_socket.listen()
    except OSError as error:
        server_socket.close()
        raise InputError(
            f"--port: {port} can't be taken ({reason(error)}); 0 takes a free one"
        ) from error
    return server_socket


async def _parse_request(request: Request) -> PageRequest:
    """Return the validated body of a request."""
    try:
        return PageRequest.model_validate_json(await request.body())
    except ValueError as error:
        raise InputError(
            "the page sent what is not understood; load it again"
        ) from error


async def _error_response(_: Request, error: Exception) -> Response:
    """Respond with an error's problems."""
    problems = error.problems if isinstance(error, DiploeeError) else (str(error),)
    if isinstance(error, OSError):
        problems = (f"{error.filename}: {reason(error)}",)
    rows = [{"field": "", "key": "", "message": problem} for problem in problems]
    return JSONResponse(
        {"problems": rows, "exists": isinstance(error, OutputExistsError)}, 400
    )
