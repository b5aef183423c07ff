"""The user that claims stand for: names, groups, addresses of mail, and what does not become a name."""

import pytest

from gantry import errors
from gantry.doors.http import users
from gantry.doors.rapi.oidc import claims

ANNA: dict[str, object] = {"sub": "17", "preferred_username": "anna", "groups": ["a", "b"]}


def test_a_user_has_the_names_of_the_provider_with_its_prefix() -> None:
    user = claims.Mapped().user(ANNA)
    assert user == users.User("oidc:anna", "", frozenset({"read"}), ("oidc:a", "oidc:b"))
    assert (user.may_read, user.may_write, user.is_of_provider) == (True, False, True)


@pytest.mark.parametrize("password", ["", "anna", "{HA1}"])
def test_a_user_of_a_provider_has_no_password(password: str) -> None:
    assert not claims.Mapped().user(ANNA).has(password)


def test_the_claim_with_the_name_is_a_setting() -> None:
    assert claims.Mapped(user_claim="sub").user(ANNA).name == "oidc:17"


@pytest.mark.parametrize("verified", [None, False, "true", 1])
def test_an_address_of_mail_counts_only_if_the_provider_has_verified_it(verified: object) -> None:
    mapped = claims.Mapped(user_claim="email")
    mail: dict[str, object] = {"email": "anna@example.org"}
    assert mapped.user(mail | {"email_verified": True}).name == "oidc:anna@example.org"
    with pytest.raises(errors.ForbiddenError, match="has not verified the address"):
        mapped.user(mail | {"email_verified": verified})
    assert mapped.names == ("email", "email_verified", "groups")


@pytest.mark.parametrize(
    ("value", "groups"),
    [
        (None, None),
        ("a", ("oidc:a",)),
        ([], ()),
        (["a", "a"], ("oidc:a",)),
        (["with space", "with:colon", "", "x" * 251, "b\x00", "/a/b"], ("oidc:/a/b",)),
    ],
)
def test_groups_that_no_rule_can_name_are_left_out(value: object, groups: tuple[str, ...] | None) -> None:
    if groups is None:
        with pytest.raises(errors.ForbiddenError, match="not a list of names"):
            claims.Mapped().user(ANNA | {"groups": value})
    else:
        assert claims.Mapped().user(ANNA | {"groups": value}).groups == groups


def test_without_a_claim_for_groups_there_are_none() -> None:
    assert claims.Mapped(groups_claim="").user(ANNA).groups == ()
    assert claims.Mapped().user({"preferred_username": "anna"}).groups == ()


def test_a_group_of_administrators_may_have_a_space() -> None:
    mapped = claims.Mapped(admin_group="Cluster Admins")
    assert mapped.user(ANNA | {"groups": ["Cluster Admins"]}).may_write
    assert not mapped.user(ANNA).may_write


def test_an_empty_name_of_a_group_makes_no_administrator() -> None:
    assert not claims.Mapped().user(ANNA | {"groups": [""]}).may_write
