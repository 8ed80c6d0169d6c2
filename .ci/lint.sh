#!/bin/sh
# cppcheck and clang-tidy over engine and server; any finding fails. Tests are seen by both compilers and the sanitizers.
set -eu
cd "$(dirname "$0")/.."
jobs=$(nproc)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

echo "cppcheck"
cppcheck --quiet --std=c11 --language=c --enable=warning,performance,portability --inline-suppr --error-exitcode=1 \
    --suppress=missingIncludeSystem --suppress=missingInclude --suppress=normalCheckLevelMaxBranches \
    --suppressions-list=.ci/cppcheck.txt -D_GNU_SOURCE -D__GNUC__ -I . -I include -j "$jobs" engine server

echo "clang-tidy"
packages="libmicrohttpd jansson libpng libjpeg libwebp libexif openblas"
# shellcheck disable=SC2086 # one word per package
flags="-std=c11 -D_GNU_SOURCE -I. -Iinclude $(pkg-config --cflags $packages)"
find engine server -name '*.c' ! -path engine/core/error.c | LC_ALL=C sort >"$work/files"
# shellcheck disable=SC2016 # $1 and $@ belong to the inner shell
xargs -P "$jobs" -n 4 sh -c 'flags=$1; shift; clang-tidy --quiet "$@" -- $flags -include .ci/analyzer.h 2>/dev/null' \
    lint "$flags" <"$work/files" >"$work/tidy" || echo "clang-tidy failed" >>"$work/tidy"
# shellcheck disable=SC2086 # one word per flag
clang-tidy --quiet engine/core/error.c -- $flags >>"$work/tidy" 2>/dev/null || echo "clang-tidy failed" >>"$work/tidy"
if [ -s "$work/tidy" ]; then
    cat "$work/tidy"
    exit 1
fi
echo "lint: $(wc -l <"$work/files") files clean"
