#!/usr/bin/env bash
# Makes sure that there is a ZooKeeper image for the tests: the one that ZOOKEEPER_IMAGE
# names (default zookeeper:3.9), pulled if need be; where nothing can be pulled, one that
# is built from Debian's packages, which takes less than a minute. The last line printed is
# its name. With --build it is built even if another one is at hand.
set -euo pipefail
cd "$(dirname "$0")"

wanted=${ZOOKEEPER_IMAGE:-zookeeper:3.9}
built=curator-zookeeper:debian

have() { docker image inspect "$1" >/dev/null 2>&1; }

if [ "${1:-}" != --build ]; then
	for image in "$wanted" "$built"; do
		if have "$image"; then
			echo "$image"
			exit 0
		fi
		if [ "$image" = "$wanted" ] && timeout 120 docker pull --quiet "$image" >/dev/null 2>&1; then
			echo "$image"
			exit 0
		fi
	done
	if [ -n "${ZOOKEEPER_IMAGE:-}" ]; then
		echo "ZOOKEEPER_IMAGE=$ZOOKEEPER_IMAGE is not here and cannot be pulled" >&2
		exit 1
	fi
fi

echo "no ZooKeeper image can be pulled: building $built from Debian's packages" >&2
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

root=$(mktemp)
trap 'rm -f "$root"' EXIT
mmdebstrap --quiet --format=tar --variant=essential \
	--include=zookeeper,openjdk-17-jre-headless,libslf4j-java,iproute2,iptables,procps \
	--aptopt='APT::Install-Recommends "false"' "${options[@]}" \
	--customize-hook='copy-in zookeeper-entrypoint.sh /' \
	--customize-hook='chroot "$1" chmod +x /zookeeper-entrypoint.sh' \
	"$VERSION_CODENAME" "$root" "${sources[@]}" >&2
docker import \
	--change 'ENTRYPOINT ["/zookeeper-entrypoint.sh"]' \
	--change 'EXPOSE 2181 2888 3888' \
	--change 'ENV PATH=/usr/sbin:/usr/bin:/sbin:/bin' \
	"$root" "$built" >/dev/null
echo "$built"
