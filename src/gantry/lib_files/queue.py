"""The files of the job queue: their names, and what ``serial`` says. Pure. See contracts/jobs.md#files.

queue/job-N              a job that is not archived
queue/archive/K/job-N    an archived job, K = N div ``ARCHIVE_SIZE``
queue/serial             the highest job number assigned
queue/version            the format of this folder
"""

import hashlib
import re
from collections.abc import Iterable

ARCHIVE_SIZE = 10_000
"""How many jobs a folder of the archive has (contracts/jobs.md#files)."""

DIGEST_LENGTH = 16
"""Hexadecimal digits of the digest of a job's file in ``config.data``, the first of its SHA-256."""

FILE = re.compile(r"job-[1-9][0-9]*|serial|version", re.ASCII)
"""A file that a copy of the queue has, beside the archive."""

ARCHIVED_FILE = re.compile(r"archive/[0-9]+/job-[1-9][0-9]*", re.ASCII)


def path(folder: str, number: int) -> str:
    """Return the path of a job's file in the folder of the queue."""
    return f"{folder}/job-{number}"


def archive_folder(archive: str, number: int) -> str:
    """Return the folder of an archive that a job belongs to.

    >>> archive_folder("queue/archive", 20017)
    'queue/archive/2'
    """
    return f"{archive}/{number // ARCHIVE_SIZE}"


def archived_path(archive: str, number: int) -> str:
    """Return the path of an archived job's file.

    >>> archived_path("archive", 20017)
    'archive/2/job-20017'
    """
    return path(archive_folder(archive, number), number)


def numbers(names: Iterable[str]) -> set[int]:
    """Return the numbers of the jobs whose files are among the names in a folder.

    >>> numbers(["job-7", "job-x", "serial"])
    {7}
    """
    suffixes = (name.removeprefix("job-") for name in names if name.startswith("job-"))
    return {int(suffix) for suffix in suffixes if suffix.isascii() and suffix.isdigit()}


def digest(content: bytes) -> str:
    """Return the digest by which ``config.data`` recognizes the content of a job's file."""
    return hashlib.sha256(content).hexdigest()[:DIGEST_LENGTH]


def encode_serial(number: int) -> bytes:
    """Return the content of ``serial``."""
    return b"%d\n" % number


def decode_serial(content: bytes) -> int:
    r"""Return the number in ``serial``; 0 for anything else, which a crash may leave, because the file is not synced.

    >>> decode_serial(b"17\n"), decode_serial(b""), decode_serial(b"\0\0\0")
    (17, 0, 0)
    """
    text = content.strip()
    return int(text) if text.isdigit() and len(text) < 20 else 0
