// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <optional>
#include <thread>
#include <unistd.h>

#include "engine/agent_infos.hpp"
#include "engine/engine_sharing.hpp"
#include "engine/fork_place.hpp"
#include "engine/kernels/kernels.hpp"
#include "engine/model/config/model_config.hpp"
#include "engine/model/transformer.hpp"
#include "engine/model_description.hpp"
#include "engine/model_fingerprint.hpp"
#include "engine/packed_weights.hpp"
#include "engine/prompt/resolve.hpp"
#include "engine/prompt/token_text.hpp"
#include "engine/recipe/recipe_choice.hpp"
#include "engine/scheduler/graph.hpp"
#include "engine/scheduler/speculation/drafting.hpp"
#include "engine/store_files.hpp"
#include "engine/text/template/chat_template.hpp"
#include "engine/text/template/template_probe.hpp"
#include "engine/text/tokenizer/tokenizer.hpp"
#include "storage/agents/agent_cache_store.hpp"
#include "storage/disk/record_files.hpp"
#include "storage/files/checksum.hpp"
#include "storage/files/file.hpp"
#include "storage/files/safetensors.hpp"

namespace semantic::engine {

class engine_commons {  // what the engines of several models share
  public:
    explicit engine_commons(std::size_t bytes)
        : budget(std::make_shared<storage::pool_budget>(bytes)) {}
    const std::shared_ptr<storage::pool_budget> budget;
    const std::shared_ptr<storage::directory_share> directory = storage::make_directory_share();
};

namespace {

// An export is tried again so often if the pool has no frames for all of the agent's memory.
constexpr int export_retries = 20;

constexpr std::size_t default_budget_max = std::size_t{8} << 30;

std::size_t default_budget() {
    auto pages = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES));
    auto page_bytes = static_cast<std::size_t>(sysconf(_SC_PAGE_SIZE));
    return std::min(default_budget_max, pages / 5 * 2 * page_bytes);  // 40 % of the RAM
}

storage::failure unusable(const std::string& why) { return {storage::errc::bad_value, why}; }

storage::result<const kernel_table*> choose_kernels(const std::string& name) {
    if (const kernel_table* table = find_kernels(name)) return table;
    std::string names = "auto";
    for (std::string_view available : available_kernels()) names.append(", ").append(available);
    return unusable("kernels: '" + name + "' is not one that this CPU runs (" + names + ")");
}

// Everything an engine owns, in the order it is made; members further down use those above.
class local_engine final : public engine {
  public:
    local_engine(engine_options options, model_config config, tokenizer words, chat_template chat,
                 std::unique_ptr<compute_arena> arena, std::unique_ptr<transformer> model,
                 std::unique_ptr<storage::block_pool> pool,
                 std::unique_ptr<storage::agent_cache_store> store,
                 std::unique_ptr<engine_sharing> sharing, model_info info)
        : info_(std::move(info)),
          config_(std::move(config)),
          tokenizer_(std::move(words)),
          template_(std::move(chat)),
          probe_(options.feed),
          arena_(std::move(arena)),
          model_(std::move(model)),
          pool_(std::move(pool)),
          store_(std::move(store)),
          sharing_(std::move(sharing)),
          resolver_(tokenizer_, template_, *store_, config_.vocabulary, local_day,
                    info_.context_tokens_max),
          scheduler_(*arena_, *model_, tokenizer_, resolver_, *pool_, *store_,
                     options_for_scheduler(std::move(options)), probe_) {}

