"""Templates: the pools that a template refers to, the claims on them, and the rendered data (contract: 1.7).

``render_data`` calls it with the template, the objects of a machine, and then the addresses. Pure. ::

    pools --> claims (one per pool) --> wait until each has an address --> metadata, network_data --> two Secrets

Differences from Metal3's output: the metadata has a pool's DNS servers too; the kind of a pool in the metadata is
honoured; each network has a ``network_id``, which the schema of Nova and Ironic requires; a VLAN or bond without a MAC
address gets that of its underlying link, without which cloud-init fails; a route without a gateway is an error.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec
import yaml

from gantry import errors
from gantry.address import ranges
from gantry.kubernetes.api import capi, data, ipam, meta, schema
from gantry.kubernetes.claims import actions

DATA_LABEL = "infrastructure.cluster.x-k8s.io/data-name"
POOL_LABEL = "infrastructure.cluster.x-k8s.io/pool-name"


class Machine(msgspec.Struct, frozen=True):
    """A data object and the objects of its machine."""

    datum: data.Metal3Data
    machine: meta.Resource
    metal3machine: meta.Resource
    baremetalhost: data.BareMetalHost

    def of(self, name: str) -> meta.Resource:
        """Return an object by its name in templates: machine, metal3machine, baremetalhost; InvalidError."""
        known: dict[str, meta.Resource] = {
            "machine": self.machine,
            "metal3machine": self.metal3machine,
            "baremetalhost": self.baremetalhost,
        }
        if name not in known:
            raise errors.InvalidError(f"template refers to unknown object '{name}'", hint=f"use {', '.join(known)}")
        return known[name]


class PoolValues(msgspec.Struct, frozen=True):
    """The address allocated from a pool, with its settings."""

    address: str
    prefix: int
    gateway: str = ""
    dns_servers: tuple[str, ...] = ()


ValuesByPool = Mapping[str, PoolValues]
"""Allocated addresses, by the name of the pool."""


def values_of(address: actions.Address) -> PoolValues:
    """Return the address of an address object, with its settings."""
    spec = address.spec
    servers = spec.dns_servers if isinstance(spec, ipam.AddressSpec) else ()
    return PoolValues(spec.address, spec.prefix, spec.gateway, servers)


def next_index(used: Iterable[int]) -> int:
    """Return the lowest unused index."""
    taken = set(used)
    return next(index for index in range(len(taken) + 1) if index not in taken)


def pools(template: data.Metal3DataTemplate, machine: Machine) -> dict[str, data.PoolRef]:
    """Return the pools that a template refers to, by name; InvalidError for two kinds with the same name."""
    found: dict[str, data.PoolRef] = {}
    for ref in _pool_refs(template, machine):
        plain = data.PoolRef(name=ref.name, kind=ref.kind or "IPPool", api_group=ref.api_group or ipam.GROUP)
        if found.setdefault(ref.name, plain) != plain:
            raise errors.InvalidError(
                f"template has pool {ref.name} both as {found[ref.name].kind} and as {plain.kind}"
            )
    return found


def _pool_refs(template: data.Metal3DataTemplate, machine: Machine) -> Iterator[data.PoolRef]:
    texts, networks = template.spec.meta_data, template.spec.network_data
    for item in (*texts.addresses, *texts.prefixes, *texts.gateways, *texts.dns_servers):
        yield data.PoolRef(name=item.name, kind=item.kind, api_group=item.api_group)
    all_of = networks.networks
    fixed = all_of.ipv4 + all_of.ipv6
    dynamic = all_of.ipv4_dhcp + all_of.ipv6_dhcp + all_of.ipv6_slaac
    for network in fixed:
        yield _pool_ref(network, machine)
    for route in (
        *(route for one in fixed for route in one.routes),
        *(route for one in dynamic for route in one.routes),
    ):
        if not route.gateway.string:
            yield _pool_ref(route.gateway, machine)
        yield from _pool_ref_by_name(route.services.dns_from_ip_pool)
    yield from _pool_ref_by_name(networks.services.dns_from_ip_pool)


def _pool_ref_by_name(name: str) -> Iterator[data.PoolRef]:
    if name:
        yield data.PoolRef(name=name)


def _pool_ref(place: data.Network | data.Gateway, machine: Machine) -> data.PoolRef:
    """Return the pool of a network or gateway: by annotation, else by reference, else by name."""
    if place.from_pool_annotation.object:
        return data.PoolRef(name=_annotation_value(place.from_pool_annotation, machine))
    if place.from_pool_ref.name:
        return place.from_pool_ref
    name = place.ip_address_from_ip_pool if isinstance(place, data.Network) else place.from_ip_pool
    if not name:
        raise errors.InvalidError("fromPoolRef needs to contain a reference to an IPPool")
    return data.PoolRef(name=name)


def _annotation_value(asked: data.ObjectAnnotation, machine: Machine) -> str:
    text = machine.of(asked.object).metadata.annotations.get(asked.annotation)
    if text is None:
        raise errors.NotFoundError(f"the {asked.object} has no annotation {asked.annotation}")
    return text


def claims(template: data.Metal3DataTemplate, machine: Machine) -> list[actions.Claim]:
    """Return the claims of a machine, one for each pool, owned by its data object."""
    return [_claim(ref, machine.datum) for ref in pools(template, machine).values()]


def _claim(ref: data.PoolRef, owner: data.Metal3Data) -> actions.Claim:
    metadata = meta.ObjectMeta(
        name=f"{owner.metadata.name}-{ref.name}",
        namespace=owner.metadata.namespace,
        labels={**owner.metadata.labels, DATA_LABEL: owner.metadata.name, POOL_LABEL: ref.name},
        finalizers=(data.FINALIZER,),
        owner_references=(
            meta.OwnerReference(
                api_version=owner.api_version,
                kind="Metal3Data",
                name=owner.metadata.name,
                uid=owner.metadata.uid,
                controller=True,
            ),
        ),
    )
    if (ref.api_group, ref.kind) == (ipam.GROUP, "IPPool"):
        pool = meta.ObjectReference(name=ref.name, namespace=owner.metadata.namespace)
        return ipam.IPClaim(
            api_version=ipam.API_VERSION, kind="IPClaim", metadata=metadata, spec=ipam.ClaimSpec(pool=pool)
        )
    other = capi.PoolRef(name=ref.name, kind=ref.kind, api_group=ref.api_group)
    return capi.IPAddressClaim(
        api_version=f"{capi.GROUP}/{capi.VERSIONS[0]}",
        kind="IPAddressClaim",
        metadata=metadata,
        spec=capi.ClaimSpec(pool_ref=other),
    )


def metadata(template: data.Metal3DataTemplate, machine: Machine, gifts: ValuesByPool) -> dict[str, str]:
    """Render the metadata; for duplicate keys the later kind of item wins. NotFoundError: no such NIC or address."""
    spec, out = template.spec.meta_data, dict[str, str]()
    out.update((one.key, _host_mac(one, machine)) for one in spec.from_host_interfaces)
    out.update((one.key, _values(gifts, one.name).address) for one in spec.addresses)
    out.update((one.key, str(_values(gifts, one.name).prefix)) for one in spec.prefixes)
    out.update((one.key, _values(gifts, one.name).gateway) for one in spec.gateways)
    out.update((one.key, ",".join(_values(gifts, one.name).dns_servers)) for one in spec.dns_servers)
    index = machine.datum.spec.index
    out.update((one.key, f"{one.prefix}{one.offset + index * one.step}{one.suffix}") for one in spec.indexes)
    out.update((one.key, machine.datum.metadata.namespace) for one in spec.namespaces)
    out.update((one.key, machine.of(one.object).metadata.name) for one in spec.object_names)
    out.update((one.key, machine.of(one.object).metadata.labels.get(one.label, "")) for one in spec.from_labels)
    noted = spec.from_annotations
    out.update((one.key, machine.of(one.object).metadata.annotations.get(one.annotation, "")) for one in noted)
    out.update((one.key, one.value) for one in spec.strings)
    names = (machine.datum.metadata.namespace, machine.baremetalhost.metadata.name, machine.metal3machine.metadata.name)
    return {**out, "providerid": "/".join(names)}


def _values(gifts: ValuesByPool, pool: str) -> PoolValues:
    if pool not in gifts:
        raise errors.NotFoundError(f"no address has been allocated from pool {pool} yet")
    return gifts[pool]


def _host_mac(asked: data.FromHostInterface, machine: Machine) -> str:
    host = machine.baremetalhost
    if not asked.from_boot_mac:
        return _nic_mac(asked.interface, host)
    if not host.spec.boot_mac_address:
        raise errors.NotFoundError(f"host {host.metadata.name} has no boot MAC address")
    return host.spec.boot_mac_address


def _nic_mac(name: str, host: data.BareMetalHost) -> str:
    found = next((one.mac for one in host.status.hardware.nics if one.name == name), None)
    if found is None:
        raise errors.NotFoundError(f"host {host.metadata.name} has no NIC {name}")
    return found


def network_data(template: data.Metal3DataTemplate, machine: Machine, gifts: ValuesByPool) -> schema.Json:
    """Render network data in OpenStack's format; NotFoundError if a NIC, an annotation or an address is missing."""
    spec = template.spec.network_data
    networks = spec.networks
    fixed = (("ipv4", networks.ipv4), ("ipv6", networks.ipv6))
    dynamic = (
        ("ipv4_dhcp", networks.ipv4_dhcp),
        ("ipv6_dhcp", networks.ipv6_dhcp),
        ("ipv6_slaac", networks.ipv6_slaac),
    )
    return {
        "links": _links(spec.links, machine),
        "networks": [
            *(_network(kind, one, machine, gifts) for kind, listed in fixed for one in listed),
            *(_network_base(kind, one, machine, gifts) for kind, found in dynamic for one in found),
        ],
        "services": _services(spec.services, gifts),
    }


