// SPDX-License-Identifier: Apache-2.0
#include "engine/prompt/prefix_match.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace semantic::engine {
namespace {

constexpr storage::token_id special_token = 1;

bool is_special(storage::token_id id, std::string_view) { return id == special_token; }

// A stored text given as its tokens; a token in <> is special.
struct memory {
    std::string text;
    std::vector<storage::token_id> tokens;
    std::vector<std::uint32_t> ends;
    explicit memory(std::initializer_list<std::string> pieces) {
        for (const std::string& piece : pieces) {
            text += piece;
            tokens.push_back(piece.front() == '<' ? special_token : 7);
            ends.push_back(static_cast<std::uint32_t>(text.size()));
        }
    }
    stored_prefix view() const { return {text, tokens, ends}; }
};

// A prompt in which every <x> is a special token, but for the one at byte `text_at`.
struct spelled {
    std::string text;
    std::vector<control_token> control{};
    explicit spelled(std::string prompt, std::size_t text_at = std::string::npos)
        : text(std::move(prompt)) {
        for (std::size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at + 1))
            if (at != text_at && at + 2 < text.size() && text[at + 2] == '>')
                control.push_back({{at, at + 3}, special_token});
    }
    operator prompt_view() const { return {text, control}; }  // NOLINT: as it is used
};

boundary_rules rules(bool every_cut_safe) {
    return {[=](std::size_t) { return every_cut_safe; },
            [](storage::token_id id) { return id == special_token; },
            [](std::size_t) { return false; }, is_special};
}

TEST(match_prefix, stored_text_that_is_a_proper_prefix_is_reused_whole) {
    memory m{"<a>", "one", " two"};
    prefix_match match = match_prefix(m.view(), spelled("<a>one two three"), rules(false));
    EXPECT_EQ(match.kind, match_kind::extend);
    EXPECT_EQ(match.tokens, 3u);
    EXPECT_EQ(match.bytes, m.text.size());
}

TEST(match_read_prefix, reuses_what_was_read_up_to_a_safe_boundary) {
    memory m{"<a>", "one", " two"};
    const spelled more("<a>one twofold");
    const prefix_match unsafe = match_read_prefix(m.view(), more, rules(false));
    EXPECT_EQ(unsafe.kind, match_kind::extend);
    EXPECT_EQ(unsafe.tokens, 1u) << "behind a special token a cut is always safe";
    EXPECT_EQ(match_read_prefix(m.view(), more, rules(true)).tokens, 3u);
    // What is not longer than what was read is no other case.
    EXPECT_EQ(match_read_prefix(m.view(), spelled(m.text), rules(false)).kind, match_kind::exact);
    EXPECT_EQ(match_read_prefix(m.view(), spelled("<a>once"), rules(false)).kind,
              match_kind::diverge);
}

TEST(match_prefix, the_same_prompt_reruns_only_its_last_token) {
    memory m{"<a>", "one", " two"};
    prefix_match match = match_prefix(m.view(), spelled(m.text), rules(false));
    EXPECT_EQ(match.kind, match_kind::exact);
    EXPECT_EQ(match.tokens, 2u);
    EXPECT_EQ(match.bytes, 6u);
}

TEST(match_prefix, asking_again_before_the_stored_answer_is_exact_too) {
    memory m{"<a>", "question", "<b>", "answer", " more"};
    prefix_match match = match_prefix(m.view(), spelled("<a>question<b>"), rules(false));
    EXPECT_EQ(match.kind, match_kind::exact);
    EXPECT_EQ(match.tokens, 2u);
}

TEST(match_prefix, a_prompt_that_ends_inside_a_stored_token_falls_back_to_a_safe_boundary) {
    memory m{"<a>", "question", "<b>"};
    prefix_match match = match_prefix(m.view(), spelled("<a>quest"), rules(false));
    EXPECT_EQ(match.kind, match_kind::diverge);
    EXPECT_EQ(match.tokens, 1u);
    EXPECT_EQ(match.bytes, 3u);
}

TEST(match_prefix, divergence_keeps_everything_before_the_last_safe_boundary_whatever_its_share) {
    memory m{"<a>", "x", "<b>", "aaaa", "bbbb", "cccc", "dddd"};
    prefix_match strict = match_prefix(m.view(), spelled("<a>x<b>aaaabbZZ"), rules(false));
    EXPECT_EQ(strict.kind, match_kind::diverge);
    EXPECT_EQ(strict.tokens, 3u);
    prefix_match loose = match_prefix(m.view(), spelled("<a>x<b>aaaabbZZ"), rules(true));
    EXPECT_EQ(loose.tokens, 4u);
    EXPECT_EQ(loose.common_bytes, 13u);
}

