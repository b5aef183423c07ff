"""The driver's tables: made and changed by the numbered steps in migrations/, each applied once, in order.

A ``before`` step goes ahead of the new program: the old one works on with what it leaves. An ``after`` step takes away
what only the old program used, when no old one is left. So servers are upgraded one by one::

    prepare (before steps)  ->  each server gets the new program  ->  finish (after steps)

Who calls it: whoever opens a database, at the start, and ``gantry-ipam``. A program refuses a database of which it does
not know an ``after`` step: it is newer, and no longer fits.
"""

import importlib.resources

from gantry import errors
from gantry.ipam.sql import engines, faults, statements


def steps() -> list[str]:
    """Return the names of all steps that this program knows, in order."""
    folder = importlib.resources.files(__package__).joinpath("migrations")
    return sorted(file.name.removesuffix(".sql") for file in folder.iterdir() if file.name.endswith(".sql"))


def prepare(engine: engines.Engine) -> list[str]:
    """Make the tables in an empty database, or apply the steps that go before this program; return what was applied.

    Many processes may do it at once. ConfigurationError if the database is newer, or the last upgrade is not finished.
    """
    return engine.change(_prepare)


def finish(engine: engines.Engine) -> list[str]:
    """Apply all steps that are left, when no older program works on the database; return what was applied."""
    return engine.change(lambda db: _apply(db, _pending(db)))


def check(engine: engines.Engine) -> None:
    """Raise ConfigurationError if this program does not fit the database."""
    waiting = [step for step in engine.read(_pending) if _is_before(step)]
    if waiting:
        raise errors.ConfigurationError(f"the database lacks {', '.join(waiting)}", hint=faults.PREPARE)


def _is_before(step: str) -> bool:
    return step.split("-")[1] == "before"


def _prepare(db: statements.Statements) -> list[str]:
    if db.dialect is statements.Dialect.POSTGRESQL:
        db.one("alone")
    pending, known = _pending(db), steps()
    if pending == known:
        return _apply(db, known)
    wanted = [step for step in pending if _is_before(step)]
    if wanted and (left := [step for step in pending if step < wanted[-1] and not _is_before(step)]):
        raise errors.ConfigurationError(
            f"the last upgrade is not finished, {', '.join(left)} is left", hint="gantry-ipam finish does it"
        )
    return _apply(db, wanted)


def _pending(db: statements.Statements) -> list[str]:
    """Return the steps that were not applied."""
    if not db.one(f"steps_of_{db.dialect.value}"):
        return steps()
    applied = {name for (name,) in db.all("applied")}
    newer = sorted(step for step in applied.difference(steps()) if not _is_before(step))
    if newer:
        raise errors.ConfigurationError(
            f"the database was made by a newer program, by its steps {', '.join(newer)}", hint="upgrade this program"
        )
    return [step for step in steps() if step not in applied]


def _apply(db: statements.Statements, wanted: list[str]) -> list[str]:
    for step in wanted:
        db.script(statements.resource("migrations", f"{step}.sql"))
        db.run("apply", name=step)
    return wanted
