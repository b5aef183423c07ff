"""Records of running guests, of every version that ever was."""

import msgspec
import pytest
from tests.node import samples

from gantry.node.hypervisors.kvm import guest_records, launch

BEFORE = b'{"name":"vm1","uuid":"u","memory":16,"vcpus":1,"accelerator":"tcg","ends_on_reboot":true,'


@pytest.mark.promise("networks-73")
def test_a_nic_with_one_address_as_text_is_read_as_one_with_a_list() -> None:
    nics = (
        b'[{"mode":"bridged","interface":"gnt1","device":"nic-a","uuid":"a","mac":"aa:00:00:00:00:01","ip":"192.0.2.7"},'
        b'{"mode":"routed","interface":"gnt2","device":"nic-b","ip":""}]'
    )
    record = guest_records.read(BEFORE + b'"version":1,"nics":' + nics + b"}")
    assert (record.version, record.ends_on_reboot) == (1, True)
    assert [nic.ip for nic in record.nics] == [("192.0.2.7",), ()]
    assert record.plug("gnt1") == guest_records.Plug(
        mode="bridged", interface="gnt1", device="nic-a", uuid="a", mac="aa:00:00:00:00:01", ip=("192.0.2.7",)
    )


@pytest.mark.promise("networks-73")
def test_a_nic_of_a_record_without_a_version_is_named_by_its_index() -> None:
    record = guest_records.read(BEFORE + b'"nics":[["bridged","gnt1"],["routed","gnt2"]]}')
    assert record.version == 0
    assert [(nic.mode, nic.interface, nic.device) for nic in record.nics] == [
        ("bridged", "gnt1", "nic0"),
        ("routed", "gnt2", "nic1"),
    ]


def test_a_guest_keeps_its_mtu_when_its_nic_is_reconnected_and_after_a_migration() -> None:
    plain, tunnelled = samples.nic(), msgspec.structs.replace(samples.nic(), mtu=1450)
    vm = samples.instance(nics=(tunnelled,))
    record = launch.record_of(vm, accelerator="tcg", kind="pc")
    moved = record.with_nic(plain, "gnt1", device="nic-a")
    assert [nic.mtu for nic in moved.machine().nics] == [1450]
    arriving = launch.at_target(moved, msgspec.structs.replace(vm, nics=(plain,)))
    assert [nic.mtu for nic in arriving.machine().nics] == [1450]
    replugged = moved.without_nic("gnt1").with_nic(plain, "gnt1", device="nic-a")
    assert [nic.mtu for nic in replugged.machine().nics] == [0]
