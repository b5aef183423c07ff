"""OP_TEST_DELAY: sleep on the master and on nodes, for benchmarks and tests of the queue and locks."""

from gantry.model import lock, opcodes
from gantry.operations import base
from gantry.rpc import calls
from gantry.state.objects import snapshot as states


class TestDelay(base.Planned[opcodes.TestDelay]):
    """Sleeps ``repeat`` times, at least once, holding the locks of its nodes unless ``no_locks``."""

    OPCODE = opcodes.TestDelay
    __test__ = False

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the named nodes exclusively."""
        uuids = [snapshot.resolve("nodes", name) for name in self.op.on_nodes]
        return {} if self.op.no_locks else {(lock.Level.NODE, uuid): lock.Mode.EXCLUSIVE for uuid in uuids}

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Sleep, step by step."""
        del facts
        if not self.op.duration and not self.op.on_nodes:
            return base.Plan()
        rounds = max(1, self.op.repeat)
        text = f"sleep for {self.op.duration:g} s"
        sleep = base.Procedure("sleeps on the master", self._sleep)
        return base.Plan(lines=[f"{text}, {rounds} times"], steps=[base.Step(text, (sleep,))] * rounds)

    async def _sleep(self) -> None:
        if self.op.on_master:
            await self.environment.sleep(self.op.duration)
        if self.op.on_nodes:
            state = self.environment.snapshot()
            node_targets = [state.target(state.node(name)) for name in self.op.on_nodes]
            answers = await self.environment.nodes.fan_out(node_targets, calls.TestDelay(duration=self.op.duration))
            for answer in answers:
                if answer.error:
                    raise answer.error
