import os
from pathlib import Path

from tests.node.storage import storages

from gantry.node.storage import qcow2_export
from gantry.runtime.real import disk


class _Late(disk.Disk):
    """Reads a file when it has just been taken away."""

    def read(self, path: str) -> bytes:
        Path(path).unlink()
        return super().read(path)


async def test_a_view_whose_process_ends_while_it_is_looked_at_is_taken_away(tmp_path: Path) -> None:
    runtime = storages.runtime()
    runtime.disk = _Late()
    for name in ("d", "d.pid"):
        (tmp_path / name).write_text("1")
    await qcow2_export.Views(runtime, str(tmp_path)).close("d")
    assert os.listdir(tmp_path) == []
