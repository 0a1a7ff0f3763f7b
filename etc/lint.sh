#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Looks for bugs that the compiler does not see. --help says more.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
    cat <<HELP
usage: bash etc/lint.sh [--minutes N] [FILE...]

Runs the checks of .clang-tidy over every source that is shipped, or those that are named, those
that were changed last first. After N minutes it begins no other one and says how many are left.
Needs clang-tidy (14 or later). Configures build-lint, where nothing is built; SEMANTIC_BUILD names
another build folder that is configured with SEMANTIC_UNITE=OFF. The exit status is 0 when nothing
was found, 77 where there is no clang-tidy.
HELP
}

seconds=
case ${1:-} in
--minutes)
    [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || {
        echo "--minutes: a number of minutes from 1 on" >&2
        exit 2
    }
    seconds=$(($2 * 60))
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
esac

program=$(command -v clang-tidy-14 || command -v clang-tidy || true)
if [[ -z $program ]]; then
    echo "skipped: clang-tidy is not there (apt-get install clang-tidy-14)"
    exit 77
fi
# In build, sources may be compiled as one, and have no command of their own.
build=${SEMANTIC_BUILD:-build-lint}
[[ -n ${SEMANTIC_BUILD:-} ]] || cmake --preset lint >/dev/null
[[ -f $build/compile_commands.json ]] || {
    echo "$build is not configured: cmake --preset lint" >&2
    exit 2
}

# The sources, those that were changed last first. The kernels are written for GCC's flags and
# builtins.
shipped() {
    { git log --format= --name-only && git ls-files; } |
        grep -E '^(engine|protocol|server|storage)/.*\.cpp$' | grep -v '^engine/kernels/' |
        awk '!seen[$0]++' | while read -r file; do [[ ! -f $file ]] || echo "$file"; done
}

files=("$@")
(($# > 0)) || mapfile -t files < <(shipped)
begun=$(mktemp)
trap 'rm -f "$begun"' EXIT

# look FILE: nothing once the time is over. GCC's own options are none of Clang's.
look() {
    [[ -z $end ]] || (($(date +%s) < end)) || return 0
    echo "$1" >>"$begun"
    "$program" -p "$build" --quiet --extra-arg=-Wno-unknown-warning-option \
        --extra-arg=-Wno-error "$1" 2> >(grep -v \
            'warnings\? generated\|^Suppressed\|^Use -header\|warnings treated' >&2)
}
export -f look
end=
[[ -z $seconds ]] || end=$(($(date +%s) + seconds))
export program build begun end
printf '%s\0' "${files[@]}" | xargs -0 -P "$(nproc)" -I{} bash -c 'look {}'
looked=$(wc -l <"$begun")
echo "clang-tidy finds nothing in $looked sources, $((${#files[@]} - looked)) were not looked at"
