#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The Debian package: lintian finds no error, and in a fresh system it installs, runs, is upgraded
# with memories kept, and is purged without a trace; the image recipe makes an image of it that
# runs. package.sh BUILD; needs root, debootstrap and its mirror (PACKAGE_MIRROR names another), and
# is skipped without them (PACKAGE_CHROOT=FOLDER names a fresh system that is there already). The
# image is left out where buildah is missing.
set -euo pipefail
build=$1
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
skip() { echo "skipped: $1"; exit 77; }
holds() { echo "holds   $1"; }
broken() { echo "BROKEN  $1"; exit 1; }
[[ $(id -u) == 0 ]] || skip "a system in a folder needs root"
command -v dpkg-deb >/dev/null || skip "dpkg is not there"
work=$(mktemp -d)
port=$(python3 -c 'import socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])')
root=${PACKAGE_CHROOT:-}
server=
clean_up() {
    [[ -z $server ]] || kill -KILL "$server" 2>/dev/null || true
    [[ -z $root ]] || umount "$root/proc" 2>/dev/null || true
    [[ -n ${PACKAGE_CHROOT:-} ]] || rm -rf "$work"
    rm -rf "$work"
}
trap clean_up EXIT

# make_package VERSION
make_package() {
    (cd "$work" && cpack --config "$build/CPackConfig.cmake" -G DEB -B "$work/cpack" \
        -D CPACK_PACKAGE_VERSION="$1") >"$work/cpack.log" 2>&1 || { cat "$work/cpack.log"; exit 1; }
    ls "$work"/cpack/semantic-server_"$1"*.deb
}
first=$(make_package 0.1.0)
second=$(make_package 0.1.1)
size=$(($(stat -c %s "$first") / 1024))
holds "it is made of the installed tree: $(basename "$first"), $size KiB"

if command -v lintian >/dev/null; then
    errors=$(lintian --fail-on none --tag-display-limit 0 "$first" 2>&1 | grep '^E:' || true)
    [[ -z $errors ]] || broken "lintian finds no error:
$errors"
    holds "lintian finds no error"
else
    echo "        lintian is not there: not looked at"
fi

if [[ -z $root ]]; then
    command -v debootstrap >/dev/null || skip "debootstrap is not there"
    root=$work/root
    debootstrap --variant=minbase --include=curl "${PACKAGE_SUITE:-bookworm}" "$root" \
        ${PACKAGE_MIRROR:-} >"$work/debootstrap.log" 2>&1 ||
        skip "no fresh system: $(tail -1 "$work/debootstrap.log")"
fi

# The recipe's base is the fresh system, under the name that the recipe gives it.
build_image() {
    export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs
    local store=(--root "$work/images" --runroot "$work/images-run") container mount
    container=$(buildah "${store[@]}" from scratch)
    mount=$(buildah "${store[@]}" mount "$container")
    cp -a "$root/." "$mount/"
    buildah "${store[@]}" umount "$container"
    buildah "${store[@]}" commit --rm "$container" docker.io/library/debian:bookworm-slim
    mkdir "$work/context"
    cp "$first" "$work/context/"
    buildah "${store[@]}" build --pull-never -t semantic-server \
        -f "$source/etc/package/Containerfile" "$work/context"
}
# Its entry point, as its user; isolated by a folder alone, so on this machine's loopback.
run_image() {
    local store=(--root "$work/images" --runroot "$work/images-run") container
    container=$(buildah "${store[@]}" from --pull-never localhost/semantic-server)
    local command=(/usr/bin/semantic-server --config /etc/semantic/semantic-server.conf)
    buildah "${store[@]}" run "$container" -- "${command[@]}" >"$work/image" 2>&1 &&
        broken "the image starts without a key"
    grep -q 'there is no key' "$work/image" || broken "it says why: $(cat "$work/image")"
    buildah "${store[@]}" run --env SEMANTIC_API_KEY=k --env SEMANTIC_HOST=127.0.0.1 "$container" \
        -- "${command[@]}" --port "$port" --cache-budget-mb 128 >"$work/image" 2>&1 &
    local runner=$! answer=
    for _ in $(seq 300); do
        curl -fs --noproxy '*' -m 2 -o /dev/null "http://127.0.0.1:$port/health/ready" && break
        kill -0 "$runner" 2>/dev/null || break
        sleep 0.2
    done
    answer=$(curl -fs --noproxy '*' -m 60 "http://127.0.0.1:$port/v1/messages" -H 'x-api-key: k' \
        -d '{"model": "any", "max_tokens": 5, "messages": [{"role": "user", "content": "Hello."}]}')
    # Of the runner's processes only the program itself.
    kill -TERM "$(pgrep -f "^${command[0]} .*--port $port ")"
    wait "$runner" || broken "the image's server ends in order: $(tail -3 "$work/image")"
    grep -q '"role":"assistant"' <<<"$answer" || broken "the image talks: $(cat "$work/image")"
}
if command -v buildah >/dev/null; then
    build_image >"$work/image.log" 2>&1 || {
        tail -20 "$work/image.log"
        broken "the image recipe makes an image"
    }
    holds "the image recipe makes an image"
    run_image
    holds "the image refuses to start without a key, talks with one, and ends in order"
