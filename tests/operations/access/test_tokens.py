"""The units that create and revoke API tokens."""

import zlib

import pytest
from tests.operations import build

from gantry import errors
from gantry.model import access, opcodes, token_text
from gantry.operations.access import scopes, tokens

DAY = 86_400.0


@pytest.fixture
def lab() -> build.MemoryCluster:
    return build.MemoryCluster()


def op(name: str = "ci", user: str = "bob", **fields: object) -> opcodes.TokenAdd:
    number = token_text.of_user(user) + f"{zlib.crc32(name.encode()) % 10**6:06}"
    return opcodes.TokenAdd(user=user, name=name, id=number, secret_hash="0" * 64, **fields)  # type: ignore[arg-type]


def stored(lab: build.MemoryCluster) -> dict[str, access.Token]:
    return {token.name: token for token in lab.state.apitokens.values()}


async def test_a_token_ends_after_90_days_unless_its_end_is_named(lab: build.MemoryCluster) -> None:
    now = lab.environment.inputs.now
    assert await lab.run(op()) == now + 90 * DAY
    assert await lab.run(op("short", until=now + 60)) == now + 60
    assert await lab.run(op("longest", until=now + 366 * DAY)) == now + 366 * DAY
    assert await lab.run(op("forever", until="never")) is None
    ends = {name: token.end for name, token in stored(lab).items()}
    assert ends == {
        "bob:ci": now + 90 * DAY,
        "bob:short": now + 60,
        "bob:longest": now + 366 * DAY,
        "bob:forever": None,
    }


async def test_roles_name_their_objects_by_uuid_and_follow_them(lab: build.MemoryCluster) -> None:
    roles = (opcodes.TokenRole("operator", "instance:vm1"), opcodes.TokenRole("network-admin", "tag:web"))
    await lab.run(op(extent="roles", roles=(*roles, roles[0])))
    token = stored(lab)["bob:ci"]
    assert [(each.role, each.key) for each in token.roles] == [("operator", "i1"), ("network-admin", "tag:web")]
    assert scopes.allows(lab.state, token) == "operator on instance:vm1, network-admin on tag:web"


async def test_names_are_unique_for_each_user(lab: build.MemoryCluster) -> None:
    await lab.run(op())
    await lab.run(op(user="carol"))
    assert "user bob has an API token ci already" in str(await lab.refused(op()))
    assert {*stored(lab)} == {"bob:ci", "carol:ci"}


async def test_an_ended_token_gives_its_name_to_a_new_one(lab: build.MemoryCluster) -> None:
    now = lab.environment.inputs.now
    number = token_text.of_user("bob") + "zzzzzz"
    lab.put(access.Token(uuid="old", name="bob:ci", id=number, secret_hash="0" * 64, end=now))
    await lab.run(op())
    assert [token.uuid != "old" for token in stored(lab).values()] == [True]
    assert number not in lab.state.token_ids


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"until": 1.0}, "would end before it begins"),
        ({"until": 1e12}, "valid for more than 366 days"),
        ({"extent": "roles"}, "has 0 roles"),
        ({"extent": "read", "roles": (opcodes.TokenRole("admin", "cluster"),)}, "allows read has 1 roles"),
        ({"roles": (opcodes.TokenRole("admin", "cluster"),)}, "allows everything has 1 roles"),
        ({"extent": "roles", "roles": (opcodes.TokenRole("admin", "network:net1"),)}, "has no meaning"),
        ({"extent": "roles", "roles": (opcodes.TokenRole("operator", "instance:vm9"),)}, "no such instance: vm9"),
        ({"user": "a\x1b[0m"}, "cannot be printed"),
    ],
)
async def test_a_token_without_a_meaning_is_refused(
    lab: build.MemoryCluster, fields: dict[str, object], text: str
) -> None:
    assert text in str(await lab.refused(op(**fields)))  # type: ignore[arg-type]
    assert not stored(lab)


async def test_the_id_is_one_of_the_user(lab: build.MemoryCluster) -> None:
    foreign = opcodes.TokenAdd(user="bob", name="x", id=token_text.of_user("eve") + "000000", secret_hash="0" * 64)
    assert "is not that of a token of user bob" in str(await lab.refused(foreign))
    await lab.run(op())
    (same,) = stored(lab).values()
    again = opcodes.TokenAdd(user="bob", name="x", id=same.id, secret_hash="0" * 64)
    with pytest.raises(errors.ExistsError, match="has the id"):
        await lab.run(again)


@pytest.mark.parametrize("limit", ["LIMIT", "USER_LIMIT"])
async def test_there_is_a_maximum_of_tokens(
    lab: build.MemoryCluster, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(tokens, limit, 1)
    await lab.run(op())
    assert "API tokens, the maximum" in str(await lab.refused(op("x")))


async def test_tokens_are_revoked_by_name_or_all_of_a_user(lab: build.MemoryCluster) -> None:
    for name in ("a", "b", "c"):
        await lab.run(op(name))
    await lab.run(op(user="carol"))
    await lab.run(opcodes.TokenRevoke(user="bob", name="b"))
    assert {*stored(lab)} == {"bob:a", "bob:c", "carol:ci"}
    await lab.run(opcodes.TokenRevoke(user="bob"))
    assert {*stored(lab)} == {"carol:ci"}
    assert "user bob has no API token" in str(await lab.refused(opcodes.TokenRevoke(user="bob")))
    assert "user carol has no API token x" in str(await lab.refused(opcodes.TokenRevoke(user="carol", name="x")))


@pytest.mark.parametrize("until", ["nan", float("nan"), "inf", -1, "-inf", "Never", "", True])
def test_an_end_that_is_neither_a_time_nor_never_is_refused(until: object) -> None:
    fields = {"user": "bob", "name": "ci", "id": "0" * 10, "secret_hash": "0" * 64}
    with pytest.raises(errors.InvalidError, match="until"):
        opcodes.decode({"OP_ID": "OP_TOKEN_ADD", **fields, "until": until})


@pytest.mark.parametrize("field", ["user", "name", "id", "secret_hash"])
@pytest.mark.parametrize("value", ["", "a b", "a\n", "a:b", "x" * 300])
def test_a_field_of_another_form_is_refused(field: str, value: str) -> None:
    fields = {"user": "bob", "name": "ci", "id": "0" * 10, "secret_hash": "0" * 64, field: value}
    with pytest.raises(errors.InvalidError, match=field):
        opcodes.decode({"OP_ID": "OP_TOKEN_ADD", **fields})
