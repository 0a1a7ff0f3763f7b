// SPDX-License-Identifier: Apache-2.0
#include "server/eval/offline_model.hpp"

#include <algorithm>
#include <stdexcept>

#include "engine/model/sampler.hpp"
#include "engine/recipe/recipe_choice.hpp"
#include "server/eval/command_line.hpp"
#include "server/models/memory_plan.hpp"
#include "storage/pool/block_frames.hpp"

namespace semantic::eval {

namespace {

using storage::token_id;

constexpr int offline_block_tokens = 256;

/// The kernels of that name. Throws bad_input that lists those of this machine.
const engine::kernel_table* kernels_named(const std::string& name) {
    const engine::kernel_table* found = engine::find_kernels(name);
    if (found != nullptr) return found;
    std::string known;
    for (const std::string_view each : engine::available_kernels()) known.append(" ").append(each);
    throw bad_input("--kernels \"" + name + "\": this machine has" + known);
}

engine::weight_form form_named(const std::string& name) {
    if (const auto form = engine::find_weight_form(name)) return *form;
    throw bad_input("--weights \"" + name + "\": possible are native, q8 and q4");
}

/// The layout of K and V for a recipe. Throws bad_input where the model cannot have it.
storage::kv_layout make_layout(const engine::model_config& config,
                               const storage::kv_recipe& recipe) {
    try {
        return engine::make_kv_layout(config, recipe, offline_block_tokens);
    } catch (const std::invalid_argument& error) {
        throw bad_input("KV " + std::string(storage::name_of(recipe)) + ": " + error.what());
    }
}

}  // namespace

offline_model::offline_model(const offline_options& options)
    : options_(options),
      config_(take(engine::model_config::load(options.directory))),
      kernels_(kernels_named(options.kernels)),
      arena_(std::make_shared<engine::compute_arena>(options.threads)),
      calibration_(std::make_shared<std::unique_ptr<const engine::calibration>>()) {
    if (options.tokens_max > config_.context_tokens_max) {
        throw bad_input(std::to_string(options.tokens_max) +
                        " tokens do not fit the model's context of " +
                        std::to_string(config_.context_tokens_max));
    }
    options_.chunk_tokens = std::min(options.chunk_tokens, std::max(options.tokens_max, 1));
    const engine::weight_form form = form_named(options.weights);
    check_memory();
    progress_line progress("reading weights, files");
    const auto show = [&](double fraction, const std::vector<engine::file_progress>& files) {
        const auto done = std::count_if(files.begin(), files.end(),
                                        [](const auto& file) { return file.fraction >= 1.0; });
        progress.show(static_cast<std::size_t>(done), files.size(),
                      std::to_string(static_cast<int>(fraction * 100)) + " %");
    };
    const auto plain =
        engine::make_kv_layout(config_, storage::kv_recipe(16), offline_block_tokens);
    arena_->run([&] {
        model_ = take(engine::transformer::load(options.directory, config_, plain, *kernels_,
                                                {1, 1}, form, show));
    });
    take_recipe(*model_);
}

offline_model::offline_model(const offline_model& other, const std::string& kv, int threads)
    : options_(other.options_),
      config_(other.config_),
      kernels_(other.kernels_),
      arena_(threads == 0 ? other.arena_ : std::make_shared<engine::compute_arena>(threads)),
      calibration_(other.calibration_) {
    options_.kv = kv;
    take_recipe(*other.model_);
}

std::size_t offline_model::frames(const storage::kv_layout& layout) const {
    const auto blocks =
        static_cast<std::size_t>((options_.tokens_max + offline_block_tokens - 1) / block_tokens);
    return static_cast<std::size_t>(options_.sequences) *
           (std::max<std::size_t>(blocks, 1) * storage::frames_of_block(layout) +
            2 * layout.wide_frames() + 4 * layout.state_frames());
}

void offline_model::check_memory() const {
    // Settings of a server without clients that does what these commands do.
    server::config settings;
    settings.memory_limit_mb = options_.memory_limit_mb;
    settings.weights = options_.weights;
    settings.packed_weights = false;
    settings.prefill_max_chunk_tokens = options_.chunk_tokens;
    settings.max_batch = options_.chunk_tokens;  // whose logits may all be asked for
    settings.max_connections = 0;
    settings.body_limit_mb = 0;
    // Where no recipe is named one is measured, with a reference of 16 bits, the largest recipe.
    const auto named = storage::find_kv_recipe(options_.kv);
    const auto layout = make_layout(config_, named.value_or(storage::kv_recipe(16)));
    const std::uint64_t pool = frames(layout) * layout.frame_bytes();
    const auto plan = server::plan_for({options_.directory, settings}, {}, pool);
    if (!plan) throw bad_input(plan.error().what);
}

void offline_model::take_recipe(const engine::transformer& weights) {
    const auto named = storage::find_kv_recipe(options_.kv);
    engine::chosen_recipe chosen{named.value_or(storage::kv_recipe(16)), {}, {}};
    if (!named || named->k.centred) {
        const engine::calibration& measured = calibrate(weights);
        if (!named)
            chosen.recipe = *storage::find_kv_recipe(
                engine::choose_recipe(measured.scores, engine::recipe_bound()).name);
        chosen.keys = measured.keys;
    }
    const auto layout = make_layout(config_, chosen.recipe);
    pool_ = std::make_unique<storage::block_pool>(layout, frames(layout) * layout.frame_bytes());
    const engine::transformer_limits limits{options_.chunk_tokens, options_.chunk_tokens,
                                            options_.compensated};
    // On the arena, so that the model divides its work by the arena's threads.
    arena_->run([&] { model_ = take(weights.with_layout(layout, limits, chosen.keys)); });
}

const engine::calibration& offline_model::calibrate(const engine::transformer& weights) {
    if (*calibration_ != nullptr) return **calibration_;
    const auto words = take(engine::tokenizer::load(options_.directory, options_.tokenizer_pre));
    progress_line progress("measuring KV recipes, %");
    storage::result<engine::calibration> result = engine::calibration{};
    arena_->run([&] {
        result = engine::calibrate(weights, config_, words, [&](double part) {
            progress.show(static_cast<std::size_t>(100 * part), 100);
        });
    });
    *calibration_ = std::make_unique<engine::calibration>(take(std::move(result)));
    return **calibration_;
}

std::unique_ptr<offline_sequence> offline_model::start() const {
    return std::make_unique<offline_sequence>(*pool_, std::vector<storage::kv_block_parts>{}, 0,
                                              config_.state_bytes());
}

std::vector<float> offline_model::run(offline_sequence& sequence, std::span<const token_id> ids,
                                      std::span<const int> wanted,
                                      const std::function<void(std::size_t)>& on_progress) {
    for (const token_id id : ids) {
        if (id < 0 || id >= config_.vocabulary) {
            throw bad_input("token " + std::to_string(id) + " is outside the vocabulary of " +
                            std::to_string(config_.vocabulary));
        }
    }
    const auto vocabulary = static_cast<std::size_t>(config_.vocabulary);
    std::vector<float> out(wanted.size() * vocabulary);
    std::vector<int> in_chunk;
    std::size_t asked = 0;
    for (std::size_t first = 0; first < ids.size();) {
        const std::size_t count =
            std::min(ids.size() - first, static_cast<std::size_t>(options_.chunk_tokens));
        float* to = out.data() + asked * vocabulary;
        in_chunk.clear();
        while (asked < wanted.size() && static_cast<std::size_t>(wanted[asked]) < first + count) {
            in_chunk.push_back(wanted[asked++] - static_cast<int>(first));
        }
        engine::sequence_step one = sequence.begin_step(ids.subspan(first, count), in_chunk, to);
        step({&one, 1});
        sequence.finish_step();
        first += count;
        if (on_progress) on_progress(first);
    }
    return out;
}

void offline_model::step(std::span<engine::sequence_step> batch) {
    for (const engine::sequence_step& each : batch) {
        const int end = each.cache->token_count() + static_cast<int>(each.tokens.size());
        if (auto room = each.cache->reserve(end); !room) throw bad_input(room.error().what);
    }
    arena_->run([&] { model_->forward(batch); });
}

std::vector<token_id> offline_model::greedy(std::span<const token_id> prompt, int max_new,
                                            std::span<const token_id> stops) {
    std::vector<token_id> answer;
    if (prompt.empty()) throw bad_input("there is no prompt to continue");
    if (max_new <= 0) return answer;
    engine::sampling_rules params;
    params.temperature = 0.0f;
    engine::sampler sampler(params, 0, config_.vocabulary);
    const auto sequence = start();
    const int last = static_cast<int>(prompt.size()) - 1, only = 0;
    std::vector<float> logits = run(*sequence, prompt, {&last, 1});
    while (true) {
        answer.push_back(sampler.sample(logits, prompt.size() + answer.size()));
        const bool stopped = std::find(stops.begin(), stops.end(), answer.back()) != stops.end();
        if (stopped || static_cast<int>(answer.size()) == max_new) return answer;
        logits = run(*sequence, std::span(&answer.back(), 1), {&only, 1});
    }
}

}  // namespace semantic::eval
