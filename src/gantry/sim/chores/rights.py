"""Users whom access rules and API tokens allow some requests: each gets these, and no more.

A user without a rule, one who operates an instance, one with a token that allows a part of it, and a deputy who may do
everything and submits a share of all later jobs of the run (``client``).
"""

import hashlib
from collections.abc import Mapping

from gantry import errors
from gantry.model import access, token_text
from gantry.sim import cluster, deputy, story
from gantry.sim.chores import objects
from gantry.sim.schedules import stage as stages
from gantry.sim.steps import instances, wish
from gantry.state.objects import snapshot as states

VM = "guarded"
USER, GROUP = "operator", "crew"
KIND = "user"
"""The kind of users as objects of clients; their fields are the rules and tokens that they are known to have."""

FORBIDDEN = "a user does only what an access rule allows"
TOKEN = "a token allows no more than was said when it was created, and nothing after it was revoked"
EXPLAINED = "the explanation of rights says what the rules say"

Who = Mapping[str, object]


async def do(stage: stages.Stage) -> None:
    """Do the chore; Unplayable as soon as something does not succeed."""
    (node,) = await objects.nodes(stage, 1)
    await objects.network(stage)
    await objects.make(stage, objects.bare(VM, node, tags=["crew"]))
    user: Who = {"name": USER}
    await _must_not(stage, user, _start(), FORBIDDEN, but=())
    await _check_explained(stage)
    on = stage.chance.choice([f"instance:{VM}", "tag:crew", "group:default", "cluster"])
    who = stage.chance.choice([f"user:{USER}", f"group:{GROUP}"])
    if who != f"user:{USER}":
        user = {"name": USER, "groups": [GROUP]}
    await stage.insist(_rule("ADD", who, role="operator", on=on))
    await stage.insist(_by(user, _start()))
    await _check_explained(stage)
    for forbidden in (objects.remove(VM), _memory(), _add_nic()):
        await _must_not(stage, user, forbidden, FORBIDDEN, but=(access.Role.OPERATOR,))
    await _use_tokens(stage, user)
    await stage.insist(_by(user, objects.stop(VM)))
    await stage.insist(_rule("REMOVE", who, on=on) if stage.chance.random() < 0.5 else _rule("REMOVE", who))
    await _must_not(stage, user, _start(), FORBIDDEN, but=())
    await stage.insist(_rule("ADD", f"user:{deputy.NAME}", role="admin", on="cluster"))
    stage.clients.deputy.is_appointed = True
    await stage.insist(_by({"name": deputy.NAME}, _add_nic()))


async def _use_tokens(stage: stages.Stage, user: Who) -> None:
    """Create a token of the user who operates the instance, use it and revoke it."""
    extent = stage.chance.choice(["everything", "read", "roles"])
    roles = [{"role": "operator", "on": f"instance:{VM}"}] if extent == "roles" else []
    name = "automation"
    await stage.insist(_add_token(stage, name, extent=extent, roles=roles))
    state = stage.state()
    token = next((each for each in state.apitokens.values() if (each.user, each.label) == (USER, name)), None)
    if token is None:
        raise stages.Unplayable("there is no token")
    limited = {"name": USER, "token": token.uuid}
    if extent == "read":
        await _must_not(stage, limited, _start(), TOKEN, but=(access.Role.OPERATOR,))
    elif "groups" not in user:
        # A token has the rules of its user alone, not those of groups.
        await stage.insist(_by(limited, _start()))
    await _must_not(stage, limited, objects.remove(VM), TOKEN, but=(access.Role.OPERATOR,))
    revoke: cluster.Opcode = {"OP_ID": "OP_TOKEN_REVOKE", "user": USER}
    if stage.chance.random() < 0.5:
        revoke = {**revoke, "name": name}
    await stage.insist(wish.single(f"revoke token {name} of {USER}", revoke, (KIND, USER), {f"token {name}": False}))
    revoked = not any(each.uuid == token.uuid for each in stage.state().apitokens.values())
    if revoked and await stage.succeeds(_by(limited, _start())) and token.uuid not in stage.state().apitokens:
        raise story.Violation(TOKEN, f"a refusal of what {USER} asks with a revoked token", "success")


