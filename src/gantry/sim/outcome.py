"""The checks of the final state, after all faults have ended and the cluster has settled.

All jobs have ended, with the acknowledged ends. The objects have the effects of the successful jobs. Nodes have exactly
the guests and disks that the state has, and every candidate has the whole state.
"""

import contextlib
import math
import sys

import msgspec

from gantry import errors
from gantry.address import ranges
from gantry.doors import watcher
from gantry.ipam import embedded
from gantry.ipam.sql import sharing
from gantry.model import cluster as clusters
from gantry.model import instance, network
from gantry.rpc import calls, luxi
from gantry.sim import acknowledged, built, client, cluster, copies, facts, faults, invariants, node_disks, observed
from gantry.sim.story import Violation
from gantry.state.journal import history
from gantry.state.objects import snapshot as states

REFUSED = "a request that was refused for lack of a majority changes nothing"
JOBS_END = "every job ends"
ENDS_STAY = "the end of a job stays as it was acknowledged"
FACTS = "what a successful job has done stays done"
NODES = "the state equals what the nodes hold"
CANDIDATES = "candidates equal the master"
NO_GAP = "the kept part of the journal has no gap"
DATABASE = "a shared database has the addresses of the state"
COUNTED = "the ledger of addresses equals the state"

WATCHER_ROUNDS = 3
ROUND_SECONDS = 60.0
"""Between two rounds of the watcher; long enough for its jobs to end."""


