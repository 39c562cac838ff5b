"""Web server of the studio: one page on the loopback address, with a secret token.

The address holds a random token. Every request is checked first for its host (against
DNS rebinding), origin, token and size.
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
from diploee.studio.jobs import Jobs
from diploee.studio.sites import (
    Draft,
    StudioFolder,
    checked_scenario,
    opened,
    search,
    state,
)

HOST = "127.0.0.1"
MAX_BYTES = 1_000_000
AUTOMATIC_S, KEPT = 60.0, 4
"""Maximum forecast time of an automatic run [s], and number of weeks that a page keeps
for differences."""

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
    """Content of every request: page id, draft and parameters."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    page: str = Field(pattern=_ID)
    draft: Draft = Field(default_factory=Draft)
    words: str = Field(default="", max_length=200)  # to search keys for
    span: Literal["", "week", "year"] = ""  # of a run
    start: str = Field(default="", pattern=r"^(\d{4}-\d\d-\d\d)?$")  # of a week
    # Answer to name the differences from
    before: str = Field(default="", max_length=64)
    automatic: bool = False  # nobody asked for the run
    patient: bool = False  # the run may take as long as it takes
    force: bool = False  # a file may be replaced
    # Ids of answers, or runs by name
    runs: tuple[str, ...] = Field(default=(), max_length=12)
    what: str = Field(default="", max_length=40)  # to make of a run


class Guard:
    """ASGI middleware that passes only requests of the studio's own page."""

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self._app, self._token = app, token
        self._hosts = [f"{name}:{port}" for name in (HOST, "localhost")]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request, and pass it on."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if refusal := self._refusal(scope, Headers(scope=scope)):
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

    def _refusal(self, scope: Scope, headers: Headers) -> int | None:
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
        own = headers.get("x-studio", "").encode()
        kind = headers.get("content-type", "").partition(";")[0]
        if not hmac.compare_digest(own, self._token.encode()) or not origin:
            return 403
        if kind != "application/json":
            return 403
        size = headers.get("content-length", "")  # of pieces none is known
        is_known = size.isdigit() and "transfer-encoding" not in headers
        return None if is_known and int(size[:20]) <= MAX_BYTES else 413