TEST(match_prefix, nothing_in_common_is_a_miss) {
    memory m{"<a>", "one"};
    EXPECT_EQ(match_prefix(m.view(), spelled("two"), rules(true)).kind, match_kind::miss);
    EXPECT_EQ(match_prefix(m.view(), spelled(""), rules(true)).kind, match_kind::miss);
    EXPECT_EQ(match_prefix(stored_prefix{}, spelled("two"), rules(true)).kind, match_kind::miss);
}

TEST(match_prefix, a_text_cut_inside_a_character_is_extended_where_tokens_spell_the_rest_of_it) {
    memory m{"<a>", "\xC3"};
    const std::string prompt = "<a>\xC3\xA9t\xC3\xA9";
    prefix_match match = match_prefix(m.view(), spelled(prompt), rules(true));
    EXPECT_EQ(match.kind, match_kind::diverge);
    EXPECT_EQ(match.tokens, 1u);

    std::size_t asked = 0;
    boundary_rules bytes = rules(true);
    bytes.spells_rest_of_character = [&](std::size_t at) { return asked = at, true; };
    match = match_prefix(m.view(), spelled(prompt), bytes);
    EXPECT_EQ(match.kind, match_kind::extend);
    EXPECT_EQ(match.tokens, 2u);
    EXPECT_EQ(asked, 4u);
}

TEST(match_prefix, tokens_that_end_at_one_offset_are_never_parted) {
    memory m{"<a>", "x", "y"};
    m.ends[1] = m.ends[2];  // two tokens of one character
    prefix_match match = match_prefix(m.view(), spelled("<a>xyz!"), rules(true));
    EXPECT_EQ(match.kind, match_kind::extend);
    EXPECT_EQ(match_prefix(m.view(), spelled("<a>xz"), rules(true)).tokens, 1u);
}

TEST(match_prefix, text_without_a_safe_cut_asks_a_bounded_number_of_times) {
    memory m{"<a>"};
    for (int i = 0; i < 5000; ++i) {
        m.text += "a";
        m.tokens.push_back(7);
        m.ends.push_back(static_cast<std::uint32_t>(m.text.size()));
    }
    int asked = 0;
    boundary_rules counting{[&](std::size_t) { return ++asked, false; },
                            [](storage::token_id id) { return id == special_token; },
                            [](std::size_t) { return false; }, is_special};
    prefix_match match = match_prefix(m.view(), spelled(m.text.substr(0, 4000) + "b"), counting);
    EXPECT_EQ(match.tokens, 1u);
    EXPECT_LE(asked, 128);
}

TEST(match_canonical_prefix, reuses_no_token_behind_those_that_are_known_to_be_the_texts_own) {
    memory m{"<a>", "x", "<b>", "aa", "bb"};
    for (std::size_t canonical = 0; canonical <= m.tokens.size(); ++canonical) {
        prefix_match match =
            match_canonical_prefix(m.view(), canonical, spelled("<a>x<b>aabb and on"), rules(true));
        EXPECT_EQ(match.tokens, canonical);
        EXPECT_EQ(match.bytes, canonical == 0 ? 0u : m.ends[canonical - 1]);
        EXPECT_EQ(match.kind, canonical == 0                 ? match_kind::miss
                              : canonical == m.tokens.size() ? match_kind::extend
                                                             : match_kind::diverge);
    }
}

TEST(match_canonical_prefix, a_memory_is_gone_on_from_at_a_safe_boundary_only) {
    memory m{"<a>", "Good", " morn"};
    EXPECT_EQ(match_canonical_prefix(m.view(), 3, spelled("<a>Good mornings"), rules(false)).tokens,
              1u);
    boundary_rules words{[](std::size_t at) { return at == 7; },
                         [](storage::token_id) { return false; }, [](std::size_t) { return false; },
                         is_special};
    EXPECT_EQ(match_canonical_prefix(m.view(), 3, spelled("<a>Good mornings"), words).tokens, 2u);
}

TEST(match_canonical_prefix, the_prompts_last_token_is_never_taken) {
    memory m{"<a>", "question", "<b>"};
    prefix_match match = match_canonical_prefix(m.view(), 3, spelled(m.text), rules(true));
    EXPECT_EQ(match.tokens, 2u);
    EXPECT_EQ(match.kind, match_kind::diverge);
}

