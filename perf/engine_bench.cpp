// What HTTP costs: agents that answer at the same time, asked in process, without server or socket.
// The same conversations and the same arithmetic as `semantic-bench agents`, which measures a
// server beside it; what lies between the two is the wire.
// Run: build/bin/engine_bench MODEL_DIR [AGENTS] [CONTEXT_TOKENS] [ANSWER_TOKENS] [ROUNDS]

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.hpp"
#include "perf/bench/burst.hpp"
#include "perf/bench/prompts.hpp"
#include "perf/scratch_directory.hpp"

namespace {

using namespace semantic;
using clock_type = std::chrono::steady_clock;

constexpr std::int64_t turn_tokens = 32;
constexpr std::chrono::minutes patience{5};

double seconds_since(clock_type::time_point start) {
    return std::chrono::duration<double>(clock_type::now() - start).count();
}

/// Notes when each token came, as a client does.
class listener final : public engine::generation_sink {
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

/// Agents with a past, and what they said so far.
class agents {
  public:
    agents(engine::engine& on, int count) : engine_(on), chats_(static_cast<std::size_t>(count)) {
        const auto counted = [&](std::size_t words) {
            return count_tokens(bench::cold_prompt(1, 1, words));
        };
        ruler_ = bench::token_ruler::through(50, counted(50), 400, counted(400));
    }

    /// Each agent reads a text of its own.
    void prime(int context_tokens) {
        for (std::size_t i = 0; i < chats_.size(); ++i) {
            const auto seed = static_cast<std::uint64_t>(i) + 1;
            say(i, bench::cold_prompt(seed, seed, ruler_.words_for(context_tokens)), 1)->wait();
        }
    }

    /// All of them answer a further turn.
    bench::burst speak(int answer_tokens) {
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

  private:
    std::int64_t count_tokens(std::string text) const {
        engine::conversation chat;
        chat.messages.push_back({engine::role::user, {engine::text_part{std::move(text)}}});
        const auto count = engine_.count_tokens(chat, {});
        if (!count) throw std::runtime_error(count.error().what);
        return *count;
    }

    void add(std::size_t agent, engine::role who, std::string text) {
        chats_[agent].messages.push_back({who, {engine::text_part{std::move(text)}}});
    }

    std::shared_ptr<listener> say(std::size_t agent, std::string text, int answer_tokens) {
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

    engine::engine& engine_;
    const clock_type::time_point run_start_ = clock_type::now();
    bench::token_ruler ruler_;
    std::vector<engine::conversation> chats_;
    std::uint64_t seed_ = 1000;
};

int number(int argc, char** argv, int index, int otherwise) {
    if (argc <= index) return otherwise;
    const int value = std::atoi(argv[index]);
    if (value < 1) throw std::runtime_error(std::string("not a number above 0: ") + argv[index]);
    return value;
}

int run(int argc, char** argv) {
    if (argc < 2) {
        std::fprintf(stderr,
                     "usage: engine_bench MODEL_DIR [AGENTS] [CONTEXT_TOKENS] [ANSWER_TOKENS] "
                     "[ROUNDS]\n");
        return 2;
    }
    const int count = number(argc, argv, 2, 16), context = number(argc, argv, 3, 1024),
              answer = number(argc, argv, 4, 256), rounds = number(argc, argv, 5, 3);
    const perf::scratch_directory caches("semantic-engine-bench");
    engine::engine_options options;
    options.model_directory = argv[1];
    options.cache_directory = caches.path();
    options.chat_template = "chatml";
    options.max_batch = count;
    auto loaded = engine::load_engine(options, {});
    if (!loaded) throw std::runtime_error(loaded.error().what);
    agents all(**loaded, count);
    all.prime(context);
    std::printf("%6s %9s %9s %7s %12s %15s %11s %11s\n", "agents", "context", "reused", "tokens",
                "total tok/s", "together tok/s", "ITL p50 ms", "ITL p99 ms");
    for (int i = 0; i < rounds; ++i) {
        const bench::burst b = all.speak(answer);
        std::printf("%6d %9.0f %9.0f %7.0f %12.1f %15.1f %11.2f %11.2f\n", count, b.prompt,
                    b.reused, b.tokens, b.total_speed, b.together_speed, b.itl.p50 * 1e3,
                    b.itl.p99 * 1e3);
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "engine_bench: %s\n", error.what());
        return 1;
    }
}
