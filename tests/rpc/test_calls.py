"""Properties of all declared calls."""

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from gantry.rpc import calls
from gantry.rpc.calls import texts

READS = re.compile(
    r".*_(clock|console|diagnose|endings|fetch|find|info|list|machine|name|path|place|status|validate|verify)"
    r"|version|vouch|prove_invitation|prove_epoch|usage_(history|now)"
)

UNFENCED = {
    # before there is a master, or an epoch
    "candidate_status",
    "copy_fetch",
    "enrol",
    "join",
    "journal_fetch",
    "lease_status",
    "master_name",
    "master_promise",
    "masters_store",
    "node_clock",
    "prove_epoch",
    "prove_invitation",
    "stop_master",
    "use_invitation",
    "version",
    # the run of their caller is what counts
    "end_calls",
    "extend_permits",
    # the epoch of their records is what counts
    "checkpoint_store",
    "journal_append",
    "lease_renew",
}


def test_every_call_is_for_the_newest_master_only_but_those_that_make_one() -> None:
    assert {call.procedure() for call in calls.ALL if not call.FENCED} == UNFENCED


def test_the_page_about_security_names_each_call_outside_the_fence() -> None:
    page = (Path(__file__).parents[2] / "docs/explanation/security.md").read_text()
    assert [call.__name__ for call in calls.ALL if not call.FENCED and f"`{call.__name__}`" not in page] == []


def test_a_master_needs_its_lease_for_every_call_that_changes_something() -> None:
    assert {name for call in calls.ALL if READS.fullmatch(name := call.procedure())} == {
        call.procedure() for call in calls.ALL if call.READS
    }


def texts_without_limit(call: type[calls.Call[object]]) -> Iterator[str]:
    """Yield the fields of a call, and of what it contains, whose texts may have any length or any key."""

    def unlimited(kind: object) -> bool:
        match kind:
            case msgspec.inspect.StrType():
                return kind.max_length is None and kind.pattern is None
            case msgspec.inspect.DictType():
                return unlimited(kind.key_type) or unlimited(kind.value_type)
            case msgspec.inspect.VarTupleType():
                return unlimited(kind.item_type)
            case msgspec.inspect.TupleType():
                return any(map(unlimited, kind.item_types))
            case msgspec.inspect.UnionType():
                return any(map(unlimited, kind.types))
            case msgspec.inspect.StructType():
                structs.append(kind)
        return False

    structs: list[msgspec.inspect.StructType] = []
    seen = set()
    unlimited(msgspec.inspect.type_info(call))
    while structs:
        struct = structs.pop()
        if struct.cls not in seen:
            seen.add(struct.cls)
            yield from (f"{struct.cls.__name__}.{field.name}" for field in struct.fields if unlimited(field.type))


@pytest.mark.parametrize("call", calls.ALL, ids=lambda call: call.procedure())
def test_each_text_in_a_call_has_a_limit(call: type[calls.Call[object]]) -> None:
    assert list(texts_without_limit(call)) == []


@pytest.mark.parametrize(
    ("kind", "fitting", "refused"),
    [
        (
            texts.Name,
            ["", "br0", "debootstrap+default", "vm1.example", "...", "Büro"],
            [".", "..", "../x", "a/b", "-x", "a\0b", "a\n", "a\tb", "a\x7fb", "x" * 256],
        ),
        (
            texts.Path,
            ["", "/dev/sda1", "queue/job-7", "x..y/..z", "vg/."],
            ["..", "../x", "/a/../b", "a/..", "-x", "/a\n", "a\0b", "a\n/../b", "/" * 4097],
        ),
        (
            texts.Host,
            ["", "192.0.2.1", "2001:db8::1", "fe80::1%br0", "node1.example.com", "x" * 63],
            ["../../x", "..", "a..b", ".a", "-x", "x" * 64, "a.b." + "c" * 64, "a b", "a\0b", "n1\n", "a.b" * 100],
        ),
        (texts.Token, ["", "0a1b", "a/b+c=="], ["a b", "a\n", "a\0", "é", "x" * 256]),
        (texts.Line, ["", "a b/ä..", "-x"], ["a\nb", "a\n", "\x1b[2J", "a\0b", "x" * 65537]),
        (texts.Text, ["", "a\nb\n", "\t"], ["\0", "a\0b", "a\n\0", "\0\n", "x" * ((1 << 20) + 1)]),
        (texts.Content, ["", "a\0b\n"], []),
    ],
    ids=["name", "path", "host", "token", "line", "text", "content"],
)
def test_texts_are_refused_for_what_they_may_not_contain(kind: object, fitting: list[str], refused: list[str]) -> None:
    def fits(text: str) -> bool:
        try:
            return bool(msgspec.convert(text, kind) == text)
        except msgspec.ValidationError:
            return False

    assert [text for text in fitting if not fits(text)] == []
    assert [text for text in refused if fits(text)] == []


def test_a_refused_text_is_named_by_its_field() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"at `\$.bridges\[1\]`"):
        msgspec.json.decode(b'{"bridges": ["br0", "a\\u0000b"]}', type=calls.NodeVerify)
