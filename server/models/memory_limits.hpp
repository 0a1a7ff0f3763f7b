// SPDX-License-Identifier: Apache-2.0
#pragma once
// How much memory this process may have: what the machine has left, what its control group allows,
// what the operator says. Thread: any. Blocks for the small files of /proc and /sys.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace semantic::server {

struct memory_limit {
    std::uint64_t bytes = 0;
    std::string name;        // for messages: "what this machine can give"
    bool is_shared = false;  // whether other programs or models take memory from it, too
};

/// The smallest of three limits: what the machine can give (available now plus what this process
/// has, less a sixteenth); those of the process's control group and the groups above it; and
/// `operator_bytes`, unless that is 0.
memory_limit find_memory_limit(std::uint64_t operator_bytes);

/// Returns: what the control groups leave to this process, the least of all its groups, if the
/// other processes in them keep what they have; nothing where no limit is set. `root`:
/// "/sys/fs/cgroup". `proc_self_cgroup`: the content of /proc/self/cgroup, version 1 or 2.
/// `own_bytes`: what this process has.
std::optional<std::uint64_t> cgroup_memory_limit(const std::string& root,
                                                 std::string_view proc_self_cgroup,
                                                 std::uint64_t own_bytes);

/// The anonymous memory of this process in RAM, in bytes: not pages of files.
std::uint64_t own_memory();

}  // namespace semantic::server
