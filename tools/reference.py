"""Writes the reference pages that follow from the code: ``python tools/reference.py`` writes them into docs/reference.

    commands.md     from the tables of commands that the programs declare
    opcodes.md      from the structs of the opcodes
    fields.md       from the registry of query fields
    parameters.md   from the parameter classes
    errors.md       from the exception tree
    remote-api.md   from the routes of the remote API
    neutron.md      from the tables of attributes of the Neutron API
    kubernetes.md   from the definitions of the Kubernetes door

``missing`` says what has no text; a test holds both to the code.
"""

import inspect
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import inspect as types

from gantry import errors
from gantry.cli import main
from gantry.cli.framework import command
from gantry.doors import rapi
from gantry.doors.neutron import attributes, discovery, resources
from gantry.kubernetes.api import definitions, schema
from gantry.model import fields, opcodes, parameters, policy, texts

FOLDER = Path(__file__).parents[1] / "docs/reference"
MADE = "<!-- Made by tools/reference.py; make golden writes it anew. -->"
SOURCE = re.compile(r"\s*[,;]?\s*\((?:contract|seed|[a-z ]+ seed|the seed)\b[^()]*\)")


def _text(of: object) -> str:
    """Return a docstring without the sources that it names, a paragraph a line."""
    paragraphs = re.split(r"\n\s*\n", SOURCE.sub("", inspect.getdoc(of) or ""))
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs).replace("``", "`")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows]
    return [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *lines, ""]


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _page(title: str, about: str, lines: Iterable[str]) -> str:
    return "\n".join([f"# {title}", "", MADE, "", about.strip(), "", *lines]).rstrip() + "\n"


COMMANDS = """
Each program has commands: `gnt-instance list`. `PROGRAM --help` lists the commands of a program, `PROGRAM COMMAND
--help` the options of a command, `PROGRAM --version` the version. They run on the master node and speak to the
master daemon by its socket.

| exit code | |
|---|---|
| 0 | done |
| 1 | failed or refused |
| 2 | an option is not understood, or the stored state is damaged |
| 5 | there is no cluster here |
| 11 | this node is not the master |
| 13 | somebody was asked and did not agree |
| 14 | a column does not exist |

| | |
|---|---|
| `GANTRY_ROOT` | the folder that all files are below, instead of the [system's own](files.md) |
| `GNT_INSTANCE_LIST` and its kin | arguments that a list command always gets, as in `-o +ip` |
| `0:key=value,...` | a device; a backslash before a comma takes it literally |
| sizes | MiB, or with a unit: `512m`, `10g`, `1t` |

Every command takes these:
"""


def _option_rows(options: Iterable[command.Option]) -> Iterator[tuple[str, str]]:
    for option in options:
        names = ", ".join(option.names) + (f" {option.metavar}" if option.takes_value else "")
        notes = [f"one of {', '.join(option.choices)}"] if option.choices else []
        notes += ["may be given again"] if option.many else []
        notes += [f"default {option.default}"] if option.takes_value and isinstance(option.default, str | int) else []
        yield _code(names), option.help + (f" ({'; '.join(notes)})" if notes else "")


def commands() -> str:
    """Return the page of the commands."""
    lines = _table(("option", ""), _option_rows(command.EVERY))
    for program in main.PROGRAMS:
        known, about = main.commands(program)
        lines += [f"## {program}", "", about, ""]
        for one in known:
            lines += _command(program, one)
    return _page("Commands", COMMANDS, lines)


def _command(program: str, one: command.Command) -> list[str]:
    arguments = "".join(f" {argument.usage}" for argument in one.arguments)
    lines = [f"### {program} {one.name}", "", f"`{program} {one.name} [OPTIONS]{arguments}`", "", f"{one.help}."]
    lines += [f"Also: {', '.join(map(_code, one.aliases))}."] if one.aliases else []
    lines += ["", "```text", *inspect.cleandoc(one.text).splitlines(), "```"] if one.text else []
    return [*lines, "", *(_table(("option", ""), _option_rows(one.options)) if one.options else [])]


