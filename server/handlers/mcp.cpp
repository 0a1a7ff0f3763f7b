// SPDX-License-Identifier: Apache-2.0
#include "server/handlers/mcp.hpp"

#include <boost/asio/steady_timer.hpp>
#include <boost/json.hpp>

#include <chrono>
#include <string>
#include <utility>
#include <variant>

#include "protocol/mcp/message.hpp"
#include "protocol/mcp/tools.hpp"
#include "protocol/wire/ids.hpp"
#include "protocol/wire/json.hpp"
#include "server/handlers/agents.hpp"
#include "server/handlers/answer/answer.hpp"
#include "server/handlers/scenario_runs.hpp"
#include "server/runtime/tokens.hpp"
#include "server/runtime/version.hpp"

namespace semantic::server {

namespace {

namespace json = boost::json;
namespace mcp = protocol::mcp;
using reply = std::optional<response>;

// How much of a handler's stream held_link keeps; its first event has all that is needed.
constexpr std::size_t kept_bytes_max = 64 * 1024;
// Deleting a branch is retried, because it stays in use for a moment after its answer.
constexpr int drops_max = 40;
constexpr std::chrono::milliseconds drop_pause{50};

/// Replaces the client for a handler that streams: keeps the beginning of what it writes and sends
/// nothing.
class held_link final : public client_link {
  public:
    explicit held_link(client_link& client) : client_(client) {}

    net::any_io_executor executor() override { return client_.executor(); }
    net::awaitable<bool> write(std::string bytes) override {
        begin_ += bytes.substr(0, kept_bytes_max - begin_.size());
        co_return !client_.is_gone();
    }
    bool is_gone() const override { return client_.is_gone(); }
    void when_gone(std::function<void()> notify) override { client_.when_gone(std::move(notify)); }
    std::chrono::milliseconds ping_every() const override { return client_.ping_every(); }
    bool keep_alive() const override { return false; }
    net::awaitable<std::optional<net::ip::tcp::socket>> take_socket() override {
        co_return std::nullopt;
    }
    void streamed(int) override {}
    const std::string& begin() const noexcept { return begin_; }

