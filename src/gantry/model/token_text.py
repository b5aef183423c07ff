"""The text of an API token: ``gantry_ID_SECRET``, as its user sends it; pure.

``ID`` is public, and finds the token: four characters that follow from the name of the user, and six random ones.
``SECRET`` is 256 random bits as 43 digits of base 62, and six digits with the CRC-32 of all before them. So a program
that looks for leaked secrets knows a token by its form, ``gantry_[0-9A-Za-z]{10}_[0-9A-Za-z]{49}``, and without asking
anybody; and a double click selects all of it.

The first part of the id tells gantry-rapi whose token a text claims to be before anybody has checked it, so that wrong
tokens are limited for each user and address as wrong passwords are (``doors.http.attempts``). It proves nothing.

The master stores the SHA-256 of the text (``secret_hash``). A slow hash would protect a secret that can be guessed, as
passwords can; 256 random bits cannot. ``cli.commands.tokens`` makes the same text.
"""

import functools
import hashlib
import re
import string
import zlib

ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
SECRET_BYTES = 32
ID_BYTES = 8
"""Numbers of random bytes of a new token."""
PATTERN = re.compile(r"gantry_[0-9A-Za-z]{10}_[0-9A-Za-z]{49}")

_ID = slice(7, 17)
_OF_USER = 4
_RANDOM_DIGITS = 6
_SECRET_DIGITS = 43
_CHECK_DIGITS = 6


@functools.lru_cache(maxsize=10_000)
def of_user(user: str) -> str:
    """Return the beginning of the ids of a user's tokens."""
    return _digits(int.from_bytes(hashlib.sha256(user.encode()).digest()), _OF_USER)


def make(user: str, *, number: bytes, secret: bytes) -> str:
    """Return the text of a new token: ``ID_BYTES`` random bytes for its id, ``SECRET_BYTES`` for its secret."""
    identifier = of_user(user) + _digits(int.from_bytes(number), _RANDOM_DIGITS)
    head = f"gantry_{identifier}_{_digits(int.from_bytes(secret), _SECRET_DIGITS)}"
    return head + _check(head)


def identifier(text: str) -> str | None:
    """Return the id in the text of a token; None for any other text, also for one with a typing error."""
    if not PATTERN.fullmatch(text) or _check(text[:-_CHECK_DIGITS]) != text[-_CHECK_DIGITS:]:
        return None
    return text[_ID]


def is_of(identifier: str, user: str) -> bool:
    """Return whether the id can be of a token of this user."""
    return identifier.startswith(of_user(user))


def secret_hash(text: str) -> str:
    """Return the hash of a token's text that is stored."""
    return hashlib.sha256(text.encode()).hexdigest()


def _check(head: str) -> str:
    return _digits(zlib.crc32(head.encode()), _CHECK_DIGITS)


def _digits(number: int, size: int) -> str:
    """Return the last digits of a number in base 62."""
    digits: list[str] = []
    for _ in range(size):
        number, digit = divmod(number, len(ALPHABET))
        digits.append(ALPHABET[digit])
    return "".join(reversed(digits))
