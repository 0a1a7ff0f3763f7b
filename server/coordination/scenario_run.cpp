#include "server/coordination/scenario_run.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "protocol/coordination/memory.hpp"
#include "protocol/coordination/opening.hpp"
#include "server/config/model_path.hpp"
#include "server/runtime/logging.hpp"

namespace semantic::server {

namespace coordination = protocol::coordination;
namespace scenarios = protocol::scenarios;
namespace fs = std::filesystem;
using protocol::errc;

std::vector<scenarios::scenario> shipped_scenarios() {
    std::vector<scenarios::scenario> found;
    for (const char* place : {"../share/semantic/scenarios", "../../etc/scenarios"}) {
        std::error_code ec;
        const fs::path folder = executable_path({}).parent_path() / place;
        for (const auto& each : fs::directory_iterator(folder, ec)) {
            if (each.path().extension() != ".yaml") continue;
            std::ifstream file(each.path());
            const std::string text(std::istreambuf_iterator<char>(file), {});
            auto made = scenarios::parse_scenario(text);
            if (made)
                found.push_back(std::move(*made));
            else
                log_event(log_level::warning, each.path().string() + ": " + made.error().what);
        }
        if (!found.empty()) break;
    }
    std::ranges::sort(found, {}, &scenarios::scenario::id);
    return found;
}

scenario_run::scenario_run(const session_client& of, scenarios::scenario what,
                           const scenarios::run_request& wanted, coordination::answer_wish how,
                           event_sender send)
    : of_(of),
      what_(std::move(what)),
      id_(new_hex_id("run_")),
      how_(std::move(how)),
      send_(std::move(send)) {
    if (wanted.is_persistent) prefix_ = wanted.prefix.empty() ? id_ : wanted.prefix;
}

net::awaitable<protocol::result<std::string>> scenario_run::run() {
    if (!co_await send_(scenarios::run_start_event(id_, what_)))
        co_return fail(errc::cancelled, "the client left");
    for (const scenarios::phase& each : what_.phases) {
        auto done = co_await take(each);
        if (!done) co_return done.error();
    }
    co_return scenarios::run_complete_event(id_, scenarios::result_of(what_, done_));
}

net::awaitable<protocol::result<void>> scenario_run::take(const scenarios::phase& which) {
    const std::string id = new_hex_id("coord_");
    auto opening = scenarios::opening_of(what_, which, id, prefix_, done_);
    auto remembers = [&](const coordination::agent& who) {
        auto name = storage::agent_id::parse(coordination::memory_name(opening.made, who));
        return name && of_.with.sessions.remembers(name->of(of_.tenant));
    };
    auto made = coordination::open_session(opening, remembers, [] { return new_hex_id(""); });
    std::string start = scenarios::phase_start_event(which, made);
    if (auto added = of_.with.sessions.add(of_.tenant, std::move(made), {}); !added)
        co_return added.error();
    auto taken = of_.with.sessions.begin(of_.tenant, id);
    if (!taken) co_return taken.error();
    if (!co_await send_(std::move(start))) co_return fail(errc::cancelled, "the client left");
    session_driver driver(of_, id, how_, send_);
    const auto is_active = [](const session_registry::room& in) { return in.now().is_active(); };
    for (int round = 0; round < which.rounds; ++round) {
        driver.read_ahead();
        auto reports = co_await driver.round();
        if (!reports) co_return reports.error();
        auto goes_on = of_.with.sessions.with(of_.tenant, id, is_active);
        if (!goes_on) co_return goes_on.error();
        if (!*goes_on) break;
    }
    const auto now = [](const session_registry::room& in) { return in.now(); };
    auto over = of_.with.sessions.with(of_.tenant, id, now);
    if (!over) co_return over.error();
    std::string complete = scenarios::phase_complete_event(which, *over);
    done_.insert_or_assign(which.name, std::move(*over));
    if (!co_await send_(std::move(complete))) co_return fail(errc::cancelled, "the client left");
    co_return protocol::result<void>();
}

}  // namespace semantic::server
