// SPDX-License-Identifier: Apache-2.0
#include "engine/recipe/calibration.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <span>

#include "engine/model/compute_arena.hpp"
#include "engine/model/heads/key_means.hpp"
#include "engine/model/heads/key_shaping.hpp"
#include "engine/recipe/calibration_file.hpp"
#include "engine/recipe/calibration_text.hpp"
#include "engine/recipe/recipe_choice.hpp"
#include "engine/recipe/recipe_comparison.hpp"
#include "engine/recipe/recipe_order.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::engine {
namespace {

const std::string tiny = std::string(SEMANTIC_SOURCE_DIR) + "/etc/models/semantic-tiny";

template <class T>
T taken(storage::result<T> from) {
    if (!from) throw std::runtime_error(from.error().what);
    return std::move(*from);
}

/// The model that comes with the tree, by a table and a number of threads.
struct measured_model {
    explicit measured_model(int threads, const std::string& kernels = "auto")
        : config(taken(model_config::load(tiny))),
          words(taken(tokenizer::load(tiny, ""))),
          arena(threads) {
        arena.run([&] {
            model =
                taken(transformer::load(tiny, config, make_kv_layout(config, 16, 256),
                                        *find_kernels(kernels), {1, 1}, weight_form::native, {}));
        });
    }
    calibration measure() {
        storage::result<calibration> result = calibration{};
        arena.run([&] { result = calibrate(*model, config, words, {}); });
        return taken(std::move(result));
    }
    model_config config;
    tokenizer words;
    compute_arena arena;
    std::unique_ptr<transformer> model;
};

recipe_score scored(float bytes, float divergence, float same_top) {
    return {"k8v4", bytes, divergence, same_top, 400};
}

TEST(choose_recipe, takes_the_fewest_bytes_within_the_bound) {
    const std::vector<recipe_score> scores = {
        scored(0.3f, 0.02f, 0.99f), scored(0.4f, 0.0028f, 0.97f), scored(0.5f, 0.001f, 0.999f)};
    EXPECT_EQ(choose_recipe(scores, {}).bytes_share, 0.4f);
}

TEST(choose_recipe, either_bound_exceeded_by_a_little_is_exceeded) {
    const std::vector<recipe_score> scores = {
        scored(0.3f, 0.0029f, 0.99f), scored(0.4f, 0.001f, 0.9525f), scored(1.0f, 0.0f, 1.0f)};
    EXPECT_EQ(choose_recipe(scores, {}).bytes_share, 1.0f);
}

TEST(choose_recipe, of_equal_bytes_within_the_bound_takes_what_diverges_less) {
    const std::vector<recipe_score> scores = {
        scored(0.4f, 0.0025f, 0.98f), scored(0.4f, 0.002f, 0.98f), scored(0.4f, 0.001f, 0.95f)};
    EXPECT_EQ(choose_recipe(scores, {}).divergence_mean, 0.002f);
}

TEST(recipe_bound, the_divergence_decides_and_the_seen_tops_agree_within_two_errors) {
    const recipe_bound bound;
    EXPECT_NEAR(bound.divergence_limit(), 0.00287, 0.00001);  // (3 % / 0.56)^2
    EXPECT_NEAR(bound.other_tops_limit(400), 18.8, 0.1);      // 12 and two times 3.4
    EXPECT_TRUE(bound.holds(scored(0.4f, 0.0028f, 0.955f)));  // 18 others
    EXPECT_FALSE(bound.holds(scored(0.4f, 0.0028f, 0.9525f)));
    EXPECT_FALSE(bound.holds(scored(0.4f, 0.0029f, 1.0f)));
    EXPECT_EQ((recipe_bound{0.001f, 0.97f}.divergence_limit()), static_cast<double>(0.001f));
}

TEST(choose_recipe, never_takes_what_was_not_measured) {
    std::vector<recipe_score> scores = {scored(0.3f, 0.0f, 1.0f), scored(0.4f, 0.2f, 0.5f)};
    scores[0].positions = 0;
    EXPECT_EQ(choose_recipe(scores, {}).bytes_share, 0.4f);
}

TEST(recipe_score, tells_the_standard_error_of_its_share) {
    const recipe_score score = scored(0.41f, 0.0044f, 0.9775f);
    EXPECT_NEAR(score.same_top_error(), 0.0074, 0.0001);
    EXPECT_EQ(describe(score), "41 % of 16 bit, KL 0.0044, 97.8 ± 0.7 % same top");
}

TEST(choose_recipe, takes_what_diverges_least_where_nothing_is_within_the_bound) {
    const std::vector<recipe_score> scores = {scored(0.3f, 0.3f, 0.5f), scored(0.4f, 0.2f, 0.5f)};
    EXPECT_EQ(choose_recipe(scores, {}).bytes_share, 0.4f);
}

TEST(calibration, is_the_same_for_every_number_of_threads_and_every_table) {
    const calibration one = measured_model(1).measure();
    EXPECT_EQ(one, measured_model(2).measure());
    EXPECT_EQ(one, measured_model(2).measure());
    for (const std::string_view table : available_kernels()) {
        if (table == "scalar" || table == "portable") continue;  // minutes
        EXPECT_EQ(one, measured_model(2, std::string(table)).measure()) << table;
    }
}

TEST(calibration, measures_what_the_choice_needs_and_16_bit_against_itself) {
    measured_model model(2);
    const calibration result = model.measure();
    const auto candidates = candidate_recipes(model.config);
    ASSERT_EQ(result.scores.size(), candidates.size());
    const recipe_score& reference = result.scores.back();
    EXPECT_EQ(reference.name, "k16v16");
    EXPECT_EQ(reference.divergence_mean, 0.0f);
    EXPECT_EQ(reference.same_top_share, 1.0f);
    EXPECT_EQ(reference.positions, 768 - 1 - 64);
    EXPECT_EQ(result.keys.means.size(), key_means::count(model.config));
    EXPECT_EQ(result.keys.feedback.size(), key_shaping::count(model.config));
    const recipe_score& chosen = choose_recipe(result.scores, {});
    EXPECT_EQ(chosen.positions, reference.positions);
    EXPECT_TRUE(next_batch(candidates, result.scores, {}).empty());
}

TEST(calibration, the_keys_of_every_head_are_shaped_by_queries_of_its_layer) {
    measured_model model(2);
    const std::vector<float> feedback = model.measure().keys.feedback;
    const std::size_t each = key_shaping::each(model.config.head_dim);
    ASSERT_EQ(feedback.size() % each, 0u);
    for (std::size_t head = 0; head < feedback.size() / each; ++head) {
        const auto its = std::span(feedback).subspan(head * each, each);
        const auto zeros = std::ranges::count(its, 0.0f);
        EXPECT_LT(zeros, static_cast<std::ptrdiff_t>(each / 10)) << head;
    }
}

/// The model that comes with the tree reads words by recipes and by 16 bit.
std::vector<recipe_score> compared(measured_model& model,
                                   std::initializer_list<std::string_view> names,
                                   const recipe_bound& bound, int* positions) {
    const auto text = model.words.encode(std::string(calibration_text()).substr(0, 1200), true);
    std::vector<recipe_score> scores;
    std::vector<storage::named_kv_recipe> recipes;
    // k8v4 is none that the server knows: a size between two that it does.
    const storage::kv_recipe between(storage::kv_form{8}, storage::kv_form{4});
    for (const std::string_view name : names)
        recipes.push_back({name, name == "k8v4" ? between : *storage::find_kv_recipe(name)});
    model.arena.run([&] {
        recipe_comparison comparison(*model.model, model.config, {}, text, bound);
        scores = comparison.run(recipes, [](double) {});
        *positions = comparison.positions();
    });
    return scores;
}
recipe_score compared(measured_model& model, std::string_view name, const recipe_bound& bound,
                      int* positions) {
    return compared(model, {name}, bound, positions).at(0);
}

TEST(recipe_comparison, replays_the_reference_to_the_bit_where_k_and_v_are_kept_alike) {
    measured_model model(2);
    int positions = 0;
    const recipe_score same = compared(model, "k16v16", {}, &positions);
    EXPECT_EQ(same, (recipe_score{"k16v16", 1.0f, 0.0f, 1.0f, 64}));
}

TEST(recipe_comparison, gives_up_a_candidate_that_cannot_come_into_the_bound_any_more) {
    measured_model model(2);
    int positions = 0;
    const recipe_score sure = compared(model, "k4v4", {1e3f, 0.0f}, &positions);
    EXPECT_EQ(sure.positions, 64);
    const recipe_score whole =
        compared(model, "k4v4", {1.07f * sure.divergence_mean, 0.0f}, &positions);
    EXPECT_EQ(whole.positions, positions);
    const recipe_score cut = compared(model, "k4v4", {1e-7f, 0.0f}, &positions);
    EXPECT_LE(cut.positions, 64);
    EXPECT_GT(cut.divergence_mean, 1e-7f);
    // Of the whole text it exceeds this bound by little, so it has to read most of it.
    const recipe_score late =
        compared(model, "k4v4", {0.999f * whole.divergence_mean, 0.0f}, &positions);
    EXPECT_GT(late.divergence_mean, 0.999f * whole.divergence_mean);
    EXPECT_GT(late.positions, positions / 4);
}

/// Positions that were compared of each.
std::vector<int> positions_read(measured_model& model,
                                std::initializer_list<std::string_view> names, float limit) {
    int all = 0;
    std::vector<int> each;
    for (const recipe_score& score : compared(model, names, {limit, 0.0f}, &all))
        each.push_back(score.positions);
    return each;
}

TEST(recipe_comparison,
     reads_on_beside_a_candidate_that_is_surely_within_only_what_may_be_smaller) {
    measured_model model(2);
    int positions = 0;
    const recipe_bound all{1e3f, 0.0f};
    const float coarse = compared(model, "k4v4", all, &positions).divergence_mean;
    const float fine = compared(model, "k8v8", all, &positions).divergence_mean;
    ASSERT_LT(fine, 0.25f * coarse);
    ASSERT_GT(positions, 128);
    const auto read = [&](float limit) { return positions_read(model, {"k4v4", "k8v8"}, limit); };
    EXPECT_EQ(read(0.9f * coarse), (std::vector{128, 64}));        // outside
    EXPECT_EQ(read(coarse), (std::vector{128, 128}));              // after 128 positions outside
    EXPECT_EQ(read(1.07f * coarse), (std::vector{positions, 0}));  // within, not surely
    EXPECT_EQ(read(10.0f * coarse), (std::vector{64, 0}));
}

TEST(recipe_comparison, is_not_sure_after_few_positions_what_it_is_after_more) {
    measured_model model(2);
    int positions = 0;
    const auto positions_with = [&](float limit) {
        return compared(model, "k4v4", {limit, 0.0f}, &positions).positions;
    };
    const float mean = compared(model, "k4v4", {1e3f, 0.0f}, &positions).divergence_mean;
    std::vector<int> seen;
    for (float times = 1.0f; times < 4.0f; times += 0.1f)
        seen.push_back(positions_with(times * mean));
    EXPECT_TRUE(std::ranges::is_sorted(seen, std::greater()));
    EXPECT_EQ(seen.back(), 64);
    EXPECT_NE(std::ranges::find(seen, 128), seen.end());  // within 3 standard errors and not in 5
}

TEST(recipe_comparison, a_larger_size_is_read_only_where_no_smaller_one_soon_is_within) {
    measured_model model(2);
    int positions = 0;
    const recipe_bound all{1e3f, 0.0f};
    const float fine = compared(model, "k8v8", all, &positions).divergence_mean;
    const float coarse = compared(model, "k4v4", all, &positions).divergence_mean;
    const auto read = [&](float limit) {
        return positions_read(model, {"k4v4", "k8v4", "k8v8", "k16v16"}, limit);
    };
    const auto not_needed = read(1.07f * coarse), needed = read(2.0f * fine);
    EXPECT_GT(not_needed[0], 0);
    for (const std::size_t larger : {1u, 2u, 3u}) {
        EXPECT_EQ(not_needed[larger], 0);
        EXPECT_GT(needed[larger], 0);
    }
}

TEST(recipe_comparison, a_size_that_joins_late_is_scored_as_if_it_had_begun_with_the_others) {
    measured_model model(2);
    int positions = 0;
    const recipe_bound none{1e-6f, 0.0f};
    const auto late = compared(model, {"k4v4", "k8v4", "k8v8", "k16v16"}, none, &positions);
    for (const std::string_view name : {"k8v8", "k16v16"}) {
        const recipe_score alone = compared(model, name, none, &positions);
        const auto found = std::ranges::find(late, name, &recipe_score::name);
        ASSERT_NE(found, late.end());
        EXPECT_EQ(*found, alone);
        EXPECT_GT(alone.positions, 0);
    }
}

TEST(candidate_recipes, are_the_named_ones_but_those_that_have_to_be_asked_for) {
    const auto candidates = candidate_recipes(taken(model_config::load(tiny)));
    const auto has = [&](std::string_view name) {
        return std::ranges::find(candidates, name, &storage::named_kv_recipe::name) !=
               candidates.end();
    };
    EXPECT_EQ(candidates.size() + 4, storage::kv_recipes().size());
    EXPECT_TRUE(has("k7s-v5r-w16"));
    EXPECT_TRUE(has("k6s-v4r-w16"));
    EXPECT_FALSE(has("k7s-v5r"));
    EXPECT_FALSE(has("k5s-v4r"));
    EXPECT_FALSE(has("k4v4"));
    EXPECT_EQ(candidates.back().name, "k16v16");
}

TEST(candidate_recipes, are_shaped_or_plain_4_bit_ones_as_the_keys_allow) {
    const auto names = [](const model_config& config) {
        std::string all;
        for (const storage::named_kv_recipe& each : candidate_recipes(config))
            all += std::string(all.empty() ? "" : " ") + std::string(each.name);
        return all;
    };
    model_config config = taken(model_config::load(tiny));
    config.head_dim = shaped_dim_max;
    EXPECT_EQ(names(config).substr(0, 24), "k4s-v4r-w16 k5s-v4r-w16 ");
    config.head_dim += 64;
    EXPECT_EQ(names(config), "k4v4 k8m-v5r k8v8 k16v16");
    config.head_dim = 72;  // no group of 64 divides it
    EXPECT_EQ(names(config), "k16v16");
    EXPECT_EQ(names(taken(model_config::load(SEMANTIC_SOURCE_DIR
                                             "/tests/golden/configs/deepseek-v2-lite"))),
              "k4v4 k8v8 k16v16");
}

TEST(candidate_recipes, have_no_wide_tail_in_blocks_that_have_no_room_for_one) {
    const model_config config = taken(model_config::load(tiny));
    const auto first = [&](int block_tokens) {
        return candidate_recipes(config, block_tokens).front().name;
    };
    EXPECT_EQ(first(64), "k4s-v4r-w16");
    for (const int block_tokens : {16, 32, 48}) {
        EXPECT_EQ(first(block_tokens), "k5s-v4r") << block_tokens;
        for (const auto& each : candidate_recipes(config, block_tokens))
            EXPECT_NO_THROW(make_kv_layout(config, each.recipe, block_tokens)) << each.name;
    }
}

TEST(choose_for, blocks_without_room_for_a_wide_tail_get_a_recipe_without_one) {
    measured_model model(2);
    const tests::temp_dir dir;
    const auto choose = [&](int block_tokens) {
        return taken(choose_for(std::nullopt, *model.model, model.config, model.words, model.arena,
                                {dir.path(), {}, block_tokens}, {}))
            .recipe;
    };
    EXPECT_EQ(choose(256).wide_tail, 16);
    EXPECT_NO_THROW(make_kv_layout(model.config, choose(16), 16));
    EXPECT_EQ(choose(256).wide_tail, 16);
}

TEST(calibration, is_read_back_as_it_was_written) {
    measured_model model(2);
    const tests::temp_dir dir;
    const calibration result = model.measure();
    const std::string path = calibration_path(dir.path(), storage::block_hash{});
    ASSERT_TRUE(write_calibration(storage::posix_file_system(), path, result));
    EXPECT_EQ(read_calibration(storage::posix_file_system(), path, model.config), result);
}

// A number of the feedback takes two bytes: a model of 48 layers and heads of 256 elements has 12.5
// million of them.
TEST(calibration, takes_two_bytes_for_a_number_of_the_feedback) {
    measured_model model(2);
    const tests::temp_dir dir;
    const calibration result = model.measure();
    ASSERT_FALSE(result.keys.feedback.empty());
    const std::string path = calibration_path(dir.path(), storage::block_hash{});
    ASSERT_TRUE(write_calibration(storage::posix_file_system(), path, result));
    calibration bare = result;
    bare.keys.feedback.clear();
    const auto whole_bytes = std::filesystem::file_size(path);
    ASSERT_TRUE(write_calibration(storage::posix_file_system(), path, bare));
    EXPECT_EQ(whole_bytes - std::filesystem::file_size(path), 2 * result.keys.feedback.size());
}

TEST(calibration, that_is_damaged_or_of_other_candidates_is_not_read) {
    measured_model model(2);
    const tests::temp_dir dir;
    calibration result = model.measure();
    storage::file_system& files = storage::posix_file_system();
    const std::string path = calibration_path(dir.path(), storage::block_hash{});
    EXPECT_EQ(read_calibration(files, path, model.config), std::nullopt);
    ASSERT_TRUE(write_calibration(files, path, result));
    const std::string whole = taken(storage::read_whole(files, path, 1 << 24));
    for (std::size_t cut : {std::size_t{0}, std::size_t{1}, whole.size() / 2, whole.size() - 3}) {
        std::ofstream(path, std::ios::trunc) << whole.substr(0, cut);
        EXPECT_EQ(read_calibration(files, path, model.config), std::nullopt) << cut;
    }
    const std::size_t line_end = whole.find('\n');
    std::string changed = whole;  // a digit of the last mean
    char& digit = changed[changed.rfind('.', line_end) + 1];
    digit = digit == '9' ? '8' : static_cast<char>(digit + 1);
    std::ofstream(path, std::ios::trunc) << changed;
    EXPECT_EQ(read_calibration(files, path, model.config), std::nullopt);
    const std::size_t at = line_end + 1;
    for (const std::string_view half : {"\x01\x3c", "\x01\x7c", "\x01", ""}) {
        std::string other = whole;  // another number, none that is finite, too few
        ASSERT_NE(other.substr(at, 2), half);
        std::ofstream(path, std::ios::trunc) << other.replace(at, 2, half);
        EXPECT_EQ(read_calibration(files, path, model.config), std::nullopt) << half.size();
    }
    std::ofstream(path, std::ios::trunc) << whole << "xx";
    EXPECT_EQ(read_calibration(files, path, model.config), std::nullopt);
    result.scores.pop_back();
    ASSERT_TRUE(write_calibration(files, path, result));
    EXPECT_EQ(read_calibration(files, path, model.config), std::nullopt);
}

TEST(calibration, of_an_earlier_version_is_not_read) {
    measured_model model(2);
    const tests::temp_dir dir;
    storage::file_system& files = storage::posix_file_system();
    const std::string path = calibration_path(dir.path(), storage::block_hash{});
    ASSERT_TRUE(write_calibration(files, path, model.measure()));
    ASSERT_TRUE(read_calibration(files, path, model.config));
    std::string text = taken(storage::read_whole(files, path, 1 << 24));
    const std::string now = "\"version\":" + std::to_string(calibration_version);
    const auto at = text.find(now);
    ASSERT_NE(at, std::string::npos);
    text.replace(at, now.size(), "\"version\":" + std::to_string(calibration_version - 1));
    std::ofstream(path, std::ios::trunc) << text;
    EXPECT_EQ(read_calibration(files, path, model.config), std::nullopt);
}

TEST(choose_for, measures_once_and_remembers) {
    measured_model model(2);
    const tests::temp_dir dir;
    int reports = 0;
    const auto choose = [&] {
        return taken(choose_for(std::nullopt, *model.model, model.config, model.words, model.arena,
                                {dir.path(), {}}, [&](double) { ++reports; }));
    };
    const chosen_recipe first = choose();
    EXPECT_GT(reports, 0);
    reports = 0;
    const chosen_recipe again = choose();
    EXPECT_EQ(reports, 0);
    EXPECT_EQ(again.recipe, first.recipe);
    EXPECT_EQ(again.why, first.why);
    EXPECT_EQ(again.keys, first.keys);
}

// Goal: a first start by a slow table does not take a minute for what a fast one does as well.
TEST(choose_for, measures_by_the_fastest_table_whichever_one_the_model_runs_by) {
    if (find_kernels("auto")->name == std::string_view("portable"))
        GTEST_SKIP() << "none is faster";
    const auto choose = [](const char* kernels) {
        measured_model model(2, kernels);
        return taken(choose_for(std::nullopt, *model.model, model.config, model.words, model.arena,
                                {}, [](double) {}));
    };
    const auto start = std::chrono::steady_clock::now();
    const chosen_recipe fast = choose("auto");
    const auto middle = std::chrono::steady_clock::now();
    const chosen_recipe slow = choose("portable");
    const auto end = std::chrono::steady_clock::now();
    EXPECT_EQ(slow.recipe, fast.recipe);
    EXPECT_EQ(slow.why, fast.why);
    EXPECT_EQ(slow.keys, fast.keys);
    EXPECT_LT(end - middle, 5 * (middle - start)) << "it takes 20 times as long by itself";
}

TEST(choose_for, measures_again_where_other_candidates_were_measured) {
    measured_model model(2);
    const tests::temp_dir dir;
    const std::string path = calibration_path(dir.path(), model.model->weights_hash());
    calibration of_others = model.measure();
    const auto newest = std::ranges::find(of_others.scores, "k7s-v5r-w16", &recipe_score::name);
    ASSERT_NE(newest, of_others.scores.end());
    newest->name = "k6m-v6r";  // a recipe of an earlier version
    ASSERT_TRUE(write_calibration(storage::posix_file_system(), path, of_others));
    for (const bool measures : {true, false}) {
        int reports = 0;
        ASSERT_TRUE(choose_for(std::nullopt, *model.model, model.config, model.words, model.arena,
                               {dir.path(), {}}, [&](double) { ++reports; }));
        EXPECT_EQ(reports > 0, measures);
    }
}

TEST(choose_for, a_directory_that_cannot_be_written_is_told_and_no_obstacle) {
    measured_model model(2);
    std::vector<std::string> warnings;
    const auto chosen =
        choose_for(std::nullopt, *model.model, model.config, model.words, model.arena,
                   {"/proc/no-such-place",
                    [&](std::string message) { warnings.push_back(std::move(message)); }},
                   {});
    EXPECT_TRUE(chosen);
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_NE(warnings[0].find("is not kept"), std::string::npos) << warnings[0];
}

TEST(choose_for, a_named_recipe_is_taken_and_measured_only_for_its_means) {
    measured_model model(2);
    int reports = 0;
    const auto choose = [&](std::string_view name) {
        return taken(choose_for(storage::find_kv_recipe(name), *model.model, model.config,
                                model.words, model.arena, {}, [&](double) { ++reports; }));
    };
    EXPECT_EQ(choose("k8v8").recipe, storage::find_kv_recipe("k8v8"));
    EXPECT_EQ(reports, 0);
    const chosen_recipe centred = choose("k8m-v5r");
    EXPECT_EQ(centred.keys.means.size(), key_means::count(model.config));
    EXPECT_EQ(centred.why, "");
}

}  // namespace
}  // namespace semantic::engine