OPCODES = """
A job is a list of opcodes, each an object with its name in `OP_ID` and its fields; a field that is left out has its
default, an unknown one is refused. Numbers and truth values may be text. These fields every opcode has:
"""


def opcode_page() -> str:
    """Return the page of the opcodes, with the structures that they contain at its end."""
    lines = _field_table(opcodes.Opcode, ())
    parts: dict[type, None] = {}
    for one in opcodes.ALL:
        name = f"OP_{re.sub(r'(?<!^)(?=[A-Z])', '_', one.__name__).upper()}"
        lines += [f"## {name}", "", _text(one), "", *_field_table(one, opcodes.Opcode.__struct_fields__)]
    lines += ["## Fields of other clients", "", *FOREIGN.strip().splitlines(), "", *_foreign_table()]
    for struct in _opcodes():
        parts.update(dict.fromkeys(_parts(struct)))
    lines += ["## Structures", ""]
    for part in sorted(parts, key=lambda part: part.__name__):
        array = " It is written as a list." if types.type_info(part).array_like else ""  # type: ignore[attr-defined]
        lines += [f"### {part.__name__}", "", _text(part) + array, "", *_field_table(part, ())]
    return _page("Opcodes", OPCODES, lines)


FOREIGN = """
Clients of older clusters send fields that no opcode has here. They are let pass while they ask for nothing: null,
empty, or one of the values in the second column. A field without an entry in the third is let pass with any value.
"""


def _foreign_table() -> list[str]:
    rows: list[tuple[str, ...]] = []
    for name, others in opcodes.FOREIGN.items():
        for field, about in others.items():
            idle = ", ".join(_code(json.dumps(value)) for value in about.idle)
            rows.append((f"{name} {_code(field)}", idle, about.about))
    return _table(("field", "also let pass", "refused, because it asks for"), rows)


def _opcodes() -> list[type]:
    return [opcodes.Opcode, *opcodes.ALL]


def _struct_fields(struct: type) -> Sequence[types.Field]:
    info = types.type_info(struct)
    assert isinstance(info, types.StructType)
    return info.fields


def _parts(struct: type) -> Iterator[type]:
    """Yield the structures that a structure's fields hold, and those in them."""
    for field in _struct_fields(struct):
        yield from _held(field.type)


def _held(kind: types.Type) -> Iterator[type]:
    match kind:
        case types.StructType():
            yield kind.cls
            yield from _parts(kind.cls)
        case types.Metadata():
            yield from _held(kind.type)
        case types.UnionType():
            for one in kind.types:
                yield from _held(one)
        case types.VarTupleType():
            yield from _held(kind.item_type)


def _field_table(struct: type, without: Sequence[str]) -> list[str]:
    rows = [
        (_code(field.encode_name), _kind(field.type), _default(field), field_text(struct, field))
        for field in _struct_fields(struct)
        if field.name not in without
    ]
    return _table(("field", "type", "default", ""), rows) if rows else []


def field_text(struct: type, field: types.Field) -> str:
    """Return what a field means."""
    return texts.of(struct.__name__, field.name, own=next(_descriptions(field.type), ""))


def _descriptions(kind: types.Type) -> Iterator[str]:
    if isinstance(kind, types.Metadata):
        text = (kind.extra_json_schema or {}).get("description")
        if isinstance(text, str):
            yield text
        yield from _descriptions(kind.type)
    if isinstance(kind, types.UnionType):
        for one in kind.types:
            yield from _descriptions(one)


def _kind(kind: types.Type) -> str:
    """Say in words what JSON value a field takes."""
    match kind:
        case types.Metadata():
            return _kind(kind.type)
        case types.BoolType():
            return "true or false"
        case types.IntType() | types.FloatType():
            return _bounded("number", kind.ge, kind.le)
        case types.StrType():
            return "text"
        case types.NoneType():
            return "null"
        case types.LiteralType():
            return " or ".join(f"`{value}`" for value in kind.values)
        case types.UnionType():
            return " or ".join(dict.fromkeys(_kind(one) for one in kind.types if not isinstance(one, types.NoneType)))
        case types.VarTupleType():
            return f"list of {_kind(kind.item_type)}"
        case types.TupleType():
            return f"list [{', '.join(_kind(one) for one in kind.item_types)}]"
        case types.DictType():
            return "object"
        case types.StructType():
            return f"[{kind.cls.__name__}](#{kind.cls.__name__.lower()})"
    return type(kind).__name__


