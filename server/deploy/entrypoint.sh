#!/bin/sh
# Supervises opkit on a bare container: restarts it after a crash, stops it on request, ends with its true status.
# Usage: entrypoint.sh [arguments of `opkit serve`]
# OPKIT names the program (default: opkit on PATH); OPKIT_RESTART_FIRST_S the first pause, whole seconds (default 2; 0 is no pause
# ever, for tests).
#
# As the first process of a container it also reaps what nobody else does: tmux servers and whatever else lost its
# parent. The shell collects every child that ends while it waits, its own or not.
set -u

opkit=${OPKIT:-opkit}
first=${OPKIT_RESTART_FIRST_S:-2}
case $first in
    '' | *[!0-9]*) echo "OPKIT_RESTART_FIRST_S is “$first”. It must be whole seconds" >&2; exit 2 ;;
esac
longest=60
pause=$first
asked=
child=

stop() {
    asked=1
    [ -n "$child" ] && kill -TERM "$child" 2>/dev/null
}
trap stop TERM INT

# Sets status to how $child ended. A signal to us ends a wait early, with more than 128: then it is waited for again,
# until the child is gone. A number below says that it ended, and its process id may be somebody else's by now.
end_of_child() {
    known=
    while :; do
        wait "$child"
        now=$?
        # Waited for before, or a program that is not there: the first word on it counts.
        [ "$now" -eq 127 ] && [ -n "$known" ] && return
        status=$now
        known=1
        [ "$status" -le 128 ] && return
        kill -0 "$child" 2>/dev/null || return
    done
}

while :; do
    started=$(date +%s)
    status=0
    "$opkit" serve "$@" &
    child=$!
    # Asked in the moment before there was a child to tell.
    [ -n "$asked" ] && kill -TERM "$child" 2>/dev/null
    end_of_child
    child=
    [ -n "$asked" ] && exit "$status"
    # A clean end by itself is an end, and so is a command line that nobody understands, now or in a minute.
    case $status in
        0 | 2) exit "$status" ;;
    esac
    ran=$(($(date +%s) - started))
    [ "$ran" -ge 60 ] && pause=$first
    echo "opkit ended with status $status after $ran s; starting again in $pause s" >&2
    ended=$status
    sleep "$pause" &
    child=$!
    end_of_child
    child=
    [ -n "$asked" ] && exit "$ended"
    pause=$((pause * 2))
    [ "$pause" -gt "$longest" ] && pause=$longest
done
