"""The OpenAPI description of the remote API, which ``GET /openapi.json`` returns.

It follows from the routes and from the opcodes: a body has the opcode's fields that the path does not have, under the
names that clients use. ``make golden`` writes it to docs/reference/openapi/remote-api.json. Loading the opcodes takes
0.1 s, so only a request for the description does it.
"""

import functools
import re
from collections.abc import Iterable, Mapping

import msgspec

import gantry
from gantry.doors import rapi
from gantry.doors.http import representation, users
from gantry.doors.rapi import changes, console_stream, routes, sign_on, wire
from gantry.model import fields, opcodes
from gantry.state.store import events

Json = dict[str, object]

_REFERENCE = "#/components/schemas/{name}"
_TEXT: Json = {"type": "string"}
_FLAG: Json = {"type": "integer", "enum": [0, 1]}
_QUERY: Mapping[str, Json] = {
    "reason": _TEXT,
    "fields": {"type": "string", "description": "Names of fields, separated by commas"},
    "tag": {"type": "array", "items": _TEXT},
    "of": {"type": "string", "description": "An address, a MAC address, a CIDR, or the name of an owner or network"},
    "at": {"type": "number", "description": "A time in the past, in seconds since the epoch"},
    "limit": {"type": "integer", "minimum": 1, "description": "The maximum number of rows"},
    "kind": {"type": "string", "enum": [*events.KINDS]},
    "name": {"type": "string", "description": "The name, the UUID or the number of an object"},
    "since": {"type": "number", "description": "A time in the past, in seconds since the epoch"},
    "after": {"type": "integer", "minimum": 0, "description": "A serial: the stream begins with the event after it"},
    "job": {"type": "integer", "minimum": 0, "description": "The number of a job whose changes are in the stream too"},
    "to": {"type": "string", "description": "A page of the console, from the # on"},
    **dict.fromkeys(("code", "state", "iss", "error"), _TEXT),
}
"""The query arguments that are not flags."""

_PATH: Mapping[str, Json] = {
    "job": {"type": "integer", "minimum": 0},
    "kind": {"type": "string", "enum": list(console_stream.KINDS)},
    "what": {"type": "string", "enum": list(fields.REGISTRY)},
}
"""The variable parts of paths that are not the names of objects."""

_QUERY_BODY: Json = {
    "type": "object",
    "properties": {"fields": {"type": "array", "items": _TEXT}, "qfilter": {}, "filter": {}},
    "additionalProperties": False,
}
_WAIT_BODY: Json = {
    "type": "object",
    "properties": {
        "fields": {"type": "array", "items": _TEXT},
        "previous_job_info": {"type": ["array", "null"]},
        "previous_log_serial": {"type": ["integer", "null"]},
    },
    "required": ["fields"],
    "additionalProperties": False,
}
_BODIES: Mapping[tuple[str, str], Json] = {
    ("PUT", "/2/query/{what}"): _QUERY_BODY,
    ("GET", "/2/jobs/{job}/wait"): _WAIT_BODY,
    ("POST", "/2/session"): {
        "type": "object",
        "properties": {"user": _TEXT, "password": _TEXT},
        "required": ["user", "password"],
        "additionalProperties": False,
    },
    ("POST", "/2/tokens"): {
        "type": "object",
        "properties": {
            "name": _TEXT,
            "extent": {"type": "string", "enum": ["everything", "read", "roles"]},
            "roles": {"type": "array", "items": {"$ref": _REFERENCE.format(name="TokenRole")}},
            "until": {"anyOf": [{"type": "number"}, {"const": "never"}, {"type": "null"}]},
        },
        "required": ["name"],
        "additionalProperties": False,
    },
    ("POST", "/2/webhooks"): {
        "type": "object",
        "properties": {
            "name": _TEXT,
            "url": _TEXT,
            "events": {"type": "array", "items": _TEXT},
            "authorities": _TEXT,
            "without_tls": {"type": "boolean"},
            "begin": {"type": ["integer", "null"], "minimum": 1},
        },
        "required": ["name", "url"],
        "additionalProperties": False,
    },
    ("PUT", "/2/nodes/{name}/role"): {"type": "string", "enum": ["master-candidate", "regular", "drained", "offline"]},
}
"""The bodies of the resources that are not made of an opcode, by method and path."""

_EXTRA: Mapping[str, Json] = {
    "OP_INSTANCE_CREATE": {"__version__": {"const": 1}},
    "OP_INSTANCE_REINSTALL": {"start": {"type": "boolean"}, "nostartup": _TEXT},
    "OP_NODE_MODIFY_STORAGE": {"allocatable": {"type": "boolean"}},
}
"""Fields of requests that become something else than a field of the opcode."""


_WITHOUT_USER = (wire.Access.OPEN, wire.Access.EVERYBODY)


def described_path(route: routes.Route) -> str:
    """Return the path with the same names for its variable parts in all methods, as OpenAPI has them."""
    return re.sub(r"\{[a-z]+_name\}", "{name}", route.path)


