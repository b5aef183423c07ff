"""A port becomes the NIC of an instance, with its addresses, and a port again when the NIC is removed.

The second instance that asks for it is refused. Meanwhile the addresses of the NICs and of the subnet change.
"""

from gantry.sim import cluster, facts, story
from gantry.sim.chores import objects
from gantry.sim.schedules import stage as stages
from gantry.sim.steps import instances, networks, wish

VM, OTHER = "plugged", "unplugged"
PORT = "00000070-0000-4000-8000-000000000001"
NET = (networks.KIND, objects.NET)
GATEWAY, OUTSIDE = "10.70.0.1", "10.70.0.30"
FIRST, LAST = 10, 20

ONCE = "a port is the NIC of one instance"
KEPT = "a port keeps its MAC address and its addresses as a NIC, and after it"


async def do(stage: stages.Stage) -> None:
    """Do the chore; Unplayable as soon as something does not succeed."""
    (node,) = await objects.nodes(stage, 1)
    await objects.network(stage)
    for name in (VM, OTHER):
        await objects.make(stage, objects.bare(name, node))
    await stage.insist(_add_port(stage))
    port = stage.state().ports.get(PORT)
    if port is None:
        raise stages.Unplayable(f"there is no port {PORT}")
    plug = {"port": stage.chance.choice([PORT, "door"])}
    await stage.insist(objects.change(VM, "plug the port in", {"nics": None}, nics=[["add", -1, plug]]))
    again = objects.change(OTHER, "plug the port in", {"nics": None}, nics=[["add", -1, plug]])
    await objects.check_refused(stage, again, ONCE, is_due=lambda state: PORT in state.nics)
    await stage.insist(instances.start(VM))
    (nic,) = stage.instance(VM).nics or (None,)
    if nic and (nic.uuid, nic.mac, nic.ip) != (port.uuid, port.mac, port.ip):
        raise story.Violation(KEPT, f"a NIC with {port.mac} and {port.ip}", f"{nic.mac} and {nic.ip}")
    await _change_nics(stage)
    await stage.insist(objects.change(VM, "unplug the port", {"nics": None}, nics=[["remove", 0, {}]], hotplug=True))
    port_after = stage.state().ports.get(PORT)
    if port_after and (port_after.mac, port_after.ip) != (port.mac, port.ip):
        raise story.Violation(KEPT, f"the port {PORT} with {port.mac} and {port.ip}", f"{port_after}")
    remove = {"OP_ID": "OP_PORT_REMOVE", "port": PORT}
    await stage.insist(wish.single("remove the port", remove, NET, {f"port {PORT}": False}))
    await _change_network(stage)


def _add_port(stage: stages.Stage) -> wish.Wish:
    fixed: object = stage.chance.choice([None, [{"ip": _address(stage)}], [{"subnet": objects.CIDR}]])
    spec = {"network": objects.NET, "uuid": PORT, "name": "door", "fixed": fixed, "project": "p1", "tags": ["blue"]}
    op = {"OP_ID": "OP_PORT_ADD", "ports": [spec]}
    # Whether it is a port or a NIC later on depends on how far the chore comes.
    return wish.single(f"add port {PORT}: {fixed}", op, NET, {f"port {PORT}": None})


def _address(stage: stages.Stage) -> str:
    return f"10.70.0.{stage.chance.randint(FIRST, LAST)}"


async def _change_nics(stage: stages.Stage) -> None:
    """Add a NIC after that of the port, and change it in several ways; some of them must be refused."""
    await stage.insist(
        objects.change(VM, "add a NIC", {"nics": None}, nics=[["add", -1, {**objects.NIC, "name": "second"}]])
    )
    changes: list[dict[str, object]] = [
        {"ip": {"1": _address(stage)}},
        {"ip": {"0": OUTSIDE}},
        {"ip": ["pool", _address(stage)]},
        {"ip": objects.NET},
        {"mac": "auto"},
        {"mac": "aa:00:70:00:00:01"},
        {"ip": {"3": "pool"}},
        {"ip": "300.1.1.1"},
        {"name": "none"},
    ]
    for change in stage.chance.sample(changes, 4):
        await stage.succeeds(objects.change(VM, f"NIC: {change}", {}, nics=[["modify", "1", change]], hotplug=True))


async def _change_network(stage: stages.Stage) -> None:
    """Change pools, reservations and the subnet of the network; what is in use must stay."""
    changes: list[dict[str, object]] = [
        {"pools": [{"action": "modify", "ident": objects.NET, "range": "10.70.0.8-10.70.0.25"}]},
        {"pools": [{"action": "modify", "ident": objects.NET, "range": "10.70.0.12-10.70.0.23"}]},
        {"pools": [{"action": "add", "range": "10.70.0.26/31", "name": "small"}]},
        {"pools": [{"action": "remove", "ident": "small"}]},
        {"subnets": [{"action": "modify", "ident": objects.CIDR, "gateway": GATEWAY, "name": "lan"}]},
        {"subnets": [{"action": "modify", "ident": objects.CIDR, "cidr": "10.70.0.0/26"}]},
        {"subnets": [{"action": "modify", "ident": objects.CIDR, "gateway": "10.70.0.9"}]},
        {"add_reserved_ips": ["10.70.0.20-10.70.0.22"]},
        {"add_reserved_ips": ["10.70.0.28/30"]},
        {"remove_reserved_ips": ["10.70.0.21"]},
    ]
    # What is in the state after these is for the invariants alone.
    fields: dict[str, object] = dict.fromkeys([facts.THERE], True) | dict.fromkeys(
        [f"subnet {objects.CIDR}", f"pool {objects.NET}"]
    )
    for change in stage.chance.sample(changes, 6):
        op: cluster.Opcode = {"OP_ID": "OP_NETWORK_SET_PARAMS", "network_name": objects.NET, **change}
        await stage.succeeds(wish.single(f"network {objects.NET}: {change}", op, NET, fields | {"connected": True}))
