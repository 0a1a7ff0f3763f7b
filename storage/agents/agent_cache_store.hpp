// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is remembered of each agent, hot (blocks in the pool) or warm (block files and a manifest on
// disk). Owner: engine. Thread: every method is safe from any thread; those marked "Blocks." do
// file I/O outside the index lock and must not run on an I/O or compute thread; calls for one agent
// are serialised by the caller (storage/agents/agent_strands). Promise: a save that returned
// success is whole after any crash; one that did not is the previous version or absent.

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "storage/agents/policy/write_bound.hpp"
#include "storage/agents/prefix_index.hpp"
#include "storage/files/byte_sink.hpp"
#include "storage/files/file.hpp"
#include "storage/pool/agent_state.hpp"
#include "storage/pool/block_pool.hpp"
#include "storage/pool/kv_layout.hpp"
#include "storage/pool/prefix_arrival.hpp"
#include "storage/types/errc.hpp"
#include "storage/types/ids.hpp"
#include "storage/types/kv_event_feed.hpp"
#include "storage/types/memory_fate.hpp"
#include "storage/types/memory_policy.hpp"
#include "storage/types/message_place.hpp"
#include "storage/types/probe.hpp"
#include "storage/types/shortfall.hpp"

namespace semantic::storage {

class directory_share;
/// For the stores of several models that are to be open on one directory at once.
std::shared_ptr<directory_share> make_directory_share();

struct store_options {
    std::string directory;
    block_hash fingerprint;   // of everything that shapes KV: weights, tokenizer, template, rope,
                              // recipe, format version
    std::string tenant_salt;  // of the default tenant; part of the name of everything it has
    file_system* files = nullptr;  // not owned; null means the real one
    /// What all files in the directory may take together; 0: min(10 % of the file system, 64 GiB).
    /// 5 % of the file system stays free in any case.
    std::uint64_t disk_budget_bytes = 0;
    /// The part of that which only records may have; 0: min(a quarter of it, 4 GiB).
    std::uint64_t record_budget_bytes = 0;
    /// What one tenant's kept and pinned memories may take of the pool and of the disk budget, at
    /// most 100; what they take beyond it counts as neither.
    unsigned kept_share_percent = 50;
    /// What may be written for agents' memories. The first store of a directory brings it.
    write_limits writes{};
    /// Which weights, in whatever form; an agent of another fingerprint and other weights is lost
    /// to a change of the model. Kept as a note of each agent.
    std::string model{};
    /// What clients call the model, for lists that another model shows. A note as well.
    std::string model_name{};
    /// Called for each memory that leaves the pool or the disk although no client asked for that.
    /// May be empty. The store's lock is held meanwhile, so it must not call the store.
    std::function<void(const agent_id&, memory_fate)> on_left{};
    /// Receives an event for each block that is written to disk or removed from it; may be null.
    /// Outlives the store; the stores that share a directory share one feed.
    std::shared_ptr<kv_event_feed> kv_events{};
    /// Of the stores of one process on that directory; null: the store has it alone. The first one
    /// that opens brings its disk budget.
    std::shared_ptr<directory_share> share{};
};

enum class memory_tier {
    hot,   // all that the agent's next token needs is in the pool
    warm,  // not all of it
};

struct agent_summary {
    agent_id id;
    memory_tier tier;
    int tokens;
    bool dirty;                   // something is not on disk yet
    bool in_use;                  // somebody holds it
    std::uint64_t frames_held;    // of the pool, those that it shares included
    std::uint64_t frames_shared;  // part of frames_held: somebody else has them too
    std::uint64_t disk_bytes;     // of its files, those that it shares included
    std::chrono::system_clock::time_point created;
    std::chrono::system_clock::time_point last_used;
    // Recurrent states: places that a sequence can go on from.
    std::vector<int> state_places{};     // tokens before each, ascending
    std::uint64_t states_held = 0;       // of them, in the pool; their frames are counted above
    std::uint64_t state_disk_bytes = 0;  // part of disk_bytes
    memory_policy policy{};
    memory_claim claim = memory_claim::none;  // what the policy comes to on the disk
    std::uint64_t bytes_written = 0;          // of files, for this agent, since it was made
    std::uint64_t bytes_of_turn = 0;          // part of it: for its last answer
    bool is_over_bound = false;  // dirty, because a bound on what may be written is reached
};

/// What a model other than the store's remembers of an agent.
struct other_memory {
    agent_id id;
    block_hash fingerprint;  // of that model
    std::string model_name;  // what clients called it; empty: not known
    int tokens;
    bool in_use;               // somebody holds the agent, for either model
    std::uint64_t disk_bytes;  // as agent_summary has them
    std::chrono::system_clock::time_point created;
    std::chrono::system_clock::time_point last_used;
    // Of a model whose store is open in this process, else nothing:
    bool is_open = false;
    memory_tier tier = memory_tier::warm;
    std::uint64_t pool_bytes = 0;  // those that it shares included
};

/// What a tenant's agents take together: what several of them share counts once.
struct model_usage {
    std::string model_name;  // empty: not known
    std::uint64_t memories = 0;
    std::uint64_t tokens = 0;
    std::uint64_t disk_bytes = 0;
};
struct tenant_usage {
    std::uint64_t frames_held = 0;
    std::uint64_t disk_bytes = 0;                // of all models
    std::map<block_hash, model_usage> models{};  // by fingerprint; models share nothing
};

struct restored_prefix {
    /// Cover `tokens`; sliding frames from the beginning of the window that ends at the last token.
    std::vector<kv_block_parts> blocks;
    int tokens = 0;       // how many of those asked for are really there, from the start
    int tokens_read = 0;  // part of `tokens` that came from disk just now
    shortfall why = shortfall::none;
    std::string detail;  // names the file and the fault when why is not none
    std::uint64_t bytes_read = 0;
    /// The state after `tokens` tokens, where the layout has states and tokens > 0; else null.
    recurrent_ptr state{};
    /// Null where all of it is there.
    std::shared_ptr<prefix_arrival> arrival{};
};

/// Receives a prefix whose frames are still being filled. A model that computes on a layer waits
/// for that layer first; the blocks may be published only when all layers are there.
class prefix_receiver {
  public:
    virtual void receive_arriving(restored_prefix begun) = 0;