class Outcome:
    """The final check of a cluster with one master and no faults."""

    def __init__(
        self,
        lab: cluster.SimulatedCluster,
        clients: client.Clients,
        *,
        acknowledgements: acknowledged.Acknowledgements,
        found_copies: copies.Copies,
        kind: built.Kind,
    ) -> None:
        self._firm = kind.firm
        self._prunes = kind.retention != "default"
        self._lab = lab
        self._clients = clients
        self._acknowledged = acknowledgements
        self._copies = found_copies
        self._blocked: set[str] = set()
        self._left_behind = invariants.LeftBehind({}, frozenset())

    @property
    def _master(self) -> str:
        masters = self._lab.masters()
        if len(masters) != 1:
            raise Violation(faults.ENDS, "one master", ", ".join(masters) or "none")
        return masters[0]

    @property
    def _state(self) -> states.Snapshot:
        return self._lab.daemons[self._master].store.durable

    async def settle(self) -> None:
        """Run the watcher some times, and wait until all messages have arrived.

        A master may learn only now that its role was promised to another machine, and win the vote again. A watcher
        round fails during that time and is repeated, as the watcher daemon does.
        """
        await self._finish_migrations()
        rounds = 0
        for _ in range(2 * WATCHER_ROUNDS):
            # A drain that was not acknowledged in time may have become valid since.
            await self._clients.undrain()
            rounds += await self._watch(self._clients.master())
            await self._lab.world.clock.sleep(ROUND_SECONDS)
            if rounds == WATCHER_ROUNDS:
                break
        await self._end_transfers()

    async def _end_transfers(self) -> None:
        """Wait for candidates that are behind: a lost part of a checkpoint is sent again when its call ends."""
        for _ in range(math.ceil(calls.CheckpointStore.LIMIT / ROUND_SECONDS)):
            if not any(self._lab.daemons[name].candidates.behind() for name in self._lab.masters()):
                return
            await self._lab.world.clock.sleep(ROUND_SECONDS)

    async def _finish_migrations(self) -> None:
        """Clean up after interrupted migrations, as how-to/moves.md says."""
        for name in sorted({name for machine in self._lab.names for name in invariants.halves(self._lab, machine)}):
            op = {"OP_ID": "OP_INSTANCE_MIGRATE", "instance_name": name, "cleanup": True}
            with contextlib.suppress(OSError, errors.GantryError):
                master = self._clients.master()
                await self._lab.wait(await self._lab.submit(op, on=master), on=master)

    async def _watch(self, name: str) -> bool:
        """Run the watcher once on the master's machine; return whether the master answered."""
        if not name:
            return False
        machine = self._lab.world.machine(name)
        asker = luxi.Client(machine.network, cluster.FOLDERS.luxi_socket)
        try:
            one_round = watcher.Watcher(
                machine,
                f"{cluster.FOLDERS.lib}/watcher.data",
                master=asker,
                authority=f"{cluster.FOLDERS.certificates}/authority.pem",
            )
            await machine.spawn(one_round.run())
        except (errors.RemoteError, errors.NotMasterError):
            return False
        finally:
            await asker.close()
        return True

    async def check(self) -> None:
        """Check everything; raises Violation."""
        self._acknowledged.check(self._master)
        self._check_refused()
        await self._check_jobs()
        self._check_facts()
        self._check_nodes()
        self._check_candidates()
        self._check_journal()
        await self._check_counts()
        await self._check_database()

    def _check_refused(self) -> None:
        """Check that no history has a job that a master refused because it had no majority."""
        for mark in self._clients.refused:
            if self._copies.has_job(mark):
                raise Violation(REFUSED, f"no job {mark}, which was refused", "a copy has it")

    async def _check_jobs(self) -> None:
        """Compare the jobs with their acknowledgements; archived jobs can be queried too.

        A machine that lagged behind when a job was archived has received the job's file since, with the record or with
        the whole state: a run has fewer jobs than the limit for that (``state.candidates.copies``). If the archive is
        pruned, an archived job may be gone.
        """
        rows = await self._clients.ask("QueryJobs", None, ["id", "status"], on=self._master)
        jobs = dict(msgspec.convert(rows, list[tuple[int, str]]))
        for number, status in jobs.items():
            if status not in client.FINAL:
                raise Violation(JOBS_END, f"an end of job {number}", f"it is {status}")
        for index, ack in enumerate(self._acknowledged.all):
            if ack.status == copies.ACCEPTED or self._acknowledged.is_number_lost(index):
                continue
            now = jobs.get(ack.number) or await self._archived(ack.number)
            if ack.status == acknowledged.ARCHIVED:
                if ack.number in jobs:
                    raise Violation(ENDS_STAY, str(ack), f"it is in the queue: {now}")
            elif now != ack.status and not (now is None and self._prunes):
                raise Violation(ENDS_STAY, str(ack), f"it is {now}")

    def _check_journal(self) -> None:
        """Check that the master's journal has no gap from its first kept record to its end."""
        disk = self._lab.world.machine(self._master).disk
        if problem := history.check(disk, cluster.FOLDERS.journal, most=sys.maxsize).problem:
            raise Violation(NO_GAP, f"a journal of {self._master} without a gap", problem)

    async def _archived(self, number: int) -> str | None:
        rows = await self._clients.ask("QueryJobs", [number], ["status"], on=self._master)
        return msgspec.convert(rows, list[list[str | None]])[0][0]

    def _check_facts(self) -> None:
        state = self._state
        for (kind, name), thing in self._clients.facts.things.items():
            if any(self._acknowledged.is_number_lost(source) for source in thing.sources):
                continue
            seen = observed.SEEN[kind](state, name)
            for field, value in thing.fields.items():
                if value is not None and field not in facts.UNSEEN and seen.get(field, False) != value:
                    raise Violation(FACTS, f"{kind} {name}: {field} {value!r}", repr(seen.get(field, False)))

    def _check_nodes(self) -> None:
        state = self._state
        if not self._firm:
            self._left_behind = invariants.left_behind(self._lab, self._copies)
        everywhere = {
            name: {guest.running.uuid: guest for guest in invariants.guests(self._lab, name)}
            for name in self._lab.names
        }
        # A stray guest with an instance's name prevents the watcher from starting the instance; verify reports it.
        self._blocked = {
            guest.running.name
            for name, running in everywhere.items()
            for guest in running.values()
            if self._is_left_behind(guest, state.names.get(("nodes", name), ""))
        }
        for name, running in everywhere.items():
            self._check_machine(state, name, running=running)
        known_things = self._clients.facts.things.items()
        untidy = {name for (kind, name), thing in known_things if kind == "instance" and thing.untidy}
        loose = {name for (kind, name), thing in known_things if kind == "instance" and thing.loose}
        node_disks.NodeDisks(
            self._lab,
            state,
            known=self._known,
            left_behind=self._left_behind,
            untidy=untidy,
            loose=loose,
        ).check()

    def _is_left_behind(self, guest: invariants.Guest, node_uuid: str) -> bool:
        """Return whether a guest runs on a node only by a history that was abandoned."""
        uuid = guest.running.uuid
        return uuid in self._left_behind.strays or invariants.home(uuid, node_uuid) in self._left_behind.things

    def _check_machine(self, state: states.Snapshot, name: str, *, running: dict[str, invariants.Guest]) -> None:
        uuid = state.names.get(("nodes", name), "")
        home = set(state.on_node.get(uuid) or ())
        strangers = sorted(
            running[key].running.name for key in running.keys() - home if not self._is_left_behind(running[key], uuid)
        )
        if strangers:
            raise Violation(NODES, f"no guest on {name} that does not belong there", strangers[0])
        if uuid and state.nodes[uuid].offline:
            return
        for vm in sorted((state.instances[key] for key in home), key=lambda vm: vm.name):
            known = self._known(vm, "up")
            up = vm.admin_state is instance.AdminState.UP
            # A job on volumes that was interrupted may leave a disk that only an administrator can repair.
            repairable = vm.disk_template in ("file", "diskless") or self._known(vm, facts.THERE)
            if up and vm.uuid not in running and vm.name not in self._blocked and repairable:
                raise Violation(NODES, f"{vm.name} running on {name}", "it does not run")
            # After an acknowledged failure of a stop, the guest may keep running.
            if known is False and not up and vm.uuid in running:
                raise Violation(NODES, f"{vm.name} stopped on {name}", "it runs")
            self._check_nics(vm, running.get(vm.uuid))

    def _known(self, vm: instance.Instance, field: str) -> object:
        """Return a field of an instance that clients know; None if unknown, or if an acknowledgement of it is lost."""
        thing = self._clients.facts.thing(("instance", vm.name))
        return None if any(map(self._acknowledged.is_number_lost, thing.sources)) else thing.fields.get(field)

    def _check_nics(self, vm: instance.Instance, guest: invariants.Guest | None) -> None:
        """Check that each address that a guest uses is allocated to it or lingers."""
        reserved = {*invariants.things(vm), *self._left_behind.things}
        for nic in guest.nics if guest else ():
            for address in nic.addresses if nic.network else ():
                if nic.network and (vm.uuid, nic.network.uuid, address.ip) not in reserved:
                    raise Violation(NODES, f"{vm.name} without {address.ip}, which was released", "its guest uses it")

    def _check_candidates(self) -> None:
        """Check that every candidate has the whole state: the longest back-off is shorter than the settling time.

        A candidate that left the cluster in an abandoned history has no copy and answers no call, as the master knows.
        """
        state, end = self._state, self._copies.end(self._master)
        gone = {name for name in self._lab.daemons[self._master].candidates.lagging() if not self._copies.end(name)}
        for node in sorted(state.nodes.values(), key=lambda node: node.name):
            candidate = node.role(state.the_cluster) is clusters.Role.CANDIDATE and node.name not in gone
            if candidate and self._copies.end(node.name) != end:
                theirs, ours = (self._copies.frames.get(self._copies.end(name)) for name in (node.name, self._master))
                raise Violation(CANDIDATES, f"{node.name} at {_position(ours)}", _position(theirs))

    async def _check_counts(self) -> None:
        answer = await self._clients.ask("Query", "network", ["name", "free_count"], None, on=self._master)
        table = msgspec.convert(answer, _Table)
        state = self._state
        shared, now = state.the_cluster.ipam_driver == "sql", self._lab.world.machine(self._master).clock.now()
        # The ledger learns of other owners' addresses in a shared database only when it needs some.
        for (_, name), (_, free) in () if shared else table.data:
            net = state.network(str(name))
            really = sum(_free(state, net, subnet, now=now) for subnet in net.subnets)
            if free != really:
                raise Violation(COUNTED, f"{really} free addresses in {name}", str(free))
        answer = await self._clients.ask(
            "Query", "segmentrange", ["minimum", "maximum", "used_count"], None, on=self._master
        )
        used = [net.segment.segmentation_id for net in state.networks.values() if net.segment]
        for (_, least), (_, most), (_, count) in msgspec.convert(answer, _Table).data:
            really = sum(int(str(least)) <= number <= int(str(most)) for number in used)
            if count != really:
                raise Violation(COUNTED, f"{really} segments in use from {least} to {most}", str(count))

    async def _check_database(self) -> None:
        """Check that a shared database has the cluster's addresses, and no others as the cluster's."""
        if self._state.the_cluster.ipam_driver != "sql":
            return
        if surplus := self._surplus():
            raise Violation(DATABASE, "no more addresses than the state has", f"{min(surplus)} in the database")

    def _surplus(self) -> set[str]:
        """Return the cluster's addresses in the database that the state lacks; Violation if the database lacks any."""
        state = self._state
        mark = f"{sharing.CLUSTERS}{state.the_cluster.uuid}/"
        stored = {ip for _, ip, owner in self._lab.database.allocations() if owner.startswith(mark)}
        used = {item.ip for owner in invariants.owners(state) for item in owner.allocations() if item.network}
        if used - stored:
            raise Violation(DATABASE, f"{min(used - stored)} in the shared database", "it is not there")
        return stored - used - {item.ip for item in state.resting.values()}


def _free(state: states.Snapshot, net: network.Network, subnet: network.Subnet, *, now: float) -> int:
    """Return the number of free addresses of a subnet's pools, counted one by one because the pools are small.

    The record of an address that is not in quarantine any more stays until a later change.
    """
    addresses = [
        item.ip for owner in invariants.owners(state) for item in owner.allocations() if item.network == net.uuid
    ]
    addresses += [item.ip for item in state.resting.values() if item.network == net.uuid and item.until > now]
    used = {ranges.parse_address(ip) for ip in addresses}
    excluded = embedded.excluded_ranges(subnet)
    count = 0
    for pool in subnet.pools:
        family, run = ranges.parse_range(pool.range)
        numbers = (number for number in range(run.first, run.last + 1) if not any(number in each for each in excluded))
        count += sum(ranges.Address(family, number) not in used for number in numbers)
    return count


class _Table(msgspec.Struct):
    data: list[list[tuple[int, object]]]


def _position(frame: copies.Frame | None) -> str:
    return f"serial {frame.serial} of epoch {frame.epoch}" if frame else "no copy"
