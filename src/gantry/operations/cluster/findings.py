"""What ``verify`` finds wrong, from the state and the answers of the nodes. Pure.

See contracts/commands.md#cluster-verify.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from gantry.address import ranges
from gantry.ipam import embedded
from gantry.model import allowed, cluster, instance
from gantry.operations import base, stray_guests
from gantry.operations.network import address_users
from gantry.operations.node import candidate_pool
from gantry.operations.query import network as networks
from gantry.operations.webhook import progress
from gantry.rpc import calls, targets
from gantry.state.journal import history
from gantry.state.objects import snapshot as states

LAG_SECONDS = 900.0
"""How long the receiver of a webhook fails before that is reported."""


@dataclass(frozen=True)
class Finding:
    """A finding of verify: the error code, the kind and name of the object, the problem.

    The codes ENETWORKPOOL, ENODEJOIN, ENODEORPHANFILE, EINSTANCECONFLICT, EINSTANCEDEVICES, EINSTANCEUNWANTED and
    EWEBHOOK are Gantry's own. A warning does not make verify fail.

    See contracts/commands.md#cluster-verify.
    """

    code: str
    kind: str
    name: str
    message: str
    is_warning: bool = False


def check_config(snapshot: states.Snapshot) -> Iterator[Finding]:
    """Report what contradicts itself in the configuration."""
    the_cluster = snapshot.the_cluster
    if the_cluster.master_node not in snapshot.nodes:
        yield Finding("ECLUSTERCFG", "cluster", "", f"the master node {the_cluster.master_node} does not exist")
    candidates, _ = snapshot.numbers_of_candidates()
    policy, default = snapshot.replication_policy, the_cluster.default_policy(*snapshot.numbers_of_candidates())
    if policy.is_weaker(default):
        message = (
            f"the replication policy is {policy.value}, weaker than the default for its candidates, {default.value}; "
        )
        hint = "gnt-cluster modify --replication default sets that"
        yield Finding("ECLUSTERCFG", "cluster", "", message + hint, is_warning=True)
    possible = sum(node.master_capable and node.takes_part for node in snapshot.nodes.values())
    required = min(the_cluster.candidate_pool_size, possible)
    if candidates < required:
        yield Finding("ECLUSTERCFG", "cluster", "", f"{candidates} master candidates, {required} are required")
    for node in sorted(snapshot.nodes.values(), key=lambda node: node.name):
        if node.joining:
            message = "its addition was not completed, so it does not belong to the cluster yet; "
            yield Finding("ENODEJOIN", "node", node.name, f"{message}gnt-node add --readd {node.name} completes it")
    for net in sorted(snapshot.networks.values(), key=lambda net: net.name):
        for subnet in net.subnets:
            cidr = ranges.parse_cidr(subnet.cidr)
            for text in (*(pool.range for pool in subnet.pools), *subnet.external):
                if not cidr.range.covers(ranges.parse_range(text)[1]):
                    yield Finding("ECLUSTERCFG", "network", net.name, f"range {text} is outside subnet {cidr}")


def check_node(answer: targets.Answer[dict[str, list[str]]]) -> Iterator[Finding]:
    """Report what a node says of itself, or that it does not answer."""
    codes = {
        "hypervisor": "ENODEHV",
        "bridges": "ENODENET",
        "filelist": "ENODEFILECHECK",
        "time": "ENODETIME",
        "storage": "ENODEFILESTORAGEPATHUNUSABLE",
        "certificates": "ECLUSTERCERT",
        "copies": "ECLUSTERFILECHECK",
    }
    if answer.value is None:
        yield Finding("ENODERPC", "node", answer.target.name, f"the node does not answer: {answer.error}")
    for check, complaints in (answer.value or {}).items():
        for complaint in complaints:
            # This file follows changes of instances a little later, for many changes at once (mastership.distribution).
            late = complaint.startswith("ssconf_instance_list ")
            is_warning = late or check == "copies" or (check == "certificates" and calls.ENDS_SOON in complaint)
            yield Finding(codes.get(check, "ENODESETUP"), "node", answer.target.name, complaint, is_warning=is_warning)


def check_instances(
    snapshot: states.Snapshot,
    answers: list[targets.Answer[tuple[calls.RunningInstance, ...]]],
    switched_off: Collection[str],
) -> Iterator[Finding]:
    """Report instances that do not run where they should, or run where they should not; ``switched_off`` are UUIDs."""
    running: dict[str, list[targets.Target]] = {}
    for answer in answers:
        for running_instance in answer.value or ():
            running.setdefault(running_instance.name, []).append(answer.target)
    silent = {answer.target.uuid for answer in answers if answer.value is None}
    for vm in sorted(snapshot.instances.values(), key=lambda vm: vm.name):
        node, targets_running = snapshot.nodes[vm.primary_node], running.get(vm.name, [])
        other_nodes = [target.name for target in targets_running if target.uuid != node.uuid]
        if node.offline:
            yield Finding("EINSTANCEBADNODE", "instance", vm.name, f"its primary node {node.name} is offline")
        for name in other_nodes:
            message = f"it runs on {name}, but its primary node is {node.name}"
            yield Finding("EINSTANCEWRONGNODE", "instance", vm.name, message)
        expected = vm.admin_state is instance.AdminState.UP and not node.offline and node.uuid not in silent
        if expected and not targets_running and vm.uuid not in switched_off:
            yield Finding("EINSTANCEDOWN", "instance", vm.name, f"it should run on {node.name}, but does not")
    for name, targets_running in sorted(running.items()):
        for target in targets_running if ("instances", name) not in snapshot.names else ():
            yield Finding("ENODEORPHANINSTANCE", "node", target.name, f"instance {name} should not exist")


def check_devices(
    snapshot: states.Snapshot, answers: list[targets.Answer[tuple[calls.RunningInstance, ...]]]
) -> Iterator[Finding]:
    """Report NICs and disks that a running guest lacks, or has although the state does not.

    They wait for the next start, or were changed while the guest ran, and that could not be undone.
    """
    running = {guest.uuid: guest for answer in answers for guest in answer.value or () if guest.devices is not None}
    for vm in sorted(snapshot.instances.values(), key=lambda vm: vm.name):
        if vm.uuid not in running:
            continue
        expected = {nic.mac: f"NIC {index} ({nic.mac})" for index, nic in enumerate(vm.nics)}
        expected |= {disk.uuid: f"disk {index} ({disk.uuid})" for index, disk in enumerate(vm.disks)}
        present = running[vm.uuid].devices or ()
        missing = [title for device, title in expected.items() if device not in present]
        extra = [f"a NIC or disk of the past ({device})" for device in present if device not in expected]
        for verb, titles in (("lacks", missing), ("still has", extra)):
            if titles:
                message = f"its running guest {verb} {', '.join(titles)}; gnt-instance reboot {vm.name} changes that"
                yield Finding("EINSTANCEDEVICES", "instance", vm.name, message, is_warning=True)


def check_strays(snapshot: states.Snapshot, strays: Sequence[stray_guests.Stray]) -> Iterator[Finding]:
    """Report what ``_check_instances`` does not: instances that should not run, namesakes, and who shares addresses."""
    for stray in strays:
        name, description = stray.guest.name, stray_guests.description(snapshot, stray)
        if stray.kind is stray_guests.Kind.UNWANTED:
            yield Finding("EINSTANCEUNWANTED", "instance", name, description, is_warning=True)
        if stray.kind is stray_guests.Kind.UNKNOWN and ("instances", name) in snapshot.names:
            message = f"{description}: it is not the instance of that name in the state"
            yield Finding("ENODEORPHANINSTANCE", "node", stray.target.name, message)
        for conflict in stray_guests.conflicts(snapshot, stray, strays):
            yield Finding("EINSTANCECONFLICT", "instance", name, conflict)


def check_disks(
    name: str, whole: Sequence[calls.Disk], answer: targets.Answer[tuple[calls.DiskState | None, ...]]
) -> Iterator[Finding]:
    """Report disks that a node does not have or cannot use; a disk with an outdated other copy is only a warning."""
    if answer.value is None:
        message = f"node {answer.target.name} cannot report its disks: {answer.error}"
        yield Finding("EINSTANCEFAULTYDISK", "instance", name, message)
        return
    for disk, state in zip(whole, answer.value, strict=True):
        disk_name = f"disk {disk.index} on {answer.target.name}"
        if state is None:
            yield Finding("EINSTANCEMISSINGDISK", "instance", name, f"{disk_name} is missing")
        elif state.problem:
            yield Finding("EINSTANCEFAULTYDISK", "instance", name, f"{disk_name}: {state.problem}")
        elif state.degraded:
            done = state.sync_percent
            details = f"its connection is {state.connection}" if done is None else f"{done:.0f} % are synchronized"
            message = f"{disk_name} is not complete on both nodes, {details}"
            yield Finding("EINSTANCEFAULTYDISK", "instance", name, message, is_warning=True)


def check_volumes(
    answers: Sequence[targets.Answer[tuple[calls.Volume, ...]]], group: str, owners: Mapping[tuple[str, str, str], str]
) -> Iterator[Finding]:
    """Report volumes without an owner whose tags say that they were created for an instance."""
    for answer in answers:
        for volume in answer.value or ():
            owner_names = [tag.removeprefix(calls.OWNER_TAG) for tag in volume.tags if tag.startswith(calls.OWNER_TAG)]
            if owner_names and (answer.target.uuid, group, volume.name) not in owners:
                message = f"volume {group}/{volume.name} is unknown; it was created for instance {owner_names[0]}"
                yield Finding("ENODEORPHANLV", "node", answer.target.name, message)


def check_files(
    answers: Sequence[targets.Answer[tuple[calls.DiskFile, ...]]], known: Set[tuple[str, str]], *, shared: bool
) -> Iterator[Finding]:
    """Report files in a storage of disks that are not disks of the cluster, a ``shared`` storage's once.

    It is a warning: somebody may have put them there, to adopt them.
    """
    reported: set[tuple[str, str]] = set()
    for answer in answers:
        for file in answer.value or ():
            location = ("" if shared else answer.target.uuid, file.path)
            if location in known or location in reported:
                continue
            reported.add(location)
            message = f"file {file.path} ({file.size} MiB) belongs to no disk of the cluster; remove it, or adopt it"
            yield Finding("ENODEORPHANFILE", "node", answer.target.name, message, is_warning=True)


def check_memory(
    node_statuses: Sequence[targets.Answer[calls.NodeStatus]], needed: Mapping[str, int]
) -> Iterator[Finding]:
    """Report nodes without the memory that they ``needed``, in MiB, if another one fails."""
    for answer in node_statuses:
        if answer.value and answer.value.memory_free < needed[answer.target.uuid]:
            message = (
                f"{answer.value.memory_free} MiB of memory are free, {needed[answer.target.uuid]} MiB are needed for "
                "instances that would come here if another node failed"
            )
            yield Finding("ENODEN1", "node", answer.target.name, message)


def check_journal(check: history.Check) -> Iterator[Finding]:
    """Report where the journal was changed."""
    if check.problem:
        yield Finding("ECLUSTERJOURNAL", "cluster", "", check.problem)


def check_webhooks(snapshot: states.Snapshot, now: float) -> Iterator[Finding]:
    """Report receivers of webhooks that have got nothing for long."""
    for hook in sorted(snapshot.webhooks.values(), key=lambda hook: hook.name):
        known, status = progress.position(snapshot, hook), progress.status(snapshot, hook)
        message = ""
        if status == progress.DISABLED and known.waiting_since is not None:
            message = f"it is disabled, and its receiver failed before: {known.failure}"
        elif status == progress.FAILING and known.waiting_since and now - known.waiting_since >= LAG_SECONDS:
            minutes = (now - known.waiting_since) // 60
            message = f"its receiver has not accepted an event for {minutes:.0f} minutes: {known.failure}"
        elif status == progress.BEHIND:
            message = f"its receiver is {progress.lag(snapshot, hook)} changes behind; does gantry-rapi run here?"
        if message:
            yield Finding("EWEBHOOK", "webhook", hook.name, message, is_warning=True)


def check_pools(snapshot: states.Snapshot, ledger: embedded.Ledger) -> Iterator[Finding]:
    """Report networks that are nearly full."""
    warning, critical = snapshot.the_cluster.network_thresholds
    for net in sorted(snapshot.networks.values(), key=lambda net: net.name):
        share = networks.utilization(ledger, net) or 0
        if share >= warning:
            limit = critical if share >= critical else warning
            message = f"its pools are {share:g} % in use, the threshold is {limit} %"
            yield Finding("ENETWORKPOOL", "network", net.name, message, is_warning=share < critical)


def check_node_addresses(snapshot: states.Snapshot) -> Iterator[Finding]:
    """Report addresses of nodes that guests have, or that a network may give to one."""
    names = {address: node.name for node in snapshot.nodes.values() for address in address_users.addresses_of(node)}
    for each in address_users.in_networks(snapshot, sorted(names)):
        if each.owner:
            message = f"its address {each.address} is in use by {each.owner} in network {each.net.name}"
            yield Finding("ENODENET", "node", names[each.address], message)
        elif not each.is_reserved:
            message = (
                f"its address {each.address} is not reserved in network {each.net.name}; reserve it with "
                f"gnt-network modify --add-reserved-ips {each.address} {each.net.name}"
            )
            yield Finding("ENODENET", "node", names[each.address], message, is_warning=True)
    for address, name in sorted(names.items()):
        if owner := address_users.owner_outside(snapshot, address):
            yield Finding("ENODENET", "node", name, f"its address {address} is in use by {owner}")


def check_allowed(snapshot: states.Snapshot) -> Iterator[Finding]:
    """Report instances with parameters that the cluster does not allow any more."""
    the_cluster = snapshot.the_cluster
    for vm in sorted(snapshot.instances.values(), key=lambda vm: vm.name):
        for _, sentence in allowed.outside(the_cluster, vm.hypervisor, allowed.own_values(the_cluster, vm)):
            message = f"{sentence}; it will not start again, see gnt-cluster modify --allow"
            yield Finding("EINSTANCEPOLICY", "instance", vm.name, message, is_warning=True)


def check_hooks(failures: Sequence[base.HookFailure]) -> Iterator[Finding]:
    """Report hooks that failed."""
    for node, script, output in failures:
        problem = f"script {script} failed, output: {output}" if script else f"hooks got no answer: {output}"
        yield Finding("ENODEHOOKS", "node", node, problem)


def notes(snapshot: states.Snapshot) -> Iterator[str]:
    """Yield lines about what is no fault, such as nodes that are offline."""
    roles = [node.role(snapshot.the_cluster) for node in snapshot.nodes.values()]
    for role, text in ((cluster.Role.OFFLINE, "offline"), (cluster.Role.DRAINED, "drained")):
        if role in roles:
            yield f"  - NOTICE: {roles.count(role)} {text} node(s) found."
    for detached in sorted(snapshot.disks.values(), key=lambda detached: detached.uuid):
        names = " and ".join(snapshot.nodes[node].name for node in detached.nodes)
        yield (
            f"  - NOTICE: disk {detached.uuid} of {detached.disk.size} MiB on {names} has no instance "
            f"(formerly {detached.instance}); gnt-instance modify --disk attach:uuid={detached.uuid} attaches it."
        )
    if more := len(candidate_pool.surplus(snapshot)):
        yield f"  - NOTICE: {more} master candidate(s) more than the candidate pool size."
