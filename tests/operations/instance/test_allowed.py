"""Parameters outside of the allow-lists: what is refused, what existing instances may still do, and who hears of it."""

import msgspec
import pytest
from tests.operations import build

from gantry import errors
from gantry.model import opcodes
from gantry.operations import fill
from gantry.rpc import calls

OUTSIDE = {"cdrom_image_path": "/home/user/cd.iso"}
CREATE = opcodes.InstanceCreate(
    instance_name="new", hypervisor="kvm", disk_template="diskless", pnode="node1", os_type="plain"
)
OLD = msgspec.structs.replace(build.VM, hypervisor="kvm", hvparams=dict(OUTSIDE))


@pytest.fixture
def lab() -> build.MemoryCluster:
    return build.MemoryCluster()


def modify(**hvparams: str | int | float | bool) -> opcodes.InstanceSetParams:
    return opcodes.InstanceSetParams(instance_name="vm1", hvparams=hvparams)


async def test_a_new_instance_outside_of_the_lists_is_refused_before_a_node_hears_of_it(
    lab: build.MemoryCluster,
) -> None:
    error = await lab.refused(msgspec.structs.replace(CREATE, hvparams=dict(OUTSIDE)))
    assert isinstance(error, errors.ForbiddenError)
    assert "gnt-cluster modify --allow 'images=/home/user/cd.iso'" in str(error)
    assert not lab.nodes.calls_of(calls.HypervisorValidate)


async def test_defaults_of_the_cluster_outside_of_the_lists_are_refused_too(lab: build.MemoryCluster) -> None:
    lab.put(msgspec.structs.replace(build.OWNER, hvparams={"kvm": {"kvm_path": "/bin/sh"}}))
    assert "kvm_path: /bin/sh is not in" in str(await lab.refused(CREATE))


async def test_root_widens_a_list_and_then_the_value_may_be_set(lab: build.MemoryCluster) -> None:
    assert isinstance(await lab.refused(modify(migration_caps="")), errors.InvalidError)
    lab.put(msgspec.structs.replace(build.VM, hypervisor="kvm"))
    assert isinstance(await lab.refused(modify(**OUTSIDE)), errors.ForbiddenError)
    await lab.run(opcodes.ClusterSetParams(allowed=(("add", "images", "/home/user"),)))
    await lab.run(modify(**OUTSIDE))
    assert lab.state.instance("vm1").hvparams == OUTSIDE


async def test_an_existing_instance_outside_of_the_lists_may_change_otherwise(lab: build.MemoryCluster) -> None:
    lab.put(OLD)
    await lab.run(modify(acpi=False))
    await lab.run(modify(cdrom_image_path="default"))
    assert lab.state.instance("vm1").hvparams == {"acpi": False}


async def test_verify_names_the_instances_outside_of_the_lists(lab: build.MemoryCluster) -> None:
    verify = opcodes.ClusterVerify(error_codes=True)
    await lab.run(verify)
    assert not [line for line in lab.log.lines if "EINSTANCEPOLICY" in line]
    lab.put(OLD)
    await lab.run(verify)
    (line,) = [line for line in lab.log.lines if "EINSTANCEPOLICY" in line]
    assert "WARNING:EINSTANCEPOLICY:instance:vm1: parameter cdrom_image_path: /home/user/cd.iso is not in" in line
    assert "will not start again, see gnt-cluster modify --allow" in line


async def test_a_node_that_starts_a_guest_has_the_lists_of_its_parameters(lab: build.MemoryCluster) -> None:
    lab.put(OLD)
    whole = fill.fill(lab.state, lab.state.instance("vm1"))
    (parameter,) = whole.allowed
    assert (parameter, whole.allowed[parameter].list) == ("cdrom_image_path", "images")
    assert "/srv/iso" in whole.allowed[parameter].entries
