// SPDX-License-Identifier: Apache-2.0
// Whole exchanges of the Ollama API, byte for byte: tests/protocol/wire_golden.hpp says how. Its
// clock gains a millisecond with each look.

#include <gtest/gtest.h>

#include <memory>

#include "protocol/ollama/reply.hpp"
#include "protocol/ollama/request.hpp"
#include "tests/protocol/wire_golden.hpp"

namespace semantic::protocol::ollama {
namespace {

using namespace wire_golden;

id_maker stream_ids(counting());
id_maker collector_ids(counting());

reply_options options_of(const ollama_request& request) {
    using std::chrono::system_clock;
    const system_clock::time_point start{std::chrono::seconds(1'700'000'000)};
    reply_options options;
    options.model = request.model;
    options.asked_at = start;
    options.now = [start, looks = std::make_shared<int>(0)] {
        return start + std::chrono::milliseconds(++*looks);
    };
    return options;
}

result<repliers> parse(const std::string& body) {
    stream_ids = id_maker(counting());
    collector_ids = id_maker(counting());
    auto request = parse_chat(body);
    if (!request) return request.error();
    return repliers{std::make_unique<answer_stream>(options_of(*request), stream_ids),
                    std::make_unique<answer_collector>(options_of(*request), collector_ids)};
}

TEST(ollama_wire, golden_exchanges_are_reproduced_byte_for_byte) {
    EXPECT_GE(run_all("ollama", dialect::ollama, parse), 18);
}

}  // namespace
}  // namespace semantic::protocol::ollama
