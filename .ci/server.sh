# Sourced by scripts that need a running server: a real one, on a port that the system chose.
#   server_start MODEL [OPTION...]   sets server_pid and server_base; fails when it does not come up within 20 s
#   server_stop                      ends it by its id; fails when it did not exit with 0
# The server's log is in $server_log.

server_log=$(mktemp)
server_out=$(mktemp)
server_pid=

server_start() {
    served=$1
    shift
    "${VITRAL_BUILD:-build}/vitrald" --model "$served" --listen 127.0.0.1:0 "$@" >"$server_out" 2>"$server_log" &
    server_pid=$!
    waited=0
    while ! grep -q '^listening on ' "$server_out"; do
        if [ "$waited" -ge 200 ] || ! kill -0 "$server_pid" 2>/dev/null; then
            echo "the server did not start:" >&2
            cat "$server_out" "$server_log" >&2
            return 1
        fi
        waited=$((waited + 1))
        sleep 0.1
    done
    server_base=$(sed -n 's/^listening on //p' "$server_out" | head -n 1)
}

server_stop() {
    [ -n "$server_pid" ] || return 0
    pid=$server_pid
    server_pid=
    kill -TERM "$pid" 2>/dev/null
    server_status=0 # not `status`: that is the caller's own
    wait "$pid" || server_status=$?
    if [ "$server_status" -ne 0 ]; then
        echo "the server ended with status $server_status; the end of its log:" >&2
        tail -n 20 "$server_log" >&2
        return 1
    fi
}

server_clean() {
    server_stop
    rm -f "$server_log" "$server_out"
}
