#!/usr/bin/env bash
# Builds an image with Prometheus from Debian's packages, for the tests of zkdiscover and of the alerts, unless it exists.
set -euo pipefail
cd "$(dirname "$0")"

name=curator-prometheus:debian
if docker image inspect "$name" >/dev/null 2>&1; then
	echo "$name"
	exit 0
fi
./debian-image.sh "$name" prometheus
