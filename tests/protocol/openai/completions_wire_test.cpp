// SPDX-License-Identifier: Apache-2.0
// Whole exchanges of completions, byte for byte: tests/protocol/wire_golden.hpp says how.

#include <gtest/gtest.h>

#include "protocol/models.hpp"
#include "protocol/openai/completions.hpp"
#include "tests/protocol/wire_golden.hpp"

namespace semantic::protocol::openai {
namespace {

using namespace wire_golden;

result<repliers> parse(const std::string& body) {
    auto request = parse_completion(body);
    if (!request) return request.error();
    if (request->model != "tiny") return no_such_model(request->model, "tiny", "");
    const reply_options options{"cmpl-golden",   request->model,         "fp_golden",
                                1'700'000'000,   request->include_usage, request->tool_calls_max,
                                request->choices};
    return repliers{std::make_unique<completion_stream>(options),
                    std::make_unique<completion_collector>(options)};
}

TEST(completion_wire, golden_exchanges_are_reproduced_byte_for_byte) {
    EXPECT_GE(run_all("completions", dialect::openai, parse), 16);
}

}  // namespace
}  // namespace semantic::protocol::openai
