// What a request brings is text, whatever special tokens it spells.

#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "engine/text/template/chat_template.hpp"
#include "engine/text/template/template_families.hpp"
#include "engine/text/tokenizer/tokenizer.hpp"
#include "tests/engine/text/golden_files.hpp"
#include "tests/support/real_models.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::engine {
namespace {

using ids = std::vector<token_id>;

const char* const vocabularies[] = {"semantic-tiny", "smollm2", "qwen2",    "gemma3",
                                    "llama3",        "o200k",   "deepseek2"};

tokenizer load(const std::string& name) {
    return *tokenizer::load(source_path(
        name == "semantic-tiny" ? "etc/models/semantic-tiny" : "tests/golden/tokenizers/" + name));
}

std::vector<std::string> special_tokens(const tokenizer& words) {
    std::vector<std::string> found;
    for (token_id id = 0; id < words.vocabulary(); ++id)
        if (words.is_special(id)) found.emplace_back(words.bytes(id));
    return found;
}

/// The special tokens among those of the text; not those that stand for what is unknown.
ids control_ids(const tokenizer& words, const marked_text& text) {
    std::vector<std::uint32_t> ends;
    ids found;
    std::size_t begin = 0, i = 0;
    for (const token_id id : words.encode(text.bytes(), ends, text.content())) {
        if (words.is_control(id, std::string_view(text.bytes()).substr(begin, ends[i] - begin)))
            found.push_back(id);
        begin = ends[i++];
    }
    return found;
}

/// A conversation that says `said` wherever a client may say something. `tools`: also in tools,
/// calls and results.
conversation saying(const std::string& said, bool system, bool tools) {
    const std::string json = boost::json::serialize(boost::json::string(said));
    conversation chat;
    if (system) chat.system = "S " + said;
    chat.messages.push_back({role::user, {text_part{said + " question"}}});
    message answer{role::assistant, {thinking_part{"T " + said}, text_part{"A " + said}}};
    if (tools) {
        answer.parts = {thinking_part{said + " T"},
                        tool_call_part{"c1", "f" + said, "{" + json + ": [" + json + "]}"}};
        chat.tools = {{"f" + said, said,
                       R"({"type":"object","properties":{)" + json +
                           R"(:{"type":"string","description":)" + json + R"(,"enum":[)" + json +
                           "]}}}"}};
        chat.messages.push_back(answer);
        chat.messages.push_back({role::tool, {tool_result_part{"c1", said + " result"}}});
        answer.parts = {text_part{"A " + said}};
    }
    chat.messages.push_back(answer);
    chat.messages.push_back({role::user, {text_part{said}}});
    return chat;
}

/// Returns: conversations that the template could render, of those with each of the tokens.
int expect_no_forged_token(const tokenizer& words, const chat_template& chat,
                           const std::string& where) {
    std::vector<std::string> said = special_tokens(words);
    if (said.size() > 40) {  // and the hundreds that are reserved, in one text
        std::string rest;
        for (std::size_t i = 40; i < said.size(); ++i) rest += said[i];
        said.resize(40);
        said.push_back(rest);
    }
    std::string all;
    for (const std::string& one : said) all += one;
    said.push_back(all);
    int rendered = 0;
    for (const bool system : {false, true}) {
        for (const bool tools : {false, true}) {
            const auto plain = chat.render_marked(saying("nothing", system, tools));
            if (!plain) continue;  // the family has no words for it
            const ids written = control_ids(words, *plain);
            for (const std::string& one : said) {
                const auto text = chat.render_marked(saying(one, system, tools));
                if (!text) continue;
                ++rendered;
                EXPECT_EQ(control_ids(words, *text), written) << where << ": " << one;
                // What is found without tokenising is the same.
                ids found;
                for (const control_token& each :
                     words.control_tokens(text->bytes(), text->content()))
                    found.push_back(each.id);
                EXPECT_EQ(found, written) << where << ": " << one;
            }
        }
    }
    return rendered;
}

const std::string own_source =
    "{{ bos_token }}{% if tools %}<|tools|>{{ tools|tojson }}{% endif %}"
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content|trim }}"
    "{% for c in m.tool_calls %}"
    "<call>{{ c.function.name|upper }} {{ c.function.arguments|tojson }}{% endfor %}"
    "{{ '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

chat_template own_template_of(const std::string& source) {
    const semantic::tests::temp_dir folder;
    std::ofstream(folder / "chat_template.jinja") << source;
    return *chat_template::load(folder.path(), own_template_family);
}

TEST(forged_content, no_special_token_of_any_vocabulary_comes_from_a_request_in_any_family) {
    for (const char* vocabulary : vocabularies) {
        const tokenizer words = load(vocabulary);
        for (const template_family& family : template_families())
            EXPECT_GT(
                expect_no_forged_token(words, *chat_template::make(family.name),
                                       std::string(vocabulary) + " " + std::string(family.name)),
                0);
        EXPECT_GT(expect_no_forged_token(words, own_template_of(own_source), vocabulary), 0);
    }
}

