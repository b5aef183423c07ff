import argparse

import pytest

from gantry.daemons import program


@pytest.mark.parametrize("text", ["65536", "-1", "80.0", "http", "", "9" * 5000])
def test_a_text_that_is_not_a_port_is_reported(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not a port"):
        program.port(text)


def test_ports_are_numbers() -> None:
    assert [program.port(text) for text in ("0", "80", "65535")] == [0, 80, 65535]