  protected:
    ~prefix_receiver() = default;
};

/// Says what is wrong with an imported state, blocks apart.
using state_check = std::function<result<void>(const agent_state&)>;

/// Gives the bytes of a file by its path in a cache directory. Called from several threads at once.
/// Errors: not_found, and others.
using file_source = std::function<result<std::string>(const std::string& path)>;

struct save_report {
    std::uint64_t bytes_written = 0;
    std::uint64_t manifest_bytes = 0;  // part of bytes_written
    int blocks_written = 0;            // block files, siblings counted
    std::uint64_t state_bytes = 0;     // part of bytes_written, of recurrent states
    int states_written = 0;
};

enum class save_extent {
    everything,
    /// Without the block that is not full yet: for a state that will soon be followed by a longer
    /// one. The agent stays dirty.
    full_blocks,
};

class record_files;

class agent_cache_store {
    struct impl;

  public:
    /// While it lives, the agent's files are not removed to free disk space. Movable; may not
    /// outlive the store.
    class pin {
      public:
        pin(pin&& other) noexcept
            : store_(std::exchange(other.store_, nullptr)), id_(std::move(other.id_)) {}
        pin& operator=(pin&&) = delete;
        ~pin();

      private:
        friend class agent_cache_store;
        pin(impl& store, agent_id id) : store_(&store), id_(std::move(id)) {}
        impl* store_;
        agent_id id_;
    };

    /// While it lives, the files of a state's blocks stay, whatever becomes of its agent meanwhile.
    /// Movable; may not outlive the store. Blocks when it ends: files that nobody needs any more
    /// are deleted then.
    class kept_files {
      public:
        kept_files(kept_files&& other) noexcept
            : store_(std::exchange(other.store_, nullptr)), names_(std::move(other.names_)) {}
        kept_files& operator=(kept_files&&) = delete;
        ~kept_files();
        /// Releases those that somebody else keeps too, which deletes nothing and does not block.
        /// Returns: whether none is left.
        bool release_shared();

      private:
        friend class agent_cache_store;
        kept_files(impl& store, std::vector<block_hash> names)
            : store_(&store), names_(std::move(names)) {}
        impl* store_;
        std::vector<block_hash> names_;
    };

