#include "server/coordination/scenario_run.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "protocol/coordination/memory.hpp"
#include "protocol/coordination/opening.hpp"
#include "protocol/wire/api_error.hpp"
#include "server/config/model_path.hpp"
#include "server/coordination/become_idle.hpp"
#include "server/runtime/logging.hpp"
#include "server/runtime/workers.hpp"
#include "storage/files/checksum.hpp"

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

std::string phase_session_id(std::string_view run_id, std::string_view phase) {
    const auto hash = storage::field_hasher().add(run_id).add(phase).finish();
    return "coord_" + hash.hex().substr(0, 12);
}

namespace {

bool is_over(const coordination::session& now, const scenarios::phase& which) {
    return !now.is_active() || now.round >= which.rounds;
}

std::optional<coordination::session> session_now(const services& with,
                                                 const storage::tenant_id& tenant,
                                                 const std::string& id) {
    auto now =
        with.sessions.with(tenant, id, [](const session_registry::room& in) { return in.now(); });
    if (!now) return std::nullopt;
    return std::move(*now);
}

}  // namespace

scenarios::run_state state_of(const services& with, const storage::tenant_id& tenant,
                              const scenarios::kept_run& run) {
    scenarios::run_state state{run.id, run.what.id, with.runs.is_driven(tenant, run.id)};
    scenarios::phases_done done;
    for (const scenarios::phase& each : run.what.phases) {
        scenarios::run_state::phase_state phase{each.name, phase_session_id(run.id, each.name)};
        if (auto now = session_now(with, tenant, phase.session_id)) {
            phase.is_begun = true;
            phase.turns = now->turn;
            phase.is_over = is_over(*now, each);
            if (phase.is_over) done.insert_or_assign(each.name, std::move(*now));
        }
        state.phases.push_back(std::move(phase));
    }
    if (done.size() == run.what.phases.size()) state.came = scenarios::result_of(run.what, done);
    return state;
}

scenario_run::scenario_run(const session_client& of, run_registry::known_run what,
                           const scenarios::run_request& wanted, coordination::answer_wish how,
                           event_sender send)
    : of_(of),
      what_(std::move(what)),
      how_(std::move(how)),
      send_(std::move(send)),
      rereads_(wanted.rereads) {
    if (wanted.is_persistent) prefix_ = wanted.prefix.empty() ? what_->id : wanted.prefix;
}

std::optional<coordination::session> scenario_run::session_of(const scenarios::phase& which) const {
    return session_now(of_.with, of_.tenant, phase_session_id(what_->id, which.name));
}

net::awaitable<protocol::result<std::string>> scenario_run::run() {
    if (!co_await send_(scenarios::run_start_event(what_->id, what_->what)))
        co_return fail(errc::cancelled, "the client left");
    const std::vector<scenarios::phase>& phases = what_->what.phases;
    for (std::size_t i = 0; i < phases.size(); ++i) {
        auto now = session_of(phases[i]);
        if (now && is_over(*now, phases[i])) {
            done_.insert_or_assign(phases[i].name, std::move(*now));
            continue;
        }
        const bool is_gone = !now && i + 1 < phases.size() && session_of(phases[i + 1]);
        if (is_gone)
            co_return fail(errc::conflict, "the session of phase " + phases[i].name +
                                               " was deleted: the run cannot go on");
        auto done = co_await take(phases[i]);
        if (!done) co_return done.error();
    }
    co_return scenarios::run_complete_event(what_->id, scenarios::result_of(what_->what, done_));
}

protocol::result<coordination::session> scenario_run::opened(const scenarios::phase& which) {
    auto opening = scenarios::opening_of(what_->what, which,
                                         phase_session_id(what_->id, which.name), prefix_, done_);
    auto remembers = [&](const coordination::agent& who) {
        auto name = storage::agent_id::parse(coordination::memory_name(opening.made, who));
        return name && of_.with.sessions.remembers(name->of(of_.tenant));
    };
    auto made = coordination::open_session(opening, remembers, [] { return new_hex_id(""); });
    if (auto added = of_.with.sessions.add(of_.tenant, made, {}); !added) return added.error();
    return made;
}

net::awaitable<protocol::result<void>> scenario_run::take(const scenarios::phase& which) {
    auto begun = session_of(which);
    if (!begun) {
        auto made = opened(which);
        if (!made) co_return made.error();
        begun = std::move(*made);
    }
    auto taken = of_.with.sessions.begin(of_.tenant, begun->id);
    if (!taken) co_return taken.error();
    if (rereads_) {
        auto erased = co_await erase_memories(*begun);
        if (!erased) co_return erased.error();
    }
    if (!co_await send_(scenarios::phase_start_event(which, *begun)))
        co_return fail(errc::cancelled, "the client left");
    auto done = co_await take_rounds(which, begun->id);
    if (!done) co_return done.error();
    auto over = session_of(which);
    if (!over) co_return session_registry::no_session(begun->id);
    std::string complete = scenarios::phase_complete_event(which, *over);
    done_.insert_or_assign(which.name, std::move(*over));
    if (!co_await send_(std::move(complete))) co_return fail(errc::cancelled, "the client left");
    co_return protocol::result<void>();
}

net::awaitable<protocol::result<void>> scenario_run::take_rounds(const scenarios::phase& which,
                                                                 const std::string& id) {
    session_driver driver(of_, id, how_, send_);
    const auto place = [](const session_registry::room& in) {
        return std::pair(in.now().round, in.now().is_active());
    };
    while (true) {
        auto now = of_.with.sessions.with(of_.tenant, id, place);
        if (!now) co_return now.error();
        const auto [round, is_active] = *now;
        if (!is_active || round >= which.rounds) co_return protocol::result<void>();
        if (round + 1 == which.rounds) driver.ends_with_round();
        driver.read_ahead();
        auto reports = co_await driver.round();
        if (!reports) co_return reports.error();
    }
}

net::awaitable<protocol::result<void>> scenario_run::erase_memories(const session& of) {
    for (const coordination::agent& each : of.agents) {
        auto name = storage::agent_id::parse(coordination::memory_name(of, each));
        const storage::agent_id agent = name.value().of(of_.tenant);
        auto is_idle = [&] {
            auto info = of_.engine->inspect(agent);
            return !info || !info->in_use;
        };
        if (!co_await become_idle(of_.link, is_idle))
            co_return fail(errc::conflict, "an agent of the run works");
        auto erase = [&] { return of_.engine->erase(agent); };
        auto erased = co_await run_on(of_.with.workers, erase);
        if (!erased && erased.error().code != storage::errc::not_found)
            co_return protocol::from_storage(erased.error());
    }
    co_return protocol::result<void>();
}

}  // namespace semantic::server
