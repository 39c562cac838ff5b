"""Calls of the renderer vl-convert, also where address space is limited."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from diploee.base.errors import OutputError

Call = tuple[Sequence[Any], dict[str, Any]]
"""Positional and keyword arguments of a call."""

_CHILD = """
import base64, json, sys, vl_convert
name, calls = json.load(sys.stdin)
found = [getattr(vl_convert, name)(*args, **options) for args, options in calls]
found = [each.encode() if isinstance(each, str) else each for each in found]
json.dump([base64.b64encode(each).decode() for each in found], sys.stdout)
"""


class DrawingError(OutputError):
    """Error for charts that can't be drawn on this machine."""


def address_limit_b() -> int | None:
    """Return the address space limit of this process [bytes]; None if unlimited."""
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    limit_b = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if limit_b == resource.RLIM_INFINITY else limit_b


def run_vl_convert(name: str, calls: Sequence[Call]) -> list[bytes]:
    """Return the results of a vl-convert function for a list of arguments.

    If address space is limited, as on login nodes of clusters, vl-convert may abort, so
    it is called in a separate process. A `DrawingError` reports insufficient space.
    """
    limit_b = address_limit_b()
    if limit_b is None:
        import vl_convert

        result = [
            getattr(vl_convert, name)(*args, **options) for args, options in calls
        ]
        return [
            each.encode() if isinstance(each, str) else bytes(each) for each in result
        ]
    content = json.dumps([name, calls], default=float).encode()
    command = [sys.executable, "-c", _CHILD]
    process = subprocess.run(command, input=content, capture_output=True, check=False)
    if process.returncode:
        raise DrawingError(
            f"figures can't be drawn within {limit_b / 1e9:,.3g} GB of virtual memory "
            "(ulimit -v), which is less than their engine reserves; raise the limit, "
            "or draw on another machine"
        )
    return [base64.b64decode(each) for each in json.loads(process.stdout)]
