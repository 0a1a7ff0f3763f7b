// SPDX-License-Identifier: Apache-2.0
// phases: scenarios of several phases, once with agents that remember the earlier ones and once
// with agents that read again what they know.

#include <boost/json.hpp>

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "perf/bench/client/errors.hpp"
#include "perf/bench/measure/measure.hpp"
#include "perf/bench/measure/phases_tally.hpp"

namespace semantic::bench {
namespace {

namespace net = boost::asio;
namespace json = boost::json;

constexpr const char* routing = "routing";
constexpr std::size_t experts = 10;
constexpr const char* prefilled = "semantic_tokens_prefilled_total";

struct scenario_run {
    phases_tally tally;
    double wall_s = 0;
    std::optional<double> computed;  // tokens in all, those computed ahead of turns included
};

/// The names in a list with commas.
std::vector<std::string> names_in(const std::string& list) {
    std::vector<std::string> names;
    for (std::size_t at = 0; at <= list.size();) {
        const std::size_t comma = std::min(list.find(',', at), list.size());
        if (comma > at) names.push_back(list.substr(at, comma - at));
        at = comma + 1;
    }
    return names;
}

/// Runs a scenario and deletes what it left. `yaml`: its text; empty for one that comes with the
/// server. `rereads`: agents forget before each phase. Returns: what happened.
net::awaitable<scenario_run> take(bench_run& run, std::string id, std::string yaml, bool rereads) {
    json::object body{{"temperature", 0}, {"max_tokens", run.opts.decode_tokens}};
    if (!yaml.empty()) body["yaml"] = yaml;
    if (rereads) body["reread"] = true;
    for (const auto& [key, value] : run.opts.extra_body) body[key] = value;
    std::vector<std::string> counter{prefilled};
    const auto before = co_await run.counters(counter);
    scenario_run done;
    std::string path = "/v1/coordination/scenarios/" + id + "/runs";
    const auto on_event = [&done](const sse_event& event, double seconds) {
        done.tally.on_event(event, seconds);
    };
    done.wall_s =
        co_await run.client.stream_events(std::move(path), json::serialize(body), on_event);
    if (!done.tally.is_complete()) throw server_error("the run of " + id + " has no end");
    const auto after = co_await run.counters(counter);
    done.computed = growth(before[0], after[0]);
    // Deleted, so that the next run finds nothing in memory.
    for (const std::string& session : done.tally.sessions()) {
        std::string gone = "/v1/coordination/sessions/" + session;
        co_await run.client.remove(std::move(gone));
    }
    for (const char* prefix : {"/v1/coordination/caches/", "/v1/coordination/runs/"}) {
        std::string gone = prefix + done.tally.run_id();
        co_await run.client.remove(std::move(gone));
    }
    std::fprintf(stderr, "  %-20s %s: %zu turns in %.1f s\n", id.c_str(),
                 rereads ? "cold" : "persistent", done.tally.turns().size(), done.wall_s);
    co_return done;
}

void add_turns(table& t, const std::string& id, const char* mode, const scenario_run& played) {
    for (const phase_turn& each : played.tally.turns())
        t.rows.push_back({id, std::string(mode), each.phase, each.agent, each.first_s * 1000,
                          each.prompt_tokens, each.reused_tokens, each.computed_tokens,
                          each.reread_tokens, each.match, each.output_tokens});
}

/// Adds a row for each phase, with cold and kept memory side by side.
void add_phases(table& t, plot& p, const std::string& id, const scenario_run& cold,
                const scenario_run& kept) {
    p.lines = {{"cold", {}}, {"persistent", {}}};
    for (const std::string& phase : kept.tally.phases()) {
        const phase_sum a = sum_of(cold.tally.turns(), phase);
        const phase_sum b = sum_of(kept.tally.turns(), phase);
        t.rows.push_back({id + " " + phase, b.turns,
                          count_cell(static_cast<double>(b.prompt_tokens) /
                                     static_cast<double>(std::max<std::int64_t>(b.turns, 1))),
                          a.first_s * 1000, b.first_s * 1000, ratio_cell(a.first_s, b.first_s),
                          a.computed_tokens, b.computed_tokens, a.reread_tokens, b.reread_tokens,
                          b.known_share(), b.reused_share(), b.extend_share()});
        const auto place = static_cast<double>(p.categories.size());
        p.categories.push_back(phase);
        p.lines[0].points.emplace_back(place, a.first_s * 1000);
        p.lines[1].points.emplace_back(place, b.first_s * 1000);
    }
}

/// Adds a row for a whole run.
void add_total(table& t, const std::string& id, const char* mode, const scenario_run& played) {
    const phase_sum all = sum_of(played.tally.turns(), "");
    t.rows.push_back({id + " " + mode, all.turns, played.wall_s, all.first_s * 1000,
                      all.prompt_tokens, all.computed_tokens,
                      played.computed ? count_cell(*played.computed) : cell(), all.reread_tokens,
                      all.known_share(), all.reused_share(), all.extend_share()});
}

}  // namespace

net::awaitable<void> measure_phases(bench_run& run) {
    table& phases = run.out.tables.emplace_back();
    phases = {
        "Phases: first token and tokens of a turn; cold reads anew what agents know",
        {"phase", "turns", "prompt", "cold ms", "persistent ms", "cold/persistent", "cold computed",
         "computed", "cold re-read", "re-read", "known %", "reused %", "extend %"},
        {}};
    table& totals = run.out.tables.emplace_back();
    totals = {"Whole runs; computed in all is the server's own count",
              {"run", "turns", "wall s", "first ms", "prompts", "computed", "computed in all",
               "re-read", "known %", "reused %", "extend %"},
              {}};
    table& turns = run.out.tables.emplace_back();
    turns = {"Turns",
             {"scenario", "mode", "phase", "agent", "first ms", "prompt", "reused", "computed",
              "re-read", "match", "output"},
             {}};
    for (const std::string& id : names_in(run.opts.scenarios)) {
        std::string yaml;
        if (id == routing) {
            std::vector<std::string> notes;
            for (std::size_t i = 0; i < experts; ++i)
                notes.push_back(run.cold_text(run.opts.prompt_tokens));
            yaml = routing_yaml(notes);
        }
        const scenario_run cold = co_await take(run, id, yaml, true);
        const scenario_run kept = co_await take(run, id, yaml, false);
        plot& p = run.out.plots.emplace_back();
        p.file_stem = "phases-" + id;
        p.title = "Time to first token by phase: " + id;
        p.x_label = "phase";
        p.y_label = "milliseconds";
        add_phases(phases, p, id, cold, kept);
        add_total(totals, id, "cold", cold);
        add_total(totals, id, "persistent", kept);
        add_turns(turns, id, "cold", cold);
        add_turns(turns, id, "persistent", kept);
    }
}

}  // namespace semantic::bench
