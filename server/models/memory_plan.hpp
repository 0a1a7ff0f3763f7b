// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sums up what a model will take together with the server before it is loaded. A model that does
// not fit is refused with that sum; what is left becomes the KV pool. Pure, but for needs_of().

#include <cstdint>
#include <string>
#include <vector>

#include "server/config/config.hpp"
#include "server/models/memory_limits.hpp"
#include "storage/types/errc.hpp"

namespace semantic::server {

struct memory_needs {
    std::uint64_t weights = 0;      // packed, which may be more than their files
    std::uint64_t scratch = 0;      // of one step: activations and logits
    std::uint64_t connections = 0;  // with the bodies that are read at once
    std::uint64_t clients = 0;      // their sessions, runs and responses, and forms of answers
    std::uint64_t process = 0;      // all else: tokenizer, indexes, threads
    std::uint64_t sum() const { return weights + scratch + connections + clients + process; }
};

struct memory_plan {
    memory_limit limit;
    memory_needs needs;
    std::uint64_t pool = 0;
    std::uint64_t paged = 0;  // bytes of weights beyond the limit, read from disk again and again
    std::uint64_t sum() const { return needs.sum() + pool; }
};

// The least pool where the operator sets no size: with less the model does not fit.
constexpr std::uint64_t pool_bytes_least = std::uint64_t{64} << 20;
// And the largest.
constexpr std::uint64_t pool_bytes_most = std::uint64_t{1} << 40;

/// Plans the pool for a model with these needs. `pool_wanted`: its size in bytes; 0: all that is
/// left of a limit of this server alone, or half of what the machine has left (the rest is for the
/// page cache, other programs and a second server, which sees memory as free that this one has yet
/// to use). `may_page`: the weights may exceed the limit, because they are pages of a file that the
/// kernel can drop; a pool without a wanted size is then the least. Errors: out_of_space, one
/// sentence with the sum.
storage::result<memory_plan> plan_memory(const memory_limit& limit, const memory_needs& needs,
                                         std::uint64_t pool_wanted, bool may_page = false);
/// "weights 94 MiB + scratch 40 MiB + ... = 5,120 MiB of 21,012 MiB, what this machine can give".
std::string to_text(const memory_plan& plan);

/// The needs of two models in one process: connections, clients and the process itself count once.
memory_needs together(const memory_needs& one, const memory_needs& other);

/// The needs of the model at `path` with these settings, from its configuration and its files'
/// headers. Blocks. Errors: those of the configuration.
storage::result<memory_needs> needs_of(const std::string& path, const config& settings);
/// A model with its files and the settings that hold for it.
struct planned_model {
    std::string path;
    config settings;
};
/// Plans the memory for `model` while the models `others` stay loaded. `pool`: the bytes of the
/// pool that they have already; 0: as the model's settings say. Where several models may be loaded,
/// a pool without a wanted size leaves half to models that come later. Errors: those of needs_of()
/// and plan_memory(), with the options under which the model would fit.
storage::result<memory_plan> plan_for(const planned_model& model,
                                      const std::vector<planned_model>& others = {},
                                      std::uint64_t pool = 0);

}  // namespace semantic::server
