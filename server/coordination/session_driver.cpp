// SPDX-License-Identifier: Apache-2.0
#include "server/coordination/session_driver.hpp"

#include <utility>

#include "protocol/coordination/ballot.hpp"
#include "server/coordination/session_keeper.hpp"
#include "server/http/request.hpp"
#include "server/runtime/workers.hpp"
#include "storage/types/hex.hpp"

namespace semantic::server {

namespace coordination = protocol::coordination;
using coordination::session;
using protocol::errc;

namespace {

// Of the answer to a question aside (a vote or an urgency), which is short JSON.
constexpr int aside_tokens_max = 512;
// No text has more bytes for a token on average. Longer reading can never fit the context, so its
// prompt is not even put together.
constexpr std::size_t bytes_per_token_most = 32;
// The most bytes that a turn adds to its session, apart from what its agent reads (which is kept
// twice).
constexpr std::size_t turn_bytes = std::size_t{64} << 10;
// Longer reading is left for the turn itself.
constexpr std::size_t read_ahead_bytes_max = std::size_t{1} << 20;

/// The sink of a request that reads ahead. Counts the prompt tokens that were computed.
class counts_reading final : public engine::generation_sink {
  public:
    explicit counts_reading(std::shared_ptr<std::atomic<int>> tokens)
        : tokens_(std::move(tokens)) {}
    void on_event(engine::generation_event event) noexcept override {
        if (const auto* begun = std::get_if<engine::admitted>(&event))
            tokens_->fetch_add(begun->usage.prompt_tokens - begun->usage.reused_tokens);
    }

