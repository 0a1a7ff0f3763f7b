// SPDX-License-Identifier: Apache-2.0
#pragma once
// The agents of the cache directories of several machines, in one object store. An agent that is
// saved here is uploaded later; an agent that is not known here is read through from the store. An
// object bears the path that the file has in a cache directory (storage/FORMAT.md §4). Block files
// never change, so they are put where they are absent; a manifest is put over the version that this
// directory has seen and no other, so that of two machines that go on with one agent one wins. The
// other one gives its own turns to a fork when it next refreshes the agent, and takes up the
// winner's. An erased agent leaves a tombstone, which erases it on other machines; one that is
// merely absent from the object store is uploaded again. Owner: the owner of the store of agents.
// Thread: safe from any; calls for one agent are serialised by the caller, as agent_cache_store's.

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "storage/agents/agent_cache_store.hpp"
#include "storage/files/file.hpp"
#include "storage/files/parallel.hpp"
#include "storage/objects/agents/object_sweep.hpp"
#include "storage/objects/backoff.hpp"
#include "storage/objects/object_store.hpp"
#include "storage/objects/redis/uploaded_blocks.hpp"
#include "storage/types/shared_agents_counts.hpp"

namespace semantic::storage {

struct shared_agents_options {
    std::string directory;         // of the agents' store
    file_system* files = nullptr;  // not owned; null means the real one
    /// Asked by refresh(), so that it may have less patience; not owned; null: the one for all.
    object_store* lookups = nullptr;
    std::size_t pending_max = 10'000;  // agents that wait for their upload; more wait for a start
    std::chrono::milliseconds retry_min{1'000};  // between uploads while the store refuses them
    /// How long refresh() takes the object store for gone after it did not answer.
    std::chrono::milliseconds pause{2'000};
    /// How long refresh() waits for an upload of the agent that is under way.
    std::chrono::milliseconds upload_wait{2'000};
    /// Names the fork that gets the turns of a machine that has lost. Empty: they are given up.
    std::function<agent_id(const agent_id&)> name_fork{};
    /// Asked which blocks other nodes have put already; not owned; null: the object store alone.
    uploaded_blocks* blocks = nullptr;
    /// Called with the name (shared_name_of) of an agent whose newest memory has reached the object
    /// store, or which a client has erased there. Called from any thread; must not wait. May be
    /// empty.
    std::function<void(const std::string&)> on_uploaded{}, on_forgotten{};
    /// Background trouble worth a log line. Called from the uploading thread; may be empty.
    std::function<void(std::string)> on_warning{};
};

/// What refresh() found.
enum class freshness {
    same,     // the directory has what the object store has, or has gone on from it
    fetched,  // the object store's was newer, and is here now
    absent,   // the object store has none; nor has the directory, unless it is yet to be uploaded
    erased,   // another machine has erased the agent, which is gone here too
};

/// A name that an agent has on every machine on the store, and no other agent has; it does not say
/// whose or which it is.
std::string shared_name_of(const agent_cache_store& store, const agent_id& id);

class shared_agents {
  public:
    static constexpr std::size_t uploads_at_once = 4;  // of an agent's blocks

    /// Blocks. Finds the agents that were saved here and not uploaded, and uploads them in the
    /// background. `store` and `objects` outlive the object. Errors: io.
    static object_result<std::unique_ptr<shared_agents>> open(agent_cache_store& store,
                                                              object_store& objects,
                                                              const shared_agents_options& options);
    /// Waits for the request that is under way. What is pending is found by the next open().
    ~shared_agents();
    shared_agents(const shared_agents&) = delete;
    shared_agents& operator=(const shared_agents&) = delete;

    /// Call when another node says that it saved the agent with this name: an older copy of it in
    /// the pool here is evicted, unless it is in use or unsaved. Returns at once.
    void heard_saved(const std::string& name);
    /// Blocks. Call when another node says that it erased the agent with this name: it is erased
    /// here, too, if the object store confirms it and nobody uses it.
    void heard_erased(const std::string& name);

    using uploaded = std::function<void(bool is_there)>;
    /// Call after a save of the agent has succeeded: queues its upload and returns at once. `done`
    /// is called once, from another thread, with whether this version or a later one is in the
    /// object store; with false as soon as an upload fails or is given up, even if it is tried
    /// again later.
    void note_saved(const agent_id& id, uploaded done = {});
    /// Blocks. Fetches the object store's version of the agent where that is newer: its manifest
    /// and the blocks that are missing here. The caller lets nobody extend the agent meanwhile.
    /// Turns of this machine that lost against another machine's are saved in a fork. Errors:
    /// unavailable, also for a while after the store did not answer; the others of the object
    /// store; corrupt and io where its version cannot be stored here. The agent is unchanged then.
    object_result<freshness> refresh(const agent_id& id);
    /// Blocks. Removes the agent from the object store, for all models; call it when a client
    /// erases the agent. Its blocks stay, since others may need them. Errors: those of the object
    /// store.
    object_result<void> forget(const agent_id& id);
    /// Blocks. The same for one model, by its fingerprint.
    object_result<void> forget(const agent_id& id, const block_hash& fingerprint);
    /// Blocks until no upload waits or runs, `wait_max` at most. Returns: whether that is so.
    bool wait_until_idle(std::chrono::milliseconds wait_max);
    /// Blocks likewise at the end of a process, but gives up when nothing has reached the object
    /// store for a few seconds or an upload fails.
    void flush(std::chrono::milliseconds wait_max);
    shared_agents_counts counts() const;

  private:
    /// What this directory knows of a manifest in the object store: which version it has seen and
    /// with which content. Kept in a file.
    struct mark {
        std::string version;
        std::string sum;  // XXH3-128 of its bytes, hex
    };
    /// An agent's manifest in the directory, and what was seen of it in the object store.
    struct local_copy {
        std::string path;
        std::optional<std::string> bytes;
        std::optional<mark> seen;
        bool is_ahead() const;
    };
    class manifest_lock;
    shared_agents(agent_cache_store& store, object_store& objects,
                  const shared_agents_options& options);
    object_result<void> find_pending();
    void work(std::stop_token stop);
    object_result<bool> upload(const std::string& manifest);
    object_result<void> look_at_sweeps();
    object_result<void> look_for_sweep(const std::string& manifest, const std::string& bytes);
    object_result<void> upload_blocks(const std::string& manifest, const std::string& bytes);
    object_result<std::vector<bool>> look_for_blocks(const std::vector<std::string>& paths);
    object_result<void> upload_block(const std::string& path);
    bool is_here(const std::string& path) const;
    object_result<std::string> put_manifest(const std::string& manifest, const std::string& bytes);
    object_result<freshness> refresh(const agent_id& id, const local_copy& own);
    object_result<freshness> take_up(const agent_id& id, const local_copy& own,
                                     const std::string& bytes, const mark& now);
    object_result<freshness> take_erasure(const agent_id& id, const local_copy& own,
                                          const mark& now);
    object_result<void> erase_branches(const agent_id& session);
    object_result<void> give_way(const agent_id& id, const local_copy& own);
    object_result<std::string> read_manifest(const std::string& manifest) const;
    /// The mark that is stored for the manifest; nothing where there is none or it cannot be read.
    std::optional<mark> read_mark(const std::string& manifest) const;
    object_result<void> write_mark(const std::string& manifest, const mark& seen);
    void remember_name(const std::string& manifest, const agent_id& id);
    std::optional<agent_id> find_name(const std::string& name) const;
    bool add_pending(const std::string& manifest, uploaded done);
    bool give_up_pending(const std::string& manifest);
    object_result<void> forget_manifest(const std::string& manifest);
    std::string mark_path(const std::string& manifest) const;
    void warn(std::string text) const;

    agent_cache_store& store_;
    object_store& objects_;
    object_store& lookups_;
    const shared_agents_options options_;
    file_system& files_;
    std::unordered_set<std::string> there_;  // block files in the object store; the worker's alone
    seen_notice sweep_;                      // the last one that the worker has seen; likewise
    file_workers uploaders_{uploads_at_once};
    mutable std::mutex mutex_;  // guards what follows
    std::condition_variable_any changed_;
    // By path of manifest: the callbacks to call.
    std::map<std::string, std::vector<uploaded>> pending_;
    std::string uploading_;         // empty: nothing
    bool has_failed_ = false;       // the last upload
    std::set<std::string> locked_;  // manifests that refresh() and forget() work on
    // Manifests whose turns were saved in a fork although the version that won could not be read;
    // with their sums.
    std::map<std::string, std::string> gave_way_;
    std::chrono::steady_clock::time_point silent_until_{};  // the object store did not answer
    std::unordered_map<std::string, agent_id> names_;  // of agents that were at work here, by name
    shared_agents_counts counts_;
    std::jthread worker_;
};

}  // namespace semantic::storage
