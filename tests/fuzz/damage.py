"""Hypothesis strategies for damage to bytes, as disks, networks and editors cause it."""

from collections.abc import Callable

from hypothesis import strategies as st

Edit = Callable[[bytes], bytes]

_POSITION = st.floats(0, 1, exclude_max=True)


def _flip(data: bytes, position: float, bit: int) -> bytes:
    index = int(position * len(data))
    return data[:index] + bytes([data[index] ^ (1 << bit)]) + data[index + 1 :]


def _over(data: bytes, position: float, new: bytes) -> bytes:
    index = int(position * len(data))
    return data[:index] + new + data[index + len(new) :]


def _insert(data: bytes, position: float, new: bytes) -> bytes:
    index = int(position * len(data))
    return data[:index] + new + data[index:]


def _remove(data: bytes, position: float, length: int) -> bytes:
    index = int(position * len(data))
    return data[:index] + data[index + length :]


def _repeat(data: bytes, first: float, second: float) -> bytes:
    start, stop = sorted((int(first * len(data)), int(second * len(data))))
    return data[:stop] + data[start:]


def _swap_lines(data: bytes, first: float, second: float) -> bytes:
    lines = data.splitlines(keepends=True)
    left, right = int(first * len(lines)), int(second * len(lines))
    lines[left], lines[right] = lines[right], lines[left]
    return b"".join(lines)


def _drop_line(data: bytes, position: float) -> bytes:
    lines = data.splitlines(keepends=True)
    del lines[int(position * len(lines))]
    return b"".join(lines)


def _edits() -> st.SearchStrategy[Edit]:
    def bind(work: Callable[..., bytes], *more: st.SearchStrategy[object]) -> st.SearchStrategy[Edit]:
        return st.tuples(*more).map(lambda values: lambda data: work(data, *values) if data else data)

    return st.one_of(
        bind(_flip, _POSITION, st.integers(0, 7)),
        bind(_over, _POSITION, st.binary(min_size=1, max_size=40)),
        bind(_over, _POSITION, st.integers(1, 2000).map(bytes)),
        bind(_over, _POSITION, st.sampled_from([b"0", b"9", b"null", b'"', b"[", b"}", b"\n"])),
        bind(_insert, _POSITION, st.binary(min_size=1, max_size=40)),
        bind(_remove, _POSITION, st.integers(1, 3000)),
        bind(_repeat, _POSITION, _POSITION),
        bind(_swap_lines, _POSITION, _POSITION),
        bind(_drop_line, _POSITION),
        st.binary(max_size=200).map(lambda new: lambda data: new),
        _POSITION.map(lambda position: lambda data: data[: int(position * len(data))]),
        st.binary(min_size=1, max_size=200).map(lambda tail: lambda data: data + tail),
        st.integers(1, 4096).map(lambda count: lambda data: data + bytes(count)),
    )


def edited(count: int = 3) -> st.SearchStrategy[Edit]:
    """Return edits that consist of one to ``count`` single edits, in sequence."""

    def chained(edits: list[Edit]) -> Edit:
        def work(data: bytes) -> bytes:
            for edit in edits:
                data = edit(data)
            return data

        return work

    return st.lists(_edits(), min_size=1, max_size=count).map(chained)
