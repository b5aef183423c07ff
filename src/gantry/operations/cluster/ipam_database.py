"""Change the IPAM driver: move all addresses into a shared database, or back into the state (OP_CLUSTER_SET_PARAMS).

All networks are locked meanwhile: jobs that need a network wait, others run. The database is filled and compared before
the state records that it decides; on the way back it is emptied after the state records that it no longer decides. So a
failure in between leaves the previous driver in charge, with all addresses.
"""

from gantry import errors
from gantry.model import cluster, confidential, lock, opcodes
from gantry.operations import base, hook_environment
from gantry.state.objects import snapshot as states

NETWORKS = (lock.Level.NETWORK, lock.ALL_NAMES)
TOGETHER = {"ipam_driver", "ipam_database", "force", *opcodes.Opcode.__struct_fields__}
"""The fields of the opcode that may be combined with a change of the IPAM driver."""


def is_meant(op: opcodes.ClusterSetParams) -> bool:
    """Return whether an opcode changes the IPAM driver; raises InvalidError if it also changes other settings."""
    if op.ipam_driver is None and op.ipam_database is None:
        return False
    more = [name for name in op.__struct_fields__ if name not in TOGETHER and getattr(op, name) is not None]
    if more:
        raise errors.InvalidError(
            f"the IPAM driver cannot be changed together with {', '.join(more)}", hint="submit two jobs"
        )
    return True


def _driver_and_url(the_cluster: cluster.Cluster, op: opcodes.ClusterSetParams) -> tuple[str, str]:
    """Return the requested driver and URL; raises InvalidError."""
    driver = op.ipam_driver or the_cluster.ipam_driver
    url = op.ipam_database or ""
    if driver == "sql":
        url = url or the_cluster.ipam_database
        if not url:
            raise errors.InvalidError("IPAM driver sql needs a database", hint="specify it with --ipam-database URL")
    elif url:
        raise errors.InvalidError(f"IPAM driver {driver} does not use a database", hint="use --ipam-driver sql")
    return driver, url


DATABASE = "works on the database, not on a node"


async def check(environment: base.Environment, the_cluster: cluster.Cluster, op: opcodes.ClusterSetParams) -> None:
    """Check whether the change is possible; raises the obstacles before anything is changed."""
    driver, url = _driver_and_url(the_cluster, op)
    if driver == "sql" and (url != the_cluster.ipam_database or op.force):
        await environment.addresses.check(url, force=op.force)
    elif driver != the_cluster.ipam_driver and not op.force:
        await environment.addresses.check_alone()


def plan(environment: base.Environment, snapshot: states.Snapshot, op: opcodes.ClusterSetParams) -> base.Plan:
    """Move the addresses, and put the cluster with its new driver."""
    owner, scripts = snapshot.the_cluster, hook_environment.of_cluster_modify(snapshot)
    driver, url = _driver_and_url(owner, op)
    takes_over = driver == "sql" and op.force
    if (driver, url) == (owner.ipam_driver, owner.ipam_database) and not takes_over:
        note = "nothing changes: this IPAM driver and database are already in use"
        return base.Plan(lines=[note], steps=[base.Step(note)])
    addresses = environment.addresses
    put = states.Put(base.changed(owner, environment.inputs.now, ipam_driver=driver, ipam_database=url))
    if driver == "sql":

        async def move_in() -> None:
            await addresses.move_in(url, force=takes_over)

        begin, undo, settle = (base.Procedure(DATABASE, run) for run in (move_in, addresses.abandon, addresses.settle))
        step = base.Step(f"copy all addresses to {confidential.database(url)}", (begin,), (undo,))
        done = base.Step("that database now decides about addresses", (settle,))
        return base.Plan(lines=[step.text], steps=[step], finish=lambda _: [put], after=[done], hooks=scripts)

    warning = "the addresses of this cluster remain in the database"
    end = base.Procedure(DATABASE, addresses.move_out, errors.GantryError, warning)
    step = base.Step(f"remove all addresses from {confidential.database(owner.ipam_database)}", (end,))
    return base.Plan(lines=[step.text], changes=[put], after=[step], hooks=scripts)
