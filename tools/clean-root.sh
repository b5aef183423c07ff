#!/bin/sh
# usage: clean-root.sh [TARGET...]
#
# Runs make targets (quick, if none is named) in a clone of this checkout's HEAD, in a clean Debian 12 that has nothing
# more than a minimal system, git, make and what `make system` installs there, and so finds the packages that
# tools/install-system.sh forgets. The Debian is made in a temporary folder below TMPDIR (/var/tmp), which is removed at
# the end; the mounts and the processes inside end before. The network is this machine's. What this machine needs to
# download packages is copied: apt's mirrors and proxies, pip's settings, certificates, the environment variables of
# these and the files that these variables name; pip's indexes on this machine are mounted. Needs root.
set -eu
[ "$(id -u)" -eq 0 ] || { echo "only root can make a clean Debian and enter it" >&2; exit 1; }
[ $# -gt 0 ] || set -- quick
checkout=$(cd "$(dirname "$0")/.." && pwd)
suite=bookworm
folder=$(mktemp -d "${TMPDIR:-/var/tmp}/clean-root.XXXXXX")
root=$folder/root
# The mounts are in a namespace of their own; --one-file-system is for a mount that this shell sees all the same.
trap 'rm -rf --one-file-system "$folder"' EXIT
trap 'exit 130' INT TERM

make_root() {
    command -v mmdebstrap >/dev/null || { echo "mmdebstrap is not installed: make system" >&2; exit 1; }
    files=$(grep -lE "^(deb|Suites:).*[ /]$suite( |\$)" /etc/apt/sources.list /etc/apt/sources.list.d/*.list \
        /etc/apt/sources.list.d/*.sources 2>/dev/null || true)
    [ -n "$files" ] || { echo "no mirror of Debian's suite $suite is in this machine's /etc/apt" >&2; exit 1; }
    # shellcheck disable=SC2086  # a list of files
    mmdebstrap --quiet --mode=root --variant=minbase --include=ca-certificates,git,make \
        --aptopt="APT::Default-Release \"$suite\"" "$suite" "$root" $files
}

copy() {
    [ ! -e "$1" ] || cp -rL --remove-destination --parents "$1" "$root/"
}

copy_settings() {
    cp -L /etc/resolv.conf "$root/etc/resolv.conf"
    apt-config dump | grep '^Acquire::' >"$root/etc/apt/apt.conf.d/99machine" || true
    for file in /etc/ssl/certs /usr/local/share/ca-certificates /etc/pip.conf /root/.config/pip /root/.pip; do
        copy "$file"
    done
    for word in $(settings); do
        case ${word#*=} in /*) copy "${word#*=}" ;; esac
    done
}

settings() {
    env | grep -iE '^(PIP_[A-Z_]*|[a-z]*_proxy|SSL_CERT_[A-Z]*|[A-Z]*_CA_BUNDLE|GIT_SSL_[A-Z]*)=[^ ]*$' || true
}

indexes() { # the folders of the package indexes that pip reads by file://; the packages lie beside an index
    python3 -m pip config list 2>/dev/null | grep -o "file://[^ ']*" | sed 's|^file://||; s|/$||; s|/[^/]*$||' | sort -u
}

make_root
copy_settings
git clone --quiet "$checkout" "$root/root/gantry"

export ROOT="$root" SETTINGS="$(settings)" INDEXES="$(indexes)"
# A root folder has to be a mount point, or `ip netns` fails in it.
# shellcheck disable=SC2016  # the variables are the inner shell's
unshare --mount --pid --fork --kill-child sh -euc '
    mount --make-rprivate /
    mount --bind "$ROOT" "$ROOT"
    mount -t proc proc "$ROOT/proc"
    mount --rbind /sys "$ROOT/sys"
    mount --rbind /dev "$ROOT/dev"
    mount -t tmpfs tmpfs "$ROOT/run"
    mount -t tmpfs tmpfs "$ROOT/tmp"
    for index in $INDEXES; do
        mkdir -p "$ROOT$index"
        mount --bind "$index" "$ROOT$index"
    done
    exec chroot "$ROOT" env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
        $SETTINGS make -C /root/gantry system "$@"
' sh "$@"
