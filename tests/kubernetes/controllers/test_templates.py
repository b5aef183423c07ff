"""From a data claim to two Secrets, and its deletion."""

import base64

import pytest
import yaml
from tests.kubernetes.claims import server
from tests.kubernetes.controllers import api
from tests.kubernetes.controllers.test_controllers import addresses, claim_ref

from gantry.kubernetes.api import capi, data, meta, schema
from gantry.kubernetes.controllers import template_cache, templates
from gantry.runtime import http_interface, simulated

INFRA = data.GROUP
METAL = f"apis/{INFRA}/v1beta2/namespaces/{server.SITE}/metal3machines"
MACHINES = f"apis/cluster.x-k8s.io/v1beta2/namespaces/{server.SITE}/machines"
HOSTS = f"apis/metal3.io/v1alpha1/namespaces/{server.SITE}/baremetalhosts"
SPEC: dict[str, schema.Json] = {
    "v1beta1": {
        "metaData": {"ipAddressesFromIPPool": [{"key": "ip", "name": "pool-1"}], "indexes": [{"key": "rank"}]},
        "networkData": {"networks": {"ipv4": [{"id": "n", "link": "em1", "ipAddressFromIPPool": "pool-1"}]}},
    },
    "v1beta2": {"metaData": {"ipAddressesFromPool": [{"key": "ip", "name": "pool-1"}], "indexes": [{"key": "rank"}]}},
}


def infra(kind: str, name: str, version: str, **more: object) -> schema.Json:
    metadata = {"name": name, "namespace": server.SITE}
    return {"apiVersion": f"{INFRA}/{version}", "kind": kind, "metadata": metadata, **more}


def data_claim(number: int, version: str) -> schema.Json:
    claim = infra("Metal3DataClaim", f"dc-{number}", version, spec={"template": {"name": "workers"}})
    owner = {"apiVersion": f"{INFRA}/v1beta2", "kind": "Metal3Machine", "name": f"mm-{number}", "uid": "u"}
    return {**claim, "metadata": {**server.metadata(claim), "ownerReferences": [owner]}}


def machines(kube: api.SimulatedKubernetes, *numbers: int) -> None:
    """Create machines, each with a host."""
    for number in numbers:
        owner = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": f"m-{number}", "uid": "u"}
        host = {"metal3.io/BareMetalHost": f"{server.SITE}/host-{number}"}
        for path, kind, name, more in (
            (METAL, "Metal3Machine", f"mm-{number}", {"ownerReferences": [owner], "annotations": host}),
            (MACHINES, "Machine", f"m-{number}", {}),
            (HOSTS, "BareMetalHost", f"host-{number}", {}),
        ):
            metadata = {"name": name, "namespace": server.SITE, **more}
            kube.api.plain[f"{path}/{name}"] = {"apiVersion": "x/v1", "kind": kind, "metadata": metadata}


def ref(kind: str, name: str) -> meta.Ref:
    return template_cache.ref(kind, server.SITE, name)


def secret(kube: api.SimulatedKubernetes, name: str, key: str) -> object:
    """Return the content of a Secret, None if it does not exist."""
    body = kube.api.plain.get(f"api/v1/namespaces/{server.SITE}/secrets/{name}")
    if body is None:
        return None
    assert isinstance(body["data"], dict)
    return yaml.safe_load(base64.b64decode(body["data"][key]))


def datum(kube: api.SimulatedKubernetes, name: str) -> data.Metal3Data | None:
    body = kube.api.known.objects.get(ref("Metal3Data", name))
    parsed = server.struct(body) if body else None
    return parsed if isinstance(parsed, data.Metal3Data) else None


def status(kube: api.SimulatedKubernetes) -> schema.Json:
    template_status = kube.api.known.get(ref("Metal3DataTemplate", "workers")).get("status", {})
    assert isinstance(template_status, dict)
    return template_status


