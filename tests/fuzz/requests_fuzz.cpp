// SPDX-License-Identifier: Apache-2.0
// Bodies of requests that nobody wrote, to every dialect: each is a request, or an error that names
// its reason and whose reply is JSON, whatever the client has sent.

#include <cstdint>
#include <string>
#include <string_view>

#include "protocol/admin.hpp"
#include "protocol/agents/agents.hpp"
#include "protocol/agents/generate.hpp"
#include "protocol/anthropic/messages.hpp"
#include "protocol/coordination/api.hpp"
#include "protocol/coordination/opening.hpp"
#include "protocol/live/dialogue.hpp"
#include "protocol/live/nodes.hpp"
#include "protocol/ollama/request.hpp"
#include "protocol/openai/chat.hpp"
#include "protocol/openai/completions.hpp"
#include "protocol/responses/conversations.hpp"
#include "protocol/responses/request.hpp"
#include "protocol/responses/socket_message.hpp"
#include "protocol/scenarios/api.hpp"
#include "protocol/wire/api_error.hpp"
#include "protocol/wire/json.hpp"
#include "storage/types/assert.hpp"

using namespace semantic::protocol;

namespace {

template <class Request>
void check(const result<Request>& request, dialect spoken) {
    if (request) return;
    ASSERT(!request.error().message.empty());
    const error_reply reply = make_error_reply(spoken, request.error(), "req_1");
    ASSERT(reply.status >= 400 && reply.status < 500);
    ASSERT(parse_json(reply.body, {}));
}

void say_live(std::string_view message) {
    live::dialogue client;
    const live::dialogue::time now{};
    client.opened(true, now);
    const live::answer answer = client.said(message, now);
    ASSERT(answer.send.empty() || parse_json(answer.send, {}));
}

/// What another server says of itself, in bytes that nobody wrote.
void show_node(std::string_view says) {
    const live::shown_node node{"id", "", false, {}, std::string(says)};
    ASSERT(parse_json(live::nodes_text(std::span(&node, 1)), {}));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t count) {
    const std::string_view body(reinterpret_cast<const char*>(data), count);
    check(anthropic::parse_messages(body), dialect::anthropic);
    check(anthropic::parse_count_tokens(body), dialect::anthropic);
    check(openai::parse_chat(body), dialect::openai);
    check(openai::parse_completion(body), dialect::openai);
    check(responses::parse_response(body), dialect::openai);
    check(responses::parse_conversation(body, {}), dialect::openai);
    check(responses::parse_metadata(body, {}), dialect::openai);
    check(responses::parse_items(body, {}), dialect::openai);
    check(responses::read_socket_message(body), dialect::openai);
    check(responses::steer_failed(body), dialect::openai);
    check(ollama::parse_chat(body), dialect::ollama);
    check(ollama::parse_generate(body), dialect::ollama);
    check(ollama::parse_model_name(body), dialect::ollama);
    check(agents::parse_generate(body), dialect::native);
    check(agents::parse_name(body), dialect::native);
    check(agents::parse_path_id(body), dialect::native);
    check(admin::parse_swap(body), dialect::native);
    check(admin::parse_unload(body), dialect::native);
    check(coordination::parse_turn(body, false), dialect::native);
    check(coordination::parse_turn(body, true), dialect::native);
    check(coordination::parse_whisper(body), dialect::native);
    check(coordination::parse_vote(body), dialect::native);
    check(coordination::parse_decision(body), dialect::native);
    check(coordination::parse_opening(body, "s", [] { return std::string("a"); }), dialect::native);
    check(scenarios::parse_run(body), dialect::native);
    say_live(body);
    show_node(body);
    return 0;
}
