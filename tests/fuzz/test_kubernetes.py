"""The Kubernetes server under hostile requests: no 500, no traceback, memory back to where it was."""

import contextlib
import functools
from collections.abc import Awaitable, Iterator

import msgspec
from tests.fuzz import doors, hostile, http
from tests.kubernetes.apiserver import api

from gantry.doors import http as web
from gantry.kubernetes import apiserver
from gantry.kubernetes.api import openapi
from gantry.kubernetes.apiserver import resources
from gantry.runtime import http_interface, simulated

HEADERS = ("content-type", "accept", "accept", "authorization", "user-agent")
ADMIN = {"authorization": "Bearer secret"}
LOGINS = (*([ADMIN] * 12), {}, {"authorization": "Bearer wrong"})
READS = (
    "limit",
    "continue",
    "labelSelector",
    "fieldSelector",
    "resourceVersion",
    "resourceVersionMatch",
    "timeoutSeconds",
    "watch",
    "allowWatchBookmarks",
    "sendInitialEvents",
    "includeObject",
)
WRITES = ("dryRun", "fieldManager", "fieldManager", "fieldValidation", "force", "propagationPolicy")
KNOWN = (
    "one",
    "two",
    "three",
    "default",
    "10.0.0.1",
    "10.0.0.0/24",
    "2001:db8::/64",
    "All",
    "Strict",
    "a",
    "a=b",
    "a in (b)",
    "!a",
    "metadata.name=one",
    "1",
    "0",
    "Background",
    "Exact",
    "true",
    "Object",
)
NAMES: dict[str, tuple[str, ...]] = {
    plural: ("one", "two", "three") for _, _, kinds in resources.groups() for plural in (kind.plural for kind in kinds)
}
NAMES["namespaces"] = ("default", "default", "default", "one")
FITTING = {
    "name": ("one", "two", "three"),
    "namespace": ("default",),
    "start": ("10.0.0.1",),
    "end": ("10.0.0.9",),
    "subnet": ("10.0.0.0/24",),
    "address": ("10.0.0.1",),
    "prefix": (24,),
    "gateway": ("10.0.0.254",),
    "finalizers": (["a.b/c"],),
    "labels": ({"a": "b"},),
    "path": (
        "",
        "/",
        "/spec",
        "/spec/pools/0",
        "/spec/pools/-",
        "/metadata/labels/a",
        "/metadata/name",
        "/kind",
        "/~2",
        "/spec/pools/" + "9" * 4400,
    ),
    "from": ("", "/spec", "/metadata/labels/a"),
    "namePrefix": ("p",),
}
TEXT = {"type": "string"}
TEXTS = {"type": "array", "items": TEXT}
OWNER = {
    "type": "object",
    "required": ["apiVersion", "kind", "name", "uid"],
    "properties": dict.fromkeys(("apiVersion", "kind", "name", "uid"), TEXT) | {"controller": {"type": "boolean"}},
}
FIELDS = {"type": "object", "additionalProperties": {"type": "object", "additionalProperties": {"type": "object"}}}
ENTRY = {
    "type": "object",
    "properties": dict.fromkeys(("manager", "operation", "apiVersion", "time", "fieldsType", "subresource"), TEXT)
    | {"fieldsV1": FIELDS},
}
METADATA = {
    "type": "object",
    "required": ["name"],
    "properties": {
        **dict.fromkeys(
            ("name", "namespace", "generateName", "uid", "resourceVersion", "deletionTimestamp", "creationTimestamp"),
            TEXT,
        ),
        "labels": {"type": "object", "additionalProperties": TEXT},
        "annotations": {"type": "object", "additionalProperties": TEXT},
        "finalizers": TEXTS,
        "ownerReferences": {"type": "array", "items": OWNER},
        "generation": {"type": "integer"},
        "managedFields": {"type": "array", "items": ENTRY},
    },
}
STEP = {
    "type": "object",
    "required": ["op", "path"],
    "properties": {
        "op": {"enum": ["add", "remove", "replace", "move", "copy", "test"]},
        "path": TEXT,
        "from": TEXT,
        "value": METADATA,
    },
}
STEPS = {"type": "array", "items": STEP}
DELETION = {
    "type": "object",
    "properties": {
        "preconditions": {"type": "object", "properties": {"uid": TEXT, "resourceVersion": TEXT}},
        "propagationPolicy": {"enum": ["Background", "Foreground", "Orphan", "X"]},
        "dryRun": TEXTS,
        "gracePeriodSeconds": {"type": "integer"},
        "orphanDependents": {"type": "boolean"},
    },
}


def _field(number: int, value: bytes) -> bytes:
    return bytes([number << 3 | 2, len(value)]) + value


PROTOBUF = tuple(
    b"k8s\0" + _field(1, _field(1, b"v1") + _field(2, kind)) + _field(2, inside)
    for kind, inside in (
        (b"Namespace", _field(1, _field(1, b"one") + _field(11, _field(1, b"a") + _field(2, b"b")) + _field(14, b"f"))),
        (
            b"Secret",
            _field(1, _field(1, b"one"))
            + _field(2, _field(1, b"k") + _field(2, b"v"))
            + _field(3, b"Opaque")
            + b"\x28\x01",
        ),
    )
)


