"""A fake cluster, and a controller that reserves the addresses of bound pools in it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.kubernetes.claims import server

from gantry.address import ranges
from gantry.kubernetes.api import ipam, meta, schema
from gantry.kubernetes.claims import actions, cluster_reservations, orphan_reservations

NAME, UUID = "net1", "00000000-0000-4000-8000-000000000001"
Record = cluster_reservations.Reservation | meta.Ref


@dataclass
class Cluster:
    """A network ``net1`` with the owners of its addresses: instances and claims."""

    held: dict[ranges.Address, Record] = field(default_factory=dict)
    subnets: tuple[str, ...] = ("10.0.0.0/24",)
    external: tuple[str, ...] = ()
    is_away: bool = False

    def take(self, text: str, who: str) -> bool:
        """Give an address to an instance, if it is free."""
        address = ranges.parse_address(text)
        return self.held.setdefault(
            address, cluster_reservations.foreign_owner("instance", who)
        ) == cluster_reservations.foreign_owner("instance", who)

    def allocate(self, text: str) -> None:
        del self.held[ranges.parse_address(text)]

    def reserve(self, reservation: cluster_reservations.Reservation) -> None:
        self._answer()
        closed = [ranges.parse_range(text)[1] for text in self.external]
        old = self.held.get(reservation.address)
        if isinstance(old, cluster_reservations.Reservation) and old.claim == reservation.claim:
            self.held[reservation.address] = reservation
        if self.held.get(reservation.address) != reservation and any(
            reservation.address.value in run for run in closed
        ):
            raise server.RefusedError(409, "Reserved")
        if self.held.setdefault(reservation.address, reservation) != reservation:
            raise server.RefusedError(409, "Taken")

    def release(self, reservation: cluster_reservations.Reservation) -> None:
        self._answer()
        if self.held.get(reservation.address) == reservation:
            del self.held[reservation.address]

    def _answer(self) -> None:
        if self.is_away:
            raise server.RefusedError(503, "Away")

    def network(self) -> cluster_reservations.Network:
        taken = {address: who for address, who in self.held.items() if isinstance(who, meta.Ref)}
        return cluster_reservations.Network(UUID, NAME, self.subnets, self.external, taken)

    def reservations(self) -> list[cluster_reservations.Reservation]:
        return [address for address in self.held.values() if isinstance(address, cluster_reservations.Reservation)]

    def owner(self, text: str) -> str:
        """Return the owner of an address: the name of an instance or a claim, empty for none."""
        owner = self.held.get(ranges.parse_address(text))
        return owner.claim.name if isinstance(owner, cluster_reservations.Reservation) else owner.name if owner else ""


@dataclass
class Controller(server.Controller):
    """Reads the cluster at the start, unless ``is_late``, and when ``read`` is called."""

    cluster: Cluster = field(default_factory=Cluster)
    left: orphan_reservations.OrphansSince = field(default_factory=dict)
    is_late: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.known.networks.expect()
        if not self.is_late:
            self.read()

    def read(self) -> None:
        bonds = self.known.networks
        if self.cluster.is_away:
            self.work |= bonds.disconnect("the cluster is unavailable: it is away")
            return
        networks = [self.cluster.network()] if NAME in bonds.names else []
        self.work |= self.known.update_networks(bonds.names, networks, self.cluster.reservations())

    def sweep(self) -> None:
        """Release orphan reservations after their grace period."""
        self.left = orphan_reservations.find(self.known, self.left, now=self.server.now)
        for action in orphan_reservations.releases(self.known, self.left, now=self.server.now):
            try:
                self._request(action)
            except server.RefusedError as refusal:
                self._failed(action, refusal)

    def _request(self, action: actions.Action) -> None:
        bonds = self.known.networks
        if isinstance(action, actions.Reserve):
            self.cluster.reserve(action.reservation)
            self.work |= bonds.add_reservation(action.reservation)
        elif isinstance(action, actions.Release):
            if self.server.obstacle(action, self.known):
                raise server.RefusedError(409, "Met")
            for ref in action.unless:
                claim = server.struct(self.server.objects[ref]) if ref in self.server.objects else None
                if claim and action.is_needed_by(claim):
                    self.work |= self.known.handle_existing(action, claim)
                    raise server.RefusedError(409, "Met")
            self.cluster.release(action.reservation)
            self.work |= bonds.remove_reservation(action.reservation)
        else:
            super()._request(action)

    def _failed(self, action: actions.Action, refusal: server.RefusedError) -> None:
        if refusal.reason == "Away":
            self.work |= self.known.networks.disconnect("the cluster is unavailable: it is away")
        elif isinstance(action, actions.Reserve):
            self.work |= self.known.networks.refuse_reservation(
                action.reservation, cluster_reservations.foreign_owner("the cluster:", "taken")
            )
        elif isinstance(action, actions.Release):
            self.see()
        else:
            super()._failed(action, refusal)


def pool(name: str = "pool-1", network: str = NAME, spec: Mapping[str, object] | None = None) -> schema.Json:
    new_pool = server.pool(name, **spec or {})
    server.metadata(new_pool)["annotations"] = {ipam.NETWORK_ANNOTATION: network}
    return new_pool
