"""Certificates that end: what verify says before and after."""

import msgspec

from gantry import security
from gantry.sim import cluster

DAY = 86400.0


async def verified(lab: cluster.SimulatedCluster) -> tuple[object, str]:
    number = await lab.submit({"OP_ID": "OP_CLUSTER_VERIFY", "error_codes": True})
    _, results = await lab.wait(number)
    return results[0], str(msgspec.convert(await lab.luxi("QueryJobs", [number], ["oplog"]), list[object]))


def test_verify_warns_before_a_certificate_ends_and_fails_after() -> None:
    async def scenario() -> None:
        await lab.build()
        good, log = await verified(lab)
        assert good, log
        assert "ECLUSTERCERT" not in log
        for name in lab.names:
            lab.world.machine(name).clock.offset = (security.ISSUED_DAYS - 20) * DAY
        good, log = await verified(lab)
        assert good, log
        for name in lab.names:
            assert f"WARNING:ECLUSTERCERT:node:{name}: /gantry/" in log
        assert "certs/node.pem ends in 20 days" in log
        for name in lab.names:
            lab.world.machine(name).clock.offset = (security.ISSUED_DAYS + 20) * DAY
        good, log = await verified(lab)
        assert not good
        assert "ERROR:ECLUSTERCERT:node:node2: " in log
        assert "certs/node.pem has ended" in log

    with cluster.SimulatedCluster(1) as lab:
        lab.run(scenario())