def text(rendered: Mapping[str, object]) -> str:
    """Return the content of a Secret: YAML with sorted keys."""
    return yaml.safe_dump(dict(rendered), sort_keys=True, default_flow_style=False)


def _links(links: data.Links, machine: Machine) -> list[schema.Json]:
    macs: dict[str, str] = {}
    cards = [_link(one, one.type, one.mac_address, machine, macs) for one in links.ethernets]
    bonds = [_bond(one, machine, macs) for one in links.bonds]
    vlans = [_vlan(one, machine, macs) for one in links.vlans]
    return [*bonds, *cards, *vlans]


def _link(
    one: data.Ethernet | data.Bond, kind: str, mac: data.Mac, machine: Machine, macs: dict[str, str]
) -> schema.Json:
    below = [macs.get(name, "") for name in one.bond_links] if isinstance(one, data.Bond) else []
    found = _mac(mac, machine) or next(filter(None, below), "")
    macs[one.id] = found
    return {
        "type": kind,
        "id": one.id,
        "mtu": one.mtu,
        **({"ethernet_mac_address": found} if found else {}),
        **({"name": one.name} if one.name else {}),
    }


def _bond(bond: data.Bond, machine: Machine, macs: dict[str, str]) -> schema.Json:
    out = _link(bond, "bond", bond.mac_address, machine, macs)
    out |= {"bond_mode": bond.bond_mode, "bond_links": list(bond.bond_links)}
    if bond.bond_xmit_hash_policy:
        out["bond_xmit_hash_policy"] = bond.bond_xmit_hash_policy
    for name, value in _parameters(bond.parameters):
        if f"bond_{name}" in out:
            raise errors.InvalidError(f"parameter {name} of bond {bond.id} has its own field")
        out[f"bond_{name}"] = value
    return out


