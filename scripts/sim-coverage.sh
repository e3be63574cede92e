#!/usr/bin/env bash
# What the simulation reaches: the statements of each package, and the functions of recipes and discovery that no world
# calls. The arguments go to the test. bin/sim-coverage.out has each statement, for go tool cover -html.
set -uo pipefail
cd "$(dirname "$0")/.."

mkdir -p bin
profile=bin/sim-coverage.out
module=$(go list -f '{{.Module.Path}}' .)/
packages=$(go list ./framework ./discovery ./internal/conn ./internal/session ./recipes/... | paste -sd,)
if ! go test -v -count=1 -timeout 24h -run TestWorlds -coverpkg="$packages" -coverprofile="$profile" ./sim "$@" >bin/sim-coverage.log 2>&1; then
	tail -50 bin/sim-coverage.log
	exit 1
fi
grep -m1 -o '[0-9]* worlds in .*' bin/sim-coverage.log

# A line of the profile is "file:begin,end statements times".
awk -v module="$module" 'NR > 1 {
	package = $1; sub(/\/[^\/]*$/, "", package); sub(module, "", package)
	all[package] += $2
	if ($3 > 0) reached[package] += $2
} END {
	for (p in all) printf "%-34s %5.1f %%  %5d of %5d statements\n", p, 100 * reached[p] / all[p], reached[p], all[p]
}' "$profile" | sort

printf '\nnever called:\n'
go tool cover -func="$profile" | awk -v module="$module" '$NF == "0.0%" && /\/(recipes|discovery)\// {
	file = $1; sub(/:.*/, "", file); sub(module, "", file)
	if (!(file in names)) order[++n] = file
	names[file] = names[file] " " $2
} END { for (i = 1; i <= n; i++) print "  " order[i] ":" names[order[i]] }'
