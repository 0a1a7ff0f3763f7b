// SPDX-License-Identifier: Apache-2.0
#pragma once
// One answer of one agent: its constructor sends the request, hear() waits for the end. Several may
// run side by side for one client. Owner: a coroutine on the client's strand. Leaving its scope
// early cancels the engine's work.

#include <boost/asio/awaitable.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/text/output/output_parser.hpp"
#include "engine/types/generation.hpp"
#include "protocol/wire/errc.hpp"
#include "server/engines/answer_clock.hpp"
#include "server/engines/engine_slot.hpp"
#include "server/http/client_link.hpp"
#include "server/http/services.hpp"
#include "server/runtime/token_stream.hpp"
#include "server/runtime/tokens.hpp"
#include "storage/types/ids.hpp"

namespace semantic::server {

/// The client that asks for turns of a session, and what serving it needs. What is referred to
/// outlives the objects made with it.
struct session_client {
    const services& server;
    client_link& link;
    storage::tenant_id tenant;
    std::string request_id;                  // for the log
    engine_lease engine;                     // of the request
    boost::asio::any_io_executor workers;    // runs work that would block the strand
    std::shared_ptr<key_account> account{};  // that the tokens are counted for; null: none
};

/// Makes the streams of events that one client waits for, and interrupts all of them when the
/// client is gone.
class client_streams {
  public:
    /// `client` outlives everything that is made here.
    explicit client_streams(client_link& client);
    /// A new stream; already interrupted where the client is gone.
    std::shared_ptr<token_stream> make(const session_client& client);

  private:
    client_link& client_;
    // Shared with the client's callback, which interrupts those that still exist.
    std::shared_ptr<std::vector<std::weak_ptr<token_stream>>> made_;
};

/// A request that the engine works on for an agent of a session.
struct engine_run {
    engine::request_id id = 0;
    std::shared_ptr<const std::atomic<bool>> has_ended;  // it no longer touches the agent
};

/// Passes a request's events on to another sink, and sets a flag after the last one.
class end_watcher final : public engine::generation_sink {
  public:
    explicit end_watcher(std::shared_ptr<engine::generation_sink> to) : to_(std::move(to)) {}
    void on_event(engine::generation_event event) noexcept override;
    void on_group_end() noexcept override { to_->on_group_end(); }
    /// The flag; it may be read after this object is gone.
    std::shared_ptr<const std::atomic<bool>> has_ended() const { return ended_; }

  private:
    std::shared_ptr<engine::generation_sink> to_;
    std::shared_ptr<std::atomic<bool>> ended_ = std::make_shared<std::atomic<bool>>(false);
};

struct heard_answer {
    std::string text;  // without reasoning
    engine::prompt_usage usage;
    engine::finished end;
};

/// Called with new text of the answer; with an empty one as a sign of life when there is none for a
/// while. Returns: false when the client is gone.
using text_listener = std::function<net::awaitable<bool>(std::string)>;

class agent_answer {
  public:
    /// Sends the request `wanted` to the engine. Requires: it has an agent and a deadline.
    agent_answer(const session_client& client, client_streams& streams,
                 engine::generation_request wanted);
    /// Waits for the end of the answer and passes its text to `listener`, which may be empty.
    /// Errors: what the engine refuses; cancelled, when the client left; timeout.
    net::awaitable<protocol::result<heard_answer>> hear(text_listener listener);
    /// The engine's request, for session_registry::locked_session::add_run().
    engine_run run() const { return {generation_.id(), end_->has_ended()}; }

  private:
    /// Handles one event of the engine.
    void take(const engine::generation_event& event);
    /// Adds the text of these pieces to the answer. Reasoning is dropped.
    void feed(const std::vector<engine::answer_piece>& pieces);

    const session_client& client_;
    answer_clock time_;
    std::unique_ptr<engine::output_parser> parser_;
    std::shared_ptr<token_stream> events_;
    std::shared_ptr<end_watcher> end_;
    running_request generation_;
    heard_answer heard_;
    std::string fresh_;  // heard, and not passed to the listener yet
    std::optional<protocol::failure> failure_;
    bool ended_ = false;
};

}  // namespace semantic::server
