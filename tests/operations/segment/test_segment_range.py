"""Plans of the units of segment ranges, and of networks that get a segment."""

from collections.abc import Callable

import msgspec
import pytest
from msgspec import structs
from tests.operations import build

from gantry import errors
from gantry.model import network, opcodes

Add, Set, Remove = opcodes.SegmentRangeAdd, opcodes.SegmentRangeSetParams, opcodes.SegmentRangeRemove
Spec = opcodes.SegmentRangeSpec


@pytest.fixture
def lab() -> build.MemoryCluster:
    lab = build.MemoryCluster()
    lab.put(structs.replace(build.OWNER, segment_ranges=True))
    return lab


MINE = "07ac1127-ee96-47d4-8ce2-626867104a13"


async def create(lab: build.MemoryCluster, *specs: Spec) -> list[network.SegmentRange]:
    result = await lab.run(Add(ranges=specs))
    assert isinstance(result, list)
    return [lab.state.segmentranges[entry["uuid"]] for entry in result]


def vlan(minimum: int, maximum: int, *, project: str = "", name: str = "", physical: str = "physnet1") -> Spec:
    return Spec(
        network_type="vlan",
        physical_network=physical,
        minimum=minimum,
        maximum=maximum,
        shared=not project,
        project=project,
        name=name,
    )


async def net(lab: build.MemoryCluster, name: str, **fields: object) -> network.Segment | None:
    await lab.run(opcodes.decode({"OP_ID": "OP_NETWORK_ADD", "network_name": name, **fields}))
    return lab.state.network(name).segment


async def test_a_range_is_stored_as_requested_and_returned_in_full(lab: build.MemoryCluster) -> None:
    spec = structs.replace(vlan(100, 199, project="p1", name="lab"), description="rack 4", tags=("blue",), uuid=MINE)
    result = await lab.run(Add(ranges=(spec,)))
    assert result == [
        {
            "uuid": MINE,
            "name": "lab",
            "serial_no": 1,
            "ctime": 1000.0,
            "mtime": 1000.0,
            "tags": ("blue",),
            "network_type": "vlan",
            "minimum": 100,
            "maximum": 199,
            "physical_network": "physnet1",
            "shared": False,
            "project": "p1",
            "default": False,
            "description": "rack 4",
        }
    ]
    assert "exists already" in str(await lab.refused(Add(ranges=(vlan(1, 1), spec))))


@pytest.mark.promise(
    "segments-16", "segments-18", "segments-19", "segments-20", "segments-22", "segments-23", "segments-24"
)
async def test_no_field_of_a_stored_range_is_unknown_or_of_another_type(lab: build.MemoryCluster) -> None:
    spec = structs.replace(vlan(100, 199, project="p" * 255), physical_network="n" * 64)
    (segment_range,) = await create(lab, structs.replace(spec, uuid=MINE))
    stored = msgspec.to_builtins(segment_range)
    assert stored.pop("ctime") == stored.pop("mtime")
    assert stored == {
        "uuid": MINE, "name": "", "serial_no": 1, "network_type": "vlan", "minimum": 100, "maximum": 199,
        "physical_network": "n" * 64, "shared": False, "project": "p" * 255,
    }  # fmt: skip
    assert segment_range.default is False
    kept = ("uuid", "name", "default", "shared", "project", "network_type", "physical_network", "minimum", "maximum")
    for field in kept:
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(stored | {field: None}, network.SegmentRange)
    for change in ({"project": "p" * 256}, {"physical_network": "n" * 65}, {"uuid": MINE[1:]}):
        request = msgspec.to_builtins(vlan(1, 2)) | change
        with pytest.raises(errors.InvalidError):
            opcodes.decode({"OP_ID": "OP_SEGMENT_RANGE_ADD", "ranges": [request]})


async def test_a_shared_range_is_no_projects_whatever_was_said(lab: build.MemoryCluster) -> None:
    (stored,) = await create(lab, structs.replace(vlan(1, 5), project="p1"))
    assert (stored.shared, stored.project) == (True, "")


