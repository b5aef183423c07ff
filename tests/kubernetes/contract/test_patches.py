import pytest
from tests.kubernetes.apiserver import api
from tests.kubernetes.contract import namespace


async def _apply(
    kube: namespace.Namespace, who: str, spec: api.Json, *, more: str = "", part: str = "spec"
) -> api.Answer:
    sent: api.Json = {"apiVersion": "ipam.metal3.io/v1alpha1", "kind": "IPPool", "metadata": {"name": "pool-1"}}
    path = kube.pool if part == "spec" else f"{kube.pool}/status"
    return await kube.patch(f"{path}?fieldManager={who}{more}", {**sent, part: spec}, api.APPLY)


async def test_a_json_patch_does_its_steps_or_nothing(kube: namespace.Namespace) -> None:
    created = await kube.add(kube.pools, api.pool())
    steps: list[api.Json] = [
        {"op": "test", "path": "/metadata/resourceVersion", "value": created.version},
        {"op": "add", "path": "/spec/pools/-", "value": {"start": "10.0.1.1", "end": "10.0.1.2"}},
        {"op": "copy", "from": "/spec/pools/0/start", "path": "/spec/gateway"},
        {"op": "add", "path": "/metadata/labels", "value": {"a/b": "x"}},
        {"op": "replace", "path": "/metadata/labels/a~1b", "value": "y"},
        {"op": "add", "path": "/spec/dnsServers", "value": ["10.0.0.2", "10.0.0.3"]},
        {"op": "move", "from": "/spec/dnsServers/1", "path": "/spec/dnsServers/0"},
    ]
    done = await kube.patch(kube.pool, steps, api.STEPS)
    assert (done.at("spec.pools.1.start"), done.at("spec.gateway")) == ("10.0.1.1", "10.0.0.1")
    assert (done.at("metadata.labels"), done.at("spec.dnsServers")) == ({"a/b": "y"}, ["10.0.0.3", "10.0.0.2"])
    late = await kube.patch(kube.pool, steps, api.STEPS)
    assert late.refusal[:2] == (422, "Invalid")
    lost = await kube.patch(kube.pool, [{"op": "remove", "path": "/spec/nothing"}], api.STEPS)
    assert lost.refusal[0] == 422
    assert (await kube.get(kube.pool)).body == done.body


@pytest.mark.parametrize("body", [{"spec": {}}, [{"op": "destroy", "path": "/spec"}], [{"op": "add"}], 3])
async def test_what_is_no_json_patch_is_bad(kube: namespace.Namespace, body: object) -> None:
    await kube.add(kube.pools, api.pool())
    assert (await kube.patch(kube.pool, body, api.STEPS)).refusal[0] in (400, 422)


async def test_patches_that_resources_cannot_have_are_unsupported_media(kube: namespace.Namespace) -> None:
    await kube.add(kube.pools, api.pool())
    for kind in ("application/strategic-merge-patch+json", "application/json"):
        refused = await kube.patch(kube.pool, {}, kind)
        assert refused.refusal[:2] == (415, "UnsupportedMediaType")
        assert "application/merge-patch+json" in refused.refusal[2]
    # Clients that know Namespaces patch them in their own way.
    strategic = await kube.patch(
        f"{api.NAMESPACES}/default", {"metadata": {"labels": {"a": "b"}}}, "application/strategic-merge-patch+json"
    )
    assert strategic.at("metadata.labels") == {"a": "b"}


async def test_a_merge_patch_with_a_version_is_for_that_version(kube: namespace.Namespace) -> None:
    created = await kube.add(kube.pools, api.pool())
    body = {"metadata": {"resourceVersion": created.version}, "spec": {"prefix": 24}}
    assert (await kube.patch(kube.pool, body)).status == 200
    assert (await kube.patch(kube.pool, {**body, "spec": {"prefix": 25}})).refusal[:2] == (409, "Conflict")
    assert (await kube.patch(kube.pool, [1])).refusal[0] in (400, 422)


