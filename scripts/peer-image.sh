#!/usr/bin/env bash
# Makes sure that there is an image with the peers of the interop tests: Java's Curator with its service discovery, and
# kazoo, from Debian's packages. With --build it is built even if it is there.
# ZOOKEEPER_SUITE=sid takes them from that suite of Debian: curator-peers:sid has newer ones.
set -euo pipefail
cd "$(dirname "$0")"

name=curator-peers:debian
if [ "${ZOOKEEPER_SUITE:-bookworm}" != bookworm ]; then
	name=curator-peers:$ZOOKEEPER_SUITE
	export DEBIAN_SUITE=$ZOOKEEPER_SUITE
fi
packages=default-jdk-headless,libcurator-recipes-java,libcurator-discovery-java,libcurator-framework-java,libcurator-client-java,libzookeeper-java,libslf4j-java,python3-kazoo
# An image of an older list of packages is built again.
if [ "${1:-}" != --build ] && [ "$(docker image inspect --format '{{.Config.Labels.packages}}' "$name" 2>/dev/null)" = "$packages" ]; then
	echo "$name"
	exit 0
fi
./debian-image.sh "$name" "$packages" -- --change "LABEL packages=$packages"