    request_id submit(generation_request request, std::shared_ptr<generation_sink> sink) override {
        for (auto* agent : {&request.agent, &request.parent})
            if (*agent) *agent = (*agent)->owned_by(request.tenant);
        if (request.only_reads) request.max_tokens = 0;
        if (request.continues)
            if (auto place = store_->find_message(request.tenant, *request.continues))
                request.agent = place->agent;
        return scheduler_.submit(std::move(request), std::move(sink));
    }
    storage::tenant_id tenant(std::string_view credential) const override {
        return store_->tenant(credential);
    }
    void cancel(request_id id) override { scheduler_.cancel(id); }
    std::vector<agent_info> agents(const storage::tenant_id& tenant) const override;
    std::vector<agent_info> agents_of_all() const override;
    memory_usage memory_of(const storage::tenant_id& tenant) const override;
    std::optional<agent_info> inspect(const storage::agent_id& agent) const override;
    storage::result<void> create(const storage::agent_id& agent) override {
        sharing_->bring(agent);
        auto done = store_->create(agent);
        if (done) tell(agent, agent_changed::change::created);
        if (done) sharing_->note_saved(agent);
        return done;
    }
    storage::result<void> fork(const storage::agent_id& from, const storage::agent_id& to,
                               const fork_point& at) override;
    storage::result<void> set_policy(const storage::agent_id& agent,
                                     const storage::memory_policy& policy) override;
    storage::result<prefetched_memory> prefetch(const storage::agent_id& agent) override;
    storage::result<void> evict(const storage::agent_id& agent) override;
    storage::result<void> erase(const storage::agent_id& agent) override {
        const bool was_shared = sharing_->bring(agent);
        if (auto ok = sharing_->forget(agent); !ok) return ok;
        const auto done = store_->erase(agent);
        const bool was_only_shared =  // this node had no memory of it
            !done && done.error().code == storage::errc::not_found && was_shared;
        if (!done && !was_only_shared) return done;
        tell(agent, agent_changed::change::erased);
        return {};
    }
    std::vector<storage::agent_id> branches(const storage::agent_id& agent) const override {
        return store_->branches_of(agent);
    }
    storage::result<void> erase_memory(const storage::agent_id& agent,
                                       const storage::block_hash& fingerprint) override {
        if (auto ok = sharing_->forget(agent, fingerprint); !ok) return ok;
        auto done = store_->erase(agent, fingerprint);
        if (done) tell(agent, agent_changed::change::erased);
        return done;
    }
    std::optional<storage::message_place> find_message(const storage::tenant_id& tenant,
                                                       const std::string& id) const override {
        return store_->find_message(tenant, id);
    }
    std::optional<thread_turn> find_thread(const storage::tenant_id& tenant,
                                           const std::string& message_id) const override {
        return resolver_.find_thread(tenant, message_id);
    }
    storage::result<int> count_continued(const generation_request& request) const override {
        return resolver_.count_continued(request);
    }
    storage::result<int> count_tokens(const conversation& chat,
                                      const thinking_params& thinking) const override {
        return resolver_.count_tokens(chat, thinking);
    }
    void drain(std::chrono::steady_clock::time_point deadline) override {
        scheduler_.drain(deadline);
    }
    void resume() override { scheduler_.resume(); }
    const model_info& info() const noexcept override { return info_; }
    const engine_probe& probe() const noexcept override { return probe_; }
    const storage::store_probe& store_probe() const noexcept override { return store_->probe(); }
    std::vector<storage::agent_id> remembered() const override { return store_->ids(); }
    std::vector<storage::blocks_stored> stored_blocks(
        const storage::agent_id& agent) const override {
        return store_->stored_blocks(agent);
    }
    node_counts counts_of_nodes() const override { return sharing_->counts_of_nodes(); }
    std::optional<storage::shared_agents_counts> shared_counts() const override {
        return sharing_->counts();
    }
    pool_usage pool() const override;
    storage::result<std::uint64_t> export_agent(const storage::agent_id& agent,
                                                const memory_sink& sink) override;
    storage::result<int> import_agent(const storage::agent_id& agent,
                                      const memory_source& source) override;

    std::unique_ptr<disk_room> reserve_disk(const storage::tenant_id& tenant) override;
    storage::result<void> keep_record(const storage::kept_record& record) override {
        return store_->records().write(record);
    }
    storage::result<void> erase_record(const storage::tenant_id& tenant,
                                       const std::string& name) override {
        return store_->records().remove(tenant, name);
    }
    storage::record_names record_names(std::span<const std::string_view> heads) override {
        return store_->records().names(heads);
    }
    storage::result<storage::kept_record> read_record(const storage::tenant_id& tenant,
                                                      const std::string& name) override {
        return store_->records().read(tenant, name);
    }

  private:
    void tell(const storage::agent_id& agent, agent_changed::change action,
              std::optional<storage::agent_id> parent = std::nullopt) {
        probe_.feed->publish([&] { return agent_changed{agent, action, parent}; });
    }
    scheduler_options options_for_scheduler(engine_options options) const;
    std::vector<agent_info> infos_of(const std::vector<storage::agent_summary>& own,
                                     const std::vector<storage::other_memory>& others) const {
        return agent_infos(info_, pool_->layout(), own, others);
    }
    storage::result<void> check_header_bytes(storage::readable_file& file,
                                             std::uint64_t file_bytes) const;

