"""A master that has lost a part of its state, with real daemons: it asks the candidates, or says what is missing."""

import re
import shutil
from pathlib import Path

import pytest
from tests.cluster import lab


def _segment(cluster: lab.Lab) -> Path:
    return max(path for path in (cluster.master / "lib/journal").iterdir() if path.stat().st_size)


def _wait_until_reported(cluster: lab.Lab) -> None:
    """Wait until the master's own node has stored how far changes are acknowledged."""
    lib = cluster.master / "lib"
    newest = (lib / "journal-end").read_text().splitlines()[-1].split()[0]
    lab.wait_until(lambda: newest in (lib / "acknowledged").read_text().split(), "the report of the last change")


def test_a_master_without_its_newest_segment_fetches_it_from_a_candidate(own: lab.Lab) -> None:
    own.add_node()
    own.add_node()
    own.run("gnt-instance", "add", "-t", "diskless", "--no-nics", "--no-start", "-n", "node1", "kept.example")
    own.kill_master()
    _segment(own).unlink()
    own.start_master()
    assert own.rows("gnt-instance", "name") == [["kept.example"]]
    assert own.rows("gnt-node", "name") == [["node1"], ["node2"], ["node3"]]


@pytest.mark.slow
def test_a_master_that_lost_the_record_of_its_own_takeover_asks_the_candidates_who_is_the_master(own: lab.Lab) -> None:
    own.add_node()
    own.add_node()
    own.run("gnt-cluster", "master-failover", "--yes-do-it", on=own.nodes[1])
    own.leader = 1
    own.run("gnt-cluster", "add-tags", "blue")
    lib = own.nodes[0].root / "lib"
    files = [lib / "config.data", *(lib / "journal").iterdir()]
    lab.wait_until(lambda: any('"blue"' in path.read_text() for path in files), "the copy on node1")
    backup = {path: path.read_bytes() for path in files}
    own.run("gnt-cluster", "master-failover", "--yes-do-it", on=own.nodes[0])
    own.leader = 0
    own.run("gnt-instance", "add", "-t", "diskless", "--no-nics", "--no-start", "-n", "node1", "kept.example")
    own.kill_master()
    shutil.rmtree(lib / "journal")
    (lib / "journal").mkdir()
    for path, content in backup.items():
        path.write_bytes(content)
    own.start_master()
    assert own.rows("gnt-instance", "name") == [["kept.example"]]
    assert dict(own.rows("gnt-node", "name,role")) == {"node1": "M", "node2": "C", "node3": "C"}


@pytest.mark.slow
def test_a_master_that_lost_the_records_of_renewed_keys_reaches_the_candidates_that_have_them(own: lab.Lab) -> None:
    own.add_node()
    own.add_node()
    own.kill_master()
    own.start_master()
    own.run("gnt-cluster", "renew-crypto", "--new-node-certificates")
    own.run("gnt-instance", "add", "-t", "diskless", "--no-nics", "--no-start", "-n", "node1", "kept.example")
    own.kill_master()
    _segment(own).write_bytes(b"")
    own.start_master()
    assert own.rows("gnt-instance", "name") == [["kept.example"]]
    own.verified()


@pytest.mark.slow
def test_an_old_copy_of_all_files_of_the_only_node_is_refused_after_later_masters(own: lab.Lab) -> None:
    names = ("config.data", "journal", "queue", "journal-end")
    own.kill_master()
    backup = own.folder / "backup"
    shutil.copytree(own.master / "lib", backup)
    for _ in range(2):
        own.start_master()
        own.run("gnt-cluster", "add-tags", "later")
        own.run("gnt-cluster", "remove-tags", "later")
        own.kill_master()
    for name in names:
        old, new = backup / name, own.master / "lib" / name
        if old.is_dir():
            shutil.rmtree(new)
            shutil.copytree(old, new)
        else:
            shutil.copy2(old, new)
    refusal = own.refused("gantry-masterd", code=2)
    assert re.search(r"lib/epoch says that a master of epoch [0-9]+ ran", refusal)
    assert "gnt-cluster recover --accept-loss" in refusal


