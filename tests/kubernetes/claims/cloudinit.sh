#!/bin/sh
# usage: cloudinit.sh DIR
#
# Unpacks the Python part of Debian's package cloud-init into DIR; nothing is installed.
set -eu

[ $# -eq 1 ] || { echo "usage: cloudinit.sh DIR" >&2; exit 1; }
made=$1 work=$1.work

rm -rf "$work"
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
mkdir -p "$work"
cd "$work"
apt-get download -qq -o APT::Sandbox::User=root cloud-init
dpkg-deb -x cloud-init_*.deb files
mv files/usr/lib/python3/dist-packages "$made"
