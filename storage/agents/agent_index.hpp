// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which agents are remembered, and what is known of each: by name, by text, by answer, and which of
// their blocks are in the pool. Pure: no method reads or writes a file or takes a frame, and none
// waits but manifest_turn. Owner: agent_cache_store. Thread: every method takes the lock that
// guards it, so none is called without; the lock is never held during I/O. Stores of several models
// on one directory have an index each and one lock for all of them.
//
// States and blocks that leave the index are returned, for their end frees frames: the caller
// destroys them after it has released the lock.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "storage/agents/block_index.hpp"
#include "storage/agents/policy/memory_claims.hpp"
#include "storage/agents/prefix_index.hpp"
#include "storage/agents/state_blocks.hpp"
#include "storage/disk/foreign_manifests.hpp"
#include "storage/pool/agent_state.hpp"
#include "storage/types/ids.hpp"
#include "storage/types/message_place.hpp"
#include "storage/types/shortfall.hpp"

namespace semantic::storage {

/// A full block as a manifest has it: its name, and a sum of its text and where its tokens end.
struct block_mark {
    block_hash name;
    block_hash text;
    bool operator==(const block_mark&) const = default;
};

/// A manifest on disk that the next version may be appended to.
struct manifest_journal {
    block_hash seal;  // of its last record
    std::vector<block_mark> marks;
    std::vector<message_end> messages;
    std::uint64_t bytes_at_first = 0;  // of the file when it was last written as a whole
};

/// What the index knows of one agent.
struct agent_record {
    state_ptr state;                     // the newest
    std::vector<block_hash> names;       // of the newest state's blocks
    std::vector<block_hash> kept_names;  // of the recurrent states that it keeps
    std::uint64_t version = 0;           // rises whenever the agent becomes dirty
    bool dirty = false;
    bool save_failed = false;    // the last save, of a state that is still dirty
    bool is_over_bound = false;  // it failed because of what may be written
    std::chrono::system_clock::time_point last_used{};
    // Retained for the manifest on disk: the names of blocks, then those of recurrent states.
    std::vector<block_hash> saved;
    std::size_t saved_blocks = 0;  // how many of `saved` are blocks; the rest are states
    // Retained for manifests whose write failed, perhaps too late to be undone, and for states that
    // no manifest speaks of yet.
    std::vector<block_hash> attempted;
    std::set<block_hash> pinned;  // those of the states that no manifest speaks of
    std::uint64_t manifest_bytes = 0;
    std::optional<manifest_journal> appendable;  // unknown after an opening or a failed save
    memory_claim claim = memory_claim::none;     // what weigh_claims() found last
    // Bytes of files that were written for this agent: since it was made, since its last answer
    // ended, and for the answer before that.
    std::uint64_t bytes_written = 0;
    std::uint64_t bytes_of_turn = 0;
    std::uint64_t bytes_of_last_turn = 0;

    void mark_dirty() {
        dirty = true;
        ++version;
    }
};

class agent_index;

/// What the indexes of one directory have in common.
struct index_commons {
    std::mutex mutex;  // guards everything below, and every member
    std::condition_variable turn_ended;
    std::vector<agent_index*> members;
    std::set<std::string> turns;  // manifests that are being saved, removed or taken over
    foreign_manifests foreign;    // of no member
    std::map<std::string, shortfall> absent;  // by manifest path
    std::set<std::string> spared;             // paths of manifests that go last
    std::set<std::string> unkept;             // of `absent`: memories that were to be kept
    std::uint64_t reconciliations = 0;
};

class agent_index {
  public:
    /// What the index must know of block files, and say of them. Called under the lock; no I/O.
    struct file_books {
        /// Whether a part of the block is in a good file.
        std::function<bool(const block_hash&, kv_part)> is_saved;
        /// Whether it is in a file, good or not.
        std::function<bool(const block_hash&, kv_part)> is_known;
        /// Says that the files of these blocks must stay.
        std::function<void(std::span<const block_hash>)> retain;
        /// What the files of these blocks take. May be empty: nothing.
        std::function<std::uint64_t(std::span<const block_hash>)> bytes_on_disk{};
    };

    /// `shape` must live as long.
    agent_index(const state_blocks& shape, file_books files,
                std::shared_ptr<index_commons> commons = std::make_shared<index_commons>());
    ~agent_index();
    agent_index(const agent_index&) = delete;
    agent_index& operator=(const agent_index&) = delete;

    /// The proof that nobody else looks at the index.
    class lock {
      public:
        explicit lock(const agent_index& index) : held_(index.commons_->mutex) {}

      private:
        std::unique_lock<std::mutex> held_;
    };

