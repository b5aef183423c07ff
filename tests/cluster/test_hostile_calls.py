"""Each text of each call, replaced by texts that a caller may send but that mean nothing, over the daemon's socket."""

import copy
import http.client
import json
import ssl
import zlib
from collections.abc import Iterator

import msgspec
import pytest
from tests.cluster import lab

from gantry.rpc import calls

# The gate has the fuzzer of the node daemon (tests/fuzz/test_node.py), which sends such texts too.
pytestmark = pytest.mark.slow

Steps = tuple[str | int, ...]
"""The way from a call to one of its texts: fields, keys and indexes; ``KEY`` at the end is the key of the entry."""

KEY = "\0key"
HOSTILE = (
    "a\0b",
    "a\r\nX-Injected: b",
    "a\x1b[2Jb\x7f",
    "../../x",
    "/../x",
    "-x",
    "",
    " ",
    "\ud7ff\U0001f986",
    "x" * 70_000,
)
SAMPLES: dict[str, object] = {
    "hypervisor": "fake",
    "hypervisors": ["fake"],
    "dev_type": "file",
    "disk_template": "file",
    "kind": "file",
    "mode": "bridged",
    "mac": "aa:00:00:00:00:01",
    "ip": "192.0.2.9",
    "host": "127.0.0.1",
    "address": "127.0.0.1",
    "os": "plain",
    "logical_id": ["file", "/nowhere/disk"],
    "minmem": 16,
}
ENDING = (calls.StopMaster, calls.NodeLeave, calls.NodeDemote, calls.TestDelay)
"""Calls without texts that end what is tested, or last as long as they say."""
TIMEOUT_SECONDS = 60.0


class Shapes:
    """Values of the type of a call."""

    def __init__(self, call: type[calls.Call[object]]) -> None:
        self._schema = msgspec.json.schema(call)
        self._definitions: dict[str, dict[str, object]] = self._schema["$defs"]

    def sample(self) -> object:
        """Return a call with a value in each field."""
        return self._sample(self._schema, "", depth=0)

    def _sample(self, schema: object, name: str, *, depth: int) -> object:
        assert isinstance(schema, dict)
        if "$ref" in schema:
            return self._sample(self._definitions[schema["$ref"].removeprefix("#/$defs/")], name, depth=depth + 1)
        if "anyOf" in schema:
            return self._sample(schema["anyOf"][0], name, depth=depth)
        if "enum" in schema:
            return schema["enum"][0]
        if name in SAMPLES:
            return SAMPLES[name]
        match schema.get("type"):
            case "object":
                inner = schema.get("additionalProperties")
                if isinstance(inner, dict):
                    return (
                        {"minmem": 16, "name": self._sample(inner, "", depth=depth + 1)}
                        if name == "beparams"
                        else {"name": self._sample(inner, "", depth=depth + 1)}
                    )
                return {each: self._sample(field, each, depth=depth) for each, field in schema["properties"].items()}
            case "array" if "prefixItems" in schema:
                return [self._sample(item, "", depth=depth + 1) for item in schema["prefixItems"]]
            case "array":
                return [self._sample(schema["items"], "", depth=depth + 1)] if depth < 5 else []
            case "integer" | "number":
                return 1
            case "boolean":
                return False
            case "null":
                return None
        return "0" * 32


def texts_in(value: object, steps: Steps = ()) -> Iterator[Steps]:
    """Yield the ways to the texts in a value, keys included."""
    if isinstance(value, str):
        yield steps
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from texts_in(inner, (*steps, name))
            if name == "name" and len(value) <= 2:
                yield (*steps, name, KEY)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from texts_in(inner, (*steps, index))


def replaced(value: object, steps: Steps, text: str) -> object:
    """Return a value with another text at the end of the way."""
    if not steps:
        return text
    changed = copy.copy(value)
    assert isinstance(changed, dict | list)
    if steps[1:] == (KEY,):
        assert isinstance(changed, dict)
        changed[text] = changed.pop(str(steps[0]))
    else:
        changed[steps[0]] = replaced(changed[steps[0]], steps[1:], text)  # type: ignore[index]
    return changed