  private:
    client_link& client_;
    std::string begin_;
};

/// A request by the client of `incoming` to another route of this server. `parameter`: its {id}.
/// `query`: with its ?.
request inner_request(const request& incoming, std::string_view method, std::string parameter,
                      std::string body = {}, std::string_view query = {}) {
    request inner = incoming;
    inner.method = method;
    inner.target = std::string("/mcp").append(query);
    inner.parameter = std::move(parameter);
    inner.body = std::move(body);
    inner.drop_body = {};
    inner.http_1_0 = true;  // what is streamed has no chunks
    return inner;
}

/// Asks a question to a temporary fork of the agent, so that its own memory stays unchanged, and
/// deletes the fork.
net::awaitable<reply> recall(const services& parts, const request& incoming, client_link& client,
                             const mcp::planned_call& call) {
    const std::string branch = protocol::id_maker(random_bits).make("recall_");
    const request fork = inner_request(incoming, "POST", call.subject,
                                       protocol::to_text(json::object{{"agent_id", branch}}));
    reply made = co_await post_agent_fork(parts, fork, client);
    if (!made || made->status != 201) co_return made;
    const request ask = inner_request(incoming, "POST", branch, call.body);
    reply said = co_await post_agent_generate(parts, ask, client);
    const request drop = inner_request(incoming, "DELETE", branch);
    net::steady_timer pause(client.executor());
    for (int tries = 0; tries < drops_max; ++tries) {
        const reply dropped = co_await delete_agent(parts, drop, client);
        // 409: the branch is still in use.
        if (!dropped || dropped->status != 409) break;
        pause.expires_after(drop_pause);
        [[maybe_unused]] auto [error] = co_await pause.async_wait(use_tuple);
    }
    co_return said;
}

/// The run_id that a stream's first event has; empty: none.
std::string run_id_of(std::string_view stream) {
    constexpr std::string_view key = R"("run_id":")";
    const std::size_t found = stream.find(key);
    if (found == std::string_view::npos) return {};
    const std::string_view id = stream.substr(found + key.size());
    return std::string(id.substr(0, id.find('"')));
}

/// Runs a scenario to its end. Returns: the state of the run.
net::awaitable<reply> run_scenario(const services& parts, const request& incoming,
                                   client_link& client, const mcp::planned_call& call) {
    held_link held(client);
    const request run = inner_request(incoming, "POST", call.subject, call.body);
    reply refused = co_await post_scenario_run(parts, run, held);
    if (refused || client.is_gone()) co_return refused;
    const request look = inner_request(incoming, "GET", run_id_of(held.begin()));
    co_return co_await get_run(parts, look, client);
}

/// Calls the handler of the route that does what the tool is to do.
net::awaitable<reply> carry_out(const services& parts, const request& incoming, client_link& client,
                                const mcp::planned_call& call) {
    const request get = inner_request(incoming, "GET", call.subject, {}, call.query);
    const request post = inner_request(incoming, "POST", call.subject, call.body);
    switch (call.done) {
        case mcp::action::list_agents:
            co_return co_await get_agents(parts, get, client);
        case mcp::action::inspect:
            co_return get_agent(parts, get);
        case mcp::action::fork:
            co_return co_await post_agent_fork(parts, post, client);
        case mcp::action::append:
            co_return co_await post_agent_generate(parts, post, client);
        case mcp::action::recall:
            co_return co_await recall(parts, incoming, client, call);
        case mcp::action::list_scenarios:
            co_return co_await get_scenarios(parts, get, client);
        case mcp::action::run_scenario:
            co_return co_await run_scenario(parts, incoming, client, call);
    }
    co_return std::nullopt;
}

response http_reply_of(mcp::answer answer) {
    response made = json_response(std::move(answer.body));
    made.status = answer.status;
    return made;
}

/// The MCP reply with a handler's reply as the tool's result. A 429 stays as it is, since any HTTP
/// client understands its retry-after.
response result_of(const mcp::message& asked, response done) {
    constexpr int too_many = 429;
    if (done.status == too_many) return done;
    return http_reply_of(mcp::tool_reply(asked, done.body, done.status >= 400));
}

struct named_call {
    std::string tool;
    json::object arguments;
};

/// The tool and its arguments in a message; nothing where they are not as they must be.
std::optional<named_call> call_of(const mcp::message& asked) {
    const json::value* name = asked.params.if_contains("name");
    const json::value* arguments = asked.params.if_contains("arguments");
    if (name == nullptr || !name->is_string()) return std::nullopt;
    if (arguments != nullptr && !arguments->is_object()) return std::nullopt;
    return named_call{std::string(name->get_string()),
                      arguments != nullptr ? arguments->get_object() : json::object()};
}

mcp::message_headers headers_of(const request& incoming) {
    return {incoming.field("mcp-protocol-version"), incoming.field("mcp-method"),
            incoming.field("mcp-name")};
}

}  // namespace

net::awaitable<reply> post_mcp(const services& parts, const request& incoming,
                               client_link& client) {
    protocol::json_limits limits;
    limits.bytes_max = parts.limits.body_bytes_max;
    auto read = [&] { return mcp::parse_message(incoming.body, headers_of(incoming), limits); };
    auto message = co_await run_on(choose_workers(parts, incoming), read, incoming.gone);
    if (incoming.drop_body) incoming.drop_body();
    if (auto* refused = std::get_if<mcp::answer>(&message))
        co_return http_reply_of(std::move(*refused));
    const mcp::message& asked = std::get<mcp::message>(message);
    if (auto alone = mcp::answer_alone(asked, server_version))
        co_return http_reply_of(*std::move(alone));
    const auto named = call_of(asked);
    if (!named)
        co_return http_reply_of(mcp::refuse(asked.id, mcp::fault::invalid_params,
                                            "params: a name and an object of arguments", 200));
    auto call = mcp::plan_call(named->tool, named->arguments);
    if (!call && call.error().code == protocol::errc::not_found)
        co_return http_reply_of(
            mcp::refuse(asked.id, mcp::fault::invalid_params, call.error().message, 200));
    if (!call) co_return http_reply_of(mcp::tool_reply(asked, call.error().message, true));
    reply done = co_await carry_out(parts, incoming, client, *call);
    if (!done) co_return std::nullopt;
    co_return result_of(asked, std::move(*done));
}

}  // namespace semantic::server
