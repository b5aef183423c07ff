"""How ``following`` stands with sessions of SQLAlchemy; pytest runs it in Neutron's environment."""

from collections.abc import Callable

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

from gantry import errors
from gantry.ipam.neutron import following


class FollowedSession:
    """A session with its follower, and a log of the changes that were undone and finished."""

    def __init__(self) -> None:
        self.session = Session(create_engine("sqlite://"))
        self.session.begin()
        self.follower = following.of_session(self.session)
        self.calls: list[str] = []

    def take(self, what: str) -> None:
        self.follower.add(following.Change(what, undo=self._call(f"undo {what}")))

    def free(self, address: str) -> None:
        self.follower.add(following.Release(address, finish=self._call(f"free {address}"), subnet="s", address=address))

    def _call(self, what: str) -> Callable[[], object]:
        return lambda: self.calls.append(what)


@pytest.fixture
def followed() -> FollowedSession:
    return FollowedSession()


def test_a_commit_keeps_allocations_and_makes_releases(followed: FollowedSession) -> None:
    followed.take("a")
    followed.free("b")
    assert followed.calls == []
    followed.session.commit()
    assert followed.calls == ["free b"]


def test_a_rollback_undoes_from_the_last_to_the_first(followed: FollowedSession) -> None:
    followed.take("a")
    followed.free("b")
    followed.take("c")
    followed.session.rollback()
    assert followed.calls == ["undo c", "undo a"]


def test_a_session_that_is_only_closed_has_not_committed(followed: FollowedSession) -> None:
    followed.take("a")
    followed.session.close()
    assert followed.calls == ["undo a"]


def test_a_savepoint_that_is_rolled_back_undoes_its_own_changes_only(followed: FollowedSession) -> None:
    followed.take("a")
    point = followed.session.begin_nested()
    followed.take("b")
    followed.free("c")
    point.rollback()
    assert followed.calls == ["undo b"]
    followed.session.commit()
    assert followed.calls == ["undo b"]


def test_changes_of_a_savepoint_are_undone_with_the_outer_transaction(followed: FollowedSession) -> None:
    with followed.session.begin_nested():
        with followed.session.begin_nested():
            followed.take("a")
        followed.free("b")
    assert followed.calls == []
    followed.session.rollback()
    assert followed.calls == ["undo a"]


def test_a_transaction_that_ends_within_a_savepoint_undoes_both(followed: FollowedSession) -> None:
    followed.take("a")
    followed.session.begin_nested()
    followed.take("b")
    followed.session.close()
    assert followed.calls == ["undo b", "undo a"]


def test_a_commit_that_fails_is_a_rollback(followed: FollowedSession) -> None:
    followed.session.execute(text("PRAGMA foreign_keys = ON"))
    followed.session.execute(text("CREATE TABLE a (id INTEGER PRIMARY KEY)"))
    followed.session.execute(text("CREATE TABLE b (a INTEGER REFERENCES a (id) DEFERRABLE INITIALLY DEFERRED)"))
    followed.session.commit()
    followed.session.begin()
    followed.session.connection().exec_driver_sql("PRAGMA foreign_keys = ON")
    followed.session.execute(text("INSERT INTO b VALUES (1)"))
    followed.take("a")
    followed.free("b")
    with pytest.raises(Exception, match="FOREIGN KEY"):
        followed.session.commit()
    followed.session.rollback()
    assert followed.calls == ["undo a"]


def test_a_released_address_may_be_allocated_again_and_is_kept(followed: FollowedSession) -> None:
    followed.free("a")
    assert list(followed.follower.released_addresses("s")) == ["a"]
    assert followed.follower.cancel_release("s", "a")
    assert not followed.follower.cancel_release("s", "a")
    followed.session.commit()
    assert followed.calls == []


def test_an_allocation_in_a_failed_savepoint_is_released_again(followed: FollowedSession) -> None:
    followed.free("a")
    point = followed.session.begin_nested()
    assert followed.follower.cancel_release("s", "a")
    point.rollback()
    assert list(followed.follower.released_addresses("s")) == ["a"]
    followed.session.commit()
    assert followed.calls == ["free a"]


def test_the_next_transaction_of_a_session_begins_without_changes(followed: FollowedSession) -> None:
    followed.take("a")
    followed.free("b")
    followed.session.commit()
    followed.session.begin()
    followed.session.rollback()
    assert followed.calls == ["free b"]


def test_a_change_that_cannot_be_undone_does_not_stop_the_others(followed: FollowedSession) -> None:
    def fail() -> None:
        raise errors.EnvironmentFaultError("no database")

    followed.follower.add(following.Change("a", finish=fail))
    followed.free("b")
    followed.session.commit()
    assert followed.calls == ["free b"]


def test_a_flush_does_not_end_a_transaction(followed: FollowedSession) -> None:
    followed.take("a")
    followed.session.flush()
    followed.session.execute(text("SELECT 1"))
    assert followed.calls == []
    followed.session.commit()
    assert followed.calls == []
