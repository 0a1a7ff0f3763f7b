// SPDX-License-Identifier: Apache-2.0
#include "server/models/memory_plan.hpp"

#include <algorithm>
#include <filesystem>

#include "engine/model/config/model_config.hpp"
#include "engine/model/mixers/recurrent_mixer.hpp"
#include "engine/model/weights/weights.hpp"
#include "engine/scheduler/policy/draft_plan.hpp"
#include "engine/scheduler/speculation/drafting.hpp"
#include "server/models/client_memory.hpp"

namespace semantic::server {

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20;
// Measured for a server without a model, with some reserve.
constexpr std::uint64_t process_bytes = 64 * mebibyte;
// For each token: its text, and its entries in the tokenizer and the tries of grammars.
constexpr std::uint64_t bytes_per_token_of_vocabulary = 512;
// Activations go through the layers in panels of so many rows.
constexpr std::uint64_t panel_rows = 512;

std::string in_mib(std::uint64_t bytes) {
    return std::to_string((bytes + mebibyte / 2) / mebibyte) + " MiB";
}

bool is_weights(const fs::path& file) {
    return file.extension() == ".safetensors" || file.extension() == ".gguf";
}

/// The name without "-00001-of-00003" at its end.
std::string without_part(const std::string& name) {
    const std::size_t part = name.rfind("-of-");
    // "-00001" has 6 characters.
    return part == name.npos || part < 6 ? name : name.substr(0, part - 6);
}

/// The bytes of all weight files of the model at `path`, all parts of a split file included.
std::uint64_t weight_file_bytes(const fs::path& path) {
    std::uint64_t bytes = 0;
    const bool is_folder = fs::is_directory(path);
    const fs::path folder = is_folder ? path : path.parent_path();
    const std::string stem = without_part(path.stem().string());
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder.empty() ? "." : folder, ignored)) {
        const fs::path& file = entry.path();
        const bool is_meant = is_folder || without_part(file.stem().string()) == stem;
        if (is_meant && is_weights(file)) bytes += fs::file_size(file, ignored);
    }
    return bytes;
}

std::uint64_t limit_of(const config& settings) {
    return find_memory_limit(static_cast<std::uint64_t>(settings.memory_limit_mb) << 20).bytes;
}

// What all running answers keep for drafts (speculation), in bytes.
std::uint64_t draft_bytes(const engine::model_config& model, const config& settings) {
    if (!settings.speculation) return 0;
    const int longest = settings.context_tokens > 0
                            ? std::min(settings.context_tokens, model.context_tokens_max)
                            : model.context_tokens_max;
    return static_cast<std::uint64_t>(std::max(settings.max_batch, 0)) *
           engine::drafting::bytes_max(static_cast<std::size_t>(std::max(longest, 0)));
}

/// The pool where no size is wanted; `left`: bytes that the needs leave.
std::uint64_t default_pool(const memory_limit& limit, std::uint64_t left) {
    // Half stays for the others, who take memory from the same limit.
    const std::uint64_t ours = limit.is_shared ? left / 2 : left;
    return std::clamp(ours, pool_bytes_least, pool_bytes_most);
}

}  // namespace

storage::result<memory_plan> plan_memory(const memory_limit& limit, const memory_needs& needs,
                                         std::uint64_t pool_wanted, bool may_page) {
    memory_plan plan{limit, needs, pool_wanted > 0 ? pool_wanted : pool_bytes_least, 0};
    const std::uint64_t left = limit.bytes > needs.sum() ? limit.bytes - needs.sum() : 0;
    const bool fits = plan.pool <= left;
    if (fits && pool_wanted == 0) plan.pool = default_pool(limit, left);
    const std::uint64_t excess = plan.sum() > limit.bytes ? plan.sum() - limit.bytes : 0;
    if (!fits && may_page && excess <= needs.weights) {
        plan.paged = excess;
        return plan;
    }
    if (!fits)
        return storage::failure{storage::errc::out_of_space,
                                "the memory does not suffice: " + to_text(plan)};
    return plan;
}

std::string to_text(const memory_plan& plan) {
    return "weights " + in_mib(plan.needs.weights) + " + scratch " + in_mib(plan.needs.scratch) +
           " + connections " + in_mib(plan.needs.connections) + " + clients " +
           in_mib(plan.needs.clients) + " + process " + in_mib(plan.needs.process) + " + pool " +
           in_mib(plan.pool) + " = " + in_mib(plan.sum()) + " of " + in_mib(plan.limit.bytes) +
           ", " + plan.limit.name +
           (plan.paged == 0 ? ""
                            : "; " + in_mib(plan.paged) +
                                  " of the weights do not fit and are read from disk again for "
                                  "every token");
}

