#!/bin/sh
# Runs fuzz programs that were built with libFuzzer (make VARIANT=fuzz), one after the other, at the lowest priority.
#   tests/fuzz/run.sh BUILD [TARGET...]      a target is what follows fuzz_; none: all of them
#   FUZZ_SECONDS (600), FUZZ_RUNS (1000000)  what each gets, whichever ends first
# Each starts from its corpus, its regressions and what earlier runs have found (BUILD/found/TARGET); a finding is left as
# BUILD/findings/TARGET-*. One line per target: executions, seconds, edges, features, inputs in the corpus. Exit 1 when one
# failed.
build=$1
shift
here=$(dirname "$0")
seconds=${FUZZ_SECONDS:-600}
runs=${FUZZ_RUNS:-1000000}
failed=0
mkdir -p "$build/found" "$build/findings"

[ "$#" -gt 0 ] || set -- $(for source in "$here"/fuzz_*.c; do basename "$source" .c | sed 's/^fuzz_//'; done)
for kind in "$@"; do
    program=$build/tests/fuzz/fuzz_$kind
    log=$build/found/$kind.log
    mkdir -p "$build/found/$kind"
    case $kind in
    model | safetensors) longest=262144 ;;
    *) longest=16384 ;;
    esac
    folders=$build/found/$kind
    for folder in "$here/corpus/$kind" "$here/regressions/$kind"; do
        [ -d "$folder" ] && folders="$folders $folder"
    done
    dictionary=
    [ -e "$here/$kind.dict" ] && dictionary=-dict=$here/$kind.dict
    # shellcheck disable=SC2086 # one word per folder
    nice -n 19 "$program" -max_total_time="$seconds" -runs="$runs" -max_len="$longest" -timeout=30 -rss_limit_mb=2048 \
        -malloc_limit_mb=512 -print_final_stats=1 -artifact_prefix="$build/findings/$kind-" $dictionary $folders \
        >"$log" 2>&1
    status=$?
    [ "$status" -eq 0 ] || failed=$((failed + 1))
    # the last line of progress: "#1000 DONE cov: 12 ft: 34 corp: 5/6b ..."
    awk -v kind="$kind" -v status="$status" '
        / cov: / { for (i = 1; i < NF; i++) { if ($i == "cov:") cov = $(i + 1); if ($i == "ft:") ft = $(i + 1);
                   if ($i == "corp:") corp = $(i + 1) } }
        /number_of_executed_units/ { runs = $2 }
        /^Done [0-9]+ runs in/ { seconds = $5 }
        END { sub(/\/.*/, "", corp)
              printf "fuzz_%s: %d executions, %s s, %d edges, %d features, %d inputs%s\n", kind, runs,
                     seconds == "" ? "?" : seconds, cov, ft, corp, status == 0 ? "" : ": FAILED with status " status }' "$log"
    [ "$status" -eq 0 ] || grep -E 'ERROR|SUMMARY|runtime error|Test unit written' "$log" | head -n 5
done
[ "$failed" -eq 0 ]
