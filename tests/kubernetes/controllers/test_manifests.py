"""The manifests of ``deploy/kubernetes``: valid references, and roles that grant exactly what controllers use."""

import random
from pathlib import Path
from typing import Any

import yaml
from tests.kubernetes.claims import server
from tests.kubernetes.controllers import api, test_templates
from tests.kubernetes.controllers.test_controllers import bound, claim_ref, pool_status

from gantry.daemons import kube as kube_daemon
from gantry.kubernetes.api import capi, definitions, ipam, meta
from gantry.kubernetes.apiserver import webhook as apiserver_webhook
from gantry.kubernetes.claims import actions
from gantry.kubernetes.controllers import events
from gantry.runtime import http_interface, simulated

FOLDER = Path(__file__).parents[3] / "deploy" / "kubernetes"
VERBS = {"POST": "create", "PATCH": "patch", "DELETE": "delete", "PUT": "update"}
INDIRECT = {("ipam.metal3.io", "ippools/finalizers"), ("ipam.cluster.x-k8s.io", "ipaddressclaims/finalizers")}
"""What a server asks for when an owner reference is written, so that no request shows it."""


def granted(name: str = "rbac.yaml") -> set[tuple[str, str, str]]:
    """Return group, resource and verb of all rules of the roles."""
    out = set()
    for document in yaml.safe_load_all((FOLDER / name).read_text()):
        for rule in document.get("rules", ()):
            for group in rule["apiGroups"]:
                out |= {(group, resource, verb) for resource in rule["resources"] for verb in rule["verbs"]}
    return {(group, resource, verb) for group, resource, verb in out if (group, resource) not in INDIRECT}


def permission(request: http_interface.Request) -> tuple[str, str, str] | None:
    """Return group, resource and verb of a request; None for discovery, which needs no permission."""
    path, _, query = request.path.partition("?")
    parts = path.strip("/").split("/")
    group = parts[1] if parts[0] == "apis" else ""
    remaining = parts[3:] if parts[0] == "apis" else parts[2:]
    if not remaining:
        return None
    if remaining[0] == "namespaces":
        remaining = remaining[2:]
    resource = remaining[0] if len(remaining) < 3 else f"{remaining[0]}/{remaining[2]}"
    reading = "get" if len(remaining) > 1 else "watch" if "watch=true" in query else "list"
    return group, resource, VERBS.get(request.method, reading)


def test_the_roles_grant_what_is_permissions_for_and_no_more() -> None:
    seen: set[tuple[str, str, str]] = set()

    async def check(kube: api.SimulatedKubernetes, source: random.Random) -> None:
        await kube.open()

        def fault(request: http_interface.Request) -> http_interface.Response | None:
            needed = permission(request)
            if needed:
                seen.add(needed)
            changes = request.method == "PATCH" and "/events/" not in request.path
            return api.refused(409, "Conflict") if changes and source.random() < 0.5 else None

        kube.api.fault = fault
        kube.put(server.pool(), server.claim("one"), server.capi_claim("two"))
        kube.start(elects=True)
        await kube.until(lambda: bound(kube, "one") and bound(kube, "two", kind="IPAddressClaim"))
        await kube.until(lambda: bool(pool_status(kube).indexes))
        for ref in (
            claim_ref("one"),
            server.struct(server.capi_claim("two")).ref,
            ipam.pool_ref(server.SITE, "pool-1"),
        ):
            kube.delete(ref)
        await kube.until(lambda: not kube.api.known.objects, limit=600)
        recorder = events.Recorder(kube.world.machine("c1"), kube.client("c1"), counts=kube.counts["c1"])
        kube.world.machine("c1").spawn(recorder.run())
        for _ in range(2):
            recorder.add(actions.Report(claim_ref("one"), ipam.API_VERSION, "uid", False, "Said", "twice"))
        await kube.until(
            lambda: [event["count"] for event in kube.api.plain.values() if event.get("reason") == "Said"] == [2]
        )

    for seed in range(3):
        with simulated.World(seed=seed) as world:
            world.run(check(api.SimulatedKubernetes(world), random.Random(seed)))
    assert granted() == seen