@pytest.fixture(scope="module")
def node() -> Iterator[lab.Node]:
    """Return a node that knows no other, and whose master has ended: nobody else calls it."""
    with lab.lab() as cluster:
        cluster.init()
        (machine,) = cluster.nodes
        cluster.stop_master(machine)
        yield machine


class Caller:
    """The master's connection to a node."""

    def __init__(self, node: lab.Node) -> None:
        self._node = node
        self._tls = ssl.create_default_context()
        self._tls.check_hostname = False
        self._tls.verify_mode = ssl.CERT_NONE
        folder = node.root / "lib/certs"
        self._tls.load_cert_chain(folder / "master.pem", folder / "node.key")
        self._epoch = (node.root / "lib/epoch").read_text().split()[0]
        self._connection = self._connect()

    def _connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection("127.0.0.1", self._node.port, timeout=TIMEOUT_SECONDS, context=self._tls)

    def ask(self, procedure: str, call: object) -> tuple[int, object]:
        """Make a call; return the status and the answer."""
        self._connection.request("POST", f"/{procedure}", json.dumps(call), {calls.EPOCH_HEADER: self._epoch})
        answer = self._connection.getresponse()
        return answer.status, json.loads(answer.read())


def check(node: lab.Node, call: type[calls.Call[object]], *, one_of: int = 1) -> None:
    """Send every text in each field, or ``one_of`` that many, and check the answers; and that the log has no fault."""
    caller, sample, faults = Caller(node), Shapes(call).sample(), []
    for steps in texts_in(sample):
        for text in HOSTILE:
            if zlib.crc32(repr((call.__name__, steps, text)).encode()) % one_of:
                continue
            status, answer = caller.ask(call.procedure(), replaced(sample, steps, text))
            if status == 500 and not _is_expected(answer):
                faults.append(f"{call.procedure()} {steps} {text[:20]!r}: {str(answer)[:200]}")
    assert not faults, "\n".join(faults)
    assert "Traceback" not in (node.root / "log/node-daemon.log").read_text()


def _is_expected(answer: object) -> bool:
    """Return whether the answer is the word of a driver, about an instance or a disk that is not there."""
    assert isinstance(answer, list)
    return answer[1][0] in ("HypervisorError", "BlockDeviceError", "OpExecError")


every_call = pytest.mark.parametrize(
    "call", [each for each in calls.ALL if each not in ENDING], ids=lambda call: call.procedure()
)


@every_call
def test_each_text_of_a_call_is_answered_whatever_it_is(node: lab.Node, call: type[calls.Call[object]]) -> None:
    check(node, call, one_of=10)


@pytest.mark.slow
@every_call
def test_all_texts_of_a_call_are_answered(node: lab.Node, call: type[calls.Call[object]]) -> None:
    check(node, call)


DUMP = {"export": "export1", "dump": "dump1"}


@pytest.mark.parametrize(
    ("call", "arguments", "field"),
    [
        (calls.NodeVerify, {"bridges": ["br0", "a\0b"]}, "bridges[1]"),
        (calls.StreamSend, {"token": "t", "host": "../../x", "port": 1, "end": DUMP}, "host"),
        (calls.StreamSend, {"token": "t", "host": "a..b", "port": 1, "end": DUMP}, "host"),
        (calls.StreamOpen, {"token": "a\nb", "end": DUMP}, "token"),
        (calls.ExportInfo, {"export": "../../x"}, "export"),
        (calls.CopyFetch, {"name": "../certs/node.key"}, "name"),
        (calls.HooksRun, {"path": "../x", "phase": "pre", "environment": {}}, "path"),
        (calls.HooksRun, {"path": "x", "phase": "pre", "environment": {"A": "a\0b"}}, "environment[...]"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_a_refusal_names_the_field(
    node: lab.Node, call: type[calls.Call[object]], arguments: dict[str, object], field: str
) -> None:
    status, answer = Caller(node).ask(call.procedure(), arguments)
    assert status == 400
    assert f"`$.{field}`" in str(answer)


def test_the_close_of_an_unknown_stream_is_answered(node: lab.Node) -> None:
    status, answer = Caller(node).ask("stream_close", {"token": "unknown"})
    assert status == 404
    assert "does not know this stream" in str(answer)
