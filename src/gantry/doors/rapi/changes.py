"""The resources that change something: for each path and method the opcode, and the mapping of its arguments.

Each row of ``CHANGES`` is a method of a resource. A part of the path in braces is the opcode's field of that name; a
query argument is the field that it is mapped to; the body has the opcode's other fields, by their own names or by those
that existing clients use (contracts/remote-api.md#resources). The opcode validates the fields. The answer is the job
id. Ganeti has two such resources that only read (GET): equal requests get the same job while it has not ended.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from gantry import errors
from gantry.doors.rapi import routes, wire
from gantry.runtime import bounded_json

Op = dict[str, object]
TAG_KINDS = {
    "/2": ("cluster", ""),
    "/2/instances/{name}": ("instance", "instance "),
    "/2/nodes/{name}": ("node", "node "),
    "/2/groups/{name}": ("nodegroup", "group "),
    "/2/networks/{name}": ("network", "network "),
}
"""For each path of an object with tags: the kind of the object, and its noun in texts."""


@dataclasses.dataclass(frozen=True)
class Change:
    """A change: ``query`` and ``aliases`` map a query argument or body key to a field of the opcode.

    ``fixed`` has fields that a request cannot set; ``arrange`` converts the fields, or makes several opcodes of them.
    """

    method: str
    path: str
    op: str
    query: Mapping[str, str] = dataclasses.field(default_factory=dict)
    aliases: Mapping[str, str] = dataclasses.field(default_factory=dict)
    fixed: Mapping[str, object] = dataclasses.field(default_factory=dict)
    body: bool = True
    access: wire.Access = wire.Access.WRITE
    arrange: Callable[[Op], list[Op]] | None = None

    async def call(self, master: routes.Master, request: wire.Request, names: Mapping[str, str]) -> wire.Answer:
        """Submit the job and return its number."""
        op = self._op(request, names)
        ops = self.arrange(op) if self.arrange else [op]
        submit = master.submit_read if self.method == "GET" else master.submit
        return wire.Answer(await submit(request, ops))

    def _op(self, request: wire.Request, names: Mapping[str, str]) -> Op:
        """Collect the opcode's fields: from the body, then the query, then the path."""
        fields = self._body_fields(request.body) if self.body else {}
        static = {"OP_ID", "reason", "dry_run", *names, *self.fixed} & fields.keys()
        if static:
            raise errors.InvalidError(f"the body must not have the keys {', '.join(sorted(static))}")
        for name, field in {"dry-run": "dry_run", **self.query}.items():
            if name in request.query:
                fields[field] = request.query[name][-1]
        return {**fields, **self.fixed, **names, "OP_ID": self.op}

    def _body_fields(self, body: object) -> Op:
        if body is None:
            return {}
        if not isinstance(body, dict):
            raise errors.InvalidError("the body is not a JSON object")
        fields: Op = {}
        for name, value in body.items():
            field = self.aliases.get(name, name)
            if field in fields:
                raise errors.InvalidError(f"the body has both {name} and {field}, which mean the same")
            fields[field] = value
        return fields

    @property
    def route(self) -> routes.Route:
        """Return the route of the change."""
        query = tuple(sorted({"dry-run", "reason", *self.query}))
        access = self.access
        return routes.Route(self.method, self.path, access, self.call, f"job: `{self.op}`", query)


def _create(op: Op) -> list[Op]:
    if "__version__" not in op:
        raise errors.InvalidError("__version__ of the body is missing", hint="it must be 1")
    version = op.pop("__version__")
    if version != 1:
        raise errors.InvalidError(f"__version__ of the body is {version!r}, not 1")
    return [op]


def _drop_nulls(op: Op) -> list[Op]:
    return [{name: value for name, value in op.items() if value is not None}]


def _split_disks(op: Op) -> list[Op]:
    """Convert a text of disk numbers, "0,1", to a list."""
    disks = op.get("disks")
    if isinstance(disks, str):
        op["disks"] = [part.strip() for part in disks.split(",") if part.strip()]
    return [{"mode": "replace_auto", **op}]


def _reinstall(op: Op) -> list[Op]:
    """Return opcodes to stop, install and start; ``nostartup`` is the older form of ``start``."""
    options = {"start": op.pop("start", True), "nostartup": op.pop("nostartup", "0")}
    general: Op = {name: op[name] for name in ("instance_name", "dry_run", "depends") if name in op}
    ops: list[Op] = [{**general, "OP_ID": "OP_INSTANCE_SHUTDOWN"}, {k: v for k, v in op.items() if k != "depends"}]
    if options["start"] and options["nostartup"] in ("0", ""):
        ops.append({name: value for name, value in general.items() if name != "depends"})
        ops[-1]["OP_ID"] = "OP_INSTANCE_STARTUP"
    return ops


def _as_list(field: str, into: str) -> Callable[[Op], list[Op]]:
    def arranged(op: Op) -> list[Op]:
        op[into] = [op.pop(field)]
        return [op]

    return arranged


def _storage(op: Op) -> list[Op]:
    op["output_fields"] = [part for part in str(op.get("output_fields", "")).split(",") if part]
    return _as_list("node_name", "nodes")(op)


