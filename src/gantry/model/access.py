"""Who may change what: a rule gives a user or a group a role on objects, and ``decide`` says what the rules allow.

A request has a ``Subject``, whoever makes it, and a ``Need`` for each object that it changes: a right, and the keys of
the scopes that contain the object (explanation/decisions/0065-rights-are-rules-on-objects.md). Rules only add rights:
a need is met if one rule meets it, so another rule never takes a right away, and a right on the cluster is a right on
each object, because the cluster contains all of them.

Reading needs a right only on a cluster whose setting ``reading`` is ``rules``: what somebody sees there is in
``operations.access.sight``, from the same rules.

An API token is a second limit: a request with a token needs a right of the token's user *and* has to be what the token
allows (explanation/decisions/0068-api-tokens.md). ``model.token_text`` has the text of a token.

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

    VIEWER = "viewer"
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
    PROJECT = "project"


class Right(StrEnum):
    """What a request may do with an object.

    ``view`` is the right to see instances and node groups, ``view-network`` that to see networks. With an instance:
    ``operate`` (start, stop, reboot, console) and ``manage`` (change, move, remove). With a network: ``connect`` (NICs,
    whose addresses it allocates) and ``configure`` (subnets, pools, reservations, ports). With a node group:
    ``populate`` (create instances there, move them there). With the cluster: ``wire`` (create networks, connect them to
    node groups, subnet pools, segment ranges) and ``administer`` (everything else).
    """

    VIEW = "view"
    VIEW_NETWORK = "view-network"
    OPERATE = "operate"
    MANAGE = "manage"
    CONNECT = "connect"
    CONFIGURE = "configure"
    POPULATE = "populate"
    WIRE = "wire"
    ADMINISTER = "administer"


READING = frozenset({Right.VIEW, Right.VIEW_NETWORK})
"""The rights that change nothing."""

GRANTS: dict[Role, frozenset[Right]] = {
    Role.VIEWER: READING,
    Role.OPERATOR: READING | {Right.OPERATE, Right.CONNECT},
    Role.NETWORK_ADMIN: frozenset({Right.VIEW_NETWORK, Right.CONNECT, Right.CONFIGURE, Right.WIRE}),
    Role.ADMIN: frozenset(Right),
}
"""The rights of each role, on the objects of its scope; ``wire`` and ``administer`` are rights on the cluster alone."""

SCOPES: dict[Role, tuple[Scope, ...]] = {
    Role.VIEWER: tuple(Scope),
    Role.OPERATOR: tuple(Scope),
    Role.NETWORK_ADMIN: (Scope.CLUSTER, Scope.TAG, Scope.PROJECT, Scope.NETWORK),
    Role.ADMIN: (Scope.CLUSTER, Scope.GROUP, Scope.TAG, Scope.PROJECT, Scope.INSTANCE),
}
"""The scopes on which a role means something that no other role says better."""

CLUSTER_KEY = "cluster"


def tag_key(tag: str) -> str:
    """Return the key of a tag's scope; that of an object is its UUID, which has no colon."""
    return f"tag:{tag}"


def project_key(project: str) -> str:
    """Return the key of a project's scope."""
    return f"project:{project}"


def key_of(scope: Scope, name: str) -> str:
    """Return the key of a scope; ``name`` is a UUID, a tag or a project."""
    match scope:
        case Scope.CLUSTER:
            return CLUSTER_KEY
        case Scope.TAG:
            return tag_key(name)
        case Scope.PROJECT:
            return project_key(name)
        case _:
            return name


