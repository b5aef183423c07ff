"""The classes that Neutron calls: pools of subnets, subnets and their addresses.

Neutron creates a ``Pool`` for each call and passes its context. ``Pool`` extends Neutron's own allocator, which handles
subnet pools; the ``ledger`` has the subnets and addresses. Errors are translated to Neutron's exceptions, whose status
Neutron returns to its clients; a BusyError becomes a request to repeat the whole call.

See contracts/neutron-ipam-driver.md#driver-interface.
"""

import contextlib
from collections.abc import Iterator

import netaddr
from neutron.db import models_v2
from neutron.ipam import driver as interface
from neutron.ipam import exceptions, requests, subnet_alloc, utils
from neutron_lib import exceptions as general
from neutron_lib.context import Context
from neutron_lib.db import api
from oslo_db import exception as database
from oslo_log import log
from sqlalchemy import select

from gantry import errors
from gantry.address import ranges
from gantry.ipam.neutron import following, ledger, settings
from gantry.ipam.sql import requests as sql_requests

LOG = log.getLogger(__name__)


class AddressRequestFactory(requests.AddressRequestFactory):
    """Creates Neutron's address requests, and adds the port's id to each."""

    @classmethod
    def get_request(
        cls, context: Context, port: dict[str, object], ip_dict: dict[str, object]
    ) -> requests.AddressRequest:
        """Return the request for one address of a port."""
        request = super().get_request(context, port, ip_dict)
        request.port_id = port.get("id")
        return request


class Pool(subnet_alloc.SubnetAllocator):
    """The driver: subnets, with or without a subnet pool of Neutron."""

    def allocate_subnet(self, request: requests.SubnetRequest) -> "Subnet":
        """Add the requested subnet, allocated from the subnet pool if there is one."""
        if self._subnetpool:
            request = super().allocate_subnet(request).get_details()
        if not isinstance(request, requests.SpecificSubnetRequest):
            raise exceptions.InvalidSubnetRequestType(subnet_type=type(request))
        pools = request.allocation_pools or utils.generate_pools(request.subnet_cidr, request.gateway_ip)
        with _ledger(self._context, request.subnet_id) as book:
            book.add(request.subnet_id, cidr=str(request.subnet_cidr.cidr), pools=_texts(pools, request.subnet_cidr))
        details = requests.SpecificSubnetRequest(
            request.project_id, request.subnet_id, request.subnet_cidr, request.gateway_ip, pools
        )
        return Subnet(self._context, request.subnet_id, details)

    def get_subnet(self, subnet_id: str) -> "Subnet":
        """Return the subnet without reading it; its methods fail if it does not exist.

        See contracts/neutron-ipam-driver.md#driver-interface.
        """
        return Subnet(self._context, subnet_id)

    def update_subnet(self, request: requests.SpecificSubnetRequest) -> "Subnet | None":
        """Update the allocation pools and the CIDR of a subnet; prefix delegation changes the CIDR.

        Returns the updated subnet, or None if the request has no allocation pools: then nothing changes.
        """
        if not request.subnet_id:
            raise exceptions.InvalidSubnetRequest(reason="the update does not have the id of the subnet")
        if request.allocation_pools is None:
            return None
        with _ledger(self._context, request.subnet_id) as book:
            pools = _texts(request.allocation_pools, request.subnet_cidr)
            book.update(request.subnet_id, cidr=str(request.subnet_cidr.cidr), pools=pools)
        return Subnet(self._context, request.subnet_id, request)

    def remove_subnet(self, subnet_id: str) -> None:
        """Remove a subnet of which no port has an address."""
        with _ledger(self._context, subnet_id) as book:
            if port := _port_with_address(self._context, subnet_id):
                raise general.SubnetInUse(subnet_id=subnet_id, reason=f"port {port} has an address of it")
            book.remove(subnet_id)

    def get_address_request_factory(self) -> type[AddressRequestFactory]:
        """Return the class that creates address requests for this driver."""
        return AddressRequestFactory

    def needs_rollback(self) -> bool:
        """Return False: the driver itself follows Neutron's transaction."""
        return False


