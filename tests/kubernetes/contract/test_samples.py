"""The sample manifests: valid ones are stored unchanged, invalid ones are rejected with the field."""

import re
from collections.abc import Iterator

import pytest
from tests.kubernetes.contract import admission, backends, namespace, samples

NAMESPACE = "00-namespace"
OLD_TEMPLATE = "40-metal3datatemplate-v1beta1"


@pytest.fixture(scope="module", autouse=True)
def _admission(backend: backends.Backend, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with admission.installed(backend, tmp_path_factory.mktemp("admission")):
        yield


@pytest.mark.parametrize("name", [name for name in samples.names("valid") if name != NAMESPACE])
@pytest.mark.promise("claims-12")
async def test_what_is_right_is_kept_as_it_is(kube: namespace.Namespace, backend: backends.Backend, name: str) -> None:
    if name == OLD_TEMPLATE and not backends.is_embedded(backend):
        pytest.skip("the fields of an old version are kept by the conversion of those who define the kind")
    for body in samples.valid(name, kube.name):
        said = await kube.create(body)
        assert said.status == 201, said
        assert _holds(said.body["spec"], body["spec"])


def _holds(kept: object, sent: object) -> bool:
    """Return whether everything sent was stored; defaults may have been added."""
    if isinstance(sent, dict):
        return isinstance(kept, dict) and all(key in kept and _holds(kept[key], sent[key]) for key in sent)
    if isinstance(sent, list):
        return isinstance(kept, list) and len(kept) == len(sent) and all(map(_holds, kept, sent))
    return kept == sent


@pytest.mark.parametrize("name", samples.names("invalid"))
async def test_what_is_wrong_is_refused_with_what_its_head_says(kube: namespace.Namespace, name: str) -> None:
    layer, expect, body = samples.invalid(name, kube.name)
    refused = await kube.create(body)
    assert refused.refusal[:2] == (422, "Invalid")
    if layer == "schema":
        # Old servers name no place in a list.
        assert _plain(expect.split()[0]) in [_plain(field) for field in refused.fields]
    else:
        words = re.findall(r"[\w.]+", expect)
        assert words == [word for word in words if word in refused.refusal[2]], refused.refusal[2]


def _plain(field: str) -> str:
    return re.sub(r"\[\d+\]", "", field)
