#!/bin/sh
# gcc -fanalyzer over engine and server (`make analyze`). A finding that .ci/analyze.txt does not explain fails, and so does an
# explanation that nothing needs any more.
#   CC=gcc .ci/analyze.sh
# As for clang-tidy, analyzer.h tells it that vt_error_set gives back the status that it was handed.
set -eu
cd "$(dirname "$0")/.."
cc=${CC:-gcc}
jobs=$(nproc)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
start=$(date +%s)
packages="libmicrohttpd jansson libpng libjpeg libwebp libexif openblas"
# shellcheck disable=SC2086 # one word per package
flags="-std=c11 -D_GNU_SOURCE -I. -Iinclude $(pkg-config --cflags $packages) -O1 -fanalyzer -c -o /dev/null"
! pkg-config --exists libseccomp || flags="$flags -DVT_SECCOMP=1"
find engine server -name '*.c' | LC_ALL=C sort >"$work/files"
# shellcheck disable=SC2016 # $1 and the rest belong to the inner shell
LC_ALL=C xargs -P "$jobs" -n 1 sh -c 'out=$3/$(echo "$4" | tr / _).out
    [ "$4" = engine/core/error.c ] || include="-include .ci/analyzer.h"
    $1 $2 ${include:-} "$4" 2>"$out" || echo "$4:0: warning: the compiler failed [-failed]" >>"$out"' \
    analyze "$cc" "$flags" "$work" <"$work/files"
cat "$work"/*.out >"$work/all"

# FILE FUNCTION OPTION of each finding
sed -n "s/^\([a-z][^:]*\): In function '\([^']*\)':.*/function \1 \2/p; s/^\([a-z][^:]*\):[0-9:]* warning: .*\[\(-[^]]*\)\]\$/warning \1 \2/p" \
    "$work/all" | awk '$1 == "function" {name[$2] = $3} $1 == "warning" {print $2, ($2 in name ? name[$2] : "?"), $3}' |
    LC_ALL=C sort -u >"$work/found"
sed 's/ *#.*//; /^$/d' .ci/analyze.txt | LC_ALL=C sort >"$work/explained"
status=0
if LC_ALL=C comm -23 "$work/found" "$work/explained" | grep .; then
    echo "analyze: these findings are not explained in .ci/analyze.txt:" >&2
    cat "$work/all"
    status=1
fi
if LC_ALL=C comm -13 "$work/found" "$work/explained" | grep .; then
    echo "analyze: these lines of .ci/analyze.txt explain nothing any more" >&2
    status=1
fi
echo "analyze: $(wc -l <"$work/files") files, $(wc -l <"$work/explained") findings explained ($(($(date +%s) - start)) s)"
exit "$status"
