#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the unit tests under a sanitizer and runs them. --help says more.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source etc/packages.sh
source etc/build.sh
source etc/engine_suites.sh

usage() {
    cat <<HELP
usage: bash etc/sanitize.sh address|thread [--quick] [program...]

address  AddressSanitizer and UndefinedBehaviorSanitizer, built into build-debug/; engine_tests runs
         twice: the suites of the kernels with all built so, the others with plain kernels, which
         makes whole models 20 times faster
thread   ThreadSanitizer, built into build-tsan/; of engine_tests it runs the suites that hand
         nothing to oneTBB, whose own synchronisation is not instrumented
--quick  builds all programs with plain kernels and runs of engine_tests the suites without a model

Programs: storage_tests, objects_tests, protocol_tests, server_tests, engine_tests and, for address
alone, emulated_tests; without one, all of them. The exit status is 0 when every test passed and
nothing was reported.
HELP
}

# Builds the programs that are named, with the options in front of "--".
build() {
    local options=()
    while [[ $1 != -- ]]; do
        options+=("$1")
        shift
    done
    shift
    quietly cmake --preset "$preset" "${options[@]}"
    # A sanitizer needs twice the compiler's usual memory.
    cmake --build "build-$preset" --parallel "${CMAKE_BUILD_PARALLEL_LEVEL:-2}" \
        --target "$@" -- --quiet
}

run() {
    local program=$1 filter=$2
    echo "$program under $preset"
    "build-$preset/bin/$program" --gtest_brief=1 --gtest_filter="$filter"
}

case ${1:-} in
address) preset=debug ;;
thread) preset=tsan ;;
--help | -h)
    usage
    exit
    ;;
*)
    usage >&2
    exit 2
    ;;
esac
shift
quick=no
if [[ ${1:-} == --quick ]]; then
    quick=yes
    shift
fi
programs=("$@")
if ((${#programs[@]} == 0)); then
    programs=(storage_tests objects_tests protocol_tests server_tests engine_tests)
    [[ $preset == debug ]] && programs+=(emulated_tests)
fi

install_missing packages_to_build packages_to_test
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export TSAN_OPTIONS=halt_on_error=1:suppressions=$PWD/etc/tsan.supp
kernels=ON
[[ $quick == yes ]] && kernels=OFF
build -DSEMANTIC_SANITIZE_KERNELS="$kernels" -- "${programs[@]}"
for program in "${programs[@]}"; do
    filter='*'
    case $program in
    engine_tests)
        [[ $preset == tsan || $quick == yes ]] && filter=$(without_model) || filter=$(of_kernels)
        ;;
    emulated_tests) filter='*avx512*:*avxvnni*' ;;
    esac
    run "$program" "$filter"
done
if [[ $preset == debug && $quick == no && " ${programs[*]} " == *" engine_tests "* ]]; then
    build -DSEMANTIC_SANITIZE_KERNELS=OFF -- engine_tests
    run engine_tests "-$(of_kernels)"
fi
