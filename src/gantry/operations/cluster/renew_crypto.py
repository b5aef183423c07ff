"""OP_CLUSTER_RENEW_CRYPTO: renew certificates and keys, while guests, jobs and daemons continue to run.

A node gets its certificate in two halves. It is asked for a certificate request first; a new key waits on the node
until its certificate arrives. The cluster records the new key beside the old one before any node uses it, so a job that
is interrupted at any point leaves nodes that answer: which of the two keys a node has does not matter. The old
certificates are revoked at the end.

A new authority is trusted by all nodes before it issues anything, and the old one is trusted until the last node has a
certificate of the new one. If a node does not answer in between, both stay trusted, and the next renewal completes it.

See explanation/security.md#renewal.
"""

import asyncio
from collections.abc import Sequence, Set
from dataclasses import dataclass, field

from msgspec import structs

from gantry import errors, security
from gantry.model import cluster, lock, opcodes
from gantry.operations import base
from gantry.operations.cluster import ssconf_files
from gantry.operations.node import candidate_pool, enroll
from gantry.rpc import calls, targets
from gantry.state.objects import snapshot as states
from gantry.state.objects import ssconf

CRYPTO = (lock.Level.CONFIG, "crypto")
"""The lock of a renewal: two would replace each other's keys."""

BATCH = 20
"""How many nodes get their certificate at the same time."""


@dataclass(frozen=True)
class Request:
    """A node's certificate request, and the digest of its key."""

    node: str
    csr: str
    key: str


@dataclass(frozen=True)
class Facts:
    """The certificate requests of nodes, and the names of the nodes that did not send one, with the reason."""

    requests: tuple[Request, ...] = ()
    silent: tuple[tuple[str, str], ...] = ()


@dataclass
class _Renewed:
    """What the steps learn: the nodes with a new certificate by UUID, and whether all have one."""

    certificates: dict[str, cluster.Certificate] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)