    model_info info_;
    model_config config_;
    tokenizer tokenizer_;
    chat_template template_;
    engine_probe probe_;
    std::unique_ptr<compute_arena> arena_;
    std::unique_ptr<transformer> model_;
    std::unique_ptr<storage::block_pool> pool_;
    std::unique_ptr<storage::agent_cache_store> store_;
    const std::unique_ptr<engine_sharing> sharing_;
    resolver resolver_;
    scheduler scheduler_;
};

/// A callback for the store that publishes on `feed` which memories leave the pool or the disk.
std::function<void(const storage::agent_id&, storage::memory_fate)> telling(
    const std::shared_ptr<activity_feed>& feed) {
    return [feed](const storage::agent_id& agent, storage::memory_fate fate) {
        feed->publish([&] { return memory_left{agent, fate}; });
    };
}

std::vector<token_id> stop_tokens(const model_config& config, const chat_template& chat,
                                  const tokenizer& words) {
    std::vector<token_id> ids = config.eos_tokens;
    for (const std::string& spelling : chat.stop_tokens())
        if (token_id id = words.find(spelling); id >= 0) ids.push_back(id);
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    return ids;
}

/// The scheduler's options: those of the engine, and what it needs to know about the model.
scheduler_options local_engine::options_for_scheduler(engine_options options) const {
    scheduler_options out;
    out.batch.chunks = {options.prefill_min_chunk_tokens, options.prefill_max_chunk_tokens,
                        options.chunked_prefill_threshold_tokens, options.decode_latency};
    out.batch.max_batch = options.max_batch;
    out.batch.drafts = options.speculation;
    out.batch.vocabulary = config_.vocabulary;
    out.batch.answers = {stop_tokens(config_, template_, tokenizer_),
                         info_.context_tokens_max,
                         config_.sampling,
                         template_.answers(),
                         template_.family(),
                         template_.thinking_end(),
                         {.grain = std::max(pool_->layout().recipe().wide_tail, 1),
                          .per_turn = options.states_per_turn,
                          .per_agent = options.states_per_agent},
                         options.kept_form_bytes};
    out.batch.early_save_tokens = options.block_tokens;
    out.compute_threads = options.compute_threads;
    out.max_queued = options.max_queued;
    out.request_bytes = options.request_bytes;
    out.max_hot_agents = options.max_hot_agents;
    out.save_wait = options.save_wait;
    out.on_warning = std::move(options.on_warning);
    out.shared = sharing_->agents();
    if (options.shared) {
        out.shared_wait = options.shared->wait;
        out.leases = options.shared->leases.get();
        out.when_held = options.shared->when_held;
    }
    return out;
}

std::vector<agent_info> local_engine::agents(const storage::tenant_id& tenant) const {
    return infos_of(store_->list(tenant), store_->list_others(tenant));
}

std::vector<agent_info> local_engine::agents_of_all() const {
    return infos_of(store_->list(), store_->list_others());
}

memory_usage local_engine::memory_of(const storage::tenant_id& tenant) const {
    return usage_info(info_, pool_->layout().frame_bytes(), store_->usage(tenant));
}

std::optional<agent_info> local_engine::inspect(const storage::agent_id& agent) const {
    std::vector<storage::agent_summary> own;
    if (auto found = store_->inspect(agent)) own.push_back(std::move(*found));
    auto infos = infos_of(own, store_->inspect_others(agent));
    if (infos.empty()) return std::nullopt;
    return std::move(infos.front());
}

storage::result<void> local_engine::fork(const storage::agent_id& from, const storage::agent_id& to,
                                         const fork_point& at) {
    if (from.tenant() != to.tenant()) return unusable("agents of different tenants share nothing");
    sharing_->bring(from);
    sharing_->bring(to);
    const auto place = find_fork_place(*store_, from, at);
    if (!place) return place.error();
    storage::result<void> done;
    scheduler_.with_transient_hold([&] { done = store_->fork(from, to, false, *place); });
    if (done) tell(to, agent_changed::change::forked, from);
    if (done) sharing_->note_saved(to);
    return done;
}

storage::result<void> local_engine::set_policy(const storage::agent_id& agent,
                                               const storage::memory_policy& policy) {
    sharing_->bring(agent);
    const auto done = store_->set_policy(agent, policy);
    if (done) sharing_->note_saved(agent);
    return done;
}