    // --- agents ---
    using agent_map = std::unordered_map<agent_id, agent_record>;
    const agent_map& agents(const lock&) const { return agents_; }
    /// Returns: null when there is none. The state's tokens, text and messages, and the names of
    /// its blocks, change by publish() alone.
    agent_record* find(const lock&, const agent_id& id);
    const agent_record* find(const lock&, const agent_id& id) const;
    /// Requires: there is no such agent.
    agent_record& add(const lock&, agent_record agent);
    /// Adds an agent without an entry by text, which add_texts() makes later for all agents.
    /// Requires: there is no such agent.
    agent_record& add_without_text(const lock&, agent_record agent);
    /// Makes the entries by text of all agents, once add_without_text() has added them.
    void add_texts(const lock&);
    /// Takes an agent out. Requires: there is one.
    agent_record take(const lock&, const agent_id& id);

    // --- looking up ---
    std::vector<prefix_neighbour> closest(const lock&, const tenant_id& tenant,
                                          std::string_view text, std::size_t count_max) const {
        return by_text_.closest(tenant, text, count_max);
    }
    /// Returns: where the tenant's answer with this id ends, if an agent still has it.
    std::optional<message_place> find_message(const lock&, const tenant_id& tenant,
                                              const std::string& id) const;
    /// Returns: the agent's newest state where its first `tokens` tokens are those of `state`, with
    /// blocks of the same salt, else null.
    state_ptr find_same_prefix(const lock&, const agent_state& state, std::size_t tokens) const;

    // What publish() replaced. The caller destroys it after releasing the lock.
    struct outdated {
        state_ptr former;       // the agent's state before
        state_ptr with_passed;  // the new one as it was with sliding frames that left the window
        std::vector<block_ptr> duplicates;
        std::vector<recurrent_ptr> duplicate_states;
    };
    /// Makes `state` the newest one of its agent, which need not exist yet, and marks the agent
    /// dirty. A block that another agent has in the pool already replaces the state's own copy of
    /// it. Requires: `names` are the names of the state's blocks.
    outdated publish(const lock&, agent_state state, std::vector<block_hash> names);
    /// Gives the agent the blocks of the state `from` that it has neither in the pool nor on disk;
    /// the agent is dirty then. Returns: the former state, or null when there are none.
    state_ptr add_missing_blocks(const lock&, agent_record& agent, const agent_state& from,
                                 const std::vector<block_hash>& names);
    /// Adds blocks that were read for the state `from`, and the recurrent state `kept` after its
    /// first `tokens` tokens, to its agent's newest state, as far as the two have the same blocks.
    /// Returns: the former state, or null when the agent is gone or nothing was added.
    state_ptr add_restored(const lock&, const agent_state& from,
                           const std::vector<block_hash>& names,
                           const std::vector<kv_block_parts>& restored, std::size_t tokens = 0,
                           const recurrent_ptr& kept = {});
    /// Drops all blocks of a clean agent from the pool. Returns: the former state, null when it had
    /// none.
    state_ptr drop_blocks(const lock&, agent_record& agent);
    /// Which of the sliding frames before the window drop_passed() drops: those that are on disk,
    /// or all.
    enum class passed_frames { saved, all };
    /// Gives the agent another policy, which makes it dirty. Returns: the former state.
    state_ptr set_policy(const lock&, agent_record& agent, const memory_policy& policy);
    /// Removes sliding frames before the window, which the agent's next token does not need, from
    /// its state. Returns: the former state, null when there were none.
    state_ptr drop_passed(const lock&, agent_record& agent, passed_frames dropped);

    // --- blocks ---
    /// Returns: the same part of the same block where it is known already, else `block`, which is
    /// known from now on if it is full.
    block_ptr adopt(const lock&, const block_place& at, block_ptr block);
    /// Returns: a part of a state's block from the pool, or null.
    block_ptr find_block(const lock&, const agent_state& state, const block_part& wanted,
                         const block_place& at) const;
    /// Returns: the recurrent state of this place from the pool, or null.
    recurrent_ptr find_kept(const lock&, const block_place& at) const {
        return blocks_.find_state(at.name, at.identity);
    }
    /// Returns: the same state where it is known already, else `state`, known from now on.
    recurrent_ptr adopt_kept(const lock&, const block_place& at, recurrent_ptr state) {
        return blocks_.adopt_state(at.name, at.identity, std::move(state));
    }
    /// Says that the block's file is damaged: agents that have the part in the pool are dirty.
    void mark_damaged(const lock&, const block_hash& name, kv_part part);

