import signal
from collections.abc import Iterator

import pytest

from gantry import errors
from gantry.model import patterns


@pytest.fixture
def bound() -> Iterator[None]:
    """End a test that takes too long: an engine that goes back and forth would take for ever."""

    def end(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(a|aa)+$", "^(a|a?)+$", "(.*a){25}$", "(a?){40}a{40}$", "^(([a-z])+.)+[A-Z]([a-z])+$"]
)
@pytest.mark.usefixtures("bound")
def test_no_expression_takes_long_on_a_long_text(pattern: str) -> None:
    assert patterns.searcher(pattern)("a" * 20_000 + "!") is False


@pytest.mark.parametrize("pattern", ["(?=a)b", "(?<!a)b", r"(a)\1", "(", "[z-a]", "*"])
def test_what_is_no_expression_is_refused_with_what_is_wrong(pattern: str) -> None:
    with pytest.raises(errors.InvalidError, match=r"is not a regular expression: .*RE2"):
        patterns.searcher(pattern)


def test_an_expression_has_a_longest_length_and_a_largest_size() -> None:
    assert patterns.searcher("x" * patterns.LIMIT)("x" * patterns.LIMIT)
    with pytest.raises(errors.InvalidError, match="too long: it has 1001 characters, the maximum is 1000"):
        patterns.searcher("x" * (patterns.LIMIT + 1))
    for pattern in (r"(\pL{100}){9}", "((a{30}){30}){30}", "a{1001}"):
        with pytest.raises(errors.InvalidError, match="is not a regular expression"):
            patterns.searcher(pattern)


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        (r"^web\-1\.x(\..*)?$", "web-1.x.example", True),
        ("(?i:WEB)", "a web", True),
        ("^ü.$", "üß", True),
        ("", "", True),
        ("^b", "a\nb", False),
        (r"0\.7", "10.0.7", True),
        (r"0\.7", "10.017", False),
        (r"\d", "d7", True),
        (r"\d", "d", False),
        (r"a\\b", r"a\b", True),
        (r"a\\b", "ab", False),
    ],
)
def test_what_commands_and_older_clients_write_is_found(pattern: str, text: str, matches: bool) -> None:
    assert patterns.searcher(pattern)(text) is matches
