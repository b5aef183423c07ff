"""Manifests of the custom resource definitions (apiextensions.k8s.io/v1), for API servers from 1.20 on.

The generator of the kustomize base calls it. For old servers, no default is an empty string, and there are neither CEL
rules nor selectable fields.
"""

from gantry.kubernetes.api import definitions, schema

CONTRACT = "cluster.x-k8s.io"
LABELS = {
    "cluster.x-k8s.io/provider": "ipam-metal3",
    # clusterctl move moves the objects with this label and those they own.
    "clusterctl.cluster.x-k8s.io/move": "",
    **{f"{CONTRACT}/{version}": "v1alpha1" for version in ("v1alpha3", "v1alpha4", "v1beta1", "v1beta2")},
}


def crd(definition: definitions.Definition) -> schema.Json:
    """Return the CustomResourceDefinition of a kind."""
    names: schema.Json = {
        "kind": definition.kind,
        "listKind": f"{definition.kind}List",
        "plural": definition.plural,
        "singular": definition.singular,
        "shortNames": list(definition.short_names),
        "categories": list(definition.categories),
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{definition.plural}.{definition.group}", "labels": LABELS},
        "spec": {
            "group": definition.group,
            "names": names,
            "scope": "Namespaced",
            "versions": [_version(definition, version) for version in definition.versions],
        },
    }


def _version(definition: definitions.Definition, version: str) -> schema.Json:
    node = schema.to_openapi(definition.schema(version))
    properties = node["properties"]
    assert isinstance(properties, dict)
    head = {"metadata": {"type": "object"}}
    described = {**node, "properties": {**properties, **head}}
    out: schema.Json = {
        "name": version,
        "served": True,
        "storage": version == definition.versions[0],
        "schema": {"openAPIV3Schema": {**described, "description": definition.text}},
        "additionalPrinterColumns": [_column(column) for column in definition.columns],
    }
    return {**out, "subresources": {"status": {}}} if definition.has_status else out


def _column(column: definitions.Column) -> schema.Json:
    out: schema.Json = {"name": column.name, "type": column.type, "jsonPath": column.path}
    return {**out, "priority": column.priority} if column.priority else out


def ours() -> list[schema.Json]:
    """Return the CustomResourceDefinitions of our own kinds."""
    return [crd(definition) for definition in definitions.DEFINITIONS if definition.is_ours]