def _parameters(said: object) -> Iterator[tuple[str, object]]:
    """Yield the parameters of a bond, from a map or from a list of names with values."""
    if isinstance(said, dict):
        yield from said.items()
    for one in said if isinstance(said, list) else ():
        if isinstance(one, dict) and "name" in one:
            yield str(one["name"]), one.get("value")


def _vlan(vlan: data.Vlan, machine: Machine, macs: dict[str, str]) -> schema.Json:
    mac = _mac(vlan.mac_address, machine) or macs.get(vlan.vlan_link, "")
    return {
        "type": "vlan",
        "id": vlan.id,
        "mtu": vlan.mtu,
        "vlan_link": vlan.vlan_link,
        "vlan_id": vlan.vlan_id,
        **({"vlan_mac_address": mac} if mac else {}),
        **({"name": vlan.name} if vlan.name else {}),
    }


def _mac(said: data.Mac, machine: Machine) -> str:
    if said.from_host_interface:
        return _nic_mac(said.from_host_interface, machine.baremetalhost)
    return _annotation_value(said.from_annotation, machine) if said.from_annotation.object else said.string


def _network_base(
    kind: str, one: data.Network | data.DynamicNetwork, machine: Machine, gifts: ValuesByPool
) -> schema.Json:
    routes = [_route(route, machine, gifts) for route in one.routes]
    return {"type": kind, "id": one.id, "network_id": one.id, "link": one.link, "routes": routes}


def _network(kind: str, network: data.Network, machine: Machine, gifts: ValuesByPool) -> schema.Json:
    found = _values(gifts, _pool_ref(network, machine).name)
    address = ranges.parse_address(found.address)
    if kind != f"ipv{int(address.family)}":
        raise errors.InvalidError(f"network {network.id} is {kind}, but its pool allocated {address}")
    mask = _mask(address.family, found.prefix)
    return {**_network_base(kind, network, machine, gifts), "ip_address": found.address, "netmask": mask}


def _mask(family: ranges.Family, prefix: int) -> str:
    if not 0 <= prefix <= family.bits:
        raise errors.InvalidError(f"prefix length {prefix} is invalid for IPv{int(family)} (0 to {family.bits})")
    host = family.bits - prefix
    return ranges.format_address(family, (1 << family.bits) - (1 << host))


def _route(route: data.Route, machine: Machine, gifts: ValuesByPool) -> schema.Json:
    network = ranges.parse_address(route.network)
    gateway = route.gateway.string
    if not gateway:
        pool = _pool_ref(route.gateway, machine).name
        gateway = _values(gifts, pool).gateway
        if not gateway:
            raise errors.NotFoundError(f"pool {pool} has no gateway for the route to {route.network}/{route.prefix}")
    return {
        "network": route.network,
        "netmask": _mask(network.family, route.prefix),
        "gateway": gateway,
        "services": _services(route.services, gifts),
    }


def _services(said: data.Services, gifts: ValuesByPool) -> list[schema.Json]:
    pool = said.dns_from_ip_pool
    listed = (*said.dns, *(_values(gifts, pool).dns_servers if pool else ()))
    return [{"type": "dns", "address": address} for address in listed]
