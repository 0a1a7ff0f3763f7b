// SPDX-License-Identifier: Apache-2.0
#pragma once
// A JSON body that may be long, made and sent some at a time: no more of it is in memory than two
// pieces, however slowly its client reads.
// Cancelled half-way (server stop): nothing more is sent.

#include <boost/asio/awaitable.hpp>

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "protocol/wire/errc.hpp"
#include "server/handlers/answer/answer.hpp"
#include "server/http/sse_writer.hpp"
#include "server/runtime/workers.hpp"

namespace semantic::server {

/// About as large as a piece should be.
inline constexpr std::size_t reply_piece_bytes = std::size_t{256} << 10;

/// Sends a JSON body that `next()`, a result<std::string>, makes piece by piece on a worker; an
/// empty piece is the end. A body of one piece is sent as a whole. An error of the first two pieces
/// becomes the reply; a later one closes the connection, since the status was sent.
template <class Next>
net::awaitable<std::optional<response>> send_in_pieces(const answer_context& context, Next next) {
    const auto workers = choose_workers(context.server, context.incoming, job_length::long_job);
    auto make = [&next] { return next(); };
    protocol::result<std::string> first = co_await run_on(workers, make);
    if (!first) co_return error_response(context.incoming, first.error());
    protocol::result<std::string> piece = co_await run_on(workers, make);
    if (!piece) co_return error_response(context.incoming, piece.error());
    if (piece->empty()) co_return json_response(std::move(*first));
    if (context.incoming.method == "HEAD") co_return json_response({});
    running_answer counted(context.server.probe);
    sse_writer writer(context.client, context.incoming, "application/json");
    bool is_there = co_await writer.write(*first);
    first->clear();
    first->shrink_to_fit();
    while (is_there && piece && !piece->empty()) {
        is_there = co_await writer.write(*piece);
        if (is_there) piece = co_await run_on(workers, make);
    }
    if (!is_there) co_return std::nullopt;
    if (!piece) throw std::runtime_error("a reply ended early: " + piece.error().message);
    co_await writer.finish();
    co_return std::nullopt;
}

}  // namespace semantic::server