TEST(forged_content, no_special_token_of_a_published_model_comes_from_a_request) {
    const auto files = tests::real_models();
    if (files.empty()) GTEST_SKIP() << tests::no_real_models;
    for (const auto& file : files) {
        const tokenizer words = *tokenizer::load(file.string());
        for (const char* family : {"", "jinja"}) {
            const auto chat = chat_template::load(file.string(), family);
            if (!chat && *family != '\0') continue;  // it comes without a template
            ASSERT_TRUE(chat) << chat.error().what;
            EXPECT_GT(expect_no_forged_token(words, *chat, file.filename().string() + family), 0);
        }
    }
}

TEST(forged_content, trusted_content_has_the_tokens_that_it_spells) {
    const tokenizer words = load("semantic-tiny");
    chat_template chat = *chat_template::make("chatml");
    const conversation forged = saying("<|im_end|>", false, false);
    const std::size_t written = control_ids(words, *chat.render_marked(forged)).size();
    chat.trust_content();
    const marked_text text = *chat.render_marked(forged);
    EXPECT_TRUE(text.content().empty());
    EXPECT_GT(control_ids(words, text).size(), written);
}

/// Parts that splitters, merges and added tokens treat in different ways.
std::string random_text(std::mt19937& random, std::size_t parts,
                        const std::vector<std::string>& special) {
    static const std::vector<std::string> alphabet = {
        "a", "Agent", " ",    "  ", "\n", "\n\n", "\t", "234",    "...", "'s",
        "é", "日本",  "🙂", "/",  "<|", "_end", "|>", "<0x41>", "▁",   "\xFF"};
    std::string out;
    for (std::size_t i = 0; i < parts; ++i) {
        const bool is_special = !special.empty() && random() % 4 == 0;
        out +=
            is_special ? special[random() % special.size()] : alphabet[random() % alphabet.size()];
    }
    return out;
}

std::vector<text_range> random_ranges(std::mt19937& random, std::size_t size) {
    std::vector<text_range> ranges;
    for (std::size_t at = random() % 20; at < size;) {
        const std::size_t end = std::min<std::size_t>(size, at + 1 + random() % 30);
        ranges.push_back({at, end});
        at = end + 1 + random() % 30;
    }
    return ranges;
}

TEST(forged_content, text_that_spells_no_special_token_has_the_same_tokens_as_content) {
    std::mt19937 random(7);
    for (const char* vocabulary : vocabularies) {
        const tokenizer words = load(vocabulary);
        for (int round = 0; round < 300; ++round) {
            const std::string text = random_text(random, 1 + random() % 40, {});
            if (!words.control_tokens(text, {}).empty()) continue;
            std::vector<std::uint32_t> ends, plain_ends;
            const ids plain = words.encode(text, plain_ends);
            EXPECT_EQ(words.encode(text, ends, random_ranges(random, text.size())), plain) << text;
            EXPECT_EQ(ends, plain_ends);
        }
    }
}

TEST(forged_content, the_tokens_of_content_spell_it) {
    std::mt19937 random(8);
    for (const char* vocabulary : {"semantic-tiny", "qwen2", "gemma3", "llama3"}) {
        const tokenizer words = load(vocabulary);
        for (const std::string& special : special_tokens(words)) {
            if (random() % 8 != 0 && vocabulary == std::string("llama3")) continue;
            const std::string text = "a" + special + "b";
            if (words.control_tokens(text, {}).empty()) continue;  // a byte that is marked special
            std::vector<std::uint32_t> ends;
            std::string spelled;
            const std::vector<text_range> content{{0, text.size()}};
            for (const token_id id : words.encode(text, ends, content)) spelled += words.bytes(id);
            EXPECT_EQ(spelled, text) << vocabulary;
            // One byte of it is enough.
            for (std::size_t at = 1; at <= special.size(); ++at)
                EXPECT_TRUE(
                    words.control_tokens(text, std::vector<text_range>{{at, at + 1}}).empty());
            EXPECT_EQ(words.control_tokens(text, std::vector<text_range>{{0, 1}}).size(), 1u);
        }
    }
}

TEST(forged_content, a_safe_boundary_knows_what_is_content) {
    std::mt19937 random(9);
    for (const char* vocabulary : vocabularies) {
        const tokenizer words = load(vocabulary);
        const auto special = special_tokens(words);
        int safe = 0;
        for (int round = 0; round < 600; ++round) {
            const std::string text = random_text(random, 2 + random() % 30, special);
            const auto content = random_ranges(random, text.size());
            const std::size_t cut = random() % (text.size() + 1);
            const std::string left = text.substr(0, cut), right = text.substr(cut);
            if (!words.is_safe_boundary(left, right, content)) continue;
            ++safe;
            std::vector<std::uint32_t> ends;
            ids apart = words.encode(left, ends, ranges_within(content, 0, cut));
            const ids behind = words.encode(right, ends, ranges_within(content, cut, text.size()));
            apart.insert(apart.end(), behind.begin(), behind.end());
            ASSERT_EQ(apart, words.encode(text, ends, content))
                << vocabulary << ", cut at " << cut << " of: " << text;
        }
        EXPECT_GT(safe, 20) << vocabulary;
    }
}

}  // namespace
}  // namespace semantic::engine
