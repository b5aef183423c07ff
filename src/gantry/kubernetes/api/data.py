"""Metal3DataTemplate, Metal3DataClaim and Metal3Data, and what templates may ask of a host (contract: kubernetes 1.7).

Of ``infrastructure.cluster.x-k8s.io``, whose definitions belong to Cluster API's provider Metal3; v1beta1 and v1beta2
spell some lists differently, and one struct reads both. Who calls it: ``kubernetes.claims.template``.
"""

from typing import Annotated

import msgspec

from gantry.kubernetes.api import meta, schema

GROUP = "infrastructure.cluster.x-k8s.io"
HOST_GROUP = "metal3.io"
FINALIZER = "metal3data.infrastructure.cluster.x-k8s.io"
V1 = ("v1beta1",)
V2 = ("v1beta2",)

OBJECTS = ("machine", "metal3machine", "baremetalhost")

Key = Annotated[str, schema.Rule(required=True)]
Object = Annotated[str, schema.Rule(required=True, enum=OBJECTS)]
Length = Annotated[int, schema.Rule(minimum=0, maximum=128)]
Mtu = Annotated[int, schema.Rule(maximum=9000, default=1500)]


class String(meta.Plain, frozen=True):
    """A text under a key."""

    key: Key = ""
    value: Annotated[str, schema.Rule(required=True)] = ""


class ObjectName(meta.Plain, frozen=True):
    """The name of an object."""

    key: Key = ""
    object: Object = ""


class Index(meta.Plain, frozen=True):
    """A number that grows with the index of the data object, with text around it."""

    key: Key = ""
    offset: Annotated[int, schema.Rule(minimum=0)] = 0
    step: Annotated[int, schema.Rule(default=1)] = 1
    prefix: str = ""
    suffix: str = ""


class Namespace(meta.Plain, frozen=True):
    """The namespace of the data object."""

    key: Key = ""


class FromPool(meta.Plain, frozen=True):
    """Something that a pool says of the address that it gave."""

    key: Key = ""
    name: Annotated[str, schema.Rule(required=True)] = ""
    api_group: str = ""
    kind: str = ""


class FromHostInterface(meta.Plain, frozen=True):
    """The MAC address of a host's interface."""

    key: Key = ""
    interface: str = ""
    from_boot_mac: bool = msgspec.field(default=False, name="fromBootMAC")


class FromLabel(meta.Plain, frozen=True):
    """A label of an object."""

    key: Key = ""
    object: Object = ""
    label: Annotated[str, schema.Rule(required=True)] = ""


class FromAnnotation(meta.Plain, frozen=True):
    """An annotation of an object."""

    key: Key = ""
    object: Object = ""
    annotation: Annotated[str, schema.Rule(required=True)] = ""


Pools1 = Annotated[tuple[FromPool, ...], schema.Rule(only=V1)]
Pools2 = Annotated[tuple[FromPool, ...], schema.Rule(only=V2)]


class MetaData(meta.Plain, frozen=True):
    """What a host is told about itself, each item under its key; the lists are written in a fixed order."""

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
        """What asks for addresses, in either spelling."""
        return self.addresses_v1 + self.addresses_v2

    @property
    def prefixes(self) -> tuple[FromPool, ...]:
        """What asks for prefix lengths, in either spelling."""
        return self.prefixes_v1 + self.prefixes_v2

    @property
    def gateways(self) -> tuple[FromPool, ...]:
        """What asks for gateways, in either spelling."""
        return self.gateways_v1 + self.gateways_v2

    @property
    def dns_servers(self) -> tuple[FromPool, ...]:
        """What asks for DNS servers, in either spelling."""
        return self.dns_servers_v1 + self.dns_servers_v2


class ObjectAnnotation(meta.Plain, frozen=True):
    """The annotation of an object that says the wanted text."""

    object: Annotated[str, schema.Rule(enum=OBJECTS)] = ""
    annotation: str = ""


class Mac(meta.Plain, frozen=True):
    """Where a MAC address comes from."""

    string: str = ""
    from_host_interface: str = ""
    from_annotation: ObjectAnnotation = ObjectAnnotation()


class Ethernet(meta.Plain, frozen=True):
    """A network card."""

    type: Annotated[
        str,
        schema.Rule(required=True, enum=("bridge", "dvs", "hw_veb", "hyperv", "ovs", "tap", "vhostuser", "vif", "phy")),
    ] = ""
    id: Annotated[str, schema.Rule(required=True)] = ""
    name: str = ""
    mtu: Mtu = 1500
    mac_address: Annotated[Mac, schema.Rule(required=True)] = Mac()


class Bond(meta.Plain, frozen=True):
    """Cards that work as one. ``parameters`` are a map, or a list of names with values."""

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
    """A pool of some provider."""

    name: str = ""
    kind: str = ""
    api_group: str = ""