@pytest.mark.promise("claims-51", "claims-52", "claims-53")
@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_each_data_claim_gets_texts_with_addresses_of_its_own(kube: api.SimulatedKubernetes, version: str) -> None:
    async def check() -> None:
        kube.put(server.pool(prefix=24), infra("Metal3DataTemplate", "workers", version, spec=SPEC[version]))
        machines(kube, 1, 2)
        kube.put(data_claim(1, version), data_claim(2, version))
        kube.start(with_templates=True)
        await kube.until(
            lambda: all(
                machine_data and machine_data.status.ready
                for machine_data in (datum(kube, f"workers-{n}") for n in (0, 1))
            )
        )
        secrets = [secret(kube, f"mm-{number}-metadata", "metaData") for number in (1, 2)]
        ranks = [(values["ip"], values["rank"]) for values in secrets if isinstance(values, dict)]
        assert sorted(rank for _, rank in ranks) == ["0", "1"]
        assert sorted(ip for ip, _ in ranks) == addresses(kube) == ["10.0.0.1", "10.0.0.2"]
        if version == "v1beta1":
            network = secret(kube, "mm-1-networkdata", "networkData")
            assert isinstance(network, dict)
            assert network["networks"][0]["ip_address"] == ranks[0][0]
        pairs = {("dc-1", int(ranks[0][1])), ("dc-2", int(ranks[1][1]))}

        def current() -> object:
            indexes = status(kube).get("indexes", {})
            if isinstance(indexes, list):
                assert version == "v1beta2"
                return {(index["name"], index["index"]) for index in indexes}
            return set(indexes.items()) if isinstance(indexes, dict) else None

        await kube.until(lambda: current() == pairs)
        assert status(kube)["dataNames"] == {name: f"workers-{index}" for name, index in pairs}
        updated = str(status(kube)["lastUpdated"])
        assert meta.moment(updated)
        await kube.world.clock.sleep(60)
        assert status(kube)["lastUpdated"] == updated
        kube.delete(ref("Metal3DataClaim", "dc-1"))
        await kube.until(lambda: ref("Metal3DataClaim", "dc-1") not in kube.api.known.objects)
        assert addresses(kube) == [ranks[1][0]]
        await kube.until(lambda: current() == pairs - {("dc-1", int(ranks[0][1]))})
        assert status(kube)["dataNames"] == {"dc-2": f"workers-{ranks[1][1]}"}
        assert str(status(kube)["lastUpdated"]) > updated

    kube.world.run(check())


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_a_template_whose_definition_lacks_a_field_is_reported_once(
    kube: api.SimulatedKubernetes, version: str
) -> None:
    async def check() -> None:
        kube.api.known.pruned = ("dataNames",)
        kube.put(server.pool(prefix=24), infra("Metal3DataTemplate", "workers", version, spec=SPEC[version]))
        machines(kube, 1)
        kube.put(data_claim(1, version))
        kube.start(with_templates=True)
        await kube.until(lambda: "indexes" in status(kube))
        assert "dataNames" not in status(kube)
        sent = len(kube.api.requests)
        await kube.world.clock.sleep(60)
        assert not [
            request
            for request in kube.api.requests[sent:]
            if request[0] == "PATCH" and "metal3datatemplates" in request[1]
        ]

    kube.world.run(check())


def test_a_data_object_says_what_it_waits_for_and_goes_on_when_it_is_there(kube: api.SimulatedKubernetes) -> None:
    async def check() -> None:
        def says(text: str) -> bool:
            machine_data = datum(kube, "workers-0")
            return machine_data is not None and text in machine_data.status.error_message

        kube.put(infra("Metal3DataTemplate", "workers", "v1beta2", spec=SPEC["v1beta2"]), data_claim(1, "v1beta2"))
        kube.start(with_templates=True)
        await kube.until(lambda: says("metal3machines/mm-1"))
        machines(kube, 1)
        kube.put(server.pool(pools=[{"start": "10.0.0.1", "end": "10.0.0.1"}]), server.claim("first"))
        await kube.until(lambda: says("IP Allocation for pool-1 failed : Exhausted"))
        kube.delete(claim_ref("first"))
        await kube.until(lambda: (machine_data := datum(kube, "workers-0")) is not None and machine_data.status.ready)
        assert not says("IP")

    kube.world.run(check())


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_a_deleted_data_object_keeps_its_address_until_its_data_claim_is_deleted(
    kube: api.SimulatedKubernetes, version: str
) -> None:
    async def check() -> None:
        full = [{"start": "10.0.0.1", "end": "10.0.0.1"}]
        kube.put(server.pool(pools=full), infra("Metal3DataTemplate", "workers", version, spec=SPEC[version]))
        machines(kube, 1)
        kube.put(data_claim(1, version))
        kube.start(with_templates=True)
        await kube.until(lambda: (machine_data := datum(kube, "workers-0")) is not None and machine_data.status.ready)
        kube.put(server.claim("waiting"))
        await kube.until(lambda: "Exhausted" in server.error(kube.api.known, "waiting"))
        kube.delete(ref("Metal3Data", "workers-0"))
        await kube.until(lambda: "InUse" in kube.api.event_reasons("workers-0"))
        await kube.world.clock.sleep(600)
        assert ref("Metal3Data", "workers-0") in kube.api.known.objects
        assert not server.address_of_claim(kube.api.known, "waiting")
        kube.delete(ref("Metal3DataClaim", "dc-1"))
        await kube.until(lambda: server.address_of_claim(kube.api.known, "waiting") == "10.0.0.1")
        assert ref("Metal3Data", "workers-0") not in kube.api.known.objects
        assert ref("Metal3DataClaim", "dc-1") not in kube.api.known.objects

    kube.world.run(check())


