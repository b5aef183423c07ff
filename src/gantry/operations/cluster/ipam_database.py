"""Who keeps the addresses: into a database that others use too, and back into the state alone (OP_CLUSTER_SET_PARAMS).

All networks are held meanwhile: jobs that need one wait, others run. A database is filled and compared before the state
says that it has the last word; on the way back it is emptied after the state has said that it has none any more. So
whatever fails in between leaves the old one in charge, with all addresses.
"""

from gantry import errors
from gantry.model import cluster, confidential, lock, opcodes
from gantry.operations import base, hook_environment
from gantry.state import snapshot as states

NETWORKS = (lock.Level.NETWORK, lock.ALL_NAMES)
TOGETHER = {"ipam_driver", "ipam_database", "force", *opcodes.Opcode.__struct_fields__}
"""Fields of the opcode that go together with the ones that are meant here."""


def is_meant(op: opcodes.ClusterSetParams) -> bool:
    """Tell whether an opcode is about who keeps the addresses; InvalidError if it is about other settings too."""
    if op.ipam_driver is None and op.ipam_database is None:
        return False
    more = [name for name in op.__struct_fields__ if name not in TOGETHER and getattr(op, name) is not None]
    if more:
        raise errors.InvalidError(
            f"the IPAM driver is changed by itself, not together with {', '.join(more)}", hint="make two jobs of it"
        )
    return True


def _wanted(owner: cluster.Cluster, op: opcodes.ClusterSetParams) -> tuple[str, str]:
    """Return driver and URL as they are to be; InvalidError."""
    driver = op.ipam_driver or owner.ipam_driver
    url = op.ipam_database or ""
    if driver == "sql":
        url = url or owner.ipam_database
        if not url:
            raise errors.InvalidError("driver sql needs a database", hint="--ipam-database URL names it")
    elif url:
        raise errors.InvalidError(f"driver {driver} has no database", hint="--ipam-driver sql has one")
    return driver, url


DATABASE = "works on the database, not on a node"


async def check(environment: base.Environment, owner: cluster.Cluster, op: opcodes.ClusterSetParams) -> None:
    """Find out whether the change can be made; what stands against it is raised before anything is changed."""
    driver, url = _wanted(owner, op)
    if driver == "sql" and url != owner.ipam_database:
        await environment.addresses.check(url)
    elif driver != owner.ipam_driver and not op.force:
        await environment.addresses.check_alone()


def plan(environment: base.Environment, snapshot: states.Snapshot, op: opcodes.ClusterSetParams) -> base.Plan:
    """Move the addresses, and put the cluster with its new driver."""
    owner, scripts = snapshot.the_cluster, hook_environment.of_cluster_modify(snapshot)
    driver, url = _wanted(owner, op)
    if (driver, url) == (owner.ipam_driver, owner.ipam_database):
        note = "nothing changes: addresses are kept there already"
        return base.Plan(lines=[note], steps=[base.Step(note)])
    addresses = environment.addresses
    put = states.Put(base.changed(owner, environment.inputs.now, ipam_driver=driver, ipam_database=url))
    if driver == "sql":

        async def move_in() -> None:
            await addresses.move_in(url)

        begin, undo, settle = (base.Procedure(DATABASE, run) for run in (move_in, addresses.abandon, addresses.settle))
        step = base.Step(f"put all addresses into {confidential.database(url)}", (begin,), (undo,))
        done = base.Step("from now on that database decides who has an address", (settle,))
        return base.Plan(lines=[step.text], steps=[step], finish=lambda _: [put], after=[done], hooks=scripts)

    warning = "the addresses of this cluster stay in the database"
    end = base.Procedure(DATABASE, addresses.move_out, errors.GantryError, warning)
    step = base.Step(f"remove all addresses from {confidential.database(owner.ipam_database)}", (end,))
    return base.Plan(lines=[step.text], changes=[put], after=[step], hooks=scripts)
