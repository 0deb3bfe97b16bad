#!/bin/sh
# Supervises opkit on a bare container: restarts it after a crash, stops it on request, ends with its true status.
# Usage: entrypoint.sh [arguments of `opkit serve`]
# OPKIT names the program (default: opkit on PATH); OPKIT_RESTART_FIRST_S the first pause (default 2).
set -u

opkit=${OPKIT:-opkit}
first=${OPKIT_RESTART_FIRST_S:-2}
longest=60
pause=$first
asked=
child=

stop() {
    asked=1
    [ -n "$child" ] && kill -TERM "$child" 2>/dev/null
}
trap stop TERM INT

while :; do
    started=$(date +%s)
    "$opkit" serve "$@" &
    child=$!
    # wait returns early when a signal arrives: wait again until the child is really gone.
    while :; do
        wait "$child"
        status=$?
        kill -0 "$child" 2>/dev/null || break
    done
    child=
    [ -n "$asked" ] && exit "$status"
    # A clean end by itself is an end; a refusal that a restart cannot mend is one too.
    [ "$status" -eq 0 ] && exit 0
    ran=$(($(date +%s) - started))
    [ "$ran" -ge 60 ] && pause=$first
    echo "opkit ended with status $status after $ran s; starting again in $pause s" >&2
    sleep "$pause" &
    child=$!
    wait "$child"
    child=
    [ -n "$asked" ] && exit "$status"
    pause=$((pause * 2))
    [ "$pause" -gt "$longest" ] && pause=$longest
done
