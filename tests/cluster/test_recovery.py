"""A master that has lost the end of its journal, with real daemons: it asks the candidates, or says what is missing."""

from pathlib import Path

from tests.cluster import lab


def _segment(cluster: lab.Lab) -> Path:
    return max(path for path in (cluster.master / "lib/journal").iterdir() if path.stat().st_size)


def test_a_master_without_its_newest_segment_fetches_it_from_a_candidate(own: lab.Lab) -> None:
    own.add_node()
    own.add_node()
    own.run("gnt-instance", "add", "-t", "diskless", "--no-nics", "--no-start", "-n", "node1", "kept.example")
    own.kill_master()
    _segment(own).unlink()
    own.start_master()
    assert own.rows("gnt-instance", "name") == [["kept.example"]]
    assert own.rows("gnt-node", "name") == [["node1"], ["node2"], ["node3"]]


def test_a_master_that_lost_its_end_alone_says_what_is_missing_until_the_loss_is_accepted(own: lab.Lab) -> None:
    own.run("gnt-instance", "add", "-t", "diskless", "--no-nics", "--no-start", "-n", "node1", "lost.example")
    serial = own.master / "lib/queue/serial"
    lab.wait_until(lambda: serial.exists() and serial.read_text() != "0\n", "the highest job number in a file")
    own.kill_master()
    last_job = int(serial.read_text())
    _segment(own).write_bytes(b"")
    before = {path.name: path.read_bytes() for path in (own.master / "lib").iterdir() if path.is_file()}
    refusal = own.refused("gantry-masterd", code=2)
    assert f"{own.master}/lib/journal-end says serial" in refusal
    assert f"{own.master}/lib/queue/serial says {last_job}" in refusal
    assert "gnt-cluster recover --accept-loss" in refusal
    assert before == {path.name: path.read_bytes() for path in (own.master / "lib").iterdir() if path.is_file()}
    assert "add --accept-loss" in own.refused("gnt-cluster", "recover")
    answer = own.run("gnt-cluster", "recover", "--accept-loss").stdout
    assert f"The next job is {last_job + 1}" in answer
    own.start_master()
    assert own.rows("gnt-instance", "name") == []
    own.run("gnt-instance", "add", "-t", "diskless", "--no-nics", "--no-start", "-n", "node1", "new.example")
    assert min(int(row[0]) for row in own.rows("gnt-job", "id")) > last_job
    own.kill_master()
    own.start_master()
    assert own.rows("gnt-instance", "name") == [["new.example"]]
