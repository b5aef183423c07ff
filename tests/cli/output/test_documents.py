import yaml
from hypothesis import given
from hypothesis import strategies as st

from gantry.cli.output import documents

TEXTS = (
    st.text(st.characters(codec="utf-8"))
    | st.from_regex(r"[\w.:+/ -]{0,20}")
    | st.sampled_from(
        [
            "yes",
            "No",
            "null",
            "~",
            "1:20:30",
            "0x1f",
            "1e5",
            ".5",
            "-",
            "fe80::",
            "a: b",
            "a #b",
            "2025-01-02",
            "=",
            "<<",
        ]
    )
)
PLAIN = TEXTS | st.integers() | st.booleans() | st.none()
DOCUMENTS = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4), max_leaves=12
)


@given(DOCUMENTS)
def test_yaml_loads_what_was_written(document: object) -> None:
    assert yaml.safe_load(documents.document(document)) == document


def test_a_document_is_easy_to_read() -> None:
    document = {"Instance name": "web1", "NICs": [{"nic/0": "", "IP": ["192.0.2.1", "2001:db8::1"]}], "Disks": []}
    assert documents.document(document).splitlines() == [
        "Instance name: web1",
        "NICs:",
        '  - nic/0: ""',
        "    IP:",
        "      - 192.0.2.1",
        "      - 2001:db8::1",
        "Disks: []",
    ]