def test_the_roles_for_templates_grant_what_these_ask_for_besides() -> None:
    seen: set[tuple[str, str, str]] = set()

    async def check(kube: api.SimulatedKubernetes, source: random.Random) -> None:
        await kube.open()
        seen_here: set[tuple[str, str, str]] = set()

        def fault(request: http_interface.Request) -> http_interface.Response | None:
            permissions = set(filter(None, [permission(request)]))
            is_first = not permissions <= seen_here
            seen.update(permissions)
            seen_here.update(permissions)
            refuses = request.method == "PATCH" and (is_first or source.random() < 0.5)
            return api.refused(409, "Conflict") if refuses else None

        kube.api.fault = fault
        foreign = {"name": "foreign", "kind": "InClusterIPPool", "apiGroup": "ipam.cluster.x-k8s.io"}
        networks = {"ipv4": [{"id": "n", "link": "em1", "fromPoolRef": foreign}]}
        for name, spec in (
            ("workers", test_templates.SPEC["v1beta2"]),
            ("more", {"networkData": {"networks": networks}}),
        ):
            kube.put(test_templates.infra("Metal3DataTemplate", name, "v1beta2", spec=spec))
        other = test_templates.data_claim(2, "v1beta2")
        kube.put(
            server.pool(), test_templates.data_claim(1, "v1beta2"), {**other, "spec": {"template": {"name": "more"}}}
        )
        test_templates.machines(kube, 1, 2)
        kube.start(with_templates=True)
        foreign_claim = meta.Ref("ipam.cluster.x-k8s.io", "IPAddressClaim", server.SITE, "more-0-foreign")
        claims = [test_templates.ref("Metal3DataClaim", f"dc-{number}") for number in (1, 2)]
        done = test_templates.datum
        await kube.until(lambda: (datum := done(kube, "workers-0")) is not None and datum.status.ready, limit=600)
        await kube.until(lambda: foreign_claim in kube.api.known.objects, limit=600)
        reread = ("infrastructure.cluster.x-k8s.io", "metal3datatemplates", "get")
        await kube.until(lambda: reread in seen_here, limit=600)
        for claim in claims:
            kube.delete(claim)
        await kube.until(lambda: not set(claims) & set(kube.api.known.objects), limit=600)

    for seed in range(5):
        with simulated.World(seed=seed) as world:
            world.run(check(api.SimulatedKubernetes(world), random.Random(seed)))
    more = granted("templates/rbac.yaml")
    assert more - seen == set()
    assert seen - granted() - more == set()


def test_the_base_names_all_manifests() -> None:
    components = ("templates", "admission", "cert-manager")
    for folder in (FOLDER, *(FOLDER / name for name in components)):
        base = yaml.safe_load((folder / "kustomization.yaml").read_text())
        paths = {path.relative_to(folder).as_posix() for path in folder.rglob("*.yaml")}
        inside = {name for name in paths if not name.startswith(components)}
        assert set(base["resources"]) == inside - {"kustomization.yaml"}


def test_the_deployment_runs_the_program_as_it_is() -> None:
    (deployment,) = yaml.safe_load_all((FOLDER / "deployment.yaml").read_text())
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    options = kube_daemon.command_line().parse_args(container["args"])
    assert options.leader_elect
    assert container["ports"] == [{"name": "health", "containerPort": options.health_port}]


def component(name: str) -> list[dict[str, Any]]:
    """Return the patches of a component: strategic merge patches and JSON patches."""
    patches = yaml.safe_load((FOLDER / name / "kustomization.yaml").read_text())["patches"]
    return [{"target": patch["target"], "patch": yaml.safe_load(patch["patch"])} for patch in patches]


def test_admission_is_served_where_the_api_server_asks() -> None:
    (deployment,) = yaml.safe_load_all((FOLDER / "deployment.yaml").read_text())
    steps, merged = (patch["patch"] for patch in component("admission"))
    options = kube_daemon.command_line().parse_args(
        [*deployment["spec"]["template"]["spec"]["containers"][0]["args"], steps[0]["value"]]
    )
    pod = merged["spec"]["template"]["spec"]
    (container,), (volume,) = pod["containers"], pod["volumes"]
    assert container["volumeMounts"][0]["mountPath"] == options.webhook_cert_dir
    assert container["ports"] == [{"name": "webhook", "containerPort": options.webhook_port}]
    service = yaml.safe_load((FOLDER / "admission/service.yaml").read_text())
    assert service["spec"]["selector"] == deployment["spec"]["selector"]["matchLabels"]
    assert service["spec"]["ports"][0]["targetPort"] == "webhook"
    _, certificate = yaml.safe_load_all((FOLDER / "cert-manager/certificate.yaml").read_text())
    name, namespace = service["metadata"]["name"], service["metadata"]["namespace"]
    assert certificate["spec"]["dnsNames"] == [f"{name}.{namespace}.svc"]
    assert certificate["spec"]["secretName"] == volume["secret"]["secretName"]
    (annotated,) = (patch["patch"] for patch in component("cert-manager"))
    assert list(annotated[0]["value"].values()) == [f"{namespace}/{certificate['metadata']['name']}"]
    configuration = yaml.safe_load((FOLDER / "admission/webhook.yaml").read_text())
    for webhook in configuration["webhooks"]:
        where = {"namespace": namespace, "name": name, "path": apiserver_webhook.PATH}
        assert (webhook["clientConfig"], webhook["admissionReviewVersions"]) == ({"service": where}, ["v1"])


def test_every_kind_that_has_rules_is_sent_to_admission_in_all_its_versions() -> None:
    configuration = yaml.safe_load((FOLDER / "admission/webhook.yaml").read_text())
    sent = {
        (group, resource, version)
        for webhook in configuration["webhooks"]
        for rule in webhook["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for version in rule["apiVersions"]
    }
    ruled = [definition for definition in definitions.DEFINITIONS if definition.group in (ipam.GROUP, capi.GROUP)]
    ruled += [definition for definition in definitions.DEFINITIONS if definition.kind == "Metal3DataTemplate"]
    assert sent == {(rule.group, rule.plural, version) for rule in ruled for version in rule.versions}
