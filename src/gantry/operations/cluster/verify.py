"""OP_CLUSTER_VERIFY: check configuration, nodes, instances, disks, networks and the journal.

See contracts/commands.md#cluster-verify.
"""

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec import structs

from gantry import errors
from gantry.address import ranges
from gantry.ipam import embedded
from gantry.model import allowed, cluster, instance, lock, network, opcodes, templates
from gantry.operations import base, fill, hook_environment, stray_guests
from gantry.operations.disk_planning import disk_spec
from gantry.operations.network import address_users
from gantry.operations.node import candidate_pool
from gantry.operations.placement import builtin_allocator
from gantry.operations.query import endings
from gantry.operations.query import network as networks
from gantry.rpc import calls, liveness, targets
from gantry.state import history, ssconf
from gantry.state import snapshot as states

DISKS_TIMEOUT_SECONDS = 20.0
"""For the states of the disks of one instance: every change of the cluster waits for the locks of verify meanwhile."""
CERTIFICATE_SECONDS = 30 * 86400.0
"""How long before its end a certificate is reported."""


@dataclass(frozen=True)
class Finding:
    """A finding of verify: the error code, the kind and name of the object, the problem.

    The codes ENETWORKPOOL, EINSTANCECONFLICT, EINSTANCEDEVICES and EINSTANCEUNWANTED are Gantry's own. A warning does
    not make verify fail.

    See contracts/commands.md#cluster-verify.
    """

    code: str
    kind: str
    name: str
    message: str
    is_warning: bool = False


