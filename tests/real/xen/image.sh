#!/bin/sh
# usage: image.sh FOLDER
#
# Makes what the tests of Xen boot, in FOLDER: Debian with Xen, its tools and the ordinary kernel in a sparse ext4 image
# (root.ext4), the same kernel, its initial RAM disk and the hypervisor as files of their own (vmlinuz, initrd, xen), for
# QEMU to start them. In the image's /guest is what Xen's guests boot: that kernel with an initial RAM disk that is a
# whole small system (init-guest.sh), and a CD-ROM with both. It is the same suite, from the same mirrors, as the machine
# it is made on. All that is Gantry's comes from the host when the machine starts: see init.sh. Needs root.
set -eu
folder=$1
here=$(cd "$(dirname "$0")" && pwd)
packages=xen-system-amd64,qemu-system-xen,linux-image-amd64,python3,iproute2,iputils-ping,kmod,procps,socat,isolinux,syslinux-common,genisoimage
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
sources=$(grep -lE "^(deb|Suites:).*[ /]$suite( |\$)" /etc/apt/sources.list /etc/apt/sources.list.d/*.list \
    /etc/apt/sources.list.d/*.sources 2>/dev/null || true)
draft=$(mktemp -d "$(dirname "$folder")/draft.XXXXXX")
trap 'rm -rf "$draft"' EXIT

# shellcheck disable=SC2016  # $1 is mmdebstrap's
few='mkdir -p "$1/etc/initramfs-tools/conf.d" && echo MODULES=list >"$1/etc/initramfs-tools/conf.d/few" &&
    printf "%s\n" virtio_pci virtio_blk ext4 crc32c_generic >"$1/etc/initramfs-tools/modules"'
# shellcheck disable=SC2086  # a list of files
mmdebstrap --quiet --mode=root --variant=minbase --include="$packages" --essential-hook="$few" \
    --dpkgopt='force-confold' --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' "$suite" "$draft/root" $sources
root=$draft/root
release=$(basename "$(echo "$root"/lib/modules/*)")
mkdir "$draft/made"
cp "$root/boot/vmlinuz-$release" "$draft/made/vmlinuz"
cp "$root/boot/initrd.img-$release" "$draft/made/initrd"
gzip -dc "$root"/boot/xen-*-amd64.gz >"$draft/made/xen"

tree=$draft/guest
mkdir -p "$tree/bin" "$tree/sbin" "$tree/dev" "$tree/proc" "$tree/sys" "$root/guest/cd"
cp "$(command -v busybox)" "$tree/bin/busybox"
cp "$here/init-guest.sh" "$tree/init"
chmod 755 "$tree/init"
# What the kernel runs when its hypervisor asks it to shut down.
printf '#!/bin/busybox sh\nexec /bin/busybox poweroff -f\n' >"$tree/sbin/poweroff"
printf '#!/bin/busybox sh\nexec /bin/busybox reboot -f\n' >"$tree/sbin/reboot"
chmod 755 "$tree/sbin/poweroff" "$tree/sbin/reboot"
number=10
for module in xen-blkfront xen-netfront; do
    for file in $(modprobe -d "$root" -S "$release" --show-depends "$module" | awk '$1 == "insmod" { print $2 }'); do
        cp "$file" "$tree/$number-${file##*/}"
        number=$((number + 1))
    done
done
(cd "$tree" && find . | cpio --quiet -o -H newc -R 0:0 | gzip) >"$root/guest/initrd"
cp "$draft/made/vmlinuz" "$root/guest/vmlinuz"
cp "$root/guest/vmlinuz" "$root/guest/initrd" "$root/usr/lib/ISOLINUX/isolinux.bin" \
    "$root/usr/lib/syslinux/modules/bios/ldlinux.c32" "$root/guest/cd"
cat >"$root/guest/cd/isolinux.cfg" <<'MENU'
default guest
label guest
    kernel vmlinuz
    append initrd=initrd console=ttyS0 quiet guest.address=192.0.2.43/24
MENU
chroot "$root" genisoimage -quiet -o /guest/cd.iso -b isolinux.bin -c boot.cat -no-emul-boot -boot-load-size 4 \
    -boot-info-table /guest/cd
rm -rf "$root/guest/cd" "$root"/boot/* "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*

rm -f "$root/sbin/init"
cat >"$root/sbin/init" <<'INIT'
#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mountpoint -q /proc || mount -t proc proc /proc
modprobe 9pnet_virtio
mkdir -p /host
mount -t 9p -o trans=virtio,ro,version=9p2000.L,cache=loose host /host
for word in $(cat /proc/cmdline); do
    case $word in init.script=*) exec /bin/sh "/host${word#*=}" ;; esac
done
INIT
chmod 755 "$root/sbin/init"
truncate --size=2G "$draft/made/root.ext4"
mkfs.ext4 -q -d "$root" "$draft/made/root.ext4"
rm -rf "$folder"
mv "$draft/made" "$folder"
