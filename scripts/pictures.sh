#!/usr/bin/env bash
# Makes the pictures of docs from runs: test/pictures. One of them shows a broken library.
set -euo pipefail
cd "$(dirname "$0")/.."
go test -count=1 ./test/pictures -pictures "$PWD/docs/pictures"
# The bug of test/mutation "the context ends after twice the session timeout".
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
file=$PWD/internal/session/deadline.go
sed 's#heard.Add((d.timeout - d.timeout/margin) / 100 \* d.percent)#heard.Add(2 * d.timeout)#' "$file" >"$work/deadline.go"
cmp -s "$file" "$work/deadline.go" && { echo "deadline.go has changed: adapt this script" >&2; exit 1; }
printf '{"Replace": {"%s": "%s"}}' "$file" "$work/deadline.go" >"$work/overlay.json"
if go test -count=1 -overlay "$work/overlay.json" ./test/pictures -run TestLoss -pictures "$PWD/docs/pictures" -pictures.suffix -bug >"$work/log"; then
	echo "the broken library passed the test" >&2
	exit 1
fi
grep -m 1 "after the next one held" "$work/log"
