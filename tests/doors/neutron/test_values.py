"""What values an attribute may have."""

import pytest

from gantry.doors.neutron import attributes, values


@pytest.mark.parametrize(
    ("number", "refused"), [(0, None), (1, None), (3, None), (4, "the list has 4 items, 3 is the most.")]
)
def test_a_list_has_as_many_items_as_its_schema_says(number: int, refused: str | None) -> None:
    check = values.list_of(values.address, maximum=3)
    assert check([f"192.0.2.{index}" for index in range(number)]) == refused
    assert check.schema["maxItems"] == 3


TEXT, BETWEEN = values.text(3), values.between(2, 4)
RECORD = values.record({"start": values.address}, size=BETWEEN)


@pytest.mark.parametrize(
    ("check", "value", "reason"),
    [
        (TEXT, "", None), (TEXT, "abc", None), (TEXT, "abcd", "'abcd' exceeds maximum length of 3."),
        (TEXT, 5, "'5' is not a valid string."), (TEXT, None, "'None' is not a valid string."),
        (BETWEEN, 2, None), (BETWEEN, 4, None), (BETWEEN, 1, "'1' is too small - must be at least '2'."),
        (BETWEEN, 5, "'5' is too large - must be no larger than '4'."), (BETWEEN, "3", "'3' is not an integer"),
        (values.mac, "fa:16:3e:00:00:01", None), (values.mac, 5, "'5' is not a valid MAC address."),
        (values.mac, "fa:16:3e:00:00", "'fa:16:3e:00:00' is not a valid MAC address."),
        (RECORD, {"start": "10.0.0.1"}, None), (RECORD, {"size": 2, "start": "::1"}, None),
        (RECORD, "10.0.0.1", "'10.0.0.1' is not a dictionary."), (RECORD, None, "'None' is not a dictionary."),
        (RECORD, {}, "'{}' has not start."), (RECORD, {"start": "x"}, "'x' is not a valid IP address."),
        (RECORD, {"start": "::1", "size": 5}, "'5' is too large - must be no larger than '4'."),
        (RECORD, {"start": "::1", "end": "::2"}, "'{'start': '::1', 'end': '::2'}' has unexpected end."),
    ],
)  # fmt: skip
def test_a_value_is_accepted_or_refused_with_the_reason(
    check: attributes.Check, value: object, reason: str | None
) -> None:
    assert check(value) == reason


@pytest.mark.parametrize(
    ("check", "schema"),
    [
        (TEXT, {"type": "string", "maxLength": 3}), (BETWEEN, {"type": "integer", "minimum": 2, "maximum": 4}),
        (RECORD, {
            "type": "object", "required": ["start"], "additionalProperties": False,
            "properties": {"start": values.schema(values.address), "size": BETWEEN.schema},
        }),
    ],
    ids=["text", "integer", "object"],
)  # fmt: skip
def test_the_schema_of_a_check_has_its_limits(check: attributes.Check, schema: dict[str, object]) -> None:
    assert values.schema(check) == schema


@pytest.mark.parametrize(("cidr", "version"), [("10.0.0.5/24", 4), ("2001:db8::/64", 6)])
def test_the_ip_version_of_a_cidr(cidr: str, version: int) -> None:
    assert values.cidr(cidr) is None
    assert values.version(cidr) == version
