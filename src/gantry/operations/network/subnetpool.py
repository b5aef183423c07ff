"""Units that create, change and remove subnet pools (contracts/neutron-api.md#subnet-pools)."""

from collections.abc import Iterable, Sequence

from msgspec import structs

from gantry import errors
from gantry.address import ranges
from gantry.model import lock, network, opcodes
from gantry.operations import base
from gantry.operations.network import prefix_allocator, views
from gantry.state.objects import snapshot as states

_SHORTEST = {ranges.Family.IPV4: 8, ranges.Family.IPV6: 64}
"""The default minimum prefix length of a subnet."""

_PLAIN = ("name", "is_default", "default_quota", "description", "tags")
_LENGTHS = ("default_prefixlen", "min_prefixlen", "max_prefixlen")


def _exclusive(*names: str) -> lock.LockSet:
    return {(lock.Level.NETWORK, name): lock.Mode.EXCLUSIVE for name in names}


def _joined(texts: Iterable[str]) -> tuple[str, ...]:
    """Return prefixes of one IP version as the fewest CIDRs; adjacent prefixes are merged. Raises InvalidError."""
    cidrs = [ranges.parse_cidr(text) for text in texts]
    family = cidrs[0].family
    if any(cidr.family is not family for cidr in cidrs):
        raise errors.InvalidError("the prefixes of a subnet pool must be of one IP version")
    runs = ranges.union(cidr.range for cidr in cidrs)
    return tuple(str(block) for run in runs for block in ranges.cidrs(family, run))


def _check(snapshot: states.Snapshot, pool: network.SubnetPool) -> None:
    bits = prefix_allocator.family(pool).bits
    if not 0 < pool.min_prefixlen <= pool.default_prefixlen <= pool.max_prefixlen <= bits:
        raise errors.InvalidError(
            f"prefix lengths /{pool.min_prefixlen} (minimum), /{pool.default_prefixlen} (default) and "
            f"/{pool.max_prefixlen} (maximum) are not in order",
            hint=f"use 1 to {bits}, with min_prefixlen <= default_prefixlen <= max_prefixlen",
        )
    for other in snapshot.subnetpools.values() if pool.is_default else ():
        if (
            other.is_default
            and other.uuid != pool.uuid
            and prefix_allocator.family(other) is prefix_allocator.family(pool)
        ):
            raise errors.ExistsError(
                f"subnet pool {other.name or other.uuid} is already the default of its IP version",
                hint="each IP version can have one default subnet pool",
            )


class SubnetPoolAdd(base.Planned[opcodes.SubnetPoolAdd]):
    """Creates a subnet pool."""

    OPCODE = opcodes.SubnetPoolAdd
    BRIEF = True

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the default subnet pool exclusively, if the new pool becomes the default."""
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
        """Lock the pool exclusively, so that no subnet is cut from it, and the default pool if that may change."""
        default = [prefix_allocator.DEFAULT] if self.op.is_default else []
        return _exclusive(snapshot.subnet_pool(self.op.subnet_pool).uuid, *default)

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Put the changed pool; nothing is stored if nothing changes."""
        del facts
        op, old = self.op, snapshot.subnet_pool(self.op.subnet_pool)
        fields = {name: value for name in (*_PLAIN, *_LENGTHS) if (value := getattr(op, name)) is not None}
        new = structs.replace(old, **fields)
        if op.prefixes is not None:
            new = structs.replace(new, prefixes=_joined(op.prefixes))
            _check_grown(old.prefixes, new.prefixes)
        _check(snapshot, new)
        title = f"subnet pool {old.name or old.uuid}"
        if new == old:
            return base.Plan(
                lines=[f"nothing changes: {title} already has these settings"],
                result=lambda: views.row(views.SUBNET_POOL, snapshot, old),
            )
        changed = base.changed(new, self.environment.inputs.now)
        return base.Plan(
            lines=[f"change {title}: {', '.join(new.prefixes)}"],
            changes=[states.Put(changed)],
            result=lambda: views.row(views.SUBNET_POOL, snapshot, changed),
        )


def _check_grown(old: Sequence[str], new: Sequence[str]) -> None:
    old_cidrs, new_cidrs = ([ranges.parse_cidr(text) for text in texts] for texts in (old, new))
    if old_cidrs[0].family is not new_cidrs[0].family:
        raise errors.InvalidError("the IP version of a subnet pool cannot change")
    if ranges.difference((cidr.range for cidr in old_cidrs), (cidr.range for cidr in new_cidrs)):
        raise errors.InvalidError(
            f"a subnet pool cannot lose prefixes: it has {', '.join(old[:5])}", hint="include these prefixes"
        )


class SubnetPoolRemove(base.Planned[opcodes.SubnetPoolRemove]):
    """Removes a subnet pool; the state refuses that while a subnet was cut from it."""

    OPCODE = opcodes.SubnetPoolRemove
    BRIEF = True

    def locks(self, snapshot: states.Snapshot) -> lock.LockSet:
        """Lock the pool exclusively."""
        return _exclusive(snapshot.subnet_pool(self.op.subnet_pool).uuid)

    def plan(self, snapshot: states.Snapshot, facts: None) -> base.Plan:
        """Delete the pool."""
        del facts
        pool = snapshot.subnet_pool(self.op.subnet_pool)
        return base.Plan(
            lines=[f"remove subnet pool {pool.name or pool.uuid}"], changes=[states.Delete("subnetpools", pool.uuid)]
        )
