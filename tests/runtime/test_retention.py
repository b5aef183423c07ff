"""Which files of a series go, and which folder stays small."""

import pytest

from gantry.runtime import retention, simulated

FILES = [retention.File(f"/{number}", 10, 100.0 * number) for number in range(6)]


@pytest.mark.parametrize(
    ("keep", "expected"),
    [
        (retention.Retention(), 0),
        (retention.Retention(size=60), 0),
        (retention.Retention(size=59), 1),
        (retention.Retention(size=0), 6),
        (retention.Retention(seconds=600), 1),
        (retention.Retention(seconds=599), 1),
        (retention.Retention(seconds=601), 0),
        (retention.Retention(seconds=350, size=20), 4),
        (retention.Retention(seconds=150, size=60), 5),
    ],
)
def test_what_is_beyond_a_limit_goes_the_oldest_first(keep: retention.Retention, expected: int) -> None:
    assert list(retention.surplus(FILES, keep, size=60, now=600.0)) == FILES[:expected]


def test_a_file_that_stays_keeps_all_after_it() -> None:
    files = [FILES[5], *FILES[:5]]
    assert list(retention.surplus(files, retention.Retention(seconds=200), size=60, now=600.0)) == []


def test_a_folder_keeps_its_newest_files_and_removes_several_at_once() -> None:
    with simulated.World(seed=1) as world:
        disk = world.machine("one").disk

        async def write() -> None:
            await disk.make_directory("/logs")
            for number in range(10):
                await disk.write(f"/logs/{9 - number}", b"", sync=False)
                await world.clock.sleep(1)
                await retention.keep_newest(disk, "/logs", most=9)

        world.run(write())
        # The tenth was too many: then there were seven, the newest.
        assert disk.names("/logs") == ["0", "1", "2", "3", "4", "5", "6"]
