// SPDX-License-Identifier: Apache-2.0
// tests/golden/schemas: what is held of each schema, and answers drawn to it.

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <unordered_map>

#include "engine/grammar/grammar_matcher.hpp"
#include "engine/grammar/json_grammar.hpp"

namespace semantic::engine {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
using strings = std::vector<std::string>;

struct corpus_file {
    fs::path path;
    std::vector<json::object> lines;
};

std::vector<corpus_file> corpus() {
    std::vector<corpus_file> files;
    for (const auto& entry : fs::directory_iterator(SEMANTIC_SOURCE_DIR "/tests/golden/schemas"))
        if (entry.path().extension() == ".jsonl") files.push_back({entry.path(), {}});
    std::ranges::sort(files, {}, &corpus_file::path);
    for (corpus_file& file : files) {
        std::ifstream stream(file.path);
        for (std::string line; std::getline(stream, line);)
            file.lines.push_back(json::parse(line).as_object());
    }
    return files;
}

std::string name_of(const json::object& line) {
    return json::serialize(line.at("of")) + " " + json::serialize(line.at("name"));
}

/// `not_held` as in json_grammar::of_schema().
std::shared_ptr<const grammar> compiled(const json::value& schema, strings* not_held,
                                        json_spacing spacing = json_spacing::free) {
    grammar_builder builder;
    json_grammar made(builder, spacing);
    const auto root = made.of_schema(schema, not_held);
    return std::make_shared<const grammar>(std::move(builder).build(root));
}

std::string strict_refusal(const json::value& schema) {
    try {
        compiled(schema, nullptr);
    } catch (const unsupported_schema& error) {
        return error.what();
    }
    return "";
}

TEST(schema_corpus, is_held_but_for_what_stands_beside_each) {
    std::size_t count = 0;
    for (corpus_file& file : corpus()) {
        for (json::object& line : file.lines) {
            ++count;
            strings without;
            const auto made = compiled(line.at("schema"), &without);
            EXPECT_FALSE(made->rules[made->root].empty()) << name_of(line);
            const std::string refusal = strict_refusal(line.at("schema"));
            EXPECT_EQ(refusal, without.empty() ? "" : without.front()) << name_of(line);
            const json::value held = json::value_from(without);
            const json::value* expected = line.if_contains("dropped");
            EXPECT_EQ(held, expected ? *expected : json::array()) << name_of(line);
            line.erase("dropped");
            if (!without.empty()) line["dropped"] = held;
        }
        if (!std::getenv("SEMANTIC_UPDATE_GOLDEN")) continue;
        std::ofstream out(file.path);
        for (const json::object& line : file.lines) out << json::serialize(line) << '\n';
    }
    EXPECT_GE(count, 300u);
}

// An answer as a model with nothing to say writes it: logits at random for each byte, drawn from at
// temperature 2 among those that the grammar lets through; after some length, the shortest end.
class random_writer {
  public:
    random_writer(std::shared_ptr<const grammar> rules, std::uint64_t seed)
        : matcher_(std::make_shared<const grammar_program>(std::move(rules), 0), search),
          random_(seed) {}

    /// No JSON where nothing may follow or no end is found.
    std::string answer() {
        const std::size_t calm_bytes = 20 + random_() % 400;
        std::string text;
        auto at = matcher_.start();
        while (text.size() < calm_bytes) {
            const bool may_end = !matcher_.goes_on(at) || random_() % 4 == 0;
            if (matcher_.accepts(at) && may_end) return text;
            const int byte = drawn(at);
            if (byte < 0) return "stuck behind " + text;
            text += static_cast<char>(byte);
            at = matcher_.step(at, static_cast<unsigned char>(byte));
        }
        for (bool plain : {true, false})
            if (const auto end = shortest_end(at, plain)) return text + *end;
        return text + " without end";
    }

  private:
    using state = grammar_matcher::state;
    // The shortest end is looked for among more states than an answer keeps at a time.
    static constexpr grammar_matcher::limits search{.work = 1'000'000'000,
                                                    .bytes = std::size_t{1} << 30};

    int drawn(state at) {
        constexpr double temperature = 2;
        std::normal_distribution<double> logit(0, 4);
        std::extreme_value_distribution<double> noise;  // the largest sum is a draw by softmax
        int best = -1;
        double best_score = 0;
        for (int byte = 0; byte < 256; ++byte) {
            if (matcher_.step(at, static_cast<unsigned char>(byte)) == grammar_matcher::dead)
                continue;
            double score = logit(random_);
            if (byte >= 0x80) score -= 6;
            if (byte == ' ' || byte == '\n') score -= 4;
            if (byte == '"' || byte == ']' || byte == '}') score += 4;
            score = score / temperature + noise(random_);
            if (best >= 0 && score <= best_score) continue;
            best = byte;
            best_score = score;
        }
        return best;
    }

    /// `plain`: without escapes, and no character beyond ASCII is begun; a long text has fewer
    /// states then.
    std::optional<std::string> shortest_end(state from, bool plain) {
        constexpr std::size_t states_max = 300'000;
        std::unordered_map<state, std::pair<state, char>> before{{from, {from, '\0'}}};
        std::vector<state> met{from};
        for (std::size_t i = 0; i < met.size() && met.size() < states_max; ++i) {
            if (matcher_.accepts(met[i])) return way_to(met[i], from, before);
            for (int byte = 0; byte < 256; ++byte) {
                if (plain && (byte == '\\' || byte >= 0xc0)) continue;
                const state next = matcher_.step(met[i], static_cast<unsigned char>(byte));
                if (next == grammar_matcher::dead) continue;
                if (before.try_emplace(next, met[i], static_cast<char>(byte)).second)
                    met.push_back(next);
            }
        }
        return std::nullopt;
    }
    static std::string way_to(state to, state from,
                              const std::unordered_map<state, std::pair<state, char>>& before) {
        std::string text;
        for (; to != from; to = before.at(to).first) text += before.at(to).second;
        std::ranges::reverse(text);
        return text;
    }

    grammar_matcher matcher_;
    std::mt19937_64 random_;
};

// tests/conformance/schema_answers.py validates what is written to SCHEMA_ANSWERS.
TEST(schema_corpus, answers_drawn_at_temperature_2_are_whole_json) {
    const char* path = std::getenv("SCHEMA_ANSWERS");
    const char* draws = std::getenv("SCHEMA_DRAWS");
    std::ofstream out;
    if (path) out.open(path);
    std::uint64_t seed = 0;
    for (const corpus_file& file : corpus())
        for (const json::object& line : file.lines) {
            strings without;
            const auto spacing = ++seed % 2 ? json_spacing::free : json_spacing::templates;
            const auto rules = compiled(line.at("schema"), &without, spacing);
            for (int i = draws ? std::atoi(draws) : 2; i > 0; --i) {
                const std::string text =
                    random_writer(rules, seed * 1000 + std::uint64_t(i)).answer();
                json::error_code error;
                json::parse_options options;
                options.max_depth = 1000;
                const json::value value = json::parse(text, error, {}, options);
                ASSERT_FALSE(error) << name_of(line) << ": " << text;
                if (path)
                    out << json::serialize(json::object{{"of", line.at("of")},
                                                        {"name", line.at("name")},
                                                        {"schema", line.at("schema")},
                                                        {"dropped", json::value_from(without)},
                                                        {"answer", text}})
                        << '\n';
            }
        }
}

}  // namespace
}  // namespace semantic::engine
