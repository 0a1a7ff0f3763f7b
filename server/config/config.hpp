// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the operator may set, from where it was set, and what is in effect.
// One table (config_options) states every option once. Boost.Program_options gets its descriptions
// from it and reads flags, environment and config file; --help and --print-config show it.
// Thread: plain values, built once at start. Errors: config_error, one line that names the flag,
// variable or file and line.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/engine.hpp"
#include "engine/types/weight_storage.hpp"
#include "server/runtime/logging.hpp"

namespace semantic::server {

/// A line of the key file.
struct tenant_key {
    std::string key;
    std::string tenant;  // keys with the same name share their memory; empty: the key's own
    bool operator==(const tenant_key&) const = default;
};

/// The keys of the key file. Copies share one list: reload() replaces it while requests read it.
/// Thread: any.
class live_keys {
  public:
    live_keys() = default;
    live_keys(std::vector<tenant_key> keys) { replace(std::move(keys)); }  // NOLINT: a list is one
    live_keys(std::initializer_list<tenant_key> keys) : live_keys(std::vector(keys)) {}
    /// A copy of the keys as they are now.
    std::vector<tenant_key> now() const {
        std::lock_guard lock(shared_->mutex);
        return shared_->keys;
    }
    /// From now on all copies of this object have these keys.
    void replace(std::vector<tenant_key> keys) {
        std::lock_guard lock(shared_->mutex);
        shared_->keys = std::move(keys);
    }
    bool empty() const { return now().empty(); }

  private:
    struct shared {
        std::mutex mutex;
        std::vector<tenant_key> keys;  // guarded by mutex
    };
    std::shared_ptr<shared> shared_ = std::make_shared<shared>();
};

/// The clients that may read /metrics.
enum class metrics_readers {
    local,  // clients on this machine, and holders of the admin key
    admin,  // holders of the admin key
    all
};

struct config {
    std::string host = "127.0.0.1";
    std::uint16_t port = 8001;                          // 0: one that the system picks
    std::vector<std::string> cors_origins{"loopback"};  // see http/cors.hpp
    std::vector<std::string> api_keys;                  // each a tenant of its own
    std::string api_key_file;
    live_keys file_keys;  // read from api_key_file
    std::string admin_key;
    bool insecure = false;  // may listen beyond loopback without keys
    std::size_t body_limit_mb = 32;
    std::size_t max_connections = 1024;
    std::chrono::seconds request_timeout{600};
    std::chrono::seconds shutdown_grace{30};
    int io_threads = 1;
    metrics_readers metrics_for = metrics_readers::local;
    log_level log_from = log_level::info;
    log_format log_as = log_format::text;
    std::string log_file;  // empty: stderr
    std::size_t log_file_mb = 64;
    int log_files = 8;         // kept in addition to the current one
    bool log_prompts = false;  // the last message and the answer, in the log

    std::uint64_t requests_per_minute = 0;  // of one tenant's keys; 0: no limit
    std::uint64_t tokens_per_minute = 0;
    std::uint64_t concurrent_requests = 0;

    std::string model;             // empty: see models/registry.hpp
    std::string models_directory;  // whose models can be asked for; empty: none
    std::string models_file;       // names and options of models; empty: none
    int context_tokens = 0;        // of a conversation at most; 0: as the model says
    std::string kernels = "auto";
    std::string weights = "native";
    std::string chat_template = "auto";
    std::string tokenizer_pre = "auto";
    bool trust_content = false;  // special tokens in a request's texts are such
    int compute_threads = 0;
    int max_batch = 16;
    bool speculation = true;  // see engine_options
    int max_queued = 256;
    int prefill_min_chunk_tokens = 512;
    int prefill_max_chunk_tokens = 4096;
    int chunked_prefill_threshold_tokens = 2048;
    std::chrono::milliseconds decode_latency{200};

