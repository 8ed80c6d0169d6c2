#!/bin/sh
# Runs the test programs of the given groups, or single ones, and sums up; exit 1 when one failed.
#   tests/run.sh BUILD GROUP|GROUP/PROGRAM...
# As many programs at once as there are processors (VT_TEST_JOBS: another number), since most of them keep one busy and the
# others wait. What they print comes program by program, in the order of their names; before the sum the five that took
# longest.
build=$1
shift
jobs=${VT_TEST_JOBS:-$(nproc 2>/dev/null || echo 1)}
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

programs=$(for group in "$@"; do
    [ "$group" = "${group#*/}" ] || { echo "$group" && continue; }
    for source in tests/"$group"/check_*.c; do
        [ ! -e "$source" ] || echo "$group/$(basename "$source" .c)"
    done
done)

# shellcheck disable=SC2016 # the inner shell expands them
echo "$programs" | xargs -r -P "$jobs" -n 1 sh -c '
    log=$2/$(echo "$3" | tr / .)
    start=$(date +%s)
    "$1/tests/$3" >"$log" 2>&1
    status=$?
    echo "$(($(date +%s) - start)) s: $3" >>"$2/times"
    echo $status >"$log.status"' sh "$build" "$logs" &

passed=0
failed=0
skips=0
for name in $programs; do
    log=$logs/$(echo "$name" | tr / .)
    while [ ! -s "$log.status" ] && kill -0 $! 2>/dev/null; do
        sleep 0.1
    done
    status=$(cat "$log.status" 2>/dev/null || echo 127)
    cat "$log"
    skips=$((skips + $(grep -c '^skip: ' "$log")))
    # Check's summary: "100%: Checks: 12, Failures: 0, Errors: 0"
    line=$(grep -E '^[0-9]+%: Checks: ' "$log" | tail -n 1)
    checks=$(echo "$line" | sed -E 's/.*Checks: ([0-9]+).*/\1/')
    bad=$(echo "$line" | sed -E 's/.*Failures: ([0-9]+), Errors: ([0-9]+).*/\1 + \2/')
    if [ -n "$line" ]; then
        bad=$(($bad)) # the text "1 + 2"
        if [ "$status" -ne 0 ] && [ "$bad" -eq 0 ]; then
            bad=1
        fi
        passed=$((passed + checks - bad))
        failed=$((failed + bad))
    else
        echo "$name: no summary, exit status $status"
        failed=$((failed + 1))
    fi
done
wait
sort -rn "$logs/times" 2>/dev/null | head -n 5
echo "$skips skipped for want of reference data"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
