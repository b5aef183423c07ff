"""Metal3Cluster, Metal3DataTemplate, Metal3DataClaim, Metal3Data, and the BareMetalHost of templates.

The group ``infrastructure.cluster.x-k8s.io`` belongs to Metal3's provider for Cluster API, which installs the
definitions. v1beta1 and v1beta2 name some lists differently; one struct reads both.

See contracts/ippool-claims.md#templates.
"""

from typing import Annotated

import msgspec

from gantry.kubernetes.api import meta, schema

GROUP = "infrastructure.cluster.x-k8s.io"
HOST_GROUP = "metal3.io"
FINALIZER = "metal3data.infrastructure.cluster.x-k8s.io"
V1BETA1 = ("v1beta1",)
V1BETA2 = ("v1beta2",)

OBJECTS = ("machine", "metal3machine", "baremetalhost")

ItemKey = Annotated[str, schema.Rule(required=True)]
Object = Annotated[str, schema.Rule(required=True, enum=OBJECTS)]
Length = Annotated[int, schema.Rule(minimum=0, maximum=128)]
Mtu = Annotated[int, schema.Rule(maximum=9000, default=1500)]


class String(meta.Plain, frozen=True):
    """A fixed value."""

    key: ItemKey = ""
    value: Annotated[str, schema.Rule(required=True)] = ""


class ObjectName(meta.Plain, frozen=True):
    """The name of an object."""

    key: ItemKey = ""
    object: Object = ""


class Index(meta.Plain, frozen=True):
    """A number derived from the index of the data object: prefix, offset + index * step, suffix."""

    key: ItemKey = ""
    offset: Annotated[int, schema.Rule(minimum=0)] = 0
    step: Annotated[int, schema.Rule(default=1)] = 1
    prefix: str = ""
    suffix: str = ""


class Namespace(meta.Plain, frozen=True):
    """The namespace of the data object."""

    key: ItemKey = ""


class FromPool(meta.Plain, frozen=True):
    """A value of the address allocated from a pool."""

    key: ItemKey = ""
    name: Annotated[str, schema.Rule(required=True)] = ""
    api_group: str = ""
    kind: str = ""


class FromHostInterface(meta.Plain, frozen=True):
    """The MAC address of a network interface of the host."""

    key: ItemKey = ""
    interface: str = ""
    from_boot_mac: bool = msgspec.field(default=False, name="fromBootMAC")


class FromLabel(meta.Plain, frozen=True):
    """A label of an object."""

    key: ItemKey = ""
    object: Object = ""
    label: Annotated[str, schema.Rule(required=True)] = ""


class FromAnnotation(meta.Plain, frozen=True):
    """An annotation of an object."""

    key: ItemKey = ""
    object: Object = ""
    annotation: Annotated[str, schema.Rule(required=True)] = ""


Pools1 = Annotated[tuple[FromPool, ...], schema.Rule(only=V1BETA1)]
Pools2 = Annotated[tuple[FromPool, ...], schema.Rule(only=V1BETA2)]


class MetaData(meta.Plain, frozen=True):
    """The items of a host's metadata, each with its key."""

    strings: tuple[String, ...] = ()
    object_names: tuple[ObjectName, ...] = ()
    indexes: tuple[Index, ...] = ()
    namespaces: tuple[Namespace, ...] = ()
    addresses_v1: Pools1 = msgspec.field(default=(), name="ipAddressesFromIPPool")
    addresses_v2: Pools2 = msgspec.field(default=(), name="ipAddressesFromPool")
    prefixes_v1: Pools1 = msgspec.field(default=(), name="prefixesFromIPPool")
    prefixes_v2: Pools2 = msgspec.field(default=(), name="prefixesFromPool")
    gateways_v1: Pools1 = msgspec.field(default=(), name="gatewaysFromIPPool")
    gateways_v2: Pools2 = msgspec.field(default=(), name="gatewaysFromPool")
    dns_servers_v1: Pools1 = msgspec.field(default=(), name="dnsServersFromIPPool")
    dns_servers_v2: Pools2 = msgspec.field(default=(), name="dnsServersFromPool")
    from_host_interfaces: tuple[FromHostInterface, ...] = ()
    from_labels: tuple[FromLabel, ...] = ()
    from_annotations: tuple[FromAnnotation, ...] = ()

    @property
    def addresses(self) -> tuple[FromPool, ...]:
        """The items for addresses, of either version."""
        return self.addresses_v1 + self.addresses_v2

    @property
    def prefixes(self) -> tuple[FromPool, ...]:
        """The items for prefix lengths, of either version."""
        return self.prefixes_v1 + self.prefixes_v2

    @property
    def gateways(self) -> tuple[FromPool, ...]:
        """The items for gateways, of either version."""
        return self.gateways_v1 + self.gateways_v2

    @property
    def dns_servers(self) -> tuple[FromPool, ...]:
        """The items for DNS servers, of either version."""
        return self.dns_servers_v1 + self.dns_servers_v2


