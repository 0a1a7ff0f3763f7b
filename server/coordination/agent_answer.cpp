// SPDX-License-Identifier: Apache-2.0
#include "server/coordination/agent_answer.hpp"

#include <algorithm>
#include <utility>

#include "protocol/reply_parts.hpp"
#include "server/runtime/logging.hpp"

namespace semantic::server {

using protocol::errc;
using clock = std::chrono::steady_clock;

// The event goes on before the flag is set: a reader that sees the flag also finds the event there.
void end_watcher::on_event(engine::generation_event event) noexcept {
    const bool ends = std::holds_alternative<engine::finished>(event) ||
                      std::holds_alternative<engine::failed>(event);
    to_->on_event(std::move(event));
    if (ends) ended_->store(true);
}

client_streams::client_streams(client_link& client)
    : client_(client), made_(std::make_shared<std::vector<std::weak_ptr<token_stream>>>()) {
    client.when_gone([made = made_] {
        for (auto& each : *made)
            if (auto stream = each.lock()) stream->interrupt();
    });
}

std::shared_ptr<token_stream> client_streams::make(const session_client& client) {
    auto stream =
        std::make_shared<token_stream>(client_.executor(), client.server.waking, client.account);
    if (client_.is_gone()) stream->interrupt();
    std::erase_if(*made_, [](const auto& each) { return each.expired(); });
    made_->push_back(stream);
    return stream;
}

agent_answer::agent_answer(const session_client& client, client_streams& streams,
                           engine::generation_request wanted)
    : client_(client),
      time_(wanted.deadline.value(), client.server.limits.engine_lateness),
      parser_(engine::make_output_parser(
          client.engine->info().answers,
          // The agents of a session have no tools.
          engine::offered_tools(std::vector<engine::tool_definition>()),
          {.thinks = wanted.thinking.enabled.value_or(true), .shows_progress = false})),
      events_(streams.make(client)),
      end_(std::make_shared<end_watcher>(events_)),
      generation_(client.engine, std::move(wanted), end_) {}

net::awaitable<protocol::result<heard_answer>> agent_answer::hear(text_listener listener) {
    auto last_sign = clock::now();
    while (!ended_ && !failure_) {
        const auto until = std::min(last_sign + client_.link.ping_every(), time_.until());
        auto batch = co_await events_->next(until);
        if (client_.link.is_gone()) co_return fail(errc::cancelled, "the client left");
        for (const engine::generation_event& event : batch) take(event);
        if (batch.empty() && clock::now() >= time_.until())
            co_return fail(errc::timeout, "the answer took longer than the server allows");
        const bool is_due = !fresh_.empty() || batch.empty();
        if (failure_ || !listener || !is_due) continue;
        last_sign = clock::now();
        std::string text = std::exchange(fresh_, std::string());
        if (!co_await listener(std::move(text))) co_return fail(errc::cancelled, "the client left");
    }
    if (failure_) co_return std::move(*failure_);
    co_return std::move(heard_);
}

void agent_answer::feed(const std::vector<engine::answer_piece>& pieces) {
    for (const engine::answer_piece& piece : pieces) {
        const auto* text = std::get_if<engine::answer_text>(&piece);
        if (text == nullptr) continue;
        heard_.text += text->text;
        fresh_ += text->text;
    }
}

void agent_answer::take(const engine::generation_event& event) {
    time_.take(event);
    if (const auto* admitted = std::get_if<engine::admitted>(&event)) {
        heard_.usage = admitted->usage;
    } else if (const auto* token = std::get_if<engine::token_text>(&event)) {
        feed(parser_->push(token->text));
    } else if (const auto* finished = std::get_if<engine::finished>(&event)) {
        generation_.ended();
        ended_ = true;
        const bool by_the_model = finished->why == engine::stop_reason::end_turn;
        feed(by_the_model ? parser_->finish() : parser_->cut_off());
        heard_.end = *finished;
        failure_ = protocol::unfinished(*finished);
    } else if (const auto* failed = std::get_if<engine::failed>(&event)) {
        generation_.ended();
        failure_ = protocol::from_engine(*failed);
        log_event(log_level::info, client_.request_id, "refused: " + failed->what);
    }
}

}  // namespace semantic::server
