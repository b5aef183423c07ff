"""How much of its next request a connection has sent when a request is answered."""

import pytest

from gantry.runtime.real import http_progress

GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n12345"
CHUNKS = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n0\r\n\r\n"
KINDS = [(GET, 0), (POST, 5), (CHUNKS, None)]
HALF = b"GET / HT"


@pytest.mark.parametrize(("request_bytes", "body_bytes"), KINDS)
def test_after_a_complete_request_nothing_of_the_next_one_has_arrived(
    request_bytes: bytes, body_bytes: int | None
) -> None:
    progress = http_progress.Progress()
    for _ in range(3):
        progress.receive(request_bytes, requests=1)
        assert progress.end_request(body_bytes) == 0


@pytest.mark.parametrize(("request_bytes", "body_bytes"), KINDS)
def test_wherever_the_packets_are_cut_a_request_is_complete(request_bytes: bytes, body_bytes: int | None) -> None:
    for cut in range(1, len(request_bytes)):
        progress = http_progress.Progress()
        for _ in range(2):
            progress.receive(request_bytes[:cut], requests=0)
            progress.receive(request_bytes[cut:], requests=1)
            assert progress.end_request(body_bytes) == 0


@pytest.mark.parametrize("size", range(1, len(GET)))
@pytest.mark.parametrize(("request_bytes", "body_bytes"), KINDS)
def test_a_part_of_the_next_request_counts_until_that_request_is_complete(
    request_bytes: bytes, body_bytes: int | None, size: int
) -> None:
    progress = http_progress.Progress()
    progress.receive(request_bytes + GET[:size], requests=1)
    assert progress.end_request(body_bytes) == (1 if body_bytes is None else size)
    progress.receive(GET[size:], requests=1)
    assert progress.end_request(0) == 0


def test_the_part_counts_from_its_first_byte_when_a_body_ends_like_headers() -> None:
    progress = http_progress.Progress()
    body = b"12\r\n"
    request_bytes = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n" + body
    progress.receive(request_bytes + b"\r", requests=1)
    assert progress.end_request(len(body)) == 1
    progress.receive(b"\n" + POST, requests=1)
    progress.receive(HALF, requests=0)
    assert progress.end_request(5) == len(HALF)


def test_while_another_complete_request_waits_no_part_counts() -> None:
    progress = http_progress.Progress()
    progress.receive(GET + POST + HALF, requests=2)
    assert progress.end_request(0) == 0
    assert progress.end_request(5) > 0


def test_of_several_requests_that_came_together_the_last_bytes_decide() -> None:
    progress = http_progress.Progress()
    progress.receive(GET, requests=1)
    progress.receive(POST, requests=1)
    assert progress.end_request(0) == 0
    # The bodies of both are not known: a body may be the beginning of a third request.
    assert progress.end_request(5) == 1


def test_several_complete_requests_leave_nothing() -> None:
    progress = http_progress.Progress()
    progress.receive(POST + GET, requests=2)
    assert [progress.end_request(5), progress.end_request(0)] == [0, 0]