class Studio:
    """A studio: its folder, address, jobs, and the pages that they produced."""

    def __init__(
        self, place: StudioFolder, at_most_s: float, port: int = 0, scenario: str = ""
    ) -> None:
        self.place, self.token = place, secrets.token_urlsafe(24)
        self.at_most_s, self._scenario = at_most_s, scenario
        self.socket = _bound(port)
        self.answers = tempfile.TemporaryDirectory(
            prefix="diploee-studio-", ignore_cleanup_errors=True
        )
        self.temporary = Path(self.answers.name)
        self.jobs: Jobs | None = None
        self._made: dict[str, list[str]] = defaultdict(list)  # ids of answers by page
        self._runs: dict[str, str] = {}  # run folders by id of an answer
        self.port = int(self.socket.getsockname()[1])
        self.address = f"http://{HOST}:{self.port}/{self.token}/"
        self.runs_folder = place.folder / "runs"  # of the runs that are kept
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

        `tell` is called once the server handles signals. Unfinished outputs are
        removed.
        """
        self._tell = tell
        with self.answers:
            self.server.run(sockets=[self.socket])

    def _routes(self) -> Starlette:
        @asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncIterator[None]:
            self.jobs = Jobs()
            warm = asyncio.create_task(self.jobs.warm())
            self._tell()
            yield
            warm.cancel()
            await self.jobs.close()

        posts = {
            "start": self._start,
            "state": self._state,
            "run": self._run,
            "take": self._take,
            "save": self._save,
        }
        routes = [Route(f"/{name}", self._file, methods=["GET"]) for name in _FILES]
        routes += [
            Route(f"/{name}", to, methods=["POST"]) for name, to in posts.items()
        ]
        routes.append(Route("/frames/{id}/{name}", self._frame, methods=["GET"]))
        return Starlette(
            routes=routes,
            lifespan=lifespan,
            exception_handlers={DiploeeError: _refused, OSError: _refused},
        )

    async def _file(self, request: Request) -> Response:
        name, kind = _FILES[request.url.path.rpartition("/")[2]]
        return Response(
            (_HERE / name).read_text("utf-8"),
            media_type=kind,
            headers={"Content-Security-Policy": _PAGE_POLICY},
        )

    async def _frame(self, request: Request) -> Response:
        made, name = request.path_params["id"], request.path_params["name"]
        path = self.temporary / made / f"{name}.html"
        if not re.match(_ID, made) or name not in FRAMES or not path.is_file():
            return Response("not found\n", 404)
        policy = {"Content-Security-Policy": f"{POLICY}; frame-ancestors 'self'"}
        return FileResponse(path, media_type="text/html", headers=policy)

    async def _start(self, request: Request) -> Response:
        """Answer what a new page is to begin with, and what the folder holds."""
        await _asked(request)
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
                "folder": str(self.place.folder),
                "files": self.place.files(),
                "runs": [folder.name for folder in runs[:200]],
                "shipped": list(shipped("scenario")),
                "formats": {name: known.summary for name, known in FORMATS.items()},
            }
        )

    async def _state(self, request: Request) -> Response:
        asked = await _asked(request)
        if asked.words:
            result = await asyncio.to_thread(
                search, asked.draft, self.place, asked.words
            )
            return JSONResponse({"fields": result})
        return JSONResponse(await asyncio.to_thread(state, asked.draft, self.place))

    async def _run(self, request: Request) -> Response:
        """Answer with what is said of a run as it goes, or of opened runs."""
        asked = await _asked(request)
        runs = [str(self._run_folder(name)) for name in asked.runs]
        if not (asked.span or runs):
            raise InputError("expected a span to run, or runs to open")
        site = (
            None if runs else await asyncio.to_thread(opened, asked.draft, self.place)
        )
        made, frames = self._new(asked.page)
        if site is None:
            return self._stream(
                {"do": "look", "runs": runs, "frames": str(frames)}, made, frames
            )
        job = {
            "do": "run",
            "text": site.text,
            "folder": str(site.folder),
            "span": asked.span,
            "start": asked.start,
            "before": self._runs.get(asked.before),
            "page": asked.page,
            "root": str(self.place.folder),
            "frames": str(frames),
            "at_most_s": inf
            if asked.patient
            else min(self.at_most_s, AUTOMATIC_S if asked.automatic else inf),
        }
        return self._stream(
            job, made, frames if asked.span == "week" else self.runs_folder
        )

    async def _take(self, request: Request) -> Response:
        """Answer with a file made of a run: its data sheet, or an export."""
        asked = await _asked(request)
        if len(asked.runs) != 1 or asked.what not in ("datasheet", *FORMATS):
            raise InputError(
                "expected one run, and 'datasheet' or a format of an export"
            )
        frames = Path(tempfile.mkdtemp(dir=self.temporary))
        job = {
            "do": "take",
            "run": str(self._run_folder(asked.runs[0])),
            "what": asked.what,
            "frames": str(frames),
        }
        file, problems = "", list[str]()
        assert self.jobs is not None
        async with aclosing(self.jobs.do(job, frames)) as said:
            async for message in said:
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

    async def _save(self, request: Request) -> Response:
        """Write the draft's text into the folder, under the scenario's name."""
        asked = await _asked(request)

        def save() -> str:
            site = opened(asked.draft, self.place)
            scenario = checked_scenario(site.text, site.folder, self.place)
            place = self.place.inside(f"{scenario.name}.yaml")
            with whole_file(place, asked.force) as path:
                path.write_text(site.text, "utf-8")
            return place.name

        return JSONResponse({"saved": await asyncio.to_thread(save)})

    def _run_folder(self, name: str) -> Path:
        """Return a run by a result's id, or by its name in the runs folder."""
        if name in self._runs:
            return Path(self._runs[name])
        path = self.place.inside(Path("runs") / name)
        if path.parent != self.runs_folder or not (path / MANIFEST).is_file():
            raise InputError(f"'{name}' is no run in {self.runs_folder}")
        return path

    def _new(self, page: str) -> tuple[str, Path]:
        """Return the id and folder of a new result; old results are dropped."""
        made = secrets.token_urlsafe(12)
        (self.temporary / made).mkdir()
        kept = self._made[page]
        kept.append(made)
        while len(kept) > KEPT:
            shutil.rmtree(self.temporary / kept.pop(0), ignore_errors=True)
        return made, self.temporary / made

    def _stream(self, job: dict[str, Any], made: str, writes: Path) -> Response:
        assert self.jobs is not None
        said = self.jobs.do(job, writes)

        async def lines() -> AsyncIterator[str]:
            async with aclosing(said):
                async for message in said:
                    if self.server.should_exit:
                        return
                    if "run" in message:
                        self._runs[made] = message["run"]
                        message |= {"id": made, "run": Path(message["run"]).name}
                    if "frame" in message:
                        kind = message["frame"]
                        message = {"frame": f"frames/{made}/{kind}", "kind": kind}
                    yield json.dumps(message) + "\n"

        return StreamingResponse(lines(), media_type="application/x-ndjson")


def _bound(port: int) -> socket.socket:
    """Return a socket bound to the loopback address."""
    made = socket.socket()
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((HOST, port))
        made.listen()
    except OSError as error:
        made.close()
        raise InputError(
            f"--port: {port} can't be taken ({reason(error)}); 0 takes a free one"
        ) from error
    return made


async def _asked(request: Request) -> PageRequest:
    """Return the body of a request, checked."""
    try:
        return PageRequest.model_validate_json(await request.body())
    except ValueError as error:
        raise InputError(
            "the page sent what is not understood; load it again"
        ) from error


async def _refused(_: Request, error: Exception) -> Response:
    problems = error.problems if isinstance(error, DiploeeError) else (str(error),)
    if isinstance(error, OSError):
        problems = (f"{error.filename}: {reason(error)}",)
    rows = [{"field": "", "key": "", "message": problem} for problem in problems]
    return JSONResponse(
        {"problems": rows, "exists": isinstance(error, OutputExistsError)}, 400
    )
