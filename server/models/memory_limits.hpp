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
    std::string name;        // "what this machine can give": whose limit it is
    bool is_shared = false;  // with other programs, or models, which take of it too
};

/// The smallest of: what the machine can give (available now, and what this process has already,
/// less a sixteenth), the limits of the process's control group and of those above it, and
/// `operator_bytes` unless that is 0.
memory_limit find_memory_limit(std::uint64_t operator_bytes);

/// Of the groups that `proc_self_cgroup` names, of version 1 or 2, below `root` ("/sys/fs/cgroup"):
/// Returns: the least that is left of a limit when others than this process, which has `own_bytes`,
/// keep what they have; nothing where no limit is set.
std::optional<std::uint64_t> cgroup_memory_limit(const std::string& root,
                                                 std::string_view proc_self_cgroup,
                                                 std::uint64_t own_bytes);

/// Bytes of this process that are in RAM and no file's.
std::uint64_t own_memory();

}  // namespace semantic::server