def test_a_data_claim_that_another_controller_still_needs_keeps_its_address(kube: api.SimulatedKubernetes) -> None:
    async def check() -> None:
        kube.put(server.pool(), infra("Metal3DataTemplate", "workers", "v1beta2", spec=SPEC["v1beta2"]))
        machines(kube, 1)
        claim = data_claim(1, "v1beta2")
        kube.put({**claim, "metadata": {**server.metadata(claim), "finalizers": ["example.org/deprovisioning"]}})
        kube.start(with_templates=True)
        await kube.until(lambda: (machine_data := datum(kube, "workers-0")) is not None and machine_data.status.ready)
        kube.delete(ref("Metal3DataClaim", "dc-1"))
        await kube.world.clock.sleep(600)
        assert addresses(kube) == ["10.0.0.1"]
        ours: schema.Json = {"metadata": {"finalizers": [templates.CLAIM_FINALIZER]}}
        kube.api.known.patch(ref("Metal3DataClaim", "dc-1"), ours)
        kube.api.notify()
        await kube.until(lambda: ref("Metal3DataClaim", "dc-1") not in kube.api.known.objects)
        assert not addresses(kube)

    kube.world.run(check())


def test_a_host_gets_its_preallocated_address_again_whatever_its_data_object(kube: api.SimulatedKubernetes) -> None:
    async def check() -> None:
        def ready(name: str) -> bool:
            return (machine_data := datum(kube, name)) is not None and machine_data.status.ready

        kube.put(server.pool(preAllocations={"host-2-pool-1": "10.0.0.3"}))
        kube.put(infra("Metal3DataTemplate", "workers", "v1beta2", spec=SPEC["v1beta2"]))
        machines(kube, 1, 2)
        kube.put(data_claim(1, "v1beta2"), data_claim(2, "v1beta2"))
        kube.start(with_templates=True, named_by_host=True)
        await kube.until(lambda: ready("workers-0") and ready("workers-1"))
        first = {"host-1-pool-1": "10.0.0.1", "host-2-pool-1": "10.0.0.3"}
        assert {name: server.address_of_claim(kube.api.known, name) for name in first} == first
        claims = {ref("Metal3DataClaim", f"dc-{number}") for number in (1, 2)}
        for claim in claims:
            kube.delete(claim)
        await kube.until(lambda: not claims & kube.api.known.objects.keys())
        machines(kube, 3)
        metal = kube.api.plain[f"{METAL}/mm-3"]
        server.metadata(metal)["annotations"] = {"metal3.io/BareMetalHost": f"{server.SITE}/host-2"}
        kube.put(data_claim(3, "v1beta2"))
        await kube.until(lambda: ready("workers-0"))
        assert addresses(kube) == [server.address_of_claim(kube.api.known, "host-2-pool-1")] == ["10.0.0.3"]

    kube.world.run(check())


def test_a_data_object_waits_for_the_former_claim_of_its_host_and_says_so(kube: api.SimulatedKubernetes) -> None:
    async def check() -> None:
        kube.put(server.pool(), infra("Metal3DataTemplate", "workers", "v1beta2", spec=SPEC["v1beta2"]))
        machines(kube, 1, 2)
        server.metadata(kube.api.plain[f"{METAL}/mm-2"])["annotations"] = {
            "metal3.io/BareMetalHost": f"{server.SITE}/host-1"
        }
        kube.put(data_claim(1, "v1beta2"))
        kube.start(with_templates=True, named_by_host=True)
        await kube.until(lambda: (machine_data := datum(kube, "workers-0")) is not None and machine_data.status.ready)
        kube.put(data_claim(2, "v1beta2"))
        message = "IPClaim host-1-pool-1 still belongs to Metal3Data workers-0"
        await kube.until(
            lambda: (
                (machine_data := datum(kube, "workers-1")) is not None and machine_data.status.error_message == message
            )
        )
        kube.delete(ref("Metal3DataClaim", "dc-1"))
        await kube.until(lambda: (machine_data := datum(kube, "workers-1")) is not None and machine_data.status.ready)

    kube.world.run(check())


def test_a_data_object_says_why_another_provider_gives_no_address(kube: api.SimulatedKubernetes) -> None:
    async def check() -> None:
        other = {"key": "ip", "name": "other", "kind": "InClusterIPPool", "apiGroup": capi.GROUP}
        spec = {"metaData": {"ipAddressesFromPool": [other]}}
        kube.put(infra("Metal3DataTemplate", "workers", "v1beta2", spec=spec), data_claim(1, "v1beta2"))
        machines(kube, 1)
        kube.start(with_templates=True)
        claim = meta.Ref(capi.GROUP, "IPAddressClaim", server.SITE, "workers-0-other")
        await kube.until(lambda: claim in kube.api.known.objects)
        ready = {"type": "Ready", "status": "False", "reason": "PoolExhausted", "message": "no address left"}
        kube.api.known.patch(claim, {"status": {"conditions": [ready]}}, subresource="status")
        kube.api.notify()
        message = "IP Allocation for other failed : no address left"
        await kube.until(
            lambda: (
                (machine_data := datum(kube, "workers-0")) is not None and machine_data.status.error_message == message
            )
        )

    kube.world.run(check())


