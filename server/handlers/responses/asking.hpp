// SPDX-License-Identifier: Apache-2.0
#pragma once
// The common part of all ways to request a response, whether its client waits for a body, reads a
// stream, speaks over a WebSocket or comes back later: reading what it follows, and keeping it.

#include <boost/asio/awaitable.hpp>
#include <boost/json/object.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "protocol/responses/kept_response.hpp"
#include "protocol/responses/request.hpp"
#include "protocol/responses/response_stream.hpp"
#include "server/handlers/answer/answer.hpp"
#include "server/responses/response_registry.hpp"
#include "server/runtime/workers.hpp"

namespace semantic::server {

protocol::responses::response_limits response_limits_of(const services& server);
std::int64_t seconds_now();

/// The body, with the conversation that it continues; the body itself is gone afterwards.
/// The request's budget is made here, and pays for all that the body refers to. `own`: asked first
/// for the conversation up to a response; nothing where it knows none. A body whose conversation
/// may have to be summarised stays until compact_when_due() has looked. `summary`: replaces all
/// of the conversation.
using own_lookup =
    std::function<std::optional<std::vector<kept_responses::kept>>(const std::string& id)>;
net::awaitable<protocol::result<protocol::responses::response_request>> parse_asked(
    const services& server, const request& incoming, const own_lookup& own = {},
    std::optional<std::string> summary = {});

/// Runs `read`, which reads texts of JSON of so many bytes: here where they are short, else where
/// it keeps nobody waiting but those who read such texts too.
template <class Read>
net::awaitable<std::invoke_result_t<Read&>> read_kept(const services& server,
                                                      const request& incoming, std::size_t bytes,
                                                      Read read) {
    if (bytes <= parse_here_bytes_max) co_return read();
    co_return co_await run_on(choose_workers(server, incoming, job_length::large_job), read);
}

/// The share of the reply budget that a reply of this size holds until it is sent. Errors:
/// overloaded, when clients that read slowly have all that there is.
net::awaitable<protocol::result<std::shared_ptr<const void>>> take_reply_share(
    const services& server, std::size_t bytes);
/// Replies with what `read` makes of texts of so many bytes that are kept.
template <class Read>
net::awaitable<std::optional<response>> reply_with_kept(const services& server,
                                                        const request& incoming, std::size_t bytes,
                                                        Read read) {
    auto share = co_await take_reply_share(server, bytes);
    if (!share) co_return error_response(incoming, share.error());
    protocol::result<std::string> body = co_await read_kept(server, incoming, bytes, read);
    if (!body) co_return error_response(incoming, body.error());
    response reply = json_response(std::move(*body));
    reply.share = std::move(*share);
    co_return reply;
}

/// Moves what the reply needs out of the request.
protocol::responses::reply_options reply_options_of(protocol::responses::response_request& parsed,
                                                    std::string id);

/// What is kept of a request in addition to its response.
struct kept_question {
    explicit kept_question(protocol::responses::response_request& parsed)
        : is_kept(parsed.is_kept),
          previous(std::move(parsed.previous)),
          conversation(std::move(parsed.conversation)),
          input(std::move(parsed.input)) {}
    bool is_kept;
    std::string previous;
    std::string conversation;
    std::string input;  // a list of items
};

/// Keeps the response in its present state, under its id, as its request wanted, and adds what was
/// asked and said to the conversation. `is_dropped`: see keep_response(). Blocks.
storage::result<void> keep_as_it_stands(const services& server, const request& incoming,
                                        const kept_question& question,
                                        const boost::json::object& response,
                                        const std::function<bool()>& is_dropped = {});

/// At the end of an answer, before its last bytes go out. One that cannot be kept says so. Of one
/// that failed nothing is kept.
template <class Reply>
class response_keeping final : public before_end {
  public:
    response_keeping(const services& server, const request& incoming, Reply& made,
                     const kept_question& question)
        : server_(server), incoming_(incoming), made_(made), question_(question) {}

    net::awaitable<void> run(std::string& last) override {
        const auto* status = made_.response().if_contains("status");
        if (status == nullptr || *status == "failed") co_return;
        auto keep = [this] {
            return keep_as_it_stands(server_, incoming_, question_, made_.response());
        };
        const storage::result<void> kept =
            co_await run_on(choose_workers(server_, incoming_, job_length::long_job), keep);
        if (kept) co_return;
        log_event(log_level::warning, incoming_.id_for_log(),
                  "response not kept: " + kept.error().what);
        last = made_.not_kept(std::move(last));
    }

  private:
    const services& server_;
    const request& incoming_;
    Reply& made_;
    const kept_question& question_;
};

/// The conversation is one response's at a time. Returns: nothing where there is none to hold.
protocol::result<std::optional<turns_in_flight::turn>> hold_conversation(const services& server,
                                                                         const request& incoming,
                                                                         const std::string& id);

}  // namespace semantic::server
