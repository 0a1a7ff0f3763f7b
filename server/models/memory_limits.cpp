#include "server/models/memory_limits.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

namespace semantic::server {

namespace {

// Version 1 spells "no limit" as the largest whole number of pages.
constexpr std::uint64_t no_limit = std::uint64_t{1} << 60;

std::string text_of(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

std::optional<std::uint64_t> number_in(const std::string& path) {
    const std::string text = text_of(path);
    std::uint64_t value = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
    if (read.ec != std::errc() || value >= no_limit) return std::nullopt;
    return value;
}

/// "MemAvailable:  123 kB" -> bytes; 0 where there is no such line.
std::uint64_t field_of(const std::string& text, const std::string& name) {
    const std::size_t at = text.find(name + ":");
    if (at == text.npos) return 0;
    return std::strtoull(text.c_str() + at + name.size() + 1, nullptr, 10) * 1024;
}

void take_smaller(std::optional<std::uint64_t>& least, std::optional<std::uint64_t> other) {
    if (other) least = least ? std::min(*least, *other) : *other;
}

}  // namespace

std::uint64_t own_memory() { return field_of(text_of("/proc/self/status"), "RssAnon"); }

std::optional<std::uint64_t> cgroup_memory_limit(const std::string& root,
                                                 std::string_view proc_self_cgroup) {
    std::optional<std::uint64_t> least;
    std::istringstream lines{std::string(proc_self_cgroup)};
    for (std::string line; std::getline(lines, line);) {  // "4:memory:/a/b", "0::/a/b"
        const std::size_t colon = line.find(':');
        const std::size_t second = line.find(':', colon + 1);
        if (colon == line.npos || second == line.npos) continue;
        const std::string kind = line.substr(colon + 1, second - colon - 1);
        if (kind != "memory" && !kind.empty()) continue;
        const std::string top = kind.empty() ? root : root + "/memory";
        const char* file = kind.empty() ? "/memory.max" : "/memory.limit_in_bytes";
        std::string path = line.substr(second + 1);
        while (!path.empty() && path != "/") {
            take_smaller(least, number_in(top + path + file));
            path.erase(path.rfind('/'));
        }
        // In a container the group is the root of what is mounted.
        take_smaller(least, number_in(top + file));
    }
    return least;
}

memory_limit find_memory_limit(std::uint64_t operator_bytes) {
    const std::uint64_t machine = field_of(text_of("/proc/meminfo"), "MemAvailable") + own_memory();
    memory_limit least{machine / 16 * 15, "what this machine can give"};
    const auto group = cgroup_memory_limit("/sys/fs/cgroup", text_of("/proc/self/cgroup"));
    if (group && *group < least.bytes) least = {*group, "the control group's limit"};
    if (operator_bytes > 0 && operator_bytes < least.bytes)
        least = {operator_bytes, "memory-limit-mb"};
    return least;
}

}  // namespace semantic::server