    /// A reservation of disk bytes, as long as it lives, for a tenant's file that is not the
    /// store's own, such as an upload. It takes free bytes of the disk budget; only the tenant's
    /// own memories are removed for it. A save of a memory does not count it. Movable; may not
    /// outlive the store. Thread: one at a time.
    class disk_room {
      public:
        disk_room(disk_room&& other) noexcept
            : store_(other.store_),
              tenant_(other.tenant_),
              bytes_(std::exchange(other.bytes_, 0)) {}
        disk_room& operator=(disk_room&&) = delete;
        ~disk_room();
        /// Blocks. Makes it larger. Errors: out_of_space, io; it is then as large as before.
        result<void> grow(std::uint64_t bytes);

      private:
        friend class agent_cache_store;
        disk_room(impl& store, const tenant_id& tenant) : store_(&store), tenant_(tenant) {}
        impl* store_;
        tenant_id tenant_;
        std::uint64_t bytes_ = 0;
    };

    /// Blocks. Opens the store on its directory. The first store of a process on that directory
    /// creates it (mode 0700), locks it, brings an older format up to date, removes temporary
    /// files, reads every manifest, deletes block files that no manifest needs, and removes
    /// memories until the disk budget is kept. A store that joins others (store_options::share)
    /// reads only the manifests of its own model. A manifest that is torn or incompatible makes its
    /// agent absent and is counted, never fatal. Errors: locked (naming the directory);
    /// incompatible, where a later program has made the directory, which is left as it is; io;
    /// out_of_space.
    static result<std::unique_ptr<agent_cache_store>> open(store_options options, block_pool& pool);
    ~agent_cache_store();

    /// Returns: the tenant that `credential` (an API key) identifies, the same after every restart.
    /// The credential cannot be computed from the tenant id without the directory's secret.
    tenant_id tenant(std::string_view credential) const;

    /// Returns: the agent's newest published state, or null. Marks nothing as used.
    std::shared_ptr<const agent_state> find(const agent_id& id) const;

    /// Returns: the tenant's agents whose text has most in common with `text`, private ones apart,
    /// see prefix_index.
    /// Looks at texts in RAM only; under a millisecond with 10,000 agents of 8,000 tokens.
    std::vector<prefix_neighbour> closest(const tenant_id& tenant, std::string_view text,
                                          std::size_t count_max) const;

    /// Returns: where the tenant's answer with this id ends, if an agent still has it; of several
    /// agents, the one that had it last.
    std::optional<message_place> find_message(const tenant_id& tenant, const std::string& id) const;

    /// Returns: why the loaded model remembers nothing of an agent: its memory was corrupt,
    /// incompatible or evicted by the disk quota; else model_changed where other weights remember
    /// something, and incompatible where only the same weights in another form do (recipe,
    /// template); none when it is here, or never was.
    shortfall why_absent(const agent_id& id) const;

    /// Blocks. Brings into the pool what a sequence needs to continue after the first `tokens`
    /// tokens of `state`: every block's full layers and what the window reaches of the sliding
    /// ones. Hot blocks are shared, the others are read, checked (checksum, fingerprint, token ids)
    /// and published, so that the agent becomes hot. Where something is missing or wrong, the
    /// prefix ends at the last block boundary before it that has all it needs. Where the layout has
    /// recurrent states it ends at the last place, within that, whose state is there and right;
    /// `why` is none where that is the last one that is kept. `state` may be an earlier
    /// one that the agent has gone on from. Makes room by evicting
    /// clean agents as make_room() does, `state.id` last. The files are read side by side, layer
    /// after layer. `early`, which may be null, gets the prefix at most once, where something is
    /// read, nothing is known to be wrong and the block that a sequence would copy is there; what
    /// restore() returns then counts if the arrival fails. Errors: pool_exhausted only; damage on
    /// disk is a shortfall.
    result<restored_prefix> restore(const agent_state& state, int tokens,
                                    prefix_receiver* early = nullptr);
    /// restore() from the pool alone, for threads that must not block. Returns: nothing where
    /// `state` lacks a part that is needed.
    std::optional<restored_prefix> restore_hot(const agent_state& state, int tokens);

    /// Keeps the block files of the first `tokens` tokens of `state` for a later restore(): until
    /// then a waiting prompt may have to give up its blocks in the pool. Returns: nothing where the
    /// agent has parted from these tokens already and a file that is needed may be gone.
    std::optional<kept_files> keep_files(const agent_state& state, int tokens);
    /// Returns: a copy of `state` that lacks the blocks and recurrent states which are in files
    /// too, so that dropping `state` frees their frames; null where no hot part of it is in a file.
    std::shared_ptr<const agent_state> without_saved(const agent_state& state) const;

