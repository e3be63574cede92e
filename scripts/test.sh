#!/usr/bin/env bash
# Runs go test with the arguments given, on real ensembles as well if there is a
# Docker engine: zkensemble starts and removes them. With CI=true there must be an engine.
# The last lines say which tests were left out; bin/<level>.log has what go test -v prints. With -v all is printed.
set -uo pipefail
cd "$(dirname "$0")/.."

export CURATOR_TESTS=${CURATOR_TESTS:-test}
go build -o bin/testlog ./internal/test/testlevel/testlog || exit 1
case " $* " in
*" -v "*) log=(cat) ;;
*) log=(bin/testlog "bin/$CURATOR_TESTS.log") && set -- -json "$@" ;;
esac

if [ "$CURATOR_TESTS" != check ] && docker info >/dev/null 2>&1; then
	image=$(scripts/zookeeper-image.sh) || exit 1 # the first image installs what all need to be built
	scripts/peer-image.sh &
	peers=$!
	scripts/kdc-image.sh && wait "$peers" || exit 1
	export ZOOKEEPER_IMAGE=${image##*$'\n'}
	echo "$ZOOKEEPER_IMAGE"
	export CURATOR_TEST_DOCKER=1
	go build -o bin/zkensemble ./zktest/ensemble/cmd/zkensemble || exit 1
	bin/zkensemble -- go test "$@" | "${log[@]}"
	exit
fi

unset CURATOR_TEST_DOCKER CURATOR_TEST_ENSEMBLE
go test "$@" | "${log[@]}"
status=$?
if [ "$CURATOR_TESTS" = check ]; then
	exit $status
fi
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