else
    echo "        buildah is not there: no image was made"
fi

mount -t proc proc "$root/proc" 2>/dev/null || skip "no /proc can be mounted there"
cp "$first" "$root/tmp/first.deb" && cp "$second" "$root/tmp/second.deb"
inside() {
    chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp \
        DEBIAN_FRONTEND=noninteractive "$@"
}
inside apt-get -qq update >"$work/update.log" 2>&1 ||
    skip "no list of packages there: $(tail -1 "$work/update.log")"
inside apt-get -qq -y install --no-install-recommends /tmp/first.deb >"$work/install.log" 2>&1 || {
    tail -20 "$work/install.log"
    broken "it installs"
}
holds "it installs"

start_server() {
    inside env SEMANTIC_CACHE_DIR=/var/lib/semantic/caches semantic-server --config \
        /etc/semantic/semantic-server.conf --port "$port" --cache-budget-mb 128 >"$work/out" 2>&1 &
    server=$!
    for _ in $(seq 300); do
        inside curl -fs -m 2 -o /dev/null "http://127.0.0.1:$port/health/ready" && return
        kill -0 "$server" 2>/dev/null || break
        sleep 0.2
    done
    cat "$work/out"
    broken "it starts"
}
stop_server() {
    local pid
    # chroot and env have become the program.
    pid=$(pgrep -P "$server" || echo "$server")
    kill -TERM "$pid"
    wait "$server" || broken "it ends in order"
    server=
}
ask() {
    inside curl -fs -m 60 "http://127.0.0.1:$port/v1/messages" -H 'X-Session-ID: demo' -d "$1"
}
told='{"role": "user", "content": "My dog is called Biscuit."}'
start_server
answer=$(ask "{\"model\": \"any\", \"max_tokens\": 40, \"temperature\": 0, \"messages\": [$told]}")
grep -q Biscuit <<<"$answer" || broken "it talks: $answer"
stop_server
holds "it starts, talks and ends"

echo '# mine' >>"$root/etc/semantic/semantic-server.conf"
inside dpkg -i --force-confold /tmp/second.deb >"$work/upgrade.log" 2>&1 ||
    { cat "$work/upgrade.log"; broken "it is upgraded"; }
tail -1 "$root/etc/semantic/semantic-server.conf" | grep -q '# mine' ||
    broken "the configuration stays"
start_server
answer=$(ask "{\"model\": \"any\", \"max_tokens\": 40, \"temperature\": 0, \"messages\": [$told,
    {\"role\": \"assistant\", \"content\": \"I will remember that your dog is called Biscuit.\"},
    {\"role\": \"user\", \"content\": \"What is my dog called?\"}]}")
grep -q 'Your dog is called Biscuit' <<<"$answer" || broken "it remembers: $answer"
grep -Eq '"cache_read_input_tokens":[1-9]' <<<"$answer" || broken "its memory is kept: $answer"
stop_server
holds "it is upgraded, and remembers"

inside apt-get -qq -y purge semantic-server >"$work/purge.log" 2>&1 ||
    { cat "$work/purge.log"; broken "it is purged"; }
left=$(cd "$root" && find etc usr/bin usr/share lib/systemd usr/lib/systemd var/lib var/log \
    -path '*semantic*' -not -path '*/dpkg/*' 2>/dev/null || true)
[[ -z $left ]] || broken "a purge leaves nothing: $left"
holds "a purge leaves nothing"
