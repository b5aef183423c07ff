"""Messages of the decoder in plain words."""

import msgspec
import pytest

from gantry import errors


class Item(msgspec.Struct, forbid_unknown_fields=True):
    name: str = ""
    sizes: dict[str, int] = {}
    ready: bool | None = None


class Body(msgspec.Struct):
    items: list[Item] = []


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"items": [{"name": 5}]}, "items[0].name: must be a text, not a whole number"),
        ({"items": {}}, "items: must be a list, not an object"),
        ({"items": [{"sizes": {"a": "b"}}]}, "items[0].sizes: must be a whole number, not a text"),
        ({"items": [{"sizes": {5: 1}}]}, "items[0].sizes: must be a text, not a whole number"),
        ({"items": [{"ready": "x"}]}, "items[0].ready: must be true or false or null, not a text"),
        ({"items": [{"x": 1}]}, "items[0]: Object contains unknown field `x`"),
        (7, "must be an object, not a whole number"),
    ],
)
def test_a_message_names_the_value_first_and_types_in_words(value: object, text: str) -> None:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(value, Body)
    assert errors.readable(str(caught.value)) == text


def test_a_message_without_a_path_stays_as_it_is() -> None:
    assert errors.readable("JSON is malformed: invalid character (byte 3)") == (
        "JSON is malformed: invalid character (byte 3)"
    )
