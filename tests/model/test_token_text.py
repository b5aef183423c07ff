"""The text of a token: what finds it, what scanners know it by, and that a typing error is seen."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gantry.cli.commands import tokens
from gantry.model import token_text

USERS = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zs"), exclude_characters=":"), min_size=1, max_size=30)
NUMBERS = st.binary(min_size=token_text.ID_BYTES, max_size=token_text.ID_BYTES)
SECRETS = st.binary(min_size=token_text.SECRET_BYTES, max_size=token_text.SECRET_BYTES)
TEXTS = st.builds(token_text.make, USERS, number=NUMBERS, secret=SECRETS)


@given(USERS, NUMBERS, SECRETS)
def test_a_text_has_its_id_and_says_whose_it_claims_to_be(user: str, number: bytes, secret: bytes) -> None:
    text = token_text.make(user, number=number, secret=secret)
    assert re.fullmatch(r"gantry_[0-9A-Za-z]{10}_[0-9A-Za-z]{49}", text)
    identifier = token_text.identifier(text)
    assert identifier == text[7:17]
    assert token_text.is_of(identifier, user)


@given(SECRETS, SECRETS)
def test_all_bits_of_the_secret_are_in_the_text(first: bytes, second: bytes) -> None:
    texts = [token_text.make("bob", number=bytes(8), secret=secret) for secret in (first, second)]
    assert (texts[0] == texts[1]) is (first == second)
    assert (token_text.secret_hash(texts[0]) == token_text.secret_hash(texts[1])) is (first == second)


@given(TEXTS, st.integers(0, 66), st.sampled_from(token_text.ALPHABET))
def test_a_wrong_character_makes_it_no_token(text: str, at: int, character: str) -> None:
    changed = text[:at] + character + text[at + 1 :]
    assert (token_text.identifier(changed) is None) is (changed != text)


@given(st.text(max_size=80))
def test_another_text_is_no_token(text: str) -> None:
    assert token_text.identifier(text) is None


@pytest.mark.parametrize("more", ["\n", " ", "A", "\0"])
def test_nothing_precedes_or_follows_a_token(more: str) -> None:
    text = token_text.make("bob", number=bytes(8), secret=bytes(32))
    assert token_text.identifier(text)
    assert token_text.identifier(text + more) is token_text.identifier(more + text) is None


@given(USERS)
def test_the_command_makes_the_same_texts(user: str) -> None:
    text = tokens._generate(user)
    identifier = token_text.identifier(text)
    assert identifier is not None
    assert token_text.is_of(identifier, user)


def test_two_tokens_differ() -> None:
    assert len({tokens._generate("bob") for _ in range(100)}) == 100
