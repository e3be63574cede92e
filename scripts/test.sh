#!/usr/bin/env bash
# Runs go test with the arguments given, on real ensembles as well if there is a
# Docker engine: zkensemble starts and removes them. With CI=true there must be an engine.
set -uo pipefail
cd "$(dirname "$0")/.."

if docker info >/dev/null 2>&1; then
	scripts/zookeeper-image.sh && scripts/peer-image.sh || exit 1
	export CURATOR_TEST_DOCKER=1
	go build -o bin/zkensemble ./zktest/ensemble/cmd/zkensemble || exit 1
	exec bin/zkensemble -- go test "$@"
fi

unset CURATOR_TEST_DOCKER CURATOR_TEST_ENSEMBLE
go test "$@"
status=$?
cat <<'MSG'

LEFT OUT: every test on a real ZooKeeper ensemble, for no Docker engine answered.
To run them, install Docker, start it, make sure that `docker info` works, and
run `make test` again. The image is pulled, or built from Debian's packages.
MSG
if [ "${CI:-}" = true ]; then
	echo "CI=true: that is a failure."
	exit 1
fi
exit $status
