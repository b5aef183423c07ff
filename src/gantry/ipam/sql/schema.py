"""The driver's tables: created and changed by the numbered steps in migrations/, each applied once, in order.

A ``before`` step is applied before the upgrade of programs: the old program still works with the new tables. An
``after`` step removes what only the old program used, when no old program runs any more. So servers are upgraded one by
one::

    prepare (before steps)  ->  each server gets the new program  ->  finish (after steps)

Programs that open a database call this module at their start, and so does ``gantry-ipam``. A program refuses a
database with an ``after`` step that the program does not know: the database is newer and incompatible.
"""

import importlib.resources

from gantry import errors
from gantry.ipam.sql import engines, faults, statements


def steps() -> list[str]:
    """Return the names of all steps that this program knows, in order."""
    folder = importlib.resources.files(__package__).joinpath("migrations")
    return sorted(file.name.removesuffix(".sql") for file in folder.iterdir() if file.name.endswith(".sql"))


def prepare(engine: engines.Engine) -> list[str]:
    """Create the tables in an empty database, or apply the ``before`` steps of this program; return the applied steps.

    Many processes may call this at once. ConfigurationError if the database is newer, or the last upgrade is not
    finished.
    """
    return engine.change(_prepare)


def finish(engine: engines.Engine) -> list[str]:
    """Apply all remaining steps, once no older program uses the database; return the applied steps."""
    return engine.change(lambda db: _apply(db, _pending(db)))


def check(engine: engines.Engine) -> None:
    """Raise ConfigurationError if this program cannot work on the database."""
    missing = [step for step in engine.read(_pending) if _is_before(step)]
    if missing:
        raise errors.ConfigurationError(
            f"the database lacks the migration steps {', '.join(missing)}", hint=faults.PREPARE_HINT
        )


def _is_before(step: str) -> bool:
    return step.split("-")[1] == "before"


def _prepare(db: statements.Statements) -> list[str]:
    if db.dialect is statements.Dialect.POSTGRESQL:
        db.first_row("alone")
    pending, known = _pending(db), steps()
    if pending == known:
        return _apply(db, known)
    before_steps = [step for step in pending if _is_before(step)]
    if before_steps and (unfinished := [step for step in pending if step < before_steps[-1] and not _is_before(step)]):
        raise errors.ConfigurationError(
            f"the last upgrade of the database is not finished: steps {', '.join(unfinished)} are missing",
            hint="apply them with gantry-ipam finish",
        )
    return _apply(db, before_steps)


def _pending(db: statements.Statements) -> list[str]:
    """Return the steps that are not applied yet."""
    if not db.first_row(f"steps_of_{db.dialect.value}"):
        return steps()
    applied = {name for (name,) in db.all_rows("applied")}
    newer = sorted(step for step in applied.difference(steps()) if not _is_before(step))
    if newer:
        raise errors.ConfigurationError(
            f"the database was upgraded by a newer program, with the steps {', '.join(newer)}",
            hint="upgrade this program",
        )
    return [step for step in steps() if step not in applied]


def _apply(db: statements.Statements, pending: list[str]) -> list[str]:
    for step in pending:
        db.script(statements.resource("migrations", f"{step}.sql"))
        db.run("apply", name=step)
    return pending
