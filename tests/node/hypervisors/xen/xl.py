"""A stand-in for Xen's command ``xl``, for machines without Xen: domains are lines of a file in a folder.

    xl.py FOLDER COMMAND...

It knows what the driver uses, and answers as xl 4.17 does. A file FOLDER/fail with words in it makes the command of
that name fail with them; FOLDER/slow makes saving a domain wait until that file is gone; a guest is FOLDER/deaf that
does not listen, and FOLDER/stiff one that gives no memory back.
"""

import fcntl
import json
import os
import re
import sys
import time

FOLDER = sys.argv[1]
STATE = f"{FOLDER}/domains"
Domains = dict[str, dict[str, object]]
HEAD = "Name  ID   Mem VCPUs\tState\tTime(s)   UUID  Reason-Code\tSecurity Label"


def die(message: str) -> None:
    print(f"libxl: error: libxl_stand_in.c:1:stand_in: {message}", file=sys.stderr)
    sys.exit(1)


def read() -> Domains:
    try:
        with open(STATE) as file:
            contents: Domains = json.load(file)
    except FileNotFoundError:
        return {}
    return contents


def write(domains: Domains) -> None:
    with open(f"{STATE}.new", "w") as file:
        json.dump(domains, file)
    os.rename(f"{STATE}.new", STATE)


def number() -> int:
    with open(f"{FOLDER}/last", "a+") as file:
        file.write(".")
        file.flush()
        return os.fstat(file.fileno()).st_size


def settings(path: str) -> dict[str, str]:
    with open(path) as file:
        return dict(re.findall(r"^(\w+) = (.*)$", file.read(), re.MULTILINE))


def domain(path: str, *, paused: bool) -> tuple[str, dict[str, object]]:
    contents = settings(path)
    return contents["name"].strip('"'), {
        "id": number(),
        "memory": int(contents["memory"]),
        "vcpus": int(contents["vcpus"]),
        "paused": paused,
        "uuid": contents["uuid"].strip('"'),
        "nics": re.findall(r"mac=([0-9a-f:]{17})", contents["vif"]),
        "disks": re.findall(r"vdev=(\w+)", contents["disk"]),
        "reason": None,
    }


def flags(entry: dict[str, object]) -> str:
    if entry["reason"] is not None:
        return "---sc-" if entry["reason"] == 3 else "---s--"
    return "--p---" if entry["paused"] else "-b----"


def listed(domains: Domains) -> None:
    print(HEAD)
    print("Domain-0  0   700     1     r-----      20.1 00000000-0000-0000-0000-000000000000        -                -")
    for name, entry in domains.items():
        reason = "-" if entry["reason"] is None else f"{entry['reason']:x}"
        print(f"{name} {entry['id']} {entry['memory']} {entry['vcpus']} {flags(entry)} 1.0 {entry['uuid']} {reason} -")


def save(domains: Domains, name: str, path: str) -> None:
    entry = domains[name]
    entry["reason"] = 2
    write(domains)
    content = json.dumps({name: entry}).encode()
    try:
        with open(path, "wb", buffering=0) as file:
            file.write(content)
            while os.path.exists(f"{FOLDER}/slow"):
                file.write(b" ")
                time.sleep(0.01)
    except OSError:
        entry["reason"] = None
        write(domains)
        die(f"Failed to save domain {name}, resuming domain")
    entry["reason"], entry["paused"] = None, True
    write(domains)


def main() -> None:
    command, *rest = sys.argv[2:]
    try:
        with open(f"{FOLDER}/fail") as file:
            failing_command, _, message = file.read().partition(" ")
    except FileNotFoundError:
        failing_command, message = "", ""
    if command == failing_command:
        die(message)
    options = [word for word in rest if word.startswith("-")]
    words = [word for word in rest if not word.startswith("-")]
    domains = read()
    if command == "info":
        print("virt_caps              : pv hvm hap\ntotal_memory           : 1399\nfree_memory            : 681")
        return
    if command == "list":
        listed(domains)
        return
    if command in ("create", "restore"):
        content = sys.stdin.read() if command == "restore" else ""
        if command == "restore" and not content.strip().endswith("}"):
            die("the stream is incomplete")
        name, new_domain = domain(words[0], paused="-p" in options)
        domains = read()
        if name in domains:
            die(f'Domain with name "{name}" already exists.')
        domains[name] = new_domain
        write(domains)
        return
    name = words[0]
    if name not in domains:
        die(f"{name} is an invalid domain identifier (rc=-6)")
    entry = domains[name]
    nics, disks = [str(nic) for nic in entry["nics"]], [str(disk) for disk in entry["disks"]]  # type: ignore[attr-defined]
    if command == "save":
        save(domains, name, words[1])
        return
    if command == "network-list":
        print("Idx BE Mac Addr.         handle state evt-ch   tx-/rx-ring-ref BE-path")
        for index, mac in enumerate(nics):
            print(f"{index}   0  {mac}     0     4     -1   522/523         /local/domain/0/backend/vif/1/{index}")
        return
    if command == "destroy":
        del domains[name]
    elif command == "unpause":
        entry["paused"] = False
    elif command == "mem-set" and not os.path.exists(f"{FOLDER}/stiff"):
        entry["memory"] = int(words[1].removesuffix("m"))
    elif command == "network-attach":
        entry["nics"] = [*nics, words[1].removeprefix("mac=")]
    elif command == "network-detach":
        entry["nics"] = [nic for nic in nics if nic != words[1]]
    elif command == "block-attach":
        entry["disks"] = [*disks, *re.findall(r"vdev=(\w+)", words[1])]
    elif command == "block-detach":
        entry["disks"] = [disk for disk in disks if disk != words[1]]
    elif command == "shutdown" and not os.path.exists(f"{FOLDER}/deaf"):
        entry["reason"] = 0
    elif command == "reboot" and not os.path.exists(f"{FOLDER}/deaf"):
        entry["id"] = number()
    write(domains)


if __name__ == "__main__":
    os.makedirs(FOLDER, exist_ok=True)
    if sys.argv[2] in ("save", "restore"):
        main()
    else:
        with open(f"{FOLDER}/lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            main()
