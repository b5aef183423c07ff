"""Subnet pools: make, change and remove what CIDRs of subnets are cut from (contracts/neutron-api.md#subnet-pools)."""

from collections.abc import Iterable, Sequence

from msgspec import structs

from gantry import errors
from gantry.address import ranges
from gantry.model import lock, network, opcodes
from gantry.operations import base
from gantry.operations.network import prefix_allocator, views
from gantry.state import snapshot as states

_SHORTEST = {ranges.Family.IPV4: 8, ranges.Family.IPV6: 64}
"""The shortest prefix of a subnet where none is said."""

_PLAIN = ("name", "is_default", "default_quota", "description", "tags")
_LENGTHS = ("default_prefixlen", "min_prefixlen", "max_prefixlen")


def _exclusive(*names: str) -> lock.LockSet:
    return {(lock.Level.NETWORK, name): lock.Mode.EXCLUSIVE for name in names}


def _joined(texts: Iterable[str]) -> tuple[str, ...]:
    """Return prefixes, which have to be of one IP version, in the fewest; neighbours grow together."""
    found = [ranges.parse_cidr(text) for text in texts]
    family = found[0].family
    if any(one.family is not family for one in found):
        raise errors.InvalidError("the prefixes of a subnet pool are of one IP version, these are of two")
    runs = ranges.union(one.range for one in found)
    return tuple(str(cidr) for run in runs for cidr in ranges.cidrs(family, run))


def _check(snapshot: states.Snapshot, pool: network.SubnetPool) -> None:
    bits = prefix_allocator.family(pool).bits
    if not 0 < pool.min_prefixlen <= pool.default_prefixlen <= pool.max_prefixlen <= bits:
        raise errors.InvalidError(
            f"subnets from /{pool.min_prefixlen} to /{pool.max_prefixlen}, /{pool.default_prefixlen} by default, "
            "is no order of prefix lengths",
            hint=f"they go from 1 to {bits}: min_prefixlen, default_prefixlen, max_prefixlen",
        )
    for other in snapshot.subnetpools.values() if pool.is_default else ():
        if (
            other.is_default
            and other.uuid != pool.uuid
            and prefix_allocator.family(other) is prefix_allocator.family(pool)
        ):
            raise errors.ExistsError(
                f"subnet pool {other.name or other.uuid} is the default one of its IP version", hint="there is one only"
            )


class SubnetPoolAdd(base.Planned[opcodes.SubnetPoolAdd]):
    """Makes a subnet pool."""

    OPCODE = opcodes.SubnetPoolAdd
    BRIEF = True

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Take what only one pool can be, the default one."""
        return _exclusive(prefix_allocator.DEFAULT) if self.op.is_default else {}

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Put the pool."""
        del facts
        op, inputs = self.op, self.environment.inputs
        prefixes = _joined(op.prefixes)
        family = ranges.parse_cidr(prefixes[0]).family
        shortest = _SHORTEST[family] if op.min_prefixlen is None else op.min_prefixlen
        pool = network.SubnetPool(
            uuid=op.uuid or inputs.uuid(),
            prefixes=prefixes,
            min_prefixlen=shortest,
            max_prefixlen=family.bits if op.max_prefixlen is None else op.max_prefixlen,
            default_prefixlen=shortest if op.default_prefixlen is None else op.default_prefixlen,
            shared=op.shared,
            project=op.project,
            ctime=inputs.now,
            mtime=inputs.now,
            **{name: getattr(op, name) for name in _PLAIN},
        )
        if pool.uuid in snapshot.subnetpools:
            raise errors.ExistsError(f"subnet pool {pool.uuid} exists already")
        _check(snapshot, pool)
        return base.Plan(
            lines=[f"create subnet pool {pool.name or pool.uuid}: {', '.join(pool.prefixes)}"],
            changes=[states.Put(pool)],
            result=lambda: views.row(views.SUBNET_POOL, snapshot, pool),
        )


class SubnetPoolSetParams(base.Planned[opcodes.SubnetPoolSetParams]):
    """Changes a subnet pool."""

    OPCODE = opcodes.SubnetPoolSetParams
    BRIEF = True

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Take the pool, so that nothing is cut from it meanwhile, and what only one can be."""
        default = [prefix_allocator.DEFAULT] if self.op.is_default else []
        return _exclusive(snapshot.subnet_pool(self.op.subnet_pool).uuid, *default)

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Put the pool as it shall be; nothing is stored if it is like that already."""
        del facts
        op, old = self.op, snapshot.subnet_pool(self.op.subnet_pool)
        given = {name: value for name in (*_PLAIN, *_LENGTHS) if (value := getattr(op, name)) is not None}
        new = structs.replace(old, **given)
        if op.prefixes is not None:
            new = structs.replace(new, prefixes=_joined(op.prefixes))
            _check_grown(old.prefixes, new.prefixes)
        _check(snapshot, new)
        title = f"subnet pool {old.name or old.uuid}"
        if new == old:
            return base.Plan(
                lines=[f"{title} is like this already"], result=lambda: views.row(views.SUBNET_POOL, snapshot, old)
            )
        changed = base.changed(new, self.environment.inputs.now)
        return base.Plan(
            lines=[f"change {title}: {', '.join(new.prefixes)}"],
            changes=[states.Put(changed)],
            result=lambda: views.row(views.SUBNET_POOL, snapshot, changed),
        )


def _check_grown(old: Sequence[str], new: Sequence[str]) -> None:
    one, two = ([ranges.parse_cidr(text) for text in texts] for texts in (old, new))
    if one[0].family is not two[0].family:
        raise errors.InvalidError("a subnet pool keeps its IP version")
    if ranges.difference((cidr.range for cidr in one), (cidr.range for cidr in two)):
        raise errors.InvalidError(
            f"a subnet pool cannot lose prefixes: it has {', '.join(old[:5])}", hint="name those too"
        )


class SubnetPoolRemove(base.Planned[opcodes.SubnetPoolRemove]):
    """Removes a subnet pool; the state refuses that while a subnet has anything of it."""

    OPCODE = opcodes.SubnetPoolRemove
    BRIEF = True

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Take the pool."""
        return _exclusive(snapshot.subnet_pool(self.op.subnet_pool).uuid)

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Delete the pool."""
        del facts
        pool = snapshot.subnet_pool(self.op.subnet_pool)
        return base.Plan(
            lines=[f"remove subnet pool {pool.name or pool.uuid}"], changes=[states.Delete("subnetpools", pool.uuid)]
        )
