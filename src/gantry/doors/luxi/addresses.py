"""The method QueryAddress: who has an address, or had it (not in Ganeti).

``operations.query.addresses`` finds the rows of the present, ``state.journal.owners`` those of the past, and
``state.journal.origin`` since when and by which job the present ones are true. The columns of the past are those of
QueryNetworkHistory.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from gantry import errors
from gantry.doors.luxi import reading
from gantry.doors.luxi.services import Services
from gantry.model import base, network
from gantry.operations.query import addresses
from gantry.state.journal import origin, owners, record

ROW_LIMIT = 100_000
"""The maximum number of rows that a request may ask for."""

ORIGINS = 100
"""The maximum number of rows for which the journal is searched for their beginning: each takes some milliseconds."""


async def query(services: Services, text: str, moment: float | None, past: bool, limit: int) -> dict[str, object]:
    """Return the present rows about an address, MAC address, CIDR or name; with a moment or ``past`` former owners.

    ``complete`` is false if there are more rows than the limit, ``dated`` if they are too many to look for their
    beginning. ``since`` is the time of the first record that is kept. Raises NotFoundError if nothing is known of an
    address, MAC address or name; a CIDR may have no rows.
    """
    if not 1 <= limit <= ROW_LIMIT:
        raise errors.InvalidError(f"a limit of {limit} rows is not between 1 and {ROW_LIMIT}")
    subject = addresses.parse(text)
    since = (await services.history.start()).time
    if past or moment is not None:
        rows = await _former(services, subject, moment, limit + 1)
        dated = True
    else:
        finder = addresses.Finder(services.snapshot(), services.source.ledger)
        facts = list(itertools.islice(_visible(services, finder.find(subject)), limit + 1))
        if not facts and (subject.run is None or subject.is_single):
            raise errors.NotFoundError(
                _nothing(subject), hint=f"former owners: gnt-network address --history {subject.text}"
            )
        dated = len(facts) <= ORIGINS
        origins = await _origins(services, facts) if dated else [origin.Origin()] * len(facts)
        rows = [_present(services, fact.row, since) for fact, since in zip(facts, origins, strict=True)]
    return {"since": since, "rows": rows[:limit], "complete": len(rows) <= limit, "dated": dated}


def _visible(services: Services, facts: Iterable[addresses.Fact]) -> Iterable[addresses.Fact]:
    """Return facts about visible owners, and about the networks that the subject sees whole."""
    view = services.view()
    if view is None:
        return facts
    whole = view.networks
    return (fact for fact in facts if fact.row.owner_uuid or fact.row.network_uuid in whole)


def _nothing(subject: addresses.Subject) -> str:
    if subject.is_single:
        return f"no network has a subnet with {subject.text}, and no NIC or node has this address"
    if subject.mac:
        return f"no NIC and no port has the MAC address {subject.mac}"
    return f"no instance, port, node or network with an address is named {subject.text}"


async def _origins(services: Services, facts: Sequence[addresses.Fact]) -> list[origin.Origin]:
    searches = [_search(services, fact) for fact in facts]
    origins = iter(await services.history.origins([search for search in searches if search]))
    return [next(origins) if search else origin.Origin() for search in searches]


def _search(services: Services, fact: addresses.Fact) -> origin.Search | None:
    """Return the search for the record that made a fact true; None for a fact that no object states."""
    value, has = fact.value, fact.has
    if value is None or has is None:
        return None
    if isinstance(value, network.Quarantine):
        hold = services.snapshot().the_cluster.ipam_hold_time
        return origin.Search(value, has, value.instance, value.until - hold)
    if not isinstance(value, base.Entity):
        return None
    return origin.Search(value, has, value.uuid, value.mtime)


def _present(services: Services, row: addresses.Row, beginning: origin.Origin) -> dict[str, object]:
    cause = _cause(services, beginning.cause)
    return {
        **msgspec.to_builtins(row),
        "from": beginning.time,
        "job": cause.job or None,
        "opcode": cause.opcode,
        "user": cause.user,
        "reason": cause.reason,
    }


def _cause(services: Services, cause: record.Cause) -> record.Cause:
    view = services.view()
    return cause if view is None else reading.visible_cause(view, cause)


async def _former(
    services: Services, subject: addresses.Subject, moment: float | None, limit: int
) -> list[dict[str, object]]:
    """Return the owners at a moment with what was reserved then, or all owners that the journal knows."""
    if ("networks", subject.text) in services.snapshot().names:
        hint = f"the past of its addresses: gnt-network history {subject.text}"
        raise errors.InvalidError(f"{subject.text} is a network, not an address or its owner", hint=hint)
    view, is_about = services.view(), addresses.matches(subject)
    past = await services.history.everywhere(
        is_about
        if view is None
        else lambda owner, use: is_about(owner, use) and reading.sees_allocation(view, owner, use),
        shows=lambda net: (view is None or net.uuid in view.networks) and any(addresses.reservations(net, subject)),
        needles=addresses.needles(subject),
        moment=moment,
        limit=limit,
    )
    rows = [_holding(services, holding, past.names, was=moment is None) for holding in past.holdings]
    if moment is not None:
        reserved = (row for net in past.nets for row in addresses.reservations(net, subject))
        rows += [_present(services, row, origin.Origin()) for row in itertools.islice(reserved, limit)]
    return rows


def _holding(services: Services, holding: owners.Holding, names: Mapping[str, str], *, was: bool) -> dict[str, object]:
    freed = _cause(services, holding.freed)
    row = addresses.Row(
        address=holding.address,
        state=addresses.WAS_IN_USE if was and holding.end is not None else addresses.IN_USE,
        network=names.get(holding.network, ""),
        network_uuid=holding.network,
        kind=holding.noun,
        owner=holding.instance,
        owner_uuid=holding.uuid,
        to=holding.end,
    )
    return {
        **_present(services, row, origin.Origin(holding.start, holding.given)),
        "end_job": freed.job or None,
        "end_opcode": freed.opcode,
        "end_user": freed.user,
        "end_reason": freed.reason,
    }