class Gateway(meta.Plain, frozen=True):
    """Where a gateway comes from."""

    string: str = ""
    from_ip_pool: str = msgspec.field(default="", name="fromIPPool")
    from_pool_ref: PoolRef = PoolRef()
    from_pool_annotation: ObjectAnnotation = ObjectAnnotation()


class Services(meta.Plain, frozen=True):
    """DNS servers that are said, and those that a pool says."""

    dns: tuple[str, ...] = ()
    dns_from_ip_pool: str = msgspec.field(default="", name="dnsFromIPPool")


class Route(meta.Plain, frozen=True):
    """A way to a network."""

    network: Annotated[str, schema.Rule(required=True)] = ""
    prefix: Length = 0
    gateway: Annotated[Gateway, schema.Rule(required=True)] = Gateway()
    services: Services = Services()


class Network(meta.Plain, frozen=True):
    """Addresses of a link from a pool: the annotation goes before the reference, that before the name."""

    id: Annotated[str, schema.Rule(required=True)] = ""
    link: Annotated[str, schema.Rule(required=True)] = ""
    ip_address_from_ip_pool: str = msgspec.field(default="", name="ipAddressFromIPPool")
    from_pool_ref: PoolRef = PoolRef()
    from_pool_annotation: ObjectAnnotation = ObjectAnnotation()
    routes: tuple[Route, ...] = ()


class DynamicNetwork(meta.Plain, frozen=True):
    """Addresses of a link that it finds by itself."""

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
    """How a host is connected."""

    links: Links = Links()
    networks: Networks = Networks()
    services: Services = Services()


class TemplateSpec(meta.Plain, frozen=True):
    """What the machines of a Cluster are told."""

    cluster_name: str = ""
    meta_data: MetaData = MetaData()
    network_data: NetworkData = NetworkData()


class TemplateStatus(meta.Plain, frozen=True):
    """Which data claim has which index, a map (v1beta1) or a list (v1beta2), and which data object (seed).

    The seed's own map of an index to a machine is not written: today's definitions have the other under that name.
    """

    indexes: object = None
    data_names: dict[str, str] = {}
    last_updated: Annotated[str, schema.Rule(format="date-time")] = ""


class Metal3DataTemplate(meta.Resource, frozen=True):
    """Texts for the machines of a Cluster, with what pools give them."""

    spec: TemplateSpec = TemplateSpec()
    status: TemplateStatus = TemplateStatus()


class DataClaimSpec(meta.Plain, frozen=True):
    """Which template is asked."""

    template: Annotated[meta.ObjectReference, schema.Rule(required=True)] = meta.ObjectReference()


class DataClaimStatus(meta.Plain, frozen=True):
    """The data object that was made, or why there is none."""

    rendered_data: meta.ObjectReference = meta.ObjectReference()
    error_message: str = ""


class Metal3DataClaim(meta.Resource, frozen=True):
    """A machine's request for the texts of a template."""

    spec: DataClaimSpec = DataClaimSpec()
    status: DataClaimStatus = DataClaimStatus()


class DataSpec(meta.Plain, frozen=True):
    """Index, claim and template of a data object, and the Secrets that it makes."""

    index: Annotated[int, schema.Rule(minimum=0)] = 0
    claim: Annotated[meta.ObjectReference, schema.Rule(required=True)] = meta.ObjectReference()
    template: meta.ObjectReference = meta.ObjectReference()
    meta_data: meta.ObjectReference = meta.ObjectReference()
    network_data: meta.ObjectReference = meta.ObjectReference()
    template_reference: str = ""


class DataStatus(meta.Plain, frozen=True):
    """Whether the Secrets are there, or why not."""

    ready: bool = False
    error_message: str = ""


class Metal3Data(meta.Resource, frozen=True):
    """The texts of a template for one machine."""

    spec: DataSpec = DataSpec()
    status: DataStatus = DataStatus()


class HostNic(meta.Plain, frozen=True):
    """A network card that inspection has found."""

    name: str = ""
    mac: str = ""


class Hardware(meta.Plain, frozen=True):
    """What inspection has found."""

    nics: tuple[HostNic, ...] = ()


class HostSpec(meta.Plain, frozen=True):
    """What a template may ask of a host's spec."""

    boot_mac_address: str = msgspec.field(default="", name="bootMACAddress")


class HostStatus(meta.Plain, frozen=True):
    """What a template may ask of a host's status."""

    hardware: Hardware = Hardware()


class BareMetalHost(meta.Resource, frozen=True):
    """A machine of metal, as far as templates ask."""

    spec: HostSpec = HostSpec()
    status: HostStatus = HostStatus()