    std::string cache_directory = "~/.semantic/caches";
    std::size_t cache_budget_mb = 0;      // 0: see models/memory_plan.hpp
    std::size_t memory_limit_mb = 0;      // of the process; 0: the machine's, and its group's
    std::size_t disk_budget_mb = 0;       // 0: min(10 % of the file system, 64 GiB)
    std::size_t records_budget_mb = 0;    // part of it; 0: min(a quarter of it, 4 GiB)
    std::size_t kept_share_percent = 50;  // of pool and disk, for one key's kept and pinned agents
    std::size_t disk_writes_per_day_mb = 0;   // 0: any amount
    std::size_t disk_writes_per_turn_mb = 0;  // likewise
    bool packed_weights = true;               // packed weights are kept in cache_directory
    std::size_t packed_budget_mb = 0;         // part of disk_budget_mb for them; 0: half of it
    std::string weights_access = "auto";      // how they are used: engine/types/weight_storage.hpp
    bool paged_weights = false;               // a model may have more weights than memory
    bool verify_weights = false;              // every start reads all of them
    int max_hot_agents = 0;                   // 0: as many as the pool holds
    int states_per_turn = 2;         // of models with recurrent state: written at most, roots apart
    int states_per_agent = 8;        // likewise: kept at most
    std::string kv_recipe = "auto";  // a recipe's name, or as the model's measurement decides
    std::string kv_bits = "auto";    // 4, 8 or 16 for K and V alike: the older way to name a recipe
    int kv_group_size = 64;
    int block_tokens = 256;
    std::chrono::milliseconds save_wait{1000};
    std::string object_store;  // shared with other machines (open_object_store); empty: none
    std::chrono::milliseconds object_store_wait{0};
    std::string redis;  // where the nodes on the object store keep leases; empty: nowhere
    std::chrono::milliseconds lease{10'000};  // of an agent, without a sign of its node
    std::string node_url;  // where the others' clients reach this node; empty: nowhere
    std::string held_elsewhere = "refuse";  // engine/types/held_elsewhere.hpp, by name
    bool kv_events = false;                 // /ws/kv-events is there
    std::string object_store_key_file;  // what is there is encrypted with its keys; empty: nothing
    bool auto_swap = false;             // requests have their models loaded
    std::chrono::seconds model_turn{30};   // see models/time_slices.hpp
    std::chrono::seconds model_wait{300};  // of a request for its model
    std::chrono::seconds model_ttl{0};     // without requests; 0: a model stays
    int max_loaded = 1;                    // models at once
    bool strict_model_names = false;       // off: any unknown name means the loaded model
    std::chrono::seconds safeguards{20};   // for the verdict on an answer's calls; 0: none is given
};

/// Whether clients must send a key.
inline bool needs_key(const config& from) {
    return !from.api_keys.empty() || !from.file_keys.empty();
}

/// Whether nobody on another machine can reach the port.
bool serves_this_machine_only(const config& from);

struct config_error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// One option: its names, its text for --help, and how its value is read and printed.
struct config_option {
    std::string_view name;  // "cache-dir": --cache-dir, SEMANTIC_CACHE_DIR, and the key in the file
    std::string_view group;    // heading in --help
    std::string_view value;    // what --help shows after the name: "DIR"
    std::string_view meaning;  // one sentence, unit included
    std::span<const std::string_view>
        aliases;          // environment names of the earlier system that mean the same
    bool secret = false;  // never printed
    /// Returns: empty, or why `text` is not a value.
    std::string (*set)(config& settings, std::string_view text) = nullptr;
    std::string (*print)(const config& from) = nullptr;
};

std::span<const config_option> config_options();

/// A variable that the earlier system read and for which there is nothing to set here.
struct ignored_variable {
    std::string_view name;  // without the infix: "SEMANTIC_SCHEDULER_ENABLED"
    std::string_view why;   // half a sentence: what is done instead
};

std::span<const ignored_variable> ignored_variables();

/// Where one effective value came from: "default", "flag --port", "SEMANTIC_PORT", "FILE:12".
struct config_setting {
    const config_option* option = nullptr;
    std::string source;
};

enum class config_action { run, help, version, print_config };

struct parsed_config {
    config values;
    config_action action = config_action::run;
    std::vector<config_setting> settings;  // in the table's order
    std::vector<std::string> warnings;     // for the log: variables that have no effect
};

/// Flags beat the environment, which beats the file that --config or SEMANTIC_CONFIG names. Blocks:
/// reads that file. Of the process's variables an empty one counts as unset. Throws config_error.
parsed_config parse_config(const std::vector<std::string>& arguments);

/// "cache-dir" -> "SEMANTIC_CACHE_DIR".
std::string environment_name(std::string_view option_name);
/// What --help prints.
std::string help_text();
/// What --print-config prints: all options as lines of a config file, each with its source as a
/// comment. Secrets are counted, not shown.
std::string print_config(const parsed_config& parsed);

/// The options of an engine as the configuration has them. `model_directory`: the path of the
/// model, already resolved. `home` replaces ~ in cache-dir; throws config_error when it is needed
/// and empty.
engine::engine_options make_engine_options(const config& from, std::string model_directory,
                                           const std::string& home);
/// How the engine keeps and reads packed weights, as the configuration has it.
engine::weight_storage make_weight_storage(const config& from);

}  // namespace semantic::server
