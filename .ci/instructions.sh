#!/bin/sh
# Counts the instructions of the hot paths (tests/bench/hot.c) and compares them with tests/bench/instructions.txt:
# more than 5 % above fails, more than 5 % below asks for the lower number. Counts do not depend on the load of the
# machine, nor on its model as long as it has AVX2: valgrind, which counts, shows every such CPU to the program as the
# same one.
#   .ci/instructions.sh           compare; status 1 when a path got slower, or when a number of the table is too high
#   .ci/instructions.sh --update  write the table anew
# BUILD (default build) is where the program is, or is built by CC (default gcc). The numbers are those of one
# compiler, which the table names; with any other, or without AVX2, nothing can be said, and it says so loudly.
set -eu
cd "$(dirname "$0")/.."
build=${BUILD:-build}
cc=${CC:-gcc}
table=tests/bench/instructions.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

skip() {
    echo "instructions: NOTHING WAS COMPARED: $*" >&2
    exit 0
}

# __VERSION__ says "12.2.0" for gcc, and "Debian Clang ..." for clang.
compiler=$(printf '__VERSION__\n' | "$cc" -E -P -x c - 2>/dev/null | tr -d '"')
case $compiler in
[0-9]*) compiler="gcc ${compiler%%.*}" ;;
*) compiler=${compiler%% [0-9]*} ;;
esac
wanted=$(sed -n 's/^# compiler: //p' "$table")
[ "$(uname -m)" = x86_64 ] || skip "the numbers are for x86_64, this is $(uname -m)"
[ "$compiler" = "$wanted" ] || skip "the numbers are for $wanted, this is ${compiler:-no compiler}"
command -v valgrind >/dev/null || skip "valgrind is not there"

make -s CC="$cc" BUILD="$build" "$build/tests/bench/hot"
# count_this() is entered once for each path, and leaving it writes the next file.
env -i PATH="$PATH" OPENBLAS_CORETYPE=Haswell OPENBLAS_NUM_THREADS=1 valgrind -q --tool=callgrind \
    --toggle-collect=count_this --dump-after=count_this --callgrind-out-file="$work/count" \
    "$build/tests/bench/hot" >"$work/paths"

read -r _ kernels <"$work/paths"
[ "$kernels" = avx2 ] || skip "the numbers are for the AVX2 kernels, here run the $kernels ones"

n=0
tail -n +2 "$work/paths" | while read -r path; do
    n=$((n + 1))
    echo "$path $(sed -n 's/^summary: //p' "$work/count.$n")"
done >"$work/counted"

if [ "${1:-}" = --update ]; then
    {
        sed -n '/^#/p' "$table"
        awk '{ printf "%-20s %10d\n", $1, $2 }' "$work/counted"
    } >"$work/table"
    cat "$work/table" >"$table"
    echo "instructions: $table is written anew"
    exit 0
fi

awk '
    FNR == NR { if ($0 !~ /^#/ && NF == 2) stored[$1] = $2; next }
    {
        if (!($1 in stored)) { printf "%-20s %10d  is not in the table\n", $1, $2; bad++; next }
        change = 100 * ($2 / stored[$1] - 1)
        verdict = ""
        if (change > 5) { verdict = "  SLOWER: make it fast again, or say in the change why it has to be so"; bad++ }
        if (change < -5) { verdict = "  faster: lower the number in the table, so that it stays so"; bad++ }
        printf "%-20s %10d  %+6.2f %%%s\n", $1, $2, change, verdict
        delete stored[$1]
    }
    END {
        for (path in stored) { printf "%-20s was not counted\n", path; bad++ }
        if (bad) print "instructions: .ci/instructions.sh --update writes the numbers of now"
        exit bad > 0
    }' "$table" "$work/counted"