GRE, VXLAN = (
    Spec(network_type="gre", minimum=1, maximum=2**32 - 1),
    Spec(network_type="vxlan", minimum=1, maximum=2**24),
)


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        (vlan(5, 4), "the minimum 5 is above the maximum 4"),
        (vlan(1, 4095), "vlan has no id 1 to 4095; ids of vlan are 1 to 4094"),
        (vlan(5000, 5000), "vlan has no id 5000; ids"),
        (VXLAN, "ids of vxlan are 1 to 16777215"),
        (structs.replace(VXLAN, network_type="geneve"), "ids of geneve are 1 to 16777215"),
        (structs.replace(vlan(1, 2), network_type="Vlan"), "'Vlan' is not a network type"),
        (structs.replace(vlan(1, 2), physical_network=""), "a VLAN needs a physical network"),
        (structs.replace(GRE, physical_network="physnet1"), "a network of type gre has no physical network"),
        (structs.replace(vlan(1, 2), shared=False), "not shared needs a project"),
    ],
)
async def test_a_range_that_cannot_be_is_invalid(lab: build.MemoryCluster, spec: Spec, fault: str) -> None:
    error = await lab.refused(Add(ranges=(GRE, spec)))
    assert isinstance(error, errors.InvalidError)
    assert fault in str(error)
    (stored,) = await create(lab, GRE)
    assert stored.maximum == 2**32 - 1


@pytest.mark.parametrize("number", [0, -1, 2**32, 2**63, 1.5, "x", None])
async def test_an_id_that_is_none_is_invalid_before_a_job_is_made(number: object) -> None:
    with pytest.raises(errors.InvalidError, match="minimum"):
        opcodes.decode(
            {"OP_ID": "OP_SEGMENT_RANGE_ADD", "ranges": [{"network_type": "gre", "minimum": number, "maximum": 5}]}
        )


async def test_ranges_overlap_only_those_of_other_places_and_of_the_configuration_file(
    lab: build.MemoryCluster,
) -> None:
    lab.put(network.SegmentRange(uuid="d", name="", network_type="gre", minimum=1, maximum=99, default=True))
    (stored,) = await create(lab, vlan(100, 199, project="p1", name="lab"))
    await create(lab, vlan(100, 199, physical="physnet2"), Spec(network_type="gre", minimum=50, maximum=200))
    await create(lab, vlan(200, 200, project="p2"), vlan(99, 99))
    for spec in (vlan(199, 250), vlan(1, 4094, project="p1"), vlan(150, 150)):
        error = await lab.refused(Add(ranges=(vlan(900, 901), spec)))
        assert isinstance(error, errors.NotUniqueError)
        assert f"overlaps segment range lab ({stored.uuid}): 100 to 199" in str(error) or spec.minimum == 1
    error = await lab.refused(Add(ranges=(vlan(900, 910), vlan(910, 920))))
    assert "vlan 910 to 920 overlaps segment range" in str(error)


async def test_a_range_is_enlarged_and_shrunk_round_the_ids_in_use(lab: build.MemoryCluster) -> None:
    (stored,) = await create(lab, vlan(400, 404, project="p1"))
    await net(lab, "n", network_type="vlan", physical_network="physnet1", segment=402, project="p1")
    for minimum, maximum in ((395, 410), (401, 403), (402, 402), (402, 500)):
        await lab.run(Set(range=stored.uuid, minimum=minimum, maximum=maximum))
        changed = lab.state.segmentranges[stored.uuid]
        assert (changed.minimum, changed.maximum) == (minimum, maximum)
    for op in (Set(range=stored.uuid, minimum=403), Set(range=stored.uuid, minimum=550, maximum=600)):
        error = await lab.refused(op)
        assert isinstance(error, errors.WrongStateError)
        assert "is in use: network n has id 402" in str(error)
    assert "minimum 600 is above the maximum 500" in str(await lab.refused(Set(range=stored.uuid, minimum=600)))
    await lab.run(Set(range=stored.uuid, name="x", description="y", tags=("z",)))
    renamed = lab.state.segmentranges[stored.uuid]
    assert (renamed.name, renamed.description, renamed.tags, renamed.serial_no) == ("x", "y", ("z",), 6)
    await lab.run(Set(range="x"))
    assert lab.state.segmentranges[stored.uuid].serial_no == 7