storage::result<prefetched_memory> local_engine::prefetch(const storage::agent_id& agent) {
    sharing_->bring(agent);
    const auto state = store_->find(agent);
    if (!state) return storage::failure{storage::errc::not_found, "no agent " + agent.str()};
    prefetched_memory brought;
    scheduler_.with_transient_hold([&] {
        const auto pinned = store_->hold(agent);  // its files stay while they are read
        const auto found = store_->restore(*state, static_cast<int>(state->tokens.size()));
        if (!found) {
            brought.why = to_string(found.error().code);
            return;
        }
        brought.tokens = found->tokens;
        brought.tokens_read = found->tokens_read;
        if (found->why != storage::shortfall::none) brought.why = to_string(found->why);
    });
    return brought;
}

storage::result<void> local_engine::evict(const storage::agent_id& agent) {
    if (!store_->find(agent)) {
        // Memories of other models are on disk already.
        if (!store_->inspect_others(agent).empty()) return {};
        return storage::failure{storage::errc::not_found, "no agent " + agent.str()};
    }
    storage::result<void> done;
    scheduler_.with_transient_hold([&] {
        auto saved = store_->save(agent);
        if (!saved) done = saved.error();
        // If a request has extended the agent since, it is dirty and evict() leaves it.
        if (saved) store_->evict(agent);
    });
    return done;
}

pool_usage local_engine::pool() const {
    pool_usage usage;
    usage.frames_total = pool_->frame_count();
    usage.frames_held = pool_->held_count();
    const std::uint64_t held_bytes = usage.frames_held * pool_->layout().frame_bytes();
    const std::uint64_t all_bytes = pool_->budget().held_bytes();
    if (all_bytes > held_bytes)
        usage.frames_held_by_others = (all_bytes - held_bytes) / pool_->layout().frame_bytes();
    usage.frame_bytes = pool_->layout().frame_bytes();
    usage.states_held = pool_->state_count();
    usage.state_bytes = pool_->layout().state_frames() * usage.frame_bytes;
    for (const storage::agent_summary& agent : store_->list()) {
        bool hot = agent.tier == storage::memory_tier::hot;
        (hot ? usage.agents_hot : usage.agents_warm) += 1;
        usage.agents_dirty += agent.dirty ? 1 : 0;
        usage.frames_shared += agent.frames_shared;
    }
    usage.disk_jobs = scheduler_.disk_jobs();
    usage.bytes_written_today = store_->bytes_written_today();
    return usage;
}

std::unique_ptr<disk_room> local_engine::reserve_disk(const storage::tenant_id& tenant) {
    return std::make_unique<store_room>(store_->reserve_disk(tenant));
}

storage::result<std::uint64_t> local_engine::export_agent(const storage::agent_id& agent,
                                                          const memory_sink& sink) {
    sharing_->bring(agent);
    storage::result<std::uint64_t> written = std::uint64_t{0};
    const auto write = [&] { written = store_->export_agent(agent, sink); };
    const auto exhausted = [&] {
        return !written && written.error().code == storage::errc::pool_exhausted;
    };
    scheduler_.with_transient_hold(write);
    // Nothing is written before all of the memory is in the pool, so an export can start again.
    // Frames of saves, and of answers that have just ended, are free in a moment.
    for (int i = 0; i < export_retries && exhausted(); ++i) {
        scheduler_.wait_for_saves();
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        scheduler_.with_transient_hold(write);
    }
    return written;
}

// Refuses a file whose header is longer than the longest conversation needs, before it is read:
// parsing takes memory of many times the header's bytes. Errors: corrupt.
storage::result<void> local_engine::check_header_bytes(storage::readable_file& file,
                                                       std::uint64_t file_bytes) const {
    constexpr std::uint64_t apart_from_tokens = 4 << 20;  // tensors, notes
    constexpr std::uint64_t id_and_length = 32;           // of a token, as digits
    constexpr std::uint64_t escape = 6;                   // bytes of \u001f, for one of the text
    const std::uint64_t widest = tokenizer_.bytes_per_token_max();
    if (widest == 0) return {};
    const auto tokens = static_cast<std::uint64_t>(info_.context_tokens_max);
    const std::uint64_t most = apart_from_tokens + tokens * (id_and_length + escape * widest);
    std::array<std::byte, 8> start{};
    if (file_bytes < start.size()) return {};  // the reader of the file reports it
    if (auto ok = file.read_at(0, start); !ok) return ok.error();
    const auto needed = storage::safetensors_index::bytes_needed(start, file_bytes);
    if (!needed || *needed <= most) return {};
    return storage::failure{storage::errc::corrupt,
                            "the file's header has " + std::to_string(*needed) +
                                " bytes; a conversation of " + std::to_string(tokens) +
                                " tokens needs at most " + std::to_string(most)};
}

