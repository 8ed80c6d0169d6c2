#!/bin/sh
# Makes the Debian package from programs that are built already (`make deb` builds them first).
#   deploy/deb/build.sh [BUILD]      BUILD: folder with vitrald and vitral, default build; the package lands in it
# Needs dpkg-dev and binutils, and no root. The same sources, compiler and SOURCE_DATE_EPOCH give the same bytes.
# DEBFULLNAME and DEBEMAIL name the maintainer.
set -eu
umask 022
export LC_ALL=C
cd "$(dirname "$0")/../.."
build=${1:-build}

fail() {
    echo "deb: $*" >&2
    exit 1
}

for tool in readelf ldd dpkg-deb dpkg-shlibdeps dpkg-gencontrol strip gzip; do
    command -v "$tool" >/dev/null || fail "$tool is missing: apt-get install dpkg-dev binutils"
done
for program in vitrald vitral; do
    [ -x "$build/$program" ] || fail "$build holds no $program: run make first"
done
version=$("$build/vitral" version | sed -n 's/^vitral \([0-9][^ ]*\).*/\1/p')
[ -n "$version" ] || fail "$build/vitral does not say its version"
architecture=$(dpkg --print-architecture)
maintainer="${DEBFULLNAME:-Vitral project} <${DEBEMAIL:-vitral@project.invalid}>"
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
    SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || stat -c %Y include/vitral/version.h)
fi
export SOURCE_DATE_EPOCH

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/debian/vitral
doc=$root/usr/share/doc/vitral
mkdir -p "$root/DEBIAN"

put() { # MODE FILE FOLDER [NAME]
    [ -f "$2" ] || fail "$2 is missing"
    install -D -m "$1" "$2" "$root$3/${4:-$(basename "$2")}"
}

for program in vitrald vitral; do
    put 755 "$build/$program" /usr/bin
    strip --strip-unneeded --remove-section=.comment --remove-section=.note "$root/usr/bin/$program"
done
put 644 deploy/vitrald.service /lib/systemd/system
put 644 deploy/vitral.json /etc/vitral
put 755 deploy/get-model.sh /usr/share/vitral
for file in openapi.yaml docs/operations.md models/default/CARD.md; do
    put 644 "$file" /usr/share/doc/vitral
done
for file in README.md CHANGELOG.md; do # not worth a failure
    [ ! -f "$file" ] || put 644 "$file" /usr/share/doc/vitral
done
for file in nginx.conf Caddyfile prometheus.yml grafana.json compose.yaml k8s.yaml; do
    put 644 "deploy/$file" /usr/share/doc/vitral/examples
done
deploy/sbom.sh "$build" >"$work/vitral.cdx.json"
put 644 "$work/vitral.cdx.json" /usr/share/doc/vitral
for page in "$build"/man/*.[1-8] docs/man/*.[1-8]; do
    [ -f "$page" ] || continue
    section=${page##*.}
    put 644 "$page" "/usr/share/man/man$section"
    gzip -9n "$root/usr/share/man/man$section/$(basename "$page")"
done

sed "s/@YEAR@/$(date -u +%Y -d "@$SOURCE_DATE_EPOCH")/" deploy/deb/copyright >"$work/copyright"
put 644 "$work/copyright" /usr/share/doc/vitral
{
    echo "vitral ($version) unstable; urgency=medium"
    echo
    echo "  * Release $version."
    echo
    echo " -- $maintainer  $(date -u -R -d "@$SOURCE_DATE_EPOCH")"
} >"$doc/changelog"
cp "$doc/changelog" "$work/debian/changelog"
gzip -9n "$doc/changelog"

# What the programs need is read from the programs themselves.
{
    echo "Source: vitral"
    echo "Section: science"
    echo "Priority: optional"
    echo "Maintainer: $maintainer"
    echo
    sed "s/@ARCHITECTURE@/$architecture/" deploy/deb/control
} >"$work/debian/control"
(
    cd "$work"
    dpkg-shlibdeps -Tdebian/substvars debian/vitral/usr/bin/vitrald debian/vitral/usr/bin/vitral
    dpkg-gencontrol -pvitral -ldebian/changelog -Tdebian/substvars -fdebian/files -Pdebian/vitral >/dev/null
)

for script in postinst prerm postrm; do
    install -m 755 "deploy/deb/$script" "$root/DEBIAN/$script"
done
echo /etc/vitral/vitral.json >"$root/DEBIAN/conffiles"
(cd "$root" && find usr lib -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +

package=$build/vitral_${version}_$architecture.deb
dpkg-deb --root-owner-group -Zxz --build "$root" "$package.part" >/dev/null
mv "$package.part" "$package"
echo "$package"
