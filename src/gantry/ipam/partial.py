"""The ledger for a reader who does not see everything: which numbers are used, without who uses them.

``operations.query`` reads it in place of the ledger together with a part of the state. Of a network that the reader
sees whole, the used and free addresses are those of the ledger. Of any other network, only what owners in the part of
the state have is used. Nobody's quarantine, hold or allocation elsewhere is in it.
"""

from collections.abc import Collection, Container

from gantry.address import ranges
from gantry.address.space import Space
from gantry.ipam import embedded
from gantry.model import network
from gantry.state.objects import snapshot as states


class PartialLedger(embedded.Ledger):
    """The numbers of ``whole`` for the part of its state that a reader sees.

    ``networks`` are the UUIDs of the networks that are seen whole; with ``segments`` all segment ranges are seen.
    """

    def __init__(
        self, whole: embedded.Ledger, part: states.Snapshot, *, networks: Container[str], segments: bool
    ) -> None:
        super().__init__(whole.quarantine.now)
        self._whole = whole
        self._part = part
        self._networks = networks
        self._own: dict[tuple[str, ranges.Family], Space] = {}
        if segments:
            self.segments = whole.segments

    def space(self, network_uuid: str, family: ranges.Family) -> Space:
        """Return the used numbers of a network's addresses of one family, as far as the reader sees them."""
        if network_uuid in self._networks:
            return self._whole.space(network_uuid, family)
        if (network_uuid, family) not in self._own:
            self._own[network_uuid, family] = self._visible(network_uuid, family)
        return self._own[network_uuid, family]

    def _visible(self, network_uuid: str, family: ranges.Family) -> Space:
        guests = (self._part.instances[uuid] for uuid in self._part.in_network.get(network_uuid) or ())
        texts = (use.ip for vm in guests for use in vm.allocations() if use.network == network_uuid)
        numbers = Space()
        for address in map(ranges.canonical_address, texts):
            if address.family is family:
                numbers.allocate(address.value)
        return numbers

    def quarantined(self, network_uuid: str) -> Collection[network.Quarantine]:
        """Return no records: they name former owners."""
        return ()