async def test_apply_needs_to_know_who_applies(kube: namespace.Namespace) -> None:
    sent = api.pool()
    refused = await kube.patch(kube.pool, sent, api.APPLY)
    assert (refused.refusal[0], refused.fields) == (422, ["fieldManager"])


async def test_apply_makes_changes_and_leaves_what_it_no_longer_says(kube: namespace.Namespace) -> None:
    created = await _apply(kube, "me", {"namePrefix": "p", "prefix": 24, "gateway": "10.0.0.1"})
    assert (created.status, created.at("metadata.managedFields.0.operation")) == (201, "Apply")
    same = await _apply(kube, "me", {"namePrefix": "p", "prefix": 24, "gateway": "10.0.0.1"})
    assert (same.status, same.version) == (200, created.version)
    less = await _apply(kube, "me", {"namePrefix": "p", "prefix": 24})
    assert (less.at("spec.gateway"), less.at("spec.prefix")) == (None, 24)
    assert less.at("metadata.managedFields.0.fieldsV1") == {"f:spec": {"f:namePrefix": {}, "f:prefix": {}}}


async def test_apply_of_a_field_of_somebody_else_is_a_conflict_until_forced(kube: namespace.Namespace) -> None:
    await _apply(kube, "me", {"namePrefix": "p", "prefix": 24})
    refused = await _apply(kube, "you", {"namePrefix": "p", "prefix": 25})
    assert refused.refusal[:2] == (409, "Conflict")
    for part in ("Apply failed with 1 conflict", 'conflict with "me"', ".spec.prefix"):
        assert part in refused.refusal[2]
    assert refused.at("details.causes.0.reason") == "FieldManagerConflict"
    assert refused.fields == [".spec.prefix"]
    forced = await _apply(kube, "you", {"namePrefix": "p", "prefix": 25}, more="&force=true")
    assert forced.at("spec.prefix") == 25
    # What both said stays when one of them no longer says it; what "me" lost is not taken away with him.
    released = await _apply(kube, "me", {"namePrefix": "p"})
    assert (released.at("spec.prefix"), released.at("spec.namePrefix")) == (25, "p")


async def test_who_changes_a_field_otherwise_owns_it_too(kube: namespace.Namespace) -> None:
    await _apply(kube, "me", {"namePrefix": "p", "prefix": 24})
    await kube.patch(f"{kube.pool}?fieldManager=editor", {"spec": {"prefix": 26}})
    assert '"editor"' in (await _apply(kube, "me", {"namePrefix": "p", "prefix": 24})).refusal[2]


async def test_the_status_is_applied_apart(kube: namespace.Namespace) -> None:
    await _apply(kube, "me", {"namePrefix": "p"})
    answer = await _apply(kube, "controller", {"total": 9}, part="status")
    assert (answer.at("status.total"), answer.at("spec.namePrefix")) == (9, "p")
    assert {str(entry["manager"]) for entry in _managed(answer)} == {"me", "controller"}
    kube.needs(1, 22, "who owns a field of a subresource")
    owners = {(str(entry["manager"]), entry.get("subresource")) for entry in _managed(answer)}
    assert owners == {("me", None), ("controller", "status")}


def _managed(answer: api.Answer) -> list[api.Json]:
    listed = answer.at("metadata.managedFields")
    assert isinstance(listed, list)
    return listed


async def test_yaml_is_applied_and_dry_run_of_it_stores_nothing(kube: namespace.Namespace) -> None:
    text = b"apiVersion: ipam.metal3.io/v1alpha1\nkind: IPPool\nmetadata: {name: pool-1}\nspec: {namePrefix: p}\n"
    path = f"{kube.pool}?fieldManager=me"
    assert (await kube.patch(f"{path}&dryRun=All", text, api.APPLY)).status == 201
    assert (await kube.get(kube.pool)).status == 404
    assert (await kube.patch(path, text, api.APPLY)).at("spec.namePrefix") == "p"
    assert (await kube.patch(path, b"{", api.APPLY)).refusal[0] == 400
