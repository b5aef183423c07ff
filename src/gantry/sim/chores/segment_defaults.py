"""The default segment ranges change while networks have segments of them, by a command and back by the file.

Networks keep their segments, and ranges that clients manage keep their ids (``invariants``).
"""

from gantry.sim import cluster
from gantry.sim.schedules import stage as stages
from gantry.sim.steps import segments, settings, wish


async def do(stage: stages.Stage) -> None:
    """Do the chore; Unplayable as soon as something does not succeed."""
    await stage.succeeds(_apply({"gre_ranges": ["1:3"]}))
    await stage.insist(_apply({"gre_ranges": ["1:2", "3:4"], "force": True}))
    await stage.succeeds(segments.draw(stage.chance, stage.clients.facts) or _apply({}))
    requests: list[dict[str, object]] = [
        {"tenant_network_types": ["gre", "vlan"], "vlan_ranges": ["cable:100:103", "cable"], "gre_ranges": ["1:3"]},
        {"vxlan_ranges": ["10:19"], "tunnel_link": "eth1", "bridge_mappings": ["cable:br0"]},
        {"geneve_ranges": ["5:9"], "gre_ranges": []},
        {"gre_ranges": ["3:1"]},
        {"bridge_mappings": ["elsewhere"]},
        {"tenant_network_types": ["carrier pigeons"]},
    ]
    for request in stage.chance.sample(requests, 4):
        await stage.succeeds(_apply(request))
    await stage.insist(_apply({"file": cluster.SEGMENTS.decode()}))


def _apply(request: dict[str, object]) -> wish.Wish:
    op = {"OP_ID": "OP_SEGMENT_DEFAULTS_SET", **request}
    return wish.single(f"default segments: {request}", op, settings.KEY, {})
