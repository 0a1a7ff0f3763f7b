#!/usr/bin/env bash
# Looks for bugs that the compiler does not see: the checks of .clang-tidy over every source that is
# shipped. lint.sh [FILE...]; without files all of them. Needs clang-tidy (14 or later) and a build
# folder that is configured (etc/build.sh); says so and ends with 77 where there is no clang-tidy.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

program=$(command -v clang-tidy-14 || command -v clang-tidy || true)
if [[ -z $program ]]; then
    echo "skipped: clang-tidy is not there (apt-get install clang-tidy-14)"
    exit 77
fi
build=${SEMANTIC_BUILD:-build}
[[ -f $build/compile_commands.json ]] || {
    echo "$build is not configured: cmake --preset release" >&2
    exit 2
}
if (($# == 0)); then
    # The kernels are written for GCC's flags and builtins.
    mapfile -t files < <(git ls-files 'engine/*.cpp' 'protocol/*.cpp' 'server/*.cpp' \
        'storage/*.cpp' | grep -v '^engine/kernels/')
else
    files=("$@")
fi
# GCC's own options are none of Clang's.
printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(nproc)" "$program" -p "$build" --quiet \
    --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-error 2> >(grep -v \
        'warnings\? generated\|^Suppressed\|^Use -header\|warnings treated' >&2)
echo "clang-tidy finds nothing in ${#files[@]} sources"
