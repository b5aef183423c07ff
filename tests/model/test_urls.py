"""Addresses of a provider: with TLS, except on the loopback, and nothing hidden in them."""

import pytest

from gantry import errors
from gantry.model import urls


@pytest.mark.parametrize(
    ("text", "host", "port", "path", "secure"),
    [
        ("https://login.example", "login.example", 443, "/", True),
        ("https://login.example:8443/realms/a?x=1", "login.example", 8443, "/realms/a?x=1", True),
        ("https://[2001:db8::1]/", "2001:db8::1", 443, "/", True),
        ("http://127.0.0.2:5556/dex", "127.0.0.2", 5556, "/dex", False),
        ("http://[::1]:1/", "::1", 1, "/", False),
        ("http://localhost", "localhost", 80, "/", False),
    ],
)
def test_a_url_is_taken_apart(text: str, host: str, port: int, path: str, secure: bool) -> None:
    assert urls.Url.parse(text, "it") == urls.Url(text, host, port, path, secure)


@pytest.mark.parametrize(
    "text",
    [
        "", "login.example", "https://", "https:///x", "ftp://login.example", "javascript:alert(1)", "https://a b/",
        "https://u@login.example", "https://u:p@login.example", "https://login.example/#x", "https://login.example#",
        "https://login.example:x/", "https://login.example:99999/", "https://login.example\\@evil.example/",
        "https://login.example/\n", "https://[::1", "https://löwe.example/", "https://x/" + "a" * 2000,
    ],
)  # fmt: skip
def test_what_is_no_url_is_refused(text: str) -> None:
    with pytest.raises(errors.InvalidError, match="it is not a URL"):
        urls.Url.parse(text, "it")


@pytest.mark.parametrize("host", ["login.example", "192.0.2.1", "localhost.example", "127.0.0.1.example", "0.0.0.0"])
def test_without_tls_a_url_is_on_the_loopback(host: str) -> None:
    with pytest.raises(errors.InvalidError, match="it has no TLS"):
        urls.Url.parse(f"http://{host}/", "it")


def test_a_query_is_added() -> None:
    url = urls.Url.parse("https://login.example/realms/", "it")
    assert url.below("/x").text == "https://login.example/realms/x"
    assert url.with_query({"a": "b&c"}) == "https://login.example/realms/?a=b%26c"
    assert urls.Url.parse("https://l.example/?x=1", "it").with_query({"a": ""}) == "https://l.example/?x=1&a="