async def test_a_range_grows_into_no_other(lab: build.MemoryCluster) -> None:
    low, _ = await create(lab, vlan(100, 109), vlan(120, 129))
    assert "overlaps" in str(await lab.refused(Set(range=low.uuid, maximum=120)))
    await lab.run(Set(range=low.uuid, maximum=119))
    assert [await net(lab, f"n{index}", network_type="vlan") for index in range(2)] == [
        network.Segment(network_type="vlan", physical_network="physnet1", segmentation_id=number)
        for number in (100, 101)
    ]


async def test_a_range_with_an_id_in_use_is_not_removed(lab: build.MemoryCluster) -> None:
    (stored,) = await create(lab, vlan(100, 101))
    await net(lab, "n", network_type="vlan")
    error = await lab.refused(Remove(range=stored.uuid))
    assert isinstance(error, errors.WrongStateError)
    assert "network n has id 100" in str(error)
    await lab.run(opcodes.NetworkRemove(network_name="n"))
    await lab.run(Remove(range=stored.uuid))
    assert stored.uuid not in lab.state.segmentranges
    with pytest.raises(errors.NotFoundError, match="no such segment range"):
        await lab.plan(Remove(range=stored.uuid))


async def test_an_id_that_a_running_job_takes_counts_as_used(lab: build.MemoryCluster) -> None:
    (stored,) = await create(lab, vlan(100, 101))
    plan = await lab.plan(opcodes.NetworkAdd(network_name="n", network_type="vlan"))
    lab.ledger.hold(9, lab.state, changes=plan.changes)
    for op in (Remove(range=stored.uuid), Set(range=stored.uuid, minimum=101)):
        assert "segment range u1 is in use: running job 9 allocates id 100" in str(await lab.refused(op))
    lab.ledger.release(9)
    await lab.run(Remove(range=stored.uuid))


async def test_a_default_range_is_read_only(lab: build.MemoryCluster) -> None:
    lab.put(network.SegmentRange(uuid="d", name="", network_type="gre", minimum=1, maximum=9, default=True))
    for op in (Remove(range="d"), Set(range="d", name="x")):
        error = await lab.refused(op)
        assert isinstance(error, errors.InvalidError)
        assert "segment range d is a default range, which is read-only" in str(error)


async def test_with_the_feature_off_no_range_is_made_changed_or_removed(lab: build.MemoryCluster) -> None:
    (stored,) = await create(lab, vlan(100, 101))
    lab.put(build.OWNER)
    for op in (Add(ranges=(vlan(1, 2),)), Set(range=stored.uuid, name="x"), Remove(range=stored.uuid)):
        error = await lab.refused(op)
        assert isinstance(error, errors.WrongStateError)
        assert "gnt-cluster modify --segment-ranges yes enables managed segment ranges" in str(error)


async def test_a_network_gets_the_next_free_id_of_its_project_or_the_one_it_names(lab: build.MemoryCluster) -> None:
    await create(lab, vlan(100, 199), vlan(400, 402, project="p1"))
    assert await net(lab, "none") is None
    networks = [await net(lab, f"n{index}", project="p1", segmented=True) for index in range(2)]
    networks += [await net(lab, "shared", network_type="vlan")]
    networks += [await net(lab, "named", network_type="vlan", physical_network="physnet1", segment=4000)]
    networks += [await net(lab, "theirs", network_type="vlan", physical_network="physnet1", segment=402, project="p2")]
    networks += [await net(lab, "tunnel", network_type="gre", segment=2**32 - 1)]
    assert [net_ and net_.segmentation_id for net_ in networks] == [400, 401, 100, 4000, 402, 2**32 - 1]
    assert lab.state.network("n0").project == "p1"
    lab.put(structs.replace(lab.state.the_cluster, segment_fallback=False))
    error = await lab.refused(opcodes.NetworkAdd(network_name="m", project="p1", segmented=True))
    assert isinstance(error, errors.NoRoomError)
    assert "the ranges of project p1" in str(error)


