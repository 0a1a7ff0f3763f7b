// SPDX-License-Identifier: Apache-2.0
#include "server/models/memory_limits.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

namespace semantic::server {

namespace {

// Version 1 of control groups writes "no limit" as the largest whole number of pages.
constexpr std::uint64_t no_limit = std::uint64_t{1} << 60;

std::string text_of(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

/// The number in a small file; nothing where it has none or means "no limit".
std::optional<std::uint64_t> number_in(const std::string& path) {
    const std::string text = text_of(path);
    std::uint64_t value = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
    if (read.ec != std::errc() || value >= no_limit) return std::nullopt;
    return value;
}

/// The value of a line such as "MemAvailable: 123 kB", in bytes; 0 where there is no such line.
std::uint64_t field_of(const std::string& text, const std::string& name) {
    const std::size_t at = text.find(name + ":");
    if (at == text.npos) return 0;
    return std::strtoull(text.c_str() + at + name.size() + 1, nullptr, 10) * 1024;
}

/// The value of a line such as "anon 4096"; 0 where there is no such line.
std::uint64_t counter_of(const std::string& text, const std::string& name) {
    const std::size_t at = ("\n" + text).find("\n" + name + " ");
    if (at == text.npos) return 0;
    return std::strtoull(text.c_str() + at + name.size() + 1, nullptr, 10);
}

/// The limit of one group less the anonymous memory of its other processes; nothing: no limit.
/// `is_unified`: version 2.
std::optional<std::uint64_t> left_in(const std::string& group, bool is_unified, std::uint64_t own) {
    const auto limit = number_in(group + (is_unified ? "/memory.max" : "/memory.limit_in_bytes"));
    if (!limit) return std::nullopt;
    const std::string counters = text_of(group + "/memory.stat");
    const std::uint64_t taken = counter_of(counters, is_unified ? "anon" : "total_rss");
    const std::uint64_t others = taken > own ? taken - own : 0;
    return *limit > others ? *limit - others : 0;
}

void take_smaller(std::optional<std::uint64_t>& least, std::optional<std::uint64_t> other) {
    if (other) least = least ? std::min(*least, *other) : *other;
}

}  // namespace

std::uint64_t own_memory() { return field_of(text_of("/proc/self/status"), "RssAnon"); }

std::optional<std::uint64_t> cgroup_memory_limit(const std::string& root,
                                                 std::string_view proc_self_cgroup,
                                                 std::uint64_t own_bytes) {
    std::optional<std::uint64_t> least;
    std::istringstream lines{std::string(proc_self_cgroup)};
    for (std::string line; std::getline(lines, line);) {  // "4:memory:/a/b", "0::/a/b"
        const std::size_t colon = line.find(':');
        const std::size_t second = line.find(':', colon + 1);
        if (colon == line.npos || second == line.npos) continue;
        const std::string kind = line.substr(colon + 1, second - colon - 1);
        if (kind != "memory" && !kind.empty()) continue;
        const bool is_unified = kind.empty();
        const std::string top = is_unified ? root : root + "/memory";
        std::string path = line.substr(second + 1);
        while (!path.empty() && path != "/") {
            take_smaller(least, left_in(top + path, is_unified, own_bytes));
            path.erase(path.rfind('/'));
        }
        // In a container the mounted root is the group itself.
        take_smaller(least, left_in(top, is_unified, own_bytes));
    }
    return least;
}

memory_limit find_memory_limit(std::uint64_t operator_bytes) {
    const std::uint64_t own = own_memory();
    const std::uint64_t machine = field_of(text_of("/proc/meminfo"), "MemAvailable") + own;
    // A sixteenth is left to the other programs of the machine.
    memory_limit least{machine / 16 * 15, "what this machine can give", true};
    const auto group = cgroup_memory_limit("/sys/fs/cgroup", text_of("/proc/self/cgroup"), own);
    if (group && *group < least.bytes)
        least = {*group, "what the control group's limit leaves", false};
    if (operator_bytes > 0 && operator_bytes < least.bytes)
        least = {operator_bytes, "memory-limit-mb", false};
    return least;
}

}  // namespace semantic::server
