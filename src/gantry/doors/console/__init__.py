"""The console: pages for people, beside the remote API on its port, which they use like any other client.

The files in ``static`` are built from ``console/`` by ``make console`` and are part of the packages; a checkout in
which that has not been run has none. They are the same for everybody and contain nothing of the cluster, so no user is
needed to read them. A browser may do in these pages only what ``POLICY`` allows (Content Security Policy, level 3): it
runs and shows what this server sends, and nothing else, in no frame of another page.

    /                    leads a browser to the console; other clients get the answer of the remote API
    /console/            the page; its scripts and styles are below assets/, with a digest of their content in the names
"""

import functools
import gzip
import importlib.resources
from collections.abc import Mapping
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath

from gantry.doors import http
from gantry.runtime import http_interface

PATH = "console"

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)

_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Vary": "Accept-Encoding",
}

_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".woff2": "font/woff2",
}
_NEVER_CHANGES = "public, max-age=31536000, immutable"
"""For files whose names change with their content."""


class Application:
    """The console, in front of the application of the remote API, which answers everything else."""

    def __init__(self, remote: http.Application, files: Mapping[str, bytes] | None = None) -> None:
        """Serve these files by path below ``/console/``; without them, those of this installation."""
        self._remote = remote
        self._files = built_files() if files is None else files

    @property
    def id_header(self) -> tuple[str, str]:
        """Return the name of the answer header with the id of the request, and the prefix of the id."""
        return self._remote.id_header

    async def admit(self, raw: http_interface.Request, trace: http.Trace) -> int:
        """Return the longest body of a request: the console's own requests have none."""
        return 0 if _is_own(raw) else await self._remote.admit(raw, trace)

    async def answer(self, raw: http_interface.Request, trace: http.Trace) -> http_interface.Response:
        """Answer a request."""
        if not _is_own(raw):
            return await self._remote.answer(raw, trace)
        if raw.method not in ("GET", "HEAD"):
            raise http.RefusedError(405, "the files of the console can only be read", headers={"Allow": "GET, HEAD"})
        path, _ = http.split(raw.path)
        if path[:1] != (PATH,) or raw.path.partition("?")[0] == f"/{PATH}":
            return http_interface.Response(303, b"", "text/plain", {**_HEADERS, "Location": f"/{PATH}/"})
        return self._file("/".join(path[1:]) or "index.html", raw)

    def failure(self, error: http.Failure, trace: http.Trace) -> http_interface.Response:
        """Return the answer for a failure, in the format of the remote API."""
        return self._remote.failure(error, trace)

    def _file(self, name: str, raw: http_interface.Request) -> http_interface.Response:
        if not self._files:
            raise http.RefusedError(404, "this installation has no console; in a checkout, make console builds it")
        if name not in self._files:
            raise http.RefusedError(404, f"the console has no file {name}")
        headers = {**_HEADERS, "Cache-Control": _NEVER_CHANGES if name.startswith("assets/") else "no-cache"}
        body = self._files[name]
        if "gzip" in raw.headers.get("accept-encoding", ""):
            body, headers["Content-Encoding"] = _packed(body), "gzip"
        kind = _KINDS.get(PurePosixPath(name).suffix, "application/octet-stream")
        return http_interface.Response(200, b"" if raw.method == "HEAD" else body, kind, headers)


def _is_own(raw: http_interface.Request) -> bool:
    path = raw.path.partition("?")[0]
    if path == "/":
        return raw.method in ("GET", "HEAD") and "text/html" in raw.headers.get("accept", "")
    return path == f"/{PATH}" or path.startswith(f"/{PATH}/")


@functools.lru_cache(maxsize=64)
def _packed(body: bytes) -> bytes:
    return gzip.compress(body, mtime=0)


@functools.cache
def built_files() -> Mapping[str, bytes]:
    """Return the files of this installation by path, none if the console was not built."""
    folder = importlib.resources.files(__package__).joinpath("static")
    return dict(_files_in(folder, "")) if folder.is_dir() else {}


def _files_in(folder: Traversable, prefix: str) -> list[tuple[str, bytes]]:
    files: list[tuple[str, bytes]] = []
    for each in sorted(folder.iterdir(), key=lambda each: each.name):
        name = f"{prefix}{each.name}"
        files += _files_in(each, f"{name}/") if each.is_dir() else [(name, each.read_bytes())]
    return files
