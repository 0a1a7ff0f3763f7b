// SPDX-License-Identifier: Apache-2.0
// What a router learns of KV blocks: of each block once, in messages of a bounded size.

#include "protocol/live/kv_events.hpp"

#include <boost/json/parse.hpp>

#include <gtest/gtest.h>

namespace semantic::protocol::live {
namespace {

namespace json = boost::json;
using storage::block_hash;
using storage::blocks_removed;
using storage::blocks_stored;

block_hash name(std::uint8_t number) {
    block_hash made;
    made.bytes[0] = number;
    return made;
}

/// Blocks `first`, `first` + 1, … of one text, each of two tokens.
blocks_stored stored(std::uint8_t first, std::size_t count, block_hash parent = {}) {
    blocks_stored made;
    made.model = "tiny";
    made.parent = parent;
    made.block_tokens = 2;
    for (std::size_t i = 0; i < count; ++i) {
        const auto number = static_cast<std::uint8_t>(first + i);
        made.names.push_back(name(number));
        made.tokens.insert(made.tokens.end(), {number * 10, number * 10 + 1});
    }
    return made;
}

std::vector<json::object> told(kv_event_stream& to, const std::vector<storage::kv_event>& events) {
    std::vector<storage::kv_event_feed::message> shared;
    for (const auto& each : events)
        shared.push_back(std::make_shared<const storage::kv_event>(each));
    std::vector<json::object> found;
    for (const std::string& each : to.changes(shared, 1.5)) {
        const json::value message = json::parse(each);
        for (const json::value& event : message.at("events").as_array())
            found.push_back(event.as_object());
    }
    return found;
}

TEST(kv_event_stream, names_every_field_that_a_router_of_vllm_reads) {
    kv_event_stream stream;
    const auto events = told(stream, {stored(2, 2, name(1))});
    ASSERT_EQ(events.size(), 1u);
    EXPECT_EQ(json::value(events[0]), json::parse(R"({
        "type": "BlockStored",
        "block_hashes": ["02000000000000000000000000000000",
                         "03000000000000000000000000000000"],
        "parent_block_hash": "01000000000000000000000000000000",
        "token_ids": [20, 21, 30, 31], "block_size": 2, "lora_id": null, "medium": "DISK",
        "model": "tiny", "fingerprint": "00000000000000000000000000000000",
        "tenant": "default"})"));
    const auto gone = told(stream, {blocks_removed{{name(3)}}});
    ASSERT_EQ(gone.size(), 1u);
    EXPECT_EQ(json::value(gone[0]), json::parse(R"({
        "type": "BlockRemoved", "block_hashes": ["03000000000000000000000000000000"],
        "medium": "DISK"})"));
}

TEST(kv_event_stream, a_block_is_stored_once_and_only_what_was_stored_is_removed) {
    kv_event_stream stream;
    EXPECT_EQ(told(stream, {stored(1, 1), stored(1, 1)}).size(), 1u);
    // The middle one of three is known: two runs are left.
    const auto rest = told(stream, {stored(0, 3)});
    ASSERT_EQ(rest.size(), 2u);
    EXPECT_TRUE(rest[0].at("parent_block_hash").is_null());
    EXPECT_EQ(rest[1].at("parent_block_hash"), json::value(name(1).hex()));
    EXPECT_EQ(rest[1].at("token_ids"), json::parse("[20,21]"));
    EXPECT_EQ(told(stream, {blocks_removed{{name(9)}}}).size(), 0u);
    EXPECT_EQ(told(stream, {blocks_removed{{name(2)}}, stored(2, 1)}).size(), 2u);
}

TEST(kv_event_stream, a_long_run_is_told_in_parts_that_name_their_parents) {
    kv_event_stream stream;
    const std::size_t count = kv_event_stream::blocks_max;
    EXPECT_EQ(told(stream, {stored(1, count)}).size(), 1u);
    kv_event_stream other;
    const auto parts = told(other, {stored(1, count + 1)});
    ASSERT_EQ(parts.size(), 2u);
    EXPECT_EQ(parts[1].at("parent_block_hash"),
              json::value(name(static_cast<std::uint8_t>(count)).hex()));
    EXPECT_EQ(parts[1].at("block_hashes").as_array().size(), 1u);
}

TEST(kv_event_stream, messages_are_numbered_and_bounded_and_the_snapshot_has_an_end) {
    kv_event_stream stream;
    EXPECT_EQ(json::parse(stream.cleared(1.5)), json::parse(R"({"seq":0,"ts":1.5,"snapshot":true,
                              "events":[{"type":"AllBlocksCleared"}]})"));
    std::vector<blocks_stored> texts;
    for (std::uint8_t i = 0; i < 4; ++i) {
        blocks_stored text = stored(static_cast<std::uint8_t>(100 + i), 1);
        text.block_tokens = 20'000;
        text.tokens.assign(20'000, 12345);
        texts.push_back(text);
    }
    const auto messages = stream.snapshot(texts, 2);
    EXPECT_EQ(messages.size(), 2u);  // 120,000 bytes an event
    for (const std::string& each : messages)
        EXPECT_LE(each.size(), kv_event_stream::message_bytes + 200);
    EXPECT_TRUE(stream.snapshot({}, 2).empty());
    const json::value end = json::parse(stream.snapshot_over(3));
    EXPECT_EQ(end.at("seq"), 3);
    EXPECT_EQ(end.at("snapshot"), false);
    EXPECT_TRUE(end.at("events").as_array().empty());
}

TEST(kv_event_stream, a_model_of_any_name_is_valid_json) {
    kv_event_stream stream;
    blocks_stored odd = stored(1, 1);
    odd.model = "a \"model\"\n\\";
    EXPECT_EQ(told(stream, {odd})[0].at("model"), "a \"model\"\n\\");
}

}  // namespace
}  // namespace semantic::protocol::live