class Rule(base.Entity, frozen=True):
    """A role of a user or group on the object with a UUID, a tag, a project, or the cluster.

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
        return key_of(self.scope, self.object)


class Extent(StrEnum):
    """What a token allows, of what its user may do: everything, no change, or what its roles include."""

    EVERYTHING = "everything"
    READ = "read"
    ROLES = "roles"


class RoleOn(base.Part, frozen=True):
    """A role of a token on the object with a UUID, a tag, a project, or the cluster, as a rule has it."""

    role: Role
    scope: Scope
    object: str = ""

    @property
    def key(self) -> str:
        """Return the key of the scope."""
        return key_of(self.scope, self.object)


class Token(base.Entity, frozen=True):
    """An API token of a user of the remote API; its secret is nowhere, ``secret_hash`` is the SHA-256 of its text.

    ``name`` is ``USER:NAME``, so names are unique for each user; ``id`` is the public part of the text. ``end`` is in
    seconds since the epoch, None if the token has no end. A token whose last role has ended with its object allows no
    change: only ``extent`` says that it allows more.
    """

    id: str
    secret_hash: str
    extent: Extent = Extent.EVERYTHING
    roles: tuple[RoleOn, ...] = ()
    end: float | None = None

    @property
    def user(self) -> str:
        """Return the user; neither part of the name has a colon."""
        return self.name.rpartition(":")[0]

    @property
    def label(self) -> str:
        """Return the name without that of the user."""
        return self.name.rpartition(":")[2]

    def has_ended(self, now: float) -> bool:
        """Return whether the token has ended."""
        return self.end is not None and now >= self.end

    def allows(self, need: "Need") -> bool:
        """Return whether the token lets its user meet a need; no token is about tokens."""
        if need.owner:
            return False
        if self.extent is not Extent.ROLES:
            return self.extent is Extent.EVERYTHING or need.right in READING
        return any(each.key in need.keys and need.right in GRANTS[each.role] for each in self.roles)


def token_name(user: str, name: str) -> str:
    """Return the name of a token in the state."""
    return f"{user}:{name}"


class TokenUse(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The token with which a request is made, by its UUID; its user may do everything if ``is_admin``."""

    uuid: str
    name: str
    is_admin: bool = False


class Subject(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Who makes a request: a user, as LUXI or the remote API knows it; a job stores its subject.

    ``groups`` are those of the user's groups that had rules when the request was made: groups of the system, or of the
    OpenID provider by which a user of the remote API has logged in. An administrator may do all that a request can do:
    root, the group gantry-admin, a user of the remote API with the option ``write``. ``peer`` is the address from which
    gantry-rapi got the request; a request on LUXI itself comes from the master's machine. With a ``token``,
    ``is_admin`` is false whatever the user may, so that code without a notion of tokens denies too much.
    """

    user: str
    door: Literal["luxi", "rapi"] = "luxi"
    groups: tuple[str, ...] = ()
    is_admin: bool = False
    peer: str = ""
    token: TokenUse | None = None

    @property
    def title(self) -> str:
        """Return the text that names the subject in messages and in the history."""
        return f"{self.user} with token {self.token.name}" if self.token else self.user

    @property
    def names(self) -> tuple[str, ...]:
        """Return the user and groups as rules name them."""
        return (f"user:{self.user}", *(f"group:{group}" for group in self.groups))

    @property
    def signature(self) -> str:
        """Return the subject as the user of a change, where no client wrote it."""
        return f"gnt:{self.door}:{self.title}"

    def is_same_user(self, other: "Subject") -> bool:
        """Return whether both are the same user of the same front end: equal names elsewhere may be another person."""
        return (self.user, self.door) == (other.user, other.door)

    def has_jobs_of(self, submitter: "Subject") -> bool:
        """Return whether a job of a submitter is the subject's own; with a token, only what that token submitted is."""
        own = self.token is None or (submitter.token is not None and submitter.token.uuid == self.token.uuid)
        return own and self.is_same_user(submitter)


@dataclass(frozen=True)
class Need:
    """A right that a request needs; ``what`` names the object, or the request, in messages.

    ``keys`` are the keys of the scopes that contain the object, and ``example`` is the rule that an administrator could
    add: a role and an object, as ``gnt-cluster access add`` takes them. ``owner`` is the user of the remote API whose
    tokens the request is about: that user needs no rule, and no token meets such a need. ``object`` is the UUID of the
    object that ``what`` names, empty if it names none.
    """

    right: Right
    what: str
    keys: tuple[str, ...]
    example: str
    owner: str = ""
    object: str = ""


@dataclass(frozen=True)
class Decision:
    """Whether a need is met: by this rule, or without a rule because the subject is an administrator."""

    is_allowed: bool
    rule: Rule | None = None


Find = Callable[[str, str], Iterable[Rule]]
"""Returns the rules of a user or group on the scope with a key."""


def decide(find: Find, subject: Subject, need: Need, *, token: Token | None = None) -> Decision:
    """Decide about one need; ``token`` is the subject's token as it is now, None if it does not exist any more."""
    is_admin = subject.is_admin
    if use := subject.token:
        is_its = token is not None and (token.uuid, token.user) == (use.uuid, subject.user)
        if token is None or not is_its or not token.allows(need):
            return Decision(is_allowed=False)
        is_admin |= use.is_admin
    is_owner = need.owner != "" and (need.owner, "rapi") == (subject.user, subject.door)
    if is_admin or is_owner:
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