def _operations() -> tuple[list[http.Operation], hostile.Json]:
    described: list[http.Operation] = []
    schemas: hostile.Json = {}
    for _, version, kinds in resources.groups():
        document = openapi.group(kinds, version)
        components = msgspec.convert(document["components"], dict[str, dict[str, hostile.Json]])
        for name, schema in components["schemas"].items():
            schemas[name] = _typed(schema)
        for each in http.operations(document):
            if each.method == "PATCH":
                kinds_of_patch = (api.MERGE, api.APPLY, "application/strategic-merge-patch+json", "application/yaml")
                body = next(
                    other.body
                    for other in described
                    if other.path.startswith(each.path.partition("/{name}")[0]) and other.body
                )
                described += [
                    http.Operation("PATCH", each.path, WRITES, STEPS, (api.STEPS,)),
                    http.Operation("PATCH", each.path, WRITES, body, kinds_of_patch),
                ]
            else:
                described.append(
                    http.Operation(each.method, each.path, WRITES, each.body, ("application/json", "application/yaml"))
                )
    paths = {each.path for each in described}
    described += [http.Operation("GET", path, READS) for path in paths]
    described += [
        http.Operation("DELETE", path, (*WRITES, "labelSelector"), DELETION) for path in paths if may_delete(path)
    ]
    odd = (
        "/api",
        "/apis",
        "/version",
        "/openapi/v2",
        "/openapi/v3",
        "/openapi/v3/{group}",
        "/apis/{group}",
        "/healthz",
        "/api/v1",
        "/apis/{group}/{version}",
    )
    described += [http.Operation("GET", path, ("timeout",)) for path in odd]
    secrets = ("/api/v1/namespaces/{namespace}/secrets", "/api/v1/namespaces")
    described += [
        http.Operation("POST", path, WRITES, None, ("application/vnd.kubernetes.protobuf",), PROTOBUF)
        for path in secrets * 3
    ]
    # Names of unknown fields come back in a header.
    unknown_fields: hostile.Json = {
        "type": "object",
        "required": list(hostile.KEYS),
        "properties": dict.fromkeys(hostile.KEYS, TEXT),
    }
    unknown = {"type": "object", "required": ["spec"], "properties": {"spec": unknown_fields}}
    path = f"{api.HERE}/ippools/{{name}}"
    described += [http.Operation("PATCH", path, WRITES, unknown, (api.MERGE,))] * 5
    return described, schemas


def may_delete(path: str) -> bool:
    """Return whether requests delete below a path; the namespace itself stays."""
    return not path.endswith(("/status", "/namespaces", "/namespaces/{name}"))


def _typed(schema: hostile.Json) -> hostile.Json:
    """Return the schema of a kind with its own version, kind and metadata."""
    (kind,) = msgspec.convert(schema["x-kubernetes-group-version-kind"], list[dict[str, str]])
    version = f"{kind['group']}/{kind['version']}" if kind["group"] else kind["version"]
    properties = msgspec.convert(schema.get("properties", {}), hostile.Json)
    own = {"apiVersion": {"const": version}, "kind": {"const": kind["kind"]}, "metadata": METADATA}
    return {"type": "object", "properties": properties | own, "required": ["apiVersion", "kind", "metadata", "spec"]}


async def restore(server: web.Server) -> dict[str, str]:
    """Create a pool, a claim, a secret and a lease where there is none."""
    lease: api.Json = {"metadata": {"name": "one"}, "spec": {"holderIdentity": "me"}}
    for path, body in (
        (api.POOLS, api.pool("one", labels={"a": "b"})),
        (api.CLAIMS, api.claim("one", of="one")),
        (api.SECRETS, api.secret("one")),
        (api.LEASES, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **lease}),
    ):
        headers = {"content-type": "application/json", **ADMIN}
        await server.answer(http_interface.Request("POST", path, msgspec.json.encode(body), headers))
    return {}


@contextlib.contextmanager
def start() -> Iterator[tuple[http.Door, doors.Run]]:
    world = simulated.World(seed=1)
    with world:
        machine = world.machine("one")
        application = apiserver.Application(machine, "/kube", tokens={"secret": "admin"})
        tasks = machine.spawn(application.open())
        world.run(_wait(tasks))
        server = web.Server(machine, application)
        described, schemas = _operations()
        yield (
            http.Door(
                "kubernetes",
                server,
                described,
                hostile.Schemas(schemas, KNOWN, fitting=FITTING),
                LOGINS,
                HEADERS,
                http_interface.Request("GET", api.POOLS, b"", dict(ADMIN)),
                NAMES,
                functools.partial(restore, server),
                allowed=frozenset(),
            ),
            world.run,
        )
        world.run(_wait(machine.spawn(application.close())))


async def _wait(work: Awaitable[None]) -> None:
    await work


def test_hostile_requests_are_refused_without_an_error_of_the_server() -> None:
    doors.check("Kubernetes server", start)
