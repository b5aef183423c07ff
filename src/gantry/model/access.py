"""Who may change what: a rule gives a user or a group a role on objects, and ``decide`` says what the rules allow.

A request has a ``Subject``, whoever makes it, and a ``Need`` for each object that it changes: a right, and the keys of
the scopes that contain the object (explanation/decisions/0065-rights-are-rules-on-objects.md). Rules only add rights:
a need is met if one rule meets it, so another rule never takes a right away, and a right on the cluster is a right on
each object, because the cluster contains all of them. Reading needs no right.

``operations.access`` has the needs of each opcode; ``jobs`` enforces them.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

import msgspec

from gantry.model import base


class Role(StrEnum):
    """What a rule gives: a set of rights (``GRANTS``)."""

    OPERATOR = "operator"
    ADMIN = "admin"
    NETWORK_ADMIN = "network-admin"


class Scope(StrEnum):
    """The kind of the object of a rule."""

    CLUSTER = "cluster"
    GROUP = "group"
    TAG = "tag"
    INSTANCE = "instance"
    NETWORK = "network"


class Right(StrEnum):
    """What a request may do with an object.

    With an instance: ``operate`` (start, stop, reboot, console) and ``manage`` (change, move, remove). With a network:
    ``connect`` (NICs, whose addresses it allocates) and ``configure`` (subnets, pools, reservations, ports). With a
    node group: ``populate`` (create instances there, move them there). With the cluster: ``wire`` (create networks,
    connect them to node groups, subnet pools, segment ranges) and ``administer`` (everything else).
    """

    OPERATE = "operate"
    MANAGE = "manage"
    CONNECT = "connect"
    CONFIGURE = "configure"
    POPULATE = "populate"
    WIRE = "wire"
    ADMINISTER = "administer"


GRANTS: dict[Role, frozenset[Right]] = {
    Role.OPERATOR: frozenset({Right.OPERATE, Right.CONNECT}),
    Role.NETWORK_ADMIN: frozenset({Right.CONNECT, Right.CONFIGURE, Right.WIRE}),
    Role.ADMIN: frozenset(Right),
}
"""The rights of each role, on the objects of its scope; ``wire`` and ``administer`` are rights on the cluster alone."""

SCOPES: dict[Role, tuple[Scope, ...]] = {
    Role.OPERATOR: tuple(Scope),
    Role.NETWORK_ADMIN: (Scope.CLUSTER, Scope.TAG, Scope.NETWORK),
    Role.ADMIN: (Scope.CLUSTER, Scope.GROUP, Scope.TAG, Scope.INSTANCE),
}
"""The scopes on which a role means something that no other role says better."""

CLUSTER_KEY = "cluster"


def tag_key(tag: str) -> str:
    """Return the key of a tag's scope; that of an object is its UUID, which has no colon."""
    return f"tag:{tag}"


class Rule(base.Entity, frozen=True):
    """A role of a user or group on the object with a UUID, a tag, or the cluster.

    ``name`` is that of the user or group, as ``user:NAME`` or ``group:NAME``. An object is stored by its UUID, so a new
    name of the object does not change its rules; they end with the object.
    """

    role: Role
    scope: Scope
    object: str = ""

    @property
    def who(self) -> str:
        """Return the user or group."""
        return self.name

    @property
    def key(self) -> str:
        """Return the key of the scope."""
        match self.scope:
            case Scope.CLUSTER:
                return CLUSTER_KEY
            case Scope.TAG:
                return tag_key(self.object)
            case _:
                return self.object


class Subject(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Who makes a request: a user, as LUXI or the remote API knows it; a job stores its subject.

    ``groups`` are those of the user's groups that had rules when the request was made: groups of the system, or of the
    OpenID provider by which a user of the remote API has logged in. An administrator may do all that a request can do:
    root, the group gantry-admin, a user of the remote API with the option ``write``. ``peer`` is the address from which
    gantry-rapi got the request; a request on LUXI itself comes from the master's machine.
    """

    user: str
    door: Literal["luxi", "rapi"] = "luxi"
    groups: tuple[str, ...] = ()
    is_admin: bool = False
    peer: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Return the user and groups as rules name them."""
        return (f"user:{self.user}", *(f"group:{group}" for group in self.groups))

    @property
    def signature(self) -> str:
        """Return the subject as the user of a change, where no client wrote it."""
        return f"gnt:{self.door}:{self.user}"

    def is_same_user(self, other: "Subject") -> bool:
        """Return whether both are the same user of the same front end: equal names elsewhere may be another person."""
        return (self.user, self.door) == (other.user, other.door)


@dataclass(frozen=True)
class Need:
    """A right that a request needs; ``what`` names the object, or the request, in messages.

    ``keys`` are the keys of the scopes that contain the object, and ``example`` is the rule that an administrator could
    add: a role and an object, as ``gnt-cluster access add`` takes them.
    """

    right: Right
    what: str
    keys: tuple[str, ...]
    example: str


@dataclass(frozen=True)
class Decision:
    """Whether a need is met: by this rule, or without a rule because the subject is an administrator."""

    is_allowed: bool
    rule: Rule | None = None


Find = Callable[[str, str], Iterable[Rule]]
"""Returns the rules of a user or group on the scope with a key."""


def decide(find: Find, subject: Subject, need: Need) -> Decision:
    """Decide about one need."""
    if subject.is_admin:
        return Decision(is_allowed=True)
    rule = deciding_rule(find, subject.names, need)
    return Decision(rule is not None, rule)


def deciding_rule(find: Find, names: Iterable[str], need: Need) -> Rule | None:
    """Return the rule that gives these users and groups a right, the widest scope first; None if there is none.

    Cost: one lookup for each name and each key of the need.
    """
    for who in names:
        for key in need.keys:
            granting = [rule for rule in find(who, key) if need.right in GRANTS[rule.role]]
            if granting:
                return min(granting, key=lambda rule: (rule.role, rule.uuid))
    return None
