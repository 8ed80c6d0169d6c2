#!/bin/sh
# What the programs are made of, as CycloneDX 1.5 (`make sbom`): the libraries that they load, with package and version as this
# system has them, and the built-in model.
#   deploy/sbom.sh [BUILD]      BUILD: folder with vitrald and vitral, default build; the document goes to standard output
# The same programs, packages and SOURCE_DATE_EPOCH give the same bytes. Where dpkg is missing, libraries have no versions.
set -eu
export LC_ALL=C
cd "$(dirname "$0")/.."
build=${1:-build}

for tool in readelf ldd sha256sum; do
    command -v "$tool" >/dev/null || {
        echo "sbom: $tool is missing: apt-get install binutils libc-bin coreutils" >&2
        exit 1
    }
done
version=$("$build/vitral" version | sed -n 's/^vitral \([0-9][^ ]*\).*/\1/p')
[ -n "$version" ] || { echo "sbom: $build/vitral does not say its version" >&2; exit 1; }
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || stat -c %Y include/vitral/version.h)
fi
time=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# name path; then what is loaded directly
ldd "$build/vitrald" "$build/vitral" | sed -n 's/^[[:space:]]*\([^ ]*\) => \(\/[^ ]*\) .*/\1 \2/p' | sort -u >"$work/loaded"
readelf -d "$build/vitrald" "$build/vitral" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort -u >"$work/needed"

# dpkg knows a path with /usr in front or without; it is asked once for all, since each question reads its whole list.
while read -r name path; do
    real=$(readlink -f "$path")
    printf '%s\n%s\n/usr%s\n' "$real" "${real#/usr}" "$real"
done <"$work/loaded" | sort -u >"$work/paths"
# shellcheck disable=SC2046 # one word per path
dpkg-query -S $(cat "$work/paths") 2>/dev/null | sed -n 's/^\([^,]*\): \(.*\)/\2 \1/p' >"$work/owners" || true
# shellcheck disable=SC2016,SC2046 # dpkg-query's own fields; one word per package
[ ! -s "$work/owners" ] || dpkg-query -W -f '${binary:Package} ${Package} ${Version} ${Architecture}\n' \
    $(cut -d ' ' -f 2 "$work/owners" | sort -u) >"$work/packages"
touch "$work/packages"

# One line a library: name, package, version, architecture, SHA-256.
while read -r name path; do
    real=$(readlink -f "$path")
    owner=$(awk -v a="$real" -v b="${real#/usr}" -v c="/usr$real" '$1 == a || $1 == b || $1 == c {print $2; exit}' "$work/owners")
    fields=$(awk -v p="${owner:-?}" '$1 == p {print $2, $3, $4; exit}' "$work/packages")
    echo "$name ${fields:-- - -} $(sha256sum <"$real" | cut -d ' ' -f 1)"
done <"$work/loaded" >"$work/libraries"

component() { # TYPE REF NAME VERSION SHA256 [PURL]
    printf '    {"type": "%s", "bom-ref": "%s", "name": "%s"' "$1" "$2" "$3"
    [ "$4" = - ] || printf ', "version": "%s"' "$4"
    [ -z "${6:-}" ] || printf ', "purl": "%s"' "$6"
    printf ', "hashes": [{"alg": "SHA-256", "content": "%s"}]}' "$5"
}
refs() {
    while read -r ref; do
        printf '%s"%s"' "${comma:-}" "$ref"
        comma=', '
    done
}

. /etc/os-release 2>/dev/null || true
{
    echo '{'
    echo '  "bomFormat": "CycloneDX",'
    echo '  "specVersion": "1.5",'
    echo '  "version": 1,'
    echo '  "metadata": {'
    echo "    \"timestamp\": \"$time\","
    echo "    \"component\": {\"type\": \"application\", \"bom-ref\": \"vitral\", \"name\": \"vitral\", \"version\": \"$version\","
    echo '      "licenses": [{"license": {"id": "Apache-2.0"}}]}'
    echo '  },'
    echo '  "components": ['
    while read -r name package number architecture digest; do
        purl=
        [ "$package" = - ] || purl="pkg:deb/${ID:-debian}/$package@$(echo "$number" | sed 's/:/%3A/g; s/+/%2B/g')?arch=$architecture"
        component library "$name" "$name" "$number" "$digest" "$purl"
        echo ','
    done <"$work/libraries"
    component machine-learning-model model vitral_default "$version" "$(sha256sum <models/default/model.safetensors | cut -d ' ' -f 1)"
    echo
    echo '  ],'
    echo '  "dependencies": ['
    printf '    {"ref": "vitral", "dependsOn": ['
    { cat "$work/needed" && echo model; } | refs
    echo ']}'
    echo '  ]'
    echo '}'
} >"$work/bom"
cat "$work/bom"
