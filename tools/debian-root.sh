#!/bin/sh
# usage: debian-root.sh [--image FOLDER] SUITE ROOT PACKAGE,...
#
# Makes a minimal Debian with these packages in a new folder, as root, and copies into it what this machine needs to
# download packages: apt's mirrors and proxies, pip's settings, certificates, and the files that environment variables of
# these name.
#
# With --image the Debian is for a container image: FOLDER is one more source of packages, nothing of this machine is
# copied, and apt, the documentation and the package lists are left out.
set -eu
image=
if [ "$1" = --image ]; then
    image=$2
    shift 2
fi
suite=$1 root=$2 packages=$3

copy() {
    [ ! -e "$1" ] || cp -rL --remove-destination --parents "$1" "$root/"
}

command -v mmdebstrap >/dev/null || { echo "mmdebstrap is not installed: make system" >&2; exit 1; }
files=$(grep -lE "^(deb|Suites:).*[ /]$suite(-security|-updates)?( |\$)" /etc/apt/sources.list /etc/apt/sources.list.d/*.list \
    /etc/apt/sources.list.d/*.sources 2>/dev/null || true)
[ -n "$files" ] || { echo "no mirror of Debian's suite $suite is in this machine's /etc/apt" >&2; exit 1; }

if [ -n "$image" ]; then
    # usrmerge, which the hook makes unnecessary, would need all of Perl, and systemd-sysusers all of systemd.
    # The hook is not quiet.
    # shellcheck disable=SC2086  # a list of files
    output=$(mmdebstrap --quiet --mode=root --variant=essential --include="$packages,systemd-standalone-sysusers" \
        --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr \
        --aptopt="APT::Default-Release \"/^$suite(|-security|-updates)\$/\"" \
        --dpkgopt=force-unsafe-io --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
        --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/info/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/lintian/*' \
        "$suite" "$root" $files "deb [trusted=yes] copy:$image ./" 2>&1) || { echo "$output" >&2; exit 1; }
    # Files of this machine, and files that differ between two runs.
    for each in etc/apt etc/resolv.conf etc/hostname etc/machine-id etc/dpkg/dpkg.cfg.d/99mmdebstrap var/lib/apt var/log var/cache; do
        rm -rf "${root:?}/$each"
    done
    mkdir "$root/var/log" "$root/var/cache"
    exit
fi

# shellcheck disable=SC2086  # a list of files
mmdebstrap --quiet --mode=root --variant=minbase --include="ca-certificates,$packages" \
    --aptopt="APT::Default-Release \"$suite\"" "$suite" "$root" $files

cp -L /etc/resolv.conf "$root/etc/resolv.conf"
apt-config dump | grep '^Acquire::' >"$root/etc/apt/apt.conf.d/99machine" || true
for file in /etc/ssl/certs /usr/local/share/ca-certificates /etc/pip.conf /root/.config/pip /root/.pip; do
    copy "$file"
done
for word in $("$(dirname "$0")/download-settings.sh"); do
    case ${word#*=} in /*) copy "${word#*=}" ;; esac
done
