#!/usr/bin/env bash
# Prints seeds whose worlds reach statements that those of seeds 1 to 300, which `make test` runs, and of the seeds printed before do not.
# They belong into seedsThatReach in test/sim/sim_test.go. FIRST (301) and LAST (1500) are the seeds to look at.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
packages=$(go list ./discovery ./internal/conn ./internal/engine ./internal/session ./recipes/... | paste -sd,)
go test -c -covermode=atomic -coverpkg="$packages" -o "$dir/sim.test" ./test/sim

# reached FIRST COUNT lists the blocks of statements that those worlds reach.
reached() {
	"$dir/sim.test" -test.run '^TestWorlds$' -test.timeout 0 -test.coverprofile "$dir/profile" -sim.first "$1" -sim.seeds "$2" >/dev/null
	awk 'NR > 1 && $3 > 0 { print $1 }' "$dir/profile" | sort
}

reached 1 300 >"$dir/known"
batch=25
for ((seed = ${FIRST:-301}; seed <= ${LAST:-1500}; seed += batch)); do
	[ -n "$(reached "$seed" $batch | comm -23 - "$dir/known")" ] || continue
	for ((one = seed; one < seed + batch; one++)); do
		new=$(reached "$one" 1 | comm -23 - "$dir/known")
		[ -n "$new" ] || continue
		echo "$one: $(wc -l <<<"$new") blocks, such as $(head -1 <<<"$new" | sed 's|.*/curator/||')"
		sort -m "$dir/known" - <<<"$new" >"$dir/more" && mv "$dir/more" "$dir/known"
	done
done