async def _must_not(
    stage: stages.Stage, user: Who, job: wish.Wish, promise: str, *, but: tuple[access.Role, ...]
) -> None:
    """Let a user submit a job; Violation if it succeeds although the user has no rules with roles other than ``but``.

    A master that lost a removal of a rule, or an addition, with the history that had it, decides by its own rules.
    """
    before = _roles(stage.state(), user)
    if await stage.succeeds(_by(user, job)) and {*before, *_roles(stage.state(), user)} <= {*but}:
        raise story.Violation(promise, f"a refusal of what {user} asks: {job.text}", "success")


def _roles(state: states.Snapshot, user: Who) -> list[access.Role]:
    """Return the roles that rules give a user, on anything."""
    groups = user.get("groups", ())
    assert isinstance(groups, list | tuple)
    names = {f"user:{user['name']}", *(f"group:{group}" for group in groups)}
    return [rule.role for rule in state.accessrules.values() if rule.name in names]


async def _check_explained(stage: stages.Stage) -> None:
    """Compare what a master says about the user's rights with the rules that it has, if these do not change."""
    master = stage.clients.master()
    daemon = stage.lab.daemons.get(master)
    if daemon is None:
        return
    before = daemon.store.snapshot.accessrules
    on = stage.chance.choice([f"instance:{VM}", f"network:{objects.NET}", "cluster", "group:default", "tag:crew"])
    names = [f"user:{USER}", f"group:{GROUP}"]
    try:
        answer = await stage.clients.ask("ExplainAccess", names, on, on=master)
        await stage.clients.ask("QueryOwnAccess", on=master, user={"name": USER})
    except (OSError, errors.GantryError, TimeoutError):
        return
    rights = {str(row["right"]) for row in answer if row["allowed"]} if isinstance(answer, list) else set[str]()
    has_rules = any(rule.name in names for rule in before.values())
    if daemon.store.snapshot.accessrules is before and rights and not has_rules:
        raise story.Violation(EXPLAINED, f"no right on {on} without a rule", f"{sorted(rights)}")


def _by(user: Who, job: wish.Wish) -> wish.Wish:
    text = f"{user['name']}{' with a token' if 'token' in user else ''}: {job.text}"
    return wish.Wish(text, job.ops, job.keys, job.effects, user=user)


def _rule(verb: str, who: str, **arguments: object) -> wish.Wish:
    op = {"OP_ID": f"OP_ACCESS_{verb}", "who": who, **arguments}
    return wish.single(f"{verb.lower()} access rule of {who}: {arguments}", op, (KIND, USER), {})


def _add_token(stage: stages.Stage, name: str, **arguments: object) -> wish.Wish:
    number = stage.chance.randbytes(token_text.ID_BYTES)
    text = token_text.make(USER, number=number, secret=stage.chance.randbytes(token_text.SECRET_BYTES))
    op = {
        "OP_ID": "OP_TOKEN_ADD",
        "user": USER,
        "name": name,
        "id": token_text.identifier(text),
        "secret_hash": hashlib.sha256(text.encode()).hexdigest(),
        "until": stage.chance.choice(["never", None]),
        **arguments,
    }
    return wish.single(f"create token {name} of {USER}: {arguments}", op, (KIND, USER), {f"token {name}": True})


def _start() -> wish.Wish:
    return instances.start(VM)


def _memory() -> wish.Wish:
    return objects.change(VM, "more processors", {}, beparams={"vcpus": 2})


def _add_nic() -> wish.Wish:
    return objects.change(VM, "add a NIC", {"nics": None}, nics=[["add", -1, objects.NIC]])
