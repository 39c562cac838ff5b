"""A page of the studio without a browser: it asks as `page.js` does."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from command_line import PATIENCE_S

from diploee.studio.page_contents import StudioFolder
from diploee.studio.server import Studio


@contextmanager
def served(folder: Path, at_most_s: float) -> Iterator[Studio]:
    """Serve a studio on a folder in a thread, and see that it ends."""
    made = Studio(StudioFolder(folder), at_most_s)
    thread = threading.Thread(target=made.serve)
    thread.start()
    try:
        yield made
    finally:
        made.server.should_exit = True
        thread.join(PATIENCE_S)
    assert not thread.is_alive()


class Page:
    """One page, with its id."""

    def __init__(self, studio: Studio, page: str) -> None:
        self._studio, self._page = studio, page

    def _asked(self, method: str, name: str, body: Any = None) -> Any:
        own = f"127.0.0.1:{self._studio.port}"
        connection = http.client.HTTPConnection(own, timeout=PATIENCE_S)
        headers = {
            "Origin": f"http://{own}",
            "X-Studio": self._studio.token,
            "Content-Type": "application/json",
        }
        data = None if body is None else json.dumps({"page": self._page, **body})
        connection.request(method, f"/{self._studio.token}/{name}", data, headers)
        return connection, connection.getresponse()

    def get(self, name: str) -> bytes:
        """Return a file."""
        connection, answer = self._asked("GET", name)
        content: bytes = answer.read()
        connection.close()
        assert answer.status == 200
        return content

    def post(self, name: str, body: dict[str, Any]) -> tuple[int, bytes]:
        """Return status and content of an answer."""
        connection, answer = self._asked("POST", name, body)
        found = answer.status, answer.read()
        connection.close()
        return found

    def lines(self, name: str, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield what is said of a job; closing this goes away, as a closed page does."""  # noqa: E501
        connection, answer = self._asked("POST", name, body)
        try:
            assert answer.status == 200, answer.read()
            for line in answer:
                yield json.loads(line)
        finally:
            answer.close()
            connection.close()