    // --- eviction ---
    /// Sets the claims of this index's agents by their policies. Adds those that are kept or pinned
    /// to `claimants`, for cut_to_share(); they are valid under the lock.
    void weigh_claims(const lock&, std::chrono::system_clock::time_point now,
                      std::vector<claimant>& claimants);
    /// Sets the claims of the agents of all indexes of the directory and of the foreign manifests,
    /// within a share of the disk.
    void weigh_all_claims(const lock&, std::chrono::system_clock::time_point now,
                          std::uint64_t share_bytes);
    /// The clean agent that goes first: by its claim, agents whose blocks free frames at once
    /// before others, then by tier_policy; the larger score goes first, of several indexes too.
    /// Requires: weigh_claims().
    struct clean_agent {
        using score_type = std::tuple<int, bool, double>;
        agent_record* agent = nullptr;  // null: there is none
        score_type score{std::numeric_limits<int>::min(), false, -1};
    };
    /// The agent with hot blocks that may leave the pool first: not dirty, and with the least
    /// claim, then one whose blocks others do not share, then the one that is least likely to be
    /// needed. `keep`: an agent to pass over; may be null.
    clean_agent most_dispensable(const lock&, std::chrono::system_clock::time_point now,
                                 const agent_id* keep);
    /// Evicts the agent that most_dispensable() finds. Returns: its former state, null when there
    /// is none.
    state_ptr evict_clean(const lock&, std::chrono::system_clock::time_point now,
                          const agent_id* keep);
    /// Drops the sliding frames before the window, also those that are not on disk, of one agent
    /// whose last save failed. Returns: its former state, null when no such agent has any.
    state_ptr evict_passed_of_failed(const lock&);
    /// Forgets, of the agents whose last save failed and that nobody holds, the one unused for
    /// longest, but not `keep`. An older version on disk is read at the next opening, unless the
    /// quota removes it before. Returns: its former state, null when there is none.
    state_ptr forget_failed(const lock&, const agent_id* keep);

    // --- files ---
    struct removal {
        std::string path;               // of a manifest, whose turn the caller has; empty: none
        std::optional<agent_id> agent;  // of a member; none: the manifest is a foreign one
        agent_index* member = nullptr;  // whose agent it is
        bool is_leftover = false;       // of the foreign ones: one that nobody can use
        bool orphans_may_go = true;     // whether it is known which blocks all manifests need
        memory_claim claim = memory_claim::none;
    };
    /// Chooses what the disk gives up first: leftovers, then memories of whatever model by their
    /// claims and as tier_policy says, those of all members, and only then what is spared; never an
    /// agent that is dirty or held, nor a manifest of `in_vain` or of a turn. Requires:
    /// weigh_all_claims().
    /// `owner`: only leftovers, and this tenant's memories; null: everybody's.
    removal choose_removal(const lock&, std::chrono::system_clock::time_point now,
                           const std::set<std::string>& in_vain, const tenant_id* owner = nullptr);
    /// What the quota would gain by removing one manifest that choose_removal() may choose.
    struct removable {
        std::uint64_t manifest_bytes = 0;
        std::span<const block_hash> saved, attempted;  // blocks that it retains
    };
    /// Calls `visit` with each manifest that choose_removal() may choose, in no order, until it
    /// returns false.
    void visit_removables(const lock&, const std::set<std::string>& in_vain, const tenant_id* owner,
                          const std::function<bool(const removable&)>& visit) const;
    void add_foreign(const lock&, const std::string& path, foreign_manifest manifest) {
        commons_->foreign.add(path, std::move(manifest));
    }
    /// Says what is known of the model whose manifest was added.
    void add_label(const lock&, const block_hash& fingerprint, model_label label) {
        commons_->foreign.add_label(fingerprint, std::move(label));
    }
    const foreign_manifests& foreign(const lock&) const { return commons_->foreign; }
    /// Returns: the indexes of all models that are loaded.
    const std::vector<agent_index*>& members(const lock&) const { return commons_->members; }
    /// Takes all agents out, and leaves what is on disk of them to the foreign manifests. Returns:
    /// their states, and blocks that nothing on disk needs.
    struct left_agents {
        std::vector<state_ptr> states;
        std::vector<block_hash> unneeded;
    };
    /// Removes all agents of this index when its model is unloaded. What is on disk of them stays
    /// known as a foreign manifest of `fingerprint`. Returns: their states, for the caller to
    /// destroy, and blocks that no manifest needs any more.
    left_agents leave(const lock&, const block_hash& fingerprint);

