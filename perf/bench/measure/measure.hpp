// SPDX-License-Identifier: Apache-2.0
#pragma once
// The measurements. Each adds rows, points and samples to the report as it goes, so that what was
// measured stays when a later request fails.
// Thread: that of the io_context. Errors: those of chat_client.

#include <boost/asio/awaitable.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "perf/bench/client/chat_client.hpp"
#include "perf/bench/measure/options.hpp"
#include "perf/bench/measure/prompts.hpp"
#include "perf/bench/report/report.hpp"
#include "perf/bench/report/statistics.hpp"

namespace semantic::bench {

/// One agent's dialogue. Turns are only appended, so that every prompt extends what the server
/// remembers.
struct conversation {
    std::string session;
    std::vector<message> messages;
};

/// What all measurements share: the client, the options, the report, and the making of prompts and
/// turns.
class bench_run {
  public:
    bench_run(chat_client& client, const options& opts, report& out);

    chat_client& client;
    const options& opts;
    report& out;

    /// Measures how many words make how many tokens, and lets the server read its weights once.
    boost::asio::awaitable<void> prepare();

    /// A conversation with a session of its own.
    conversation new_conversation();
    /// A text of about `tokens` tokens that the server cannot know, to begin a conversation.
    std::string cold_text(std::int64_t tokens);
    /// A text of about `tokens` tokens for a later turn.
    std::string turn_text(std::int64_t tokens);

    /// Takes one turn: sends `text`, records the sample as `phase` at point `target`, and appends
    /// the answer to `talk`.
    boost::asio::awaitable<generation> say(conversation& talk, std::string text,
                                           std::int64_t max_tokens, std::string phase,
                                           std::int64_t target);
    /// ask() makes the request of the next turn, settle() records its answer: for turns that run at
    /// the same time.
    generation_request ask(conversation& talk, std::string text, std::int64_t max_tokens);
    void settle(conversation& talk, const generation& answer, std::string phase,
                std::int64_t target);

    /// Has the server keep the memory of `talk` on disk only: restarts it, or has the agent
    /// evicted. Returns: whether that was possible.
    boost::asio::awaitable<bool> demote(const conversation& talk);
    /// The value of a counter of /metrics, named NAME or NAME{LABEL}; nothing where the server has
    /// none.
    boost::asio::awaitable<std::optional<double>> counter(std::string metric);
    /// Several counters at the same moment, in the order given.
    boost::asio::awaitable<std::vector<std::optional<double>>> counters(
        std::vector<std::string> metrics);
    /// The counter once it has stopped growing, or after five seconds.
    boost::asio::awaitable<std::optional<double>> settled_counter(std::string metric);

    /// Whether a conversation of `tokens` fits the model; if not, a note in the report says that
    /// `point` is left out.
    bool fits(std::int64_t tokens, std::int64_t point);

  private:
    std::uint64_t next_seed() { return seed_++; }
    /// Adds notes about an answer whose numbers do not mean what the table says.
    void check_answer(const generation& answer, const std::string& phase, std::int64_t asked);

    token_ruler ruler_;
    std::uint64_t run_id_;  // random: prompts of earlier runs may still be on disk
    std::uint64_t seed_;
    std::uint64_t sessions_ = 0;
    std::int64_t asked_ = 0;  // max_tokens of the last turn
};

/// A turn on memory that was on disk only. A number is empty where the server has no such counter.
struct warm_turn {
    generation answer;
    std::optional<double> from_disk;   // tokens
    std::optional<double> read_bytes;  // of files
    std::optional<double> restore_s;
};
/// Takes a turn after the memory was moved to disk. Returns: nothing where the server cannot be
/// made to hold the memory on disk only.
boost::asio::awaitable<std::optional<warm_turn>> say_warm(bench_run& run, conversation& talk,
                                                          std::int64_t target);

boost::asio::awaitable<void> measure_phases(bench_run& run);
boost::asio::awaitable<void> measure_prefill(bench_run& run);
boost::asio::awaitable<void> measure_decode(bench_run& run);
boost::asio::awaitable<void> measure_depth(bench_run& run);
boost::asio::awaitable<void> measure_agents(bench_run& run);
boost::asio::awaitable<void> measure_connections(bench_run& run);
boost::asio::awaitable<void> measure_staggered(bench_run& run);
boost::asio::awaitable<void> measure_cache(bench_run& run);
boost::asio::awaitable<void> measure_cold_warm_hot(bench_run& run);

/// Runs the subcommand that the options name.
boost::asio::awaitable<void> measure(bench_run& run);

/// The times to the first token, in seconds.
std::vector<double> firsts(const std::vector<generation>& answers);
/// `after` - `before`; nothing where either is missing.
std::optional<double> growth(const std::optional<double>& before,
                             const std::optional<double>& after);

/// The value, rounded to an integer.
cell count_cell(double value);
/// a / b, or an empty cell where b is not above zero.
cell ratio_cell(double a, double b);
/// The speed; an empty cell where nothing could be timed.
cell speed_cell(double tokens_per_s);
/// `seconds` in milliseconds; an empty cell where `measured` has no values.
cell ms_cell(const summary& measured, double seconds);

}  // namespace semantic::bench
