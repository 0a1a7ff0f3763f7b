// SPDX-License-Identifier: Apache-2.0
#pragma once
// The ways in which a server computes the logits of a position: the text read in pieces, on one
// thread, in a batch with other texts, and after a prefix that another agent shares, that was cut,
// restored from disk or imported. All must give the same bits (engine/model/README.md, Exactness).
// Owner: a command. Thread: one.

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "server/eval/offline_model.hpp"
#include "storage/agents/agent_cache_store.hpp"

namespace semantic::eval {

/// What one way gave, against the text read at once.
struct way_outcome {
    std::string name;
    int compared = 0;                 // positions
    std::optional<int> differs_at{};  // the first position whose logits are other bits
};

class exact_ways {
  public:
    /// The text is parted inside a complete block, and something must follow.
    static constexpr int tokens_min = 300;
    /// The most sequences in the pool at one time.
    static constexpr int sequences = 6;
    /// Ways, the text read at once with them.
    static constexpr std::size_t way_count = 9;

    /// `model` has room for `sequences` of as many tokens; `folder` is an empty directory, which
    /// the ways write to and its maker removes. Both outlive this. Requires: at least
    /// tokens_min `tokens`.
    exact_ways(offline_model& model, std::vector<storage::token_id> tokens, std::string folder);

    /// Blocks. `on_way` gets each way's name before it is gone. Throws bad_input where the folder
    /// cannot be written or the pool has no room, and std::logic_error where a changed token
    /// changes no logits, so that nothing would be shown.
    std::vector<way_outcome> run(const std::function<void(const std::string&)>& on_way);

    int positions() const noexcept { return static_cast<int>(asked_.size()); }
    /// Tokens of the prefix that ends in a block that is not full, and of the one that ends inside
    /// a complete block.
    int prefix() const noexcept { return prefix_; }
    int parting() const noexcept { return parting_; }

  private:
    using store_ptr = std::unique_ptr<storage::agent_cache_store>;

    void in_pieces(way_outcome& outcome);
    void on_one_thread(way_outcome& outcome);
    void in_a_batch(way_outcome& outcome);
    void forked(way_outcome& outcome);
    void parted(way_outcome& outcome);
    /// The first `tokens` tokens of what a folder remembers.
    void restored(way_outcome& outcome, const std::string& folder, int tokens);
    void imported(way_outcome& outcome);
    void see_a_changed_token();

    /// Reads the text from where `sequence` ends to `end`, `chunk` tokens at a time, and compares.
    void read_on(way_outcome& outcome, offline_model& model, offline_sequence& sequence, int end,
                 int chunk);
    /// `logits`: of the positions asked_[first], asked_[first + 1] and so on.
    void compare(way_outcome& outcome, std::size_t first, std::span<const float> logits) const;
    /// The first of asked_ that is not below `position`.
    std::size_t first_asked(int position) const;
    /// Reads the prefix: its blocks, those that no window reaches any more too, and the states of
    /// recurrent layers at its end and where it is parted.
    void read_blocks();
    /// Moves blocks_ to disk: into a store's folder, copies of it, and an exported file.
    void save_blocks();
    std::vector<storage::kept_state> keep_states();
    void export_from(storage::agent_cache_store& store);
    /// Opens a store in the subfolder `name` of folder_.
    store_ptr open_store(const std::string& name);
    /// Continues after the first `tokens` tokens of the agent, as a store has them, which is
    /// closed then.
    void go_on(way_outcome& outcome, store_ptr store, int tokens);
    /// Writes over all frames that nobody holds: nothing left there passes for what is read back.
    void overwrite_free_frames();

    offline_model& model_;
    std::vector<storage::token_id> tokens_;
    std::string folder_;
    std::size_t vocabulary_;
    int prefix_, parting_;
    std::vector<int> asked_;                       // positions, ascending
    std::vector<float> reference_;                 // [asked_, vocabulary]
    std::vector<storage::kv_block_parts> blocks_;  // of the prefix, until they are on disk
    // States of recurrent layers, at the prefix's end and where the group of parting_ begins;
    // empty without such layers.
    std::vector<std::byte> prefix_state_, parting_state_;
};

}  // namespace semantic::eval
