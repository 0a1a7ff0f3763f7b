// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/metrics.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <deque>

#include "server/runtime/descriptors.hpp"
#include "server/runtime/memory.hpp"
#include "server/runtime/version.hpp"
#include "server/usage/key_accounts.hpp"

namespace semantic::server {

namespace {

using labels = std::initializer_list<std::pair<std::string_view, std::string_view>>;

/// Collects samples by metric family, because the format wants a family's HELP, TYPE and samples
/// together. A family may be continued later, for another model.
class exposition {
  public:
    /// Every sample from now on has this label; empty: none.
    void of_model(std::string_view model) { model_ = model; }
    /// Begins a family of metrics; the samples that follow belong to it.
    void family(std::string_view name, std::string_view type, std::string_view help) {
        name_ = name;
        const auto [at, is_new] = places_.emplace(std::string(name), families_.size());
        if (is_new) families_.emplace_back();
        text_ = &families_[at->second];
        if (!is_new) return;
        text_->append("# HELP ").append(name).append(" ").append(help).append("\n");
        text_->append("# TYPE ").append(name).append(" ").append(type).append("\n");
    }
    /// Adds a sample to the family. `suffix`: "_bucket" and the like, of a histogram.
    void sample(labels list, double value, std::string_view suffix = {}) {
        text_->append(name_).append(suffix);
        char separator = '{';
        if (!model_.empty()) add_label(separator, "model", model_);
        for (const auto& [label, content] : list) add_label(separator, label, content);
        if (separator != '{') *text_ += '}';
        text_->append(" ").append(number(value)).append("\n");
    }
    /// Adds a family with one sample.
    void one(std::string_view name, std::string_view type, std::string_view help, double value) {
        family(name, type, help);
        sample({}, value);
    }
    /// Requires: family() of type histogram. `label` may be empty.
    void histogram(const engine::latency_histogram& from, std::string_view label,
                   std::string_view content) {
        std::uint64_t total = 0;
        for (std::size_t i = 0; i < from.buckets.size(); ++i) {
            total += from.buckets[i].load(std::memory_order_relaxed);
            std::string bound = i < from.bounds.size() ? number(from.bounds[i]) : "+Inf";
            auto value = static_cast<double>(total);
            if (label.empty()) {
                sample({{"le", bound}}, value, "_bucket");
            } else {
                sample({{label, content}, {"le", bound}}, value, "_bucket");
            }
        }
        double seconds = static_cast<double>(from.sum_us.load(std::memory_order_relaxed)) / 1e6;
        auto count = static_cast<double>(total);
        if (label.empty()) {
            sample({}, seconds, "_sum");
            sample({}, count, "_count");
        } else {
            sample({{label, content}}, seconds, "_sum");
            sample({{label, content}}, count, "_count");
        }
    }
    std::string take() {
        std::string text;
        for (const std::string& each : families_) text += each;
        return text;
    }

