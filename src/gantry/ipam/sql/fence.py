"""The fence against former masters in a database: only a cluster's latest master there changes the cluster's addresses.

    gantry_masters      for each cluster: the epoch of its latest master in this database, and the UUID of its node

``ipam.shared`` records a master (``record``) before it compares or secures anything, and makes each later change with
``change``, which shares that row until the commit. So ``record`` waits for the changes of the former master that have
begun, and refuses those that arrive later, however late: the lock is the database's, and no clock is compared.

Invariant: a change is committed only while the row is its master's. A missing row, or an earlier epoch, is not enough:
the database is a restored copy, or the master has begun another epoch, so it has to record itself and compare again.

Driver and Neutron's servers never read the table: their allocations are not a cluster's.
"""

from dataclasses import dataclass
from typing import TypeVar

from gantry import errors
from gantry.ipam.sql import engines, statements

T = TypeVar("T")


class UnrecordedError(errors.NotFoundError):
    """The database does not have this master on record yet, or not any more."""


@dataclass(frozen=True)
class Master:
    """A master of the cluster whose allocations have the ``mark``: its epoch, and the UUID of its node."""

    mark: str
    epoch: int
    node: str

    def record(self, database: engines.Database, *, force: bool = False) -> None:
        """Make this the cluster's master in a database; WrongStateError if a later master is, except with ``force``."""

        def work(db: statements.Statements) -> None:
            if not db.run("record_master", mark=self.mark, epoch=self.epoch, node=self.node, force=int(force)):
                self._is_recorded(db.first_row("master", mark=self.mark), database.name)

        database.change(work)

    def check(self, database: engines.Database, *, force: bool = False) -> None:
        """Raise the error that ``record`` would raise."""
        if not force:
            self._is_recorded(database.read(lambda db: db.first_row("master", mark=self.mark)), database.name)

    def change(self, database: engines.Database, work: engines.Work[T]) -> T:
        """Run work that writes, while no other master can be recorded.

        WrongStateError after a later master, UnrecordedError if this one is not recorded; nothing is changed then.
        """

        def fenced(db: statements.Statements) -> T:
            if not self._is_recorded(db.first_row("share_master", mark=self.mark), database.name):
                raise UnrecordedError(
                    f"{database.name} does not have the cluster's master, of epoch {self.epoch}, on record",
                    hint="the master records itself again, and compares all addresses, before the next try",
                )
            return work(db)

        return database.change(fenced)

    def _is_recorded(self, row: statements.Row | None, where: str) -> bool:
        """Return whether a row is this master's; WrongStateError if it is a later one's."""
        epoch, node = (int(row[0]), row[1]) if row else (-1, "")
        if epoch > self.epoch or (epoch == self.epoch and node != self.node):
            raise errors.WrongStateError(
                f"this master, of epoch {self.epoch}, must not change the cluster's addresses in {where}: "
                f"a later master, of epoch {epoch}, has worked there, on the node with UUID {node}",
                hint="gnt-cluster getmaster says which node is the master; if the cluster was restored from a backup, "
                "and has no other master, let it take the database over: "
                "gnt-cluster modify --ipam-driver sql --ipam-database URL --force",
            )
        return (epoch, node) == (self.epoch, self.node)
