#!/bin/sh
# Installs those of the named Debian packages that are missing. When all are there it does nothing and needs no root.
#   .ci/packages.sh PACKAGE...
if ! command -v dpkg-query >/dev/null; then
    echo "This is no Debian system, so nothing is installed. Needed, by their Debian names: $*" >&2
    exit 0
fi
missing=
for package in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

root=
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "Packages are missing. As root: apt-get install$missing" >&2
        exit 1
    fi
    root=sudo
fi
echo "installing:$missing"
$root apt-get update -q || echo "apt-get update failed; trying with the package lists that are there" >&2
# shellcheck disable=SC2086 # one word per package
$root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing
