// SPDX-License-Identifier: Apache-2.0
#pragma once
// The interface of the engine for the server: takes requests, gives token events, and manages the
// memory of agents.
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

/// What the engines of several models in one process share: the cache directory with its disk
/// budget, and the bytes of the pool, of which each takes as many as it uses. Thread: any.
class engine_commons;
/// `cache_budget_bytes`: as in engine_options.
std::shared_ptr<engine_commons> make_engine_commons(std::size_t cache_budget_bytes);

/// An object store that engines on several machines share
/// (storage/objects/agents/shared_agents.hpp).
struct shared_memory {
    std::shared_ptr<storage::object_store> uploads;
    std::shared_ptr<storage::object_store> lookups;  // the same objects, waited for less long
    /// How long the end of an answer waits for the upload of its memory, too; 0: the upload follows
    /// the answer.
    std::chrono::milliseconds wait{0};
    std::shared_ptr<storage::agent_leases> leases{};     // null: agents are not leased
    std::shared_ptr<storage::uploaded_blocks> blocks{};  // index of uploads; null: none
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
    /// The share of the pool, and of the disk budget, that one tenant's kept and pinned memories
    /// may take.
    unsigned kept_share_percent = 50;
    // Limits of the bytes that are written for agents' memories; 0: no limit. Memories beyond it
    // stay in RAM only.
    std::uint64_t disk_writes_per_day_bytes = 0;   // of all agents together, a day in UTC
    std::uint64_t disk_writes_per_turn_bytes = 0;  // of an agent, for one answer
    /// How K and V are rounded, by name (storage/pool/kv_recipe.hpp); auto: the smallest recipe
    /// that hardly changes the model's answers, found by measurement
    /// (engine/recipe/calibration.hpp).
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
    /// Bytes that rendering one request and compiling its form may take, and bytes of the form's
    /// automaton that are kept between two tokens of its answer.
    std::size_t request_bytes = storage::work_budget::bytes_default;
    std::size_t kept_form_bytes = std::size_t{4} << 20;
    /// Speculative decoding: when steps run guessed tokens together with the known one. Changes how
    /// fast tokens come, never which.
    draft_rule speculation = draft_rule::where_faster;
    int max_queued = 256;    // requests that may wait while others run
    int max_hot_agents = 0;  // 0: as many as the pool holds
    // For models with recurrent states: states that a turn may add to a memory, and that a memory
    // keeps, in addition to those of system texts that many agents share.
    int states_per_turn = 2;
    int states_per_agent = 8;
    int compute_threads = 0;             // 0: all cores
    std::string kernels = "auto";        // auto, or as find_kernels()
    std::string weights = "native";      // native | q8 | q4: what matrices are quantised to at load
    std::string chat_template = "auto";  // a family by name; auto: the one the files show
    /// Whether special tokens that are spelled in a request's content are recognised as such.
    bool trust_content = false;
    /// Overrides the pre-tokenizer that a GGUF file names (tokenizer.ggml.pre); empty: as the file
    /// says.
    std::string tokenizer_pre;
    /// How long the end of an answer waits for its memory to be on disk; after that it is sent as
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
    /// Shared with other engines that run at the same time on this cache directory; null: there are
    /// none. If set, cache_budget_bytes must be what it was made with.
    std::shared_ptr<engine_commons> commons{};
    /// The object store to which agents are uploaded and from which those of other machines are
    /// fetched; nothing: agents are on this machine only.
    std::optional<shared_memory> shared{};
};

/// Counts of what the nodes on one object store do together; absent without a Redis.
struct node_counts {
    std::optional<storage::agent_leases_counts> leases{};
    std::optional<storage::node_news_counts> news{};
};

struct model_info {
    std::string id;                    // what clients call it
    storage::block_hash fingerprint;   // of everything that shapes KV: whose memories are its own
    std::string family;                // "llama"
    std::string chat_template;         // "chatml"
    std::string chat_template_reason;  // why the model's own is not used; empty: it is
    template_abilities chat_abilities{};  // what requests may contain with it
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

/// One model's memory of an agent.
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

/// One agent: its memory under the loaded model, and a summary of its memory under every model.
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
    bool is_remembered = true;            // by the loaded model; if false the sizes above are 0
    std::vector<memory_info> memories{};  // the loaded model's first
    // The positions, in tokens, from which the agent can continue (kept recurrent states),
    // ascending.
    std::vector<int> state_places{};
    std::uint64_t state_pool_bytes = 0;                         // part of pool_bytes
    std::uint64_t state_disk_bytes = 0;                         // part of disk_bytes
    storage::memory_policy policy{};                            // as requests asked for
    storage::memory_claim claim = storage::memory_claim::none;  // how that counts on disk now
    // Bytes of files that were written for the agent: since it was made, and for its last answer.
    std::uint64_t bytes_written = 0;
    std::uint64_t bytes_of_turn = 0;
    bool is_over_bound = false;  // not saved, because a limit on written bytes is reached
};

/// How much of a memory is in the pool after engine::prefetch().
struct prefetched_memory {
    int tokens = 0;
    int tokens_read = 0;  // part of them that came from the disk just now
    std::string why{};    // where it is not all of it: "pool_exhausted", "evicted", "corrupt", ...
};

/// Sums over one model's memories of a tenant's agents.
struct model_memories {
    std::string model_id;  // empty: not known
    storage::block_hash fingerprint;
    bool is_loaded = false;
    std::uint64_t agents = 0;
    std::uint64_t tokens = 0;
    std::uint64_t disk_bytes = 0;
};

/// Bytes that a tenant's agents take together; shared blocks count once.
struct memory_usage {
    std::uint64_t pool_bytes = 0;
    std::uint64_t disk_bytes = 0;  // of all models
    std::vector<model_memories> models{};
};

/// The use of the pool, over all tenants.
struct pool_usage {
    std::uint64_t frames_total = 0;  // that this model could have if other models had none
    std::uint64_t frames_held = 0;
    std::uint64_t states_held = 0;            // recurrent states; their frames are counted above
    std::uint64_t state_bytes = 0;            // of one state, in whole frames; 0: there are none
    std::uint64_t frames_held_by_others = 0;  // bytes of other models in frames of this one
    std::uint64_t frame_bytes = 0;
    std::uint64_t agents_hot = 0;
    std::uint64_t agents_warm = 0;
    std::uint64_t agents_dirty = 0;
    std::uint64_t frames_shared = 0;        // sum over agents of their frames that others have, too
    std::uint64_t disk_jobs = 0;            // saves and restores that wait or run
    std::uint64_t bytes_written_today = 0;  // to disk, for all agents of all models, in UTC
};

/// Receives an exported agent, one safetensors file (storage/FORMAT.md §8), piece by piece.
using memory_sink = std::function<storage::result<void>(std::span<const std::byte>)>;
/// Gives the bytes of such a file for an import.
struct memory_source {
    std::uint64_t file_bytes = 0;
    /// Fills `buffer` from `offset` on; any part may be asked for, also repeatedly.
    std::function<storage::result<void>(std::uint64_t offset, std::span<std::byte> buffer)> read_at;
};

/// A reservation of disk bytes for a tenant's file that is not the engine's, such as an upload. The
/// bytes count against the disk budget until this is destroyed. May not outlive the engine. Thread:
/// one at a time.
class disk_room {
  public:
    virtual ~disk_room() = default;
    /// Blocks. Adds `bytes` to the reservation; if the budget is used up, memories of the same
    /// tenant are removed from disk. Errors: out_of_space, io; then nothing was added.
    virtual storage::result<void> grow(std::uint64_t bytes) = 0;
};

class engine {
  public:
    virtual ~engine() = default;

