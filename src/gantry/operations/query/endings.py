"""Instances that their users switched off from inside: status ``USER_down``, which nobody starts again.

Only instances with the hypervisor parameter ``user_shutdown`` can have it (contracts/query.md#instance-status); any
other instance that should run but does not is down by mistake. The primary node knows how an instance ended.
"""

from collections.abc import Iterable

from gantry.model import instance, parameters
from gantry.operations import base
from gantry.rpc import calls
from gantry.state.objects import snapshot as states


async def find(nodes: base.Nodes, state: states.Snapshot, stopped: Iterable[instance.Instance]) -> frozenset[str]:
    """Return the UUIDs of those of the stopped instances that were switched off from inside.

    Asks only nodes of instances with the parameter whose admin state is up.
    """
    the_cluster = state.the_cluster
    candidates = {
        vm.uuid: vm
        for vm in stopped
        if vm.admin_state is instance.AdminState.UP and parameters.fill_hypervisor(the_cluster, vm).get("user_shutdown")
    }
    if not candidates:
        return frozenset()
    homes = [state.target(state.nodes[uuid]) for uuid in sorted({vm.primary_node for vm in candidates.values()})]
    hypervisors = tuple(dict.fromkeys(vm.hypervisor for vm in candidates.values()))
    answers = await nodes.fan_out(homes, calls.InstanceEndings(hypervisors=hypervisors))
    return frozenset(
        ending.uuid
        for answer in answers
        for ending in answer.value or ()
        if ending.how == "shutdown"
        and ending.uuid in candidates
        and candidates[ending.uuid].primary_node == answer.target.uuid
    )
