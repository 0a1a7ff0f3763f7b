# SPDX-License-Identifier: Apache-2.0
# Configuring and building into build/, shared by start.sh and test.sh. Sourced from the project's
# root after packages.sh.

# configure CACHE_SETTING...: runs CMake when build/ is new or was made with other settings. Later
# changes of the CMake files are picked up by the build itself.
configure() {
    local setting changed=no
    for setting in "$@"; do
        grep -qs "^${setting#-D}\$" build/CMakeCache.txt || changed=yes
    done
    if [[ $changed == yes || ! -f build/build.ninja ]]; then
        echo "configuring"
        quietly cmake --preset release "$@"
    fi
}

# build TARGET...: as many compilers as there are cores, but no more than memory carries (2 GiB
# each).
build() {
    local jobs=${CMAKE_BUILD_PARALLEL_LEVEL:-}
    if [[ -z $jobs ]]; then
        local memory_kib by_memory
        memory_kib=$(awk '/^MemTotal:/ { print $2 }' /proc/meminfo)
        by_memory=$((memory_kib / 2097152))
        jobs=$(nproc)
        ((by_memory >= jobs)) || jobs=$((by_memory > 0 ? by_memory : 1))
    fi
    local quiet=()
    [[ -t 1 ]] || quiet=(-- --quiet)
    echo "building $*"
    cmake --build build --parallel "$jobs" --target "$@" "${quiet[@]}"
}
