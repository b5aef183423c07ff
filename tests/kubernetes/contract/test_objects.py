import re

import pytest
from tests.kubernetes.apiserver import api
from tests.kubernetes.contract import namespace


async def test_a_new_object_gets_identity_defaults_and_no_status(kube: namespace.Namespace) -> None:
    created = await kube.add(kube.pools, {**api.pool(), "status": {"total": 7}})
    assert re.fullmatch(r"[0-9a-f-]{36}", created.uid)
    assert (created.at("metadata.generation"), created.at("metadata.namespace")) == (1, kube.name)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", str(created.at("metadata.creationTimestamp")))
    assert created.at("spec.allocationStrategy") == "sequential"
    assert "status" not in created.body
    assert (await kube.get(f"{kube.pools}/pool-1")).body == created.body


async def test_what_the_server_says_itself_cannot_be_said_by_a_client(kube: namespace.Namespace) -> None:
    sent = api.pool()
    sent["metadata"] = {"name": "pool-1", "uid": "mine", "generation": 9, "creationTimestamp": "2020-01-01T00:00:00Z"}
    created = await kube.add(kube.pools, sent)
    assert (created.uid != "mine", created.at("metadata.generation")) == (True, 1)
    sent["metadata"] = {"name": "pool-2", "resourceVersion": "3"}
    # An old server takes it for its own fault.
    assert (await kube.say("POST", kube.pools, sent)).status in (400, 500)


async def test_a_name_is_given_once(kube: namespace.Namespace) -> None:
    await kube.add(kube.pools, api.pool())
    refused = await kube.say("POST", kube.pools, api.pool())
    assert refused.refusal == (409, "AlreadyExists", 'ippools.ipam.metal3.io "pool-1" already exists')
    assert refused.body["details"] == {"name": "pool-1", "group": "ipam.metal3.io", "kind": "ippools"}


async def test_an_object_that_is_being_deleted_holds_its_name(kube: namespace.Namespace) -> None:
    await kube.add(kube.secrets, api.secret("one", finalizers=["example.com/hold"]))
    await kube.delete(f"{kube.secrets}/one")
    refused = await kube.say("POST", kube.secrets, api.secret("one"))
    assert refused.refusal == (409, "AlreadyExists", 'object is being deleted: secrets "one" already exists')


async def test_an_object_needs_its_namespace(kube: namespace.Namespace) -> None:
    nowhere = f"{api.IPAM}/namespaces/nowhere/ippools"
    refused = await kube.say("POST", nowhere, api.pool())
    assert refused.refusal == (404, "NotFound", 'namespaces "nowhere" not found')
    assert (await kube.get(nowhere)).items == []
    sent = api.pool()
    sent["metadata"] = {"name": "pool-1", "namespace": "other"}
    assert "does not match the namespace" in (await kube.say("POST", kube.pools, sent)).refusal[2]


@pytest.mark.parametrize("name", ["Upper", "-dash", "under_score", "a" * 254, "a..b"])
async def test_a_bad_name_is_refused_with_its_field(kube: namespace.Namespace, name: str) -> None:
    refused = await kube.say("POST", kube.pools, {**api.pool(), "metadata": {"name": name}})
    assert (refused.refusal[:2], refused.fields) == ((422, "Invalid"), ["metadata.name"])


async def test_a_name_of_253_characters_is_taken(kube: namespace.Namespace) -> None:
    await kube.add(kube.claims, api.claim("a" * 253))


async def test_bad_labels_and_owners_are_refused(kube: namespace.Namespace) -> None:
    sent = {**api.pool(), "metadata": {"name": "x", "labels": {"a b": "c d"}, "ownerReferences": [{"apiVersion": "v1",
            "kind": "", "name": "x", "uid": "u"}]}}  # fmt: skip
    refused = await kube.say("POST", kube.pools, sent)
    # Old servers name no place in a list.
    fields = [re.sub(r"\[\d+\]", "", field) for field in refused.fields]
    assert fields == ["metadata.labels", "metadata.labels", "metadata.ownerReferences.kind"]
    wrong = {**api.pool(), "metadata": {"name": "x", "labels": {"a": 1}}}
    assert (await kube.say("POST", kube.pools, wrong)).refusal[:2] == (400, "BadRequest")


async def test_what_does_not_fit_the_schema_is_refused_field_by_field(kube: namespace.Namespace) -> None:
    sent = api.pool(prefix=129, allocationStrategy="roundrobin")
    refused = await kube.say("POST", kube.pools, sent)
    assert (refused.refusal[0], sorted(refused.fields)) == (422, ["spec.allocationStrategy", "spec.prefix"])
    assert str(refused.body["message"]).startswith('IPPool.ipam.metal3.io "pool-1" is invalid: [')


async def test_unknown_fields_are_dropped(kube: namespace.Namespace) -> None:
    created = await kube.add(kube.pools, api.pool(colour="blue"))
    assert (created.at("spec.colour"), created.at("spec.namePrefix")) == (None, "pool-1")


