#!/usr/bin/env bash
# Reports known vulnerabilities in what each module calls (govulncheck). It needs the database at vuln.go.dev, so the public CI runs
# it, and .ci/run does not.
set -euo pipefail
cd "$(dirname "$0")/.."

govulncheck=golang.org/x/vuln/cmd/govulncheck@v1.9.0
failed=
for file in $(git ls-files '*go.mod'); do
	dir=$(dirname "$file")
	echo "== $(sed -n 's/^module //p' "$file")"
	(cd "$dir" && go run "$govulncheck" ./...) || failed="$failed $dir"
done
[ -z "$failed" ] || { echo "vulnerabilities.sh: found in$failed" >&2; exit 1; }
