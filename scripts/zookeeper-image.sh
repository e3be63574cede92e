#!/usr/bin/env bash
# Makes sure that there is a ZooKeeper image for the tests: the one that ZOOKEEPER_IMAGE
# names (default zookeeper:3.9), pulled if need be; where nothing can be pulled, one that
# is built from Debian's packages, which takes less than a minute. The last line printed is
# its name. With --build it is built even if another one is at hand.
#
# ZOOKEEPER_SUITE=sid asks for the one of that suite of Debian, which has a newer ZooKeeper. It is
# curator-zookeeper:sid. scripts/test.sh has the tests use it; for others ZOOKEEPER_IMAGE must name it.
set -euo pipefail
cd "$(dirname "$0")"

wanted=${ZOOKEEPER_IMAGE:-zookeeper:3.9}
built=curator-zookeeper:debian
if [ "${ZOOKEEPER_SUITE:-bookworm}" != bookworm ]; then
	built=curator-zookeeper:$ZOOKEEPER_SUITE
	wanted=$built
	export DEBIAN_SUITE=$ZOOKEEPER_SUITE
fi

have() { docker image inspect "$1" >/dev/null 2>&1; }

if [ "${1:-}" != --build ]; then
	for image in "$wanted" "$built"; do
		if have "$image"; then
			echo "$image"
			exit 0
		fi
		if [ "$image" != "$built" ] && timeout 120 docker pull --quiet "$image" >/dev/null 2>&1; then
			echo "$image"
			exit 0
		fi
	done
	if [ -n "${ZOOKEEPER_IMAGE:-}" ] && [ "$wanted" != "$built" ]; then
		echo "ZOOKEEPER_IMAGE=$ZOOKEEPER_IMAGE is not here and cannot be pulled" >&2
		exit 1
	fi
fi

./debian-image.sh "$built" zookeeper,default-jre-headless,libslf4j-java,iproute2,iptables,procps \
	--customize-hook='copy-in zookeeper-entrypoint.sh /' \
	--customize-hook='chroot "$1" chmod +x /zookeeper-entrypoint.sh' \
	-- \
	--change 'ENTRYPOINT ["/zookeeper-entrypoint.sh"]' \
	--change 'EXPOSE 2181 2888 3888'