storage::result<int> local_engine::import_agent(const storage::agent_id& agent,
                                                const memory_source& source) {
    source_file file(source);
    if (auto ok = check_header_bytes(file, source.file_bytes); !ok) return ok.error();
    const auto check = [this](const storage::agent_state& state) {
        return check_token_text(tokenizer_, config_.vocabulary, state);
    };
    sharing_->bring(agent);
    storage::result<int> tokens = 0;
    scheduler_.with_transient_hold([&] {
        tokens = store_->import_agent(agent, file, check);
        if (!tokens) return;
        if (auto saved = store_->save(agent); !saved) tokens = saved.error();
    });
    if (tokens) tell(agent, agent_changed::change::imported);
    if (tokens) sharing_->note_saved(agent);
    return tokens;
}

/// Warns if the KV recipe that the options name has fewer bits of a key than suit the model; it is
/// used all the same.
void warn_of_recipe(const engine_options& options, const model_config& config,
                    const storage::kv_recipe& recipe) {
    const kv_default own = default_kv(config);
    if (recipe.k.rotated || recipe.k.bits >= own.bits || !options.on_warning) return;
    options.on_warning("kv-recipe " + std::string(storage::name_of(recipe)) + " keeps " +
                       std::to_string(recipe.k.bits) + " bits of a key, and " +
                       std::string(own.why) + ": what the model answers may be noise");
}

void warn_of_template(const engine_options& options, const chat_template& chat) {
    if (!options.on_warning) return;
    for (const std::string& each : template_warnings(chat)) options.on_warning(each);
}

storage::result<std::unique_ptr<storage::block_pool>> make_pool(const engine_options& options,
                                                                const model_config& config,
                                                                storage::kv_recipe recipe) {
    try {
        recipe.group_size = options.kv_group_size;
        storage::kv_layout layout = make_kv_layout(config, recipe, options.block_tokens);
        if (options.commons != nullptr)
            return std::make_unique<storage::block_pool>(layout, options.commons->budget);
        std::size_t budget =
            options.cache_budget_bytes > 0 ? options.cache_budget_bytes : default_budget();
        return std::make_unique<storage::block_pool>(layout, budget);
    } catch (const std::exception& error) {
        return unusable(error.what());
    }
}

storage::store_options store_options_of(const engine_options& options,
                                        const storage::block_hash& fingerprint,
                                        const transformer& model) {
    storage::store_options store;
    store.directory = options.cache_directory;
    store.disk_budget_bytes = options.disk_budget_bytes;
    store.record_budget_bytes = options.record_budget_bytes;
    store.kept_share_percent = options.kept_share_percent;
    store.writes = {options.disk_writes_per_day_bytes, options.disk_writes_per_turn_bytes};
    store.fingerprint = fingerprint;
    store.model = model.weights_hash().hex();
    store.model_name = name_of_model(options);
    if (options.feed) store.on_left = telling(options.feed);
    store.kv_events = options.kv_events;
    if (options.commons != nullptr) store.share = options.commons->directory;
    return store;
}

struct loaded_model {
    storage::result<tokenizer> words = unusable("not loaded");
    storage::result<std::unique_ptr<transformer>> model = unusable("not loaded");
};

/// Loads the weights while another thread reads the tokenizer; without a tokenizer it gives up. The
/// model has a KV layout of 16 bits and minimal scratch memory until its KV recipe is known.
loaded_model load_model(const engine_options& options, const weight_storage& disk,
                        const model_config& config, const kernel_table& kernels, weight_form form,
                        compute_arena& arena, const std::function<void(load_progress)>& progress) {
    struct given_up {};  // thrown through transformer::load() to end it
    const storage::kv_layout plain =
        make_kv_layout(config, storage::kv_recipe(16), options.block_tokens);
    const packed_weights packed(options, disk, form,
                                options.commons ? options.commons->directory : nullptr);
    loaded_model loaded;
    std::atomic<bool> has_failed{false};
    const auto read_words = [&] {
        loaded.words = tokenizer::load(options.model_directory, options.tokenizer_pre);
        if (!loaded.words) has_failed = true;
    };
    const auto tell = [&](double part, const std::vector<file_progress>& files) {
        if (has_failed) throw given_up();
        if (progress) progress({"reading weights", 0.05 + 0.8 * part, files});
    };
    const auto read_weights = [&] {
        try {
            loaded.model = transformer::load(options.model_directory, config, plain, kernels,
                                             {1, 1}, packed.loading(), tell);
        } catch (const given_up&) {  // load_engine() reports the tokenizer's error
        }
    };
    arena.run_both(read_words, read_weights);
    if (loaded.model) report_origin(options, disk, (*loaded.model)->origin());
    return loaded;
}

}  // namespace

