// SPDX-License-Identifier: Apache-2.0
// Whole exchanges of the Messages API, byte for byte: tests/protocol/wire_golden.hpp says how.

#include "tests/protocol/wire_golden.hpp"

#include <gtest/gtest.h>

#include "protocol/anthropic/message_stream.hpp"
#include "protocol/anthropic/messages.hpp"

namespace semantic::protocol::anthropic {
namespace {

using namespace wire_golden;

id_maker stream_ids(counting());
id_maker collector_ids(counting());

result<repliers> parse(const std::string& body) {
    stream_ids = id_maker(counting());
    collector_ids = id_maker(counting());
    auto request = parse_messages(body);
    if (!request) return request.error();
    reply_options options{"msg_golden", "req_golden", request->model, request->tool_calls_max,
                          request->shows_thinking};
    options.left_out = request->left_out;
    options.compacts = request->compacts;
    options.tool_changes = request->tool_changes;
    if (request->edits.is_asked) options.applied_edits.emplace();
    if (request->safeguards) options.safeguard_results = unsupported_safeguards();
    return repliers{std::make_unique<message_stream>(options, stream_ids),
                    std::make_unique<message_collector>(options, collector_ids)};
}

TEST(wire, golden_exchanges_are_reproduced_byte_for_byte) {
    EXPECT_GE(run_all("anthropic", dialect::anthropic, parse), 30);
}

}  // namespace
}  // namespace semantic::protocol::anthropic