storage::result<memory_needs> needs_of(const std::string& path, const config& settings) {
    const auto model = engine::model_config::load(path);
    if (!model) return model.error();
    const auto count = [](int number) { return static_cast<std::uint64_t>(std::max(number, 0)); };
    memory_needs needs;
    const auto form = engine::find_weight_form(settings.weights);
    const auto packed =
        engine::model_weights::check(path, *model, form.value_or(engine::weight_form::native));
    // Faults of the files are ignored here, since the loader reports them.
    needs.weights = packed ? packed->bytes : weight_file_bytes(path);
    const std::uint64_t rows = count(settings.prefill_max_chunk_tokens) + count(settings.max_batch);
    const std::uint64_t hidden = count(model->hidden);
    const std::uint64_t widest = count(model->intermediate);
    const std::uint64_t vocabulary = count(model->vocabulary);
    const auto drafts =
        settings.speculation ? engine::draft_rule::where_faster : engine::draft_rule::never;
    // In floats of 4 bytes: 4 buffers of all rows, 3 wide and 8 narrow ones of a panel's rows, and
    // the logits.
    needs.scratch =
        4 * (rows * hidden * 4 + std::min(rows, panel_rows) * (3 * widest + 8 * hidden) +
             count(engine::logit_rows_max(settings.max_batch, drafts)) * vocabulary) +
        engine::recurrent_mixer::record_bytes(*model, engine::draft_rows_max(drafts));
    needs.process = process_bytes + vocabulary * bytes_per_token_of_vocabulary;
    // A program that takes no connections has no clients.
    if (settings.max_connections > 0) {
        const auto clients = client_memory::choose(limit_of(settings), settings);
        needs.connections = clients.connection_bytes();
        needs.clients = clients.kept_bytes() + clients.form_bytes(settings.max_batch) +
                        draft_bytes(*model, settings);
    }
    return needs;
}

memory_needs together(const memory_needs& one, const memory_needs& other) {
    memory_needs sum = one;
    sum.weights += other.weights;
    sum.scratch += other.scratch;
    // The process counts once, and so do connections and clients, which are those of the server.
    sum.process += std::max(other.process, process_bytes) - process_bytes;
    sum.connections = std::max(one.connections, other.connections);
    sum.clients = std::max(one.clients, other.clients);
    return sum;
}

namespace {

std::uint64_t in_bytes(std::size_t mb) { return static_cast<std::uint64_t>(mb) << 20; }

/// The needs of the model together with the others.
storage::result<memory_needs> needs_of_all(const planned_model& model,
                                           const std::vector<planned_model>& others) {
    auto needs = needs_of(model.path, model.settings);
    for (const planned_model& each : others) {
        if (!needs) break;
        const auto more = needs_of(each.path, each.settings);
        needs = more ? together(*needs, *more) : more;
    }
    return needs;
}

/// The plan within a limit. `pool`: as for plan_for().
storage::result<memory_plan> plan_within(const memory_limit& limit, const planned_model& model,
                                         const std::vector<planned_model>& others,
                                         std::uint64_t pool) {
    const config& settings = model.settings;
    const auto needs = needs_of_all(model, others);
    if (!needs) return needs.error();
    const bool may_page =
        settings.paged_weights && settings.packed_weights && settings.weights_access != "read";
    return plan_memory(limit, *needs, pool > 0 ? pool : in_bytes(settings.cache_budget_mb),
                       may_page);
}

/// What would make the model fit: "; it would fit with --weights q4, or with ..."; empty: nothing
/// would.
std::string remedies(const memory_limit& limit, const planned_model& model,
                     const std::vector<planned_model>& others, std::uint64_t pool) {
    std::string found;
    const auto attempt = [&](const std::string& flag, const auto& change) {
        planned_model other = model;
        change(other.settings);
        const auto plan = plan_within(limit, other, others, pool);
        if (!plan) return false;
        found += (found.empty() ? "; it would fit with " : ", or with ") + flag;
        if (plan->paged > 0) found += " (" + in_mib(plan->paged) + " read again for every token)";
        return true;
    };
    if (pool == 0 && model.settings.cache_budget_mb > 0)
        attempt("--cache-budget-mb 0", [](config& changed) { changed.cache_budget_mb = 0; });
    for (const char* form : {"q8", "q4"})
        if (attempt(std::string("--weights ") + form,
                    [&](config& changed) { changed.weights = form; }))
            break;
    if (!model.settings.paged_weights)
        attempt("--paged-weights on", [](config& changed) { changed.paged_weights = true; });
    return found;
}

}  // namespace

storage::result<memory_plan> plan_for(const planned_model& model,
                                      const std::vector<planned_model>& others,
                                      std::uint64_t pool) {
    memory_limit limit = find_memory_limit(in_bytes(model.settings.memory_limit_mb));
    limit.is_shared = limit.is_shared || model.settings.max_loaded > 1;
    auto plan = plan_within(limit, model, others, pool);
    if (plan || plan.error().code != storage::errc::out_of_space) return plan;
    return storage::failure{plan.error().code,
                            plan.error().what + remedies(limit, model, others, pool)};
}

}  // namespace semantic::server
