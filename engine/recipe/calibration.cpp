// SPDX-License-Identifier: Apache-2.0
#include "engine/recipe/calibration.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <new>
#include <stdexcept>
#include <utility>

#include "engine/kernels/task_runner.hpp"
#include "engine/model/heads/key_means.hpp"
#include "engine/model/heads/layer_heads.hpp"
#include "engine/model/heads/rope.hpp"
#include "engine/recipe/calibration_text.hpp"
#include "engine/recipe/query_moments.hpp"
#include "engine/recipe/recipe_comparison.hpp"
#include "engine/recipe/recipe_order.hpp"
#include "storage/types/as_size.hpp"

namespace semantic::engine {

namespace {

using storage::as_size;
using storage::token_id;

constexpr int tokens_max = 768;         // compared tokens: the prose that the text begins with
constexpr std::size_t tokens_min = 24;  // fewer leave none to score
constexpr int means_rows = 32;          // tokens of one piece of the text, for the key means
constexpr int means_step = 64;          // tokens of one step; does not change the result
constexpr int means_stride = 6;         // one of so many pieces is read
constexpr int means_from = 4;           // the first tokens are skipped: their keys are outliers
constexpr double means_part = 0.1;      // share of the time, for progress
constexpr double batch_part = 0.67;     // share of the rest of the time that a batch takes

std::vector<token_id> first_tokens(const std::vector<token_id>& text, int most) {
    return {text.begin(), text.begin() + std::min(static_cast<std::ptrdiff_t>(text.size()),
                                                  static_cast<std::ptrdiff_t>(most))};
}

/// The tokens that the means are taken from: pieces from all over the text, so that each kind of
/// text counts.
std::vector<token_id> means_tokens(const std::vector<token_id>& text, const model_config& config) {
    std::vector<token_id> tokens;
    for (std::size_t i = 0; i < text.size(); ++i)
        if (i / means_rows % means_stride == 0) tokens.push_back(text[i]);
    return first_tokens(tokens, config.context_tokens_max);
}

/// Whether a KV layout with this recipe is possible; not if groups of 64 do not divide the heads.
bool fits(const model_config& config, const storage::kv_recipe& recipe, int block_tokens) {
    try {
        make_kv_layout(config, recipe, block_tokens);
        return true;
    } catch (const std::invalid_argument&) {
        return false;
    }
}

/// The sums over keys and queries of one KV head of one layer.
struct head_sums {
    head_sums(const layer_heads& heads, int number)
        : layer(heads), head(as_size(number)), keys(as_size(heads.dim)), queries(heads.dim) {}

