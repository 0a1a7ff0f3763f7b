#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Feeds every parser bytes that nobody wrote, for a few seconds each. --help says more.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source etc/packages.sh
source etc/build.sh

usage() {
    cat <<HELP
usage: bash etc/fuzz.sh [--seconds N] [FUZZER...]
       bash etc/fuzz.sh --cost [--seconds N] [--inputs N] [--seed N] [--only TEXT]

Builds the libFuzzer programs of tests/fuzz/ (preset fuzz: AddressSanitizer and
UndefinedBehaviorSanitizer, into build-fuzz/) and runs each for N seconds, 10 without it; without a
name, all of them. What a fuzzer learned stays in build-fuzz/corpus/NAME, so that a later run goes
on from it; an input that breaks a parser lies in build-fuzz/found/ and is named. The exit status is
0 when nothing was found, 77 where there is no Clang.

With --cost it builds and runs tests/cost/ instead (preset release, no Clang): every parser and
compiler that a request reaches, on texts of at most 64 KB that are made to cost much. It prints the
worst time and memory of each, and fails when one takes more than a second or 64 MiB. Without
options: 2,500 inputs of each parser, at most an hour. The dearest lie in build/cost/.
HELP
}

# cost OPTION...: measures; never comes back.
cost() {
    install_missing packages_to_build packages_to_test
    configure -DSEMANTIC_TESTS:BOOL=ON
    build parser_cost
    mkdir -p build/cost
    exec build/bin/parser_cost --seconds 3600 --inputs 2500 --found build/cost "$@"
}

if [[ ${1:-} == --cost ]]; then
    shift
    cost "$@"
fi

seconds=10
while (($# > 0)); do
    case $1 in
    --seconds)
        seconds=${2:-}
        [[ $seconds =~ ^[1-9][0-9]*$ ]] || {
            echo "--seconds: a number of seconds from 1 on" >&2
            exit 2
        }
        shift 2
        ;;
    --help | -h)
        usage
        exit
        ;;
    -*)
        usage >&2
        exit 2
        ;;
    *) break ;;
    esac
done

clang=$(command -v clang++-14 || command -v clang++ || true)
if [[ -z $clang ]]; then
    echo "skipped: Clang, which libFuzzer comes with, is not there (apt-get install clang-14)"
    exit 77
fi
install_missing packages_to_build packages_to_test
quietly cmake --preset fuzz -DCMAKE_CXX_COMPILER="$clang"
cmake --build --preset fuzz --parallel "${CMAKE_BUILD_PARALLEL_LEVEL:-2}" -- --quiet

fuzzers=("$@")
if ((${#fuzzers[@]} == 0)); then
    mapfile -t fuzzers < <(ls build-fuzz/bin | grep '_fuzz')
fi
mkdir -p build-fuzz/found

# seeds FUZZER: folders with inputs that its parser takes.
seeds() {
    case $1 in
    requests_fuzz) ls -d tests/golden/wire/* ;;
    scenario_fuzz) echo etc/scenarios ;;
    esac
}

# run FUZZER: prints what it did in one line, all of it where something was found.
run() {
    local name=$1 log=build-fuzz/found/$1.log
    mkdir -p "build-fuzz/corpus/$name"
    if build-fuzz/bin/"$name" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=4096 \
        -print_final_stats=1 -artifact_prefix="build-fuzz/found/$name-" \
        "build-fuzz/corpus/$name" $(seeds "$name") >"$log" 2>&1; then
        local count
        count=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
        echo "$name: $count inputs, nothing found"
        rm "$log"
    else
        cat "$log"
        echo "$name: found something"
        return 1
    fi
}
export -f run seeds
export seconds UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
printf '%s\0' "${fuzzers[@]}" | xargs -0 -P "$(nproc)" -I{} bash -c 'run {}'