class ClusterVerify(base.Unit[opcodes.ClusterVerify, bool]):
    """Checks configuration, nodes and instances, and logs its findings; the result is whether there are no errors."""

    OPCODE = opcodes.ClusterVerify

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Share everything, so that no object is half changed."""
        levels = (lock.Level.INSTANCE, lock.Level.GROUP, lock.Level.NODE, lock.Level.NETWORK)
        return {(level, lock.ALL_NAMES): lock.Mode.SHARED for level in levels}

    async def inspect(self, snapshot: states.Snapshot) -> bool:
        """Run all sections, each under its heading (contracts/commands.md#cluster-verify)."""
        log, good = self.environment.log, True
        log.info("* Verifying cluster config")
        good &= self._report(_check_config(snapshot))
        log.info("* Verifying node status")
        online = [node for node in snapshot.nodes.values() if not node.offline]
        nodes = sorted(online, key=lambda node: node.name)
        files = ssconf.digests(ssconf.values(snapshot))
        verified = await asyncio.gather(*(self._ask(snapshot, node, files) for node in nodes))
        for answer in verified:
            good &= self._report(_check_node(answer), fine=f"node {answer.target.name}")
        # A node that just did not answer is not waited for in the other sections.
        silent: dict[targets.Target, targets.Answer[tuple[calls.RunningInstance, ...]]] = {
            answer.target: targets.Answer(answer.target, error=answer.error)
            for answer in verified
            if isinstance(answer.error, errors.RemoteError)
        }
        for name, message in await candidate_pool.lagging(self.environment, snapshot):
            good &= self._report(iter([Finding("ECLUSTERFILECHECK", "node", name, message)]))
        log.info("* Verifying instance status")
        ask = calls.InstanceList(hypervisors=snapshot.the_cluster.enabled_hypervisors)
        node_targets = [snapshot.target(node) for node in nodes if node.vm_capable]
        remaining = [target for target in node_targets if target not in silent]
        running = await liveness.attend(self.environment.nodes, remaining, ask)
        reports = [*running, *silent.values()]
        names = {guest.name for answer in reports for guest in answer.value or ()}
        stopped = [vm for vm in snapshot.instances.values() if vm.name not in names]
        switched_off = await endings.find(self.environment.nodes, snapshot, stopped)
        good &= self._report(_check_instances(snapshot, reports, switched_off))
        good &= self._report(_check_devices(snapshot, reports))
        strays = stray_guests.find(snapshot, reports)
        examined = await asyncio.gather(*(stray_guests.examine(self.environment.nodes, stray) for stray in strays))
        good &= self._report(_check_strays(snapshot, examined))
        answering = [answer.target for answer in running if answer.value is not None]
        of_disks = await asyncio.gather(*(self._verify_disks(snapshot, target) for target in answering))
        for findings, _ in of_disks:
            good &= self._report(iter(findings))
        answering = [target for target, (_, is_silent) in zip(answering, of_disks, strict=True) if not is_silent]
        log.info("* Verifying orphan volumes")
        owners = disk_spec.owners_of_volumes(snapshot)
        groups = {unit.name for unit in disk_spec.cluster_units(snapshot) if unit.kind in templates.IN_VOLUME_GROUPS}
        for group in sorted(groups | {group for _, group, _ in owners}):
            # Problems of a group have already been reported.
            answers = await liveness.attend(self.environment.nodes, answering, calls.LvList(group=group))
            good &= self._report(_check_volumes(answers, group, owners))
        log.info("* Verifying N+1 Memory redundancy")
        needed = {target.uuid: builtin_allocator.reserve(snapshot, snapshot.nodes[target.uuid]) for target in answering}
        with_reserve = [target for target in answering if needed[target.uuid]]
        node_statuses = await liveness.attend(self.environment.nodes, with_reserve, calls.NodeInfo(storage=()))
        good &= self._report(_check_memory(node_statuses, needed))
        log.info("* Verifying allow-lists")
        good &= self._report(_check_allowed(snapshot))
        log.info("* Verifying network pools")
        good &= self._report(_check_pools(snapshot, self.environment.ledger))
        good &= self._report(_check_node_addresses(snapshot))
        log.info("* Verifying journal")
        checked = await self.environment.check_journal()
        good &= self._report(_check_journal(checked))
        log.info("* Other Notes")
        for line in _notes(snapshot):
            log.info(line)
        return good

    async def _verify_disks(self, snapshot: states.Snapshot, target: targets.Target) -> tuple[list[Finding], bool]:
        """Ask a node for the disks of its instances whose admin state is up, one instance after the other.

        After an instance whose disks it does not report in time, which is the second value, it is not asked for the
        remaining ones: its disks may hang.
        """
        here = [snapshot.instances[uuid] for uuid in snapshot.on_node.get(target.uuid) or ()]
        up = [vm for vm in here if vm.admin_state is instance.AdminState.UP and vm.disks]
        findings: list[Finding] = []
        for vm in sorted(up, key=lambda vm: vm.name):
            whole = fill.fill(snapshot, vm).disks
            answer = await self._disks(target, whole)
            findings += _check_disks(vm.name, whole, answer)
            if isinstance(answer.error, errors.RemoteError):
                return findings, True
        return findings, False

    async def _disks(
        self, target: targets.Target, whole: tuple[calls.Disk, ...]
    ) -> targets.Answer[tuple[calls.DiskState | None, ...]]:
        ask = calls.BlockdevStatus(disks=whole)
        try:
            async with asyncio.timeout(DISKS_TIMEOUT_SECONDS):
                (answer,) = await liveness.attend(self.environment.nodes, [target], ask)
        except TimeoutError:
            error = errors.RemoteError(f"it has not answered {ask.procedure()} within {DISKS_TIMEOUT_SECONDS:.0f} s")
            return targets.Answer(target, error=error)
        return answer

    async def _ask(
        self, snapshot: states.Snapshot, node: cluster.Node, files: dict[str, str]
    ) -> targets.Answer[dict[str, list[str]]]:
        expected = self._expected(snapshot, node, files)
        (answer,) = await liveness.attend(self.environment.nodes, [snapshot.target(node)], expected)
        return answer

    def _expected(self, snapshot: states.Snapshot, node: cluster.Node, files: dict[str, str]) -> calls.NodeVerify:
        group = snapshot.nodegroups[node.group]
        bridged = [(snapshot.networks[uuid], plug) for uuid, plug in group.networks.items() if plug.mode == "bridged"]
        plain = {plug.link for net, plug in bridged if not (net.segment or plug.vlan)}
        # One network of each type on a link represents all: there may be thousands.
        kinds = {
            (plug.link, plug.vlan, net.segment.network_type if net.segment else ""): _nic(snapshot, net, plug)
            for net, plug in bridged
            if net.segment or plug.vlan
        }
        return calls.NodeVerify(
            hypervisors=snapshot.the_cluster.enabled_hypervisors if node.vm_capable else (),
            bridges=tuple(sorted(plain)) if node.vm_capable else (),
            nics=tuple(kinds.values()) if node.vm_capable else (),
            ssconf=files,
            now=self.environment.inputs.now,
            storage=disk_spec.cluster_units(snapshot) if node.vm_capable else (),
            certificate_seconds=CERTIFICATE_SECONDS,
            authority=node.uuid == snapshot.the_cluster.master_node,
        )

    def _report(self, findings: Iterator[Finding], *, fine: str = "") -> bool:
        """Log findings and return whether none is an error; ``fine`` names the object to report as fine without any."""
        good, any_found = True, False
        for finding in findings:
            good, any_found = good and finding.is_warning, True
            word, subject = "WARNING" if finding.is_warning else "ERROR", f"{finding.kind} {finding.name}".rstrip()
            coded = f"{word}:{finding.code}:{finding.kind}:{finding.name}: {finding.message}"
            self.environment.log.info(
                f"  - {coded}" if self.op.error_codes else f"  - {word}: {subject}: {finding.message}"
            )
        if fine and self.op.verbose and not any_found:
            self.environment.log.info(f"  - {fine} is fine")
        return good

    def plan(self, snapshot: states.Snapshot, facts: bool) -> base.Plan:
        """Change nothing; hooks may add findings (contracts/hooks.md#directories)."""
        results = [facts]

        def report(failures: Sequence[base.HookFailure]) -> None:
            self.environment.log.info("* Hooks Results")
            results.append(self._report(_check_hooks(failures)))

        return base.Plan(result=lambda: all(results), hooks=hook_environment.of_cluster_verify(snapshot, report))


def _nic(snapshot: states.Snapshot, net: network.Network, plug: cluster.Connection) -> calls.Nic:
    """Return a NIC in a network, for a node to check whether it could plug it in."""
    plugged = instance.Nic(uuid="", mac="", network=net.uuid, nicparams=structs.asdict(plug))
    return fill.fill_nic(snapshot.the_cluster, 0, plugged, net=net)


def _check_config(snapshot: states.Snapshot) -> Iterator[Finding]:
    owner = snapshot.the_cluster
    if owner.master_node not in snapshot.nodes:
        yield Finding("ECLUSTERCFG", "cluster", "", f"the master node {owner.master_node} does not exist")
    candidates = sum(
        node.role(owner) in (cluster.Role.MASTER, cluster.Role.CANDIDATE) for node in snapshot.nodes.values()
    )
    possible = sum(node.master_capable and not node.offline for node in snapshot.nodes.values())
    required = min(owner.candidate_pool_size, possible)
    if candidates < required:
        yield Finding("ECLUSTERCFG", "cluster", "", f"{candidates} master candidates, {required} are required")
    for net in sorted(snapshot.networks.values(), key=lambda net: net.name):
        for subnet in net.subnets:
            cidr = ranges.parse_cidr(subnet.cidr)
            for text in (*(pool.range for pool in subnet.pools), *subnet.external):
                if not cidr.range.covers(ranges.parse_range(text)[1]):
                    yield Finding("ECLUSTERCFG", "network", net.name, f"range {text} is outside subnet {cidr}")


def _check_node(answer: targets.Answer[dict[str, list[str]]]) -> Iterator[Finding]:
    codes = {
        "hypervisor": "ENODEHV",
        "bridges": "ENODENET",
        "filelist": "ENODEFILECHECK",
        "time": "ENODETIME",
        "storage": "ENODEFILESTORAGEPATHUNUSABLE",
        "certificates": "ECLUSTERCERT",
    }
    if answer.value is None:
        yield Finding("ENODERPC", "node", answer.target.name, f"the node does not answer: {answer.error}")
    for check, complaints in (answer.value or {}).items():
        for complaint in complaints:
            # This file follows changes of instances a little later, for many changes at once (daemons.distribution).
            late = complaint.startswith("ssconf_instance_list ")
            is_warning = late or (check == "certificates" and calls.ENDS_SOON in complaint)
            yield Finding(codes.get(check, "ENODESETUP"), "node", answer.target.name, complaint, is_warning=is_warning)


def _check_instances(
    snapshot: states.Snapshot,
    answers: list[targets.Answer[tuple[calls.RunningInstance, ...]]],
    switched_off: Collection[str],
) -> Iterator[Finding]:
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


def _check_devices(
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


def _check_strays(snapshot: states.Snapshot, strays: Sequence[stray_guests.Stray]) -> Iterator[Finding]:
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


def _check_disks(
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


def _check_volumes(
    answers: Sequence[targets.Answer[tuple[calls.Volume, ...]]], group: str, owners: Mapping[tuple[str, str, str], str]
) -> Iterator[Finding]:
    """Report volumes without an owner whose tags say that they were created for an instance."""
    for answer in answers:
        for volume in answer.value or ():
            owner_names = [tag.removeprefix(calls.OWNER_TAG) for tag in volume.tags if tag.startswith(calls.OWNER_TAG)]
            if owner_names and (answer.target.uuid, group, volume.name) not in owners:
                message = f"volume {group}/{volume.name} is unknown; it was created for instance {owner_names[0]}"
                yield Finding("ENODEORPHANLV", "node", answer.target.name, message)


def _check_memory(
    node_statuses: Sequence[targets.Answer[calls.NodeStatus]], needed: Mapping[str, int]
) -> Iterator[Finding]:
    for answer in node_statuses:
        if answer.value and answer.value.memory_free < needed[answer.target.uuid]:
            message = (
                f"{answer.value.memory_free} MiB of memory are free, {needed[answer.target.uuid]} MiB are needed for "
                "instances that would come here if another node failed"
            )
            yield Finding("ENODEN1", "node", answer.target.name, message)


def _check_journal(check: history.Check) -> Iterator[Finding]:
    if check.problem:
        yield Finding("ECLUSTERJOURNAL", "cluster", "", check.problem)


def _check_pools(snapshot: states.Snapshot, ledger: embedded.Ledger) -> Iterator[Finding]:
    warning, critical = snapshot.the_cluster.network_thresholds
    for net in sorted(snapshot.networks.values(), key=lambda net: net.name):
        share = networks.utilization(ledger, net) or 0
        if share >= warning:
            limit = critical if share >= critical else warning
            message = f"its pools are {share:g} % in use, the threshold is {limit} %"
            yield Finding("ENETWORKPOOL", "network", net.name, message, is_warning=share < critical)


def _check_node_addresses(snapshot: states.Snapshot) -> Iterator[Finding]:
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


def _check_allowed(snapshot: states.Snapshot) -> Iterator[Finding]:
    owner = snapshot.the_cluster
    for vm in sorted(snapshot.instances.values(), key=lambda vm: vm.name):
        for _, sentence in allowed.outside(owner, vm.hypervisor, allowed.own_values(owner, vm)):
            message = f"{sentence}; it will not start again, see gnt-cluster modify --allow"
            yield Finding("EINSTANCEPOLICY", "instance", vm.name, message, is_warning=True)


def _check_hooks(failures: Sequence[base.HookFailure]) -> Iterator[Finding]:
    for node, script, output in failures:
        problem = f"script {script} failed, output: {output}" if script else f"hooks got no answer: {output}"
        yield Finding("ENODEHOOKS", "node", node, problem)


def _notes(snapshot: states.Snapshot) -> Iterator[str]:
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