    /// Publishes `state` at once, replacing what the agent had, and marks it dirty. Requires: all
    /// that its next token needs is in the pool. Sliding frames that its next token does not need
    /// stay there until they are on disk.
    void put(agent_state state);
    /// put() for an answer that is not complete, so that a crash takes nothing of what was saved
    /// before. Where the agent's text begins with all of `state`'s, the agent keeps its state and
    /// gets those blocks of `state` that neither the pool nor the disk has; where `state` extends
    /// the agent's tokens, the agent's messages stay.
    void put_unfinished(agent_state state);

    /// Returns: a pin on the agent, which need not exist yet; see class pin.
    [[nodiscard]] pin hold(const agent_id& id);

    /// Blocks. Writes what is new of the agent's newest state (full blocks, tail, manifest), in an
    /// order that keeps the promise. Where the disk budget is in the way, leftovers go first, then
    /// the memories, of whatever model, that are dispensed with most easily (tier_policy), never
    /// one that is dirty, held or being saved. Does nothing when the agent is clean or gone.
    /// Errors: io, out_of_space; the agent stays dirty and usable, but make_room() may take sliding
    /// frames from it that only a divergence would need.
    result<save_report> save(const agent_id& id, save_extent extent = save_extent::everything);

    /// Returns: every agent that has something in RAM or on disk.
    std::vector<agent_id> ids() const;
    /// Returns: which full blocks of the agent's newest text are on disk, in runs; none of an agent
    /// that is unknown, or private.
    std::vector<blocks_stored> stored_blocks(const agent_id& id) const;

    /// The path of the agent's manifest in the directory.
    std::string manifest_of(const agent_id& id) const;
    /// Blocks. Takes up what a store on another directory, with the same secret, tenant salt and
    /// model, has saved of the agent: its manifest, and from `blocks` the block files that are not
    /// here. The agent is then warm and clean, and what it remembered before is replaced. The
    /// contents of the files are checked by restore(). Errors: bad_value, when the agent is here
    /// and dirty; corrupt; incompatible, when the manifest is another model's or agent's; not_found
    /// for a block file; those of `blocks`; io, out_of_space. The agent is as it was then.
    result<void> adopt(const agent_id& id, const std::string& manifest, const file_source& blocks);

    /// Marks a manifest, of whatever model, as one that the disk quota removes only when nothing
    /// else is left to remove, because its content was not uploaded anywhere yet; `is_spared` false
    /// takes the mark away. Not remembered over a restart.
    void spare(const std::string& manifest, bool is_spared);

    /// Returns: a reservation of 0 bytes for the tenant; disk_room::grow() makes it larger.
    disk_room reserve_disk(const tenant_id& tenant) { return {*impl_, tenant}; }

    /// The store's records that are not agents' memories.
    record_files& records() noexcept;

    /// Blocks. Writes the agent as one safetensors file (agent_file), bringing it into the pool
    /// first. Returns: bytes written. Errors: not_found, pool_exhausted, what restore() found
    /// wrong, and those of `sink`.
    result<std::uint64_t> export_agent(const agent_id& id, const byte_sink& sink);
    /// Blocks. Checks a file of export_agent() from end to end, then publishes it as `id`,
    /// replacing what the agent had, dirty and private (agent_state): nothing can show that KV
    /// belongs to its tokens. `check` has the last word on tokens and text. Returns: its tokens.
    /// Errors: corrupt, incompatible, pool_exhausted, those of `check` and of the file; nothing has
    /// changed then.
    result<int> import_agent(const agent_id& id, readable_file& file, const state_check& check);

    /// Evicts clean agents until the pool has `frames` free frames: first agents whose blocks free
    /// some at once, in tier_policy's order, then others; then the sliding frames that save()
    /// speaks of; then forgets agents whose last save has failed and that nobody holds. Returns:
    /// whether the pool has the frames. Never touches `keep` or other dirty agents beyond that;
    /// blocks that a running sequence shares free nothing yet.
    bool make_room(std::size_t frames, const agent_id* keep);

