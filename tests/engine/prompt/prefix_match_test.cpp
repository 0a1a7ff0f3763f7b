#include "engine/prompt/prefix_match.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace semantic::engine {
namespace {

constexpr storage::token_id special_token = 1;

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

boundary_rules rules(bool every_cut_safe) {
    return {[=](std::size_t) { return every_cut_safe; },
            [](storage::token_id id) { return id == special_token; }};
}

TEST(match_prefix, stored_text_that_is_a_proper_prefix_is_reused_whole) {
    memory m{"<a>", "one", " two"};
    prefix_match match = match_prefix(m.view(), "<a>one two three", rules(false));
    EXPECT_EQ(match.kind, match_kind::extend);
    EXPECT_EQ(match.tokens, 3u);
    EXPECT_EQ(match.bytes, m.text.size());
}

TEST(match_prefix, the_same_prompt_reruns_only_its_last_token) {
    memory m{"<a>", "one", " two"};
    prefix_match match = match_prefix(m.view(), m.text, rules(false));
    EXPECT_EQ(match.kind, match_kind::exact);
    EXPECT_EQ(match.tokens, 2u);
    EXPECT_EQ(match.bytes, 6u);
}

TEST(match_prefix, asking_again_before_the_stored_answer_is_exact_too) {
    memory m{"<a>", "question", "<b>", "answer", " more"};
    prefix_match match = match_prefix(m.view(), "<a>question<b>", rules(false));
    EXPECT_EQ(match.kind, match_kind::exact);
    EXPECT_EQ(match.tokens, 2u);
}

TEST(match_prefix, a_prompt_that_ends_inside_a_stored_token_falls_back_to_a_safe_boundary) {
    memory m{"<a>", "question", "<b>"};
    prefix_match match = match_prefix(m.view(), "<a>quest", rules(false));
    EXPECT_EQ(match.kind, match_kind::diverge);
    EXPECT_EQ(match.tokens, 1u);
    EXPECT_EQ(match.bytes, 3u);
}

TEST(match_prefix, divergence_keeps_everything_before_the_last_safe_boundary_whatever_its_share) {
    memory m{"<a>", "x", "<b>", "aaaa", "bbbb", "cccc", "dddd"};
    prefix_match strict = match_prefix(m.view(), "<a>x<b>aaaabbZZ", rules(false));
    EXPECT_EQ(strict.kind, match_kind::diverge);
    EXPECT_EQ(strict.tokens, 3u);
    prefix_match loose = match_prefix(m.view(), "<a>x<b>aaaabbZZ", rules(true));
    EXPECT_EQ(loose.tokens, 4u);
    EXPECT_EQ(loose.common_bytes, 13u);
}

TEST(match_prefix, nothing_in_common_is_a_miss) {
    memory m{"<a>", "one"};
    EXPECT_EQ(match_prefix(m.view(), "two", rules(true)).kind, match_kind::miss);
    EXPECT_EQ(match_prefix(m.view(), "", rules(true)).kind, match_kind::miss);
    EXPECT_EQ(match_prefix(stored_prefix{}, "two", rules(true)).kind, match_kind::miss);
}

TEST(match_prefix, a_stored_text_cut_inside_a_character_is_not_extended_there) {
    memory m{"<a>", "\xC3"};
    prefix_match match = match_prefix(m.view(), "<a>\xC3\xA9t\xC3\xA9", rules(true));
    EXPECT_EQ(match.kind, match_kind::diverge);
    EXPECT_EQ(match.tokens, 1u);
}

TEST(match_prefix, tokens_that_end_at_one_offset_are_never_parted) {
    memory m{"<a>", "x", "y"};
    m.ends[1] = m.ends[2];  // two tokens of one character
    prefix_match match = match_prefix(m.view(), "<a>xyz!", rules(true));
    EXPECT_EQ(match.kind, match_kind::extend);
    EXPECT_EQ(match_prefix(m.view(), "<a>xz", rules(true)).tokens, 1u);
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
                            [](storage::token_id id) { return id == special_token; }};
    prefix_match match = match_prefix(m.view(), m.text.substr(0, 4000) + "b", counting);
    EXPECT_EQ(match.tokens, 1u);
    EXPECT_LE(asked, 128);
}

}  // namespace
}  // namespace semantic::engine