TEST(common_bytes, texts_part_where_one_has_a_control_token_and_the_other_its_spelling) {
    const boundary_rules any = rules(true);
    memory control{"<a>", "hi", "<b>", "x"};
    EXPECT_EQ(common_bytes(control.view(), spelled("<a>hi<b>xyz"), any), 9u);
    EXPECT_EQ(common_bytes(control.view(), spelled("<a>hi<b>xyz", 5), any), 5u);
    EXPECT_EQ(common_bytes(control.view(), spelled("<a>hi<b>", 5), any), 5u);
    EXPECT_EQ(common_bytes(control.view(), spelled("<a>hi<b>", 0), any), 0u);
    memory text{"<a>", "hi", " <", "b", ">x"};
    EXPECT_EQ(common_bytes(text.view(), spelled("<a>hi <b>xyz", 6), any), 10u);
    EXPECT_EQ(common_bytes(text.view(), spelled("<a>hi <b>xyz"), any), 6u);
    // All that they share is the beginning of the spelling.
    EXPECT_EQ(common_bytes(text.view(), spelled("<a>hi <c>"), any), 6u);
    EXPECT_EQ(common_bytes(text.view(), spelled("<a>hi <c>", 6), any), 7u);
}

TEST(common_bytes, another_control_token_of_the_same_text_is_not_the_same) {
    memory m{"<a>", "hi"};
    spelled prompt("<a>hi");
    prompt.control[0].id = special_token + 1;
    EXPECT_EQ(common_bytes(m.view(), prompt, rules(true)), 0u);
}

TEST(match_prefix, a_forged_token_is_neither_continued_nor_repeated) {
    memory control{"<a>", "hi", "<b>"};
    for (const char* prompt : {"<a>hi<b>", "<a>hi<b> and on", "<a>hi<b>x"}) {
        const prefix_match match = match_prefix(control.view(), spelled(prompt, 5), rules(true));
        EXPECT_EQ(match.kind, match_kind::diverge) << prompt;
        EXPECT_EQ(match.tokens, 2u) << prompt;
        EXPECT_EQ(match_canonical_prefix(control.view(), 3, spelled(prompt, 5), rules(true)).tokens,
                  2u);
    }
    memory text{"<a>", "hi", "<", "b>"};
    text.tokens[2] = 7;
    for (const char* prompt : {"<a>hi<b>", "<a>hi<b> and on"}) {
        EXPECT_EQ(match_prefix(text.view(), spelled(prompt), rules(true)).tokens, 2u) << prompt;
        EXPECT_EQ(match_canonical_prefix(text.view(), 4, spelled(prompt), rules(true)).tokens, 2u);
    }
}

TEST(match_tokens, reuses_what_two_texts_have_in_common_in_the_same_tokens) {
    memory stored{"<a>", "x", "<b>", "n", "or", "nes"};
    stored.tokens = {1, 2, 3, 4, 5, 6};
    memory prompt{"<a>", "x", "<b>", "n", "orn", "es", "<c>"};
    prompt.tokens = {1, 2, 3, 4, 7, 8, 9};
    prefix_match match = match_tokens(stored.view(), prompt.view());
    EXPECT_EQ(match.tokens, 4u);
    EXPECT_EQ(match.bytes, 8u);
    EXPECT_EQ(match.common_bytes, stored.text.size());
    EXPECT_EQ(match.kind, match_kind::diverge);
    // All of a memory is extended; all of a prompt leaves its last token to run.
    EXPECT_EQ(match_tokens(memory{"<a>"}.view(), memory{"<a>", "<b>"}.view()).kind,
              match_kind::extend);
    EXPECT_EQ(match_tokens(prompt.view(), prompt.view()).tokens, prompt.tokens.size() - 1);
    EXPECT_EQ(match_tokens(memory{"one"}.view(), memory{"<a>"}.view()).kind, match_kind::miss);
    EXPECT_EQ(match_tokens(stored_prefix{}, prompt.view()).kind, match_kind::miss);
}

TEST(match_tokens, equal_tokens_of_other_bytes_are_not_reused) {
    memory composed{"<a>", "\xC3\xA9", "x"}, apart{"<a>", "e\xCC\x81", "x"};
    EXPECT_EQ(match_tokens(composed.view(), apart.view()).tokens, 1u);
}

}  // namespace
}  // namespace semantic::engine
