#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds, and runs the server on the embedded model. --help says more.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source etc/packages.sh
source etc/build.sh

usage() {
    cat <<HELP
usage: bash etc/start.sh [server options]

Installs the packages below that are missing (Debian 12, Ubuntu 24.04 or newer; as root or with
sudo), builds into build/, and runs build/bin/semantic-server in the foreground on the embedded
model until Ctrl-C. A second run installs and builds nothing. Options go to the server:
bash etc/start.sh --port 9000 (build/bin/semantic-server --help lists them).

$(packages_to_build | describe_packages)
HELP
}

# Prints what to try as soon as the server says that it is ready, and ends when the server
# (process $1) ends.
announce() {
    local server=$1 url=$2
    until curl -fs --noproxy '*' -m 2 -o /dev/null "$url/health/ready"; do
        kill -0 "$server" 2>/dev/null || return 0
        sleep 0.2
    done
    cat <<TRY

Semantic is ready. Try:

  curl $url/v1/messages -H 'X-Session-ID: demo' -d '{
    "model": "semantic-tiny", "max_tokens": 50,
    "messages": [{"role": "user", "content": "My dog is called Biscuit."}]}'

or open $url in a browser.

TRY
}

if [[ ${1:-} == --help || ${1:-} == -h ]]; then
    usage
    exit
fi
install_missing packages_to_build
[[ -f build/CMakeCache.txt ]] || configure -DSEMANTIC_TESTS:BOOL=OFF -DSEMANTIC_BENCHMARKS:BOOL=OFF
configure
build semantic-server

# An option that the server does not understand ends it here, with its own message.
settings=$(build/bin/semantic-server --print-config "$@")
setting() {
    awk -v key="$1" '$1 == key && $2 == "=" { print $3 }' <<<"$settings"
}
host=$(setting host)
case $host in
    0.0.0.0) host=127.0.0.1 ;;
    ::) host='[::1]' ;;
    *:*) host="[$host]" ;;
esac
# The server takes this process's place, so that signals and the exit status are its own.
(announce $$ "http://$host:$(setting port)" &)
exec build/bin/semantic-server "$@"
