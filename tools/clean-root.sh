#!/bin/sh
# usage: clean-root.sh ROOT TARGET...
#
# Runs make targets in a clone of this checkout's HEAD, in a clean Debian 12 that has nothing more than a minimal system,
# git and make, and so finds the packages that tools/install-system.sh forgets. Makes the Debian in the folder ROOT unless
# ROOT exists, and replaces the clone in ROOT/root/gantry. The network is this machine's; the mounts and the processes
# inside end with the script, and ROOT stays until somebody deletes it. What this machine needs to download packages goes
# along: apt's mirrors and proxies, pip's settings, certificates, the environment variables of these and the files that
# these variables name. Needs root.
set -eu
[ $# -ge 2 ] || { echo "usage: $0 ROOT TARGET..." >&2; exit 2; }
[ "$(id -u)" -eq 0 ] || { echo "only root can make a clean Debian and enter it" >&2; exit 1; }
root=$1
shift
checkout=$(cd "$(dirname "$0")/.." && pwd)
suite=bookworm

make_root() {
    command -v mmdebstrap >/dev/null || { echo "mmdebstrap is not installed: make system" >&2; exit 1; }
    files=$(grep -lE "^(deb|Suites:).*[ /]$suite( |\$)" /etc/apt/sources.list /etc/apt/sources.list.d/*.list \
        /etc/apt/sources.list.d/*.sources 2>/dev/null || true)
    [ -n "$files" ] || { echo "no mirror of Debian's suite $suite is in this machine's /etc/apt" >&2; exit 1; }
    rm -rf "$root.draft"
    # shellcheck disable=SC2086  # a list of files
    mmdebstrap --quiet --mode=root --variant=minbase --include=ca-certificates,git,make \
        --aptopt="APT::Default-Release \"$suite\"" "$suite" "$root.draft" $files
    mv "$root.draft" "$root"
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

[ -d "$root" ] || make_root
root=$(cd "$root" && pwd)
copy_settings
rm -rf "$root/root/gantry"
git clone --quiet "$checkout" "$root/root/gantry"

export ROOT="$root" SETTINGS="$(settings)"
# A root folder has to be a mount point, or `ip netns` fails in it.
# shellcheck disable=SC2016  # the variables are the inner shell's
exec unshare --mount --pid --fork --kill-child sh -euc '
    mount --make-rprivate /
    mount --bind "$ROOT" "$ROOT"
    mount -t proc proc "$ROOT/proc"
    mount --rbind /sys "$ROOT/sys"
    mount --rbind /dev "$ROOT/dev"
    mount -t tmpfs tmpfs "$ROOT/run"
    mount -t tmpfs tmpfs "$ROOT/tmp"
    exec chroot "$ROOT" env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
        $SETTINGS make -C /root/gantry "$@"
' sh "$@"