class ClusterRenewCrypto(base.Unit[opcodes.ClusterRenewCrypto, Facts]):
    """Renews certificates and keys; the result lists the nodes that kept their old certificates."""

    OPCODE = opcodes.ClusterRenewCrypto

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the nodes and the pool of candidates shared."""
        for name in self.op.nodes:
            snapshot.node(name)
        return {
            (lock.Level.NODE, lock.ALL_NAMES): lock.Mode.SHARED,
            candidate_pool.POOL: lock.Mode.EXCLUSIVE,
            CRYPTO: lock.Mode.EXCLUSIVE,
        }

    def _everything(self) -> bool:
        """Return whether each node gets a certificate: on request, with a new authority, and without any request."""
        op = self.op
        return op.node_certificates or op.cluster_certificate or not (op.nodes or op.rapi_certificate)

    def _is_unfinished(self) -> bool:
        """Return whether another authority is trusted that an earlier renewal could not replace everywhere."""
        return self._everything() and self.environment.authority.certificates.count("BEGIN CERTIFICATE") > 1

    def _nodes(self, snapshot: states.Snapshot) -> list[cluster.Node]:
        """Return the nodes to renew, by name, the master last: its calls use its key."""
        named = {snapshot.node(name).uuid for name in self.op.nodes}
        master = snapshot.the_cluster.master_node
        return sorted(
            (
                node
                for node in snapshot.nodes.values()
                if node.uuid in named or (self._everything() and node.takes_part)
            ),
            key=lambda node: (node.uuid == master, node.name),
        )

    async def inspect(self, snapshot: states.Snapshot) -> Facts:
        """Ask the nodes for certificate requests; a dry run asks nothing, since a node stores its new key."""
        if self.op.dry_run:
            return Facts()
        node_targets = [snapshot.target(node) for node in self._nodes(snapshot)]
        request = calls.CertificateRequest(new_key=not self.op.keep_keys)
        answers = await self.environment.nodes.fan_out(node_targets, request)
        return Facts(
            tuple(
                Request(answer.target.uuid, answer.value, security.key_of_request(answer.value.encode()))
                for answer in answers
                if answer.value is not None
            ),
            tuple((answer.target.name, str(answer.error)) for answer in answers if answer.value is None),
        )

    def plan(self, snapshot: states.Snapshot, facts: Facts) -> base.Plan:
        """Record the new keys, then renew in an order in which every two members trust each other at each moment."""
        self._check(facts)
        renewed = _Renewed(failed=[name for name, _ in facts.silent])
        nodes = self._nodes(snapshot)
        lines = [f"renew the certificate of node {node.name}" for node in nodes]
        steps: list[base.Step] = []
        if self.op.cluster_certificate:
            lines.insert(0, "replace the cluster's authority")
            steps += self._authority_steps(snapshot)
        if facts.requests:
            steps.append(self._step("renew the certificates of nodes", lambda: self._renew(facts, renewed)))
        if self.op.rapi_certificate:
            lines.append("issue a certificate for the remote API")
            steps.append(self._step("issue a certificate for the remote API", self._renew_remote_api))
        trust = self._step("trust only the present authority", lambda: self._trust_one(renewed))
        return base.Plan(
            lines=lines,
            changes=self._with_keys(snapshot, facts),
            steps=steps,
            finish=lambda current: self._finish(current, renewed),
            after=[trust] if self.op.cluster_certificate or self._is_unfinished() else [],
            result=lambda: sorted(renewed.failed),
            # A node may have its new key, so the cluster must continue to know it.
            keep_on_failure=True,
        )

    def _check(self, facts: Facts) -> None:
        required = set(self.op.nodes)
        for name, reason in facts.silent:
            if name in required or self.op.cluster_certificate:
                raise errors.WrongStateError(
                    f"node {name} did not send a certificate request: {reason}",
                    hint=f"start gantry-noded there; if it is down for good, gnt-node modify --offline yes {name}",
                )

    def _with_keys(self, snapshot: states.Snapshot, facts: Facts) -> list[states.Change]:
        now = self.environment.inputs.now
        changes: list[states.Change] = []
        for request in facts.requests:
            node = snapshot.nodes[request.node]
            if request.key not in node.certificate.keys:
                keys = (*node.certificate.keys, request.key)
                # The authority's word counts for a node without recorded keys, and one that it may not have yet.
                if node.certificate.keys:
                    certificate = structs.replace(node.certificate, keys=keys)
                    changes.append(states.Put(base.changed(node, now, certificate=certificate)))
        return changes

    def _step(self, text: str, run: base.Run) -> base.Step:
        async def run_on_disk() -> None:
            try:
                await run()
            except OSError as error:
                raise errors.StorageError(
                    f"a file of the master could not be written: {error.filename}: {error.strerror}",
                    hint="repair its file system or free space on it, then run gnt-cluster renew-crypto again",
                ) from error

        return base.Step(text, (base.Procedure("needs the answers of nodes, and carries secrets", run_on_disk),))

    def _authority_steps(self, snapshot: states.Snapshot) -> list[base.Step]:
        authority, name = self.environment.authority, snapshot.the_cluster.name

        async def add() -> None:
            await authority.add_successor(name)
            if failures := await self._spread_authority():
                await authority.drop_successor()
                for error in await self._spread_authority():
                    self.environment.log.warning(f"a node may trust an authority that is not used: {error}")
                raise failures[0]

        async def switch() -> None:
            await authority.switch()
            await self._send_papers()
            await authority.renew_master()

        return [
            self._step("let all nodes trust another authority too", add),
            self._step("issue certificates by the new authority", switch),
        ]

    async def _spread_authority(self) -> list[errors.GantryError]:
        """Send all nodes the authorities that the master trusts; return the errors."""
        call = calls.CertificateStore(authority=self.environment.authority.certificates)
        return await self._sent(call, self._members())

    async def _sent(self, call: calls.CertificateStore, members: Sequence[targets.Target]) -> list[errors.GantryError]:
        """Send nodes a call; return the errors."""
        answers = await self.environment.nodes.fan_out(members, call)
        return [answer.error for answer in answers if answer.error]

    def _members(self) -> list[targets.Target]:
        state = self.environment.snapshot()
        nodes = sorted(state.nodes.values(), key=lambda node: node.name)
        return [state.target(node) for node in nodes if node.takes_part]

    async def _send_papers(self) -> None:
        """Send what only master candidates have; one of them may be the next to issue certificates."""
        state = self.environment.snapshot()
        for node in sorted(state.nodes.values(), key=lambda node: node.name):
            if node.role(state.the_cluster) is cluster.Role.CANDIDATE:
                await candidate_pool.send_secrets(self.environment, state.target(node))

    async def _renew(self, facts: Facts, renewed: _Renewed) -> None:
        """Send each node its certificate; one that does not answer keeps either, and both of its keys count."""
        state = self.environment.snapshot()
        unaware = await ssconf_files.spread(self.environment.nodes, self._members(), ssconf.values(state))
        for target, error in unaware.items():
            self.environment.log.warning(f"{target.name} does not know the new keys yet: {error}")
        requests = [request for request in facts.requests if request.node not in renewed.certificates]
        withheld = self._strangers(state, requests, unaware={target.uuid for target in unaware})
        for request in withheld:
            name = state.nodes[request.node].name
            self.environment.log.warning(f"{name} keeps its certificate: too few nodes know its new key")
            renewed.failed.append(name)
        requests = [request for request in requests if request not in withheld]
        for start in range(0, len(requests), BATCH):
            await asyncio.gather(*(self._send(state, each, renewed) for each in requests[start : start + BATCH]))

    def _strangers(self, state: states.Snapshot, requests: Sequence[Request], *, unaware: Set[str]) -> list[Request]:
        """Return the requests of candidates that would be refused with their new keys, whatever node is the master.

        A majority of the candidates that knows a key introduces it to the others, but not before a master is confirmed.
        That needs a majority of the nodes. Without either, a master that restarts is never confirmed.
        """
        roles = (cluster.Role.MASTER, cluster.Role.CANDIDATE)
        candidates = {node.uuid for node in state.nodes.values() if node.role(state.the_cluster) in roles}
        are_few = any(2 * len(unaware & group) >= len(group) for group in (candidates, self._voters()))
        if self.op.keep_keys or not are_few:
            return []
        return [request for request in requests if request.node in candidates]

    def _voters(self) -> set[str]:
        return {target.uuid for target in self._members()}

    async def _send(self, state: states.Snapshot, request: Request, renewed: _Renewed) -> None:
        node, authority = state.nodes[request.node], self.environment.authority
        target = state.target(node)
        try:
            pem = authority.issue(request.csr, uuid=node.uuid, name=node.name, address=node.primary_ip)
            call = calls.CertificateStore(authority=authority.certificates, certificate=pem)
            await self.environment.nodes.call(target, call)
        except errors.GantryError as error:
            self.environment.log.warning(f"{node.name} may have kept its certificate: {error}")
            renewed.failed.append(node.name)
            return
        renewed.certificates[node.uuid] = enroll.issued_as(pem)
        if node.uuid == state.the_cluster.master_node:
            await authority.renew_master()

    async def _renew_remote_api(self) -> None:
        state = self.environment.snapshot()
        node = state.nodes[state.the_cluster.master_node]
        names = (state.the_cluster.name, node.name)
        await self.environment.authority.renew_remote_api(names=names, address=node.primary_ip)
        await self._send_papers()

    def _finish(self, current: states.Snapshot, renewed: _Renewed) -> Sequence[states.Change]:
        now = self.environment.inputs.now
        replaced = [current.nodes[uuid] for uuid in renewed.certificates if uuid in current.nodes]
        changes: list[states.Change] = [
            states.Put(base.changed(node, now, certificate=renewed.certificates[node.uuid])) for node in replaced
        ]
        return [*changes, *enroll.revocation(current, [node.certificate for node in replaced], now=now)]

    async def _trust_one(self, renewed: _Renewed) -> None:
        authority = self.environment.authority
        if renewed.failed:
            names = ", ".join(sorted(renewed.failed))
            self.environment.log.warning(f"{names}: run gnt-cluster renew-crypto again when these nodes answer")
            return
        # The master's own file comes last: as long as it has two authorities, the next renewal knows that one is to go.
        own = self.environment.snapshot().the_cluster.master_node
        call = calls.CertificateStore(authority=authority.own_certificate)
        members = self._members()
        failures = await self._sent(call, [member for member in members if member.uuid != own])
        await authority.forget_others()
        await authority.renew_master()
        failures += await self._sent(call, [member for member in members if member.uuid == own])
        for error in failures:
            self.environment.log.warning(f"a node trusts a former authority until it is renewed again: {error}")
        self._warn_of_absent()

    def _warn_of_absent(self) -> None:
        """Name the nodes that do not hear of a new authority: by the old one they could form a cluster of their own."""
        nodes = self.environment.snapshot().nodes.values()
        if names := ", ".join(sorted(node.name for node in nodes if node.offline)):
            self.environment.log.warning(
                f"{names}: offline while the authority was replaced; before such a machine runs again, "
                "remove Gantry's files there, then add it with gnt-node add --readd (how-to/certificates.md)"
            )
