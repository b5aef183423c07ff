#!/bin/sh
# usage: install-system.sh [demo]
#
# Installs the Debian packages that the tests need, or with `demo` those of the demonstration alone. Does nothing, and
# needs no root, when all are there. No service starts, and none is left enabled that was not enabled before.
set -eu

demo='qemu-system-x86 qemu-utils busybox-static iproute2 iputils-ping cpio kmod e2fsprogs python3-venv ca-certificates dnsmasq-base socat procps'

# buildah makes the container images; podman starts them in their test, with runc, which needs neither systemd nor cgroups
# of version 2, as crun does.
# libatomic1 is for the driver of the tests' browser.
tests='openssh-client openssh-server ovmf ganeti-htools lvm2 user-mode-linux mmdebstrap psmisc curl zstd postgresql-15 softhsm2 systemd-container dpkg-dev gnupg buildah podman runc prometheus chromium libatomic1'

packages=$demo
[ "${1-}" = demo ] || packages="$demo $tests"

installed() {
    [ "$(dpkg-query --show --showformat '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

enabled() { # the units that start with the machine
    ! command -v systemctl >/dev/null || systemctl --root=/ list-unit-files --no-legend --state=enabled 2>/dev/null | awk '{ print $1 }' | sort
}

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "make system knows Debian only; install what these packages hold by hand: $packages" >&2
    exit 1
fi

missing=
for package in $packages; do
    installed "$package" || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" -ne 0 ]; then
    echo "these Debian packages are missing, and only root can install them:$missing; run as root: make system" >&2
    exit 1
fi

export DEBIAN_FRONTEND=noninteractive
policy=/usr/sbin/policy-rc.d
if ! [ -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    trap 'exit 130' INT TERM
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
fi
before=$(enabled)
echo "Debian packages that are missing:$missing"
echo "fetching the package lists"
apt-get update -qq
echo "downloading the packages"
# shellcheck disable=SC2086  # a list of words
apt-get install -qq --yes --no-install-recommends --download-only $missing >/dev/null
echo "installing the packages"
# shellcheck disable=SC2086
apt-get install -qq --yes --no-install-recommends $missing >/dev/null
for unit in $(enabled); do
    printf '%s\n' "$before" | grep -qxF "$unit" || systemctl --root=/ --quiet disable "$unit" 2>/dev/null || true
done
