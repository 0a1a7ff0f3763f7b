// SPDX-License-Identifier: Apache-2.0
// What holding an answer to its form costs, counted in work and not in time: a walk through the
// vocabulary for each token of a long text is what must not come back.

#include "engine/grammar/output_constraint.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "engine/grammar/forms/answer_grammar.hpp"

namespace semantic::engine {
namespace {

constexpr int answer_tokens = 250;

const tokenizer& words() {
    static const tokenizer made =
        *tokenizer::load(std::string(SEMANTIC_SOURCE_DIR) + "/etc/models/semantic-tiny");
    return made;
}

const vocabulary_trie& trie() {
    static const vocabulary_trie made(words());
    return made;
}

const std::vector<token_id>& stops() {
    static const std::vector<token_id> made{words().find("<|im_end|>")};
    return made;
}

std::shared_ptr<const grammar> grammar_of(const std::string& schema) {
    generation_request request;
    request.form = {.what = output_form::kind::json, .schema_json = schema};
    auto made = answer_grammars(words(), "chatml").compile(request);
    if (!made) throw std::runtime_error(made.error().what);
    return made->rules;
}

struct work {
    int tokens = 0;
    std::size_t nodes = 0;   // of the vocabulary that were looked at
    std::size_t states = 0;  // of the automaton that were made
};

// Every draw strays: the mask is asked for at each token, as for a model that would rather say
// something else. It likes to end strings, lists and the answer.
work work_of(const std::string& schema, unsigned seed) {
    std::mt19937 random(seed);
    output_constraint constraint(grammar_of(schema), words(), trie(), stops());
    std::vector<float> logits(static_cast<std::size_t>(words().vocabulary()));
    work done;
    for (; done.tokens < answer_tokens; ++done.tokens) {
        for (float& logit : logits) logit = std::normal_distribution<float>()(random);
        for (const char* close : {"<|im_end|>", "\"", "}", "]", "\"}"})
            if (token_id id = words().find(close); id >= 0)
                logits[static_cast<std::size_t>(id)] += 2.0f;
        auto masked = constraint.masked(logits);
        EXPECT_FALSE(masked.empty());
        auto best = std::max_element(masked.begin(), masked.end()) - masked.begin();
        if (static_cast<token_id>(best) == stops()[0]) break;
        constraint.take(static_cast<token_id>(best));
    }
    done.nodes = constraint.walked_nodes();
    done.states = constraint.states();
    return done;
}

const std::map<std::string, std::string>& shapes() {
    static const std::map<std::string, std::string> made{
        {"string that must be long", R"({"type":"string","minLength":2000})"},
        {"string that may be long", R"({"type":"string","maxLength":2000})"},
        {"string of a length", R"({"type":"string","minLength":1990,"maxLength":2000})"},
        {"pattern of words", R"({"type":"string","pattern":"^([a-z]{2,9} ){300}$"})"},
        {"pattern of a length", R"({"type":"string","pattern":"^[A-Za-z0-9 .,]{800,1000}$"})"},
        {"numbers", R"({"type":"array","minItems":200,"items":{"type":"number"}})"},
        {"numbers in a range", R"({"type":"array","minItems":200,
            "items":{"type":"number","minimum":-1.5,"maximum":273.15}})"},
        {"enums", R"({"type":"array","minItems":200,"items":{"enum":["north","south",1,null]}})"},
        {"objects", R"({"type":"array","minItems":60,"items":{"type":"object",
            "additionalProperties":false,"required":["name","tags"],"properties":{
            "name":{"type":"string"},"tags":{"type":"array","items":{"type":"string"}}}}})"},
        {"anyOf", R"({"type":"array","minItems":100,"items":{"anyOf":[{"type":"string"},
            {"type":"number"},{"type":"object","properties":{"a":{"type":"string"}}}]}})"},
        {"any object", ""},
    };
    return made;
}

TEST(output_constraint, a_token_of_any_form_costs_a_small_part_of_a_walk_through_the_vocabulary) {
    constexpr std::size_t answers = 5, nodes_a_token = 250;
    // A token has four characters or so, each a state of its own where characters are counted.
    constexpr std::size_t states_an_answer = 100, states_a_token = 8;
    const std::size_t all_nodes = trie().short_words.nodes.size();
    ASSERT_GE(all_nodes, 20 * nodes_a_token);
    for (const auto& [name, schema] : shapes()) {
        work all;
        for (unsigned seed = 1; seed <= answers; ++seed) {
            work one = work_of(schema, seed);
            all.tokens += one.tokens;
            all.nodes += one.nodes;
            all.states += one.states;
        }
        // One walk is each answer's to make.
        EXPECT_LE(all.nodes,
                  answers * all_nodes + static_cast<std::size_t>(all.tokens) * nodes_a_token)
            << name << ": " << all.tokens << " tokens";
        EXPECT_LE(all.states, answers * states_an_answer +
                                  static_cast<std::size_t>(all.tokens) * states_a_token)
            << name << ": " << all.tokens << " tokens";
    }
}

// Masks that are remembered for what looks alike are those that a walk would find.
TEST(output_constraint, a_remembered_mask_lets_through_what_the_grammar_does) {
    for (unsigned seed = 1; seed <= 2; ++seed) {
        std::mt19937 random(seed);
        output_constraint constraint(grammar_of(R"({"type":"array","minItems":3,"maxItems":40,
            "items":{"anyOf":[{"type":"string","minLength":30,"maxLength":90},
            {"type":"string","pattern":"^([a-z]{1,3} ){20,24}[0-9]?$"},{"type":"integer"}]}})"),
                                     words(), trie(), stops());
        std::vector<float> logits(static_cast<std::size_t>(words().vocabulary()));
        for (int i = 0; i < 150; ++i) {
            for (float& logit : logits) logit = std::normal_distribution<float>()(random);
            auto masked = constraint.masked(logits);
            ASSERT_FALSE(masked.empty());
            for (std::size_t token = 0; token < logits.size(); ++token)
                ASSERT_EQ(constraint.allows(static_cast<token_id>(token)),
                          masked[token] == logits[token])
                    << "seed " << seed << ", token " << i << ": " << token;
            auto best = std::max_element(masked.begin(), masked.end()) - masked.begin();
            if (static_cast<token_id>(best) == stops()[0]) break;
            constraint.take(static_cast<token_id>(best));
        }
    }
}

}  // namespace
}  // namespace semantic::engine