  private:
    std::shared_ptr<std::atomic<int>> tokens_;
};

std::vector<std::string> names_of(const session& s) {
    std::vector<std::string> names;
    for (const auto& each : s.agents) names.push_back(each.name);
    return names;
}

const coordination::agent& agent_at(const session& s, int index) {
    return s.agents[static_cast<std::size_t>(index)];
}

/// The turns that are known to come next: in broadcast all of a new round, else the next one.
std::vector<coordination::turn_plan> next_turns(const session& s) {
    const bool side_by_side = s.form == coordination::topology::broadcast;
    if (side_by_side && s.is_active() && s.place == 0) return coordination::rest_of_round(s);
    if (side_by_side) return {};
    const coordination::turn_wish whoever_is_next;
    auto plan = coordination::next_turn(s, whoever_is_next);
    return plan ? std::vector<coordination::turn_plan>{*plan}
                : std::vector<coordination::turn_plan>();
}

}  // namespace

std::string new_hex_id(std::string_view prefix) {
    return std::string(prefix) + storage::hex_of(random_bits()).substr(0, 12);
}

session_driver::session_driver(const session_client& client, std::string session_id,
                               coordination::answer_wish how, event_sender send,
                               end_listener at_end)
    : client_(client),
      sessions_(client.server.sessions),
      id_(std::move(session_id)),
      how_(std::move(how)),
      send_(std::move(send)),
      at_end_(std::move(at_end)),
      streams_(client.link) {}

engine::generation_request session_driver::request_for(const locked_session& locked, int agent,
                                                       coordination::prompt asked) const {
    engine::generation_request wanted;
    wanted.tenant = client_.tenant;
    wanted.agent = locked.agent_id(agent);
    wanted.chat = std::move(asked.chat);
    wanted.append = asked.append;
    // A new name for the end of this answer: what is appended later follows the latest one.
    wanted.message_id = new_hex_id("end:");
    wanted.sampling = how_.sampling;
    if (!wanted.sampling.seed) wanted.sampling.seed = client_.server.seed.get();
    wanted.thinking.enabled = how_.thinking;
    wanted.max_tokens = how_.max_tokens;
    wanted.deadline = std::chrono::steady_clock::now() + client_.server.settings.request_timeout;
    return wanted;
}

protocol::result<void> session_driver::check_reading(const locked_session& locked, int agent,
                                                     std::size_t reads) const {
    const std::size_t bytes = coordination::unread_bytes(locked.now(), agent, reads);
    const int context = client_.engine->info().context_tokens_max;
    const std::size_t most = static_cast<std::size_t>(context) * bytes_per_token_most;
    if (bytes > most)
        return fail(errc::prompt_too_long, "agent " + agent_at(locked.now(), agent).id +
                                               " would have to read " + std::to_string(bytes) +
                                               " bytes; the context has " +
                                               std::to_string(context) + " tokens");
    return locked.check_space(2 * bytes + turn_bytes);
}

protocol::result<session_driver::open_turn> session_driver::begin(
    const locked_session& locked, const coordination::turn_plan& plan, int turn) {
    if (auto ok = check_reading(locked, plan.agent, plan.reads); !ok) return ok.error();
    coordination::prompt asked =
        coordination::prompt_of(locked.now(), locked.memory_of(plan.agent), plan);
    std::string reading = asked.reading;
    auto wanted = request_for(locked, plan.agent, std::move(asked));
    auto answer = std::make_unique<agent_answer>(client_, streams_, std::move(wanted));
    locked.add_run(answer->run());
    return open_turn{plan, turn, std::move(reading), locked.agent_id(plan.agent),
                     std::move(answer)};
}

text_listener session_driver::sends_pings() {
    if (!send_) return {};
    return [this](std::string) { return send_(coordination::ping_event()); };
}

text_listener session_driver::sends_tokens_of(coordination::shown_agent speaker,
                                              coordination::streamed_turn* gathered) {
    if (!send_) return {};
    return [this, speaker = std::move(speaker), gathered,
            so_far = std::string()](std::string text) mutable {
        if (text.empty()) return send_(coordination::ping_event());
        so_far += text;
        if (gathered != nullptr) gathered->add_token(text);
        return send_(coordination::token_event(speaker, text, so_far));
    };
}

net::awaitable<protocol::result<void>> session_driver::finish(open_turn& open, last_check is_last) {
    coordination::streamed_turn streamed{open.plan.agent};
    coordination::shown_agent speaker;
    if (send_) {
        auto show = [&](const session& now) {
            const coordination::agent& agent = agent_at(now, open.plan.agent);
            speaker = {agent.id, agent.name};
            return coordination::turn_start_event(now, open.plan, open.turn);
        };
        auto event = sessions_.look(client_.tenant, id_, show);
        if (!event) co_return event.error();
        if (gathers_) streamed.start = *event;
        if (!co_await send_(std::move(*event))) co_return fail(errc::cancelled, "the client left");
    }
    auto heard = co_await open.answer->hear(
        sends_tokens_of(std::move(speaker), gathers_ ? &streamed : nullptr));
    if (!heard) co_return heard.error();
    turn_report report;
    report.memory_name = open.memory.str();
    report.usage = std::move(heard->usage);
    report.end = std::move(heard->end);
    const std::string line_id = new_hex_id("");
    auto take = [&](const locked_session& locked) {
        session& now = locked.now();
        const coordination::agent& agent = agent_at(now, open.plan.agent);
        report.turn = now.turn;
        report.read_ahead_tokens = locked.read_ahead(open.plan.agent)->exchange(0);
        report.event = {open.plan.agent, open.plan.to, open.plan.reads, line_id,
                        coordination::shown_text(heard->text, agent.name, names_of(now))};
        report.event.is_remembered =
            coordination::remember(locked.memory_of(open.plan.agent), agent,
                                   std::move(open.reading), std::move(heard->text));
        coordination::apply(now, report.event);
        std::string complete = send_ ? coordination::turn_complete_event(now, report) : "";
        taken_.reports.push_back(std::move(report));
        if (gathers_) {
            streamed.complete = complete;
            taken_.streamed.push_back(std::move(streamed));
        }
        const bool is_end = is_last(now);
        if (is_end && at_end_) at_end_(locked, taken_);
        return complete;
    };
    auto event = run_locked(take);
    if (!event) co_return event.error();
    if (!send_) co_return protocol::result<void>();
    // Written before the event is sent: a turn that a client has seen is there after a restart.
    auto keep = [&] { return keep_session(sessions_, *client_.engine, client_.tenant, id_); };
    auto kept = co_await run_on(client_.workers, keep);
    if (!kept) co_return kept.error();
    // The turn was taken, whether or not its client is still there to hear of it.
    co_await send_(std::move(*event));
    co_return protocol::result<void>();
}

net::awaitable<protocol::result<void>> session_driver::turn(coordination::turn_wish wish) {
    taken_ = {};
    const last_check always = [](const session&) { return true; };
    co_return co_await take_turn(std::move(wish), always);
}

net::awaitable<protocol::result<void>> session_driver::take_turn(coordination::turn_wish wish,
                                                                 last_check is_last) {
    auto felt = co_await urgencies();
    if (!felt) co_return felt.error();
    auto start = [&](const locked_session& locked) -> protocol::result<open_turn> {
        auto plan = coordination::next_turn(locked.now(), wish, *felt);
        if (!plan) return plan.error();
        auto begun = begin(locked, *plan, locked.now().turn);
        if (!begun) return begun;
        // While this agent answers, the next speaker's prompt is computed up to this answer.
        const bool is_in_order = plan->agent == coordination::next_speaker(locked.now());
        const auto following = coordination::turn_behind_next(locked.now(), ends_with_round_);
        if (is_in_order && following) read_for(locked, *following, true);
        return begun;
    };
    auto open = run_locked(start);
    if (!open) co_return open.error();
    co_return co_await finish(*open, std::move(is_last));
}

protocol::result<std::vector<session_driver::open_turn>> session_driver::begin_side_by_side(
    const locked_session& locked) {
    std::vector<open_turn> open;
    if (locked.now().form != coordination::topology::broadcast) return open;
    for (const auto& plan : coordination::rest_of_round(locked.now())) {
        auto one = begin(locked, plan, locked.now().turn + static_cast<int>(open.size()));
        if (!one) return one.error();
        open.push_back(std::move(*one));
    }
    return open;
}

net::awaitable<protocol::result<void>> session_driver::round() {
    taken_ = {};
    auto side_by_side =
        run_locked([&](const locked_session& locked) { return begin_side_by_side(locked); });
    if (!side_by_side) co_return side_by_side.error();
    const std::size_t count = side_by_side->size();
    const last_check are_all = [&](const session&) { return taken_.reports.size() == count; };
    for (open_turn& each : *side_by_side) {
        auto done = co_await finish(each, are_all);
        if (!done) co_return done.error();
    }
    if (count > 0) co_return protocol::result<void>();
    const auto first =
        sessions_.look(client_.tenant, id_, [](const session& now) { return now.round; });
    if (!first) co_return first.error();
    bool is_over = false;
    const last_check ends = [&](const session& now) {
        return is_over = now.round != *first || !now.is_active();
    };
    // Even a session that is over gets one try, whose error says so.
    while (!is_over) {
        const coordination::turn_wish whoever_is_next;
        auto done = co_await take_turn(whoever_is_next, ends);
        if (!done) co_return done.error();
    }
    co_return protocol::result<void>();
}

protocol::result<std::vector<session_driver::aside>> session_driver::ask_aside(
    const locked_session& locked, const std::vector<int>& agents,
    const coordination::held_question& question) {
    std::vector<aside> asked;
    for (int agent : agents) {
        if (auto ok = check_reading(locked, agent, locked.now().lines.size()); !ok)
            return ok.error();
        auto prompt =
            coordination::prompt_aside(locked.now(), locked.memory_of(agent), agent, question.text);
        const bool stays = prompt.append;
        auto wanted = request_for(locked, agent, std::move(prompt));
        wanted.form.what = engine::output_form::kind::json;
        wanted.form.schema_json = question.schema_json;
        wanted.max_tokens = aside_tokens_max;
        wanted.thinking.enabled = false;
        auto answer = std::make_unique<agent_answer>(client_, streams_, std::move(wanted));
        locked.add_run(answer->run());
        asked.push_back({agent, locked.now().lines.size(), stays, std::move(answer)});
    }
    return asked;
}

net::awaitable<protocol::result<std::vector<std::string>>> session_driver::hear(
    std::vector<aside> asked) {
    std::vector<std::string> answers;
    for (aside& each : asked) {
        auto heard = co_await each.answer->hear(sends_pings());
        if (!heard) co_return heard.error();
        answers.push_back(std::move(heard->text));
        if (!each.stays) continue;
        const coordination::heard event{each.agent, each.reads};
        auto kept = run_locked([&](const locked_session& locked) {
            coordination::apply(locked.now(), event);
            return true;
        });
        if (!kept) co_return kept.error();
    }
    co_return answers;
}

net::awaitable<protocol::result<coordination::urgencies>> session_driver::urgencies() {
    auto ask = [&](const locked_session& locked) -> protocol::result<std::vector<aside>> {
        const session& now = locked.now();
        const bool is_asked = now.form == coordination::topology::interrupt && now.is_active();
        const std::vector<int> candidates = coordination::urgency_candidates(now);
        // A single candidate has nobody to be compared with.
        if (!is_asked || candidates.size() < 2) return std::vector<aside>();
        return ask_aside(locked, candidates, coordination::urgency_question());
    };
    auto asked = run_locked(ask);
    if (!asked) co_return asked.error();
    auto answers = co_await hear(std::move(*asked));
    if (!answers) co_return answers.error();
    coordination::urgencies felt;
    for (const std::string& each : *answers) felt.push_back(coordination::read_urgency(each));
    co_return felt;
}

protocol::result<bool> session_driver::count_votes(const locked_session& locked,
                                                   std::size_t question,
                                                   const std::vector<int>& voters,
                                                   const std::vector<std::string>& answers) {
    session& now = locked.now();
    for (std::size_t i = 0; i < voters.size(); ++i) {
        // A client may have voted for the last of them meanwhile.
        if (now.questions[question].is_closed) break;
        auto cast = coordination::read_ballot(now, now.questions[question], voters[i], answers[i]);
        if (!cast) return cast.error();
        auto one = coordination::vote_of(now, now.questions[question], *cast, new_hex_id(""));
        if (!one) return one.error();
        coordination::apply(now, coordination::voted{question, *one, new_hex_id("")});
    }
    coordination::settle(now, question, new_hex_id(""));
    const bool is_closed = now.questions[question].is_closed;
    if (is_closed && at_end_) at_end_(locked, taken_);
    return is_closed;
}

net::awaitable<protocol::result<void>> session_driver::decide(
    coordination::decision_request wanted) {
    how_.sampling = wanted.sampling;
    taken_ = {};
    auto put = run_locked([&](const locked_session& locked) -> protocol::result<std::size_t> {
        if (auto ok = locked.check_space(turn_bytes); !ok) return ok.error();
        return coordination::put_question(locked.now(), wanted.question, wanted.choices);
    });
    if (!put) co_return put.error();
    const std::size_t question = taken_.question = *put;
    for (bool is_over = false; !is_over;) {
        std::vector<int> voters;
        auto ask = [&](const locked_session& locked) -> protocol::result<std::vector<aside>> {
            const coordination::question& asked = locked.now().questions[question];
            if (!asked.is_closed) voters = coordination::missing_voters(locked.now(), asked);
            // Nobody is left to vote, as where the vote of a client has closed the question.
            if (voters.empty() && at_end_) at_end_(locked, taken_);
            return ask_aside(locked, voters, coordination::ballot_for(locked.now(), asked));
        };
        auto asked = run_locked(ask);
        if (!asked) co_return asked.error();
        if (voters.empty()) break;
        auto answers = co_await hear(std::move(*asked));
        if (!answers) co_return answers.error();
        auto counted = run_locked([&](const locked_session& locked) {
            return count_votes(locked, question, voters, *answers);
        });
        if (!counted) co_return counted.error();
        is_over = *counted;
    }
    co_return protocol::result<void>();
}

void session_driver::read_for(const locked_session& locked, const coordination::turn_plan& plan,
                              bool is_followed) {
    const std::size_t bytes = coordination::unread_bytes(locked.now(), plan.agent, plan.reads);
    if (bytes > read_ahead_bytes_max) return;
    auto ahead =
        coordination::prompt_ahead(locked.now(), locked.memory_of(plan.agent), plan, is_followed);
    if (!ahead) return;
    auto wanted = request_for(locked, plan.agent, std::move(*ahead));
    wanted.only_reads = true;
    auto sink = std::make_shared<end_watcher>(
        std::make_shared<counts_reading>(locked.read_ahead(plan.agent)));
    const engine::request_id id = client_.engine->submit(std::move(wanted), sink);
    locked.add_run({id, sink->has_ended()});
}

void session_driver::read_ahead() {
    auto submit = [&](const locked_session& locked) {
        for (const coordination::turn_plan& plan : next_turns(locked.now()))
            read_for(locked, plan, false);
        return true;
    };
    (void)run_locked(submit);
}

}  // namespace semantic::server