def _bounded(word: str, low: float | None, high: float | None) -> str:
    if low is not None and high is not None:
        return f"{word}, {low} to {high}"
    return f"{word} from {low}" if low is not None else word


def _default(field: types.Field) -> str:
    if field.required:
        return "required"
    value = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    return _code(msgspec.json.encode(value).decode())


FIELDS = """
What lists show (`-o`), filters ask for and the LUXI methods `Query` and `QueryFields` know. A *live* field needs an
answer from a node, and has none while that is offline. Sizes are MiB, timestamps seconds since 1970. Parameters may
also be written `hvparam/NAME` and `beparam/NAME`.
"""
NUMBERED = re.compile(r"/\d+$")


def field_page() -> str:
    """Return the page of the query fields; of the numbered ones the first stands for all."""
    lines: list[str] = []
    for resource, known in fields.REGISTRY.items():
        rows = []
        for field in known.values():
            if NUMBERED.search(field.name) and not field.name.endswith("/0"):
                continue
            name = NUMBERED.sub("/N", field.name)
            text = re.sub(r"(disk|NIC) 0$", r"\1 N", field.doc)
            title = field.title.replace("/0", "/N")
            rows.append((_code(name), title, field.kind.value + (", live" if field.live else ""), text))
        lines += [f"## {resource}", "", *_table(("field", "title", "kind", ""), rows)]
    return _page("Fields", FIELDS, lines)


PARAMETERS = """
Parameters are set at [several levels](../how-to/parameters.md): for the cluster, a node group, an operating system, a
node, an instance. The nearest wins, and only what was set is stored. The value `default` takes a setting back.
"""


def parameter_page() -> str:
    """Return the page of the parameters."""
    classes = {
        "Cluster": (
            parameters.CLUSTER,
            "Settings of the cluster itself; [how they are changed](../how-to/settings.md).",
        ),
        "Backend": (parameters.BACKEND, "`-B`; `memory` sets `minmem` and `maxmem` together."),
        "NIC": (
            parameters.NIC,
            "`-N`, or `mode`, `link` and `vlan` of `--net`; a NIC with a network has its network's.",
        ),
        "Node": (parameters.NODE, "`--node-parameters` of the cluster, a node group, a node."),
        **{
            f"Disk {template}": (known, f"`-D {template}:...` of the cluster and of a node group.")
            for template, known in parameters.DISK.items()
            if known
        },
        "Policy": (
            policy.SPECS,
            "What `--ipolicy-bounds-specs` bounds; the default is that of the standard instance, nothing is bounded.",
        ),
        **{f"Hypervisor {name}": (known, f"`-H {name}:...`") for name, known in parameters.HYPERVISORS.items()},
    }
    lines: list[str] = []
    for title, (known, about) in classes.items():
        rows = [
            (_code(name), _code(str(one.default)) or "empty", ", ".join(map(_code, one.choices)), one.text)
            for name, one in known.items()
        ]
        lines += [f"## {title}", "", about, "", *_table(("parameter", "default", "values", ""), rows)]
    return _page("Parameters", PARAMETERS, lines)


ERRORS = """
A refused request changes nothing. What a command prints, and a job's result holds, has the LUXI name and, for
`OpPrereqError`, the code beside the message. The exit code is that of the commands; the HTTP status that of doors which
speak HTTP. A message says what happened, to which object, and who holds it; behind the semicolon stands what to do.
"""


def error_page() -> str:
    """Return the page of the errors."""
    rows = [
        (depth * "&nbsp;&nbsp;" + _code(one.__name__), one.luxi, one.code if one.luxi == "OpPrereqError" else "")
        + (str(one.exit_code), str(one.status), _text(one).split("\n")[0])
        for depth, one in _tree(errors.GantryError)
    ]
    return _page("Errors", ERRORS, _table(("class", "LUXI", "code", "exit code", "HTTP", ""), rows))


