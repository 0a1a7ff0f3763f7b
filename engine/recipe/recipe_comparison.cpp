// SPDX-License-Identifier: Apache-2.0
#include "engine/recipe/recipe_comparison.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "storage/pool/block_frames.hpp"

namespace semantic::engine {

namespace {

using storage::token_id;

constexpr int block_tokens = 256;
// The first positions are not scored: with so little context predictions diverge more than in a
// conversation. Of a short text the first third is not scored.
constexpr int scored_from_most = 64;
constexpr int rows_max = 64;  // tokens, and logits, of one step; does not change the result

/// After `positions` positions a candidate whose divergence is `divergence_times` the limit is
/// given up.
struct hopeless {
    int positions;
    double divergence_times;
};
constexpr hopeless hopeless_from[] = {{32, 5.0}, {96, 2.5}};

/// After `positions` positions a candidate is surely within the bound if its mean divergence plus
/// `errors` standard errors is. On five models that were read to the end the choice is the same
/// (perf/results.md).
struct sureness {
    int positions;
    double errors;
};
constexpr sureness sure_from[] = {{64, 5.0}, {128, 3.0}};
/// Once a candidate is surely within the bound, a smaller one that is outside after so many
/// positions stops: more positions would seldom change that, and take a large model seconds.
constexpr int outside_from = 128;

/// After so many positions the larger candidates join as soon as none of the smallest size is
/// within the bound. For them the reference reads the text once more.
constexpr int join_from = 64;

/// Whether candidates can replay the reference's products. Not with a mixture of experts: in each
/// run other rows go to an expert.
bool can_replay(const model_config& config) { return config.mixture.experts == 0; }

/// Bytes of a pool for one sequence of `tokens` tokens. While it grows it needs a second wide tail.
std::size_t pool_bytes(const storage::kv_layout& layout, int tokens) {
    const auto blocks = static_cast<std::size_t>((tokens + block_tokens - 1) / block_tokens);
    return (blocks * storage::frames_of_block(layout) + 2 * layout.wide_frames()) *
           layout.frame_bytes();
}

storage::kv_layout layout_of(const model_config& config, const storage::kv_recipe& recipe) {
    return make_kv_layout(config, recipe, block_tokens);
}

}  // namespace

const storage::named_kv_recipe& reference_recipe() {
    static const storage::named_kv_recipe reference{"k16v16", {16}};
    return reference;
}

float bytes_share(const model_config& config, const storage::kv_recipe& recipe) {
    const auto bytes = [&config](const storage::kv_recipe& measured) {
        return static_cast<double>(layout_of(config, measured).bytes_per_token());
    };
    return static_cast<float>(bytes(recipe) / bytes(reference_recipe().recipe));
}

/// Throws: std::runtime_error when the model cannot have this recipe's layout.
recipe_reader::recipe_reader(const transformer& model, const model_config& config,
                             const storage::named_kv_recipe& recipe, const key_statistics& keys,
                             int tokens, transformer_limits limits)
    : share_(bytes_share(config, recipe.recipe)),
      pool_(layout_of(config, recipe.recipe), pool_bytes(layout_of(config, recipe.recipe), tokens)),
      sequence_(pool_, {}, 0),
      layers_(static_cast<int>(config.layers.size())),
      states_{aligned_buffer<std::byte>(config.state_bytes()),
              aligned_buffer<std::byte>(config.state_bytes())} {
    auto own = model.with_layout(pool_.layout(), limits, keys);
    if (!own) throw std::runtime_error(own.error().what);
    model_ = std::move(*own);
}

void recipe_reader::read(std::span<const token_id> tokens, std::span<const int> wanted,
                         float* logits) {
    begin(tokens, wanted, logits);
    for (int layer = 0; layer < layers_; ++layer) run_layer(layer);
}

void recipe_reader::begin(std::span<const token_id> tokens, std::span<const int> wanted,
                          float* logits) {
    const int end = sequence_.token_count() + static_cast<int>(tokens.size());
    if (auto room = sequence_.reserve(end); !room) throw std::runtime_error(room.error().what);
    const bool begun = sequence_.token_count() > 0;
    std::swap(states_[0], states_[1]);  // the last step's next state is this one's
    step_ = {tokens, &sequence_, wanted, logits};
    step_.state = begun ? states_[0].data() : nullptr;
    step_.next_state = states_[1].data();
    model_->begin({&step_, 1});
}

void recipe_reader::run_layer(int layer) { model_->run_layer(layer, {&step_, 1}); }

recipe_comparison::recipe_comparison(const transformer& model, const model_config& config,
                                     const key_statistics& keys, std::span<const token_id> tokens,
                                     const recipe_bound& bound)
    : model_(model),
      config_(config),
      keys_(keys),
      tokens_(tokens),
      bound_(bound),
      limits_{rows_max, rows_max, !can_replay(config)},
      vocabulary_(static_cast<std::size_t>(config.vocabulary)),
      scored_from_(std::min(scored_from_most, static_cast<int>(tokens.size()) / 3)),
      reference_logits_(vocabulary_ * static_cast<std::size_t>(limits_.rows_max)),
      logits_(reference_logits_.size()),
      predictions_(static_cast<std::size_t>(limits_.rows_max)) {}

int recipe_comparison::positions() const {
    return std::max(static_cast<int>(tokens_.size()) - 1 - scored_from_, 0);
}

std::vector<recipe_score> recipe_comparison::run(
    std::span<const storage::named_kv_recipe> candidates,
    const std::function<void(double)>& progress) {
    candidates_ = candidates;
    reference_ = open(reference_recipe());
    open_.clear();
    open_.resize(candidates.size());
    scores_.clear();
    for (const storage::named_kv_recipe& each : candidates)
        scores_.push_back({std::string(each.name), bytes_share(config_, each.recipe)});
    sure_share_ = std::numeric_limits<float>::infinity();
    begin_smallest();
    const int last = static_cast<int>(tokens_.size()) - 1;  // only predicted, not read
    for (int begin = 0; begin < last; begin += limits_.rows_max) {
        if (!is_any_open()) break;
        const int end = std::min(begin + limits_.rows_max, last);
        read_piece(begin, end, begun_);
        settle();
        if (is_time_to_join(end)) join_waiting(end);
        progress(static_cast<double>(end) / last);
    }
    return scores_;
}

std::unique_ptr<recipe_reader> recipe_comparison::open(const storage::named_kv_recipe& recipe) {
    auto made = std::make_unique<recipe_reader>(model_, config_, recipe, keys_,
                                                static_cast<int>(tokens_.size()), limits_);
    if (can_replay(config_)) made->model().use_tape(&tape_);
    return made;
}

void recipe_comparison::begin_smallest() {
    const float smallest = std::ranges::min(scores_, {}, &recipe_score::bytes_share).bytes_share;
    begun_.clear();
    waiting_.clear();
    for (std::size_t i = 0; i < scores_.size(); ++i) {
        const bool begins = scores_[i].bytes_share <= smallest;
        (begins ? begun_ : waiting_).push_back(i);
        if (begins) open_[i] = open(candidates_[i]);
    }
}

bool recipe_comparison::is_time_to_join(int end) const {
    if (waiting_.empty()) return false;
    if (std::ranges::any_of(scores_, [&](const auto& each) { return bound_.holds(each); }))
        return false;
    const bool is_read = end + 1 == static_cast<int>(tokens_.size());
    return is_read || end - scored_from_ >= join_from || !is_any_open();
}

bool recipe_comparison::is_any_open() const {
    return std::ranges::any_of(open_, [](const auto& each) { return each != nullptr; });
}

/// Lets the waiting candidates read the text up to `end`, as far as the others have read.
void recipe_comparison::join_waiting(int end) {
    reference_ = open(reference_recipe());
    for (const std::size_t i : waiting_) open_[i] = open(candidates_[i]);
    for (int begin = 0; begin < end; begin += limits_.rows_max)
        read_piece(begin, std::min(begin + limits_.rows_max, end), waiting_);
    begun_.insert(begun_.end(), waiting_.begin(), waiting_.end());
    waiting_.clear();
    settle();
}

// All go through the layers side by side, so that the tape holds the products of one layer only.
void recipe_comparison::read_piece(int begin, int end, std::span<const std::size_t> readers) {
    const auto piece =
        tokens_.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    const int first = std::clamp(scored_from_, begin, end);
    std::vector<int> wanted(static_cast<std::size_t>(end - first));
    std::iota(wanted.begin(), wanted.end(), first - begin);
    std::vector<std::size_t> reading;
    for (const std::size_t i : readers)
        if (open_[i] != nullptr) reading.push_back(i);
    // Some models have matrix products before their first layer: these are taped, too.
    tape_.record();
    reference_->begin(piece, wanted, reference_logits_.data());
    for (const std::size_t i : reading) {
        tape_.replay();
        open_[i]->begin(piece, wanted, logits_.data());
    }
    const int last = static_cast<int>(config_.layers.size()) - 1;
    for (int layer = 0; layer <= last; ++layer) {
        tape_.record();
        reference_->run_layer(layer);
        if (layer == last)
            for_rows(wanted.size(), [&](std::size_t row) {
                predictions_[row] = read_logits(row_of(reference_logits_, row));
            });
        for (const std::size_t i : reading) {
            tape_.replay();
            open_[i]->run_layer(layer);
            if (layer == last) score_piece(i, first, wanted.size());
        }
    }
}

// Stops candidates that cannot be chosen any more. Once a candidate is surely within the bound it
// stops, and so do all larger ones; smaller ones continue while they may still come within it.
void recipe_comparison::settle() {
    for (std::size_t i = 0; i < open_.size(); ++i)
        if (open_[i] != nullptr && is_sure(open_[i]->scores()) && bound_.holds(scores_[i]))
            sure_share_ = std::min(sure_share_, open_[i]->share());
    for (auto& each : open_) {
        if (each == nullptr) continue;
        const bool smaller = each->share() < sure_share_;
        const bool may_come = each->scores().positions() < outside_from ||
                              each->scores().divergence_mean() <= bound_.divergence_limit();
        if (std::isfinite(sure_share_) && !(smaller && may_come)) each.reset();
    }
}

bool recipe_comparison::is_sure(const score_sum& scores) const {
    return std::ranges::any_of(sure_from, [&](const sureness& from) {
        return scores.positions() >= from.positions &&
               scores.divergence_mean() + from.errors * scores.divergence_error() <=
                   bound_.divergence_limit();
    });
}

/// Adds `rows` positions, from position `first` on, to a candidate's score; gives it up if it is
/// hopeless.
void recipe_comparison::score_piece(std::size_t candidate, int first, std::size_t rows) {
    std::vector<position_score> scores(rows);
    for_rows(rows, [&](std::size_t row) {
        scores[row] =
            compare(row_of(reference_logits_, row), predictions_[row], row_of(logits_, row),
                    tokens_[static_cast<std::size_t>(first) + row + 1]);
    });
    score_sum& sum = open_[candidate]->scores();
    for (const position_score& score : scores) sum.add(score);
    scores_[candidate].divergence_mean = static_cast<float>(sum.divergence_mean());
    scores_[candidate].same_top_share = static_cast<float>(sum.same_top_share());
    scores_[candidate].positions = sum.positions();
    if (is_given_up(sum)) open_[candidate].reset();
}

bool recipe_comparison::is_given_up(const score_sum& scores) const {
    const double divergence = scores.divergence_mean(), limit = bound_.divergence_limit();
    // Sums only grow: what exceeds the limit of the whole text now cannot come within it.
    const double read = scores.positions(), all = positions();
    if (divergence * read > limit * all) return true;
    if (scores.other_tops() > bound_.other_tops_limit(positions())) return true;
    return std::ranges::any_of(hopeless_from, [&](const hopeless& from) {
        return scores.positions() >= from.positions && divergence > from.divergence_times * limit;
    });
}

void recipe_comparison::for_rows(std::size_t rows, const std::function<void(std::size_t)>& body) {
    tasks_.together([&] {
        tasks_.for_rows(0, static_cast<int>(rows), static_cast<int>(vocabulary_),
                        [&](int row) { body(static_cast<std::size_t>(row)); });
    });
}

std::span<const float> recipe_comparison::row_of(const std::vector<float>& logits,
                                                 std::size_t row) const {
    return std::span(logits).subspan(row * vocabulary_, vocabulary_);
}

}  // namespace semantic::engine
