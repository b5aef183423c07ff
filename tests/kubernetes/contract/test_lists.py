import pytest
from tests.kubernetes.apiserver import api
from tests.kubernetes.contract import namespace


async def _leases(kube: namespace.Namespace, *names: str, **labels: str) -> None:
    for name in names:
        await kube.add(kube.leases, namespace.lease(name, labels=labels))


async def test_a_list_has_kind_and_version_and_is_sorted(kube: namespace.Namespace) -> None:
    await _leases(kube, "b", "a", of=kube.name)
    answer = await kube.get(kube.leases)
    assert (answer.body["kind"], answer.body["apiVersion"], answer.names) == (
        "LeaseList",
        "coordination.k8s.io/v1",
        ["a", "b"],
    )
    assert (await kube.get(f"/apis/coordination.k8s.io/v1/leases?labelSelector=of={kube.name}")).names == ["a", "b"]


async def test_pages_are_of_one_moment(kube: namespace.Namespace) -> None:
    await _leases(kube, *"abcde")
    first = await kube.get(f"{kube.leases}?limit=2")
    assert (first.names, first.at("metadata.remainingItemCount")) == (["a", "b"], 3)
    await kube.delete(f"{kube.leases}/d")
    await _leases(kube, "dd")
    second = await kube.get(f"{kube.leases}?limit=2&continue={first.at('metadata.continue')}")
    assert (second.names, second.version) == (["c", "d"], first.version)
    last = await kube.get(f"{kube.leases}?limit=2&continue={second.at('metadata.continue')}")
    assert (last.names, last.at("metadata.continue"), last.at("metadata.remainingItemCount")) == (["e"], None, None)
    assert (await kube.get(kube.leases)).names == ["a", "b", "c", "dd", "e"]


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("tier=web", ["a"]), ("tier==web", ["a"]), ("tier!=web", ["b", "c"]), ("tier", ["a", "b"]), ("!tier", ["c"]),
        ("tier in (web, db)", ["a", "b"]), ("tier notin (web)", ["b", "c"]), ("tier=web,env=prod", []),
        ("tier in (db),env=prod", ["b"]), ("tier=", []), ("", ["a", "b", "c"]),
    ],
)  # fmt: skip
async def test_labels_select(kube: namespace.Namespace, selector: str, names: list[str]) -> None:
    await _leases(kube, "a", tier="web")
    await _leases(kube, "b", tier="db", env="prod")
    await _leases(kube, "c")
    assert (await kube.get(f"{kube.leases}?labelSelector={selector}")).names == names


@pytest.mark.parametrize("selector", ["a=(", "=x", "in (x)", "a in x", ",,"])
async def test_a_selector_that_cannot_be_read_is_bad(kube: namespace.Namespace, selector: str) -> None:
    assert (await kube.get(f"{kube.leases}?labelSelector={selector}")).refusal[:2] == (400, "BadRequest")


async def test_fields_select_by_name_and_namespace_and_little_else(kube: namespace.Namespace) -> None:
    await _leases(kube, "a", "b", of=kube.name)
    assert (await kube.get(f"{kube.leases}?fieldSelector=metadata.name=b")).names == ["b"]
    ours = f"/apis/coordination.k8s.io/v1/leases?labelSelector=of={kube.name}&fieldSelector=metadata.namespace"
    assert (await kube.get(f"{ours}={kube.name}")).names == ["a", "b"]
    assert (await kube.get(f"{ours}!={kube.name}")).names == []
    refused = await kube.get(f"{kube.pools}?fieldSelector=spec.x=1")
    assert refused.refusal == (400, "BadRequest", "field label not supported: spec.x")


async def test_events_are_found_by_what_they_are_about(kube: namespace.Namespace) -> None:
    for name in ("one", "two"):
        about = {"kind": "IPPool", "name": name, "namespace": kube.name}
        event: api.Json = {
            "metadata": {"generateName": "e-"},
            "involvedObject": about,
            "reason": "Full",
            "type": "Warning",
        }
        await kube.add(kube.events, event)
    answer = await kube.get(f"{kube.events}?fieldSelector=involvedObject.name=two,type=Warning")
    assert [api.Answer(200, item).at("involvedObject.name") for item in answer.items] == ["two"]


async def test_a_collection_is_deleted_by_selector(kube: namespace.Namespace) -> None:
    await _leases(kube, "a", "b", tier="web")
    await _leases(kube, "c")
    answer = await kube.delete(f"{kube.leases}?labelSelector=tier=web")
    assert (answer.status, answer.names) == (200, ["a", "b"])
    assert (await kube.get(kube.leases)).names == ["c"]
