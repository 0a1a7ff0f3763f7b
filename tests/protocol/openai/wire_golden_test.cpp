// SPDX-License-Identifier: Apache-2.0
// Whole exchanges of chat completions, byte for byte: tests/protocol/wire_golden.hpp says how.

#include "tests/protocol/wire_golden.hpp"

#include <gtest/gtest.h>

#include "protocol/models.hpp"
#include "protocol/openai/chat.hpp"
#include "protocol/openai/chat_stream.hpp"

namespace semantic::protocol::openai {
namespace {

using namespace wire_golden;

id_maker stream_ids(counting());
id_maker collector_ids(counting());

result<repliers> parse(const std::string& body) {
    stream_ids = id_maker(counting());
    collector_ids = id_maker(counting());
    auto request = parse_chat(body);
    if (!request) return request.error();
    if (request->model != "tiny") return no_such_model(request->model, "tiny", "");
    reply_options options{"chatcmpl-golden", request->model,         "fp_golden",
                          1'700'000'000,     request->include_usage, request->tool_calls_max,
                          request->choices,  request->left_out,      request->text_tools};
    return repliers{std::make_unique<chat_stream>(options, stream_ids),
                    std::make_unique<chat_collector>(options, collector_ids)};
}

TEST(chat_wire, golden_exchanges_are_reproduced_byte_for_byte) {
    EXPECT_GE(run_all("openai", dialect::openai, parse), 12);
}

}  // namespace
}  // namespace semantic::protocol::openai