  private:
    /// The value as Prometheus reads it.
    static std::string number(double value) {
        char text[32];
        std::snprintf(text, sizeof text, "%.15g", value);
        return text;
    }
    void add_label(char& separator, std::string_view label, std::string_view content) {
        *text_ += separator;
        text_->append(label).append("=\"");
        for (char c : content) {
            if (c == '\\' || c == '"') *text_ += '\\';
            if (c == '\n') {
                *text_ += "\\n";
                continue;
            }
            *text_ += c;
        }
        *text_ += '"';
        separator = ',';
    }
    std::string model_;
    std::string name_;
    std::string* text_ = nullptr;  // of families_
    // A deque, since text_ points into it while it grows.
    std::deque<std::string> families_;
    std::map<std::string, std::size_t, std::less<>> places_;
};

template <class T>
double load(const std::atomic<T>& value) {
    return static_cast<double>(value.load(std::memory_order_relaxed));
}

void write_tokens(exposition& out, const engine::engine_probe& probe) {
    out.one("semantic_tokens_prefilled_total", "counter", "Prompt tokens computed.",
            load(probe.tokens_prefilled));
    out.one("semantic_tokens_decoded_total", "counter", "Tokens sampled.",
            load(probe.tokens_decoded));
    out.family("semantic_tokens_reused_total", "counter",
               "Prompt tokens whose KV was there already, by where.");
    out.sample({{"source", "ram"}}, load(probe.tokens_reused_ram));
    out.sample({{"source", "disk"}}, load(probe.tokens_reused_disk));
    out.family("semantic_cache_misses_total", "counter",
               "Requests that reused less than was remembered, by reason.");
    // From 1 on: 0 is miss_reason::none.
    for (std::size_t i = 1; i < probe.misses.size(); ++i)
        out.sample({{"reason", to_string(static_cast<engine::miss_reason>(i))}},
                   load(probe.misses[i]));
}

void write_matches(exposition& out, const engine::engine_probe& probe) {
    out.family("semantic_prompts_total", "counter",
               "Prompts by how they relate to the memory that they continue furthest: all but "
               "\"miss\" reused some of it.");
    for (std::size_t i = 0; i < probe.matches.size(); ++i)
        out.sample({{"match", to_string(static_cast<engine::match_kind>(i))}},
                   load(probe.matches[i]));
}

void write_process(exposition& out) {
    const process_memory memory = memory_now();
    out.one("semantic_process_resident_bytes", "gauge", "RAM that the process has.",
            static_cast<double>(memory.resident));
    out.one("semantic_process_resident_peak_bytes", "gauge", "The most that it ever had.",
            static_cast<double>(memory.peak));
    out.one("semantic_process_open_files", "gauge", "Files and sockets that the process has open.",
            static_cast<double>(open_files()));
}

void write_drafts(exposition& out, const engine::engine_probe& probe) {
    out.family("semantic_draft_tokens_total", "counter",
               "Tokens of drafts that were run beside a known token, by source.");
    for (std::size_t i = 0; i < engine::draft_origin_count; ++i)
        out.sample({{"source", engine::draft_origin_names[i]}}, load(probe.tokens_drafted[i]));
    out.family("semantic_draft_tokens_taken_total", "counter",
               "Tokens of drafts that were what was drawn, by source: each spared a pass.");
    for (std::size_t i = 0; i < engine::draft_origin_count; ++i)
        out.sample({{"source", engine::draft_origin_names[i]}}, load(probe.drafts_taken[i]));
}

void write_scheduler(exposition& out, const engine::engine_probe& probe) {
    out.family("semantic_generations_total", "counter", "Generations by how they ended.");
    out.sample({{"outcome", "finished"}}, load(probe.requests_finished));
    out.sample({{"outcome", "failed"}}, load(probe.requests_failed));
    out.sample({{"outcome", "cancelled"}}, load(probe.requests_cancelled));
    out.one("semantic_generations_submitted_total", "counter", "Generations asked for.",
            load(probe.requests_submitted));
    out.one("semantic_steps_total", "counter", "Scheduler steps.", load(probe.steps));
    out.one("semantic_sequences_running", "gauge", "Sequences in prefill or decode.",
            load(probe.running));
    out.one("semantic_sequences_waiting", "gauge", "Sequences that wait for room.",
            load(probe.waiting));
    out.one("semantic_queue_wait_seconds", "gauge",
            "How long a request that came now would wait for its turn, by estimate.",
            load(probe.wait_estimate_ms) / 1000);
    write_drafts(out, probe);
    out.one("semantic_early_starts_total", "counter",
            "Prompts that were computed while their prefix was still being read from disk.",
            load(probe.early_starts));
    out.one("semantic_saves_late_total", "counter",
            "Answers that ended before their memory was on disk.", load(probe.saves_late));
    out.one("semantic_turns_saved_total", "counter", "Turns of agents whose save has ended.",
            load(probe.turns_saved));
    out.one("semantic_turn_written_bytes_total", "counter",
            "Bytes written to disk for them: by semantic_turns_saved_total, those of a turn.",
            load(probe.turn_bytes_written));
    out.one("semantic_turn_written_bytes_max", "gauge", "The most that was written for one turn.",
            load(probe.turn_bytes_written_max));
    out.one("semantic_head_waiting", "gauge",
            "Requests that wait for the head of their prompt, which another one reads.",
            load(probe.head_waiting));
    out.family("semantic_head_wait_seconds", "histogram",
               "How long requests waited for a head that another one read.");
    out.histogram(probe.head_wait, {}, {});
    out.family("semantic_queue_seconds", "histogram",
               "From a request's submit to its place in the batch.");
    out.histogram(probe.queue_time, {}, {});
    out.family("semantic_time_to_first_token_seconds", "histogram",
               "From submit to the first token.");
    out.histogram(probe.time_to_first_token, {}, {});
    out.family("semantic_inter_token_seconds", "histogram", "Between two tokens of one answer.");
    out.histogram(probe.inter_token, {}, {});
    out.family("semantic_step_duration_seconds", "histogram", "One pass over the weights.");
    out.histogram(probe.step_duration, {}, {});
}

void write_shared(exposition& out, const storage::shared_agents_counts& counts) {
    const std::array<std::tuple<const char*, const char*, std::uint64_t>, 13> counters{{
        {"semantic_shared_agents_uploaded_total", "Manifests uploaded to the object store.",
         counts.agents_uploaded},
        {"semantic_shared_blocks_uploaded_total", "Block files uploaded to the object store.",
         counts.blocks_uploaded},
        {"semantic_shared_uploaded_bytes_total", "Bytes uploaded to the object store.",
         counts.bytes_uploaded},
        {"semantic_shared_agents_fetched_total",
         "Agents whose newer memory was fetched from the object store.", counts.agents_fetched},
        {"semantic_shared_fetched_bytes_total", "Bytes fetched from the object store.",
         counts.bytes_fetched},
        {"semantic_shared_upload_failures_total", "Uploads that failed; they are tried again.",
         counts.failures},
        {"semantic_shared_conflicts_total",
         "Turns that another machine's had overtaken when they were uploaded.", counts.conflicts},
        {"semantic_shared_forks_total", "Forks made of such turns.", counts.forks},
        {"semantic_shared_checks_total", "Checks of an agent's version in the object store.",
         counts.checks},
        {"semantic_shared_checks_unanswered_total",
         "Of them, those that the object store did not answer in time.", counts.unanswered},
        {"semantic_shared_erased_total", "Agents erased here because another machine erased them.",
         counts.erased},
        {"semantic_shared_evicted_total",
         "Agents that left the pool because another machine has gone on with them.",
         counts.evicted},
        {"semantic_shared_left_out_total",
         "Uploads put off to the next start because too many were waiting.", counts.left_out},
    }};
    for (const auto& [name, help, value] : counters)
        out.one(name, "counter", help, static_cast<double>(value));
    out.one("semantic_shared_pending", "gauge", "Agents that wait for their upload.",
            static_cast<double>(counts.pending));
}

void write_leases(exposition& out, const storage::agent_leases_counts& counts) {
    const std::array<std::tuple<const char*, const char*, std::uint64_t>, 4> counters{{
        {"semantic_leases_taken_total", "Leases of agents that this server has taken.",
         counts.taken},
        {"semantic_leases_elsewhere_total",
         "Leases that another server had, when a request came for the agent.", counts.elsewhere},
        {"semantic_leases_lost_total", "Leases that ran out, and that another server took then.",
         counts.lost},
        {"semantic_leases_unanswered_total", "Leases that Redis did not answer for.",
         counts.unanswered},
    }};
    for (const auto& [name, help, value] : counters)
        out.one(name, "counter", help, static_cast<double>(value));
    out.one("semantic_leases_held", "gauge", "Leases of agents that this server has now.",
            static_cast<double>(counts.held));
}

void write_news(exposition& out, const storage::node_news_counts& counts) {
    const std::array<std::tuple<const char*, const char*, std::uint64_t>, 3> counters{{
        {"semantic_news_told_total", "Saves and erasures that were announced to other servers.",
         counts.told},
        {"semantic_news_heard_total", "Saves and erasures that other servers announced.",
         counts.heard},
        {"semantic_news_dropped_total", "Of those of this server, those that Redis did not take.",
         counts.dropped},
    }};
    for (const auto& [name, help, value] : counters)
        out.one(name, "counter", help, static_cast<double>(value));
    out.one("semantic_other_nodes", "gauge", "Other servers on the object store that are heard.",
            static_cast<double>(counts.nodes));
}

void write_store(exposition& out, const storage::store_probe& probe) {
    const std::array<std::tuple<const char*, const char*, const std::atomic<std::uint64_t>*>, 25>
        counters{{
            {"semantic_store_blocks_written_total", "Block files written.", &probe.blocks_written},
            {"semantic_store_blocks_read_total", "Block files read.", &probe.blocks_read},
            {"semantic_store_written_bytes_total", "Bytes written to the cache directory.",
             &probe.bytes_written},
            {"semantic_store_read_bytes_total", "Bytes read from the cache directory.",
             &probe.bytes_read},
            {"semantic_store_states_written_total", "Files of recurrent states written.",
             &probe.states_written},
            {"semantic_store_states_read_total", "Files of recurrent states read.",
             &probe.states_read},
            {"semantic_store_state_written_bytes_total",
             "Part of the bytes written: recurrent states.", &probe.state_bytes_written},
            {"semantic_store_state_read_bytes_total", "Part of the bytes read: recurrent states.",
             &probe.state_bytes_read},
            {"semantic_store_states_corrupt_total",
             "Files of recurrent states that failed a check.", &probe.states_corrupt},
            {"semantic_store_states_missing_total",
             "Files of recurrent states that were not there.", &probe.states_missing},
            {"semantic_store_manifests_written_total", "Manifests written.",
             &probe.manifests_written},
            {"semantic_store_save_failures_total", "Saves that failed.", &probe.save_failures},
            {"semantic_store_blocks_corrupt_total", "Block files that failed a check.",
             &probe.blocks_corrupt},
            {"semantic_store_blocks_missing_total", "Block files that were not there.",
             &probe.blocks_missing},
            {"semantic_store_manifests_corrupt_total", "Manifests that failed a check.",
             &probe.manifests_corrupt},
            {"semantic_store_manifests_torn_total",
             "Manifests whose end was cut off or damaged: the version before it was taken.",
             &probe.manifests_torn},
            {"semantic_store_manifests_incompatible_total",
             "Manifests that no model can use: of another format, or under a name not their own.",
             &probe.manifests_incompatible},
            {"semantic_store_evictions_total", "Agents whose blocks left the pool.",
             &probe.evictions},
            {"semantic_store_saves_out_of_space_total",
             "Saves that failed because nothing more could be removed from the disk.",
             &probe.saves_out_of_space},
            {"semantic_store_disk_removals_total",
             "Memories, of whatever model, removed to keep the disk budget.", &probe.disk_removals},
            {"semantic_store_incompatible_removals_total",
             "Manifests that no model can use removed to keep the disk budget.",
             &probe.incompatible_removals},
            {"semantic_store_agents_lost_total",
             "Agents that left the pool although they could not be saved.", &probe.agents_lost},
            {"semantic_store_kept_evictions_total",
             "Of the evictions, those of agents whose policy was to keep them.",
             &probe.kept_evictions},
            {"semantic_store_kept_removals_total",
             "Of the removals from disk, those of memories whose policy was to keep them.",
             &probe.kept_removals},
            {"semantic_store_saves_over_bound_total",
             "Saves that --disk-writes-per-day-mb or --disk-writes-per-turn-mb has refused.",
             &probe.saves_over_bound},
        }};
    for (const auto& [name, help, value] : counters) out.one(name, "counter", help, load(*value));
}

void write_store_times(exposition& out, const storage::store_probe& probe) {
    out.one("semantic_store_restore_seconds_total", "counter",
            "Time that bringing memory back from the cache directory took.",
            load(probe.restore_us) / 1e6);
    out.family("semantic_store_save_seconds", "histogram",
               "Saving an agent's memory, from end to end.");
    out.histogram(probe.save_time, {}, {});
    out.family("semantic_store_restore_seconds", "histogram",
               "Bringing an agent's memory back from the cache directory, from end to end.");
    out.histogram(probe.restore_time, {}, {});
    out.one("semantic_disk_bytes", "gauge", "Bytes of all files in the cache directory.",
            load(probe.disk_bytes));
    out.one("semantic_disk_budget_bytes", "gauge", "What they may take.",
            load(probe.disk_budget_bytes));
}

void write_pool(exposition& out, const engine::pool_usage& pool) {
    auto bytes = [&](std::uint64_t frames) {
        return static_cast<double>(frames * pool.frame_bytes);
    };
    out.family("semantic_pool_frames", "gauge", "Frames of the KV pool by state.");
    out.sample({{"state", "held"}}, static_cast<double>(pool.frames_held));
    out.sample({{"state", "free"}}, static_cast<double>(pool.frames_total - pool.frames_held));
    out.one("semantic_pool_bytes", "gauge", "Size of the KV pool.", bytes(pool.frames_total));
    out.one("semantic_pool_held_bytes", "gauge", "Part of the KV pool that is in use.",
            bytes(pool.frames_held));
    out.one("semantic_pool_state_bytes", "gauge", "Part of the KV pool that recurrent states take.",
            static_cast<double>(pool.states_held * pool.state_bytes));
    out.family("semantic_agents", "gauge", "Agents that are remembered, by tier.");
    out.sample({{"tier", "hot"}}, static_cast<double>(pool.agents_hot));
    out.sample({{"tier", "warm"}}, static_cast<double>(pool.agents_warm));
    out.one("semantic_pool_shared_bytes", "gauge",
            "What agents' memories have in common, counted in each of them.",
            bytes(pool.frames_shared));
    out.one("semantic_store_queue", "gauge", "Saves and restores that wait or run.",
            static_cast<double>(pool.disk_jobs));
    out.one("semantic_agents_dirty", "gauge", "Agents with memory that is not on disk yet.",
            static_cast<double>(pool.agents_dirty));
    out.one("semantic_store_written_today_bytes", "gauge",
            "Bytes written to disk for agents' memories today (UTC), since the server started.",
            static_cast<double>(pool.bytes_written_today));
}

// So many keys have series of their own; all others share one ("others"), so that a scraper's work
// stays bounded.
constexpr std::size_t shown_keys_max = 100;

/// The usage of each key; of those beyond shown_keys_max the sums, as "others".
std::vector<protocol::key_usage> shown_keys(const key_accounts& accounts) {
    std::vector<protocol::key_usage> shown;
    for (const auto& account : accounts.all()) {
        protocol::key_usage one = account->report(std::chrono::steady_clock::now());
        if (shown.size() < shown_keys_max) {
            shown.push_back(std::move(one));
            continue;
        }
        if (shown.size() == shown_keys_max) shown.emplace_back().name = "others";
        protocol::key_usage& rest = shown.back();
        rest.requests += one.requests;
        for (std::size_t i = 0; i < rest.refused.size(); ++i) rest.refused[i] += one.refused[i];
        rest.tokens_computed += one.tokens_computed;
        rest.tokens_reused += one.tokens_reused;
        rest.tokens_output += one.tokens_output;
        rest.running += one.running;
    }
    return shown;
}

void write_keys(exposition& out, const key_accounts& accounts) {
    const std::vector<protocol::key_usage> keys = shown_keys(accounts);
    if (keys.empty()) return;
    const auto number = [](std::uint64_t value) { return static_cast<double>(value); };
    out.family("semantic_key_requests_total", "counter",
               "Requests that made the model work, by the tenant of their key.");
    for (const auto& key : keys) out.sample({{"key", key.name}}, number(key.requests));
    out.family("semantic_key_refusals_total", "counter",
               "Requests beyond a limit of their key, by limit.");
    for (const auto& key : keys)
        for (std::size_t i = 0; i < key.refused.size(); ++i)
            out.sample(
                {{"key", key.name}, {"limit", to_string(static_cast<protocol::limit_kind>(i))}},
                number(key.refused[i]));
    out.family("semantic_key_tokens_total", "counter",
               "Tokens of a key: of prompts computed or reused, of answers.");
    for (const auto& key : keys) {
        out.sample({{"key", key.name}, {"kind", "computed"}}, number(key.tokens_computed));
        out.sample({{"key", key.name}, {"kind", "reused"}}, number(key.tokens_reused));
        out.sample({{"key", key.name}, {"kind", "output"}}, number(key.tokens_output));
    }
    out.family("semantic_key_running", "gauge", "Requests of a key that run or wait.");
    for (const auto& key : keys) out.sample({{"key", key.name}}, number(key.running));
}

}  // namespace

void server_probe::count_request(std::string_view route, std::string_view method, int status,
                                 double seconds) {
    std::lock_guard lock(mutex_);
    ++requests_[key{route, method, status}];
    durations_[std::string(route)].observe(seconds);
}

std::string render_server_metrics(const server_probe& probe) {
    exposition out;
    out.one("semantic_open_connections", "gauge", "Open client connections.",
            load(probe.open_connections));
    out.one("semantic_uploads", "gauge", "Agents' files that are on their way in.",
            load(probe.uploads));
    out.one("semantic_connections_accepted_total", "counter", "Connections accepted.",
            load(probe.connections_accepted));
    out.one("semantic_clients_gone_total", "counter", "Answers whose client left before the end.",
            load(probe.clients_gone));
    out.one("semantic_model_waiting", "gauge", "Requests that wait for a model to be loaded.",
            load(probe.model_waiting));
    out.family("semantic_model_wait_seconds", "histogram",
               "How long requests have waited for their model, those apart that had it at once.");
    out.histogram(probe.model_wait, {}, {});
    out.family("semantic_first_byte_seconds", "histogram",
               "From a request's place in the batch to the first bytes of its streamed reply.");
    out.histogram(probe.first_byte, {}, {});
    std::lock_guard lock(probe.mutex_);
    if (probe.requests_.empty()) return out.take();
    out.family("semantic_http_requests_total", "counter",
               "HTTP requests by route, method and status.");
    for (const auto& [key, count] : probe.requests_) {
        const auto& [route, method, status] = key;
        std::string code = std::to_string(status);
        out.sample({{"route", route}, {"method", method}, {"status", code}},
                   static_cast<double>(count));
    }
    out.family("semantic_http_request_duration_seconds", "histogram",
               "Whole HTTP requests by route.");
    for (const auto& [route, durations] : probe.durations_)
        out.histogram(durations, "route", route);
    return out.take();
}

namespace {

void write_build(exposition& out, const engine::model_info& model) {
    std::string bits = std::to_string(model.kv_bits);
    out.sample({{"version", server_version},
                {"commit", server_commit()},
                {"model", model.id},
                {"kernels", model.kernels},
                {"kv_bits", bits},
                {"kv_recipe", model.kv_recipe}},
               1);
}

}  // namespace

std::string render_metrics(const server_probe& probe, const model_changes& changes,
                           std::span<const engine::engine* const> engines, bool by_model,
                           const key_accounts* accounts) {
    exposition out;
    write_process(out);
    if (accounts != nullptr) write_keys(out, *accounts);
    out.family("semantic_model_changes_total", "counter",
               "Models that were loaded, exchanged or unloaded after the start, by outcome.");
    out.sample({{"outcome", "done"}}, static_cast<double>(changes.done));
    out.sample({{"outcome", "failed"}}, static_cast<double>(changes.failed));
    out.family("semantic_build_info", "gauge", "Always 1; the labels say what runs.");
    if (engines.empty()) {
        out.sample({{"version", server_version}, {"commit", server_commit()}}, 1);
        out.one("semantic_ready", "gauge", "1 once the model is loaded.", 0);
        return out.take() + render_server_metrics(probe);
    }
    for (const engine::engine* each : engines) write_build(out, each->info());
    out.one("semantic_ready", "gauge", "1 once the model is loaded.", 1);
    for (const engine::engine* each : engines) {
        if (by_model) out.of_model(each->info().id);
        write_tokens(out, each->probe());
        write_matches(out, each->probe());
        write_scheduler(out, each->probe());
        write_pool(out, each->pool());
    }
    out.of_model({});
    write_store(out, engines.front()->store_probe());
    write_store_times(out, engines.front()->store_probe());
    std::optional<storage::shared_agents_counts> shared;
    for (const engine::engine* each : engines)
        if (const auto counts = each->shared_counts())
            shared = shared ? *shared + *counts : *counts;
    if (shared) write_shared(out, *shared);
    const engine::node_counts nodes = engines.front()->counts_of_nodes();
    if (nodes.leases) write_leases(out, *nodes.leases);
    if (nodes.news) write_news(out, *nodes.news);
    return out.take() + render_server_metrics(probe);
}

}  // namespace semantic::server
