#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# install.sh npm|pip|s3 FOLDER: installs the pinned SDKs, or an S3 server, into FOLDER, once per
# pinned version.
# Exit status 77 (skipped) when the package registry cannot be reached.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
kind=$1
folder=$2

case $kind in
    npm) pins=("$here/package.json" "$here/package-lock.json") ;;
    pip) pins=("$here/requirements.txt") ;;
    s3) pins=("$here/s3_server.txt") ;;
    *) echo "unknown kind: $kind" >&2; exit 2 ;;
esac

stamp=$folder/installed
if [[ -f $stamp ]] && cat "${pins[@]}" | cmp -s - "$stamp"; then
    echo "already installed"
    exit 0
fi
rm -rf "$folder"
mkdir -p "$folder"

install() {
    if [[ $kind == npm ]]; then
        cp "${pins[@]}" "$folder"
        cd "$folder"
        timeout 150 npm ci --ignore-scripts --no-audit --no-fund
    else
        python3 -m venv "$folder/venv" &&
            timeout 150 "$folder/venv/bin/pip" install --disable-pip-version-check --no-deps \
                --requirement "${pins[0]}"
    fi
}

status=0
output=$( (install) 2>&1) || status=$?
if ((status == 0)); then
    cat "${pins[@]}" >"$stamp"
    exit 0
fi
printf '%s\n' "$output"
unreachable='ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|ERR_SOCKET_TIMEOUT'
unreachable+='|NewConnectionError|ConnectTimeoutError|ReadTimeoutError|ProxyError|name resolution'
unreachable+='|SELF_SIGNED_CERT|UNABLE_TO_(GET|VERIFY)|CERT_|certificate verify failed'
# What pip says last, even when retries are off.
unreachable+='|from versions: none'
if ((status == 124)) || grep -qE "$unreachable" <<<"$output"; then
    echo "skipped: the $kind registry cannot be reached"
    exit 77
fi
exit "$status"
