// SPDX-License-Identifier: Apache-2.0
#include "protocol/live/kv_events.hpp"

#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>

#include <algorithm>
#include <cstdio>

#include "protocol/live/events.hpp"

namespace semantic::protocol::live {

namespace {

std::string quoted(std::string_view text) {
    return boost::json::serialize(boost::json::string(text));
}

std::string hex_list(std::span<const storage::block_hash> names) {
    std::string list = "[";
    for (const storage::block_hash& each : names) {
        if (list.size() > 1) list += ',';
        list += '"' + each.hex() + '"';
    }
    return list + ']';
}

std::string number_list(std::span<const storage::token_id> tokens) {
    std::string list = "[";
    for (const storage::token_id each : tokens) {
        if (list.size() > 1) list += ',';
        list += std::to_string(each);
    }
    return list + ']';
}

}  // namespace

std::string kv_event_stream::cleared(double now) {
    known_.clear();
    add_event(R"({"type":"AllBlocksCleared"})");
    return finish(now, true);
}

std::vector<std::string> kv_event_stream::snapshot(std::span<const storage::blocks_stored> stored,
                                                   double now) {
    for (const storage::blocks_stored& each : stored) add(each);
    std::vector<std::string> made;
    while (!open_.empty() || !bodies_.empty()) made.push_back(finish(now, true));
    return made;
}

std::string kv_event_stream::snapshot_over(double now) { return finish(now, false); }

std::vector<std::string> kv_event_stream::changes(
    std::span<const storage::kv_event_feed::message> events, double now) {
    for (const storage::kv_event_feed::message& each : events)
        std::visit([this](const auto& event) { add(event); }, *each);
    std::vector<std::string> made;
    while (!open_.empty() || !bodies_.empty()) made.push_back(finish(now, false));
    return made;
}

/// Adds events for a run of stored blocks, each of at most blocks_max blocks. Blocks that the
/// follower knows are left out, which divides the run.
void kv_event_stream::add(const storage::blocks_stored& stored) {
    std::size_t begin = 0;
    for (std::size_t i = 0; i < stored.names.size(); ++i) {
        const bool is_new = known_.insert(stored.names[i]).second;
        if (is_new && i - begin < blocks_max) continue;
        add_part(stored, begin, i);
        begin = is_new ? i : i + 1;
    }
    add_part(stored, begin, stored.names.size());
}

/// Adds one event for the blocks [begin, end) of a run.
void kv_event_stream::add_part(const storage::blocks_stored& stored, std::size_t begin,
                               std::size_t end) {
    if (begin >= end) return;
    const auto names = std::span(stored.names).subspan(begin, end - begin);
    const auto size = static_cast<std::size_t>(stored.block_tokens);
    const auto tokens = std::span(stored.tokens).subspan(begin * size, (end - begin) * size);
    const storage::block_hash parent = begin == 0 ? stored.parent : stored.names[begin - 1];
    const bool has_parent = parent != storage::block_hash{};
    add_event(R"({"type":"BlockStored","block_hashes":)" + hex_list(names) +
              R"(,"parent_block_hash":)" + (has_parent ? quoted(parent.hex()) : "null") +
              R"(,"token_ids":)" + number_list(tokens) + R"(,"block_size":)" +
              std::to_string(stored.block_tokens) + R"(,"lora_id":null,"medium":"DISK","model":)" +
              quoted(stored.model) + R"(,"fingerprint":)" + quoted(stored.fingerprint.hex()) +
              R"(,"tenant":)" + quoted(tenant_name(stored.tenant)) + '}');
}

/// Adds an event for removed blocks; those that the follower does not know are left out.
void kv_event_stream::add(const storage::blocks_removed& removed) {
    std::vector<storage::block_hash> names;
    for (const storage::block_hash& each : removed.names)
        if (known_.erase(each) > 0) names.push_back(each);
    if (names.empty()) return;
    add_event(R"({"type":"BlockRemoved","block_hashes":)" + hex_list(names) +
              R"(,"medium":"DISK"})");
}

/// Appends an event to the message under way, or begins another one where it would get too long.
void kv_event_stream::add_event(const std::string& event) {
    if (!open_.empty() && open_.size() + event.size() > message_bytes)
        bodies_.push_back(std::exchange(open_, {}));
    if (!open_.empty()) open_ += ',';
    open_ += event;
}

/// Returns: the oldest message that is not sent, with its header.
std::string kv_event_stream::finish(double now, bool is_snapshot) {
    std::string body;
    if (bodies_.empty()) {
        body = std::exchange(open_, {});
    } else {
        body = std::move(bodies_.front());
        bodies_.erase(bodies_.begin());
    }
    char time[32];
    std::snprintf(time, sizeof time, "%.6f", now);
    return R"({"seq":)" + std::to_string(seq_++) + R"(,"ts":)" + time + R"(,"snapshot":)" +
           (is_snapshot ? "true" : "false") + R"(,"events":[)" + body + "]}";
}

}  // namespace semantic::protocol::live