    /// Queues a request. The sink gets `admitted`, then tokens, then exactly one `finished` or
    /// `failed`; or `failed` alone.
    virtual request_id submit(generation_request request,
                              std::shared_ptr<generation_sink> sink) = 0;
    /// Returns: the tenant with this credential (a hash of it), the same after every restart on the
    /// same cache directory. The default tenant is storage::tenant_id{}.
    virtual storage::tenant_id tenant(std::string_view credential) const = 0;
    /// Stops a request within one step; blocks computed so far are kept. Its sink gets
    /// finished{cancelled}. Unknown ids are ignored.
    virtual void cancel(request_id id) = 0;
    /// Returns: the tokens of the rendered prompt, as many as a request would report; for a prompt
    /// that cannot fit the context a lower bound. Errors: bad_value for a chat that the template
    /// cannot render.
    virtual storage::result<int> count_tokens(const conversation& chat,
                                              const thinking_params& thinking) const = 0;
    /// Returns: the tenant's agents in order of their ids, each once, those of other models too.
    virtual std::vector<agent_info> agents(const storage::tenant_id& tenant) const = 0;
    /// Returns: the agents of all tenants.
    virtual std::vector<agent_info> agents_of_all() const = 0;
    /// Returns: nothing when the agent's tenant has no such agent.
    virtual std::optional<agent_info> inspect(const storage::agent_id& agent) const = 0;
    /// Blocks. Makes a new agent without any memory. Errors: bad_value if the agent exists already,
    /// under any model; io, out_of_space: it exists, but is not saved.
    virtual storage::result<void> create(const storage::agent_id& agent) = 0;
    /// Blocks. Makes the new agent `to`, with the loaded model's memory of `from` up to the point
    /// `at`; the two share the blocks, nothing is copied. Errors: not_found, also for an answer
    /// that `from` does not have; bad_value if the tenants differ, `to` exists already or `from`
    /// has fewer tokens; io, out_of_space: `to` exists, but is not saved.
    virtual storage::result<void> fork(const storage::agent_id& from, const storage::agent_id& to,
                                       const fork_point& at = {}) = 0;
    /// Blocks. Replaces the agent's policy. Errors: not_found; io, out_of_space: the policy is not
    /// on disk, and lasts until the program ends.
    virtual storage::result<void> set_policy(const storage::agent_id& agent,
                                             const storage::memory_policy& policy) = 0;
    /// Blocks. Reads an agent's memory into the pool, and evicts other, saved agents for it.
    /// Errors: not_found. The result says how much was read, and why not more.
    virtual storage::result<prefetched_memory> prefetch(const storage::agent_id& agent) = 0;
    /// Blocks. Saves an agent's memory and removes it from the pool; blocks that a request uses
    /// stay until that ends. Errors: not_found; io, out_of_space: it stays in RAM.
    virtual storage::result<void> evict(const storage::agent_id& agent) = 0;
    /// Blocks. Erases an agent in RAM and on disk, under every model. A request that is extending
    /// the agent creates it again when that ends. Errors: not_found; io: some of it may be left,
    /// and the call can be repeated.
    virtual storage::result<void> erase(const storage::agent_id& agent) = 0;
    /// Returns: the other agents that requests in this agent's name have made: branches of the
    /// session (generation_request::agent_may_branch), and forks of turns that lost against those
    /// of another machine.
    virtual std::vector<storage::agent_id> branches(const storage::agent_id& agent) const = 0;
    /// Blocks. Erases only the memory that the model with this fingerprint has of the agent.
    /// Errors: not_found, io.
    virtual storage::result<void> erase_memory(const storage::agent_id& agent,
                                               const storage::block_hash& fingerprint) = 0;
    /// Returns: where the answer with this name (generation_request::message_id) ends; nothing if
    /// the tenant has no such answer, or its agent is gone or has diverged before it.
    virtual std::optional<storage::message_place> find_message(const storage::tenant_id& tenant,
                                                               const std::string& id) const = 0;
    /// Returns: what must be known to continue the answer with this name; nothing if it was not
    /// kept for threads (generation_request::keeps_thread), or find_message() has nothing.
    virtual std::optional<thread_turn> find_thread(const storage::tenant_id& tenant,
                                                   const std::string& message_id) const = 0;
    /// Returns: the tokens of the prompt with which `request` would continue its thread. Errors:
    /// not_found if the thread is lost; bad_value as count_tokens().
    virtual storage::result<int> count_continued(const generation_request& request) const = 0;
    /// Blocks. Writes the agent's memory to `sink`, piece by piece. Returns: bytes written. Errors:
    /// not_found; pool_exhausted; corrupt or incompatible if some of it is lost on disk; those of
    /// `sink`, which end the export.
    virtual storage::result<std::uint64_t> export_agent(const storage::agent_id& agent,
                                                        const memory_sink& sink) = 0;
    /// Blocks. Checks a whole file, then makes it the agent's memory, in place of the former one,
    /// and saves it. Only this agent and its forks use that memory. Returns: its tokens. Errors:
    /// corrupt (also if the tokens do not spell the text), incompatible (another model or format),
    /// bad_value, pool_exhausted, those of `source`: then nothing has changed; io, out_of_space: it
    /// is in RAM, but not saved.
    virtual storage::result<int> import_agent(const storage::agent_id& agent,
                                              const memory_source& source) = 0;
    /// Returns: a reservation of 0 bytes, to be grown.
    virtual std::unique_ptr<disk_room> reserve_disk(const storage::tenant_id& tenant) = 0;
    /// Blocks. Stores a record (named bytes that are not an agent's memory), in place of the one
    /// with its name, durably. Records have their own share of the disk budget; a tenant may take
    /// half of what other tenants leave of it. The caller serialises calls for one record. Errors:
    /// io, out_of_space; then the earlier record is still there.
    virtual storage::result<void> keep_record(const storage::kept_record& record) = 0;
    /// Blocks. A record that does not exist is not an error. Errors: io.
    virtual storage::result<void> erase_record(const storage::tenant_id& tenant,
                                               const std::string& name) = 0;
    /// Blocks. Returns: the names of all tenants' records that begin with one of `heads`; all names
    /// if `heads` is empty. Their number is bounded by the records' share of the disk.
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
    /// Returns: which full blocks of the agent's newest text are on disk, as runs of consecutive
    /// blocks; none for a private memory.
    virtual std::vector<storage::blocks_stored> stored_blocks(
        const storage::agent_id& agent) const = 0;
    /// Returns: nothing without an object store.
    virtual std::optional<storage::shared_agents_counts> shared_counts() const = 0;
    /// Counts of the whole process: every engine in it returns the same.
    virtual node_counts counts_of_nodes() const = 0;
    virtual pool_usage pool() const = 0;
    virtual memory_usage memory_of(const storage::tenant_id& tenant) const = 0;
};

/// Blocks. Reads the model, maps the pool, opens the cache directory, starts the scheduler.
/// Errors: one sentence that names the file, field or flag at fault.
storage::result<std::unique_ptr<engine>> load_engine(
    engine_options options, const std::function<void(load_progress)>& progress);

}  // namespace semantic::engine
