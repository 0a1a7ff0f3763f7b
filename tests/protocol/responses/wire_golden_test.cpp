// SPDX-License-Identifier: Apache-2.0
// Whole exchanges of Responses, byte for byte: tests/protocol/wire_golden.hpp says how.

#include "tests/protocol/wire_golden.hpp"

#include <boost/json.hpp>

#include <gtest/gtest.h>

#include "protocol/models.hpp"
#include "protocol/responses/kept_response.hpp"
#include "protocol/responses/request.hpp"
#include "protocol/responses/response_stream.hpp"

namespace semantic::protocol::responses {
namespace {

using namespace wire_golden;

id_maker stream_ids(counting());
id_maker collector_ids(counting());

/// The one response that is kept.
result<void> before(const std::string& id, const item_reader& read) {
    if (id != "resp_before") return previous_not_found(id);
    const boost::json::value items =
        boost::json::parse(R"([{"type":"message","role":"user","content":"Hi"},
        {"type":"message","role":"assistant","content":[{"type":"output_text","text":"Hi."}]}])");
    for (const boost::json::value& each : items.as_array()) read(each);
    return {};
}

/// Likewise, to compare with.
std::optional<boost::json::object> known_response(const std::string& id) {
    if (id != "resp_before") return std::nullopt;
    return boost::json::object{{"model", "tiny"},
                               {"tools", boost::json::array{1}},
                               {"usage", boost::json::object{{"input_tokens", 150}}}};
}

result<repliers> parse(const std::string& body) {
    stream_ids = id_maker(counting());
    collector_ids = id_maker(counting());
    auto request = parse_response(body, {}, {.before = before, .response_of = known_response});
    if (!request) return request.error();
    if (request->model != "tiny") return no_such_model(request->model, "tiny", "");
    reply_options options{"resp_golden",
                          request->model,
                          1'700'000'000,
                          request->repeated,
                          request->text_tools,
                          request->left_out,
                          request->seals_reasoning,
                          request->tool_calls_max,
                          request->in_background,
                          request->generates};
    options.names = request->names;
    options.searches_tools = request->searches_tools;
    options.compared = request->compared;
    options.compacts = request->compacts;
    return repliers{std::make_unique<response_stream>(options, stream_ids),
                    std::make_unique<response_collector>(options, collector_ids)};
}

TEST(response_wire, golden_exchanges_are_reproduced_byte_for_byte) {
    EXPECT_GE(run_all("responses", dialect::openai, parse), 27);
}

}  // namespace
}  // namespace semantic::protocol::responses
