"""``deploy/kubernetes`` on a cluster: rendered by kustomize, accepted by a real API server, and sufficient.

The container file is tested step by step: what it copies exists, and its commands install the program that it starts.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests import ports
from tests.cluster import lab
from tests.kubernetes import server_process
from tests.kubernetes.contract import backends
from tests.kubernetes.real import server
from tests.real import demonstration

CHECKOUT = Path(__file__).parents[2]
BASE = CHECKOUT / "deploy/kubernetes"
CONTAINER = BASE / "Containerfile"
COMPONENTS = sorted(path.parent.name for path in BASE.glob("*/kustomization.yaml"))
PROGRAM = server_process.kubectls()[-1:]


needs_kubectl = pytest.mark.skipif(not PROGRAM, reason="this machine has no kubectl")


def rendered(folder: Path) -> list[dict[str, object]]:
    """Return the objects that kustomize renders for a directory."""
    done = subprocess.run([PROGRAM[0], "kustomize", folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def named(objects: list[dict[str, object]]) -> set[str]:
    out = set()
    for item in objects:
        metadata = item["metadata"]
        assert isinstance(metadata, dict)
        out.add(f"{item['kind']} {metadata.get('namespace', '')}/{metadata['name']}")
    return out


def deployment(objects: list[dict[str, object]]) -> dict[str, object]:
    (manifest,) = [item for item in objects if item["kind"] == "Deployment"]
    spec = manifest["spec"]
    assert isinstance(spec, dict)
    pod: dict[str, object] = spec["template"]["spec"]
    return pod


@pytest.mark.real
@needs_kubectl
def test_the_base_is_rendered_with_all_in_one_namespace() -> None:
    assert named(rendered(BASE)) == {
        "Namespace /gantry-system",
        *(f"CustomResourceDefinition /{plural}.ipam.metal3.io" for plural in ("ippools", "ipclaims", "ipaddresses")),
        *(f"{kind} gantry-system/gantry-kube" for kind in ("ServiceAccount", "Role", "RoleBinding", "Deployment")),
        *(f"{kind} /gantry-kube" for kind in ("ClusterRole", "ClusterRoleBinding")),
    }


@pytest.mark.real
@needs_kubectl
@pytest.mark.parametrize("components", [COMPONENTS[:count] for count in range(1, len(COMPONENTS) + 1)], ids="+".join)
def test_the_components_are_rendered_with_the_base(components: list[str], tmp_path: Path) -> None:
    shutil.copytree(BASE, tmp_path / "base")
    whole = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": ["base"],
        "components": [f"base/{name}" for name in components],
    }
    (tmp_path / "kustomization.yaml").write_text(json.dumps(whole))
    assert named(rendered(tmp_path)) > named(rendered(BASE))


@pytest.mark.real
@needs_kubectl
def test_the_pods_may_do_as_little_as_they_need() -> None:
    pod = deployment(rendered(BASE))
    security = pod["securityContext"]
    assert isinstance(pod["containers"], list)
    (container,) = pod["containers"]
    assert security == {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip
    assert set(container["resources"]) == {"requests", "limits"}
    probes = {name: container[name]["httpGet"]["path"] for name in ("livenessProbe", "readinessProbe")}
    assert probes == {"livenessProbe": "/livez", "readinessProbe": "/readyz"}
    assert not {"hostNetwork", "hostPID", "volumes"} & set(pod)


@needs_kubectl
@pytest.mark.parametrize("backend", [pytest.param("real", marks=server.NEEDS)], indirect=True)
def test_a_real_server_takes_the_base_and_its_account_may_do_what_controllers_do(
    backend: backends.Backend, tmp_path: Path
) -> None:
    assert isinstance(backend, server.Server)

    def kubectl(*arguments: str, stdin: str = "") -> str:
        done = backend.run(PROGRAM[0], *arguments, stdin=stdin)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    kubectl("apply", "-k", str(BASE))
    assert "unchanged" in kubectl("apply", "-k", str(BASE), "--dry-run=server").replace("(server dry run)", "")
    kubectl("create", "namespace", "deployed")
    account = backend.account("gantry-system", "gantry-kube")
    health = ports.free()
    arguments = ["--kubeconfig", str(account), "--lease-namespace", "gantry-system", "--bind", "127.0.0.1"]
    log = tmp_path / "log"
    with log.open("w") as out, subprocess.Popen(
        [sys.executable, "-m", "gantry.daemons.kube", "controllers", *arguments, "--health-port", str(health)],
        stderr=out,
    ) as running:  # fmt: skip
        try:
            pool = {"namePrefix": "d", "pools": [{"subnet": "192.0.2.0/24"}]}
            for kind, name, spec in (("IPPool", "lab", pool), ("IPClaim", "one", {"pool": {"name": "lab"}})):
                head = {"apiVersion": "ipam.metal3.io/v1alpha1", "kind": kind}
                body = {**head, "metadata": {"name": name, "namespace": "deployed"}, "spec": spec}
                kubectl("create", "-f", "-", stdin=json.dumps(body))
            words = ("-n", "deployed", "get", "ipclaim", "one", "-o", "jsonpath={.status.address.name}")
            lab.wait_until(lambda: kubectl(*words) == "d-192-0-2-1", "the address of the claim")
            kubectl("-n", "deployed", "delete", "ipclaim,ippool", "--all", "--timeout=60s")
            events = ("-n", "deployed", "get", "events", "-o", "jsonpath={.items[*].reason}")
            lab.wait_until(lambda: "Allocated" in kubectl(*events), "the Event of the claim")
        finally:
            running.terminate()
    assert "forbidden" not in log.read_text().lower()


def steps() -> Iterator[tuple[str, str]]:
    """Yield the instructions of the container file, each with its words."""
    lines = [line for line in CONTAINER.read_text().splitlines() if line and not line.startswith("#")]
    for line in re.sub(r"\\\n", "", "\n".join(lines)).splitlines():
        word, _, arguments = line.partition(" ")
        yield word, arguments.strip()


def copied() -> list[str]:
    """Return the paths copied from the checkout."""
    copies = [arguments.split() for word, arguments in steps() if word == "COPY" and not arguments.startswith("--from")]
    return [name for words in copies for name in words[:-1]]


def test_the_container_file_copies_existing_files_and_starts_the_installed_program_without_privileges() -> None:
    assert copied()
    assert not [name for name in copied() if not (CHECKOUT / name).exists()]
    answer = dict(steps())
    assert answer["USER"] == "65532:65532"
    assert json.loads(answer["ENTRYPOINT"]) == ["/opt/gantry/bin/gantry-kube"]
    assert json.loads(answer["CMD"]) == deployment_arguments()
    assert {arguments.split()[0] for word, arguments in steps() if word == "FROM"} == {"${BASE}"}


def test_the_manifests_name_an_image_that_the_project_builds() -> None:
    pod = yaml.safe_load((BASE / "deployment.yaml").read_text())["spec"]["template"]["spec"]
    name, _, _ = pod["containers"][0]["image"].partition(":")
    assert [each["name"] for each in yaml.safe_load((BASE / "kustomization.yaml").read_text())["images"]] == [name]
    assert name in re.findall(r"^image (\S+)", (CHECKOUT / "tools/packaging/images.sh").read_text(), re.MULTILINE)


def deployment_arguments() -> list[str]:
    pod = yaml.safe_load((BASE / "deployment.yaml").read_text())["spec"]["template"]["spec"]
    arguments: list[str] = pod["containers"][0]["args"]
    return arguments


@pytest.mark.real
@demonstration.MINUTES
def test_the_commands_of_the_container_file_make_the_program_from_what_it_copies_alone(tmp_path: Path) -> None:
    source, installed = tmp_path / "source", tmp_path / "gantry"
    source.mkdir()
    for name in copied():
        there = CHECKOUT / name
        if there.is_dir():
            shutil.copytree(there, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(there, source / name)
    (command,) = [arguments for word, arguments in steps() if word == "RUN"]
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(
        ["sh", "-euc", command.replace("/opt/gantry", str(installed))],
        cwd=source, env=plain, capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    shutil.rmtree(source)
    answer = dict(steps())
    (program,) = json.loads(answer["ENTRYPOINT"])
    words = [program.replace("/opt/gantry", str(installed)), *json.loads(answer["CMD"]), "--help"]
    # A root file system that cannot be written to, and a user who is nobody, who has no home.
    finished = subprocess.run(words, env={}, cwd="/", capture_output=True, text=True, timeout=60, check=False)
    assert finished.returncode == 0, finished.stderr
    assert "--leader-elect" in finished.stdout
