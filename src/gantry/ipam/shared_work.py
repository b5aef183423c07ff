"""What ``shared`` does in its database: the work of one transaction each, and ``survey``. It runs in threads."""

from collections.abc import Callable, Iterable

from gantry.ipam import network_addresses, subscription
from gantry.ipam.sql import engines, records, schema, sharing, statements


def secure(db: statements.Statements, additions: subscription.Additions, *, mark: str, ahead: int) -> None:
    """Write the subnets of a plan, and allocate its addresses; HeldError if other owners have some of them."""
    for subnet in additions.subnets:
        sharing.describe(db, subnet, mark=mark)
    sharing.secure(db, additions.addresses.values(), mark=mark, ahead=ahead)


def release_due(
    db: statements.Statements,
    due: dict[network_addresses.NetworkAddress, str],
    subnets: dict[str, subscription.Known],
    *,
    mark: str,
) -> None:
    """Release addresses, and write or remove the subnets that have changed."""
    sharing.release(db, [(subnet, ip) for (_, ip), subnet in due.items()], mark=mark)
    for subnet, known in subnets.items():
        if known is None:
            sharing.drop(db, subnet)
        else:
            sharing.describe(db, subscription.record_of(known), mark=mark)


def survey(
    database: engines.Database, expected: sharing.Expected, enter: Callable[[engines.Database], None]
) -> sharing.Survey:
    """Prepare a database, ``enter`` it as a master, and compare it with what it should have.

    It is entered before it is read, so that no change of a former master can follow.
    """
    schema.prepare(database)
    enter(database)
    return database.read(lambda db: sharing.survey(db, expected))


def settle(
    db: statements.Statements, *, parts: Iterable[tuple[str, sharing.Part]], mark: str
) -> list[records.Allocation]:
    """Make subnets as the state has them; return the addresses that other owners have."""
    return [each for subnet, part in parts for each in sharing.settle(db, subnet, part, mark=mark)]
