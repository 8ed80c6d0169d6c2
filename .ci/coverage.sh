#!/bin/sh
# Lines of engine and server that the suite reaches: the whole of it once, built with counters (`make coverage`).
#   .ci/coverage.sh [LEAST]      LEAST: per cent that fail below, default 0
# Files with the least coverage are listed. BUILD (default build/cov) is where it is built, TARGET (default test) what make runs.
set -eu
cd "$(dirname "$0")/.."
least=${1:-0}
build=${BUILD:-build/cov}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
find "$build" -name '*.gcda' -exec rm -f {} + 2>/dev/null || true
make -s -j "$(nproc)" VARIANT=cov BUILD="$build" "${TARGET:-test}" >"$work/tests" 2>&1 || {
    tail -n 40 "$work/tests"
    echo "coverage: tests failed; the figures are of what ran" >&2
}
find "$build/obj/engine" "$build/obj/server" -name '*.gcno' >"$work/notes"
# "File 'x'" and "Lines executed:93.10% of 58" alternate; a source may be counted for several objects
xargs -n 50 gcov -n <"$work/notes" 2>/dev/null |
    awk -F"'" '/^File / {file = $2} /^Lines executed:/ && file ~ /^(engine|server)\/.*\.c$/ {
        split($0, p, /[:% ]+/); print file, p[3], p[5]; file = ""}' >"$work/lines"
awk -v least="$least" '{hit += $2 * $3 / 100; all += $3; print $2, $3, $1 | "sort -n | head -n 15"} END {
    close("sort -n | head -n 15")
    if (!all) {print "coverage: nothing was counted"; exit 1}
    printf "coverage: %.1f %% of %d lines of engine and server\n", 100 * hit / all, all
    exit 100 * hit / all < least}' "$work/lines"
