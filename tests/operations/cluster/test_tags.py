import pytest
from tests.operations import build

from gantry import errors
from gantry.model import lock, opcodes

KINDS: list[tuple[opcodes.TagKind, str, lock.Level, str]] = [
    ("cluster", "", lock.Level.CONFIG, "cluster"),
    ("nodegroup", "default", lock.Level.GROUP, "g"),
    ("node", "node2", lock.Level.NODE, "n2"),
    ("instance", "vm1", lock.Level.INSTANCE, "i1"),
    ("network", "net1", lock.Level.NETWORK, "net"),
]
CASES = pytest.mark.parametrize(("kind", "name", "level", "lock_name"), KINDS)


@pytest.fixture
def lab() -> build.MemoryCluster:
    return build.MemoryCluster()


def tags(lab: build.MemoryCluster, kind: str) -> tuple[str, ...]:
    state = lab.state
    objects_by_kind = {
        "cluster": state.the_cluster,
        "nodegroup": state.group("default"),
        "node": state.node("node2"),
        "instance": state.instance("vm1"),
        "network": state.network("net1"),
    }
    return objects_by_kind[kind].tags


@CASES
async def test_tags_are_added_and_removed(
    lab: build.MemoryCluster, kind: opcodes.TagKind, name: str, level: lock.Level, lock_name: str
) -> None:
    add = opcodes.TagsSet(kind=kind, name=name, tags=("web", "blue", "web"))
    assert lab.unit(add).locks(lab.state) == {(level, lock_name): lock.Mode.EXCLUSIVE}
    await lab.run(add)
    await lab.run(opcodes.TagsSet(kind=kind, name=name, tags=("amber", "web")))
    assert tags(lab, kind) == ("amber", "blue", "web")
    await lab.run(opcodes.TagsDel(kind=kind, name=name, tags=("blue", "web")))
    assert tags(lab, kind) == ("amber",)


@CASES
async def test_a_tag_that_an_object_has_not_cannot_be_removed(
    lab: build.MemoryCluster, kind: opcodes.TagKind, name: str, level: lock.Level, lock_name: str
) -> None:
    await lab.run(opcodes.TagsSet(kind=kind, name=name, tags=("web",)))
    error = await lab.refused(opcodes.TagsDel(kind=kind, name=name, tags=("web", "red", "blue")))
    assert "has no tag blue, red; its tags are: web" in str(error)
    assert tags(lab, kind) == ("web",)


async def test_the_same_tags_once_more_are_no_change(lab: build.MemoryCluster) -> None:
    op = opcodes.TagsSet(kind="network", name="net1", tags=("web",))
    await lab.run(op)
    assert (await lab.plan(op)).changes == []


async def test_an_object_that_is_not_there_has_no_tags(lab: build.MemoryCluster) -> None:
    error = await lab.refused(opcodes.TagsSet(kind="node", name="node9", tags=("x",)))
    assert isinstance(error, errors.NotFoundError)


async def test_an_object_has_a_limited_number_of_tags(lab: build.MemoryCluster) -> None:
    for start in range(0, 4096, 1024):
        more = tuple(f"t{number}" for number in range(start, start + 1024))
        await lab.run(opcodes.TagsSet(kind="network", name="net1", tags=more))
    error = await lab.refused(opcodes.TagsSet(kind="network", name="net1", tags=("last",)))
    assert "network net1 would have 4097 tags, the maximum is 4096" in str(error)


@pytest.mark.parametrize("tag", ["", "two words", "a,b", "x" * 129, "line\n", "ü"])
def test_a_tag_is_a_word(tag: str) -> None:
    with pytest.raises(errors.InvalidError):
        opcodes.decode({"OP_ID": "OP_TAGS_SET", "kind": "network", "name": "net1", "tags": [tag]})


async def test_tags_of_all_kinds_of_objects_are_found(lab: build.MemoryCluster) -> None:
    for kind, name, _, _ in KINDS:
        await lab.run(opcodes.TagsSet(kind=kind, name=name, tags=("web:front", "blue")))
    matching_tags = await lab.run(opcodes.TagsSearch(pattern="^web"))
    assert matching_tags == [
        ["/cluster", "web:front"],
        ["/instances/vm1", "web:front"],
        ["/network/net1", "web:front"],
        ["/nodegroup/default", "web:front"],
        ["/nodes/node2", "web:front"],
    ]
    assert await lab.run(opcodes.TagsSearch(pattern="front$|nothing")) == matching_tags
    assert await lab.run(opcodes.TagsSearch(pattern="red")) == []
    assert lab.unit(opcodes.TagsSearch(pattern="x")).locks(lab.state) == {}


@pytest.mark.parametrize("pattern", ["(", "*", "(?=a)"])
async def test_a_pattern_has_to_be_a_regular_expression(lab: build.MemoryCluster, pattern: str) -> None:
    error = await lab.refused(opcodes.TagsSearch(pattern=pattern))
    assert isinstance(error, errors.InvalidError)
    assert "is not a regular expression" in str(error)
