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


@pytest.mark.parametrize("name", [name for name in samples.names("valid") if name not in (NAMESPACE, OLD_TEMPLATE)])
@pytest.mark.promise("claims-12")
async def test_valid_samples_are_stored_unchanged(kube: namespace.Namespace, name: str) -> None:
    await _check_stored_unchanged(kube, name)


async def test_the_fields_of_an_old_template_are_stored_unchanged(
    kube: namespace.Namespace, backend: backends.Backend
) -> None:
    if not backends.is_embedded(backend):
        pytest.skip("the real server drops fields of old versions, unless Metal3's conversion webhook runs beside it")
    await _check_stored_unchanged(kube, OLD_TEMPLATE)


async def _check_stored_unchanged(kube: namespace.Namespace, name: str) -> None:
    for body in samples.valid(name, kube.name):
        answer = await kube.create(body)
        assert answer.status == 201, answer
        assert _holds(answer.body["spec"], body["spec"])


def _holds(kept: object, sent: object) -> bool:
    """Return whether everything sent was stored; defaults may have been added."""
    if isinstance(sent, dict):
        return isinstance(kept, dict) and all(key in kept and _holds(kept[key], sent[key]) for key in sent)
    if isinstance(sent, list):
        return isinstance(kept, list) and len(kept) == len(sent) and all(map(_holds, kept, sent))
    return kept == sent


@pytest.mark.parametrize("name", samples.names("invalid"))
async def test_invalid_samples_are_rejected_with_the_message_in_their_header(
    kube: namespace.Namespace, name: str
) -> None:
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
