#!/bin/sh
# Installs the Debian packages that the demo and the tests need; does nothing, and needs no root, when all are there.
set -eu

# buildah makes the container images; podman starts them in their test, with runc, which needs neither systemd nor cgroups
# of version 2, as crun does.
packages='qemu-system-x86 qemu-utils busybox-static iproute2 iputils-ping cpio kmod e2fsprogs python3-venv ca-certificates dnsmasq-base openssh-client openssh-server socat ovmf ganeti-htools lvm2 user-mode-linux mmdebstrap psmisc procps curl zstd postgresql-15 softhsm2 systemd-container dpkg-dev gnupg buildah podman runc'

installed() {
    [ "$(dpkg-query --show --showformat '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
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

echo "installing$missing"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# shellcheck disable=SC2086  # a list of words
apt-get install -qq --yes --no-install-recommends $missing >/dev/null
