#include "engine/recipe/calibration.hpp"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <new>
#include <numeric>
#include <stdexcept>

#include "engine/kernels/task_runner.hpp"
#include "engine/model/key_means.hpp"
#include "engine/recipe/calibration_text.hpp"
#include "engine/recipe/prediction_scores.hpp"
#include "storage/pool/block_pool.hpp"

namespace semantic::engine {

namespace {

using storage::token_id;

constexpr int tokens_max = 512;
constexpr int block_tokens = 256;
constexpr int rows_max = 32;     // tokens, and logits, of one step
constexpr int means_from = 4;    // the first tokens have keys of their own kind
constexpr int scored_from = 16;  // the first tokens have seen too little to tell recipes apart
/// After `judged_from` tokens a candidate does not come back into the bound that diverges this many
/// times as much, or is this far below it with its most likely tokens.
constexpr float hopeless_divergence = 2.5f;
constexpr float hopeless_same_top = 0.06f;
constexpr int judged_from = 96;
constexpr double means_part = 0.1;  // of the time

const storage::named_kv_recipe reference{"k16v16", {16}};

float bytes_share(const model_config& config, const storage::kv_recipe& recipe) {
    const auto bytes = [&config](const storage::kv_recipe& of) {
        return static_cast<double>(make_kv_layout(config, of, block_tokens).bytes_per_token());
    };
    return static_cast<float>(bytes(recipe) / bytes(reference.recipe));
}

/// One recipe on its way through the text. Throws std::runtime_error.
class reader {
  public:
    reader(const transformer& model, const model_config& config,
           const storage::named_kv_recipe& recipe, std::span<const float> key_means, int tokens)
        : name_(recipe.name),
          bytes_share_(bytes_share(config, recipe.recipe)),
          layout_(make_kv_layout(config, recipe.recipe, block_tokens)),
          pool_(layout_, pool_bytes(tokens)),
          sequence_(pool_, {}, 0) {
        auto own = model.with_layout(layout_, {rows_max, rows_max, true}, key_means);
        if (!own) throw std::runtime_error(own.error().what);
        model_ = std::move(*own);
    }

    void read(std::span<const token_id> tokens, std::span<const int> wanted, float* logits) {
        const int end = sequence_.token_count() + static_cast<int>(tokens.size());
        if (auto room = sequence_.reserve(end); !room) throw std::runtime_error(room.error().what);
        sequence_step step{tokens, &sequence_, wanted, logits};
        model_->forward({&step, 1});
    }

    void capture_keys(float* to) { model_->capture_keys(to); }
    void add(const position_score& score) { sum_.add(score); }

    bool is_hopeless(const recipe_bound& bound) const {
        if (sum_.positions() < judged_from) return false;
        const recipe_score now = score();
        return now.divergence_mean > hopeless_divergence * bound.divergence_mean_max ||
               now.same_top_share < bound.same_top_share_min - hopeless_same_top;
    }

    /// Requires: something was added.
    recipe_score score() const {
        return {name_, bytes_share_, static_cast<float>(sum_.divergence_mean()),
                static_cast<float>(sum_.same_top_share())};
    }

  private:
    std::size_t pool_bytes(int tokens) const {
        const auto blocks = static_cast<std::size_t>((tokens + block_tokens - 1) / block_tokens);
        return blocks * static_cast<std::size_t>(layout_.layer_count()) * layout_.frame_bytes();
    }

    std::string name_;
    float bytes_share_;
    storage::kv_layout layout_;
    storage::block_pool pool_;
    storage::kv_sequence sequence_;
    std::unique_ptr<transformer> model_;
    score_sum sum_;
};

/// All candidates side by side, the last of which is the reference, and the logits of one step of
/// two of them.
class comparison {
  public:
    comparison(const transformer& model, const model_config& config, std::span<const float> means,
               std::span<const token_id> tokens)
        : tokens_(tokens),
          vocabulary_(static_cast<std::size_t>(config.vocabulary)),
          reference_(vocabulary_ * rows_max),
          logits_(vocabulary_ * rows_max) {
        for (const storage::named_kv_recipe& recipe : candidate_recipes(config))
            readers_.push_back(std::make_unique<reader>(model, config, recipe, means,
                                                        static_cast<int>(tokens_.size())));
        given_up_.resize(readers_.size());
    }

    std::vector<recipe_score> run(const std::function<void(double)>& progress) {
        const int last = static_cast<int>(tokens_.size()) - 1;  // is only predicted
        for (int begin = 0; begin < last; begin += rows_max) {
            const int end = std::min(begin + rows_max, last);
            read_piece(begin, end);
            progress(static_cast<double>(end) / last);
        }
        std::vector<recipe_score> scores;
        for (const auto& each : readers_) scores.push_back(each->score());
        return scores;
    }

