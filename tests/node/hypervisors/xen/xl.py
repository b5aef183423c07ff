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


def die(said: str) -> None:
    print(f"libxl: error: libxl_stand_in.c:1:stand_in: {said}", file=sys.stderr)
    sys.exit(1)


def read() -> Domains:
    try:
        with open(STATE) as file:
            found: Domains = json.load(file)
    except FileNotFoundError:
        return {}
    return found


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
    found = settings(path)
    return found["name"].strip('"'), {
        "id": number(),
        "memory": int(found["memory"]),
        "vcpus": int(found["vcpus"]),
        "paused": paused,
        "uuid": found["uuid"].strip('"'),
        "nics": re.findall(r"mac=([0-9a-f:]{17})", found["vif"]),
        "disks": re.findall(r"vdev=(\w+)", found["disk"]),
        "reason": None,
    }


def flags(one: dict[str, object]) -> str:
    if one["reason"] is not None:
        return "---sc-" if one["reason"] == 3 else "---s--"
    return "--p---" if one["paused"] else "-b----"


def listed(domains: Domains) -> None:
    print(HEAD)
    print("Domain-0  0   700     1     r-----      20.1 00000000-0000-0000-0000-000000000000        -                -")
    for name, one in domains.items():
        reason = "-" if one["reason"] is None else f"{one['reason']:x}"
        print(f"{name} {one['id']} {one['memory']} {one['vcpus']} {flags(one)} 1.0 {one['uuid']} {reason} -")


def save(domains: Domains, name: str, path: str) -> None:
    one = domains[name]
    one["reason"] = 2
    write(domains)
    content = json.dumps({name: one}).encode()
    try:
        with open(path, "wb", buffering=0) as file:
            file.write(content)
            while os.path.exists(f"{FOLDER}/slow"):
                file.write(b" ")
                time.sleep(0.01)
    except OSError:
        one["reason"] = None
        write(domains)
        die(f"Failed to save domain {name}, resuming domain")
    one["reason"], one["paused"] = None, True
    write(domains)


def main() -> None:
    command, *rest = sys.argv[2:]
    try:
        with open(f"{FOLDER}/fail") as file:
            wanted, _, said = file.read().partition(" ")
    except FileNotFoundError:
        wanted, said = "", ""
    if command == wanted:
        die(said)
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
        name, made = domain(words[0], paused="-p" in options)
        domains = read()
        if name in domains:
            die(f'Domain with name "{name}" already exists.')
        domains[name] = made
        write(domains)
        return
    name = words[0]
    if name not in domains:
        die(f"{name} is an invalid domain identifier (rc=-6)")
    one = domains[name]
    nics, disks = [str(nic) for nic in one["nics"]], [str(disk) for disk in one["disks"]]  # type: ignore[attr-defined]
    if command == "save":
        save(domains, name, words[1])
        return
    if command == "network-list":
        print("Idx BE Mac Addr.         handle state evt-ch   tx-/rx-ring-ref BE-path")
        for place, mac in enumerate(nics):
            print(f"{place}   0  {mac}     0     4     -1   522/523         /local/domain/0/backend/vif/1/{place}")
        return
    if command == "destroy":
        del domains[name]
    elif command == "unpause":
        one["paused"] = False
    elif command == "mem-set" and not os.path.exists(f"{FOLDER}/stiff"):
        one["memory"] = int(words[1].removesuffix("m"))
    elif command == "network-attach":
        one["nics"] = [*nics, words[1].removeprefix("mac=")]
    elif command == "network-detach":
        one["nics"] = [nic for nic in nics if nic != words[1]]
    elif command == "block-attach":
        one["disks"] = [*disks, *re.findall(r"vdev=(\w+)", words[1])]
    elif command == "block-detach":
        one["disks"] = [disk for disk in disks if disk != words[1]]
    elif command == "shutdown" and not os.path.exists(f"{FOLDER}/deaf"):
        one["reason"] = 0
    elif command == "reboot" and not os.path.exists(f"{FOLDER}/deaf"):
        one["id"] = number()
    write(domains)


if __name__ == "__main__":
    os.makedirs(FOLDER, exist_ok=True)
    if sys.argv[2] in ("save", "restore"):
        main()
    else:
        with open(f"{FOLDER}/lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            main()
