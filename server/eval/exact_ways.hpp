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

/// The result of one way to compute logits, compared with those of the text read at once.
struct way_outcome {
    std::string name;
    int compared = 0;                 // positions
    std::optional<int> differs_at{};  // the first position whose logits have other bits
};

class exact_ways {
  public:
    /// A text has at least so many tokens: it is cut inside a complete block, and more must follow.
    static constexpr int tokens_min = 300;
    /// The most sequences in the pool at one time.
    static constexpr int sequences = 6;
    /// The number of ways, reading the text at once included.
    static constexpr std::size_t way_count = 9;

    /// `model`: its pool has room for `sequences` sequences of so many tokens. `folder`: an empty
    /// directory that the ways write to; its maker removes it. Both outlive this object. Requires:
    /// at least tokens_min `tokens`.
    exact_ways(offline_model& model, std::vector<storage::token_id> tokens, std::string folder);

    /// Computes the logits in every way. `on_way` gets the name of each way before it begins.
    /// Blocks. Throws bad_input where the folder cannot be written or the pool has no room;
    /// std::logic_error where a changed token changes no logits, since the comparison would then
    /// prove nothing.
    std::vector<way_outcome> run(const std::function<void(const std::string&)>& on_way);

    int positions() const noexcept { return static_cast<int>(asked_.size()); }
    /// The lengths of the two prefixes that are continued, in tokens: one ends in a partly filled
    /// block, the other (parting) inside a complete one.
    int prefix() const noexcept { return prefix_; }
    int parting() const noexcept { return parting_; }

  private:
    using store_ptr = std::unique_ptr<storage::agent_cache_store>;

    /// Reads the text in pieces of a prime length, the end token by token.
    void in_pieces(way_outcome& outcome);
    /// Reads the text on one thread.
    void on_one_thread(way_outcome& outcome);
    /// Reads the text in steps with other texts.
    void in_a_batch(way_outcome& outcome);
    /// Continues the prefix as a fork, after its owner went another way.
    void forked(way_outcome& outcome);
    /// Continues the shorter prefix, which is cut from the longer one.
    void parted(way_outcome& outcome);
    /// Continues the first `tokens` tokens of the memory in a store's folder.
    void restored(way_outcome& outcome, const std::string& folder, int tokens);
    /// Continues the prefix from an exported file.
    void imported(way_outcome& outcome);
    /// Checks that one changed token changes logits, so that equal logits mean something.
    void see_a_changed_token();

    /// Reads the text from where `sequence` ends to `end`, `chunk` tokens at a time, and compares.
    void read_on(way_outcome& outcome, offline_model& model, offline_sequence& sequence, int end,
                 int chunk);
    /// Compares `logits`, those of the positions asked_[first], asked_[first + 1] and so on, with
    /// reference_.
    void compare(way_outcome& outcome, std::size_t first, std::span<const float> logits) const;
    /// The index in asked_ of the first position that is at least `position`.
    std::size_t first_asked(int position) const;
    /// Computes the prefix and keeps its blocks (also those that no window reaches any more), and
    /// the states of recurrent layers at its end and where it is cut.
    void read_blocks();
    /// Moves blocks_ to disk: into a store's folder, copies of it, and an exported file.
    void save_blocks();
    /// The kept states in the form that a store takes; none without recurrent layers.
    std::vector<storage::kept_state> keep_states();
    /// Exports the agent from a store into a file of folder_.
    void export_from(storage::agent_cache_store& store);
    /// Opens a store in the subfolder `name` of folder_.
    store_ptr open_store(const std::string& name);
    /// Restores the first `tokens` tokens of the agent from a store, closes the store, and
    /// continues.
    void go_on(way_outcome& outcome, store_ptr store, int tokens);
    /// Overwrites all free frames of the pool, so that what is read from disk cannot be confused
    /// with what was left in them.
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
