// SPDX-License-Identifier: Apache-2.0
// Why an agent's memory was not reused, as the engine reports and counts it. (too_short needs a
// memory that no prompt makes: resolve_test.cpp.)

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/engine/tiny_engine.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/transcript.hpp"

namespace semantic::engine {
namespace {

namespace fs = std::filesystem;
using semantic::tests::ask;
using semantic::tests::chat_of;
using semantic::tests::load;
using semantic::tests::long_paste;
using semantic::tests::options_in;
using semantic::tests::run;
using semantic::tests::temp_dir;

conversation with_tool(conversation chat, const char* name) {
    chat.tools = {{name, "", "{}"}};
    return chat;
}

void expect_reason(engine& runner, conversation chat, miss_reason why) {
    auto said = run(runner, ask("a", std::move(chat), 4));
    ASSERT_TRUE(said->finished) << (said->failed ? said->failed->what : "no end");
    EXPECT_STREQ(to_string(said->usage.why), to_string(why)) << said->usage.detail;
    EXPECT_EQ(runner.probe().misses[static_cast<std::size_t>(why)].load(), 1u) << to_string(why);
}

/// Does `to_each` file of a directory that ends like that.
template <class Change>
void for_files(const std::string& directory, const char* extension, Change to_each) {
    std::vector<fs::path> found;
    for (const auto& entry : fs::recursive_directory_iterator(directory))
        if (entry.path().extension() == extension) found.push_back(entry.path());
    ASSERT_FALSE(found.empty());
    for (const fs::path& path : found) to_each(path);
}

void change_byte(const fs::path& path) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-100, std::ios::end);
    char byte = static_cast<char>(file.get() ^ 1);
    file.seekp(-100, std::ios::end);
    file.put(byte);
}

TEST(reasons, a_changed_part_of_the_request_is_named) {
    temp_dir dir;
    auto engine = load(options_in(dir.path()));
    run(*engine, ask("a", with_tool(chat_of({"Hello."}, "You are a pirate."), "find"), 4));
    expect_reason(*engine, with_tool(chat_of({"Hello."}, "You are a pirate."), "add"),
                  miss_reason::tools_changed);
    expect_reason(*engine, with_tool(chat_of({"Hello."}, "You are a nurse."), "add"),
                  miss_reason::system_changed);
    expect_reason(*engine, with_tool(chat_of({"Hallo."}, "You are a nurse."), "add"),
                  miss_reason::messages_changed);
}

TEST(reasons, every_answer_says_how_its_prompt_stands_to_what_was_remembered) {
    temp_dir dir;
    auto engine = load(options_in(dir.path()));
    const auto match = [&](const std::vector<std::string>& turns) {
        auto said = run(*engine, ask("a", chat_of(turns), 4));
        const prompt_usage& usage = said->usage;
        EXPECT_EQ(usage.reused_tokens == 0, usage.match == match_kind::miss);
        EXPECT_EQ(usage.reused_tokens + usage.created_tokens + usage.recomputed_tokens,
                  usage.prompt_tokens);
        return std::pair(std::string(to_string(usage.match)), said->text);
    };
    const auto [first, answer] = match({"Hello."});
    EXPECT_EQ(first, "miss");
    EXPECT_EQ(match({"Hello.", answer, "My dog is called Biscuit."}).first, "extend");
    EXPECT_EQ(match({"Hello.", answer, "My dog is called Pickle."}).first, "diverge");
    EXPECT_EQ(match({"Hello.", answer, "My dog is called Pickle."}).first, "exact");
}

TEST(reasons, other_weights_are_a_changed_model) {
    temp_dir dir, model;
    engine_options options = options_in(dir.path());
    { run(*load(options), ask("a", chat_of({"Hello."}), 4)); }
    fs::copy(options.model_directory, model.path(), fs::copy_options::recursive);
    change_byte(model.path() + "/model.safetensors");
    options.model_directory = model.path();
    auto engine = load(options);
    expect_reason(*engine, chat_of({"Hello."}), miss_reason::model_changed);
}

TEST(load_engine, a_model_whose_tokenizer_cannot_be_read_is_refused_by_that_file) {
    temp_dir dir, model;
    engine_options options = options_in(dir.path());
    fs::copy(options.model_directory, model.path(), fs::copy_options::recursive);
    options.model_directory = model.path();
    // Both are read at once: of two that are wrong the tokenizer is named.
    fs::resize_file(model.path() + "/model.safetensors", 1000);
    for (const bool is_there : {true, false}) {
        const std::string tokenizer = model.path() + "/tokenizer.json";
        if (is_there) fs::resize_file(tokenizer, 100);
        if (!is_there) fs::remove(tokenizer);
        const auto loaded = load_engine(options, {});
        ASSERT_FALSE(loaded);
        EXPECT_NE(loaded.error().what.find("tokenizer"), std::string::npos) << loaded.error().what;
    }
}

TEST(reasons, another_recipe_of_the_same_model_is_incompatible) {
    temp_dir dir;
    engine_options options = options_in(dir.path());
    { run(*load(options), ask("a", chat_of({"Hello."}), 4)); }
    options.kv_recipe = "8";
    auto engine = load(options);
    expect_reason(*engine, chat_of({"Hello."}), miss_reason::incompatible);
}

TEST(reasons, a_damaged_manifest_or_block_is_corrupt) {
    for (const char* extension : {".manifest", ".safetensors"}) {
        temp_dir dir;
        { run(*load(options_in(dir.path())), ask("a", chat_of({long_paste(2)}), 4)); }
        for_files(dir.path(), extension, change_byte);
        auto engine = load(options_in(dir.path()));
        expect_reason(*engine, chat_of({long_paste(2)}), miss_reason::corrupt);
    }
}

TEST(reasons, a_block_whose_file_is_gone_is_evicted) {
    temp_dir dir;
    { run(*load(options_in(dir.path())), ask("a", chat_of({long_paste(2)}), 4)); }
    for_files(dir.path(), ".safetensors", [](const fs::path& path) { fs::remove(path); });
    auto engine = load(options_in(dir.path()));
    expect_reason(*engine, chat_of({long_paste(2)}), miss_reason::evicted);
}

}  // namespace
}  // namespace semantic::engine
