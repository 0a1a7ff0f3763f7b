// SPDX-License-Identifier: Apache-2.0
#pragma once
// The facade the server sees: text in, token events out, memory kept per agent.
// Owner: server's app. Thread: every method may be called from any thread and returns without
// waiting for compute or disk, except load() and those marked "Blocks.".

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/scheduler/policy/draft_plan.hpp"
#include "engine/text/output/answer_format.hpp"
#include "engine/types/activity_feed.hpp"
#include "engine/types/conversation.hpp"
#include "engine/types/fork_point.hpp"
#include "engine/types/generation.hpp"
#include "engine/types/held_elsewhere.hpp"
#include "engine/types/load_progress.hpp"
#include "engine/types/probe.hpp"
#include "engine/types/template_abilities.hpp"
#include "storage/types/agent_leases_counts.hpp"
#include "storage/types/errc.hpp"
#include "storage/types/ids.hpp"
#include "storage/types/kept_record.hpp"
#include "storage/types/memory_policy.hpp"
#include "storage/types/message_place.hpp"
#include "storage/types/node_news_counts.hpp"
#include "storage/types/probe.hpp"
#include "storage/types/shared_agents_counts.hpp"
#include "storage/types/work_budget.hpp"

namespace semantic::storage {
class agent_leases;
struct blocks_stored;
class kv_event_feed;
class node_news;
class object_store;
class uploaded_blocks;
}  // namespace semantic::storage

