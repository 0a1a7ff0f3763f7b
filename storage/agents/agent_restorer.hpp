// SPDX-License-Identifier: Apache-2.0
#pragma once
// Brings blocks that are only on disk into the pool: files side by side, layer after layer, checked
// before anybody else sees them. Owner: agent_cache_store. Thread: methods marked "Blocks." read
// files, without a lock.

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "storage/agents/evictor.hpp"
#include "storage/agents/store_parts.hpp"
#include "storage/disk/block_file.hpp"
#include "storage/pool/prefix_arrival.hpp"

namespace semantic::storage {

class agent_restorer {
  public:
    agent_restorer(store_parts& parts, evictor& room) : parts_(parts), room_(room) {}

    /// Brings the first `tokens` tokens of a memory into the pool, as far as they can be read
    /// (agent_cache_store::restore()). `early`: gets layers as they arrive; may be null. Blocks.
    result<restored_prefix> restore(const agent_state& wanted, int tokens, prefix_receiver* early);
    /// Blocks. Returns: `state` with all of its blocks in the pool, every block's sliding layers
    /// too, and with its recurrent states, as far as they can be read but for the last one. Errors:
    /// as restore(), and what is lost on disk: corrupt, incompatible, not_found.
    result<agent_state> restore_whole(const agent_state& state);
    /// Returns: the first `tokens` tokens of a memory if all that their next token needs is in the
    /// pool; else nothing.
    std::optional<restored_prefix> restore_hot(const agent_state& state, int tokens);

  private:
    /// One restore under way: the state, the names of its blocks, and what was brought into the
    /// pool so far.
    struct restoration {
        const agent_state& state;
        const std::vector<block_hash> names;
        restored_prefix found{};
        std::vector<bool> was_read{};  // by block
    };
    /// Receives the frames of all missing parts, in the order of `missing`, while they are being
    /// filled.
    using frames_taken =
        std::function<void(const std::vector<block_ptr>&, std::shared_ptr<prefix_arrival>)>;

    /// A position at which a sequence may resume, and the recurrent state there.
    struct kept_choice {
        int tokens = 0;  // 0: nowhere
        recurrent_ptr state{};
    };
    result<kept_choice> bring_kept(restoration& work, std::span<const kept_state> kept);
    result<recurrent_ptr> bring_kept(const restoration& work, const kept_state& each,
                                     std::uint64_t& bytes_read);
    bool may_resume_at(const agent_state& state, std::size_t tokens) const;
    bool has_group_rows(const restored_prefix& restored) const;
    result<std::optional<std::size_t>> bring(restoration& work,
                                             const std::vector<block_part>& needed,
                                             prefix_receiver* early);
    std::vector<result<block_read>> read_parts(const restoration& work,
                                               const std::vector<block_part>& missing,
                                               const frames_taken& begun);
    std::size_t frames_of(const block_part& part, const restoration& work) const;
    result<block_file_reader> open_file(const restoration& work, const block_part& part,
                                        bool keep_open);
    block_ptr find_hot(const restoration& work, const block_part& part) const;
    void count_damage(const block_hash& name, kv_part part, errc code);
    int tokens_read(const restored_prefix& restored, const std::vector<bool>& was_read) const;

    store_parts& parts_;
    evictor& room_;
};

}  // namespace semantic::storage
