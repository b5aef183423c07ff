"""Without pools, neither controllers nor definitions have an effect."""

import copy
from pathlib import Path

import pytest
import yaml
from tests.kubernetes import server_process
from tests.kubernetes.claims import server
from tests.kubernetes.controllers import api, test_templates
from tests.kubernetes.controllers.test_controllers import bound

from gantry.kubernetes.api import capi, definitions, ipam, schema

VALID = server_process.HERE / "samples/valid"
PLAIN: schema.Json = {
    "metaData": {"strings": [{"key": "site", "value": "north"}], "indexes": [{"key": "rank"}]},
    "networkData": {"networks": {"ipv4DHCP": [{"id": "n", "link": "em1"}]}},
}


def writes(kube: api.SimulatedKubernetes) -> list[tuple[str, str]]:
    return [request for request in kube.api.requests if request[0] != "GET"]


@pytest.mark.promise("claims-12")
def test_controllers_write_nothing_without_a_pool(kube: api.SimulatedKubernetes) -> None:
    async def check() -> None:
        kube.put(
            server.cluster("edge"),
            server.capi_claim("theirs", kind="InClusterIPPool"),
            test_templates.infra("Metal3DataTemplate", "workers", "v1beta1", spec=test_templates.SPEC["v1beta1"]),
            test_templates.data_claim(1, "v1beta1"),
        )
        before = copy.deepcopy(kube.api.known.objects)
        kube.start()
        await kube.until(lambda: kube.made["c1"].is_ready)
        await kube.world.clock.sleep(3600)
        assert writes(kube) == []
        assert kube.api.known.objects == before

    kube.world.run(check())


@pytest.mark.promise("claims-12")
def test_controllers_touch_the_objects_of_others_in_no_way(kube: api.SimulatedKubernetes) -> None:
    async def check() -> None:
        theirs = [server.cluster("edge"), server.capi_claim("theirs", kind="InClusterIPPool")]
        kube.put(*theirs)
        refs = [server.struct(body).ref for body in theirs]
        before = [copy.deepcopy(kube.api.known.objects[ref]) for ref in refs]
        kube.put(server.pool(), server.claim("one"), server.capi_claim("two"))
        kube.start(with_templates=True)
        await kube.until(lambda: bound(kube, "one") and bound(kube, "two", kind="IPAddressClaim"))
        await kube.world.clock.sleep(600)
        assert [kube.api.known.objects[ref] for ref in refs] == before

    kube.world.run(check())


@pytest.mark.promise("claims-12")
@pytest.mark.parametrize("with_pool", [False, True])
def test_a_template_without_pools_is_rendered_as_ever_and_claims_nothing(
    kube: api.SimulatedKubernetes, with_pool: bool
) -> None:
    async def check() -> None:
        if with_pool:
            kube.put(server.pool())
        kube.put(test_templates.infra("Metal3DataTemplate", "workers", "v1beta1", spec=PLAIN))
        test_templates.machines(kube, 1)
        kube.put(test_templates.data_claim(1, "v1beta1"))
        kube.start(with_templates=True)
        await kube.until(lambda: (datum := test_templates.datum(kube, "workers-0")) is not None and datum.status.ready)
        host = f"{server.SITE}/host-1/mm-1"
        assert test_templates.secret(kube, "mm-1-metadata", "metaData") == {
            "site": "north",
            "rank": "0",
            "providerid": host,
        }
        network = test_templates.secret(kube, "mm-1-networkdata", "networkData")
        assert isinstance(network, dict)
        assert [(entry["id"], entry["type"]) for entry in network["networks"]] == [("n", "ipv4_dhcp")]
        kinds = {ref.kind for ref in kube.api.known.objects}
        assert kinds & {"IPClaim", "IPAddress", "IPAddressClaim"} == set()

    kube.world.run(check())


@pytest.mark.promise("claims-12")
@pytest.mark.parametrize("path", sorted(VALID.glob("*.yaml")), ids=lambda path: path.stem)
def test_objects_of_today_fit_the_definitions_and_are_kept_as_they_are(path: Path) -> None:
    checked = 0
    for body in yaml.safe_load_all(path.read_text()):
        group, _, version = str(body["apiVersion"]).rpartition("/")
        definition = definitions.by_kind(group, body["kind"])
        if definition is None:
            continue
        if body["kind"] == "IPPool":
            # The one default, which says what is done anyway.
            body["spec"].setdefault("allocationStrategy", "sequential")
        node = definition.schema(version)
        kept = schema.apply_defaults(node, schema.prune(node, body))
        assert kept == body
        assert list(definitions.check(definition, version, body)) == []
        checked += 1
    assert checked or path.name == "00-namespace.yaml"


def test_the_kinds_of_others_are_not_defined_by_us() -> None:
    ours = {(definition.group, definition.kind) for definition in definitions.DEFINITIONS if definition.is_ours}
    assert ours == {(ipam.GROUP, kind) for kind in ("IPPool", "IPClaim", "IPAddress")}
    assert capi.GROUP not in {group for group, _ in ours}