    /// Drops one clean agent's blocks from the pool; its files stay. Returns: false when unknown or
    /// dirty.
    bool evict(const agent_id& id);
    /// Blocks. Forgets the agent, whatever model remembers it, and deletes the files that nobody
    /// else needs. Errors: not_found; io, and what is left can be erased again.
    result<void> erase(const agent_id& id);
    /// Blocks. Forgets what the model of this fingerprint remembers of the agent, the loaded one or
    /// another. Errors: not_found, io.
    result<void> erase(const agent_id& id, const block_hash& fingerprint);

    /// Returns: the tenant's agents, whatever model remembers them, whose notes say that text was
    /// said to them under this name: branches of a session, and turns that gave way to another
    /// machine's.
    std::vector<agent_id> branches_of(const agent_id& session) const;

    /// Blocks. Makes `policy` the agent's, in place of what it had, and saves the agent. Errors:
    /// not_found; io, out_of_space: it holds until the program ends.
    result<void> set_policy(const agent_id& id, const memory_policy& policy);
    /// Whether the agent's memory was removed from the disk although its policy was to keep it.
    bool is_unkept(const agent_id& id) const;

    /// Bytes of files that were written for an agent.
    struct written_bytes {
        std::uint64_t of_turn = 0;   // since the turn before was ended
        std::uint64_t in_all = 0;    // since it was made
        bool is_over_bound = false;  // as in agent_summary
    };
    /// Ends a turn of the agent, so that counting begins at 0 for the next one. Returns: the bytes
    /// that were written for the agent; all 0 for an agent that is unknown.
    written_bytes end_turn(const agent_id& id);
    /// Returns: what was written today (UTC) for all agents of the directory.
    std::uint64_t bytes_written_today() const;

    /// Blocks. Makes an agent without a memory and saves it. Errors: bad_value, when there is one
    /// already, of whatever model; io and out_of_space, when it exists in RAM only.
    result<void> create(const agent_id& id);

    /// Blocks. Gives `to` the memory that the loaded model has of `from`, without its messages, and
    /// saves it: the blocks are shared, nothing is copied but the manifest. The fork of a private
    /// agent is private with it. `is_branch`: it stays one of the session of `from`, or of `from`
    /// itself; else it is a memory of its own. Errors: not_found; bad_value, when there is a `to`
    /// already, of whatever model; io and out_of_space, when `to` exists in RAM only.
    result<void> fork(const agent_id& from, const agent_id& to, bool is_branch = false) {
        return fork(from, to, is_branch, {});
    }
    /// The part of a memory that a fork begins with.
    struct fork_place {
        std::size_t tokens = 0;  // up to here, and to the end of the block that this falls into
        std::map<std::string, std::string> notes{};  // in place of the source's
    };
    /// Gives `to` a part of the memory of `from`: up to `at`, and no block after that; nothing: all
    /// of it. Errors: as above; also bad_value, where the source has fewer tokens.
    result<void> fork(const agent_id& from, const agent_id& to, bool is_branch,
                      const std::optional<fork_place>& at);

    /// Returns: all agents that the loaded model remembers, in order of their ids.
    std::vector<agent_summary> list() const;
    /// Returns: the agents of a tenant that the loaded model remembers, in order of their ids.
    std::vector<agent_summary> list(const tenant_id& tenant) const;
    /// What is known of one agent; nothing where the loaded model does not remember it.
    std::optional<agent_summary> inspect(const agent_id& id) const;
    /// Returns: what other models remember, in order of the agents' ids, then of fingerprints.
    std::vector<other_memory> list_others() const;
    std::vector<other_memory> list_others(const tenant_id& tenant) const;
    /// Returns: what other models remember of one agent.
    std::vector<other_memory> inspect_others(const agent_id& id) const;
    /// What the tenant's agents take of the pool and the disk.
    tenant_usage usage(const tenant_id& tenant) const;
    /// Returns: a sentence for the log about files that were removed from outside since the last
    /// call, with the number of agents that are dirty again for it; empty where nothing happened.
    std::string take_warning();
    /// Returns: the agents whose newest memory is not completely on disk, the most valuable one
    /// first (tier_policy), so that a shutdown saves that one first.
    std::vector<agent_id> dirty_agents() const;
    const store_probe& probe() const noexcept;

  private:
    agent_cache_store(std::unique_ptr<impl> state, std::shared_ptr<directory_share> share);
    const std::shared_ptr<directory_share> share_;
    std::unique_ptr<impl> impl_;
};

}  // namespace semantic::storage
