#!/usr/bin/env bash
# Builds the unit tests under a sanitizer and runs them. --help says more.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source etc/packages.sh
source etc/build.sh

usage() {
    cat <<HELP
usage: bash etc/sanitize.sh address|thread [program...]

address  AddressSanitizer and UndefinedBehaviorSanitizer, built into build-debug/
thread   ThreadSanitizer, built into build-tsan/; of engine_tests it runs the suites that hand
         nothing to oneTBB, whose own synchronisation is not instrumented

Programs: storage_tests, protocol_tests, server_tests, engine_tests; without one, all of them. The
exit status is 0 when every test passed and nothing was reported.
HELP
}

outside_tbb() {
    local IFS=:
    local suites=('save_gate_.*' 'plan_step.*' 'chunk_tokens.*' 'step_cost.*' 'wait_estimate.*'
        'turn_replay.*' 'match_prefix.*' 'output_parser.*' 'stop_matcher.*' 'utf8_stream.*'
        'tokenizer.*' 'chat_template.*' 'json_grammar.*' 'output_constraint.*' 'answer_grammar.*')
    echo "${suites[*]}"
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
programs=("$@")
((${#programs[@]} > 0)) || programs=(storage_tests protocol_tests server_tests engine_tests)

install_missing packages_to_build packages_to_test
quietly cmake --preset "$preset"
# A sanitizer needs twice the compiler's usual memory.
cmake --build "build-$preset" --parallel "${CMAKE_BUILD_PARALLEL_LEVEL:-2}" \
    --target "${programs[@]}" -- --quiet
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export TSAN_OPTIONS=halt_on_error=1:suppressions=$PWD/etc/tsan.supp
for program in "${programs[@]}"; do
    filter='*'
    [[ $preset != tsan || $program != engine_tests ]] || filter=$(outside_tbb)
    echo "$program under $preset"
    "build-$preset/bin/$program" --gtest_brief=1 --gtest_filter="$filter"
done
