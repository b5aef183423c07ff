"""Content types of answers, and errors of requests."""

from tests.kubernetes.apiserver import api
from tests.kubernetes.contract import namespace

TABLE = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)
PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


async def test_a_table_has_the_columns_of_the_kind(kube: namespace.Namespace) -> None:
    await kube.add(kube.pools, api.pool(labels={"cluster.x-k8s.io/cluster-name": "east"}))
    answer = await kube.get(kube.pools, accept=TABLE)
    names = [answer.at(f"columnDefinitions.{position}.name") for position in (0, 1)]
    assert (answer.body["kind"], answer.body["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert (names, answer.at("rows.0.cells.0"), answer.at("rows.0.cells.1")) == (["Name", "Cluster"], "pool-1", "east")
    row = answer.at("rows.0.object")
    assert isinstance(row, dict)
    assert (row["kind"], set(row)) == ("PartialObjectMetadata", {"kind", "apiVersion", "metadata"})
    whole = await kube.get(f"{kube.pools}?includeObject=Object", accept=TABLE)
    assert whole.at("rows.0.object.spec.namePrefix") == "pool-1"
    assert (await kube.get(f"{kube.pools}/pool-1", accept=TABLE)).at("rows.0.cells.0") == "pool-1"


async def test_metadata_alone_and_yaml_are_answered(kube: namespace.Namespace) -> None:
    await kube.add(kube.pools, api.pool())
    pool = await kube.get(f"{kube.pools}/pool-1", accept=PARTIAL)
    assert (pool.body["kind"], "spec" in pool.body) == ("PartialObjectMetadata", False)
    many = await kube.get(kube.pools, accept="application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
    assert (many.body["kind"], set(many.items[0])) == ("PartialObjectMetadataList", {"kind", "apiVersion", "metadata"})
    assert "namePrefix: pool-1" in str((await kube.get(f"{kube.pools}/pool-1", accept="application/yaml")).body["text"])


async def test_other_forms_are_not_acceptable(kube: namespace.Namespace) -> None:
    for accept in ("text/html", "application/vnd.kubernetes.protobuf", f"{PARTIAL.replace('meta.k8s.io', 'x')}"):
        assert (await kube.get(kube.pools, accept=accept)).status == 406
    both = await kube.get(kube.pools, accept="application/vnd.kubernetes.protobuf,application/json")
    assert both.status == 200


async def test_what_is_not_served_is_not_found(kube: namespace.Namespace) -> None:
    namespaced = kube.pools.rpartition("/")[0]
    for path in (
        "/apis/nobody", "/apis/nobody/v1", "/api/v2", "/apis/ipam.metal3.io/v2/ippools", f"{namespaced}/nothing",
        f"{kube.pools}/a/scale", f"{kube.addresses}/a/status",
    ):  # fmt: skip
        assert (await kube.get(path)).status == 404


async def test_methods_that_make_no_sense_are_not_allowed(kube: namespace.Namespace) -> None:
    for method, path in (("PUT", kube.pools), ("POST", kube.pool), ("OPTIONS", kube.pools)):
        # To an old server some are requests without a name, or for what is not there.
        assert (await kube.say(method, path, {})).status in (400, 404, 405)
    assert (await kube.say("POST", f"{api.IPAM}/ippools", api.pool())).status in (400, 404, 405)


async def test_absence_is_said_with_group_and_collection(kube: namespace.Namespace) -> None:
    refused = await kube.get(f"{kube.pools}/none")
    assert refused.refusal == (404, "NotFound", 'ippools.ipam.metal3.io "none" not found')
    assert refused.body["details"] == {"name": "none", "group": "ipam.metal3.io", "kind": "ippools"}
    assert (await kube.get(f"{api.NAMESPACES}/none")).refusal[2] == 'namespaces "none" not found'
