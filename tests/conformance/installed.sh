#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` makes of the build tree runs from where it is: installed.sh BUILD.
set -euo pipefail
build=$1
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
server=
trap '[[ -z $server ]] || kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
holds() { echo "holds   $1"; }
broken() { echo "BROKEN  $1"; exit 1; }

cmake --install "$build" --prefix "$work/usr" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
for path in bin/semantic-server bin/semantic-eval lib/systemd/system/semantic-server.service \
    etc/semantic/semantic-server.conf share/man/man8/semantic-server.8.gz \
    share/man/man1/semantic-eval.1.gz share/bash-completion/completions/semantic-server \
    share/semantic/nginx/semantic-server.conf share/semantic/prometheus/alerts.yml \
    share/semantic/grafana/semantic.json share/semantic/scenarios \
    share/semantic/models/semantic-tiny/config.json; do
    [[ -e $work/usr/$path ]] || broken "$path is installed"
done
holds "programs, unit, configuration, manual, completion and examples are installed"

unit=$work/usr/lib/systemd/system/semantic-server.service
config=$work/usr/etc/semantic/semantic-server.conf
program=$work/usr/bin/semantic-server
grep -q "^ExecStart=$program --config $config$" "$unit" || broken "the unit names what is installed"
if command -v systemd-analyze >/dev/null; then
    # Only what it says about this unit: a container has no others.
    faults=$(systemd-analyze verify "$unit" 2>&1 |
        grep "semantic-server" | grep -v "Command 'man " || true)
    [[ -z $faults ]] || broken "systemd takes the unit: $faults"
fi
holds "the unit names what is installed"

echo "port = 9" >>"$config"
cmake --install "$build" --prefix "$work/usr" >/dev/null
grep -q "^port = 9$" "$config" ||
    broken "a changed configuration outlives the next installation"
sed -i '/^port = 9$/d' "$config"
holds "a changed configuration outlives the next installation"

"$program" --version | grep -Eq '^semantic-server [0-9.]+ \(commit ([0-9a-f]{12}|unknown)\)$' ||
    broken "--version says version and commit"
"$program" --version | grep -q '^features: ' || broken "--version says features"
holds "--version says version, commit and features"

completed=$(bash -c "source $work/usr/share/bash-completion/completions/semantic-server
    COMP_WORDS=($program --log-f)
    COMP_CWORD=1
    _semantic_server
    echo \"\${COMPREPLY[@]}\"")
for option in --log-format --log-file --log-file-mb --log-files; do
    [[ " $completed " == *" $option "* ]] || broken "options are completed: $completed"
done
holds "options are completed"

# A manager's socket, an unused port, and nothing of the caller's own configuration.
coproc notify { exec python3 -c '
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
print("bound", flush=True)
while True: print(s.recv(4096).decode().replace("\n", " "), flush=True)' "$work/notify"; }
read -r -t 10 line <&"${notify[0]}"
port=$(python3 -c 'import socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])')
env -i HOME="$work" NOTIFY_SOCKET="$work/notify" WATCHDOG_USEC=400000 \
    "$program" --config "$config" --cache-budget-mb 128 --port "$port" >"$work/out" 2>&1 &
server=$!
said=
while [[ $said != *READY=1* || $said != *WATCHDOG=1* ]]; do
    read -r -t 60 line <&"${notify[0]}" || {
        cat "$work/out"
        broken "the manager is told when it is ready"
    }
    said+=" $line"
done
holds "the manager is told that it lives and when it is ready"
curl -fs --noproxy '*' "http://127.0.0.1:$port/v1/messages" -d '{"model": "any", "max_tokens": 5,
    "messages": [{"role": "user", "content": "Hello."}]}' | grep -q '"role":"assistant"' ||
    broken "it answers with the model that is installed"
holds "it answers with the model that is installed"
kill -TERM "$server"
wait "$server" || broken "it ends in order"
server=
kill "$notify_PID" 2>/dev/null || true
holds "it ends in order"
