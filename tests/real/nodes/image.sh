#!/bin/sh
# usage: image.sh IMAGE
#
# Makes the root file system of the storage tests' nodes: Debian with LVM, DRBD's programs and Python, in a sparse ext4
# image that User-Mode Linux and QEMU boot. It is the same suite, from the same mirrors, as the machine it is made on.
# All that is Gantry's comes from the host when a node starts: see init.sh. Needs root.
set -eu
image=$1
packages=lvm2,drbd-utils,python3,iproute2,iputils-ping,kmod,udev,procps
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
sources=$(grep -lE "^(deb|Suites:).*[ /]$suite( |\$)" /etc/apt/sources.list /etc/apt/sources.list.d/*.list \
    /etc/apt/sources.list.d/*.sources 2>/dev/null || true)
draft=$(mktemp -d "$(dirname "$image")/draft.XXXXXX")
trap 'rm -rf "$draft"' EXIT

# shellcheck disable=SC2086  # a list of files
mmdebstrap --quiet --mode=root --variant=minbase --include="$packages" \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' "$suite" "$draft/root" $sources
rm -f "$draft/root/sbin/init"
cat >"$draft/root/sbin/init" <<'INIT'
#!/bin/sh
mount -t proc proc /proc
mkdir -p /host
# The host's files, as User-Mode Linux has them, or else QEMU.
mount -t hostfs -o ro none /host 2>/dev/null ||
    mount -t 9p -o trans=virtio,ro,version=9p2000.L,cache=loose,msize=131072 host /host
for word in $(cat /proc/cmdline); do
    case $word in init.script=*) exec /bin/sh "/host${word#*=}" ;; esac
done
INIT
chmod 755 "$draft/root/sbin/init"
mkdir -p "$draft/root/lib/modules"
truncate --size=1G "$draft/image"
mkfs.ext4 -q -d "$draft/root" "$draft/image"
mv "$draft/image" "$image"
