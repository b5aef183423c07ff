"""The paths of a node's files and folders, all below one root.

Without a root the folders are the system's own (contracts/configuration.md#directories). A root (``GANTRY_ROOT``) moves
all of them below it, so that one machine can run many nodes. The names are short because the path of a UNIX socket has
at most 107 bytes.
"""

from dataclasses import dataclass

MASTER_PROGRAMS = ("gantry-masterd", "gantry.daemons.master")
"""Program and module names: a master daemon's command line contains one of them."""


@dataclass(frozen=True)
class Paths:
    """The five top-level folders of a node, and the paths in them."""

    lib: str
    run: str
    log: str
    etc: str
    srv: str

    @classmethod
    def below(cls, root: str) -> "Paths":
        """Return the folders below ``root``, or the system's own if ``root`` is empty."""
        if not root:
            return cls("/var/lib/gantry", "/run/gantry", "/var/log/gantry", "/etc/gantry", "/srv/gantry")
        base = root.rstrip("/")
        return cls(f"{base}/lib", f"{base}/run", f"{base}/log", f"{base}/etc", f"{base}/srv")

    @property
    def config(self) -> str:
        """The checkpoint of the cluster's state."""
        return f"{self.lib}/config.data"

    @property
    def journal(self) -> str:
        """The folder of the journal's sections."""
        return f"{self.lib}/journal"

    @property
    def incoming(self) -> str:
        """The folder of a checkpoint that a master candidate has not received completely."""
        return f"{self.lib}/incoming"

    @property
    def replacement(self) -> str:
        """The folder of a whole copy that is to replace the state of this machine."""
        return f"{self.lib}/replacement"

    @property
    def journal_end(self) -> str:
        """The second place that says where the journal ends."""
        return f"{self.lib}/journal-end"

    @property
    def queue(self) -> str:
        """The folder of the job files."""
        return f"{self.lib}/queue"

    @property
    def ssconf(self) -> str:
        """The folder of the ssconf files."""
        return f"{self.lib}/ssconf"

    @property
    def certificates(self) -> str:
        """The folder of certificates and keys, readable by root alone."""
        return f"{self.lib}/certs"

    @property
    def remote_certificate(self) -> str:
        """The remote API's own certificate with its key; without it, that of the master or of the node is used."""
        return f"{self.lib}/rapi.pem"

    @property
    def issued_remote_certificate(self) -> str:
        """The certificate with its key that the master issues for a remote API with a user of its own."""
        return f"{self.lib}/rapi-issued.pem"

    @property
    def usage(self) -> str:
        """The file with what the node and its guests used in the last day."""
        return f"{self.lib}/usage"

    @property
    def users(self) -> str:
        """The file with the users of the HTTP front ends."""
        return f"{self.lib}/users"

    @property
    def keystone_password(self) -> str:
        """The file with the password of the Neutron front end's account at Keystone."""
        return f"{self.lib}/keystone-password"

    @property
    def oidc_secret(self) -> str:
        """The file with the secret of the remote API at an OpenID provider."""
        return f"{self.lib}/oidc-secret"

    @property
    def luxi_socket(self) -> str:
        """The master daemon's socket."""
        return f"{self.run}/master.sock"

    @property
    def instances(self) -> str:
        """The folder of running instances: control sockets, process ids, runtime files."""
        return f"{self.run}/instances"

    @property
    def file_storage(self) -> str:
        """The folder of file-based disks."""
        return f"{self.srv}/file-storage"

    @property
    def shared_file_storage(self) -> str:
        """The folder of file-based disks that all nodes mount."""
        return f"{self.srv}/shared-file-storage"

    @property
    def exports(self) -> str:
        """The folder of instance exports."""
        return f"{self.lib}/export"

    @property
    def hooks(self) -> str:
        """The folder of the administrator's hook scripts, with a subfolder for each hook path and phase."""
        return f"{self.etc}/hooks"

    @property
    def segments(self) -> str:
        """The file with the default segment ranges, on the master."""
        return f"{self.etc}/segments.ini"

    @property
    def storage_providers(self) -> tuple[str, ...]:
        """The folders that are searched for external storage providers; the first match wins."""
        return (f"{self.srv}/extstorage", f"{self.etc}/extstorage")

    @property
    def allocators(self) -> tuple[str, ...]:
        """The folders searched for allocator programs (contracts/iallocator.md#program); the first match wins."""
        ganeti_folders = ("/usr/local/lib/ganeti/iallocators", "/usr/lib/ganeti/iallocators")
        return (f"{self.srv}/iallocators", f"{self.etc}/iallocators", *ganeti_folders)

    @property
    def os_definitions(self) -> tuple[str, ...]:
        """The folders that are searched for OS definitions; the first match wins."""
        return (f"{self.srv}/os", f"{self.etc}/os", "/usr/share/gantry/os")