  private:
    void read_piece(int begin, int end) {
        const auto piece =
            tokens_.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
        const int first = std::clamp(scored_from, begin, end);
        std::vector<int> wanted(static_cast<std::size_t>(end - first));
        std::iota(wanted.begin(), wanted.end(), first - begin);
        readers_.back()->read(piece, wanted, reference_.data());
        std::vector<prediction> predictions(wanted.size());
        for_rows(wanted.size(),
                 [&](std::size_t row) { predictions[row] = read_logits(row_of(reference_, row)); });
        for (std::size_t i = 0; i < readers_.size(); ++i) {
            if (given_up_[i]) continue;
            const bool is_reference = i + 1 == readers_.size();
            if (!is_reference) readers_[i]->read(piece, wanted, logits_.data());
            const std::vector<float>& logits = is_reference ? reference_ : logits_;
            std::vector<position_score> scores(wanted.size());
            for_rows(wanted.size(), [&](std::size_t row) {
                scores[row] =
                    compare(row_of(reference_, row), predictions[row], row_of(logits, row),
                            tokens_[static_cast<std::size_t>(first) + row + 1]);
            });
            for (const position_score& score : scores) readers_[i]->add(score);
            given_up_[i] = readers_[i]->is_hopeless(recipe_bound());
        }
    }

    void for_rows(std::size_t rows, const std::function<void(std::size_t)>& body) {
        tasks_.together([&] {
            tasks_.for_rows(0, static_cast<int>(rows), static_cast<int>(vocabulary_),
                            [&](int row) { body(static_cast<std::size_t>(row)); });
        });
    }

    std::span<const float> row_of(const std::vector<float>& logits, std::size_t row) const {
        return std::span(logits).subspan(row * vocabulary_, vocabulary_);
    }

    std::span<const token_id> tokens_;
    std::size_t vocabulary_;
    task_runner tasks_;
    std::vector<std::unique_ptr<reader>> readers_;
    std::vector<bool> given_up_;
    std::vector<float> reference_, logits_;  // [rows_max, vocabulary]
};

std::vector<token_id> calibration_tokens(const tokenizer& words, const model_config& config) {
    std::vector<token_id> tokens = words.encode(calibration_text(), true);
    const auto most = static_cast<std::size_t>(std::min(tokens_max, config.context_tokens_max));
    if (tokens.size() > most) tokens.resize(most);
    return tokens;
}

/// Empty where attention is latent.
std::vector<float> measure_key_means(const transformer& model, const model_config& config,
                                     std::span<const token_id> tokens,
                                     const std::function<void(double)>& progress) {
    if (config.latent.rank > 0) return {};
    const std::size_t layers = config.layers.size(), width = key_means::count(config) / layers;
    const int all = static_cast<int>(tokens.size());
    reader plain(model, config, reference, {}, all);
    std::vector<float> keys(layers * rows_max * width);
    std::vector<double> sums(layers * width);
    plain.capture_keys(keys.data());
    for (int begin = 0; begin < all; begin += rows_max) {
        const int count = std::min(rows_max, all - begin);
        plain.read(tokens.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count)),
                   {}, nullptr);
        for (std::size_t layer = 0; layer < layers; ++layer)
            for (int row = std::max(0, means_from - begin); row < count; ++row)
                for (std::size_t i = 0; i < width; ++i)
                    sums[layer * width + i] += static_cast<double>(
                        keys[(layer * rows_max + static_cast<std::size_t>(row)) * width + i]);
        progress(static_cast<double>(begin + count) / all);
    }
    std::vector<float> means;
    means.reserve(sums.size());
    for (const double sum : sums) means.push_back(static_cast<float>(sum / (all - means_from)));
    return means;
}

}  // namespace

const recipe_score& choose_recipe(std::span<const recipe_score> scores, const recipe_bound& bound) {
    const recipe_score* best = nullptr;
    for (const recipe_score& each : scores)
        if (bound.holds(each) && (best == nullptr || each.bytes_share < best->bytes_share))
            best = &each;
    if (best != nullptr) return *best;
    return *std::ranges::min_element(scores, {}, &recipe_score::divergence_mean);
}

std::string describe(const recipe_score& score) {
    char text[96];
    std::snprintf(text, sizeof text, "%.0f %% of 16 bit, KL %.4f, %.1f %% same top",
                  100.0 * static_cast<double>(score.bytes_share),
                  static_cast<double>(score.divergence_mean),
                  100.0 * static_cast<double>(score.same_top_share));
    return text;
}

std::vector<storage::named_kv_recipe> candidate_recipes(const model_config& config) {
    std::vector<storage::named_kv_recipe> possible;
    for (const storage::named_kv_recipe& each : storage::kv_recipes()) {
        if (!each.is_candidate) continue;
        try {
            make_kv_layout(config, each.recipe, block_tokens);
            possible.push_back(each);
        } catch (const std::invalid_argument&) {
            continue;  // such as heads that no group of 64 divides
        }
    }
    return possible;
}

storage::result<calibration> calibrate(const transformer& model, const model_config& config,
                                       const tokenizer& words,
                                       const std::function<void(double)>& progress) {
    const std::vector<token_id> tokens = calibration_tokens(words, config);
    if (tokens.size() <= static_cast<std::size_t>(scored_from) + 1)
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
        result.key_means = measure_key_means(model, config, tokens, part(0.0, means_part));
        result.scores =
            comparison(model, config, result.key_means, tokens).run(part(means_part, 1.0));
        return result;
    } catch (const std::bad_alloc&) {
        return storage::failure{storage::errc::pool_exhausted,
                                "there is no memory to measure KV recipes in"};
    } catch (const std::runtime_error& error) {
        return storage::failure{storage::errc::incompatible, error.what()};
    }
}

}  // namespace semantic::engine