namespace semantic::engine {

/// What engines of several models in one process have together: the cache directory with its disk
/// budget, and the bytes of the pool, which each has as it uses them. Thread: any.
class engine_commons;
/// `cache_budget_bytes`: as in engine_options.
std::shared_ptr<engine_commons> make_engine_commons(std::size_t cache_budget_bytes);

/// An object store that engines on several machines share
/// (storage/objects/agents/shared_agents.hpp).
struct shared_memory {
    std::shared_ptr<storage::object_store> uploads;
    std::shared_ptr<storage::object_store> lookups;  // the same objects, waited for less long
    /// How long the end of an answer waits for its memory to reach the object store too; 0: it is
    /// uploaded after the answer.
    std::chrono::milliseconds wait{0};
    std::shared_ptr<storage::agent_leases> leases{};     // null: nodes do not ask each other
    std::shared_ptr<storage::uploaded_blocks> blocks{};  // null: the store alone is asked
    std::shared_ptr<storage::node_news> news{};          // null: nodes exchange no news
    held_elsewhere when_held = held_elsewhere::refuse;
};

struct engine_options {
    std::string model_directory;  // a folder, or a GGUF file
    std::string model_id;         // what clients call it; empty: the folder's name
    std::string cache_directory;
    std::size_t cache_budget_bytes = 0;     // pool size; 0: min(8 GiB, 40 % of RAM)
    std::uint64_t disk_budget_bytes = 0;    // of all cache files; 0: min(10 % of the disk, 64 GiB)
    std::uint64_t record_budget_bytes = 0;  // part of it; 0: min(a quarter of it, 4 GiB)
    /// What one tenant's kept and pinned memories may take of the pool and of the disk budget.
    unsigned kept_share_percent = 50;
    // What may be written for agents' memories; 0: any number of bytes. What exceeds it stays in
    // RAM only.
    std::uint64_t disk_writes_per_day_bytes = 0;   // of all agents together, a day in UTC
    std::uint64_t disk_writes_per_turn_bytes = 0;  // of an agent, for one answer
    /// How K and V are kept, by name (storage/pool/kv_recipe.hpp); auto: the smallest recipe that
    /// leaves the model as it is, found by measurement (engine/recipe/calibration.hpp).
    std::string kv_recipe = "auto";
    int kv_group_size = 64;
    int block_tokens = 256;
    int context_tokens = 0;  // of a conversation at most; 0: as the model says
    int prefill_min_chunk_tokens = 512;
    int prefill_max_chunk_tokens = 4096;
    int chunked_prefill_threshold_tokens = 2048;
    /// How long a step may take while any sequence decodes: this bounds the chunk of a prompt in
    /// the same step.
    std::chrono::milliseconds decode_latency{200};
    int max_batch = 16;
    /// Memory that one request may be given to render it and to compile its form, and what is kept
    /// of the form's automaton between two tokens of its answer.
    std::size_t request_bytes = storage::work_budget::bytes_default;
    std::size_t kept_form_bytes = std::size_t{4} << 20;
    /// Whether what may come next is run with what is known, and taken where it is what is drawn.
    /// Changes when tokens come, and never which.
    draft_rule speculation = draft_rule::where_faster;
    int max_queued = 256;    // requests that may wait while others run
    int max_hot_agents = 0;  // 0: as many as the pool holds
    // Of models with recurrent state: states that a turn adds to a memory, and that a memory keeps,
    // those apart that many agents begin with.
    int states_per_turn = 2;
    int states_per_agent = 8;
    int compute_threads = 0;             // 0: all cores
    std::string kernels = "auto";        // auto, or as find_kernels()
    std::string weights = "native";      // native | q8 | q4: what matrices are quantised to at load
    std::string chat_template = "auto";  // a family by name; auto: the one the files show
    /// Whether a special token that a request's own text spells is one.
    bool trust_content = false;
    /// What a GGUF's tokenizer.ggml.pre is taken for; empty: what the file says.
    std::string tokenizer_pre;
    /// How long the end of an answer waits for its memory to reach the disk before it goes out
    /// unsaved.
    std::chrono::milliseconds save_wait{1000};
    /// Background trouble worth a log line (a failed save, a corrupt block). Called from any engine
    /// thread; may be empty.
    std::function<void(std::string)> on_warning;
    /// Receives the engine's activity; null: it is not published.
    std::shared_ptr<activity_feed> feed{};
    /// Receives an event for each block that is written to disk or removed; null: none is
    /// published.
    std::shared_ptr<storage::kv_event_feed> kv_events{};
    /// With engines that are to run at the same time on one cache directory; null: it is alone.
    /// cache_budget_bytes is then what was given to make it.
    std::shared_ptr<engine_commons> commons{};
    /// Where agents of other machines are found, and those of this one are kept; nothing: here
    /// only.
    std::optional<shared_memory> shared{};
};

/// What nodes on one object store do with each other, where there is a Redis.
struct node_counts {
    std::optional<storage::agent_leases_counts> leases{};
    std::optional<storage::node_news_counts> news{};
};

struct model_info {
    std::string id;                    // what clients call it
    storage::block_hash fingerprint;   // of everything that shapes KV: whose memories are its own
    std::string family;                // "llama"
    std::string chat_template;         // "chatml"
    std::string chat_template_reason;  // why it is not one of the model's own; else empty
    template_abilities chat_abilities{};  // what that has a place for
    answer_format answers;                // how it writes tool calls and reasoning
    std::string kernels;                  // "avx512"
    int layers = 0;
    int kv_heads = 0;
    int head_dim = 0;
    int vocabulary = 0;
    int context_tokens_max = 0;           // of the model and of the pool, whichever is smaller
    std::size_t bytes_per_token_max = 0;  // of a text; 0: not known
    std::string kv_recipe;                // "k8r-v4r"
    std::string kv_recipe_reason;         // what was measured, where nobody chose it; else empty
    int kv_bits = 0;                      // of a stored key or value on average, without scales
    int block_tokens = 0;
    std::uint64_t weight_bytes = 0;
    std::uint64_t kv_bytes_per_token = 0;  // over all layers, windows ignored
    std::uint64_t pool_bytes = 0;
    std::uint64_t pool_agents_4k = 0;   // conversations of 4,096 tokens that the pool holds at once
    std::uint64_t pool_agents_16k = 0;  // of 16,384; windows count in both
    std::int64_t created_unix = 0;
};

/// What one model remembers of an agent.
struct memory_info {
    std::string model_id;  // what clients called it when it last saved; empty: not known
    storage::block_hash fingerprint;
    bool is_loaded = false;  // the model runs, in this engine or another of the process
    bool hot = false;        // as agent_info has it, in that model's part of the pool
    int tokens = 0;
    std::uint64_t pool_bytes = 0;  // those that it shares included
    std::uint64_t disk_bytes = 0;  // of its files, those that it shares included
    std::chrono::system_clock::time_point last_used{};
};

/// One agent, as the loaded model has it now, and what every model remembers of it.
struct agent_info {
    storage::agent_id id;
    bool hot = false;     // all that its next token needs is in the pool; else it is on disk
    bool dirty = false;   // something is not on disk yet
    bool in_use = false;  // a request extends it, or starts from it
    int tokens = 0;
    std::uint64_t pool_bytes = 0;                     // those that it shares included
    std::uint64_t pool_bytes_shared = 0;              // part of pool_bytes: others have them too
    std::uint64_t disk_bytes = 0;                     // of its files, those that it shares included
    std::chrono::system_clock::time_point created{};  // the earliest of all memories
    std::chrono::system_clock::time_point last_used{};  // the latest
    bool is_remembered = true;            // by the loaded model; else all above is nothing
    std::vector<memory_info> memories{};  // the loaded model's first
    // Recurrent states: the tokens before each place that the agent can go on from, ascending.
    std::vector<int> state_places{};
    std::uint64_t state_pool_bytes = 0;                         // part of pool_bytes
    std::uint64_t state_disk_bytes = 0;                         // part of disk_bytes
    storage::memory_policy policy{};                            // what was asked for
    storage::memory_claim claim = storage::memory_claim::none;  // what that comes to on the disk
    // Bytes of files that were written for it: since it was made, and for its last answer.
    std::uint64_t bytes_written = 0;
    std::uint64_t bytes_of_turn = 0;
    bool is_over_bound = false;  // dirty, because a bound on what may be written is reached
};

/// How much of a memory is in the pool.
struct prefetched_memory {
    int tokens = 0;
    int tokens_read = 0;  // part of them that came from the disk just now
    std::string why{};    // where it is not all of it: "pool_exhausted", "evicted", "corrupt", ...
};

/// What one model remembers of all of a tenant's agents.
struct model_memories {
    std::string model_id;  // empty: not known
    storage::block_hash fingerprint;
    bool is_loaded = false;
    std::uint64_t agents = 0;
    std::uint64_t tokens = 0;
    std::uint64_t disk_bytes = 0;
};

/// What a tenant's agents take together: what several of them share counts once.
struct memory_usage {
    std::uint64_t pool_bytes = 0;
    std::uint64_t disk_bytes = 0;  // of all models
    std::vector<model_memories> models{};
};

/// Of all tenants together.
struct pool_usage {
    std::uint64_t frames_total = 0;  // of a pool that others have too: if they had nothing of it
    std::uint64_t frames_held = 0;
    std::uint64_t states_held = 0;            // recurrent ones, whose frames are counted above
    std::uint64_t state_bytes = 0;            // of one, in whole frames; 0: the model has none
    std::uint64_t frames_held_by_others = 0;  // of other models, counted in frames of this one
    std::uint64_t frame_bytes = 0;
    std::uint64_t agents_hot = 0;
    std::uint64_t agents_warm = 0;
    std::uint64_t agents_dirty = 0;
    std::uint64_t frames_shared = 0;  // places in agents' memories whose frame others have too
    std::uint64_t disk_jobs = 0;      // saves and restores that wait or run
    std::uint64_t bytes_written_today = 0;  // to disk, for all agents of all models, in UTC
};

/// An agent's memory as one safetensors file (storage/FORMAT.md §8), on its way out and in.
using memory_sink = std::function<storage::result<void>(std::span<const std::byte>)>;
struct memory_source {
    std::uint64_t file_bytes = 0;
    /// Fills `buffer` from `offset`; may be asked for any part, and for one twice.
    std::function<storage::result<void>(std::uint64_t offset, std::span<std::byte> buffer)> read_at;
};

/// Room on the disk for a tenant's file that is not the engine's, such as an upload: it takes what
/// is free of the disk budget as long as this lives. May not outlive the engine. Thread: one at a
/// time.
class disk_room {
  public:
    virtual ~disk_room() = default;
    /// Blocks. Makes it larger; only agents of the same tenant give way. Errors: out_of_space, io;
    /// it is then as large as before.
    virtual storage::result<void> grow(std::uint64_t bytes) = 0;
};

class engine {
  public:
    virtual ~engine() = default;

