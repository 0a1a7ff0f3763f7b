// SPDX-License-Identifier: Apache-2.0
// exactness: what it shows of every recipe, and how it refuses.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "storage/pool/kv_recipe.hpp"
#include "tests/eval/eval_program.hpp"
#include "tests/support/latent_model.hpp"
#include "tests/support/real_models.hpp"

namespace semantic {
namespace {

constexpr int ways = 8;

class exactness_test : public semantic_eval {
  protected:
    /// The recipes of the table, every way of which gave the same bits.
    std::vector<std::string> exact_recipes(const std::string& arguments) {
        done_ = run("exactness " + arguments);
        std::vector<std::string> names;
        std::istringstream lines(done_.out);
        for (std::string line; std::getline(lines, line);) {
            std::istringstream cells(line);
            std::string bar, name, cell;
            cells >> bar >> name;
            if (bar != "|" || !storage::find_kv_recipe(name)) continue;
            int same = 0;
            while (cells >> cell) same += cell == "same" ? 1 : 0;
            EXPECT_EQ(same, ways) << line;
            names.push_back(name);
        }
        return names;
    }
    static std::vector<std::string> every_recipe() {
        std::vector<std::string> names;
        for (const storage::named_kv_recipe& each : storage::kv_recipes())
            names.emplace_back(each.name);
        return names;
    }
    outcome done_;
};

TEST_F(exactness_test, of_the_embedded_model_is_shown_with_what_the_server_takes) {
    const auto names = exact_recipes("");
    EXPECT_EQ(done_.status, 0) << done_.err;
    EXPECT_EQ(names.size(), 1u) << done_.out;
    EXPECT_NE(done_.out.find("text of 600 tokens"), std::string::npos) << done_.out;
}

TEST_F(exactness_test, is_shown_of_every_recipe_with_and_without_windows) {
    for (const char* model : {"qwen25", "gemma3"}) {
        const tests::golden_byte_model golden(model);
        EXPECT_EQ(exact_recipes("--kv all --tokens 300 --model " + golden.path()), every_recipe())
            << model;
        EXPECT_EQ(done_.status, 0) << done_.err;
        EXPECT_EQ(done_.err, "");
    }
}

// The delta rule with all of them; Mamba-2 and short convolutions, whose models have the same K and
// V, with some.
TEST_F(exactness_test, is_shown_of_every_recipe_with_recurrences) {
    struct row {
        const char *model, *recipes;
        std::size_t count;
    };
    for (const row& r :
         {row{"qwen35", "all", every_recipe().size()},
          row{"granitehybrid", "k5s-v4r-w16,k16v16", 2}, row{"lfm2", "k8m-v5r", 1}}) {
        const tests::golden_byte_model golden(r.model, 320);
        const auto names = exact_recipes("--kv " + std::string(r.recipes) +
                                         " --tokens 300 --model " + golden.path());
        EXPECT_EQ(names.size(), r.count) << r.model;
        EXPECT_EQ(done_.status, 0) << done_.err;
        EXPECT_EQ(done_.err, "");
    }
}

TEST_F(exactness_test, leaves_out_what_latent_attention_cannot_have_and_says_why) {
    const tests::golden_byte_model golden("deepseek2");
    const auto names = exact_recipes("--kv all --model " + golden.path());
    EXPECT_EQ(done_.status, 0) << done_.err;
    EXPECT_EQ(names, (std::vector<std::string>{"k4v4", "k8v8", "k16v16"}));
    const auto left_out = std::count(done_.err.begin(), done_.err.end(), '\n');
    EXPECT_EQ(static_cast<std::size_t>(left_out), every_recipe().size() - names.size());
    EXPECT_EQ(done_.err.find("left out: KV k"), 0u) << done_.err;
}

// From the shortest text that it takes on: the prefix ends with, before and after a block's end.
TEST_F(exactness_test, is_shown_of_texts_of_any_length) {
    const tests::golden_byte_model golden("gemma3");
    for (const int tokens : {300, 551, 552, 553, 1100}) {
        EXPECT_EQ(exact_recipes("--kv k5s-v4r-w16 --tokens " + std::to_string(tokens) +
                                " --model " + golden.path())
                      .size(),
                  1u);
        EXPECT_EQ(done_.status, 0) << tokens << ": " << done_.err;
    }
}

TEST_F(exactness_test, leaves_nothing_behind) {
    const std::string folder = path("scratch");
    std::filesystem::create_directory(folder);
    ::setenv("TMPDIR", folder.c_str(), 1);
    const auto names = exact_recipes("--kv 4");
    ::unsetenv("TMPDIR");
    EXPECT_EQ(names.size(), 1u) << done_.err;
    EXPECT_TRUE(std::filesystem::is_empty(folder));
}

TEST_F(exactness_test, of_published_models_is_shown_with_what_the_server_takes) {
    int found = 0;
    for (const char* name : {"smollm2-135m", "gemma3-270m"}) {
        const std::string model = tests::real_model(name);
        if (model.empty()) continue;
        ++found;
        EXPECT_EQ(exact_recipes("--tokens 300 --model " + model).size(), 1u) << name;
        EXPECT_EQ(done_.status, 0) << name << ": " << done_.err;
    }
    if (found == 0) GTEST_SKIP() << tests::no_real_models;
}

TEST_F(exactness_test, that_cannot_be_shown_says_why_in_one_line) {
    write(path("text"), "too short");
    struct row {
        std::string arguments, named;
    };
    for (const row& r :
         {row{"--tokens 299", "--tokens is 299: possible are 300 to 1048576"},
          row{"--tokens 1048577", "--tokens is 1048577"},
          row{"--text " + path("text"), "tokens, fewer than 600: give a smaller"},
          row{"--tokens 1000000", "fewer than 1000000: give a longer one, --text"},
          row{"--text " + path("none"), "cannot be opened"}, row{"--kv k9v9", "k9v9"},
          row{"--kv ,", "--kv"}, row{"--kernels portable", "nothing is promised"}}) {
        const outcome done = run("exactness " + r.arguments);
        EXPECT_EQ(done.status, 1) << r.arguments;
        EXPECT_NE(done.err.find(r.named), std::string::npos) << r.arguments << ": " << done.err;
        EXPECT_EQ(std::count(done.err.begin(), done.err.end(), '\n'), 1) << done.err;
    }
    ::setenv("TMPDIR", path("nowhere").c_str(), 1);
    const outcome done = run("exactness");
    ::unsetenv("TMPDIR");
    EXPECT_EQ(done.status, 1);
    EXPECT_NE(done.err.find("TMPDIR"), std::string::npos) << done.err;
}

}  // namespace
}  // namespace semantic