def _collect_changes(op: Op) -> list[Op]:
    op["changes"] = {name: op.pop(name) for name in ("allocatable",) if name in op}
    return [op]


def _query(*names: str, **aliases: str) -> dict[str, str]:
    """Return a mapping of query arguments: ``names`` are also the field names, ``aliases`` map to other fields."""
    return {name: name for name in names} | aliases


INSTANCE = "/2/instances/{instance_name}"
NODE = "/2/nodes/{node_name}"
NETWORK = "/2/networks/{network_name}"
GROUP = "/2/groups/{group_name}"
SEGMENT_RANGE = "/2/segment-ranges/{range}"
WEBHOOK = "/2/webhooks/{name}"

_CUSTOM = {f"custom_{name}": name for name in ("beparams", "hvparams", "ndparams", "ipolicy", "diskparams")}
_CREATE_ALIASES = {"name": "instance_name", "os": "os_type"}
_REMOVE_FIXED = {"ignore_failures": False}
_REPLACE_QUERY = _query("remote_node", "mode", "disks", "iallocator")
_EVACUATE_QUERY = _query("mode", "iallocator", "remote_node", "early_release")

CHANGES: tuple[Change, ...] = (
    Change("PUT", "/2/modify", "OP_CLUSTER_SET_PARAMS"),
    Change("PUT", "/2/redistribute-config", "OP_CLUSTER_REDIST_CONF", body=False),
    Change("POST", "/2/instances", "OP_INSTANCE_CREATE", aliases=_CREATE_ALIASES, arrange=_create),
    Change("DELETE", INSTANCE, "OP_INSTANCE_REMOVE", _query("shutdown_timeout"), fixed=_REMOVE_FIXED),
    Change(
        "GET", INSTANCE + "/info", "OP_INSTANCE_QUERY_DATA", _query("static"), body=False,
        access=wire.Access.READ, arrange=_as_list("instance_name", "instances"),
    ),
    Change("POST", INSTANCE + "/reboot", "OP_INSTANCE_REBOOT", _query("ignore_secondaries", type="reboot_type")),
    Change("PUT", INSTANCE + "/startup", "OP_INSTANCE_STARTUP", _query("force", "no_remember"), body=False),
    Change("PUT", INSTANCE + "/shutdown", "OP_INSTANCE_SHUTDOWN", _query("no_remember")),
    Change(
        "POST", INSTANCE + "/reinstall", "OP_INSTANCE_REINSTALL", _query("nostartup", os="os_type"),
        {"os": "os_type"}, arrange=_reinstall,
    ),
    Change("POST", INSTANCE + "/replace-disks", "OP_INSTANCE_REPLACE_DISKS", _REPLACE_QUERY, arrange=_split_disks),
    Change("PUT", INSTANCE + "/activate-disks", "OP_INSTANCE_ACTIVATE_DISKS", _query("ignore_size"), body=False),
    Change("PUT", INSTANCE + "/deactivate-disks", "OP_INSTANCE_DEACTIVATE_DISKS", _query("force"), body=False),
    Change("POST", INSTANCE + "/recreate-disks", "OP_INSTANCE_RECREATE_DISKS"),
    Change("POST", INSTANCE + "/disk/{disk}/grow", "OP_INSTANCE_GROW_DISK"),
    Change("PUT", INSTANCE + "/export", "OP_BACKUP_EXPORT", aliases={"destination": "target_node"}),
    Change("DELETE", INSTANCE + "/export", "OP_BACKUP_REMOVE", body=False),
    Change("PUT", INSTANCE + "/migrate", "OP_INSTANCE_MIGRATE"),
    Change("PUT", INSTANCE + "/failover", "OP_INSTANCE_FAILOVER"),
    Change("PUT", INSTANCE + "/rename", "OP_INSTANCE_RENAME"),
    Change("PUT", INSTANCE + "/modify", "OP_INSTANCE_SET_PARAMS", aliases=_CUSTOM),
    Change("POST", NODE + "/evacuate", "OP_NODE_EVACUATE", _EVACUATE_QUERY),
    Change("POST", NODE + "/migrate", "OP_NODE_MIGRATE", _query("live", "mode")),
    Change("POST", NODE + "/modify", "OP_NODE_SET_PARAMS", _query("force")),
    Change(
        "GET", NODE + "/storage", "OP_NODE_QUERY_STORAGE", _query("storage_type", "output_fields"), body=False,
        arrange=_storage,
    ),
    Change(
        "PUT", NODE + "/storage/modify", "OP_NODE_MODIFY_STORAGE", _query("storage_type", "name", "allocatable"),
        body=False, arrange=_collect_changes,
    ),
    Change("PUT", NODE + "/storage/repair", "OP_REPAIR_NODE_STORAGE", _query("storage_type", "name"), body=False),
    Change("POST", "/2/networks", "OP_NETWORK_ADD", aliases={"name": "network_name"}, arrange=_drop_nulls),
    Change("DELETE", NETWORK, "OP_NETWORK_REMOVE"),
    Change("PUT", NETWORK + "/modify", "OP_NETWORK_SET_PARAMS"),
    Change("PUT", NETWORK + "/rename", "OP_NETWORK_RENAME"),
    Change("PUT", NETWORK + "/connect", "OP_NETWORK_CONNECT"),
    Change("PUT", NETWORK + "/disconnect", "OP_NETWORK_DISCONNECT"),
    Change("POST", "/2/groups", "OP_GROUP_ADD", aliases={"name": "group_name", **_CUSTOM}),
    Change("DELETE", GROUP, "OP_GROUP_REMOVE"),
    Change("PUT", GROUP + "/modify", "OP_GROUP_SET_PARAMS", aliases=_CUSTOM),
    Change("PUT", GROUP + "/rename", "OP_GROUP_RENAME"),
    Change("POST", "/2/access", "OP_ACCESS_ADD"),
    Change("DELETE", "/2/access", "OP_ACCESS_REMOVE", _query("who", "role", "on"), body=False),
    Change("PUT", GROUP + "/assign-nodes", "OP_GROUP_ASSIGN_NODES", _query("force")),
    Change("POST", "/2/segment-ranges", "OP_SEGMENT_RANGE_ADD"),
    Change("DELETE", SEGMENT_RANGE, "OP_SEGMENT_RANGE_REMOVE", body=False),
    Change("PUT", SEGMENT_RANGE + "/modify", "OP_SEGMENT_RANGE_SET_PARAMS"),
    Change("PUT", WEBHOOK + "/modify", "OP_WEBHOOK_SET_PARAMS", fixed={"new_secret": False}),
    Change("POST", WEBHOOK + "/test", "OP_WEBHOOK_TEST", body=False),
    Change("DELETE", WEBHOOK, "OP_WEBHOOK_REMOVE", body=False),
)  # fmt: skip

