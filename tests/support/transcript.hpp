// SPDX-License-Identifier: Apache-2.0
#pragma once
// A sink that keeps what the events of a request say, and waits for its end.

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.hpp"

namespace semantic::tests {

class transcript final : public engine::generation_sink {
  public:
    void on_event(engine::generation_event event) noexcept override {
        std::lock_guard lock(mutex_);
        if (auto* start = std::get_if<engine::admitted>(&event)) {
            usage = start->usage;
            agent = start->agent.str();
        } else if (auto* token = std::get_if<engine::token_text>(&event)) {
            choices[token->choice] += token->text;
            if (token->scores) scores.push_back(*token->scores);
            if (token->choice == 0) {
                text += token->text;
                tokens.push_back(token->token);
            }
        } else if (auto* place = std::get_if<engine::queued>(&event)) {
            queued = *place;
        } else if (auto* part = std::get_if<engine::choice_finished>(&event)) {
            choices_finished.push_back(*part);
        } else {
            ++ends;
            if (auto* end = std::get_if<engine::finished>(&event)) finished = *end;
            if (auto* end = std::get_if<engine::failed>(&event)) failed = *end;
        }
        if (on_event_hook) on_event_hook(event);
        changed_.notify_all();
    }

    /// Waits for the end. Returns: false when the request has not ended within `limit`.
    bool wait(std::chrono::seconds limit = std::chrono::seconds(120)) {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(lock, limit, [this] { return ends > 0; });
    }
    /// Waits for so many tokens of the first choice. Returns: false when neither they nor the end
    /// came within `limit`.
    bool wait_for_tokens(std::size_t count,
                         std::chrono::seconds limit = std::chrono::seconds(120)) {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(lock, limit, [&] { return tokens.size() >= count || ends > 0; });
    }

    std::optional<engine::queued> queued;
    engine::prompt_usage usage;
    std::string agent;
    std::string text;  // of the first choice, like `tokens`
    std::vector<storage::token_id> tokens;
    std::map<int, std::string> choices;  // each one's text
    std::vector<engine::choice_finished> choices_finished;
    std::vector<engine::token_scores> scores;
    std::optional<engine::finished> finished;
    std::optional<engine::failed> failed;
    int ends = 0;  // number of finished and failed events: 1 at the end
    std::function<void(const engine::generation_event&)> on_event_hook;

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
};

/// A chat of alternating user and assistant texts, the user first.
inline engine::conversation chat_of(const std::vector<std::string>& turns,
                                    std::string system = {}) {
    engine::conversation chat;
    chat.system = std::move(system);
    for (std::size_t i = 0; i < turns.size(); ++i)
        chat.messages.push_back({i % 2 == 0 ? engine::role::user : engine::role::assistant,
                                 {engine::text_part{turns[i]}}});
    return chat;
}

/// A greedy request for `agent` (empty: none).
inline engine::generation_request ask(const std::string& agent, engine::conversation chat,
                                      int max_tokens = 48) {
    engine::generation_request request;
    if (!agent.empty()) request.agent = *storage::agent_id::parse(agent);
    request.chat = std::move(chat);
    request.max_tokens = max_tokens;
    request.sampling.temperature = 0.0f;
    return request;
}

/// Submits the request and waits for its end. Returns: what its events said.
inline std::shared_ptr<transcript> run(engine::engine& engine, engine::generation_request request) {
    auto sink = std::make_shared<transcript>();
    engine.submit(std::move(request), sink);
    sink->wait();
    return sink;
}

}  // namespace semantic::tests
