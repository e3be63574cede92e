#!/usr/bin/env bash
# Builds a Docker image from Debian's packages, for machines that can pull none:
#
#	debian-image.sh NAME PACKAGE,... [option of mmdebstrap ...] [-- option of docker import ...]
#
# DEBIAN_SUITE names another suite than this machine's, such as sid.
set -euo pipefail
cd "$(dirname "$0")"

name=$1 packages=$2
shift 2
bootstrap=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do
	bootstrap+=("$1")
	shift
done
shift || true

echo "building $name from Debian's packages" >&2
if ! command -v mmdebstrap >/dev/null; then
	apt-get update -qq
	apt-get install -qq -y --no-install-recommends mmdebstrap >/dev/null
fi

# Packages come from where this machine gets its own.
. /etc/os-release
options=()
for conf in $(grep -l '^Acquire' /etc/apt/apt.conf /etc/apt/apt.conf.d/* 2>/dev/null || true); do
	options+=(--aptopt="$conf")
done
sources=()
for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
	[ -s "$list" ] && sources+=("$list")
done
suite=${DEBIAN_SUITE:-$VERSION_CODENAME}
if [ "$suite" != "$VERSION_CODENAME" ]; then
	mirror=$(cat "${sources[@]}" | sed -nE 's/^(URIs:|deb( \[[^]]*\])?) *([^ ]*\/debian)\/?( .*)?$/\3/p' | head -n 1)
	sources=("deb ${mirror:-http://deb.debian.org/debian} $suite main")
fi

root=$(mktemp)
trap 'rm -f "$root"' EXIT
mmdebstrap --quiet --format=tar --variant=essential --include="$packages" \
	--aptopt='APT::Install-Recommends "false"' "${options[@]}" "${bootstrap[@]}" \
	"$suite" "$root" "${sources[@]}" >&2
docker import --change 'ENV PATH=/usr/sbin:/usr/bin:/sbin:/bin' "$@" "$root" "$name" >/dev/null
echo "$name"
