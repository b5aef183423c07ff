"""One attempt to deliver a message, what its outcome means, and the wait before the next one.

A status of the class 2xx accepts the message, and 410 ends the webhook. Everything else is a failure, redirects too:
whoever controls a receiver must not lead requests of the master's machine elsewhere. The body of an answer is read up
to ``ANSWER_BYTES`` and never looked at.
"""

import email.utils
import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass

from gantry.model import urls
from gantry.runtime import http_interface, interface

TIMEOUT_SECONDS = 15.0
"""Timeout of an attempt, with the connection and the answer."""
ANSWER_BYTES = 16 << 10
FIRST_BACK_OFF_SECONDS = 1.0
MAX_BACK_OFF_SECONDS = 300.0
"""The back-off doubles from the first to this maximum."""
MAX_RETRY_AFTER_SECONDS = 3600.0
"""A receiver that asks for more is asked again after this time."""

GONE = 410
_SECONDS = re.compile(r"[0-9]{1,9}")
_STEPS = 1000


class Result(enum.Enum):
    """What an attempt means for the message."""

    ACCEPTED = "accepted"
    FAILED = "failed"
    GONE = "gone"


@dataclass(frozen=True)
class Outcome:
    """The result of an attempt; ``reason`` says why it failed, ``retry_after`` is what the receiver asks for."""

    result: Result
    reason: str = ""
    retry_after: float | None = None


async def attempt(
    client: http_interface.Client, url: urls.Url, *, headers: Mapping[str, str], body: bytes, now: float
) -> Outcome:
    """Send a message once."""
    try:
        answer = await client.request(
            "POST",
            url.host,
            url.port,
            url.path,
            body=body,
            timeout=TIMEOUT_SECONDS,
            headers=headers,
            answer_limit=ANSWER_BYTES,
        )
    except http_interface.AnswerTooLongError as error:
        return _outcome(error.status, {}, now)
    except TimeoutError:
        return Outcome(Result.FAILED, f"no answer within {TIMEOUT_SECONDS:.0f} s")
    except OSError as error:
        return Outcome(Result.FAILED, f"the connection failed: {_readable(error.strerror or str(error), url)}")
    return _outcome(answer.status, answer.headers, now)


def _outcome(status: int, headers: Mapping[str, str], now: float) -> Outcome:
    if 200 <= status < 300:
        return Outcome(Result.ACCEPTED)
    reason = f"status {status}"
    if status == GONE:
        return Outcome(Result.GONE, reason)
    return Outcome(Result.FAILED, reason, retry_after(headers.get("retry-after", ""), now))


def _readable(text: str, url: urls.Url) -> str:
    """Return the text of an error, which may have the URL in it, without the URL and its path."""
    for secret in (url.text, url.path if len(url.path) > 1 else ""):
        text = text.replace(secret, "(blanked)") if secret else text
    return "".join(filter(str.isprintable, text))[:200]


def retry_after(text: str, now: float) -> float | None:
    """Return the seconds of a header Retry-After (RFC 9110, section 10.2.3); None if there is none, or it is invalid.

    >>> retry_after("120", 0.0), retry_after("Thu, 01 Jan 1970 00:01:00 GMT", 10.0), retry_after("soon", 0.0)
    (120.0, 50.0, None)
    """
    if _SECONDS.fullmatch(text):
        return min(float(text), MAX_RETRY_AFTER_SECONDS)
    try:
        moment = email.utils.parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError, TypeError):
        return None
    return min(max(0.0, moment - now), MAX_RETRY_AFTER_SECONDS)


def wait_seconds(random: interface.Randomness, failures: int, outcome: Outcome) -> float:
    """Return the wait after a number of failures in a row: half of the back-off for certain, the other half by chance.

    It is at least what the receiver asks for.
    """
    back_off = min(FIRST_BACK_OFF_SECONDS * 2.0 ** min(failures - 1, 30), MAX_BACK_OFF_SECONDS)
    jittered = back_off / 2 * (1 + random.below(_STEPS) / _STEPS)
    return max(jittered, outcome.retry_after or 0.0)
