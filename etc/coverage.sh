#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the unit tests so that they count which lines they run, runs them and prints the share of
# each module's lines. --help says more.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source etc/packages.sh
source etc/build.sh
source etc/engine_suites.sh

usage() {
    cat <<HELP
usage: bash etc/coverage.sh [program...]

Programs: storage_tests, objects_tests, protocol_tests, server_tests, engine_tests; without one, all
of them. They are built into build-coverage/. Of engine_tests run the suites that need no whole
model, and those of the kernels. What counts is a line of engine/, protocol/, server/ or storage/
with code that is in one of the programs; of kernels for several processors those that this one has
are run.
HELP
}

case ${1:-} in
--help | -h)
    usage
    exit
    ;;
esac
programs=("$@")
if ((${#programs[@]} == 0)); then
    programs=(storage_tests objects_tests protocol_tests server_tests engine_tests)
fi

install_missing packages_to_build packages_to_test
quietly cmake --preset coverage
cmake --build build-coverage --parallel "${CMAKE_BUILD_PARALLEL_LEVEL:-2}" \
    --target "${programs[@]}" -- --quiet
find build-coverage -name '*.gcda' -delete
for program in "${programs[@]}"; do
    filter='*'
    [[ $program == engine_tests ]] && filter=$(without_model):$(of_kernels)
    echo "$program"
    "build-coverage/bin/$program" --gtest_brief=1 --gtest_filter="$filter"
done
python3 etc/coverage.py build-coverage engine protocol server storage
