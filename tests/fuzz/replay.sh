#!/bin/sh
# Runs each fuzz program of a build over its corpus, over the regressions and, where the reference data exist, over
# the broken files of the same kind there: whole, cut and changed. One line per program; exit 1 when one failed.
#   tests/fuzz/replay.sh BUILD
build=$1
shared=${VITRAL_SHARED:-../shared}
here=$(dirname "$0")
passed=0
failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# folders of the reference data that hold files of that kind
kinds() {
    case $1 in
    exif) echo "jpeg" ;;
    safetensors) echo "weights" ;;
    multipart) echo "http" ;;
    *) echo "$1" ;;
    esac
}

for program in "$build"/tests/fuzz/fuzz_*; do
    [ -x "$program" ] && [ -f "$program" ] || continue
    kind=$(basename "$program" | sed 's/^fuzz_//')
    set --
    for folder in "$here/corpus/$kind" "$here/regressions/$kind"; do
        [ -d "$folder" ] && set -- "$@" "$folder"
    done
    for name in $(kinds "$kind"); do
        [ -d "$shared/cases/files/$name" ] && set -- "$@" "$shared/cases/files/$name"
    done
    if [ $# -eq 0 ]; then
        echo "fuzz_$kind: nothing to replay: tests/fuzz/corpus/$kind is missing"
        failed=$((failed + 1))
        continue
    fi
    changed=-m
    [ "$kind" != http ] || changed= # each input is a connection
    # shellcheck disable=SC2086 # nothing when empty
    if "$program" $changed "$@" >"$log" 2>&1; then
        passed=$((passed + 1))
        echo "fuzz_$kind: $(tail -n 1 "$log")"
    else
        failed=$((failed + 1))
        echo "fuzz_$kind: FAILED"
        tail -n 40 "$log"
    fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