def _tree(root: type[errors.GantryError], depth: int = 0) -> Iterator[tuple[int, type[errors.GantryError]]]:
    yield depth, root
    for child in root.__subclasses__():
        # A room may have finer ones, which never leave it.
        if child.__module__ == errors.__name__:
            yield from _tree(child, depth + 1)


REMOTE = """
What `gantry-rapi` answers to, over HTTPS on port 5080; [how to use it](../how-to/remote-api.md). A row that says *job*
answers the number of the job that does the work; its body is a JSON object with the fields of that
[opcode](opcodes.md) which the path does not have already. Everything else is answered at once. An argument of the query
is 0 or 1, or a text; `reason` is kept with the job.

*open* means everybody unless the daemon demands a password, *read* users with the option `read` or `write`, *write*
users with `write`. `/CLUSTER/...` and `/2/CLUSTER/...` mean `/2/...`, with `tag` for `tags`, where CLUSTER is the
cluster's name.
"""


def remote_page() -> str:
    """Return the page of the remote API's resources."""
    rows = [
        (one.method, _code(one.path), one.access.value, ", ".join(map(_code, one.query)), one.text)
        for one in sorted(rapi.ROUTES, key=lambda route: route.path)
    ]
    return _page("Remote API", REMOTE, _table(("method", "path", "who", "query", ""), rows))


NEUTRON = """
What the Neutron API answers to; [how to start and use it](../how-to/neutron.md). A collection is listed (GET) and
added to (POST) at its path, `/v2.0/network-segment-ranges` being the same as with underscores; an object is shown,
changed (PUT) and removed (DELETE) at the path with its id behind it; `.json` may stand at the end of either. A POST
of a list under the plural name makes several objects, all or none.

`/tags` behind an object are its tags: GET and PUT all, POST more, DELETE them; GET, PUT and DELETE one with its name
behind that. `/v2.0/network-ip-availabilities` counts addresses for administrators. `/`, `/v2.0/`, `/v2.0/extensions`
and `/v2.0/extensions/ALIAS` say what there is.

In the tables *set* is POST or PUT, where an attribute may be given, `*` where it must be; *admin* marks what
administrators alone may set and see. Lists are filtered by the attributes with *filter*, by `tags`, `tags-any`,
`not-tags`, `not-tags-any`; sorted with `sort_key` and `sort_dir`, as often as wanted, by those with *sort*; cut into
pages with `limit`, `marker` and `page_reverse`; and reduced with `fields`. Another filter is refused.

Refusals are `{"NeutronError": {"type", "message", "detail"}}`.
"""


def neutron_page() -> str:
    """Return the page of the Neutron API."""
    lines: list[str] = []
    for one in resources.ALL:
        who = "For administrators. " if one.for_admins else ""
        lines += [f"## {one.collection}", "", f"{who}`/v2.0/{one.collection}`", ""]
        rows = (
            (_code(attribute.name), _given(attribute), _marks(attribute), attribute.text)
            for attribute in one.table.values()
        )
        lines += _table(("attribute", "set", "", ""), rows)
    known = discovery.extensions(ranges=True)["extensions"]
    assert isinstance(known, list)
    told = ((_code(each["alias"]), each["description"]) for each in known)
    return _page("Neutron API", NEUTRON, [*lines, "## Extensions", "", *_table(("alias", ""), told)])


KUBERNETES = """
The resources that [controllers](../how-to/kubernetes-controllers.md) work with and [the embedded API
server](../how-to/kubernetes-embedded.md) serves, field by field. Of kinds that are not our own (all but those of
`ipam.metal3.io`) only the fields are here that Gantry reads or writes; the others are kept as they are. Metadata are as
everywhere on Kubernetes. Where a kind has several versions, the fields are those of the first.

Annotations and labels that are read: `ipAddress` on an IPClaim asks for an address; `gantry/network` on an IPPool
[binds it](../how-to/kubernetes-controllers.md#addresses-of-a-clusters-network) to a network of a cluster;
`cluster.x-k8s.io/paused` on anything stops work on it; the label `cluster.x-k8s.io/watch-filter` is compared with
`--watch-filter`.
"""


