"""What a method of LUXI reads for a subject that does not see everything (``operations.access.sight``).

Such a subject's request gets other services: state, ledger, jobs, and answers of nodes are those of its view, so a
method cannot read more by mistake. Beside these services a method has some that know everything, such as the journal;
so each method is refused that is not in ``VIEWED``, the table of those that were checked one by one.

Methods that wait take the view again after each wait: what became invisible meanwhile is not reported.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from gantry import errors
from gantry.doors.luxi.services import Services
from gantry.ipam import partial
from gantry.jobs import records
from gantry.model import access, job, network, opcodes
from gantry.operations.access import views
from gantry.state.journal import record
from gantry.state.objects import snapshot as states
from gantry.state.store import events

WHOLE = frozenset({"ProveToken", "QueryFields"})
"""The methods that answer everybody alike: whether a text is a token, and which fields there are."""

VIEWED = frozenset(
    {
        # Lists and single objects, by the state and the jobs of the view.
        *("Query", "QueryJobs", "QueryNodes", "QueryInstances", "QueryGroups", "QueryNetworks", "QueryExports"),
        *("QueryTags", "QuerySimilarNames", "QueryConfigValues", "QueryClusterInfo", "QueryOwnAccess"),
        # Those that leave rows out themselves.
        *("QueryAddress", "QueryNetworkHistory", "QueryHistory", "WaitForEvents", "ExplainAccess", "ReadOpcode"),
        *("QueryUsage", "QueryUsageHistory", "QueryMeasures", "WaitForJobChange", "CheckConsole"),
        # Those that change something: the queue decides (``operations.access.check``), or the job's owner.
        *("SubmitJob", "SubmitManyJobs", "RunJob", "CancelJob", "ArchiveJob", "ChangeJobPriority", "OpenConsole"),
    }
)
"""The methods that were checked to say nothing about invisible objects, given the services of a view."""


def services_of(services: Services, known: views.Views, subject: access.Subject, method: str) -> Services:
    """Return the services for a request; ForbiddenError for a method that only who sees everything may call."""
    view = None if method in WHOLE else known.of(services.snapshot(), subject)
    if view is None:
        return services
    if method not in VIEWED:
        raise errors.ForbiddenError(
            f"method {method} reads more than the access rules let user {subject.title} see",
            hint="an administrator can allow it: gnt-cluster access add USER viewer cluster",
        )
    reader = _Reader(services, known, subject, view)
    source = dataclasses.replace(
        services.source,
        snapshot=lambda: reader.view().state,
        ledger=partial.PartialLedger(
            services.source.ledger, view.state, networks=view.networks, segments=view.sight.sees_wiring
        ),
        jobs=reader.jobs,
        archived_job=reader.archived_job,
        locks=tuple,
        whole_nodes=view.nodes,
        veil=view.veiled,
    )
    return dataclasses.replace(services, snapshot=lambda: reader.view().state, source=source, view=reader.view)


class _Reader:
    """What the subject of one request sees, now and after each wait."""

    def __init__(self, services: Services, known: views.Views, subject: access.Subject, view: views.View) -> None:
        self._services = services
        self._known = known
        self._subject = subject
        self._view = view

    def view(self) -> views.View:
        """Return the present view; the last one if the subject sees everything by now."""
        self._view = self._known.of(self._services.snapshot(), self._subject) or self._view
        return self._view

    def jobs(self) -> Mapping[int, job.Job]:
        """Return the subject's jobs by number."""
        sees = self._view.sight.sees_job
        return {number: entry for number, entry in self._services.queue.jobs().items() if sees(entry)}

    def archived_job(self, number: int) -> job.Job | None:
        """Return a job of the archive if it is the subject's."""
        entry = self._services.source.archived_job(number)
        return entry if entry is not None and self._view.sight.sees_job(entry) else None


def visible_events(view: views.View, recorded: Iterable[events.Event]) -> Iterator[events.Event]:
    """Yield the events with a visible change, with these changes alone.

    The removal of an object is visible if the object was. Whose change it was, and why, is part of a job.
    """
    for event in recorded:
        changes = tuple(change for change in event.changes if _is_visible(view, change))
        if changes:
            yield msgspec.structs.replace(event, changes=changes, cause=visible_cause(view, event.cause))


def _is_visible(view: views.View, change: events.Change) -> bool:
    if change.what == "removed" and change.key in view.gone:
        return True
    return view.has(events.KINDS[change.kind], change.key)


@dataclass(frozen=True)
class VisibleQuestion(events.Question):
    """A filter for events that also asks whether a view has the change that it looks for."""

    view: views.View | None = None

    def matches(self, event: events.Event) -> bool:
        """Return whether the visible part of an event passes the filter."""
        assert self.view is not None
        return any(map(super().matches, visible_events(self.view, [event])))


def sees_allocation(view: views.View, owner: states.Owner, use: network.Allocation) -> bool:
    """Return whether a view has the owner of an allocation, present or past, and its network."""
    kind = "ports" if isinstance(owner, network.Port) else "instances"
    return view.has(kind, owner.uuid) and (not use.network or view.has("networks", use.network))


def visible_cause(view: views.View, cause: record.Cause) -> record.Cause:
    """Return a cause as it is if it is a job that the view has, otherwise the kind of change alone."""
    return cause if str(cause.job) in view.state.jobs else record.Cause(opcode=cause.opcode)


_READABLE = (opcodes.InstanceQueryData, opcodes.InstanceConsole, opcodes.OsDiagnose, opcodes.TagsSearch)
"""The opcodes that only read, and describe what is in the state that they get and the nodes in it."""


def check_readable(op: opcodes.AnyOpcode) -> None:
    """Raise ForbiddenError for an opcode whose answer has more than what a view has."""
    if not isinstance(op, _READABLE):
        raise errors.ForbiddenError(
            f"{op.op_id} reads more than the access rules let you see",
            hint="an administrator can allow it: gnt-cluster access add USER viewer cluster",
        )


def check_job(services: Services, number: int) -> None:
    """Raise JobLostError for a job in the queue that is not visible, as for one that does not exist."""
    view, entry = services.view(), services.queue.jobs().get(number)
    if view is not None and entry is not None and not view.sight.sees_job(entry):
        raise records.lost(number)