    /// Queues a request. The sink gets `admitted`, then tokens, then exactly one `finished` or
    /// `failed`; or `failed` alone.
    virtual request_id submit(generation_request request,
                              std::shared_ptr<generation_sink> sink) = 0;
    /// Returns: the tenant who shows `credential`, the same after every restart on the same cache
    /// directory. The default tenant is storage::tenant_id{}.
    virtual storage::tenant_id tenant(std::string_view credential) const = 0;
    /// Stops a request within one step; blocks computed so far are kept. Its sink gets
    /// finished{cancelled}. Unknown ids are ignored.
    virtual void cancel(request_id id) = 0;
    /// Returns: tokens of the rendered prompt, exactly what a request would report; of one that
    /// cannot fit the context, as many as it has at least. Errors: bad_value for a chat the
    /// template cannot render.
    virtual storage::result<int> count_tokens(const conversation& chat,
                                              const thinking_params& thinking) const = 0;
    /// Returns: the tenant's agents in order of their ids, each once, whatever model remembers it.
    virtual std::vector<agent_info> agents(const storage::tenant_id& tenant) const = 0;
    /// Returns: the agents of all tenants.
    virtual std::vector<agent_info> agents_of_all() const = 0;
    /// Returns: nothing when the agent's tenant has no such agent.
    virtual std::optional<agent_info> inspect(const storage::agent_id& agent) const = 0;
    /// Blocks. Makes a new agent that remembers nothing yet. Errors: bad_value, when there is one
    /// already, of whatever model; io, out_of_space: it exists, but is not saved.
    virtual storage::result<void> create(const storage::agent_id& agent) = 0;
    /// Blocks. Gives the new agent `to` what the loaded model remembers of `from`, without copying
    /// it, up to a point: the two share the blocks up to there. Errors: not_found, also for an
    /// answer that `from` does not have; bad_value, when the tenants differ, there is a `to`
    /// already or `from` has fewer tokens; io, out_of_space: `to` exists, but is not
    /// saved.
    virtual storage::result<void> fork(const storage::agent_id& from, const storage::agent_id& to,
                                       const fork_point& at = {}) = 0;
    /// Blocks. Makes `policy` the agent's, in place of what it had. Errors: not_found; io,
    /// out_of_space: it holds until the program ends.
    virtual storage::result<void> set_policy(const storage::agent_id& agent,
                                             const storage::memory_policy& policy) = 0;
    /// Blocks. Brings an agent's memory into the pool, where other agents that are clean give way.
    /// Errors: not_found. What could not be brought is said in the result.
    virtual storage::result<prefetched_memory> prefetch(const storage::agent_id& agent) = 0;
    /// Blocks. Saves an agent's memory and takes it out of RAM; what a request runs on stays until
    /// that ends. Errors: not_found; io, out_of_space: it stays in RAM.
    virtual storage::result<void> evict(const storage::agent_id& agent) = 0;
    /// Blocks. Erases an agent in RAM and on disk, under every model; a request that is extending
    /// it creates it again when that ends. Errors: not_found; io, and what is left can be erased
    /// again.
    virtual storage::result<void> erase(const storage::agent_id& agent) = 0;
    /// Returns: the other agents of the tenant to which something was said under this agent's name:
    /// branches of the session (agent_may_branch), turns that another machine's have overtaken.
    virtual std::vector<storage::agent_id> branches(const storage::agent_id& agent) const = 0;
    /// Blocks. Forgets what the model of this fingerprint remembers of it. Errors: not_found, io.
    virtual storage::result<void> erase_memory(const storage::agent_id& agent,
                                               const storage::block_hash& fingerprint) = 0;
    /// Returns: where the answer with this name (generation_request::message_id) ends; nothing when
    /// the tenant has none, or its agent is gone or has parted from it.
    virtual std::optional<storage::message_place> find_message(const storage::tenant_id& tenant,
                                                               const std::string& id) const = 0;
    /// Returns: what must be known to continue the answer with this name; nothing when it was not
    /// kept as a thread's, or find_message() has nothing.
    virtual std::optional<thread_turn> find_thread(const storage::tenant_id& tenant,
                                                   const std::string& message_id) const = 0;
    /// Returns: tokens of the prompt with which `request` would continue its thread. Errors:
    /// not_found when the thread is lost, bad_value as count_tokens().
    virtual storage::result<int> count_continued(const generation_request& request) const = 0;
    /// Blocks. Writes what is remembered of the agent, piece by piece. Returns: bytes written.
    /// Errors: not_found, pool_exhausted, corrupt or incompatible for what is lost on disk, and
    /// those of `sink`, which end it.
    virtual storage::result<std::uint64_t> export_agent(const storage::agent_id& agent,
                                                        const memory_sink& sink) = 0;
    /// Blocks. Checks a whole file, then makes it the agent's memory, in place of what it had, and
    /// saves it. Only this agent, and forks of it, run on that memory. Returns: its tokens. Errors:
    /// corrupt (also where the tokens do not spell the text), incompatible (another model or
    /// format), bad_value, pool_exhausted, those of `source`: nothing has changed then; io,
    /// out_of_space: it is remembered, but not saved.
    virtual storage::result<int> import_agent(const storage::agent_id& agent,
                                              const memory_source& source) = 0;
    /// Returns: none yet, to be made larger.
    virtual std::unique_ptr<disk_room> reserve_disk(const storage::tenant_id& tenant) = 0;
    /// Blocks. Stores a record that is not an agent's memory, in place of an earlier one of its
    /// name. Records have a share of the disk budget of their own, of which a tenant may have half
    /// of what the others leave, and no other tenant's agents give way to them. When this returns,
    /// it lasts. Calls for one record are serialised by the caller. Errors: io, out_of_space; the
    /// earlier one is still there.
    virtual storage::result<void> keep_record(const storage::kept_record& record) = 0;
    /// Blocks. One that there is not is no error. Errors: io.
    virtual storage::result<void> erase_record(const storage::tenant_id& tenant,
                                               const std::string& name) = 0;
    /// Blocks. Returns: the names of the records of all tenants that begin with one of `heads`; all
    /// where there is none. No more than the share of the disk allows.
    virtual storage::record_names record_names(std::span<const std::string_view> heads) = 0;
    /// Blocks. Errors: not_found, corrupt, io.
    virtual storage::result<storage::kept_record> read_record(const storage::tenant_id& tenant,
                                                              const std::string& name) = 0;
    /// Stops taking requests, lets running ones finish until `deadline`, cancels the rest, saves
    /// every dirty agent. Blocks.
    virtual void drain(std::chrono::steady_clock::time_point deadline) = 0;
    /// Takes requests again after drain().
    virtual void resume() = 0;

    virtual const model_info& info() const noexcept = 0;
    virtual const engine_probe& probe() const noexcept = 0;
    virtual const storage::store_probe& store_probe() const noexcept = 0;
    /// Returns: every agent that this model remembers.
    virtual std::vector<storage::agent_id> remembered() const = 0;
    /// Returns: which full blocks of the agent's newest text are on disk, in runs; none of a
    /// private memory.
    virtual std::vector<storage::blocks_stored> stored_blocks(
        const storage::agent_id& agent) const = 0;
    /// Returns: nothing where no object store is shared.
    virtual std::optional<storage::shared_agents_counts> shared_counts() const = 0;
    /// Of the process: every engine in it says the same.
    virtual node_counts counts_of_nodes() const = 0;
    virtual pool_usage pool() const = 0;
    virtual memory_usage memory_of(const storage::tenant_id& tenant) const = 0;
};

/// Blocks. Reads the model, maps the pool, opens the cache directory, starts the scheduler.
/// Errors: one sentence that names the file, field or flag at fault.
storage::result<std::unique_ptr<engine>> load_engine(
    engine_options options, const std::function<void(load_progress)>& progress);

}  // namespace semantic::engine