@pytest.mark.slow
def test_a_master_that_lost_its_end_alone_says_what_is_missing_until_the_loss_is_accepted(own: lab.Lab) -> None:
    own.run("gnt-instance", "add", "-t", "diskless", "--no-nics", "--no-start", "-n", "node1", "lost.example")
    serial = own.master / "lib/queue/serial"
    last_job = max(int(row[0]) for row in own.rows("gnt-job", "id"))
    lab.wait_until(lambda: serial.exists() and int(serial.read_text()) == last_job, "the highest job number in a file")
    _wait_until_reported(own)
    own.kill_master()
    _segment(own).write_bytes(b"")
    before = {path.name: path.read_bytes() for path in (own.master / "lib").iterdir() if path.is_file()}
    refusal = own.refused("gantry-masterd", code=2)
    assert f"{own.master}/lib/journal-end says serial" in refusal
    assert f"{own.master}/lib/queue/serial says {last_job}" in refusal
    assert "gnt-cluster recover --accept-loss" in refusal
    assert before == {path.name: path.read_bytes() for path in (own.master / "lib").iterdir() if path.is_file()}
    assert "or add --accept-loss" in own.refused("gnt-cluster", "recover")
    answer = own.run("gnt-cluster", "recover", "--accept-loss").stdout
    assert f"The next job is {last_job + 1}" in answer
    own.start_master()
    assert own.rows("gnt-instance", "name") == []
    own.run("gnt-instance", "add", "-t", "diskless", "--no-nics", "--no-start", "-n", "node1", "new.example")
    assert min(int(row[0]) for row in own.rows("gnt-job", "id")) > last_job
    own.kill_master()
    own.start_master()
    assert own.rows("gnt-instance", "name") == [["new.example"]]


@pytest.mark.slow
def test_a_job_number_is_not_given_twice_if_the_queue_s_files_were_not_written_before_the_loss(own: lab.Lab) -> None:
    own.run("gnt-instance", "add", "-t", "diskless", "--no-nics", "--no-start", "-n", "node1", "lost.example")
    last_job = max(int(row[0]) for row in own.rows("gnt-job", "id"))
    own.kill_master()
    _segment(own).write_bytes(b"")
    for path in (*(own.master / "lib/queue").glob("job-*"), own.master / "lib/queue/serial"):
        path.unlink(missing_ok=True)
    assert "the end of the journal is missing" in own.refused("gantry-masterd", code=2)
    assert f"The next job is {last_job + 1};" in own.run("gnt-cluster", "recover", "--accept-loss").stdout
    own.start_master()
    own.run("gnt-instance", "add", "-t", "diskless", "--no-nics", "--no-start", "-n", "node1", "new.example")
    assert min(int(row[0]) for row in own.rows("gnt-job", "id")) > last_job


@pytest.mark.slow
def test_a_loss_is_not_accepted_while_a_candidate_that_answers_has_the_records(own: lab.Lab) -> None:
    own.add_node()
    own.add_node()
    own.run("gnt-instance", "add", "-t", "diskless", "--no-nics", "--no-start", "-n", "node1", "kept.example")
    own.kill_master()
    _segment(own).unlink()
    refusal = own.refused("gnt-cluster", "recover", "--accept-loss")
    assert "holds a newer one, serial" in refusal
    assert re.search(r"install that copy: gnt-cluster recover --from node[23]", refusal)
    own.start_master()
    assert own.rows("gnt-instance", "name") == [["kept.example"]]


@pytest.mark.slow
def test_a_master_whose_disk_went_back_does_not_start_without_the_candidate_that_has_its_changes(own: lab.Lab) -> None:
    """One candidate was down. Of the two that acknowledged changes, one has its old disk, and the other is silent."""
    behind, silent = own.add_node(), own.add_node()
    names = ("config.data", "journal", "queue", "journal-end", "acknowledged")
    new_tags = [f"new-{number}" for number in range(5)]
    lib, backup = own.master / "lib", own.folder / "backup"
    lab.wait_until((lib / "acknowledged").exists, "the report of what was acknowledged")
    shutil.copytree(lib, backup)
    behind.stop()
    for tag in new_tags:
        own.run("gnt-cluster", "add-tags", tag)
    _wait_until_reported(own)
    silent.stop()
    own.kill_master()
    for name in names:
        old, new = backup / name, lib / name
        if old.is_dir():
            shutil.rmtree(new)
            shutil.copytree(old, new)
        else:
            shutil.copy2(old, new)
    behind.start()
    refusal = own.refused("gantry-masterd")
    assert re.search(r"records [0-9]+ to [0-9]+ of epoch 1 were acknowledged, as node1 has heard", refusal)
    assert "gnt-cluster recover --accept-loss" in refusal
    silent.start()
    own.start_master()
    assert own.run("gnt-cluster", "list-tags").stdout.split() == new_tags


