"""What clients call networks and subnets: any text, which becomes the name where it can."""

import pytest
from tests.operations import build

from gantry import errors
from gantry.model import network, opcodes
from gantry.operations.network import neutron_names

UUID = "abcdef12-2222-4333-8444-555555555555"
OTHER = "abcdef12-3222-4333-8444-555555555555"


@pytest.fixture
def lab() -> build.MemoryCluster:
    return build.MemoryCluster()


async def add(lab: build.MemoryCluster, label: str, uuid: str = UUID) -> network.Network:
    row = await lab.run(opcodes.NetworkAdd(label=label, uuid=uuid))
    assert isinstance(row, dict)
    assert row["label"] == label
    return lab.state.networks[uuid]


async def test_a_label_that_can_be_the_name_is_the_name(lab: build.MemoryCluster) -> None:
    created = await add(lab, "blue")
    assert (created.name, created.label) == ("blue", None)


@pytest.mark.parametrize("label", ["", "none", "net1", "two words", "schön", "spare"])
def test_a_label_that_cannot_be_the_name_stays_beside_a_made_one(lab: build.MemoryCluster, label: str) -> None:
    assert neutron_names.name_and_label(lab.state, label, uuid=UUID) == ("net-abcdef12", label)


async def test_made_names_differ_though_the_uuids_begin_alike(lab: build.MemoryCluster) -> None:
    assert (await add(lab, "")).name == "net-abcdef12"
    assert (await add(lab, "", OTHER)).name == "net-abcdef12-3222"


async def test_the_uuid_of_a_network_is_no_name_for_another(lab: build.MemoryCluster) -> None:
    await add(lab, "")
    assert (await add(lab, UUID, OTHER)).label == UUID


async def test_another_label_renames_where_it_can(lab: build.MemoryCluster) -> None:
    await add(lab, "blue")
    for label, name, recorded_label in (
        ("green", "green", None),
        ("net1", "green", "net1"),
        ("", "green", ""),
        ("x", "x", None),
    ):
        await lab.run(opcodes.NetworkSetParams(network_name=UUID, label=label))
        renamed = lab.state.networks[UUID]
        assert (renamed.name, renamed.label, neutron_names.display_name(renamed)) == (name, recorded_label, label)


async def test_a_new_name_is_the_label_too(lab: build.MemoryCluster) -> None:
    await add(lab, "two words")
    await lab.run(opcodes.NetworkRename(network_name=UUID, new_name="red"))
    assert neutron_names.display_name(lab.state.network("red")) == "red"


async def test_a_network_needs_a_name_or_a_label(lab: build.MemoryCluster) -> None:
    assert isinstance(await lab.refused(opcodes.NetworkAdd()), errors.InvalidError)


async def test_a_network_is_made_once_under_its_uuid(lab: build.MemoryCluster) -> None:
    await add(lab, "blue")
    error = await lab.refused(opcodes.NetworkAdd(label="green", uuid=UUID))
    assert isinstance(error, errors.ExistsError)


async def test_subnets_have_labels_that_others_have_too(lab: build.MemoryCluster) -> None:
    specs = tuple(
        opcodes.SubnetSpec(cidr=f"10.0.{part}.0/24", label=label) for part, label in enumerate(["a", "a", "-"])
    )
    await lab.run(opcodes.NetworkAdd(label="", uuid=UUID, subnets=specs))
    named_subnets = lab.state.networks[UUID].subnets
    assert [(subnet.name, neutron_names.display_name(subnet)) for subnet in named_subnets] == [
        ("a", "a"),
        ("", "a"),
        ("", "-"),
    ]
    mod = opcodes.SubnetMod(action="modify", ident=named_subnets[1].uuid, label="b")
    await lab.run(opcodes.NetworkSetParams(network_name=UUID, subnets=(mod,)))
    assert lab.state.networks[UUID].subnets[1].name == "b"
