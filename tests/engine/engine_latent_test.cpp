// The engine on a model with latent attention: what a restart leaves is as much as with keys and
// values.

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "engine/engine.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/transcript.hpp"

namespace semantic::engine {
namespace {

using tests::ask;
using tests::chat_of;
using tests::run;

/// A token for each byte, two special ones, and the rest of 448 that no text makes.
std::string tokenizer_json() {
    boost::json::object vocabulary;
    for (int byte = 0, moved = 256; byte < 256; ++byte) {
        // Byte-level BPE spells what does not print with characters from 256 on.
        const bool prints = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte != 0xad);
        const int code = prints ? byte : moved++;
        const char wide[] = {static_cast<char>(0xc0 | code >> 6),
                             static_cast<char>(0x80 | (code & 0x3f)), '\0'};
        vocabulary[code < 0x80 ? std::string(1, static_cast<char>(code)) : wide] = byte;
    }
    for (int i = 258; i < 448; ++i) vocabulary["x" + std::to_string(i)] = i;
    boost::json::array special;
    for (int i = 0; i < 2; ++i) {
        special.push_back(
            {{"id", 256 + i},
             {"content", i == 0 ? "<｜begin▁of▁sentence｜>" : "<｜end▁of▁sentence｜>"},
             {"single_word", false},
             {"lstrip", false},
             {"rstrip", false},
             {"normalized", false},
             {"special", true}});
    }
    const boost::json::object byte_level = {{"type", "ByteLevel"},
                                            {"add_prefix_space", false},
                                            {"trim_offsets", true},
                                            {"use_regex", true}};
    return boost::json::serialize(boost::json::object{
        {"added_tokens", special},
        {"normalizer", nullptr},
        {"pre_tokenizer", byte_level},
        {"post_processor", nullptr},
        {"decoder", byte_level},
        {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", boost::json::array()}}}});
}

/// The golden model with words of its own.
class latent_model {
  public:
    latent_model() {
        const std::string golden = SEMANTIC_SOURCE_DIR "/tests/golden/models/deepseek2/";
        for (const char* name : {"config.json", "model.safetensors"})
            std::filesystem::copy_file(golden + name, model_ / name);
        std::ofstream(model_ / "tokenizer.json") << tokenizer_json();
        std::ofstream(model_ / "tokenizer_config.json") << boost::json::serialize(
            boost::json::object{{"bos_token", "<｜begin▁of▁sentence｜>"},
                                {"eos_token", "<｜end▁of▁sentence｜>"},
                                {"chat_template",
                                 "{{ bos_token }}{{ 'User: ' + message['content'] }}"
                                 "{{ 'Assistant: ' + message['content'] + eos_token }}"
                                 "{{ 'Assistant:' }}"}});
    }
    std::unique_ptr<engine> load(const std::string& caches, int kv_bits = 0) const {
        engine_options options;
        options.model_directory = model_.path();
        options.cache_directory = caches;
        options.cache_budget_bytes = std::size_t{64} << 20;
        options.compute_threads = 2;
        options.kv_bits = kv_bits;
        auto loaded = load_engine(options, {});
        if (!loaded) throw std::runtime_error(loaded.error().what);
        return std::move(*loaded);
    }

  private:
    tests::temp_dir model_;
};

/// Over one block of 256 tokens, each a byte.
std::vector<std::string> questions() {
    std::string notes = "Notes.";
    for (int day = 1; day <= 30; ++day) notes += " Day " + std::to_string(day) + ": rain.";
    return {notes, "How many days?", "And what fell?"};
}

/// The questions one after the other, each answer in front of the next one.
template <class Engine>
std::vector<std::string> answers_of(Engine engine_for_turn) {
    std::vector<std::string> turns, answers;
    for (const std::string& question : questions()) {
        turns.push_back(question);
        answers.push_back(engine_for_turn(turns));
        turns.push_back(answers.back());
    }
    return answers;
}

TEST(engine_latent, answers_are_equal_hot_restored_and_cold_and_a_restart_loses_nothing) {
    const latent_model model;
    for (const int kv_bits : {4, 8, 16}) {
        tests::temp_dir hot_dir, restored_dir;
        const auto one = model.load(hot_dir.path(), kv_bits);
        const std::vector<std::string> hot = answers_of([&](const std::vector<std::string>& turns) {
            const auto said = run(*one, ask("a", chat_of(turns), 24));
            EXPECT_TRUE(said->finished) << (said->failed ? said->failed->what : "no end");
            return said->text;
        });
        const std::vector<std::string> restored =
            answers_of([&](const std::vector<std::string>& turns) {
                const auto fresh = model.load(restored_dir.path(), kv_bits);
                const auto said = run(*fresh, ask("a", chat_of(turns), 24));
                EXPECT_EQ(said->usage.restored_tokens, said->usage.reused_tokens);
                EXPECT_EQ(said->usage.reused_tokens > 256, turns.size() > 1);
                return said->text;
            });
        const std::vector<std::string> cold =
            answers_of([&](const std::vector<std::string>& turns) {
                const auto stranger = "b" + std::to_string(turns.size());
                tests::temp_dir empty;
                return run(*model.load(empty.path(), kv_bits), ask(stranger, chat_of(turns), 24))
                    ->text;
            });
        EXPECT_EQ(restored, hot) << kv_bits;
        EXPECT_EQ(cold, hot) << kv_bits;
    }
}

// A latent of 128 and a rope part of 64, once for all four heads, in three layers.
TEST(engine_latent, a_latent_takes_8_bits_where_nobody_chose) {
    const latent_model model;
    tests::temp_dir dir, other;
    const auto engine = model.load(dir.path());
    EXPECT_EQ(engine->info().kv_bits, 8);
    EXPECT_EQ(engine->info().kv_heads, 1);
    EXPECT_EQ(engine->info().head_dim, 192);
    EXPECT_EQ(engine->info().kv_bytes_per_token, 3u * (192 + 3 * 4));
    EXPECT_EQ(model.load(other.path(), 4)->info().kv_bytes_per_token, 3u * (96 + 3 * 4));
}

}  // namespace
}  // namespace semantic::engine