@pytest.mark.slow
def test_an_accepted_loss_names_the_node_that_did_not_answer(own: lab.Lab) -> None:
    node = own.add_node()
    own.run("gnt-instance", "add", "-t", "diskless", "--no-nics", "--no-start", "-n", "node1", "lost.example")
    own.kill_master()
    _segment(own).unlink()
    node.stop()
    refusal = own.refused("gnt-cluster", "recover")
    assert "also those on nodes that do not answer" in refusal
    answer = own.run("gnt-cluster", "recover", "--accept-loss").stdout
    assert "did not say what they have, and records that only they have are lost: node2 (" in answer


@pytest.mark.slow
def test_a_master_with_the_files_of_its_first_moment_does_not_start_as_a_cluster_of_one_node(own: lab.Lab) -> None:
    """An old backup of the journal and the checkpoint is restored after kill -9: the candidates have the cluster."""
    lib = own.master / "lib"
    own.kill_master()
    backup = {path: path.read_bytes() for path in (lib / "config.data", *(lib / "journal").iterdir())}
    own.start_master()
    own.add_node()
    own.add_node()
    own.run("gnt-instance", "add", "-t", "diskless", "--no-nics", "--no-start", "-n", "node1", "kept.example")
    last_job = max(int(row[0]) for row in own.rows("gnt-job", "id"))
    own.kill_master()
    shutil.rmtree(lib / "journal")
    (lib / "journal").mkdir()
    for path, content in backup.items():
        path.write_bytes(content)
    refusal = own.refused("gantry-masterd", code=2)
    assert "ssconf names node2, node3, which the state does not have" in refusal
    assert "gnt-cluster recover --from NODE, with one of node2, node3" in refusal
    assert "no such node: node9" in own.refused("gnt-cluster", "recover", "--from", "node9")
    answer = own.run("gnt-cluster", "recover", "--from", "node3").stdout
    assert "The copy of node node3 is installed" in answer
    assert f"The next job is {last_job + 1}" in answer
    assert (lib / "before-recovery-1/config.data").read_bytes() == backup[lib / "config.data"]
    own.start_master()
    assert own.rows("gnt-node", "name") == [["node1"], ["node2"], ["node3"]]
    assert own.rows("gnt-instance", "name") == [["kept.example"]]
    own.run("gnt-instance", "add", "-t", "diskless", "--no-nics", "--no-start", "-n", "node1", "new.example")
    assert max(int(row[0]) for row in own.rows("gnt-job", "id")) == last_job + 1
    own.verified()
    assert "a master daemon runs" in own.refused("gnt-cluster", "recover", "--from", "node3")


@pytest.mark.slow
@pytest.mark.promise("networks-57", "cluster-151")
def test_a_master_works_from_memory_and_checks_addresses_in_use_when_it_loads_its_state(own: lab.Lab) -> None:
    add = ("gnt-instance", "add", "-t", "diskless", "--no-start", "-n", "node1", "--net", "0:ip=pool,network=net1")
    own.run(*add, "a")
    file = own.master / "lib/config.data"
    file.write_bytes(b"no state")
    assert own.rows("gnt-instance", "name") == [["a"]]
    own.run(*add, "b")
    (pools,) = own.rows("gnt-network", "map", "net1")
    assert pools[0].startswith("XX")
    own.stop_master(own.nodes[0])
    written = file.read_text()
    assert '"reservations":["192.0.2.10-192.0.2.11"]' in written
    wrong = written.replace('"192.0.2.10-192.0.2.11"', '"192.0.2.10"', 1)
    file.write_text(re.sub('"checksum": "[0-9a-f]{64}"', '"checksum": "edited"', wrong, count=1))
    assert "NICs and ports use 192.0.2.10-192.0.2.11" in own.refused("gantry-masterd", code=2)
    file.write_text(written)
    own.start_master()
    assert own.rows("gnt-instance", "name") == [["a"], ["b"]]