def kube_page() -> str:
    """Return the page of the Kubernetes resources."""
    lines: list[str] = []
    for one in definitions.DEFINITIONS:
        lines += [f"## {one.kind} ({one.group})", "", one.text or _text(one.resource), ""]
        told = (
            ("versions", one.versions),
            ("short names", one.short_names),
            ("columns", [c.name for c in one.columns]),
        )
        lines += [f"- {name}: {', '.join(map(_code, listed))}" for name, listed in told if listed]
        whole = one.schema(one.versions[0], without=frozenset(("apiVersion", "kind", "metadata")))
        lines += ["", *_table(("field", "type", "rules", ""), _fields(whole, ""))]
    return _page("Kubernetes resources", KUBERNETES, lines)


def _fields(node: schema.Node, within: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield a row for each field below a node, with its path."""
    for name, one in node.properties.items():
        items = one.items if one.items else one
        kind = {"array": "list of ", "object": "map of " if one.items else ""}.get(one.type, "")
        yield _code(f"{within}{name}"), f"{kind}{items.type or 'any'}", _limits(one.rule), one.rule.text
        # The parts of a reference are the same everywhere.
        if not one.rule.atomic:
            yield from _fields(items, f"{within}{name}{'[]' if one.type == 'array' else ''}.")


def _limits(rule: schema.Rule) -> str:
    said = (
        "required" if rule.required else "",
        f"one of {', '.join(rule.enum)}" if rule.enum else "",
        f"{rule.minimum} or more" if rule.minimum is not None and rule.maximum is None else "",
        f"{rule.minimum or 0} to {rule.maximum}" if rule.maximum is not None else "",
        f"{rule.max_items} at most" if rule.max_items else "",
        f"default {rule.default}" if rule.default is not None else "",
    )
    return ", ".join(filter(None, said))


def _given(one: attributes.Attribute) -> str:
    post = ("POST*" if one.default is attributes.REQUIRED else "POST") if one.post else ""
    return ", ".join(filter(None, (post, "PUT" if one.put else "")))


def _marks(one: attributes.Attribute) -> str:
    marks = {"filter": one.filter, "sort": one.sort, "admin": one.admin, "not shown": not one.listed}
    return ", ".join(name for name, there in marks.items() if there)


PAGES = {
    "neutron.md": neutron_page,
    "kubernetes.md": kube_page,
    "commands.md": commands,
    "opcodes.md": opcode_page,
    "fields.md": field_page,
    "parameters.md": parameter_page,
    "errors.md": error_page,
    "remote-api.md": remote_page,
}


def missing() -> Iterator[str]:
    """Say what has no text."""
    for program in main.PROGRAMS:
        for one in main.commands(program)[0]:
            yield from (f"{program} {one.name}" for _ in range(not one.help))
            yield from (f"{program} {one.name} {option.names[0]}" for option in one.options if not option.help)
    for struct in dict.fromkeys([*_opcodes(), *(part for one in _opcodes() for part in _parts(one))]):
        if not struct.__doc__:
            yield struct.__name__
        inherited = opcodes.Opcode.__struct_fields__ if struct is not opcodes.Opcode else ()
        for field in _struct_fields(struct):
            if field.name not in inherited and not field_text(struct, field):
                yield f"{struct.__name__}.{field.name}"
    for resource, known in fields.REGISTRY.items():
        yield from (f"field {resource} {field.name}" for field in known.values() if not field.doc)
    for name, group in {
        "cluster": parameters.CLUSTER,
        "backend": parameters.BACKEND,
        "NIC": parameters.NIC,
        "node": parameters.NODE,
        "policy": policy.SPECS,
        **{f"disk {template}": known for template, known in parameters.DISK.items()},
        **parameters.HYPERVISORS,
    }.items():
        yield from (f"parameter {name} {key}" for key, one in group.items() if not one.text)


if __name__ == "__main__":
    for name, make in PAGES.items():
        (FOLDER / name).write_text(make())
