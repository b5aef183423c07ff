from gantry.model import instance
from gantry.sim import invariants


def mirrored(secondary: str) -> instance.Instance:
    data = instance.Disk(uuid="d0", dev_type="plain", size=32, logical_id=("vg", "d.data"))
    mirror = instance.Mirror(minors={"n1": 0, secondary: 0}, port=11000, secret="s")
    disk = instance.Disk(uuid="d", dev_type="drbd", size=32, mirror=mirror, children=(data,))
    return instance.Instance(uuid="i", name="vm1", primary_node="n1", hypervisor="fake", disks=(disk,))


def test_a_copy_of_a_disk_on_another_node_is_a_resource_of_its_own() -> None:
    chosen = set(invariants.things(mirrored("n3"))) - set(invariants.things(mirrored("n2")))
    assert chosen == {invariants.home("d.data", "n3")}
