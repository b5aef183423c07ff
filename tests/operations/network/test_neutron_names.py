"""What clients call networks and subnets: any text, which becomes the name where it can."""

import pytest
from tests.operations import build

from gantry import errors
from gantry.model import network, opcodes
from gantry.operations.network import neutron_names

UUID = "abcdef12-2222-4333-8444-555555555555"
OTHER = "abcdef12-3222-4333-8444-555555555555"


@pytest.fixture
def house() -> build.House:
    return build.House()


async def add(house: build.House, label: str, uuid: str = UUID) -> network.Network:
    row = await house.run(opcodes.NetworkAdd(label=label, uuid=uuid))
    assert isinstance(row, dict)
    assert row["label"] == label
    return house.state.networks[uuid]


async def test_a_label_that_can_be_the_name_is_the_name(house: build.House) -> None:
    created = await add(house, "blue")
    assert (created.name, created.label) == ("blue", None)


@pytest.mark.parametrize("label", ["", "none", "net1", "two words", "schön", "spare"])
def test_a_label_that_cannot_be_the_name_stays_beside_a_made_one(house: build.House, label: str) -> None:
    assert neutron_names.name_and_label(house.state, label, uuid=UUID) == ("net-abcdef12", label)


async def test_made_names_differ_though_the_uuids_begin_alike(house: build.House) -> None:
    assert (await add(house, "")).name == "net-abcdef12"
    assert (await add(house, "", OTHER)).name == "net-abcdef12-3222"


async def test_the_uuid_of_a_network_is_no_name_for_another(house: build.House) -> None:
    await add(house, "")
    assert (await add(house, UUID, OTHER)).label == UUID


async def test_another_label_renames_where_it_can(house: build.House) -> None:
    await add(house, "blue")
    for label, name, recorded_label in (
        ("green", "green", None),
        ("net1", "green", "net1"),
        ("", "green", ""),
        ("x", "x", None),
    ):
        await house.run(opcodes.NetworkSetParams(network_name=UUID, label=label))
        renamed = house.state.networks[UUID]
        assert (renamed.name, renamed.label, neutron_names.display_name(renamed)) == (name, recorded_label, label)


async def test_a_new_name_is_the_label_too(house: build.House) -> None:
    await add(house, "two words")
    await house.run(opcodes.NetworkRename(network_name=UUID, new_name="red"))
    assert neutron_names.display_name(house.state.network("red")) == "red"


async def test_a_network_needs_a_name_or_a_label(house: build.House) -> None:
    assert isinstance(await house.refused(opcodes.NetworkAdd()), errors.InvalidError)


async def test_a_network_is_made_once_under_its_uuid(house: build.House) -> None:
    await add(house, "blue")
    error = await house.refused(opcodes.NetworkAdd(label="green", uuid=UUID))
    assert isinstance(error, errors.ExistsError)


async def test_subnets_have_labels_that_others_have_too(house: build.House) -> None:
    specs = tuple(
        opcodes.SubnetSpec(cidr=f"10.0.{part}.0/24", label=label) for part, label in enumerate(["a", "a", "-"])
    )
    await house.run(opcodes.NetworkAdd(label="", uuid=UUID, subnets=specs))
    named_subnets = house.state.networks[UUID].subnets
    assert [(subnet.name, neutron_names.display_name(subnet)) for subnet in named_subnets] == [
        ("a", "a"),
        ("", "a"),
        ("", "-"),
    ]
    mod = opcodes.SubnetMod(action="modify", ident=named_subnets[1].uuid, label="b")
    await house.run(opcodes.NetworkSetParams(network_name=UUID, subnets=(mod,)))
    assert house.state.networks[UUID].subnets[1].name == "b"
