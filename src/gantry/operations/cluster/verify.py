"""OP_CLUSTER_VERIFY: check configuration, nodes, instances, disks, networks and the journal.

See contracts/commands.md#cluster-verify.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import TypeVar

from msgspec import structs

from gantry import errors
from gantry.model import cluster, instance, lock, network, opcodes, templates
from gantry.operations import base, fill, guest_lists, hook_environment, stray_guests
from gantry.operations.cluster import findings
from gantry.operations.disk_planning import disk_spec
from gantry.operations.node import candidate_pool
from gantry.operations.placement import builtin_allocator
from gantry.operations.query import endings
from gantry.rpc import calls, liveness, targets
from gantry.state.objects import snapshot as states
from gantry.state.objects import ssconf

Result = TypeVar("Result")

DISKS_TIMEOUT_SECONDS = 20.0
"""For one answer about disks: every change of the cluster waits for the locks of verify meanwhile.

A node that exceeds it is not asked for the same again until it has answered (``rpc.silence``).
"""
CERTIFICATE_SECONDS = 30 * 86400.0
"""How long before its end a certificate is reported."""


class ClusterVerify(base.Unit[opcodes.ClusterVerify, bool]):
    """Checks configuration, nodes and instances, and logs its findings; the result is whether there are no errors."""

    OPCODE = opcodes.ClusterVerify

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock everything shared, so that no object is half changed."""
        levels = (lock.Level.INSTANCE, lock.Level.GROUP, lock.Level.NODE, lock.Level.NETWORK)
        return {(level, lock.ALL_NAMES): lock.Mode.SHARED for level in levels}

    async def inspect(self, snapshot: states.Snapshot) -> bool:
        """Run all sections, each under its heading (contracts/commands.md#cluster-verify)."""
        log, good = self.environment.log, True
        log.info("* Verifying cluster config")
        good &= self._report(findings.check_config(snapshot))
        log.info("* Verifying node status")
        # A node whose addition was not completed has no files of the cluster yet; check_config has reported it.
        nodes = sorted((node for node in snapshot.nodes.values() if node.takes_part), key=lambda node: node.name)
        files = ssconf.digests(ssconf.values(snapshot))
        verified = await asyncio.gather(*(self._ask(snapshot, node, files) for node in nodes))
        for answer in verified:
            good &= self._report(findings.check_node(answer), fine=f"node {answer.target.name}")
        # A node that just did not answer is not waited for in the other sections.
        silent: dict[targets.Target, targets.Answer[tuple[calls.RunningInstance, ...]]] = {
            answer.target: targets.Answer(answer.target, error=answer.error)
            for answer in verified
            if isinstance(answer.error, errors.RemoteError)
        }
        for name, message in await candidate_pool.lagging(self.environment, snapshot):
            good &= self._report([findings.Finding("ECLUSTERFILECHECK", "node", name, message)])
        log.info("* Verifying instance status")
        node_targets = [snapshot.target(node) for node in nodes if node.vm_capable]
        remaining = [target for target in node_targets if target not in silent]
        running = await self._attend(remaining, guest_lists.ask(snapshot))
        reports = [*running, *silent.values()]
        names = {guest.name for answer in reports for guest in answer.value or ()}
        stopped = [vm for vm in snapshot.instances.values() if vm.name not in names]
        switched_off = await endings.find(self.environment.nodes, snapshot, stopped)
        good &= self._report(findings.check_instances(snapshot, reports, switched_off))
        good &= self._report(findings.check_devices(snapshot, reports))
        strays = stray_guests.find(snapshot, reports)
        examined = await asyncio.gather(*(stray_guests.examine(self.environment.nodes, stray) for stray in strays))
        good &= self._report(findings.check_strays(snapshot, examined))
        answering = [answer.target for answer in running if answer.value is not None]
        of_disks = await asyncio.gather(*(self._verify_disks(snapshot, target) for target in answering))
        for problems, _ in of_disks:
            good &= self._report(problems)
        answering = [target for target, (_, is_silent) in zip(answering, of_disks, strict=True) if not is_silent]
        log.info("* Verifying orphan volumes")
        owners = disk_spec.owners_of_volumes(snapshot)
        groups = {unit.name for unit in disk_spec.cluster_units(snapshot) if unit.kind in templates.IN_VOLUME_GROUPS}
        for group in sorted(groups | {group for _, group, _ in owners}):
            # Problems of a group have already been reported.
            asking = (self._about_disks(target, calls.LvList(group=group)) for target in answering)
            answers = await asyncio.gather(*asking)
            good &= self._report(findings.check_volumes(answers, group, owners))
        log.info("* Verifying orphan files")
        paths = disk_spec.paths_of_files(snapshot)
        for kind in templates.BY_NAME:
            if kind in snapshot.the_cluster.enabled_disk_templates:
                asking_files = (self._about_disks(target, calls.FileList(kind=kind)) for target in answering)
                listed = await asyncio.gather(*asking_files)
                good &= self._report(findings.check_files(listed, paths, shared=kind == "sharedfile"))
        log.info("* Verifying N+1 Memory redundancy")
        needed = {target.uuid: builtin_allocator.reserve(snapshot, snapshot.nodes[target.uuid]) for target in answering}
        with_reserve = [target for target in answering if needed[target.uuid]]
        node_statuses = await self._attend(with_reserve, calls.NodeInfo(storage=()))
        good &= self._report(findings.check_memory(node_statuses, needed))
        log.info("* Verifying allow-lists")
        good &= self._report(findings.check_allowed(snapshot))
        log.info("* Verifying network pools")
        good &= self._report(findings.check_pools(snapshot, self.environment.ledger))
        good &= self._report(findings.check_node_addresses(snapshot))
        good &= self._report(findings.check_webhooks(snapshot, self.environment.inputs.now))
        log.info("* Verifying journal")
        checked = await self.environment.check_journal()
        good &= self._report(findings.check_journal(checked))
        log.info("* Other Notes")
        for line in findings.notes(snapshot):
            log.info(line)
        return good

    async def _verify_disks(
        self, snapshot: states.Snapshot, target: targets.Target
    ) -> tuple[list[findings.Finding], bool]:
        """Ask a node for the disks of its instances whose admin state is up, one instance after the other.

        After an instance whose disks it does not report in time, which is the second value, it is not asked for the
        remaining ones: its disks may hang.
        """
        here = [snapshot.instances[uuid] for uuid in snapshot.on_node.get(target.uuid) or ()]
        up = [vm for vm in here if vm.admin_state is instance.AdminState.UP and vm.disks]
        problems: list[findings.Finding] = []
        for vm in sorted(up, key=lambda vm: vm.name):
            whole = fill.fill(snapshot, vm).disks
            answer = await self._about_disks(target, calls.BlockdevStatus(disks=whole))
            problems += findings.check_disks(vm.name, whole, answer)
            if isinstance(answer.error, errors.RemoteError):
                return problems, True
        return problems, False

    async def _about_disks(self, target: targets.Target, ask: calls.Call[Result]) -> targets.Answer[Result]:
        """Ask a node something that its disks have to answer, unless it has been asked in vain for long enough."""
        silent, begin = self.environment.nodes.silence(), asyncio.get_running_loop().time()
        if silent and silent.seconds(target, ask) >= DISKS_TIMEOUT_SECONDS:
            return targets.Answer(target, error=liveness.no_answer(target, ask, "lately"))
        try:
            async with asyncio.timeout(DISKS_TIMEOUT_SECONDS):
                (answer,) = await liveness.attend(self.environment.nodes, [target], ask)
        except TimeoutError:
            if silent:
                silent.note(target, ask, since=begin)
            error = errors.RemoteError(f"it has not answered {ask.procedure()} within {DISKS_TIMEOUT_SECONDS:.0f} s")
            return targets.Answer(target, error=error)
        return answer

    async def _attend(self, where: Sequence[targets.Target], ask: calls.Call[Result]) -> list[targets.Answer[Result]]:
        return await liveness.attend(self.environment.nodes, where, ask, checks=liveness.THOROUGH)

    async def _ask(
        self, snapshot: states.Snapshot, node: cluster.Node, files: dict[str, str]
    ) -> targets.Answer[dict[str, list[str]]]:
        expected = self._expected(snapshot, node, files)
        (answer,) = await self._attend([snapshot.target(node)], expected)
        return answer

    def _expected(self, snapshot: states.Snapshot, node: cluster.Node, files: dict[str, str]) -> calls.NodeVerify:
        group = snapshot.nodegroups[node.group]
        bridged = [(snapshot.networks[uuid], plug) for uuid, plug in group.networks.items() if plug.mode == "bridged"]
        # One network of each type on a link represents all: there may be thousands.
        kinds = {
            (plug.link, plug.vlan, net.segment.network_type if net.segment else ""): _nic(snapshot, net, plug)
            for net, plug in sorted(bridged, key=lambda each: each[0].name, reverse=True)
        }
        return calls.NodeVerify(
            hypervisors=snapshot.the_cluster.enabled_hypervisors if node.vm_capable else (),
            nics=tuple(kinds.values()) if node.vm_capable else (),
            ssconf=files,
            now=self.environment.inputs.now,
            storage=disk_spec.cluster_units(snapshot) if node.vm_capable else (),
            certificate_seconds=CERTIFICATE_SECONDS,
            authority=node.uuid == snapshot.the_cluster.master_node,
        )

    def _report(self, problems: Iterable[findings.Finding], *, fine: str = "") -> bool:
        """Log findings and return whether none is an error; ``fine`` names the object to report as fine without any."""
        good, any_found = True, False
        for finding in problems:
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
            results.append(self._report(findings.check_hooks(failures)))

        return base.Plan(result=lambda: all(results), hooks=hook_environment.of_cluster_verify(snapshot, report))


def _nic(snapshot: states.Snapshot, net: network.Network, plug: cluster.Connection) -> calls.Nic:
    """Return a NIC in a network, for a node to check whether it could plug it in."""
    plugged = instance.Nic(uuid="", mac="", network=net.uuid, nicparams=structs.asdict(plug))
    return fill.fill_nic(snapshot.the_cluster, 0, plugged, net=net)
