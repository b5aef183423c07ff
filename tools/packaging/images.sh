#!/bin/sh
# usage: images.sh [--suite SUITE] [FOLDER]
#
# Builds the container images gantry-kube and gantry-api of the Debian packages in FOLDER (dist), and writes them there as
# archives in the form of OCI: NAME-VERSION.oci.tar. An image is one layer: a minimal Debian 12 (or SUITE) with the packages
# and what they depend on. It is built without a registry and without the images of this machine: the storage of buildah is
# in a temporary folder below TMPDIR (/var/tmp). All times in an image are that of debian/changelog, so the same packages
# give the same image. Needs root.
set -eu
[ "$(id -u)" -eq 0 ] || { echo "only root can make a Debian for an image" >&2; exit 1; }
tools=$(cd "$(dirname "$0")/.." && pwd)
suite=bookworm
if [ "${1-}" = --suite ]; then
    suite=$2
    shift 2
fi
dist=${1:-$(dirname "$tools")/dist}
command -v buildah >/dev/null || { echo "buildah is not installed: make system" >&2; exit 1; }
version=$(dpkg-parsechangelog --file "$tools/../debian/changelog" --show-field Version)
epoch=$(dpkg-parsechangelog --file "$tools/../debian/changelog" --show-field Timestamp)
ls "$dist/gantry-common_${version}_"*.deb >/dev/null 2>&1 ||
    { echo "there are no packages of version $version in $dist: make packages" >&2; exit 1; }
# The user of deploy/kubernetes, as in other images without a user of their own.
user=65532

folder=$(mktemp -d "${TMPDIR:-/var/tmp}/images.XXXXXX")
trap 'rm -rf --one-file-system "$folder"' EXIT
trap 'exit 130' INT TERM

build() { # runs buildah, whose storage is in the temporary folder
    buildah --root "$folder/storage" --runroot "$folder/run" --storage-driver vfs "$@"
}

fill() { # ROOT: gives the image its user and folders, and compiles Python's code
    echo "nonroot:x:$user:$user::/nonexistent:/usr/sbin/nologin" >>"$1/etc/passwd"
    echo "nonroot:x:$user:" >>"$1/etc/group"
    for each in /run/gantry /var/lib/gantry /var/log/gantry; do
        install -d -m 0755 -o $user -g $user "$1$each"
    done
    find "$1" -xdev -type f -perm /6000 -exec chmod ug-s {} +
    # Python compares the time of a source with the one in its compiled code, and the layer changes all times. Nothing can
    # be compiled again in a read-only container, so that each start would compile everything.
    find "$1/usr/lib" -name __pycache__ -prune -exec rm -r {} +
    chroot "$1" env -i PATH=/usr/bin PYTHONHASHSEED=0 python3 -m compileall -q --invalidation-mode unchecked-hash \
        /usr/lib/gantry /usr/lib/python3 "/usr/lib/$(basename "$(readlink "$1/usr/bin/python3")")"
}

image() { # NAME PACKAGE,... DESCRIPTION [SETTING...]: builds an image; the settings are those of buildah config
    name=$1 packages=$2 description=$3
    shift 3
    container=$(build from --name "$name" scratch)
    root=$(build mount "$container")
    "$tools/debian-root.sh" --image "$folder/packages" "$suite" "$root" "$packages,ca-certificates"
    fill "$root"
    build umount "$container" >/dev/null
    build config --user $user:$user --workingdir / --env PATH=/usr/sbin:/usr/bin:/sbin:/bin --env LANG=C.UTF-8 \
        --label "org.opencontainers.image.title=$name" \
        --label "org.opencontainers.image.description=$description" \
        --label "org.opencontainers.image.version=$version" \
        --label "org.opencontainers.image.created=$(date --utc --date "@$epoch" +%Y-%m-%dT%H:%M:%SZ)" \
        --label "org.opencontainers.image.vendor=Gantry" "$@" "$container"
    build commit --quiet --rm --identity-label=false --disable-compression=false --timestamp "$epoch" "$container" \
        "oci:$folder/$name:$name:$version" >/dev/null
    tar --create --file "$folder/$name.tar" --directory "$folder/$name" --sort=name --mtime "@$epoch" \
        --owner=0 --group=0 --numeric-owner blobs index.json oci-layout
    mv "$folder/$name.tar" "$dist/$name-$version.oci.tar"
    echo "image: dist/$name-$version.oci.tar"
}

# A folder with an index is a source of packages for apt, which reads it as a user of its own.
chmod 755 "$folder"
mkdir "$folder/packages"
cp "$dist"/gantry*"_${version}_"*.deb "$folder/packages"
(cd "$folder/packages" && dpkg-scanpackages --multiversion . >Packages 2>/dev/null)

image gantry-kube gantry-kube \
    'Controllers of the Kubernetes resources IPPool, IPClaim and IPAddress, and an API server for them' \
    --entrypoint '["/usr/sbin/gantry-kube"]' --cmd controllers \
    --port 9440/tcp --port 9443/tcp --port 6443/tcp
image gantry-api gantry-api,gantry-ipam \
    'The remote API and the Neutron API of a Gantry cluster, and the tables of its SQL database' \
    --entrypoint '["/usr/sbin/gantry-rapi"]' --cmd '--bind 0.0.0.0' --env GANTRY_LOG_FILES=0 \
    --port 5080/tcp --port 9696/tcp
