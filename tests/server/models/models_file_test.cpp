// SPDX-License-Identifier: Apache-2.0
#include "server/models/models_file.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "tests/support/temp_dir.hpp"

namespace semantic::server {
namespace {

std::string fault(const std::string& text) {
    const auto read = parse_models_file(text, "m.yaml");
    return read ? "no error" : read.error().what;
}

TEST(models_file, names_paths_aliases_and_options_are_read) {
    const auto read = parse_models_file(
        "default: small\n"
        "models:\n"
        "  - name: coder\n"
        "    path: ~/m/coder.gguf\n"
        "    aliases: [claude-haiku-4-5, gpt-5]\n"
        "    kv-recipe: k8v8\n"
        "    context_tokens: 8192\n"
        "  - name: org/small:Q4\n",
        "m.yaml");
    ASSERT_TRUE(read) << read.error().what;
    EXPECT_EQ(read->default_name, "small");
    ASSERT_EQ(read->models.size(), 2u);
    EXPECT_EQ(read->models[0].name, "coder");
    EXPECT_EQ(read->models[0].path, "~/m/coder.gguf");
    EXPECT_EQ(read->models[0].aliases, (std::vector<std::string>{"claude-haiku-4-5", "gpt-5"}));
    ASSERT_EQ(read->models[0].settings.size(), 2u);
    EXPECT_EQ(read->models[1].name, "org/small:Q4");
    EXPECT_EQ(read->models[1].path, "");

    config base;
    base.kv_bits = "4";
    const config own = with_settings(base, read->models[0].settings);
    EXPECT_EQ(own.kv_recipe, "k8v8");
    EXPECT_EQ(own.kv_bits, "auto") << "the model's own choice stands";
    EXPECT_EQ(own.context_tokens, 8192);
    EXPECT_EQ(own.port, base.port);
}

TEST(models_file, one_without_models_is_none) {
    for (const char* empty : {"", "# nothing\n", "models: []\n", "models:\n", "---\n"}) {
        const auto read = parse_models_file(empty, "m.yaml");
        ASSERT_TRUE(read) << empty;
        EXPECT_TRUE(read->models.empty());
    }
}

struct refusal {
    const char* text;
    const char* told;
};

TEST(models_file, what_is_wrong_is_told_with_its_line) {
    const refusal cases[]{
        {"modls: []\n", "m.yaml:1: unknown key 'modls' (known: default, models)"},
        {"models: 3\n", "m.yaml:1: models must be a list"},
        {"[]\n", "m.yaml:1: the file must be keys with values"},
        {"models:\n  - coder\n", "m.yaml:2: a model must be keys with values"},
        {"models:\n  - path: x\n", "m.yaml:2: a model needs a name"},
        {"models:\n  - name: [a]\n", "m.yaml:2: name must be one word or number"},
        {"models:\n  - name:\n", "m.yaml:2: name has no value"},
        {"models:\n  - name: ''\n", "m.yaml:2: name must not be empty"},
        {"models:\n  - name: a b\n", "m.yaml:2: name 'a b' has white space or control characters"},
        {"models:\n  - name: a\n    aliases: b\n", "m.yaml:3: aliases must be a list"},
        {"models:\n  - name: a\n    aliases: [{b: c}]\n",
         "m.yaml:3: an alias must be one word or number"},
        {"models:\n  - name: a\n  - name: b\n    aliases:\n      - a\n",
         "m.yaml:5: 'a' is given twice, as a name or an alias"},
        {"models:\n  - name: a\n    name: b\n", "m.yaml:3: 'name' is given twice"},
        {"models:\n  - name: a\n    kv-recipe: k8v8\n    kv_recipe: k4v4\n",
         "m.yaml:4: 'kv-recipe' is given twice"},
        {"models:\n  - name: a\n    context-tokens: many\n",
         "m.yaml:3: context-tokens 'many' must be a whole number from 0 to 100000000"},
        {"models:\n  - name: a\n    context-tokens: -1\n",
         "m.yaml:3: context-tokens '-1' must be a whole number from 0 to 100000000"},
        {"models:\n  - name: a\n    port: 80\n", "m.yaml:3: unknown key 'port' (known: name, path"},
        {"default: [a]\n", "m.yaml:1: default must be one word or number"},
        {"? [a, b]\n: c\n", "m.yaml:1: a key must be a word"},
        {"models:\n  - name: a\n   path: b\n", "m.yaml:3: "},
        {"models: [\n", "m.yaml:2: "},
        {"a: *nowhere\n", "m.yaml:1: "},
    };
    for (const refusal& each : cases) {
        const std::string told = fault(each.text);
        EXPECT_TRUE(told.starts_with(each.told)) << each.text << told;
    }
}

TEST(models_file, bounds_hold) {
    const std::string name(model_name_bytes_max, 'n');
    EXPECT_EQ(fault("models:\n  - name: " + name + "\n"), "no error");
    EXPECT_EQ(fault("models:\n  - name: " + name + "n\n"),
              "m.yaml:2: name has more than 200 bytes");
    std::string aliases;
    for (std::size_t i = 0; i < aliases_max; ++i) aliases += "a" + std::to_string(i) + ",";
    const std::string head = "models:\n  - name: m\n    aliases: [" + aliases;
    EXPECT_EQ(fault(head + "]\n"), "no error");
    EXPECT_EQ(fault(head + "more]\n"), "m.yaml:3: aliases has more than 100 entries");
    std::string models = "models:\n";
    for (std::size_t i = 0; i < listed_models_max; ++i)
        models += "  - name: m" + std::to_string(i) + "\n";
    EXPECT_EQ(fault(models), "no error");
    EXPECT_EQ(fault(models + "  - name: more\n"), "m.yaml:2: models has more than 1000 entries");
    EXPECT_EQ(fault(std::string(models_file_bytes_max, '#')), "no error");
    EXPECT_EQ(fault(std::string(models_file_bytes_max + 1, '#')),
              "m.yaml: has more than 1048576 bytes");
}

TEST(models_file, deep_nests_and_references_are_refused_and_no_crash) {
    EXPECT_NE(fault(std::string(100'000, '[')), "no error");
    std::string bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n";
    for (char c = 'b'; c <= 'i'; ++c) {
        const std::string before(1, static_cast<char>(c - 1));
        bomb += std::string(1, c) + ": &" + c + " [";
        for (int i = 0; i < 9; ++i) bomb += (i == 0 ? "*" : ",*") + before;
        bomb += "]\n";
    }
    EXPECT_EQ(fault(bomb), "m.yaml:1: unknown key 'a' (known: default, models)");
    EXPECT_NE(fault(std::string("models:\n  - name: \"a\0b\"\n", 24)), "no error");
}

TEST(models_file, one_that_cannot_be_read_is_an_error_that_names_it) {
    tests::temp_dir dir;
    const auto missing = read_models_file(dir / "none.yaml");
    ASSERT_FALSE(missing);
    EXPECT_NE(missing.error().what.find("none.yaml"), std::string::npos);
    EXPECT_FALSE(read_models_file(dir.path())) << "a folder";
    std::ofstream(dir / "m.yaml") << "models:\n  - name: a\n";
    const auto read = read_models_file(dir / "m.yaml");
    ASSERT_TRUE(read) << read.error().what;
    EXPECT_EQ(read->models.size(), 1u);
}

TEST(models_file, the_one_that_comes_with_the_server_is_read) {
    const auto read = read_models_file(SEMANTIC_SOURCE_DIR "/etc/semantic-models.yaml");
    ASSERT_TRUE(read) << read.error().what;
    EXPECT_TRUE(read->models.empty());
}

TEST(models_file, every_option_that_a_model_may_have_is_one_of_the_servers) {
    for (const std::string_view each : model_options()) {
        const auto all = config_options();
        EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](const config_option& one) {
            return one.name == each;
        })) << each;
    }
}

}  // namespace
}  // namespace semantic::server
