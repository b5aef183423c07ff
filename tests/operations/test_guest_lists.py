"""How nodes are asked which guests run."""

import msgspec
from tests.operations import build

from gantry.operations import guest_lists

STATE = build.MemoryCluster().state


def test_a_node_receives_the_names_unless_they_are_many() -> None:
    vms = [msgspec.structs.replace(build.VM, name=f"vm{number}") for number in range(guest_lists.MOST_NAMES + 1)]
    assert guest_lists.ask(STATE, vms[1:]).names == tuple(vm.name for vm in vms[1:])
    assert guest_lists.ask(STATE, vms).names is None
    assert guest_lists.ask(STATE, []).names == ()
    assert guest_lists.ask(STATE).names is None
    assert guest_lists.ask(STATE, vms[:1]).hypervisors == STATE.the_cluster.enabled_hypervisors