class ObjectAnnotation(meta.Plain, frozen=True):
    """An annotation of an object, whose value is used."""

    object: Annotated[str, schema.Rule(enum=OBJECTS)] = ""
    annotation: str = ""


class Mac(meta.Plain, frozen=True):
    """The source of a MAC address."""

    string: str = ""
    from_host_interface: str = ""
    from_annotation: ObjectAnnotation = ObjectAnnotation()


class Ethernet(meta.Plain, frozen=True):
    """A NIC."""

    type: Annotated[
        str,
        schema.Rule(required=True, enum=("bridge", "dvs", "hw_veb", "hyperv", "ovs", "tap", "vhostuser", "vif", "phy")),
    ] = ""
    id: Annotated[str, schema.Rule(required=True)] = ""
    name: str = ""
    mtu: Mtu = 1500
    mac_address: Annotated[Mac, schema.Rule(required=True)] = Mac()


class Bond(meta.Plain, frozen=True):
    """A bond of NICs. ``parameters`` are a map, or a list of names with values."""

    id: Annotated[str, schema.Rule(required=True)] = ""
    name: str = ""
    mtu: Mtu = 1500
    bond_mode: Annotated[
        str,
        schema.Rule(
            required=True,
            enum=("balance-rr", "active-backup", "balance-xor", "broadcast", "balance-tlb", "balance-alb", "802.3ad"),
        ),
    ] = ""
    bond_xmit_hash_policy: str = ""
    bond_links: tuple[str, ...] = ()
    mac_address: Mac = Mac()
    parameters: object = None


class Vlan(meta.Plain, frozen=True):
    """A VLAN on another link."""

    id: Annotated[str, schema.Rule(required=True)] = ""
    name: str = ""
    mtu: Mtu = 1500
    vlan_id: Annotated[int, schema.Rule(required=True, minimum=0, maximum=4096)] = msgspec.field(
        default=-1, name="vlanID"
    )
    vlan_link: Annotated[str, schema.Rule(required=True)] = ""
    mac_address: Mac = Mac()


class Links(meta.Plain, frozen=True):
    """The links of a host."""

    bonds: tuple[Bond, ...] = ()
    ethernets: tuple[Ethernet, ...] = ()
    vlans: tuple[Vlan, ...] = ()


class PoolRef(meta.Plain, frozen=True):
    """A pool of any provider."""

    name: str = ""
    kind: str = ""
    api_group: str = ""


class Gateway(meta.Plain, frozen=True):
    """The source of a gateway."""

    string: str = ""
    from_ip_pool: str = msgspec.field(default="", name="fromIPPool")
    from_pool_ref: PoolRef = PoolRef()
    from_pool_annotation: ObjectAnnotation = ObjectAnnotation()


class Services(meta.Plain, frozen=True):
    """DNS servers, listed or from a pool."""

    dns: tuple[str, ...] = ()
    dns_from_ip_pool: str = msgspec.field(default="", name="dnsFromIPPool")


class Route(meta.Plain, frozen=True):
    """A route."""

    network: Annotated[str, schema.Rule(required=True)] = ""
    prefix: Length = 0
    gateway: Annotated[Gateway, schema.Rule(required=True)] = Gateway()
    services: Services = Services()


class Network(meta.Plain, frozen=True):
    """A network with an address from a pool, given by annotation, else by reference, else by name."""

    id: Annotated[str, schema.Rule(required=True)] = ""
    link: Annotated[str, schema.Rule(required=True)] = ""
    ip_address_from_ip_pool: str = msgspec.field(default="", name="ipAddressFromIPPool")
    from_pool_ref: PoolRef = PoolRef()
    from_pool_annotation: ObjectAnnotation = ObjectAnnotation()
    routes: tuple[Route, ...] = ()


