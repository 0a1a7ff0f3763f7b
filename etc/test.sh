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

HELP
}

if [[ ${1:-} == --help || ${1:-} == -h ]]; then
    usage
    exit
fi
install_missing packages_to_build packages_to_test
configure -DSEMANTIC_TESTS:BOOL=ON -DSEMANTIC_BENCHMARKS:BOOL=ON
build all all_verify_interface_header_sets
exec ctest --test-dir build --output-on-failure --parallel 2 "$@"