class Subnet(interface.Subnet):
    """A subnet of Neutron."""

    def __init__(self, context: Context, subnet_id: str, details: requests.SpecificSubnetRequest | None = None) -> None:
        self._context = context
        self._id = subnet_id
        self._details = details

    def allocate(self, address_request: requests.AddressRequest) -> str:
        """Allocate and return the requested address, or any address."""
        address = str(getattr(address_request, "address", ""))
        with _ledger(self._context, self._id, address) as book:
            sql_request = self._sql_request(book, address_request)
            return book.allocate(self._id, sql_request, owner=getattr(address_request, "port_id", None) or "")

    def bulk_allocate(self, address_request: requests.AddressRequest) -> list[str]:
        """Allocate and return several addresses in one transaction."""
        if not isinstance(address_request, requests.BulkAddressRequest):
            return [self.allocate(address_request)]
        with _ledger(self._context, self._id) as book:
            return book.allocate_many(self._id, address_request.num_addresses)

    def deallocate(self, address: str) -> None:
        """Release an address."""
        with _ledger(self._context, self._id) as book:
            book.deallocate(self._id, _canonical(address))

    def get_details(self) -> requests.SpecificSubnetRequest:
        """Return the subnet as a subnet request of Neutron."""
        if self._details is None:
            with _ledger(self._context, self._id) as book:
                known = book.subnet(self._id)
            pools = [netaddr.IPRange(pool.partition("-")[0], pool.rpartition("-")[2]) for pool in known.pools]
            self._details = requests.SpecificSubnetRequest(None, self._id, known.cidr, allocation_pools=pools)
        return self._details

    def _sql_request(self, book: ledger.Ledger, request: requests.AddressRequest) -> sql_requests.Request:
        if isinstance(request, requests.SpecificAddressRequest):
            address = _canonical(request.address)
            # Addresses outside the pools are allowed, the first and last address of an IPv4 subnet are not.
            if not utils.check_subnet_ip(book.subnet(self._id).cidr, address):
                raise exceptions.InvalidIpForSubnet(subnet_id=self._id, ip=address)
            return sql_requests.SpecificAddress(address)
        if isinstance(request, requests.PreferNextAddressRequest):
            return sql_requests.NextAddress()
        return sql_requests.AnyAddress()


def _port_with_address(context: Context, subnet: str) -> str | None:
    """Return a port that has an address of a subnet, by Neutron's own tables; None if there is none."""
    columns = models_v2.IPAllocation.__table__.c
    port: str | None = context.session.scalar(select(columns.port_id).where(columns.subnet_id == subnet).limit(1))
    return port


def _canonical(address: str | netaddr.IPAddress) -> str:
    """Return an address as the driver writes it; netaddr writes some IPv6 addresses differently."""
    return str(ranges.parse_address(str(address)))


def _texts(pools: list[netaddr.IPRange], cidr: netaddr.IPNetwork) -> list[str]:
    """Return pools as texts; without the version, netaddr takes the lowest IPv6 addresses for IPv4."""
    return [
        f"{netaddr.IPAddress(pool.first, cidr.version)}-{netaddr.IPAddress(pool.last, cidr.version)}" for pool in pools
    ]


@contextlib.contextmanager
def _ledger(context: Context, subnet: str, address: str = "") -> Iterator[ledger.Ledger]:
    """Open the ledger in the caller's transaction, or in a new one; translate errors to Neutron's exceptions."""
    with _neutron_errors(subnet, address), api.CONTEXT_WRITER.using(context):
        tables = settings.own()
        if tables:
            yield ledger.SeparateLedger(tables, following.of_session(context.session))
        else:
            yield ledger.NeutronLedger(settings.within(context.session))


@contextlib.contextmanager
def _neutron_errors(subnet: str, address: str) -> Iterator[None]:
    try:
        yield
    except errors.NotUniqueError as problem:
        raise exceptions.IpAddressAlreadyAllocated(subnet_id=subnet, ip=address) from problem
    except errors.InvalidError as problem:
        if address:
            raise exceptions.InvalidIpForSubnet(subnet_id=subnet, ip=address) from problem
        raise exceptions.InvalidSubnetRequest(reason=str(problem)) from problem
    except errors.NotFoundError as problem:
        raise general.SubnetNotFound(subnet_id=subnet) from problem
    except errors.NoRoomError as problem:
        raise exceptions.IpAddressGenerationFailure(subnet_id=subnet) from problem
    except errors.BusyError as problem:
        raise database.RetryRequest(general.ServiceUnavailable()) from problem
    except errors.GantryError as problem:
        LOG.error("IPAM of subnet %s: %s", subnet, problem)
        raise general.ServiceUnavailable() from problem
