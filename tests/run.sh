#!/bin/sh
# Runs the test programs of the given groups and sums up; exit 1 when one failed.
#   tests/run.sh BUILD GROUP...
build=$1
shift
passed=0
failed=0
skips=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for group in "$@"; do
    for source in tests/"$group"/check_*.c; do
        [ -e "$source" ] || continue
        name=$(basename "$source" .c)
        "$build/tests/$group/$name" >"$log" 2>&1
        status=$?
        cat "$log"
        skips=$((skips + $(grep -c '^skip: ' "$log")))
        # Check's summary: "100%: Checks: 12, Failures: 0, Errors: 0"
        set -- "$@"
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
            echo "$group/$name: no summary, exit status $status"
            failed=$((failed + 1))
        fi
    done
done
echo "$skips skipped for want of reference data"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
