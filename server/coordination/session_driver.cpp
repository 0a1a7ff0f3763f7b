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

constexpr int aside_tokens_max = 512;

/// What is read ahead has nobody to tell; what it computed is counted.
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

/// The turns that come next, as far as that is known now.
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

session_driver::session_driver(const session_client& of, std::string session_id,
                               coordination::answer_wish how, event_sender send)
    : of_(of),
      sessions_(of.with.sessions),
      id_(std::move(session_id)),
      how_(std::move(how)),
      send_(std::move(send)),
      streams_(of.link) {}

engine::generation_request session_driver::request_for(const room& in, int agent,
                                                       coordination::prompt asked) const {
    engine::generation_request wanted;
    wanted.tenant = of_.tenant;
    wanted.agent = in.agent_id(agent);
    wanted.chat = std::move(asked.chat);
    wanted.append = asked.append;
    // An end with a name of its own: what is appended later is put behind the latest one.
    wanted.message_id = new_hex_id("end:");
    wanted.sampling = how_.sampling;
    if (!wanted.sampling.seed) wanted.sampling.seed = of_.with.seed.get();
    wanted.thinking.enabled = how_.thinking;
    wanted.max_tokens = how_.max_tokens;
    wanted.deadline = std::chrono::steady_clock::now() + of_.with.settings.request_timeout;
    return wanted;
}

session_driver::open_turn session_driver::begin(const room& in, const coordination::turn_plan& plan,
                                                int turn) {
    coordination::prompt asked = coordination::prompt_of(in.now(), in.memory_of(plan.agent), plan);
    std::string reading = asked.reading;
    auto wanted = request_for(in, plan.agent, std::move(asked));
    auto answer = std::make_unique<agent_answer>(of_, streams_, std::move(wanted));
    in.add_run(answer->run());
    return {plan, turn, std::move(reading), in.agent_id(plan.agent), std::move(answer)};
}

text_listener session_driver::sends_pings() {
    if (!send_) return {};
    return [this](std::string) { return send_(coordination::ping_event()); };
}

text_listener session_driver::sends_tokens_of(int agent) {
    if (!send_) return {};
    return [this, agent, so_far = std::string()](std::string text) mutable {
        if (text.empty()) return send_(coordination::ping_event());
        so_far += text;
        auto event = with([&](const room& in) {
            return coordination::token_event(in.now(), agent, text, so_far);
        });
        return send_(event ? std::move(*event) : std::string());
    };
}

net::awaitable<protocol::result<session_driver::turn_report>> session_driver::finish(
    open_turn& open) {
    if (send_) {
        auto event = with([&](const room& in) {
            return coordination::turn_start_event(in.now(), open.plan, open.turn);
        });
        if (!event) co_return event.error();
        if (!co_await send_(std::move(*event))) co_return fail(errc::cancelled, "the client left");
    }
    auto heard = co_await open.answer->hear(sends_tokens_of(open.plan.agent));
    if (!heard) co_return heard.error();
    turn_report report;
    report.memory_name = open.memory.str();
    report.usage = std::move(heard->usage);
    report.end = std::move(heard->end);
    const std::string line_id = new_hex_id("");
    auto take = [&](const room& in) {
        session& now = in.now();
        const coordination::agent& who = agent_at(now, open.plan.agent);
        report.turn = now.turn;
        report.read_ahead_tokens = in.read_ahead(open.plan.agent)->exchange(0);
        report.event = {open.plan.agent, open.plan.to, open.plan.reads, line_id,
                        coordination::shown_text(heard->text, who.name, names_of(now))};
        report.event.is_remembered = coordination::remember(
            in.memory_of(open.plan.agent), who, std::move(open.reading), std::move(heard->text));
        coordination::apply(now, report.event);
        return send_ ? coordination::turn_complete_event(now, report) : std::string();
    };
    auto event = with(take);
    if (!event) co_return event.error();
    // Whoever is told of the turn finds it there after a restart.
    if (send_) {
        auto keep = [&] { return keep_session(sessions_, *of_.engine, of_.tenant, id_); };
        auto kept = co_await run_on(of_.with.workers, keep);
        if (!kept) co_return kept.error();
    }
    // The turn was taken, whether or not its client is still there to hear of it.
    if (send_) co_await send_(std::move(*event));
    co_return std::move(report);
}

net::awaitable<protocol::result<session_driver::turn_report>> session_driver::turn(
    coordination::turn_wish wish) {
    auto felt = co_await urgencies();
    if (!felt) co_return felt.error();
    auto start = [&](const room& in) -> protocol::result<open_turn> {
        auto plan = coordination::next_turn(in.now(), wish, *felt);
        if (!plan) return plan.error();
        open_turn begun = begin(in, *plan, in.now().turn);
        // Whoever speaks behind this one reads meanwhile, so that only this answer is left for it.
        const bool is_in_order = plan->agent == coordination::next_speaker(in.now());
        const auto behind = coordination::turn_behind_next(in.now(), ends_with_round_);
        if (is_in_order && behind) read_for(in, *behind, true);
        return begun;
    };
    auto open = with(start);
    if (!open) co_return open.error();
    co_return co_await finish(*open);
}

