"""What Neutron calls: pools of subnets, subnets and their addresses.

Neutron makes a ``Pool`` for each call and hands it its context. Subnet pools are the business of Neutron's own
allocator, which ``Pool`` extends; what it gives out lives in the ``ledger``. Errors come out as Neutron's, which
answers its clients with their status: a race that was lost too often becomes a request to repeat the whole call.

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
from gantry.ipam.sql import requests as wishes

LOG = log.getLogger(__name__)


class AddressRequestFactory(requests.AddressRequestFactory):
    """Makes Neutron's requests, and notes on each for which port it is."""

    @classmethod
    def get_request(
        cls, context: Context, port: dict[str, object], ip_dict: dict[str, object]
    ) -> requests.AddressRequest:
        """Return the request for one address of a port."""
        request = super().get_request(context, port, ip_dict)
        request.port_id = port.get("id")
        return request


class Pool(subnet_alloc.SubnetAllocator):
    """The driver: subnets, from a subnet pool of Neutron's or from nowhere."""

    def allocate_subnet(self, request: requests.SubnetRequest) -> "Subnet":
        """Take in the subnet that is asked for, from the subnet pool if there is one."""
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
        """Return the subnet without a look at it; its methods say if none is.

        See contracts/neutron-ipam-driver.md#driver-interface.
        """
        return Subnet(self._context, subnet_id)

    def update_subnet(self, request: requests.SpecificSubnetRequest) -> "Subnet | None":
        """Take over pools and CIDR; the CIDR changes when a prefix is delegated."""
        if not request.subnet_id:
            raise exceptions.InvalidSubnetRequest(reason="an update of a subnet must say which")
        if request.allocation_pools is None:
            return None
        with _ledger(self._context, request.subnet_id) as book:
            pools = _texts(request.allocation_pools, request.subnet_cidr)
            book.update(request.subnet_id, cidr=str(request.subnet_cidr.cidr), pools=pools)
        return Subnet(self._context, request.subnet_id, request)

    def remove_subnet(self, subnet_id: str) -> None:
        """Forget a subnet of which no port has an address any more."""
        with _ledger(self._context, subnet_id) as book:
            if port := _user(self._context, subnet_id):
                raise general.SubnetInUse(subnet_id=subnet_id, reason=f"port {port} has an address of it")
            book.remove(subnet_id)

    def get_address_request_factory(self) -> type[AddressRequestFactory]:
        """Return what makes requests of this driver."""
        return AddressRequestFactory

    def needs_rollback(self) -> bool:
        """Tell Neutron that the driver follows its transaction by itself."""
        return False


class Subnet(interface.Subnet):
    """One subnet of Neutron's."""

    def __init__(self, context: Context, subnet_id: str, details: requests.SpecificSubnetRequest | None = None) -> None:
        self._context = context
        self._id = subnet_id
        self._details = details

    def allocate(self, address_request: requests.AddressRequest) -> str:
        """Return the address that is asked for, or any."""
        address = str(getattr(address_request, "address", ""))
        with _ledger(self._context, self._id, address) as book:
            wish = self._wish(book, address_request)
            return book.allocate(self._id, wish, owner=getattr(address_request, "port_id", None) or "")

    def bulk_allocate(self, address_request: requests.AddressRequest) -> list[str]:
        """Return several addresses in one transaction."""
        if not isinstance(address_request, requests.BulkAddressRequest):
            return [self.allocate(address_request)]
        with _ledger(self._context, self._id) as book:
            return book.allocate_many(self._id, address_request.num_addresses)

    def deallocate(self, address: str) -> None:
        """Give an address back."""
        with _ledger(self._context, self._id) as book:
            book.deallocate(self._id, _written(address))

    def get_details(self) -> requests.SpecificSubnetRequest:
        """Return the subnet as Neutron asks for subnets."""
        if self._details is None:
            with _ledger(self._context, self._id) as book:
                known = book.subnet(self._id)
            pools = [netaddr.IPRange(pool.partition("-")[0], pool.rpartition("-")[2]) for pool in known.pools]
            self._details = requests.SpecificSubnetRequest(None, self._id, known.cidr, allocation_pools=pools)
        return self._details

    def _wish(self, book: ledger.Ledger, request: requests.AddressRequest) -> wishes.Request:
        if isinstance(request, requests.SpecificAddressRequest):
            address = _written(request.address)
            # Outside the pools is allowed, the ends of an IPv4 subnet are not.
            if not utils.check_subnet_ip(book.subnet(self._id).cidr, address):
                raise exceptions.InvalidIpForSubnet(subnet_id=self._id, ip=address)
            return wishes.SpecificAddress(address)
        if isinstance(request, requests.PreferNextAddressRequest):
            return wishes.NextAddress()
        return wishes.AnyAddress()


def _user(context: Context, subnet: str) -> str | None:
    """Return a port that has an address of a subnet, as Neutron knows it."""
    columns = models_v2.IPAllocation.__table__.c
    port: str | None = context.session.scalar(select(columns.port_id).where(columns.subnet_id == subnet).limit(1))
    return port


def _written(address: str | netaddr.IPAddress) -> str:
    """Return an address as the driver writes it: netaddr has another way for some of IPv6."""
    return str(ranges.parse_address(str(address)))


def _texts(pools: list[netaddr.IPRange], cidr: netaddr.IPNetwork) -> list[str]:
    """Return pools as texts; netaddr takes the first addresses of IPv6 for IPv4 unless it is told the version."""
    return [
        f"{netaddr.IPAddress(pool.first, cidr.version)}-{netaddr.IPAddress(pool.last, cidr.version)}" for pool in pools
    ]


@contextlib.contextmanager
def _ledger(context: Context, subnet: str, address: str = "") -> Iterator[ledger.Ledger]:
    """Open the ledger within the caller's transaction, one is begun if there is none; errors come out as Neutron's."""
    with _as_neutron_says(subnet, address), api.CONTEXT_WRITER.using(context):
        tables = settings.own()
        if tables:
            yield ledger.Beside(tables, following.of(context.session))
        else:
            yield ledger.Within(settings.within(context.session))


@contextlib.contextmanager
def _as_neutron_says(subnet: str, address: str) -> Iterator[None]:
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