    layer_heads layer;
    std::size_t head;
    std::vector<double> keys;  // [dim]
    query_moments queries;
};

/// Adds the captured keys and queries of one head, for the rows [begin, end) of a step. `keys`,
/// `queries`: as transformer::capture() has filled them, one layer after the other, each
/// [means_step, layer.keys()] and [means_step, layer.queries()].
void add_rows(head_sums& sums, const float* keys, const float* queries, int begin, int end) {
    const layer_heads& layer = sums.layer;
    const std::size_t dim = as_size(layer.dim), group = as_size(layer.heads / layer.kv_heads);
    const float* key = keys + means_step * layer.keys_before + sums.head * dim;
    const float* query = queries + means_step * layer.queries_before + sums.head * group * dim;
    for (int row = begin; row < end; ++row) {
        for (std::size_t i = 0; i < dim; ++i)
            sums.keys[i] += static_cast<double>(key[as_size(row) * layer.keys() + i]);
        for (std::size_t i = 0; i < group; ++i)
            sums.queries.add(query + as_size(row) * layer.queries() + i * dim);
    }
}

/// Reads `tokens` with 16 bits and measures the means of keys and the second moments of queries.
/// Returns: nothing for a model with latent attention.
key_statistics measure_keys(const transformer& model, const model_config& config,
                            std::span<const token_id> tokens,
                            const std::function<void(double)>& progress) {
    if (config.latent.rank > 0) return {};
    const std::vector<layer_heads> layers = heads_of_layers(config);
    const int all = static_cast<int>(tokens.size());
    // No logits are wanted: 0 rows of them.
    recipe_reader plain(model, config, reference_recipe(), {}, all, {means_step, 0});
    const layer_heads& last = layers.back();
    std::vector<float> keys(means_step * (last.keys_before + last.keys()));
    std::vector<float> queries(means_step * (last.queries_before + last.queries()));
    std::vector<head_sums> sums;
    for (const layer_heads& layer : layers)
        for (int head = 0; head < layer.kv_heads; ++head) sums.emplace_back(layer, head);
    const task_runner tasks;
    const auto over_heads = [&](const std::function<void(std::size_t)>& body) {
        tasks.together([&] {
            tasks.run(static_cast<int>(sums.size()), true,
                      [&](int index, int) { body(as_size(index)); });
        });
    };
    plain.model().capture(keys.data(), queries.data());
    for (int begin = 0; begin < all; begin += means_step) {
        const int count = std::min(means_step, all - begin);
        plain.read(tokens.subspan(as_size(begin), as_size(count)), {}, nullptr);
        over_heads([&](std::size_t index) {
            add_rows(sums[index], keys.data(), queries.data(), std::max(0, means_from - begin),
                     count);
        });
        progress(static_cast<double>(begin + count) / all);
    }
    key_statistics result;
    std::vector<std::size_t> firsts;  // index of each head's first number in `feedback`
    std::size_t numbers = 0;
    for (const head_sums& each : sums) {
        for (const double sum : each.keys)
            result.means.push_back(static_cast<float>(sum / (all - means_from)));
        firsts.push_back(numbers);
        numbers += key_shaping::each(each.layer.dim);
    }
    result.feedback.resize(numbers);
    over_heads([&](std::size_t index) {
        head_sums& its = sums[index];
        its.queries.write_feedback(
            its.layer.rope, rope_mean_positions(config), model.kernels(),
            std::span(result.feedback).subspan(firsts[index], key_shaping::each(its.layer.dim)));
    });
    return result;
}

/// Measures candidates, batch after batch, until next_batch() has none. Returns: the scores of all
/// candidates, in their order; positions is 0 for those not measured.
std::vector<recipe_score> measure_scores(recipe_comparison& comparison, const model_config& config,
                                         const std::vector<storage::named_kv_recipe>& candidates,
                                         const std::function<void(double)>& progress) {
    std::vector<recipe_score> scores;
    for (const storage::named_kv_recipe& each : candidates)
        scores.push_back({std::string(each.name), bytes_share(config, each.recipe)});
    scores.back().positions = comparison.positions();  // the reference against itself
    double done = 0.0;
    while (true) {
        const auto batch = next_batch(candidates, scores, recipe_bound());
        if (batch.empty()) return scores;
        std::vector<storage::named_kv_recipe> recipes;
        for (const std::size_t i : batch) recipes.push_back(candidates[i]);
        const double part = batch_part * (1.0 - done);
        const auto measured = comparison.run(
            recipes, [&progress, done, part](double read) { progress(done + part * read); });
        for (std::size_t i = 0; i < batch.size(); ++i) scores[batch[i]] = measured[i];
        done += part;
    }
}

}  // namespace

const recipe_score& choose_recipe(std::span<const recipe_score> scores, const recipe_bound& bound) {
    const auto order = [](const recipe_score& each) {
        return std::pair(each.bytes_share, each.divergence_mean);
    };
    const recipe_score* best = nullptr;
    for (const recipe_score& each : scores)
        if (bound.holds(each) && (best == nullptr || order(each) < order(*best))) best = &each;
    if (best != nullptr) return *best;
    return *std::ranges::min_element(scores, {}, [](const recipe_score& each) {
        return std::pair(!each.is_measured(), each.divergence_mean);
    });
}

double recipe_bound::divergence_limit() const noexcept {
    const double tops = (1.0 - static_cast<double>(same_top_share_min)) / tops_by_divergence;
    return std::min(static_cast<double>(divergence_mean_max), tops * tops);
}

double recipe_bound::other_tops_limit(int positions) const noexcept {
    const double least = static_cast<double>(same_top_share_min);
    return (1.0 - least) * positions + 2.0 * std::sqrt(least * (1.0 - least) * positions);
}

bool recipe_bound::holds(const recipe_score& score) const noexcept {
    const double others = (1.0 - static_cast<double>(score.same_top_share)) * score.positions;
    return score.is_measured() &&
           static_cast<double>(score.divergence_mean) <= divergence_limit() &&
           others <= other_tops_limit(score.positions);
}

double recipe_score::same_top_error() const noexcept {
    const auto share = static_cast<double>(same_top_share);
    return std::sqrt(share * (1.0 - share) / std::max(positions, 1));
}

std::string describe(const recipe_score& score) {
    char text[112];
    std::snprintf(
        text, sizeof text, "%.0f %% of 16 bit, KL %.4f, %.1f ± %.1f %% same top",
        100.0 * static_cast<double>(score.bytes_share), static_cast<double>(score.divergence_mean),
        100.0 * static_cast<double>(score.same_top_share), 100.0 * score.same_top_error());
    return text;
}

std::vector<storage::named_kv_recipe> candidate_recipes(const model_config& config,
                                                        int block_tokens) {
    std::vector<storage::named_kv_recipe> possible;
    for (const storage::named_kv_recipe& each : storage::kv_recipes()) {
        if (!each.is_candidate) continue;
        if (each.recipe.k.shaped && config.head_dim > shaped_dim_max) continue;
        storage::kv_recipe recipe = each.recipe;
        if (!fits(config, recipe, block_tokens)) recipe.wide_tail = 0;
        const std::string_view name = storage::name_of(recipe);
        if (!name.empty() && fits(config, recipe, block_tokens))
            possible.push_back({name, recipe, true});
    }
    // Shaped keys of 4 bits are always better than plain ones of the same size.
    if (std::ranges::any_of(possible, [](const auto& each) { return each.recipe.k.shaped; }))
        std::erase_if(possible,
                      [](const auto& each) { return each.recipe == storage::kv_recipe(4); });
    return possible;
}

storage::result<calibration> calibrate(const transformer& model, const model_config& config,
                                       const tokenizer& words,
                                       const std::function<void(double)>& progress,
                                       int block_tokens) {
    const std::vector<token_id> text = words.encode(calibration_text(), true);
    const std::vector<token_id> tokens =
        first_tokens(text, std::min(tokens_max, config.context_tokens_max));
    if (tokens.size() < tokens_min)
        return storage::failure{storage::errc::incompatible,
                                "the calibration text has only " + std::to_string(tokens.size()) +
                                    " tokens in this model's vocabulary"};
    const auto part = [&progress](double begin, double end) {
        return [&progress, begin, end](double done) {
            if (progress) progress(begin + (end - begin) * done);
        };
    };
    try {
        calibration result;
        result.keys =
            measure_keys(model, config, means_tokens(text, config), part(0.0, means_part));
        recipe_comparison comparison(model, config, result.keys, tokens, recipe_bound());
        result.scores = measure_scores(comparison, config, candidate_recipes(config, block_tokens),
                                       part(means_part, 1.0));
        return result;
    } catch (const std::bad_alloc&) {
        return storage::failure{storage::errc::pool_exhausted,
                                "there is no memory to measure KV recipes in"};
    } catch (const std::runtime_error& error) {
        return storage::failure{storage::errc::incompatible, error.what()};
    }
}

}  // namespace semantic::engine