net::awaitable<protocol::result<std::vector<session_driver::turn_report>>> session_driver::round() {
    std::vector<turn_report> reports;
    auto start = [&](const room& in) {
        std::vector<open_turn> open;
        if (in.now().form != coordination::topology::broadcast) return open;
        for (const auto& plan : coordination::rest_of_round(in.now()))
            open.push_back(begin(in, plan, in.now().turn + static_cast<int>(open.size())));
        return open;
    };
    auto side_by_side = with(start);
    if (!side_by_side) co_return side_by_side.error();
    for (open_turn& each : *side_by_side) {
        auto report = co_await finish(each);
        if (!report) co_return report.error();
        reports.push_back(std::move(*report));
    }
    if (!reports.empty()) co_return reports;
    auto position = [](const room& in) { return std::pair(in.now().round, in.now().is_active()); };
    const auto first = with(position);
    if (!first) co_return first.error();
    // The first turn is tried in any case: it says what is wrong with a session that is over.
    for (auto now = *first; now.first == first->first && (now.second || reports.empty());) {
        const coordination::turn_wish whoever_is_next;
        auto report = co_await turn(whoever_is_next);
        if (!report) co_return report.error();
        reports.push_back(std::move(*report));
        auto next = with(position);
        if (!next) co_return next.error();
        now = *next;
    }
    co_return reports;
}

std::vector<session_driver::aside> session_driver::ask_aside(
    const room& in, const std::vector<int>& agents, const coordination::held_question& what) {
    std::vector<aside> asked;
    for (int agent : agents) {
        auto prompt = coordination::prompt_aside(in.now(), in.memory_of(agent), agent, what.text);
        const bool stays = prompt.append;
        auto wanted = request_for(in, agent, std::move(prompt));
        wanted.form.what = engine::output_form::kind::json;
        wanted.form.schema_json = what.schema_json;
        wanted.max_tokens = aside_tokens_max;
        wanted.thinking.enabled = false;
        auto answer = std::make_unique<agent_answer>(of_, streams_, std::move(wanted));
        in.add_run(answer->run());
        asked.push_back({agent, in.now().lines.size(), stays, std::move(answer)});
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
        auto kept = with([&](const room& in) {
            coordination::apply(in.now(), event);
            return true;
        });
        if (!kept) co_return kept.error();
    }
    co_return answers;
}

net::awaitable<protocol::result<coordination::urgencies>> session_driver::urgencies() {
    auto ask = [&](const room& in) {
        const session& now = in.now();
        const bool is_asked = now.form == coordination::topology::interrupt && now.is_active();
        const std::vector<int> candidates = coordination::urgency_candidates(now);
        if (!is_asked || candidates.size() < 2) return std::vector<aside>();
        return ask_aside(in, candidates, coordination::urgency_question());
    };
    auto asked = with(ask);
    if (!asked) co_return asked.error();
    auto answers = co_await hear(std::move(*asked));
    if (!answers) co_return answers.error();
    coordination::urgencies felt;
    for (const std::string& each : *answers) felt.push_back(coordination::read_urgency(each));
    co_return felt;
}

net::awaitable<protocol::result<std::size_t>> session_driver::decide(
    coordination::decision_request wanted) {
    how_.sampling = wanted.sampling;
    auto put = with([&](const room& in) {
        return coordination::put_question(in.now(), wanted.question, wanted.choices);
    });
    if (!put) co_return put.error();
    const std::size_t which = *put;
    while (true) {
        std::vector<int> voters;
        auto ask = [&](const room& in) {
            const coordination::question& asked = in.now().questions[which];
            if (!asked.is_closed) voters = coordination::missing_voters(in.now(), asked);
            return ask_aside(in, voters, coordination::ballot_for(in.now(), asked));
        };
        auto asked = with(ask);
        if (!asked) co_return asked.error();
        if (voters.empty()) co_return which;
        auto answers = co_await hear(std::move(*asked));
        if (!answers) co_return answers.error();
        auto count = [&](const room& in) -> protocol::result<void> {
            session& now = in.now();
            for (std::size_t i = 0; i < voters.size(); ++i) {
                // A client may have voted for the last of them meanwhile.
                if (now.questions[which].is_closed) break;
                auto cast =
                    coordination::read_ballot(now, now.questions[which], voters[i], (*answers)[i]);
                if (!cast) return cast.error();
                auto one = coordination::vote_of(now, now.questions[which], *cast, new_hex_id(""));
                if (!one) return one.error();
                coordination::apply(now, coordination::voted{which, *one, new_hex_id("")});
            }
            coordination::settle(now, which, new_hex_id(""));
            return {};
        };
        auto counted = with(count);
        if (!counted) co_return counted.error();
    }
}

void session_driver::read_for(const room& in, const coordination::turn_plan& plan,
                              bool is_followed) {
    auto ahead = coordination::prompt_ahead(in.now(), in.memory_of(plan.agent), plan, is_followed);
    if (!ahead) return;
    auto wanted = request_for(in, plan.agent, std::move(*ahead));
    wanted.only_reads = true;
    auto told =
        std::make_shared<told_of_end>(std::make_shared<counts_reading>(in.read_ahead(plan.agent)));
    const engine::request_id id = of_.engine->submit(std::move(wanted), told);
    in.add_run({id, told->has_ended()});
}

void session_driver::read_ahead() {
    auto submit = [&](const room& in) {
        for (const coordination::turn_plan& plan : next_turns(in.now())) read_for(in, plan, false);
        return true;
    };
    (void)with(submit);
}

}  // namespace semantic::server
