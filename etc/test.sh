#!/usr/bin/env bash
# Installs what is missing, builds everything and runs every test. --help says more.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source etc/packages.sh
source etc/build.sh

usage() {
    cat <<HELP
usage: bash etc/test.sh [ctest options]

Installs the packages below that are missing (Debian 12, Ubuntu 24.04 or newer; as root or with
sudo), builds everything into build/, checks that every header compiles alone, and runs every
test. The exit status is that of the tests. Options go to ctest: bash etc/test.sh -R tidy runs
the tests whose names contain "tidy".

$(packages_to_build | describe_packages)
$(packages_to_test | describe_packages)

Where nginx is missing, its package is unpacked into build/nginx and not installed, so that no
service starts; without it the test behind nginx is skipped and says so.
HELP
}

# The test behind nginx needs the program alone.
unpack_nginx() {
    if command -v nginx >/dev/null || [[ -x build/nginx/usr/sbin/nginx ]]; then
        return
    fi
    mkdir -p build/nginx
    echo "unpacking nginx into build/nginx"
    if ! (cd build/nginx && quietly apt-get -qq download nginx && dpkg -x nginx_*.deb .); then
        echo "nginx could not be had: the test behind it will be skipped" >&2
    fi
}

if [[ ${1:-} == --help || ${1:-} == -h ]]; then
    usage
    exit
fi
install_missing packages_to_build packages_to_test
unpack_nginx
configure -DSEMANTIC_TESTS:BOOL=ON -DSEMANTIC_BENCHMARKS:BOOL=ON
build all all_verify_interface_header_sets
exec ctest --test-dir build --output-on-failure --parallel 2 "$@"