def _opcode_schemas() -> dict[str, Json]:
    """Return the schema of each structure of the opcodes, by name."""
    _, schemas = msgspec.json.schema_components(opcodes.ALL, ref_template=_REFERENCE)
    return schemas


def _properties(op: str, schemas: Mapping[str, Json]) -> tuple[Json, set[str]]:
    """Return the schemas of an opcode's fields, and the names of those that it requires."""
    (kind,) = (each for each in opcodes.ALL if each.__struct_config__.tag == op)
    described = schemas[kind.__name__]
    foreign: Json = {
        name: {"description": f"Not supported: {field.about}" if field.about else "Ignored"}
        for name, field in opcodes.FOREIGN.get(op, {}).items()
    }
    properties = msgspec.convert(described["properties"], Json)
    return foreign | properties, set(msgspec.convert(described.get("required", []), list[str]))


def _body(change: changes.Change, schemas: Mapping[str, Json]) -> Json:
    """Return the schema of the body of a change."""
    properties, required = _properties(change.op, schemas)
    in_path = {part[1:-1] for part in change.route.parts if part.startswith("{")}
    static = {"OP_ID", "reason", "dry_run", *in_path, *change.fixed}
    aliases = {field: name for name, field in change.aliases.items() if change.aliases is not changes._CUSTOM}
    settable = {aliases.get(name, name): about for name, about in properties.items() if name not in static}
    names = sorted(aliases.get(name, name) for name in required - static - set(change.query.values()))
    settable |= {alias: settable[field] for alias, field in change.aliases.items() if field in settable}
    extra = _EXTRA.get(change.op, {})
    names += [name for name in extra if name.startswith("__")]
    body: Json = {"type": "object", "properties": settable | extra, "additionalProperties": False}
    return body | ({"required": names} if names else {})


def _query(route: routes.Route, change: changes.Change | None, schemas: Mapping[str, Json]) -> Iterable[Json]:
    of_opcode = _properties(change.op, schemas)[0] if change else {}
    for name in route.query:
        field = change.query.get(name, "") if change else ""
        known = _QUERY.get(name) or (of_opcode.get(field, _TEXT) if field else _FLAG)
        yield {"name": name, "in": "query", "schema": known}


def _operation(route: routes.Route, change: changes.Change | None, schemas: Mapping[str, Json]) -> Json:
    path = described_path(route)
    names = re.findall(r"\{([a-z]+)\}", path)
    parameters: list[Json] = [
        {"name": name, "in": "path", "required": True, "schema": _PATH.get(name, _TEXT)} for name in names
    ]
    is_job = route.text.startswith("job: ")
    failures: Json = {"default": {"$ref": "#/components/responses/Failure"}}
    operation: Json = {
        "summary": route.text.replace("`", ""),
        "operationId": f"{route.method.lower()} {path}",
        "parameters": [*parameters, *_query(route, change, schemas)],
        "responses": {
            "200": {
                "description": "The number of the job" if is_job else "The answer",
                "content": {(route.form or representation.JSON): {"schema": {"type": "integer"} if is_job else {}}},
            },
            **failures,
        },
        "security": [
            {"password": []},
            {"session": []},
            {"token": []},
            *([{}] if route.access in _WITHOUT_USER else []),
        ],
    }
    if route in console_stream.ROUTES:
        operation |= {"responses": {"101": {"description": "A WebSocket"}, **failures}, "security": [{"session": []}]}
    if route.form == sign_on.FORM:
        operation |= {"responses": {"303": {"description": "Leads the browser on"}, **failures}}
    body = _body(change, schemas) if change and change.body else _BODIES.get((route.method, path))
    if body is not None:
        operation["requestBody"] = {"content": {representation.JSON: {"schema": body}}}
    return operation


def document() -> Json:
    """Return the description."""
    schemas = _opcode_schemas()
    by_route = {(change.method, change.path): change for change in changes.CHANGES}
    paths: dict[str, Json] = {}
    for route in rapi.ROUTES:
        change = by_route.get((route.method, route.path))
        paths.setdefault(described_path(route), {})[route.method.lower()] = _operation(route, change, schemas)
    failure: Json = {
        "type": "object",
        "properties": {"code": {"type": "integer"}, "message": _TEXT, "explain": {"type": ["string", "null"]}},
        "required": ["code", "message", "explain"],
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Gantry remote API", "version": gantry.__version__},
        "servers": [{"url": "/"}],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": schemas | {"Failure": failure},
            "responses": {
                "Failure": {
                    "description": "The request failed",
                    "content": {representation.JSON: {"schema": {"$ref": _REFERENCE.format(name="Failure")}}},
                }
            },
            "securitySchemes": {
                "password": {"type": "http", "scheme": "basic", "description": users.REALM},
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An API token, which POST /2/tokens or gantry token add creates",
                },
                "session": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "__Host-gantry-session",
                    "description": "The cookie that POST /2/session sets; a change repeats its token in X-Gantry-CSRF",
                },
            },
        },
    }


@functools.cache
def encoded() -> bytes:
    """Return the description as JSON."""
    return msgspec.json.encode(document()) + b"\n"
