#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds everything and runs every test. --help says more.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source etc/packages.sh
source etc/build.sh

usage() {
    cat <<HELP
usage: bash etc/test.sh [--build | --headers | ctest options]

Installs the packages below that are missing (Debian 12, Ubuntu 24.04 or newer; as root or with
sudo), builds everything into build/ and runs every test. The exit status is that of the tests.
Options go to ctest: bash etc/test.sh -R tidy runs the tests whose names contain "tidy". With
--build, nothing is run; --headers compiles every header alone and runs nothing.
BENCHMARKS=OFF leaves out the micro-benchmarks.

$(packages_to_build | describe_packages)
$(packages_to_test | describe_packages)

Where nginx or promtool is missing, its package is unpacked into build/ and not installed, so that
no service starts; without it the tests that need it are skipped and say so.
HELP
}

# unpack_program PACKAGE PROGRAM PATH: the tests need the program alone.
unpack_program() {
    local package=$1 program=$2 path=$3
    if command -v "$program" >/dev/null || [[ -x build/$package/$path ]]; then
        return
    fi
    mkdir -p "build/$package"
    echo "unpacking $package into build/$package"
    if ! (cd "build/$package" && quietly apt-get -qq download "$package" &&
        dpkg -x "$package"_*.deb .); then
        echo "$package could not be had: what needs $program will be skipped" >&2
    fi
}

if [[ ${1:-} == --help || ${1:-} == -h ]]; then
    usage
    exit
fi
install_missing packages_to_build packages_to_test
unpack_program nginx nginx usr/sbin/nginx
unpack_program prometheus promtool usr/bin/promtool
configure -DSEMANTIC_TESTS:BOOL=ON "-DSEMANTIC_BENCHMARKS:BOOL=${BENCHMARKS:-ON}"
if [[ ${1:-} == --headers ]]; then
    build all_verify_interface_header_sets
    exit
fi
build all
[[ ${1:-} == --build ]] && exit
exec ctest --test-dir build --output-on-failure --parallel 2 "$@"
