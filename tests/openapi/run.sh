#!/bin/sh
# Checks openapi.yaml with a public validator, then the running server against it with Schemathesis, with requests that are
# meant to be right and with requests that are meant to be wrong.
#   tests/openapi/run.sh [SCHEMATHESIS OPTION...]
# Needs `openapi-spec-validator` and `schemathesis` (pip) in PATH; says so and passes when they are not there.
set -u
cd "$(dirname "$0")/../.." || exit 1
for command in openapi-spec-validator schemathesis; do
    if ! command -v "$command" >/dev/null; then
        echo "skip: $command not found"
        exit 0
    fi
done
openapi-spec-validator openapi.yaml || exit 1

. .ci/server.sh
work=$(mktemp -d) # schemathesis leaves a cache where it runs
ln -s "$(pwd)/tests/openapi/hooks.py" "$(pwd)/tests/openapi/schemathesis.toml" "$work"
trap 'server_clean; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
server_start models/default --max-cost 50 --deadline-ms 60000 || exit 1
# served as "default", as the embedded model is
status=0
(cd "$work" && PYTHONDONTWRITEBYTECODE=1 schemathesis run "$server_base/openapi.yaml" \
    --checks all --suppress-health-check all --warnings off --no-color "$@") || status=$?
server_stop || status=1
echo "how the server answered:"
sed -n 's/.*"status":\([0-9]*\).*"outcome":"\([a-z_]*\)".*/\1 \2/p' "$server_log" | sort | uniq -c
exit "$status"