    /// Sets whether the quota removes this manifest only after all others.
    void spare(const lock&, const std::string& path, bool is_spared) {
        if (is_spared)
            commons_->spared.insert(path);
        else
            commons_->spared.erase(path);
    }
    /// Removes a manifest that is gone, or about to be, from the foreign ones. Returns: what was
    /// known of it; an empty one where it was none of them.
    foreign_manifest take_foreign(const lock&, const std::string& path);
    /// Returns: why the agent of this manifest path has no memory here: what happened to the
    /// manifest; else model_changed where other weights have a memory of it, incompatible where the
    /// same `weights` in another form have one; none when nothing is known of the agent. `id`: the
    /// agent, to look for among the other loaded models; null: not looked for.
    shortfall why_absent(const lock&, const std::string& path, const std::string& weights,
                         const agent_id* id = nullptr) const;
    /// Notes why the agent of this manifest has no memory any more, for why_absent().
    void set_absent(const lock&, const std::string& path, shortfall why);
    /// Notes that the memory of this manifest was removed although its policy was to keep it.
    void set_unkept(const lock&, const std::string& path);
    bool is_unkept(const lock&, const std::string& path) const {
        return commons_->unkept.contains(path);
    }

    /// Returns: the paths of all manifests that are on disk, but for other members'.
    std::vector<std::string> manifests(const lock&) const;
    /// Removes the manifests in `gone`, whose files were removed from outside, from the index.
    /// Agents that lack files which the pool can write again become dirty. Returns: the bytes of
    /// all those manifests, and the blocks that the foreign ones of them retained, for the caller
    /// to release.
    foreign_manifest reconcile(const lock&, const std::set<std::string>& gone);
    /// How often that has happened: a save that finds it changed must start again.
    std::uint64_t reconciliations(const lock&) const { return commons_->reconciliations; }
    /// Returns: how many agents were made dirty by it since the last call; nothing when it has not
    /// happened.
    std::optional<std::size_t> take_made_dirty(const lock&) {
        return std::exchange(made_dirty_, std::nullopt);
    }

    // Counts one more pin on the agent.
    void hold(const lock&, const agent_id& id) { ++held_[id]; }
    /// Counts one pin less. Requires: there is one.
    void release(const lock&, const agent_id& id);
    bool is_held(const lock&, const agent_id& id) const { return held_.contains(id); }

  private:
    friend class manifest_turn;
    void index_messages(const agent_id& id, const agent_state* former, const agent_state* now);
    bool has(const agent_record& agent, std::size_t index, const block_place& at) const;
    /// Retains the files of sliding blocks that lie before the window of the new state. Another
    /// agent's earlier state may have written them, and they must not be deleted when that agent
    /// goes: this state relies on them, and no manifest of its own names them yet.
    void pin_passed(agent_record& agent, const std::vector<block_hash>& names,
                    std::size_t tokens) const;
    /// Puts the sliding half of a block that lies before the window into `block`, where an earlier
    /// state of this or another agent has it in the pool and no file has it yet. So the next save
    /// writes it.
    void add_unsaved_sliding(const block_place& at, kv_block_parts& block) const;
    bool can_be_written_again(const agent_record& agent, bool lacks_manifest) const;

    const state_blocks& shape_;
    const file_books files_;
    // Its mutex guards everything below.
    const std::shared_ptr<index_commons> commons_;
    agent_map agents_;
    prefix_index by_text_;                                              // of every record's state
    std::map<std::pair<tenant_id, std::string>, agent_id> by_message_;  // likewise
    block_index blocks_;
    std::unordered_map<agent_id, int> held_;  // by how many pins
    std::optional<std::size_t> made_dirty_;   // by reconciliations; none: there was none
};

/// While it lives, nobody else saves or removes the agent with this manifest, of whatever index.
class manifest_turn {
  public:
    /// Waits until no other turn for the manifest at `path` lives.
    manifest_turn(agent_index& index, std::string path)
        : commons_(index.commons_), path_(std::move(path)) {
        std::unique_lock locked(commons_->mutex);
        commons_->turn_ended.wait(locked, [&] { return !commons_->turns.contains(path_); });
        commons_->turns.insert(path_);
    }
    /// Requires: the path is one that choose_removal() has returned.
    manifest_turn(agent_index& index, std::string path, std::adopt_lock_t)
        : commons_(index.commons_), path_(std::move(path)) {}
    ~manifest_turn() {
        std::lock_guard locked(commons_->mutex);
        commons_->turns.erase(path_);
        commons_->turn_ended.notify_all();
    }
    manifest_turn(const manifest_turn&) = delete;
    manifest_turn& operator=(const manifest_turn&) = delete;

  private:
    const std::shared_ptr<index_commons> commons_;
    const std::string path_;
};

}  // namespace semantic::storage
