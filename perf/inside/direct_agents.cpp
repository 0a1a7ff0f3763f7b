// SPDX-License-Identifier: Apache-2.0
#include "perf/inside/direct_agents.hpp"

#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <utility>

namespace semantic::perf {

namespace {

using clock_type = std::chrono::steady_clock;

constexpr std::chrono::minutes patience{5};

double seconds_since(clock_type::time_point start) {
    return std::chrono::duration<double>(clock_type::now() - start).count();
}

}  // namespace

/// Notes when each token came, as a client does.
class direct_agents::listener final : public engine::generation_sink {
  public:
    explicit listener(clock_type::time_point run_start) {
        answer_.sent_at = seconds_since(run_start);
    }

    void on_event(engine::generation_event event) noexcept override {
        const double now = seconds_since(sent_);
        const std::lock_guard lock(mutex_);
        if (const auto* start = std::get_if<engine::admitted>(&event)) {
            answer_.prompt_tokens = start->usage.prompt_tokens;
            answer_.cached_tokens = start->usage.reused_tokens;
        } else if (const auto* token = std::get_if<engine::token_text>(&event)) {
            answer_.text += token->text;
            answer_.content_s.push_back(now);
        } else if (const auto* end = std::get_if<engine::finished>(&event)) {
            answer_.output_tokens = end->output_tokens;
            ended_ = true;
        } else if (const auto* failure = std::get_if<engine::failed>(&event)) {
            error_ = failure->what;
            ended_ = true;
        }
        if (ended_) changed_.notify_all();
    }

    bench::generation wait() {
        std::unique_lock lock(mutex_);
        if (!changed_.wait_for(lock, patience, [&] { return ended_; }))
            throw std::runtime_error("an answer took more than five minutes");
        if (!error_.empty()) throw std::runtime_error(error_);
        if (answer_.content_s.empty()) throw std::runtime_error("an answer has no token");
        answer_.first_s = answer_.content_s.front();
        answer_.last_s = answer_.content_s.back();
        return answer_;
    }

  private:
    const clock_type::time_point sent_ = clock_type::now();
    std::mutex mutex_;
    std::condition_variable changed_;
    bench::generation answer_;
    std::string error_;
    bool ended_ = false;
};

direct_agents::direct_agents(engine::engine& runner, int count)
    : engine_(runner), chats_(static_cast<std::size_t>(count)) {
    const auto counted = [&](std::size_t words) {
        return count_tokens(bench::cold_prompt(1, 1, words));
    };
    ruler_ = bench::token_ruler::through(50, counted(50), 400, counted(400));
}

void direct_agents::prime(int context_tokens) {
    for (std::size_t i = 0; i < chats_.size(); ++i) {
        const auto seed = static_cast<std::uint64_t>(i) + 1;
        say(i, bench::cold_prompt(seed, seed, ruler_.words_for(context_tokens)), 1)->wait();
    }
}

bench::burst direct_agents::speak(int turn_tokens, int answer_tokens) {
    std::vector<std::shared_ptr<listener>> listeners;
    for (std::size_t i = 0; i < chats_.size(); ++i)
        listeners.push_back(
            say(i, bench::words(++seed_, ruler_.words_for_turn(turn_tokens)), answer_tokens));
    std::vector<bench::generation> answers;
    for (std::size_t i = 0; i < chats_.size(); ++i) {
        answers.push_back(listeners[i]->wait());
        add(i, engine::role::assistant, answers.back().text);
    }
    return bench::judge(answers);
}

std::int64_t direct_agents::count_tokens(std::string text) const {
    engine::conversation chat;
    chat.messages.push_back({engine::role::user, {engine::text_part{std::move(text)}}});
    const auto count = engine_.count_tokens(chat, {});
    if (!count) throw std::runtime_error(count.error().what);
    return *count;
}

void direct_agents::add(std::size_t agent, engine::role speaker, std::string text) {
    chats_[agent].messages.push_back({speaker, {engine::text_part{std::move(text)}}});
}

std::shared_ptr<direct_agents::listener> direct_agents::say(std::size_t agent, std::string text,
                                                            int answer_tokens) {
    add(agent, engine::role::user, std::move(text));
    engine::generation_request request;
    request.agent = *storage::agent_id::parse("bench_" + std::to_string(agent));
    request.chat = chats_[agent];
    request.max_tokens = answer_tokens;
    request.sampling.temperature = 0.0f;
    auto sink = std::make_shared<listener>(run_start_);
    engine_.submit(std::move(request), sink);
    return sink;
}

}  // namespace semantic::perf