_ROLES: dict[str, dict[str, bool]] = {
    "master-candidate": {"offline": False, "drained": False, "master_candidate": True},
    "regular": {"offline": False, "drained": False, "master_candidate": False},
    "drained": {"offline": False, "drained": True},
    "offline": {"offline": True},
}


async def _set_role(master: routes.Master, request: wire.Request, names: Mapping[str, str]) -> wire.Answer:
    """Set the flags of a node by its role."""
    flags = _ROLES.get(request.body) if isinstance(request.body, str) else None
    if flags is None:
        raise errors.InvalidError(
            f"the body is not a role that can be set: {request.body!r}", hint=f"the roles are {', '.join(_ROLES)}"
        )
    options = {"force": request.flag("force"), "auto_promote": request.flag("auto-promote")}
    dry_run = request.flag("dry-run")
    return wire.Answer(
        await master.submit(request, [{"OP_ID": "OP_NODE_SET_PARAMS", **names, **flags, **options, "dry_run": dry_run}])
    )


def _tagging(op: str, kind: str) -> routes.Call:
    async def call(master: routes.Master, request: wire.Request, names: Mapping[str, str]) -> wire.Answer:
        tags: Sequence[str] = request.query.get("tag", ())
        if not tags:
            raise errors.InvalidError(
                "the request has no tags", hint="add each tag as a query argument: ?tag=first&tag=second"
            )
        dry_run = request.flag("dry-run")
        return wire.Answer(
            await master.submit(request, [{"OP_ID": op, "kind": kind, "tags": tags, **names, "dry_run": dry_run}])
        )

    return call


async def _cancel(master: routes.Master, request: wire.Request, names: Mapping[str, str]) -> wire.Answer:
    """Cancel a job, with ``kill`` also a running one; the answer is whether it was canceled, and a message."""
    kill = [True] if request.flag("kill") else []
    return wire.Answer(await master.caller.call(object, "CancelJob", job_number(names), *kill))


def job_number(names: Mapping[str, str]) -> int:
    """Return the number of a job in a path; InvalidError if it is not a number."""
    try:
        return bounded_json.number(names["job"])
    except bounded_json.UnreadableError:
        raise errors.InvalidError(f"'{names['job'][:40]}' is not a job number") from None


def _tag_routes(path: str, kind: str) -> list[routes.Route]:
    query = ("dry-run", "reason", "tag")
    return [
        routes.Route(method, path + "/tags", wire.Access.WRITE, _tagging(op, kind), f"job: `{op}`", query)
        for method, op in (("PUT", "OP_TAGS_SET"), ("DELETE", "OP_TAGS_DEL"))
    ]


ROUTES: tuple[routes.Route, ...] = (
    *(change.route for change in CHANGES),
    routes.Route(
        "PUT", NODE + "/role", wire.Access.WRITE, _set_role, "job: `OP_NODE_SET_PARAMS`; the body is the role",
        ("auto-promote", "dry-run", "force", "reason"),
    ),
    *(route for path, (kind, _) in TAG_KINDS.items() for route in _tag_routes(path, kind)),
    routes.Route(
        "DELETE", "/2/jobs/{job}", wire.Access.WRITE, _cancel, "cancels a job: success and a message", ("kill",),
    ),
)  # fmt: skip