async def test_unknown_fields_are_warned_of_or_refused_if_that_is_asked_for(kube: namespace.Namespace) -> None:
    kube.needs(1, 27, "field validation")
    sent = api.pool(colour="blue")
    strict = await kube.say("POST", f"{kube.pools}?fieldValidation=Strict", sent)
    assert strict.refusal[:2] == (400, "BadRequest")
    assert 'strict decoding error: unknown field "spec.colour"' in strict.refusal[2]
    silent = await kube.say("POST", f"{kube.pools}?fieldValidation=Ignore&dryRun=All", sent)
    assert (silent.status, "Warning" in silent.headers) == (201, False)
    warned = await kube.say("POST", kube.pools, sent)
    assert warned.headers["Warning"] == '299 - "unknown field \\"spec.colour\\""'
    assert warned.at("spec.colour") is None
    assert (await kube.say("POST", f"{kube.pools}?fieldValidation=Maybe", sent)).refusal[0] == 422


async def test_a_generated_name_ends_in_five_characters_by_chance(kube: namespace.Namespace) -> None:
    sent = {**api.pool(), "metadata": {"generateName": "made-"}}
    names = {str((await kube.add(kube.pools, sent)).at("metadata.name")) for _ in range(3)}
    assert len(names) == 3
    assert all(re.fullmatch("made-[a-z0-9]{5}", name) for name in names)


async def test_an_update_is_for_the_version_it_names(kube: namespace.Namespace) -> None:
    created = await kube.add(kube.pools, api.pool())
    new: api.Json = {
        **created.body,
        "spec": {"namePrefix": "pool-1", "pools": [{"start": "10.0.0.1", "end": "10.0.0.99"}]},
    }
    assert (await kube.say("PUT", f"{kube.pools}/pool-1", new)).at("metadata.generation") == 2
    refused = await kube.say("PUT", f"{kube.pools}/pool-1", new)
    assert refused.refusal[:2] == (409, "Conflict")
    assert "please apply your changes to the latest version and try again" in refused.refusal[2]
    new["metadata"] = {"name": "pool-1"}
    assert (await kube.say("PUT", f"{kube.pools}/pool-1", new)).fields == ["metadata.resourceVersion"]
    new["metadata"] = {"name": "pool-2", "resourceVersion": "1"}
    assert (await kube.say("PUT", f"{kube.pools}/pool-1", new)).refusal[0] == 400
    new["metadata"] = {"name": "nobody", "resourceVersion": "1"}
    assert (await kube.say("PUT", f"{kube.pools}/nobody", new)).refusal[0] == 404


async def test_versions_and_generations_follow_what_changed(kube: namespace.Namespace) -> None:
    path = f"{kube.pools}/pool-1"
    created = await kube.add(kube.pools, api.pool())
    same = await kube.patch(path, {"spec": {"namePrefix": "pool-1"}})
    assert same.body == created.body
    labelled = await kube.patch(path, {"metadata": {"labels": {"a": "b"}}})
    assert (int(labelled.version) > int(created.version), labelled.at("metadata.generation")) == (True, 1)
    status = await kube.patch(f"{path}/status", {"status": {"total": 3}})
    assert (int(status.version) > int(labelled.version), status.at("metadata.generation")) == (True, 1)
    changed = await kube.patch(path, {"spec": {"prefix": 24}})
    assert (changed.at("metadata.generation"), changed.at("status.total")) == (2, 3)


async def test_the_object_and_its_status_are_written_apart(kube: namespace.Namespace) -> None:
    path = f"{kube.pools}/pool-1"
    created = await kube.add(kube.pools, api.pool())
    unmoved = await kube.patch(path, {"status": {"total": 5}})
    # Old servers note who wrote to no avail.
    assert [unmoved.body.get(part) for part in ("spec", "status")] == [created.body["spec"], None]
    created = unmoved
    body = {**created.body, "spec": {"namePrefix": "x"}, "status": {"total": 5}}
    body["metadata"] = {"name": "pool-1", "resourceVersion": created.version, "labels": {"a": "b"}}
    status = await kube.say("PUT", f"{path}/status", body)
    assert (status.at("status.total"), status.at("spec.namePrefix")) == (5, "pool-1")
    assert status.at("metadata.labels") is None
    assert (await kube.get(f"{path}/status")).body == status.body
    assert (await kube.get(f"{kube.addresses}/x/status")).refusal[0] == 404


async def test_an_object_without_finalizers_goes_at_once(kube: namespace.Namespace) -> None:
    created = await kube.add(kube.pools, api.pool())
    gone = await kube.delete(f"{kube.pools}/pool-1", {"propagationPolicy": "Background"})
    details = {"name": "pool-1", "group": "ipam.metal3.io", "kind": "ippools", "uid": created.uid}
    assert (gone.status, gone.body["status"], gone.body["details"]) == (200, "Success", details)
    assert (await kube.get(f"{kube.pools}/pool-1")).refusal[0] == 404
    assert (await kube.delete(f"{kube.pools}/pool-1")).refusal[0] == 404


