#!/bin/sh
# usage: build.sh FOLDER
#
# Makes a real API server in FOLDER: kube-apiserver and kube-controller-manager, compiled from Debian 12's source package
# of Kubernetes by Debian 12's Go, and Debian 12's etcd. All of it comes from the mirrors that this machine's apt has for
# that suite; it happens in a Debian of its own (compile.sh), of which nothing but the three programs stays. It takes
# seven minutes of processor time and 3 GB while it runs. Needs root.
set -eu
folder=$1
here=$(cd "$(dirname "$0")" && pwd)
suite=bookworm
packages=golang-go,etcd-server,rsync,jq,make,dpkg-dev,golang-github-modern-go-reflect2-dev
files=$(grep -lE "^(deb|Suites:).*[ /]$suite( |\$)" /etc/apt/sources.list /etc/apt/sources.list.d/*.list \
    /etc/apt/sources.list.d/*.sources 2>/dev/null || true)
[ -n "$files" ] || { echo "no mirror of Debian's suite $suite is in this machine's /etc/apt" >&2; exit 1; }
command -v mmdebstrap >/dev/null || { echo "mmdebstrap is not installed: make system" >&2; exit 1; }
[ "$(id -u)" -eq 0 ] || { echo "only root can make the real API server; once it is there, anyone can run it" >&2; exit 1; }
draft=$(mktemp -d "$(dirname "$folder")/draft.XXXXXX")
trap 'rm -rf "$draft"' EXIT
trap 'exit 1' INT TERM

# This machine's apt seldom has the sources.
mkdir "$draft/sources"
for file in $files; do
    sed 's/^Types:.*/Types: deb deb-src/; s/^deb \(.*\)/&\ndeb-src \1/' "$file" >"$draft/sources/${file##*/}"
done

export COMPILE="$here/compile.sh" MADE="$draft/made"
# shellcheck disable=SC2016  # the variables of the hooks are the hooks'
mmdebstrap --quiet --mode=root --variant=minbase --include="$packages" \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' --aptopt="APT::Default-Release \"$suite\"" \
    --customize-hook='mkdir "$1/build" && cd "$1/build" &&
        APT_CONFIG="$MMDEBSTRAP_APT_CONFIG" apt-get source --quiet --quiet --download-only kubernetes' \
    --customize-hook='cp "$COMPILE" "$1/build" && chroot "$1" bash /build/compile.sh && mv "$1/build/made" "$MADE"' \
    "$suite" "$draft/root" "$draft"/sources/*
rm -rf "$folder"
mv "$draft/made" "$folder"