def test_nothing_is_rendered_while_the_cluster_is_paused(kube: api.SimulatedKubernetes) -> None:
    async def check() -> None:
        spec = {**SPEC["v1beta2"], "clusterName": "edge"}
        kube.put(server.cluster("edge", paused=True), server.pool())
        kube.put(infra("Metal3DataTemplate", "workers", "v1beta2", spec=spec), data_claim(1, "v1beta2"))
        machines(kube, 1)
        kube.start(with_templates=True)
        await kube.world.clock.sleep(100)
        assert datum(kube, "workers-0") is None
        cluster = server.struct(server.cluster("edge")).ref
        kube.api.known.patch(cluster, {"spec": {"paused": False}})
        kube.api.notify()
        await kube.until(lambda: (machine_data := datum(kube, "workers-0")) is not None and machine_data.status.ready)

    kube.world.run(check())


def test_a_controller_that_is_killed_at_any_write_is_taken_over_from() -> None:
    async def check(kube: api.SimulatedKubernetes, number: int) -> bool:
        """Kill the first controller at a write; return whether that happened."""
        await kube.open()
        remaining = number

        def fault(request: http_interface.Request) -> http_interface.Response | None:
            nonlocal remaining
            if request.method == "GET" or "/events" in request.path or remaining < 0:
                return None
            remaining -= 1
            if remaining < 0:
                kube.world.loop.call_later(5, lambda: kube.start("c2", with_templates=True))
                kube.world.loop.call_soon(kube.world.kill, "c1")
            return None

        kube.api.fault = fault
        kube.put(server.pool(), infra("Metal3DataTemplate", "workers", "v1beta1", spec=SPEC["v1beta1"]))
        machines(kube, 1)
        kube.put(data_claim(1, "v1beta1"))
        kube.start(with_templates=True)
        await kube.until(lambda: (machine_data := datum(kube, "workers-0")) is not None and machine_data.status.ready)
        texts = secret(kube, "mm-1-metadata", "metaData")
        assert isinstance(texts, dict)
        assert [texts["ip"]] == addresses(kube)
        kube.delete(ref("Metal3DataClaim", "dc-1"))
        await kube.until(lambda: ref("Metal3DataClaim", "dc-1") not in kube.api.known.objects)
        await kube.until(lambda: not addresses(kube))
        return remaining < 0

    for number in range(100):
        with simulated.World(seed=number) as world:
            if not world.run(check(api.SimulatedKubernetes(world), number)):
                break
    assert number > 12


@pytest.mark.promise("claims-6")
def test_templates_share_a_pool(kube: api.SimulatedKubernetes) -> None:
    async def check() -> None:
        kube.put(server.pool())
        for name in ("workers", "others"):
            kube.put(infra("Metal3DataTemplate", name, "v1beta2", spec=SPEC["v1beta2"]))
        machines(kube, 1, 2)
        kube.put(data_claim(1, "v1beta2"), {**data_claim(2, "v1beta2"), "spec": {"template": {"name": "others"}}})
        kube.start(with_templates=True)
        await kube.until(
            lambda: all(
                (machine_data := datum(kube, f"{n}-0")) and machine_data.status.ready for n in ("workers", "others")
            )
        )
        secrets = [secret(kube, f"mm-{number}-metadata", "metaData") for number in (1, 2)]
        assert sorted(values["ip"] for values in secrets if isinstance(values, dict)) == ["10.0.0.1", "10.0.0.2"]

    kube.world.run(check())


def test_data_claims_that_come_at_once_get_all_indexes_from_zero(kube: api.SimulatedKubernetes) -> None:
    async def check() -> None:
        numbers = range(1, 21)
        spec = {"metaData": {"indexes": [{"key": "rank"}]}}
        kube.put(infra("Metal3DataTemplate", "workers", "v1beta2", spec=spec))
        machines(kube, *numbers)
        kube.start(with_templates=True)
        kube.put(*(data_claim(number, "v1beta2") for number in numbers))
        await kube.until(
            lambda: all((machine_data := datum(kube, f"workers-{n}")) and machine_data.status.ready for n in range(20))
        )
        secrets = [secret(kube, f"mm-{number}-metadata", "metaData") for number in numbers]
        assert sorted(int(values["rank"]) for values in secrets if isinstance(values, dict)) == list(range(20))

    kube.world.run(check())