std::shared_ptr<engine_commons> make_engine_commons(std::size_t cache_budget_bytes) {
    return std::make_shared<engine_commons>(cache_budget_bytes > 0 ? cache_budget_bytes
                                                                   : default_budget());
}

storage::result<std::unique_ptr<engine>> load_engine(
    engine_options options, const weight_storage& disk,
    const std::function<void(load_progress)>& progress) {
    auto report = [&](const char* stage, double fraction) {
        if (progress) progress({stage, fraction, {}});
    };
    report("reading configuration", 0.0);
    auto kernels = choose_kernels(options.kernels);
    if (!kernels) return kernels.error();
    const std::optional<weight_form> form = find_weight_form(options.weights);
    if (!form) return unusable("weights: '" + options.weights + "' is not native, q8 or q4");
    const std::optional<storage::kv_recipe> named = storage::find_kv_recipe(options.kv_recipe);
    if (!named && options.kv_recipe != "auto")
        return unusable("kv-recipe: '" + options.kv_recipe + "' is not auto, " +
                        storage::kv_recipe_names());
    auto config = model_config::load(options.model_directory);
    if (!config) return config.error();
    if (options.context_tokens > 0) config->choose_rope(options.context_tokens);
    if (named) warn_of_recipe(options, *config, *named);
    report("reading tokenizer", 0.02);
    const bool is_auto = options.chat_template == "auto";
    auto chat = chat_template::load(options.model_directory, is_auto ? "" : options.chat_template);
    if (!chat) return chat.error();
    if (options.trust_content) chat->trust_content();
    warn_of_template(options, *chat);
    // Made now, with the smallest recipe, so that a pool that is too small is reported before the
    // weights are read, which takes long.
    const auto smallest = candidate_recipes(*config, options.block_tokens).front();
    auto pool = make_pool(options, *config, named.value_or(smallest.recipe));
    if (!pool) return pool.error();
    if (auto made = storage::posix_file_system().make_directory(options.cache_directory); !made)
        return made.error();
    // Before the weights are read, so that other nodes can verify this one's messages meanwhile.
    if (auto ok = engine_sharing::agree(options); !ok) return ok.error();
    auto arena = std::make_unique<compute_arena>(options.compute_threads);
    auto [words, model] = load_model(options, disk, *config, **kernels, *form, *arena, progress);
    if (!words) return words.error();
    if (!model) return model.error();
    auto chosen =
        choose_for(named, **model, *config, *words, *arena,
                   {options.cache_directory, options.on_warning, options.block_tokens},
                   [&](double part) { report("measuring KV recipes", 0.85 + 0.1 * part); });
    if (!chosen) return chosen.error();
    if (!named) pool = make_pool(options, *config, chosen->recipe);
    if (!pool) return pool.error();
    const int rows = logit_rows_max(options.max_batch, options.speculation);
    model = (*model)->with_layout(
        (*pool)->layout(),
        {options.prefill_max_chunk_tokens + rows, rows, false, draft_rows_max(options.speculation)},
        chosen->keys);
    if (!model) return model.error();
    report("scanning caches", 0.95);
    const storage::block_hash fingerprint =
        fingerprint_of(options, *chat, **model, *config, (*pool)->layout(), chosen->keys);
    auto store =
        storage::agent_cache_store::open(store_options_of(options, fingerprint, **model), **pool);
    if (!store) return store.error();
    auto sharing = engine_sharing::open(options, **store);
    if (!sharing) return sharing.error();

    model_info info =
        describe_model(options, *config, *words, *chat, **kernels, **model, **pool, chosen->why);
    info.fingerprint = fingerprint;
    report("ready", 1.0);
    return std::unique_ptr<engine>(std::make_unique<local_engine>(
        std::move(options), std::move(*config), std::move(*words), std::move(*chat),
        std::move(arena), std::move(*model), std::move(*pool), std::move(*store),
        std::move(*sharing), std::move(info)));
}

}  // namespace semantic::engine
