#!/usr/bin/env bash
# Runs go test with the arguments given, on real ensembles as well if there is a
# Docker engine: zkensemble starts and removes them. With CI=true there must be an engine.
# The last lines say which tests were left out; bin/<level>.log has what go test -v prints. With -v all is printed.
set -uo pipefail
cd "$(dirname "$0")/.."

export CURATOR_TESTS=${CURATOR_TESTS:-test}
# Else each program with -race sleeps for a second at its end.
export GORACE="atexit_sleep_ms=50 ${GORACE:-}"
go build -o bin/testlog ./internal/test/testlevel/testlog || exit 1
case " $* " in
*" -v "*) log=(cat) ;;
*) log=(bin/testlog "bin/$CURATOR_TESTS.log") && set -- -json "$@" ;;
esac

# TIMES=1 measures compiling, linking and running; make times prints the table.
if [ -n "${TIMES:-}" ]; then
	go build -o bin/testtimes ./internal/test/testlevel/testtimes || exit 1
	rm -f bin/times.jsonl
	set -- -count=1 -exec "$PWD/bin/testtimes exec $PWD/bin/times.jsonl" -debug-actiongraph="$PWD/bin/actions.json" "$@"
fi

if [ "$CURATOR_TESTS" != check ] && docker info >/dev/null 2>&1; then
	images=$(mktemp)
	trap 'rm -f "$images"' EXIT
	{ # the first image installs what all need to be built; they wait for downloads most of the time
		scripts/zookeeper-image.sh || exit 1
		scripts/peer-image.sh >/dev/null &
		peers=$!
		scripts/kdc-image.sh >/dev/null && wait "$peers"
	} >"$images" &
	building=$!
	sleep 1
	if kill -0 "$building" 2>/dev/null; then # compile meanwhile; go test reports errors
		case " $* " in *" -race "*) race=-race ;; *) race= ;; esac
		go list $race -export -test -deps $(go list -m -f '{{.Dir}}/...') >/dev/null
	fi
	wait "$building" || exit 1
	ZOOKEEPER_IMAGE=$(tail -n 1 "$images")
	export ZOOKEEPER_IMAGE
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
