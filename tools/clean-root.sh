#!/bin/sh
# usage: clean-root.sh [--suite SUITE] [--with PACKAGE,...] [--out FOLDER] [TARGET...]
#
# Runs make targets (quick, if none is named) in a clone of this checkout's HEAD, in a clean Debian 12 (or SUITE) that has
# nothing more than a minimal system, git, make and what `make system` installs there, and so finds the packages that
# tools/install-system.sh forgets. With --with it has these packages instead of those of `make system`. --out copies a
# folder of the clone into this checkout at the end. The Debian is made in a temporary folder below TMPDIR (/var/tmp), which is removed at
# the end; the mounts and the processes inside end before. The network is this machine's, and so are the settings for
# downloads (debian-root.sh); pip's indexes on this machine are mounted. Needs root.
set -eu
[ "$(id -u)" -eq 0 ] || { echo "only root can make a clean Debian and enter it" >&2; exit 1; }
checkout=$(cd "$(dirname "$0")/.." && pwd)
suite=bookworm with= out=
while :; do
    case ${1-} in
        --suite) suite=$2 ;;
        --with) with=$2 ;;
        --out) out=$2 ;;
        *) break ;;
    esac
    shift 2
done
[ $# -gt 0 ] || set -- quick
[ -n "$with" ] || set -- system "$@"
folder=$(mktemp -d "${TMPDIR:-/var/tmp}/clean-root.XXXXXX")
root=$folder/root
# The mounts are in a namespace of their own; --one-file-system is for a mount that this shell sees all the same.
trap 'rm -rf --one-file-system "$folder"' EXIT
trap 'exit 130' INT TERM

indexes() { # the folders of the package indexes that pip reads by file://; the packages lie beside an index
    python3 -m pip config list 2>/dev/null | grep -o "file://[^ ']*" | sed 's|^file://||; s|/$||; s|/[^/]*$||' | sort -u
}

"$checkout/tools/debian-root.sh" "$suite" "$root" "git,make${with:+,$with}"
git clone --quiet "$checkout" "$root/root/gantry"

export ROOT="$root" SETTINGS="$("$checkout/tools/download-settings.sh")" INDEXES="$(indexes)"
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
        $SETTINGS make -C /root/gantry "$@"
' sh "$@"
if [ -n "$out" ]; then
    mkdir -p "$checkout/$out"
    cp -a "$root/root/gantry/$out/." "$checkout/$out/"
fi
