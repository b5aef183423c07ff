"""URLs to which a daemon sends requests or leads browsers: with TLS, except on the loopback."""

import ipaddress
import re
from dataclasses import dataclass
from urllib import parse

from gantry import errors

_PORTS = {"http": 80, "https": 443}
_CHARACTERS = re.compile(r"[!-\[\]-~]{1,2000}")
"""Visible ASCII without a backslash, which browsers read as a slash."""


@dataclass(frozen=True)
class Url:
    """A URL without user, password and fragment; ``path`` has the query too."""

    text: str
    host: str
    port: int
    path: str
    secure: bool

    @classmethod
    def parse(cls, text: str, what: str, *, without_tls: bool = False, confidential: bool = False) -> "Url":
        """Parse the URL of ``what``; InvalidError, also without TLS unless it is on the loopback or ``without_tls``.

        The error about a ``confidential`` URL does not contain it.
        """
        quoted = "" if confidential else f": {text[:200]!r}"
        try:
            parts = parse.urlsplit(text if _CHARACTERS.fullmatch(text) else "")
            port, host = parts.port or _PORTS.get(parts.scheme, 0), parts.hostname or ""
        except ValueError:
            parts, port, host = parse.urlsplit(""), 0, ""
        if parts.scheme not in _PORTS or not port or not host or "#" in text or "@" in parts.netloc:
            raise errors.InvalidError(f"{what} is not a URL{quoted}", hint="write, for example, https://login.example")
        is_secure = parts.scheme == "https"
        if not (is_secure or without_tls or is_loopback(host)):
            raise errors.InvalidError(
                f"{what} has no TLS{quoted}", hint="only a loopback address may have http instead of https"
            )
        return cls(text, host, port, (parts.path or "/") + (f"?{parts.query}" if parts.query else ""), is_secure)

    @property
    def origin(self) -> str:
        """Return the URL without its path."""
        return f"{parse.urlsplit(self.text).scheme}://{parse.urlsplit(self.text).netloc}"

    def below(self, path: str) -> "Url":
        """Return the URL with a path added, which begins with a slash; this one has no query."""
        return Url(self.text.rstrip("/") + path, self.host, self.port, self.path.rstrip("/") + path, self.secure)

    def with_query(self, values: dict[str, str]) -> str:
        """Return the URL as text with more query arguments."""
        return f"{self.text}{'&' if '?' in self.text else '?'}{parse.urlencode(values)}"


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine alone."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