@pytest.mark.parametrize(
    ("fields", "kind", "fault"),
    [
        (
            {"network_type": "vlan", "physical_network": "physnet1", "segment": 100},
            errors.NotUniqueError,
            "network first",
        ),
        ({"network_type": "vlan", "segment": 101}, errors.InvalidError, "a VLAN needs a physical network"),
        ({"segment": 101}, errors.InvalidError, "segment 101 needs a network type"),
        ({"network_type": "vlan", "physical_network": "physnett"}, errors.InvalidError, "physnett is not known"),
        ({"network_type": "vlan", "physical_network": "p", "segment": 9}, errors.InvalidError, "p is not known"),
        ({"network_type": "vxlan", "physical_network": "physnet1"}, errors.InvalidError, "has no physical network"),
        ({"network_type": "mesh"}, errors.InvalidError, "'mesh' is not a network type"),
        ({"network_type": "vxlan", "segment": 2**24}, errors.InvalidError, "ids of vxlan are 1 to 16777215"),
        ({"network_type": "vxlan"}, errors.NoRoomError, "there is no free vxlan segment"),
    ],
)
async def test_a_segment_that_cannot_be_had_is_refused(
    lab: build.MemoryCluster, fields: dict[str, object], kind: type[errors.GantryError], fault: str
) -> None:
    await create(lab, vlan(100, 199))
    await net(lab, "first", network_type="vlan")
    op = opcodes.decode({"OP_ID": "OP_NETWORK_ADD", "network_name": "m", **fields})
    error = await lab.refused(op)
    assert type(error) is kind
    assert fault in str(error)


async def test_a_physical_network_that_the_file_names_without_ids_is_known(lab: build.MemoryCluster) -> None:
    lab.put(structs.replace(build.OWNER, physical_networks=("physnet2",)))
    created_network = await net(lab, "n", network_type="vlan", physical_network="physnet2", segment=5)
    assert created_network == network.Segment(network_type="vlan", physical_network="physnet2", segmentation_id=5)


def changing(name: str, **fields: object) -> opcodes.AnyOpcode:
    return opcodes.decode({"OP_ID": "OP_NETWORK_SET_PARAMS", "network_name": name, **fields})


async def test_a_network_that_is_plugged_in_nowhere_gets_another_segment_or_none(lab: build.MemoryCluster) -> None:
    await create(lab, vlan(100, 199), Spec(network_type="vxlan", minimum=7, maximum=9))
    segment: Callable[[], network.Segment | None] = lambda: lab.state.network("spare").segment  # noqa: E731
    plan = await lab.plan(changing("spare", network_type="vlan"))
    assert "segment becomes vlan 100 of physical network physnet1" in plan.lines
    for fields, number in (
        ({"network_type": "vlan"}, 100),
        ({"network_type": "vlan", "physical_network": "physnet1", "segment": 105}, 105),
        ({"segmented": True}, 105),
        ({"network_type": "vlan"}, 105),
        ({"network_type": "vxlan"}, 7),
        ({"mac_prefix": "aa:00:07"}, 7),
        ({"segmented": False}, None),
    ):
        await lab.run(changing("spare", **fields))
        segment_id = segment()
        assert (segment_id and segment_id.segmentation_id) == number
    same = await lab.plan(changing("spare", segmented=False))
    assert same.lines == ["nothing changes: network spare already has these settings"]
    assert "network spare cannot have a segment and no segment" in str(
        await lab.refused(changing("spare", segmented=False, network_type="vlan"))
    )
    error = await lab.refused(changing("net1", network_type="vlan"))
    assert isinstance(error, errors.WrongStateError)
    assert "network net1 is connected to node group default" in str(error)
