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
/// Seconds since 1970.
std::int64_t seconds_now();

/// Parses the body together with the conversation that it continues, and frees the body. One whose
/// conversation may have to be summarised stays until compact_when_due() has looked at it. The
/// request's work budget is made here and is charged for all that the body refers to. `own`: is
/// asked first for the conversation up to a response; nothing where it does not know it. `summary`:
/// replaces the whole conversation.
using own_lookup =
    std::function<std::optional<std::vector<kept_responses::kept>>(const std::string& id)>;
net::awaitable<protocol::result<protocol::responses::response_request>> parse_asked(
    const services& server, const request& incoming, const own_lookup& own = {},
    std::optional<std::string> summary = {});

/// Runs `read`, which parses kept JSON of `bytes` bytes: here where that is little, else on a
/// worker.
template <class Read>
net::awaitable<std::invoke_result_t<Read&>> read_kept(const services& server,
                                                      const request& incoming, std::size_t bytes,
                                                      Read read) {
    if (bytes <= parse_here_bytes_max) co_return read();
    co_return co_await run_on(choose_workers(server, incoming, job_length::large_job), read);
}

/// Takes the share of the reply budget that a reply of `bytes` bytes holds until it is sent.
/// Errors: overloaded, when replies to slow clients have used it up.
net::awaitable<protocol::result<std::shared_ptr<const void>>> take_reply_share(
    const services& server, std::size_t bytes);
/// Replies with the body that `read` makes from kept texts of `bytes` bytes.
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

/// Moves what the reply needs out of the parsed request. `id`: the response's.
protocol::responses::reply_options reply_options_of(protocol::responses::response_request& parsed,
                                                    std::string id);

/// The part of a request that is kept with its response.
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

/// Stores the response in its present state, if its request wants that, and adds its input and
/// output to the conversation. `is_dropped`: see keep_response(). Blocks. Errors: those of
/// keep_response(); io, where the conversation cannot be written.
storage::result<void> keep_present_state(const services& server, const request& incoming,
                                         const kept_question& question,
                                         const boost::json::object& response,
                                         const std::function<bool()>& is_dropped = {});

/// Stores a response when it is complete, before its last bytes are sent; where that fails, they
/// say so. A failed answer is not stored.
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
            return keep_present_state(server_, incoming_, question_, made_.response());
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

/// Takes the right to add to conversation `id`, which one request has at a time. Returns: nothing
/// where `id` is empty. Errors: conflict.
protocol::result<std::optional<turns_in_flight::turn>> hold_conversation(const services& server,
                                                                         const request& incoming,
                                                                         const std::string& id);

}  // namespace semantic::server
