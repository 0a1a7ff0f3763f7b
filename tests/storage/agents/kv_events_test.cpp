// SPDX-License-Identifier: Apache-2.0
// Events of the blocks on disk: a subscriber gets one when a block is written and one when it is
// removed.

#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "storage/disk/block_format.hpp"
#include "tests/storage/agents/store_test.hpp"
#include "tests/support/bytes.hpp"

namespace semantic::storage {
namespace {

using namespace semantic::storage::tests;
using semantic::tests::appending_to;
using semantic::tests::bytes_file;
using semantic::tests::temp_dir;

/// What a router makes of the events.
class follower {
  public:
    explicit follower(kv_event_feed& feed)
        : following_(feed.follow([this](kv_event_feed::message message) {
              std::visit([this](const auto& event) { take(event); }, *message);
          })) {}
    /// The tokens of a block, after those of the blocks before it.
    std::vector<token_id> text_of(const block_hash& name) const {
        const auto found = blocks.find(name);
        if (found == blocks.end()) return {};
        std::vector<token_id> text = text_of(found->second.parent);
        text.insert(text.end(), found->second.tokens.begin(), found->second.tokens.end());
        return text;
    }

    struct known {
        block_hash parent;
        std::vector<token_id> tokens;
    };
    std::map<block_hash, known> blocks;
    int stored = 0, removed = 0;  // events
    std::string model;