class DynamicNetwork(meta.Plain, frozen=True):
    """A network with an address from DHCP or SLAAC."""

    id: Annotated[str, schema.Rule(required=True)] = ""
    link: Annotated[str, schema.Rule(required=True)] = ""
    routes: tuple[Route, ...] = ()


class Networks(meta.Plain, frozen=True):
    """The networks of a host."""

    ipv4: tuple[Network, ...] = ()
    ipv6: tuple[Network, ...] = ()
    ipv4_dhcp: tuple[DynamicNetwork, ...] = msgspec.field(default=(), name="ipv4DHCP")
    ipv6_dhcp: tuple[DynamicNetwork, ...] = msgspec.field(default=(), name="ipv6DHCP")
    ipv6_slaac: tuple[DynamicNetwork, ...] = msgspec.field(default=(), name="ipv6SLAAC")


class NetworkData(meta.Plain, frozen=True):
    """The network configuration of a host."""

    links: Links = Links()
    networks: Networks = Networks()
    services: Services = Services()


class TemplateSpec(meta.Plain, frozen=True):
    """The metadata and network data of the machines of a Cluster."""

    cluster_name: str = ""
    meta_data: MetaData = MetaData()
    network_data: NetworkData = NetworkData()


class TemplateStatus(meta.Plain, frozen=True):
    """The index of each data claim, a map (v1beta1) or a list (v1beta2), and its data object.

    The design's map of index to machine is not written, because current definitions use its name for the map above.
    """

    indexes: object = None
    data_names: dict[str, str] = {}
    last_updated: Annotated[str, schema.Rule(format="date-time")] = ""


class Metal3DataTemplate(meta.Resource, frozen=True):
    """A template of the metadata and network data of a Cluster's machines."""

    spec: TemplateSpec = TemplateSpec()
    status: TemplateStatus = TemplateStatus()


class DataClaimSpec(meta.Plain, frozen=True):
    """The template of a data claim."""

    template: Annotated[meta.ObjectReference, schema.Rule(required=True)] = meta.ObjectReference()


class DataClaimStatus(meta.Plain, frozen=True):
    """The data object of a data claim, or why there is none."""

    rendered_data: meta.ObjectReference = meta.ObjectReference()
    error_message: str = ""


class Metal3DataClaim(meta.Resource, frozen=True):
    """A machine's request for the rendered data of a template."""

    spec: DataClaimSpec = DataClaimSpec()
    status: DataClaimStatus = DataClaimStatus()


class DataSpec(meta.Plain, frozen=True):
    """Index, claim and template of a data object, and its Secrets."""

    index: Annotated[int, schema.Rule(minimum=0)] = 0
    claim: Annotated[meta.ObjectReference, schema.Rule(required=True)] = meta.ObjectReference()
    template: meta.ObjectReference = meta.ObjectReference()
    meta_data: meta.ObjectReference = meta.ObjectReference()
    network_data: meta.ObjectReference = meta.ObjectReference()
    template_reference: str = ""


class DataStatus(meta.Plain, frozen=True):
    """Whether the Secrets exist, or why not."""

    ready: bool = False
    error_message: str = ""


class Metal3Data(meta.Resource, frozen=True):
    """The rendered data of a template for one machine."""

    spec: DataSpec = DataSpec()
    status: DataStatus = DataStatus()


class HostNic(meta.Plain, frozen=True):
    """A NIC found by inspection."""

    name: str = ""
    mac: str = ""


class Hardware(meta.Plain, frozen=True):
    """Hardware found by inspection."""

    nics: tuple[HostNic, ...] = ()


class HostSpec(meta.Plain, frozen=True):
    """The fields of a host's spec that templates use."""

    boot_mac_address: str = msgspec.field(default="", name="bootMACAddress")


class HostStatus(meta.Plain, frozen=True):
    """The fields of a host's status that templates use."""

    hardware: Hardware = Hardware()


class BareMetalHost(meta.Resource, frozen=True):
    """A physical machine, with the fields that templates use."""

    spec: HostSpec = HostSpec()
    status: HostStatus = HostStatus()


class Metal3Cluster(meta.Resource, frozen=True):
    """The bare-metal infrastructure of a Cluster; it owns the pools of the Cluster. Only its metadata is read."""


def metal3_cluster_ref(namespace: str, name: str) -> meta.Ref:
    """Return the identity of a Metal3Cluster."""
    return meta.Ref(GROUP, "Metal3Cluster", namespace, name)
