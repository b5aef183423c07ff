"""How ``following`` stands with sessions of SQLAlchemy; pytest runs it in Neutron's environment."""

from collections.abc import Callable

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

from gantry import errors
from gantry.ipam.neutron import following


class Heard:
    """A session, and what was undone and finished in it."""

    def __init__(self) -> None:
        self.session = Session(create_engine("sqlite://"))
        self.session.begin()
        self.follower = following.of(self.session)
        self.calls: list[str] = []

    def take(self, what: str) -> None:
        self.follower.add(following.Deed(what, undo=self._call(f"undo {what}")))

    def free(self, address: str) -> None:
        self.follower.add(following.Free(address, finish=self._call(f"free {address}"), subnet="s", address=address))

    def _call(self, what: str) -> Callable[[], object]:
        return lambda: self.calls.append(what)


@pytest.fixture
def heard() -> Heard:
    return Heard()


def test_a_commit_keeps_what_was_taken_and_frees_what_was_freed(heard: Heard) -> None:
    heard.take("a")
    heard.free("b")
    assert heard.calls == []
    heard.session.commit()
    assert heard.calls == ["free b"]


def test_a_rollback_undoes_from_the_last_to_the_first(heard: Heard) -> None:
    heard.take("a")
    heard.free("b")
    heard.take("c")
    heard.session.rollback()
    assert heard.calls == ["undo c", "undo a"]


def test_a_session_that_is_only_closed_has_not_committed(heard: Heard) -> None:
    heard.take("a")
    heard.session.close()
    assert heard.calls == ["undo a"]


def test_a_savepoint_that_is_rolled_back_undoes_its_own_deeds_only(heard: Heard) -> None:
    heard.take("a")
    point = heard.session.begin_nested()
    heard.take("b")
    heard.free("c")
    point.rollback()
    assert heard.calls == ["undo b"]
    heard.session.commit()
    assert heard.calls == ["undo b"]


def test_what_a_savepoint_kept_falls_with_the_transaction_around_it(heard: Heard) -> None:
    with heard.session.begin_nested():
        with heard.session.begin_nested():
            heard.take("a")
        heard.free("b")
    assert heard.calls == []
    heard.session.rollback()
    assert heard.calls == ["undo a"]


def test_a_transaction_that_ends_within_a_savepoint_undoes_both(heard: Heard) -> None:
    heard.take("a")
    heard.session.begin_nested()
    heard.take("b")
    heard.session.close()
    assert heard.calls == ["undo b", "undo a"]


def test_a_commit_that_fails_is_a_rollback(heard: Heard) -> None:
    heard.session.execute(text("PRAGMA foreign_keys = ON"))
    heard.session.execute(text("CREATE TABLE a (id INTEGER PRIMARY KEY)"))
    heard.session.execute(text("CREATE TABLE b (a INTEGER REFERENCES a (id) DEFERRABLE INITIALLY DEFERRED)"))
    heard.session.commit()
    heard.session.begin()
    heard.session.connection().exec_driver_sql("PRAGMA foreign_keys = ON")
    heard.session.execute(text("INSERT INTO b VALUES (1)"))
    heard.take("a")
    heard.free("b")
    with pytest.raises(Exception, match="FOREIGN KEY"):
        heard.session.commit()
    heard.session.rollback()
    assert heard.calls == ["undo a"]


def test_what_was_freed_may_be_taken_again_and_stays(heard: Heard) -> None:
    heard.free("a")
    assert list(heard.follower.frees("s")) == ["a"]
    assert heard.follower.take_again("s", "a")
    assert not heard.follower.take_again("s", "a")
    heard.session.commit()
    assert heard.calls == []


def test_taking_again_in_a_savepoint_that_fails_leaves_it_to_be_freed(heard: Heard) -> None:
    heard.free("a")
    point = heard.session.begin_nested()
    assert heard.follower.take_again("s", "a")
    point.rollback()
    assert list(heard.follower.frees("s")) == ["a"]
    heard.session.commit()
    assert heard.calls == ["free a"]


def test_the_next_transaction_of_a_session_begins_with_nothing(heard: Heard) -> None:
    heard.take("a")
    heard.free("b")
    heard.session.commit()
    heard.session.begin()
    heard.session.rollback()
    assert heard.calls == ["free b"]


def test_what_cannot_be_settled_hinders_nothing_else(heard: Heard) -> None:
    def fail() -> None:
        raise errors.EnvironmentFaultError("no database")

    heard.follower.add(following.Deed("a", finish=fail))
    heard.free("b")
    heard.session.commit()
    assert heard.calls == ["free b"]


def test_a_flush_is_no_end_of_a_transaction(heard: Heard) -> None:
    heard.take("a")
    heard.session.flush()
    heard.session.execute(text("SELECT 1"))
    assert heard.calls == []
    heard.session.commit()
    assert heard.calls == []
