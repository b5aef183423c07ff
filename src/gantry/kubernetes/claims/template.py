"""Templates: the pools that a template refers to, the claims on them, and the rendered data.

``render_data`` calls it with the template, the objects of a machine, and then the addresses. Pure. ::

    pools --> claims (one per pool) --> wait until each has an address --> metadata, network_data --> two Secrets

Differences from Metal3's output: the metadata has a pool's DNS servers too; the kind of a pool in the metadata is
honoured; each network has a ``network_id``, which the schema of Nova and Ironic requires; a VLAN or bond without a MAC
address gets that of its underlying link, without which cloud-init fails; a route without a gateway is an error.

See contracts/ippool-claims.md#templates.
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
        objects: dict[str, meta.Resource] = {
            "machine": self.machine,
            "metal3machine": self.metal3machine,
            "baremetalhost": self.baremetalhost,
        }
        if name not in objects:
            raise errors.InvalidError(f"template refers to unknown object '{name}'", hint=f"use {', '.join(objects)}")
        return objects[name]


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
    refs: dict[str, data.PoolRef] = {}
    for ref in _pool_refs(template, machine):
        full_ref = data.PoolRef(name=ref.name, kind=ref.kind or "IPPool", api_group=ref.api_group or ipam.GROUP)
        if refs.setdefault(ref.name, full_ref) != full_ref:
            raise errors.InvalidError(
                f"template has pool {ref.name} both as {refs[ref.name].kind} and as {full_ref.kind}"
            )
    return refs


def _pool_refs(template: data.Metal3DataTemplate, machine: Machine) -> Iterator[data.PoolRef]:
    texts, networks = template.spec.meta_data, template.spec.network_data
    for item in (*texts.addresses, *texts.prefixes, *texts.gateways, *texts.dns_servers):
        yield data.PoolRef(name=item.name, kind=item.kind, api_group=item.api_group)
    by_kind = networks.networks
    fixed = by_kind.ipv4 + by_kind.ipv6
    dynamic = by_kind.ipv4_dhcp + by_kind.ipv6_dhcp + by_kind.ipv6_slaac
    for network in fixed:
        yield _pool_ref(network, machine)
    for route in (
        *(route for network in fixed for route in network.routes),
        *(route for network in dynamic for route in network.routes),
    ):
        if not route.gateway.string:
            yield _pool_ref(route.gateway, machine)
        yield from _pool_ref_by_name(route.services.dns_from_ip_pool)
    yield from _pool_ref_by_name(networks.services.dns_from_ip_pool)


def _pool_ref_by_name(name: str) -> Iterator[data.PoolRef]:
    if name:
        yield data.PoolRef(name=name)


def _pool_ref(field: data.Network | data.Gateway, machine: Machine) -> data.PoolRef:
    """Return the pool of a network or gateway: by annotation, else by reference, else by name."""
    if field.from_pool_annotation.object:
        return data.PoolRef(name=_annotation_value(field.from_pool_annotation, machine))
    if field.from_pool_ref.name:
        return field.from_pool_ref
    name = field.ip_address_from_ip_pool if isinstance(field, data.Network) else field.from_ip_pool
    if not name:
        raise errors.InvalidError("fromPoolRef needs to contain a reference to an IPPool")
    return data.PoolRef(name=name)


def _annotation_value(source: data.ObjectAnnotation, machine: Machine) -> str:
    text = machine.of(source.object).metadata.annotations.get(source.annotation)
    if text is None:
        raise errors.NotFoundError(f"the {source.object} has no annotation {source.annotation}")
    return text


def claims(template: data.Metal3DataTemplate, machine: Machine, *, named_by_host: bool = False) -> list[actions.Claim]:
    """Return the claims of a machine, one for each pool, owned by its data object.

    With ``named_by_host`` the host's name begins their names, so that ``preAllocations`` of a pool can give each host
    an address that it keeps; otherwise the data object's does.
    """
    named_after = machine.baremetalhost if named_by_host else machine.datum
    return [
        _claim(ref, machine.datum, name=f"{named_after.metadata.name}-{ref.name}")
        for ref in pools(template, machine).values()
    ]


def _claim(ref: data.PoolRef, owner: data.Metal3Data, *, name: str) -> actions.Claim:
    metadata = meta.ObjectMeta(
        name=name,
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
    pool_ref = capi.PoolRef(name=ref.name, kind=ref.kind, api_group=ref.api_group)
    return capi.IPAddressClaim(
        api_version=f"{capi.GROUP}/{capi.VERSIONS[0]}",
        kind="IPAddressClaim",
        metadata=metadata,
        spec=capi.ClaimSpec(pool_ref=pool_ref),
    )


def metadata(template: data.Metal3DataTemplate, machine: Machine, values: ValuesByPool) -> dict[str, str]:
    """Render the metadata; for duplicate keys the later kind of item wins. NotFoundError: no such NIC or address."""
    spec, out = template.spec.meta_data, dict[str, str]()
    out.update((item.key, _host_mac(item, machine)) for item in spec.from_host_interfaces)
    out.update((item.key, _values(values, item.name).address) for item in spec.addresses)
    out.update((item.key, str(_values(values, item.name).prefix)) for item in spec.prefixes)
    out.update((item.key, _values(values, item.name).gateway) for item in spec.gateways)
    out.update((item.key, ",".join(_values(values, item.name).dns_servers)) for item in spec.dns_servers)
    index = machine.datum.spec.index
    out.update((item.key, f"{item.prefix}{item.offset + index * item.step}{item.suffix}") for item in spec.indexes)
    out.update((item.key, machine.datum.metadata.namespace) for item in spec.namespaces)
    out.update((item.key, machine.of(item.object).metadata.name) for item in spec.object_names)
    out.update((item.key, machine.of(item.object).metadata.labels.get(item.label, "")) for item in spec.from_labels)
    noted = spec.from_annotations
    out.update((item.key, machine.of(item.object).metadata.annotations.get(item.annotation, "")) for item in noted)
    out.update((item.key, item.value) for item in spec.strings)
    names = (machine.datum.metadata.namespace, machine.baremetalhost.metadata.name, machine.metal3machine.metadata.name)
    return {**out, "providerid": "/".join(names)}


def _values(values: ValuesByPool, pool: str) -> PoolValues:
    if pool not in values:
        raise errors.NotFoundError(f"no address has been allocated from pool {pool} yet")
    return values[pool]


def _host_mac(source: data.FromHostInterface, machine: Machine) -> str:
    host = machine.baremetalhost
    if not source.from_boot_mac:
        return _nic_mac(source.interface, host)
    if not host.spec.boot_mac_address:
        raise errors.NotFoundError(f"host {host.metadata.name} has no boot MAC address")
    return host.spec.boot_mac_address


def _nic_mac(name: str, host: data.BareMetalHost) -> str:
    mac = next((nic.mac for nic in host.status.hardware.nics if nic.name == name), None)
    if mac is None:
        raise errors.NotFoundError(f"host {host.metadata.name} has no NIC {name}")
    return mac


def network_data(template: data.Metal3DataTemplate, machine: Machine, values: ValuesByPool) -> schema.Json:
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
            *(
                _network(kind, network, machine, values)
                for kind, family_networks in fixed
                for network in family_networks
            ),
            *(
                _network_base(kind, network, machine, values)
                for kind, family_networks in dynamic
                for network in family_networks
            ),
        ],
        "services": _services(spec.services, values),
    }


def text(rendered: Mapping[str, object]) -> str:
    """Return the content of a Secret: YAML with sorted keys."""
    return yaml.safe_dump(dict(rendered), sort_keys=True, default_flow_style=False)


def _links(links: data.Links, machine: Machine) -> list[schema.Json]:
    macs: dict[str, str] = {}
    nics = [_link(ethernet, ethernet.type, ethernet.mac_address, machine, macs) for ethernet in links.ethernets]
    bonds = [_bond(bond, machine, macs) for bond in links.bonds]
    vlans = [_vlan(vlan, machine, macs) for vlan in links.vlans]
    return [*bonds, *nics, *vlans]


def _link(
    link: data.Ethernet | data.Bond, kind: str, mac: data.Mac, machine: Machine, macs: dict[str, str]
) -> schema.Json:
    underlying = [macs.get(name, "") for name in link.bond_links] if isinstance(link, data.Bond) else []
    address = _mac(mac, machine) or next(filter(None, underlying), "")
    macs[link.id] = address
    return {
        "type": kind,
        "id": link.id,
        "mtu": link.mtu,
        **({"ethernet_mac_address": address} if address else {}),
        **({"name": link.name} if link.name else {}),
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


def _parameters(parameters: object) -> Iterator[tuple[str, object]]:
    """Yield the parameters of a bond, from a map or from a list of names with values."""
    if isinstance(parameters, dict):
        yield from parameters.items()
    for parameter in parameters if isinstance(parameters, list) else ():
        if isinstance(parameter, dict) and "name" in parameter:
            yield str(parameter["name"]), parameter.get("value")


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


def _mac(source: data.Mac, machine: Machine) -> str:
    if source.from_host_interface:
        return _nic_mac(source.from_host_interface, machine.baremetalhost)
    return _annotation_value(source.from_annotation, machine) if source.from_annotation.object else source.string


def _network_base(
    kind: str, network: data.Network | data.DynamicNetwork, machine: Machine, values: ValuesByPool
) -> schema.Json:
    routes = [_route(route, machine, values) for route in network.routes]
    return {"type": kind, "id": network.id, "network_id": network.id, "link": network.link, "routes": routes}


def _network(kind: str, network: data.Network, machine: Machine, values: ValuesByPool) -> schema.Json:
    allocated = _values(values, _pool_ref(network, machine).name)
    address = ranges.parse_address(allocated.address)
    if kind != f"ipv{int(address.family)}":
        raise errors.InvalidError(f"network {network.id} is {kind}, but its pool allocated {address}")
    mask = _mask(address.family, allocated.prefix)
    return {**_network_base(kind, network, machine, values), "ip_address": allocated.address, "netmask": mask}


def _mask(family: ranges.Family, prefix: int) -> str:
    if not 0 <= prefix <= family.bits:
        raise errors.InvalidError(f"prefix length {prefix} is invalid for IPv{int(family)} (0 to {family.bits})")
    host = family.bits - prefix
    return ranges.format_address(family, (1 << family.bits) - (1 << host))


def _route(route: data.Route, machine: Machine, values: ValuesByPool) -> schema.Json:
    network = ranges.parse_address(route.network)
    gateway = route.gateway.string
    if not gateway:
        pool = _pool_ref(route.gateway, machine).name
        gateway = _values(values, pool).gateway
        if not gateway:
            raise errors.NotFoundError(f"pool {pool} has no gateway for the route to {route.network}/{route.prefix}")
    return {
        "network": route.network,
        "netmask": _mask(network.family, route.prefix),
        "gateway": gateway,
        "services": _services(route.services, values),
    }


def _services(services: data.Services, values: ValuesByPool) -> list[schema.Json]:
    pool = services.dns_from_ip_pool
    addresses = (*services.dns, *(_values(values, pool).dns_servers if pool else ()))
    return [{"type": "dns", "address": address} for address in addresses]
