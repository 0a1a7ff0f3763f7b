// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a model will take together with the server, before it is loaded: what does not fit is
// refused with the sum, and what is left is the pool's. Pure, but for needs_of().

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
    std::uint64_t paged = 0;  // of the weights: more than the limit, read from disk again and again
    std::uint64_t sum() const { return needs.sum() + pool; }
};

// A pool that is not asked for is at least so large, or the model does not fit.
constexpr std::uint64_t pool_bytes_least = std::uint64_t{64} << 20;
// And at most so large.
constexpr std::uint64_t pool_bytes_most = std::uint64_t{1} << 40;

/// `pool_wanted`: 0 means all that is left of a limit that is this server's own, and half of what
/// the machine has left: the rest is for the page cache, which models are loaded from, for other
/// programs, and for a second server, which finds the memory free that this one has yet to use.
/// `may_page`: weights are a file's pages, which the kernel may take back, so the limit has to have
/// room for all the rest only; a pool that is not asked for is then the least.
/// Errors: out_of_space, one sentence with the sum.
storage::result<memory_plan> plan_memory(const memory_limit& limit, const memory_needs& needs,
                                         std::uint64_t pool_wanted, bool may_page = false);
/// "weights 94 MiB + scratch 40 MiB + ... = 5,120 MiB of 21,012 MiB, what this machine can give".
std::string to_text(const memory_plan& plan);

/// What several models take in one process: connections, and what the process itself has, once.
memory_needs together(const memory_needs& one, const memory_needs& other);

/// Blocks. Of the model whose files are at `path`, with these settings: from its files' headers and
/// its configuration. Errors: those of the configuration.
storage::result<memory_needs> needs_of(const std::string& path, const config& settings);
/// A model with its files and the settings that hold for it.
struct planned_model {
    std::string path;
    config settings;
};
/// All of it together, `others` being the models that are loaded with it. Where several models may
/// be, a pool that is not asked for leaves half of what there is to the models that come. `pool`:
/// of the pool that these models have already; 0: of the model's settings. Errors: also those of
/// plan_memory(), with the settings under which the model would fit, if there are any.
storage::result<memory_plan> plan_for(const planned_model& model,
                                      const std::vector<planned_model>& others = {},
                                      std::uint64_t pool = 0);

}  // namespace semantic::server
