// SPDX-License-Identifier: Apache-2.0
#include "storage/agents/prefix_index.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <list>
#include <random>
#include <string>

#include "tests/storage/agents/store_fixture.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::storage {
namespace {

using namespace semantic::storage::tests;

std::shared_ptr<const agent_state> named(const std::string& id, std::string text) {
    agent_state state{id_of(id)};
    state.text = std::move(text);
    return std::make_shared<const agent_state>(std::move(state));
}

// Few letters and short words, so that prefixes of every length are shared.
std::string some_text(std::mt19937& random, std::size_t bytes_max) {
    std::string text;
    for (std::size_t i = random() % (bytes_max + 1); i > 0; --i)
        text += static_cast<char>(random() % 8 == 0 ? 0xfe : 'a' + random() % 2);
    return text;
}

TEST(common_prefix_bytes, finds_the_first_difference_wherever_it_is) {
    std::string text(2000, 'x');
    for (std::size_t at : {0, 1, 255, 256, 257, 511, 512, 1998, 1999}) {
        std::string other = text;
        other[at] = 'y';
        EXPECT_EQ(common_prefix_bytes(text, other), at);
    }
    EXPECT_EQ(common_prefix_bytes(text, text), text.size());
    EXPECT_EQ(common_prefix_bytes(text, text.substr(0, 300)), 300u);
    EXPECT_EQ(common_prefix_bytes(text, ""), 0u);
}

TEST(prefix_index, the_closest_agents_are_those_that_a_look_at_every_agent_finds) {
    std::mt19937 random(7);
    prefix_index index;
    std::list<std::shared_ptr<const agent_state>> agents;  // the index points into it
    for (int step = 0; step < 4000; ++step) {
        if (agents.empty() || random() % 3 != 0) {
            std::string text = some_text(random, 12);
            if (!agents.empty() && random() % 2 == 0) text = agents.back()->text + text;
            agents.push_front(named("a" + std::to_string(step), text.substr(0, 40)));
            index.add(&agents.front());
        } else {
            auto gone = std::next(agents.begin(), static_cast<long>(random() % agents.size()));
            index.remove(&*gone);
            agents.erase(gone);
        }
        ASSERT_EQ(index.agent_count(), agents.size());
        const std::string prompt =
            agents.empty() || random() % 2 == 0
                ? some_text(random, 20)
                : std::next(agents.begin(), static_cast<long>(random() % agents.size()))
                          ->get()
                          ->text +
                      some_text(random, 3);
        std::vector<std::size_t> expected;
        for (const auto& agent : agents)
            if (std::size_t common = common_prefix_bytes(agent->text, prompt); common > 0)
                expected.push_back(common);
        std::sort(expected.rbegin(), expected.rend());
        expected.resize(std::min<std::size_t>(expected.size(), 5));
        std::vector<std::size_t> found;
        for (const prefix_neighbour& each : index.closest({}, prompt, 5)) {
            EXPECT_EQ(common_prefix_bytes(each.state->text, prompt), each.common_bytes);
            found.push_back(each.common_bytes);
        }
        ASSERT_EQ(found, expected) << "step " << step;
    }
}

TEST(prefix_index, another_state_of_the_same_text_may_take_the_place_of_the_first) {
    prefix_index index;
    auto slot = named("a", "one text");
    index.add(&slot);
    slot = named("a", "one text");
    EXPECT_EQ(index.closest({}, "one text, two", 1).at(0).state, slot);
    index.remove(&slot);
    EXPECT_TRUE(index.closest({}, "one text", 1).empty());
}

TEST(prefix_index, a_tenant_finds_nobody_elses_text) {
    const tenant_id first{checksum128("first")}, second{checksum128("second")};
    prefix_index index;
    std::list<std::shared_ptr<const agent_state>> agents;
    for (const tenant_id& tenant : {tenant_id{}, first, second})
        for (const char* text : {"abc", "abd", "b"}) {
            agent_state state{id_of("agent").owned_by(tenant)};
            state.text = text;
            agents.push_back(std::make_shared<const agent_state>(std::move(state)));
            index.add(&agents.back());
        }
    for (const tenant_id& tenant : {tenant_id{}, first, second}) {
        const auto found = index.closest(tenant, "abcd", 9);
        ASSERT_EQ(found.size(), 2u);
        for (const prefix_neighbour& each : found) EXPECT_EQ(each.state->id.tenant(), tenant);
    }
    EXPECT_TRUE(index.closest({checksum128("third")}, "abcd", 9).empty());
}

// 1 ms is the promise; the bound leaves room for a machine that does ten other things.
TEST(prefix_index, ten_thousand_agents_of_8000_tokens_are_searched_in_about_a_millisecond) {
    std::mt19937 random(1);
    std::string shared;
    for (int i = 0; i < 32'000; ++i) shared += static_cast<char>('a' + random() % 26);
    prefix_index index;
    std::list<std::shared_ptr<const agent_state>> agents;
    for (int i = 0; i < 10'000; ++i) {
        agents.push_back(named("a" + std::to_string(i), shared + std::to_string(random())));
        index.add(&agents.back());
    }
    const std::string prompt = agents.front()->text + "and on";
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 100; ++i)
        ASSERT_EQ(index.closest({}, prompt, 1).at(0).common_bytes, prompt.size() - 6);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
}

}  // namespace
}  // namespace semantic::storage
