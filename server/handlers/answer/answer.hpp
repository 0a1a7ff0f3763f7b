// SPDX-License-Identifier: Apache-2.0
#pragma once
// The common part of all dialects' handlers: they read a request and choose the form of its reply;
// here the request goes to the engine, and its events become that reply.
// Cancelled half-way (server stop): the engine request is cancelled, nothing more is sent.

#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <optional>
#include <type_traits>

#include "engine/types/generation.hpp"
#include "protocol/identity.hpp"
#include "protocol/reply.hpp"
#include "server/http/client_link.hpp"
#include "server/http/event_sink.hpp"
#include "server/http/request.hpp"
#include "server/http/response.hpp"
#include "server/http/services.hpp"
#include "server/runtime/tokens.hpp"
#include "server/runtime/workers.hpp"
#include "server/workers/request_workers.hpp"

namespace semantic::server {

/// A step between the completion of an answer and the sending of its end.
class before_end {
  public:
    virtual ~before_end() = default;
    /// Called when the answer is complete; not when it failed before it began, or its client is
    /// gone. `last`: the bytes that are sent afterwards, a stream's end or a body; run() may
    /// replace them.
    virtual net::awaitable<void> run(std::string& last) = 0;
};

/// A request and what answers it. Everything referred to outlives the handler.
struct answer_context {
    const services& server;
    const request& incoming;
    client_link& client;
    before_end* at_end = nullptr;
    event_sink* to = nullptr;  // where a stream goes; null: to the client, as events
};

/// Sends the answer as server-sent events. Returns: a plain error reply when nothing was sent yet.
/// Requires: `wanted.deadline` is set.
net::awaitable<std::optional<response>> stream_answer(const answer_context& context,
                                                      engine::generation_request wanted,
                                                      protocol::reply_stream& as);
/// Waits for the whole answer. Returns: one body; nothing when the client left. Requires: as
/// stream_answer().
net::awaitable<std::optional<response>> collect_answer(const answer_context& context,
                                                       engine::generation_request wanted,
                                                       protocol::reply_collector& as);

/// The deadline of an answer that is requested now.
std::chrono::steady_clock::time_point answer_deadline(const services& server);
/// The headers that identify the agent and session of the client.
protocol::identity_headers identity_of(const request& incoming);
/// The client's tenant: each key has its own. Requires: the request has passed refuse_early(), the
/// engine is loaded.
storage::tenant_id tenant_of(const request& incoming);
/// The account that is charged for the request; null where the route is not metered.
std::shared_ptr<key_account> account_of(const request& incoming);
/// The agent whose memory the request extends, as far as its headers say.
protocol::result<std::optional<storage::agent_id>> agent_of_headers(const request& incoming);
/// The agent whose memory a sub-agent starts from. Requires: agent_of_headers() had no error.
protocol::result<std::optional<storage::agent_id>> parent_of_headers(const request& incoming);

/// Returns: a refusal when the name `wanted` means another model than the request's engine has, or,
/// where names are strict, no model; else nothing.
std::optional<response> refuse_other_model(const services& server, const request& incoming,
                                           std::string_view wanted);

/// Counts answers in the making, so that a stop knows when the last one is out.
class running_answer {
  public:
    explicit running_answer(server_probe& probe) : probe_(probe) {
        probe_.answers_running.fetch_add(1);
    }
    ~running_answer() { probe_.answers_running.fetch_sub(1); }
    running_answer(const running_answer&) = delete;
    running_answer& operator=(const running_answer&) = delete;

  private:
    server_probe& probe_;
};

// A body beyond this takes longer to parse than an I/O thread may be held.
constexpr std::size_t parse_here_bytes_max = 64 * 1024;

/// Runs `parse` here, or on a worker when the body is long. A long body is freed afterwards.
template <class Parse>
net::awaitable<std::invoke_result_t<Parse&>> parse_body(const services& server,
                                                        const request& incoming, Parse parse) {
    if (incoming.body.size() <= parse_here_bytes_max) co_return parse();
    auto parsed = co_await run_on(choose_workers(server, incoming), parse, incoming.gone);
    if (incoming.drop_body) incoming.drop_body();
    co_return parsed;
}

}  // namespace semantic::server