async def test_an_object_with_finalizers_waits_for_the_last_of_them(kube: namespace.Namespace) -> None:
    path = f"{kube.pools}/pool-1"
    sent = api.pool()
    sent["metadata"] = {"name": "pool-1", "finalizers": ["example.com/one"]}
    await kube.add(kube.pools, sent)
    marked = await kube.delete(path)
    assert (marked.status, marked.at("metadata.deletionGracePeriodSeconds")) == (200, 0)
    assert marked.at("metadata.generation") == 2
    assert marked.at("metadata.deletionTimestamp")
    assert (await kube.delete(path)).body == marked.body
    refused = await kube.patch(path, {"metadata": {"finalizers": ["example.com/one", "example.com/two"]}})
    assert (refused.refusal[:2], set(refused.fields)) == ((422, "Invalid"), {"metadata.finalizers"})
    assert "no new finalizers can be added if the object is being deleted" in refused.refusal[2]
    assert (await kube.patch(path, {"metadata": {"finalizers": None}})).status == 200
    assert (await kube.get(path)).status == 404


async def test_a_deletion_is_for_the_object_that_its_preconditions_name(kube: namespace.Namespace) -> None:
    path = f"{kube.pools}/pool-1"
    created = await kube.add(kube.pools, api.pool())
    for wrong in ({"uid": "another"}, {"resourceVersion": "1"}):
        assert (await kube.delete(path, {"preconditions": wrong})).refusal[:2] == (409, "Conflict")
    right = {"uid": created.uid, "resourceVersion": created.version}
    assert (await kube.delete(path, {"preconditions": right})).status == 200


async def test_a_dry_run_says_what_would_be_and_stores_nothing(kube: namespace.Namespace) -> None:
    dry = "?dryRun=All"
    created = await kube.say("POST", kube.pools + dry, api.pool())
    assert (created.status, created.at("metadata.resourceVersion")) == (201, None)
    assert (await kube.get(f"{kube.pools}/pool-1")).status == 404
    real = await kube.add(kube.pools, api.pool())
    path = f"{kube.pools}/pool-1"
    assert (await kube.patch(path + dry, {"spec": {"prefix": 20}})).at("spec.prefix") == 20
    assert (await kube.delete(path + dry)).body["status"] == "Success"
    assert (await kube.delete(path, {"dryRun": ["All"]})).body["status"] == "Success"
    assert (await kube.get(path)).body == real.body
    assert (await kube.say("POST", f"{kube.pools}{dry}", api.pool(prefix=200))).refusal[0] == 422
    assert (await kube.say("POST", f"{kube.pools}?dryRun=Some", api.pool())).refusal[0] == 422


async def test_a_lease_is_taken_by_one_of_two_who_saw_the_same(kube: namespace.Namespace) -> None:
    lease: api.Json = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "lead"},
             "spec": {"holderIdentity": "", "leaseDurationSeconds": 15}}  # fmt: skip
    created = await kube.add(kube.leases, lease)
    taken = {**created.body, "spec": {"holderIdentity": "one"}}
    assert (await kube.say("PUT", f"{kube.leases}/lead", taken)).at("spec.holderIdentity") == "one"
    late = {**created.body, "spec": {"holderIdentity": "two"}}
    assert (await kube.say("PUT", f"{kube.leases}/lead", late)).refusal[:2] == (409, "Conflict")


async def test_two_versions_show_one_object(kube: namespace.Namespace) -> None:
    spec = {"poolRef": {"name": "pool-1", "kind": "IPPool", "apiGroup": "ipam.metal3.io"}}
    sent: api.Json = {"apiVersion": "ipam.cluster.x-k8s.io/v1beta1", "kind": "IPAddressClaim",
                      "metadata": {"name": "c"}, "spec": spec}  # fmt: skip
    created = await kube.add(kube.of("ipam.cluster.x-k8s.io/v1beta1", "ipaddressclaims"), sent)
    assert created.body["apiVersion"] == "ipam.cluster.x-k8s.io/v1beta1"
    stored = await kube.get(f"{kube.capi_claims}/c")
    assert {**stored.body, "apiVersion": ""} == {**created.body, "apiVersion": ""}
    assert stored.body["apiVersion"] == "ipam.cluster.x-k8s.io/v1beta2"
    wrong = await kube.say("POST", kube.capi_claims, {**sent, "metadata": {"name": "d"}})
    assert "does not match the expected API version" in wrong.refusal[2]


async def test_a_secret_may_be_written_in_plain_and_is_kept_encoded(kube: namespace.Namespace) -> None:
    created = await kube.add(kube.secrets, {"metadata": {"name": "s"}, "stringData": {"key": "value"}})
    assert (created.at("data"), created.at("stringData"), created.at("type")) == ({"key": "dmFsdWU="}, None, "Opaque")
