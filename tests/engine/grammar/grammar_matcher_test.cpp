// SPDX-License-Identifier: Apache-2.0
// What a grammar that can be read in many ways may take in memory and work.

#include "engine/grammar/grammar_matcher.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>

#include "engine/grammar/forms/answer_grammar.hpp"
#include "engine/grammar/forms/gbnf.hpp"
#include "engine/grammar/output_constraint.hpp"

namespace semantic::engine {
namespace {

std::shared_ptr<const grammar> of_gbnf(const std::string& text) {
    grammar_builder out;
    const auto root = out.any_of({{read_gbnf(out, text)}});
    return std::make_shared<const grammar>(std::move(out).build(root));
}

std::shared_ptr<const grammar_program> program_of(const std::string& text, int outlook = 0) {
    return std::make_shared<const grammar_program>(of_gbnf(text), outlook);
}

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

const char* const ambiguous = "root ::= x x x x x x x x\nx ::= \"a\" x x | \"a\" | \"\"";

/// Tokens taken until the grammar is given up, at most `tokens_max`; the most memory seen.
struct run_of_tokens {
    int tokens = 0;
    std::size_t bytes = 0;
    bool given_up = false;
};
run_of_tokens write(const std::string& rules, int tokens_max) {
    run_of_tokens done;
    std::mt19937 random(3);
    output_constraint constraint(of_gbnf(rules), words(), trie(), stops());
    std::vector<float> logits(static_cast<std::size_t>(words().vocabulary()));
    try {
        for (; done.tokens < tokens_max; ++done.tokens) {
            for (float& logit : logits) logit = std::normal_distribution<float>()(random);
            logits[static_cast<std::size_t>(stops()[0])] = -100.0f;
            const auto masked = constraint.masked(logits);
            done.bytes = std::max(done.bytes, constraint.memory_bytes());
            if (masked.empty()) break;
            const auto best = std::max_element(masked.begin(), masked.end()) - masked.begin();
            if (static_cast<token_id>(best) == stops()[0]) break;
            constraint.take(static_cast<token_id>(best));
            EXPECT_LE(constraint.memory_bytes(),
                      output_constraint::kept_automaton_bytes_max + (std::size_t{5} << 20));
        }
    } catch (const grammar_too_large&) {
        done.given_up = true;
    }
    return done;
}

TEST(grammar_matcher, an_ambiguous_grammar_never_fills_the_memory) {
    const run_of_tokens done = write(ambiguous, 1500);
    EXPECT_GE(done.tokens, 20);
    EXPECT_LT(done.bytes, output_constraint::automaton_bytes_max + (std::size_t{5} << 20));
}

TEST(grammar_matcher, a_long_answer_keeps_no_more_than_its_share) {
    // States that are all different: the text counts itself.
    const run_of_tokens done = write("root ::= ([a-z]{1,9} \" \"){9000}", 3000);
    EXPECT_FALSE(done.given_up);
    EXPECT_EQ(done.tokens, 3000);
}

TEST(grammar_matcher, is_given_up_at_its_limit_of_bytes_and_of_work) {
    const auto program = program_of(ambiguous);
    const std::string text(12, 'a');
    const auto walk = [&](grammar_matcher& matcher) {
        auto at = matcher.start();
        for (const char c : text) at = matcher.step(at, static_cast<unsigned char>(c));
        return at;
    };
    grammar_matcher free(program);
    EXPECT_TRUE(free.accepts(walk(free)));
    const std::size_t bytes = free.memory_bytes();
    grammar_matcher enough(program, {.bytes = 2 * bytes});
    EXPECT_NO_THROW(walk(enough));
    EXPECT_THROW(
        {
            grammar_matcher little(program, {.bytes = bytes / 2});
            walk(little);
        },
        grammar_too_large);
    EXPECT_THROW(
        {
            grammar_matcher lazy(program, {.work = 100});
            walk(lazy);
        },
        grammar_too_large);
}

// Whatever may stop it in the middle: a closure, an outlook, a walk through the vocabulary.
TEST(grammar_matcher, comes_to_the_same_in_slices_as_at_once) {
    const std::string rules =
        "root ::= ((\"a\" | [a-c]{0,6} | \"(\" root \")\"){0,5} [x-z]?){0,4} \" \"+ \"end\"?";
    std::mt19937 random(11);
    for (const std::int64_t slice : {1, 7, 100, 5000}) {
        const auto program = program_of(rules, output_constraint::outlook_bytes);
        output_constraint whole(program, words(), trie(), stops());
        output_constraint sliced(program, words(), trie(), stops());
        int stopped = 0;
        const auto in_slices = [&](const auto& action) {
            for (;; ++stopped) try {
                    sliced.begin_slice(slice);
                    return action();
                } catch (const grammar_unfinished&) {
                }
        };
        std::vector<float> logits(static_cast<std::size_t>(words().vocabulary()));
        for (int i = 0; i < 6; ++i) {
            for (float& logit : logits) logit = std::normal_distribution<float>()(random);
            const auto wanted = whole.masked(logits);
            const auto got = in_slices([&] { return sliced.masked(logits); });
            ASSERT_TRUE(std::ranges::equal(wanted, got)) << slice << " places, token " << i;
            if (wanted.empty()) break;
            const auto best = std::ranges::max_element(wanted) - wanted.begin();
            const auto token = static_cast<token_id>(best);
            if (token == stops()[0]) break;
            EXPECT_TRUE(in_slices([&] { return sliced.allows(token); }));
            whole.take(token);
            in_slices([&] { sliced.take(token); });
        }
        EXPECT_GE(stopped, slice < 1000 ? 10 : 1) << slice;
        EXPECT_EQ(sliced.states(), whole.states()) << "nothing is made twice";
    }
}

TEST(grammar_matcher, goes_on_alike_when_it_has_forgotten_all_other_states) {
    const auto program = program_of(
        "root ::= pair+\npair ::= \"(\" pair* \")\" | \"[\" [a-c]{0,40} \"]\" | \"(\" \"x\"? \")\"",
        16);
    std::mt19937 random(5);
    for (int round = 0; round < 20; ++round) {
        grammar_matcher keeps(program), forgets(program);
        auto kept = keeps.start(), other = forgets.start();
        for (int i = 0; i < 200; ++i) {
            if (random() % 8 == 0) other = forgets.forget_all_but(other);
            std::string possible;
            for (const char c : std::string("()[]xabc")) {
                const auto next = keeps.step(kept, static_cast<unsigned char>(c));
                const auto same = forgets.step(other, static_cast<unsigned char>(c));
                ASSERT_EQ(next == grammar_matcher::dead, same == grammar_matcher::dead);
                ASSERT_EQ(keeps.accepts(next), forgets.accepts(same));
                if (next != grammar_matcher::dead) possible += c;
            }
            ASSERT_FALSE(possible.empty());
            const auto c = static_cast<unsigned char>(possible[random() % possible.size()]);
            kept = keeps.step(kept, c);
            other = forgets.step(other, c);
        }
        EXPECT_LE(forgets.memory_bytes(), keeps.memory_bytes() + 100'000);
    }
}

// One rule with very many alternatives at the start, and small states after it: each state costs
// its own size and not that of the largest.
TEST(grammar_matcher, a_large_state_does_not_make_later_ones_slow) {
    std::string rules = "root ::= big small\nsmall ::= [a-z]{0,9000}\nbig ::= ";
    for (int i = 0; i < 1500; ++i)
        rules += (i > 0 ? " | \"" : "\"") + std::to_string(i) + "\" \"!\"";
    grammar_matcher matcher(program_of(rules));
    auto at = matcher.start();
    for (const char c : std::string("7!")) at = matcher.step(at, static_cast<unsigned char>(c));
    const std::size_t bytes = matcher.memory_bytes();
    for (int i = 0; i < 5000; ++i) at = matcher.step(at, 'q');
    EXPECT_TRUE(matcher.accepts(at));
    EXPECT_LT(matcher.memory_bytes() - bytes, 5000u * 1000u);
}

TEST(pair_index, is_empty_again_when_it_is_cleared) {
    pair_index index;
    for (std::uint32_t round = 0; round < 5; ++round) {
        for (std::uint32_t i = 0; i < 1000; ++i) {
            EXPECT_EQ(index.add(i, round, i), (std::pair{i, true}));
            EXPECT_EQ(index.add(i, round, 0), (std::pair{i, false}));
        }
        const std::size_t bytes = index.memory_bytes();
        index.clear();
        EXPECT_EQ(index.memory_bytes(), bytes);
        EXPECT_TRUE(index.add(1, round, 9).second);
        index.clear();
    }
}

}  // namespace
}  // namespace semantic::engine