  private:
    void take(const blocks_stored& event) {
        ++stored;
        model = event.model;
        block_hash parent = event.parent;
        ASSERT_EQ(event.tokens.size(), event.names.size() * block_tokens);
        for (std::size_t i = 0; i < event.names.size(); ++i) {
            const auto begin = event.tokens.begin() + static_cast<std::ptrdiff_t>(i * block_tokens);
            blocks[event.names[i]] = {parent, {begin, begin + block_tokens}};
            parent = event.names[i];
        }
    }
    void take(const blocks_removed& event) {
        ++removed;
        for (const block_hash& each : event.names) blocks.erase(each);
    }
    void take(const models_changed&) {}
    kv_event_feed::subscription following_;
};

class kv_events : public store_test {
  protected:
    std::unique_ptr<agent_cache_store> open_told() {
        store_options options = options_for(directory.path());
        options.kv_events = feed;
        options.model_name = "tiny";
        return open(options);
    }
    std::vector<block_hash> names_of(const std::vector<token_id>& tokens) {
        const store_options options = options_for(directory.path());
        return storage::block_names(options.fingerprint, options.tenant_salt, tokens, block_tokens);
    }
    const std::shared_ptr<kv_event_feed> feed = std::make_shared<kv_event_feed>();
};

TEST_F(kv_events, a_save_tells_its_full_blocks_and_the_next_one_only_what_is_new) {
    const auto store = open_told();
    follower router(*feed);
    const auto tokens = some_tokens(3 * block_tokens + 5);
    put_and_save(*store, "ada", {tokens.begin(), tokens.begin() + 2 * block_tokens + 1});
    EXPECT_EQ(router.stored, 1);
    EXPECT_EQ(router.model, "tiny");
    ASSERT_EQ(router.blocks.size(), 2u);
    put_and_save(*store, "ada", tokens);
    EXPECT_EQ(router.stored, 2);
    ASSERT_EQ(router.blocks.size(), 3u);
    const auto names = names_of(tokens);
    EXPECT_EQ(router.text_of(names[2]),
              std::vector(tokens.begin(), tokens.begin() + 3 * block_tokens));
}

TEST_F(kv_events, what_two_agents_share_is_told_once_and_goes_with_the_last_of_them) {
    const auto store = open_told();
    follower router(*feed);
    const auto tokens = some_tokens(2 * block_tokens);
    put_and_save(*store, "ada", tokens);
    put_and_save(*store, "bea", tokens);
    EXPECT_EQ(router.stored, 1);
    ASSERT_TRUE(store->erase(id_of("ada")));
    EXPECT_EQ(router.blocks.size(), 2u);
    ASSERT_TRUE(store->erase(id_of("bea")));
    EXPECT_TRUE(router.blocks.empty());
}

TEST_F(kv_events, who_follows_later_is_told_by_the_agents_themselves) {
    const auto tokens = some_tokens(3 * block_tokens + 5);
    { put_and_save(*open_told(), "ada", tokens); }
    const auto store = open_told();
    ASSERT_EQ(store->ids(), std::vector{id_of("ada")});
    const auto runs = store->stored_blocks(id_of("ada"));
    ASSERT_EQ(runs.size(), 1u);
    EXPECT_EQ(runs[0].names.size(), 3u);
    EXPECT_EQ(runs[0].parent, block_hash{});
    EXPECT_EQ(runs[0].model, "tiny");
    EXPECT_EQ(runs[0].tokens, std::vector(tokens.begin(), tokens.begin() + 3 * block_tokens));
    EXPECT_TRUE(store->stored_blocks(id_of("bea")).empty());
}

TEST_F(kv_events, a_block_whose_file_was_taken_away_parts_a_text_and_is_told_as_gone) {
    const auto tokens = some_tokens(3 * block_tokens);
    const auto names = names_of(tokens);
    { put_and_save(*open_told(), "ada", tokens); }
    const auto store = open_told();
    follower router(*feed);
    std::filesystem::remove(directory / block_path(names[1], kv_part::full));
    const auto restored = store->restore(*store->find(id_of("ada")), 3 * block_tokens);
    ASSERT_TRUE(restored);
    EXPECT_EQ(restored->tokens, block_tokens);
    EXPECT_EQ(router.removed, 1);
    const auto runs = store->stored_blocks(id_of("ada"));
    ASSERT_EQ(runs.size(), 2u);
    EXPECT_EQ(runs[0].names, std::vector{names[0]});
    EXPECT_EQ(runs[1].parent, names[1]);
    EXPECT_EQ(runs[1].names, std::vector{names[2]});
}

TEST_F(kv_events, a_private_memory_is_told_to_nobody) {
    const auto store = open_told();
    put_and_save(*store, "ada", some_tokens(2 * block_tokens));
    std::string bytes;
    ASSERT_TRUE(store->export_agent(id_of("ada"), appending_to(bytes)));
    follower router(*feed);
    bytes_file file(bytes);
    ASSERT_TRUE(
        store->import_agent(id_of("bea"), file, [](const agent_state&) { return result<void>(); }));
    ASSERT_TRUE(store->save(id_of("bea")));
    EXPECT_EQ(router.stored, 0);
    EXPECT_TRUE(store->stored_blocks(id_of("bea")).empty());
}

TEST_F(kv_events, what_comes_from_another_machine_is_told_too) {
    temp_dir elsewhere;
    const auto tokens = some_tokens(2 * block_tokens + 3);
    store_options there = options_for(elsewhere.path());
    {
        const auto store = open(there);
        put_and_save(*store, "ada", tokens);
    }
    const auto store = open_told();
    follower router(*feed);
    const auto read = [&](const std::string& path) -> result<std::string> {
        return read_whole(posix_file_system(), elsewhere / path, 1 << 20);
    };
    const auto manifest = read(store->manifest_of(id_of("ada")));
    ASSERT_TRUE(manifest);
    ASSERT_TRUE(store->adopt(id_of("ada"), *manifest, read));
    EXPECT_EQ(router.text_of(names_of(tokens)[1]),
              std::vector(tokens.begin(), tokens.begin() + 2 * block_tokens));
}

TEST_F(kv_events, cost_nothing_while_nobody_follows_and_end_with_who_does) {
    int made = 0;
    const auto publish = [&] {
        feed->publish([&]() -> kv_event {
            ++made;
            return blocks_removed{};
        });
    };
    publish();
    EXPECT_EQ(made, 0);
    {
        follower one(*feed), other(*feed);
        EXPECT_EQ(feed->followers(), 2u);
        publish();
        EXPECT_EQ(made, 1);
        EXPECT_EQ(one.removed + other.removed, 2);
    }
    publish();
    EXPECT_EQ(made, 1);
    EXPECT_EQ(feed->followers(), 0u);
}

}  // namespace
}  // namespace semantic::storage
