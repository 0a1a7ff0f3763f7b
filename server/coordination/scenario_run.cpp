// SPDX-License-Identifier: Apache-2.0
#include "server/coordination/scenario_run.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
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
    // Next to an installed program, and in the tree that it was built in.
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
                log_event(log_level::warning, each.path().string() + ": " + made.error().message);
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

bool is_over(const coordination::session& now, const scenarios::phase& phase) {
    return !now.is_active() || now.round >= phase.rounds;
}

/// The session without its lines; nothing where there is none.
std::optional<coordination::session> session_now(const services& server,
                                                 const storage::tenant_id& tenant,
                                                 const std::string& id) {
    auto now = server.sessions.look(tenant, id, coordination::without_lines);
    if (!now) return std::nullopt;
    return std::move(*now);
}

/// What was said in these phases; those without a session are missing.
scenarios::phases_done spoken_in(const services& server, const storage::tenant_id& tenant,
                                 const std::string& run_id, const std::set<std::string>& phases) {
    scenarios::phases_done done;
    for (const std::string& each : phases) {
        auto said =
            server.sessions.look(tenant, phase_session_id(run_id, each), scenarios::spoken_of);
        if (said) done.insert_or_assign(each, std::move(*said));
    }
    return done;
}

/// The state of a run as read from its sessions.
struct looked_run {
    scenarios::run_state state;
    std::vector<std::size_t> lines{};  // of each phase
    bool is_over = true;
};

/// Reads the state of a run from its phases' sessions.
looked_run look_at(const services& server, const storage::tenant_id& tenant,
                   const scenarios::kept_run& run) {
    looked_run found{{run.id, run.scenario.id, server.runs.is_driven(tenant, run.id)}};
    for (const scenarios::phase& each : run.scenario.phases) {
        scenarios::run_state::phase_state phase{each.name, phase_session_id(run.id, each.name)};
        std::size_t lines = 0;
        const auto look = [&](const coordination::session& now) {
            phase.is_begun = true;
            phase.turns = now.turn;
            phase.is_over = is_over(now, each);
            lines = now.lines.size();
            return true;
        };
        // Where there is no session, the phase has not begun.
        (void)server.sessions.look(tenant, phase.session_id, look);
        found.lines.push_back(lines);
        found.is_over = found.is_over && phase.is_over;
        found.state.phases.push_back(std::move(phase));
    }
    return found;
}

/// The remembered result if it is that of these very lines; else null.
std::shared_ptr<const run_registry::known_result> known_result_of(const services& server,
                                                                  const storage::tenant_id& tenant,
                                                                  const looked_run& found) {
    if (!found.is_over) return nullptr;
    auto came = server.runs.result(tenant, found.state.id);
    return came != nullptr && came->lines == found.lines ? came : nullptr;
}

/// Computes the result of a run from its sessions. Nothing when one of them was deleted. Blocks.
std::optional<scenarios::run_result> read_result(const services& server,
                                                 const storage::tenant_id& tenant,
                                                 const scenarios::kept_run& run) {
    std::set<std::string> phases;
    for (const scenarios::phase& each : run.scenario.phases) phases.insert(each.name);
    const auto done = spoken_in(server, tenant, run.id, phases);
    if (done.size() < phases.size()) return std::nullopt;
    return scenarios::result_of(run.scenario, done);
}

}  // namespace

scenarios::run_state known_state_of(const services& server, const storage::tenant_id& tenant,
                                    const scenarios::kept_run& run) {
    looked_run found = look_at(server, tenant, run);
    found.state.is_over = found.is_over;
    if (const auto came = known_result_of(server, tenant, found)) found.state.came = came->came;
    return std::move(found.state);
}

scenarios::run_state state_of(const services& server, const storage::tenant_id& tenant,
                              const scenarios::kept_run& run) {
    looked_run found = look_at(server, tenant, run);
    found.state.is_over = found.is_over;
    if (!found.is_over) return std::move(found.state);
    auto came = known_result_of(server, tenant, found);
    if (came == nullptr)
        if (auto read = read_result(server, tenant, run)) {
            came = std::make_shared<const run_registry::known_result>(
                run_registry::known_result{found.lines, std::move(*read)});
            server.runs.keep_result(tenant, run.id, came);
        }
    if (came != nullptr) found.state.came = came->came;
    return std::move(found.state);
}

scenario_run::scenario_run(const session_client& client, run_registry::known_run run,
                           const scenarios::run_request& wanted, coordination::answer_wish how,
                           event_sender send)
    : client_(client),
      run_(std::move(run)),
      how_(std::move(how)),
      send_(std::move(send)),
      rereads_(wanted.rereads) {
    if (wanted.is_persistent) prefix_ = wanted.prefix.empty() ? run_->id : wanted.prefix;
}

std::optional<coordination::session> scenario_run::session_of(const scenarios::phase& phase) const {
    return session_now(client_.server, client_.tenant, phase_session_id(run_->id, phase.name));
}

net::awaitable<protocol::result<std::string>> scenario_run::run() {
    if (!co_await send_(scenarios::run_start_event(run_->id, run_->scenario)))
        co_return fail(errc::cancelled, "the client left");
    const std::vector<scenarios::phase>& phases = run_->scenario.phases;
    for (std::size_t i = 0; i < phases.size(); ++i) {
        const auto now = session_of(phases[i]);
        if (now && is_over(*now, phases[i])) continue;
        // The next phase has begun, so this one had a session.
        const bool is_gone = !now && i + 1 < phases.size() && session_of(phases[i + 1]);
        if (is_gone)
            co_return fail(errc::conflict, "the session of phase " + phases[i].name +
                                               " was deleted: the run cannot go on");
        auto done = co_await take(phases[i]);
        if (!done) co_return done.error();
    }
    auto state = [&] { return state_of(client_.server, client_.tenant, *run_); };
    const scenarios::run_state over = co_await run_on(client_.workers, state);
    if (!over.came)
        co_return fail(errc::conflict, "a session of the run was deleted before its end");
    co_return scenarios::run_complete_event(run_->id, *over.came);
}

protocol::result<coordination::session> scenario_run::opened(const scenarios::phase& phase) {
    const auto done =
        spoken_in(client_.server, client_.tenant, run_->id, scenarios::phases_quoted(phase));
    auto opening = scenarios::opening_of(run_->scenario, phase,
                                         phase_session_id(run_->id, phase.name), prefix_, done);
    auto remembers = [&](const coordination::agent& agent) {
        auto name = storage::agent_id::parse(coordination::memory_name(opening.made, agent));
        return name && client_.server.sessions.remembers(name->owned_by(client_.tenant));
    };
    session made = coordination::open_session(opening, remembers, [] { return new_hex_id(""); });
    session names = coordination::without_lines(made);
    auto added = client_.server.sessions.add(client_.tenant, std::move(made), {});
    if (!added) return added.error();
    return names;
}

net::awaitable<protocol::result<void>> scenario_run::take(const scenarios::phase& phase) {
    auto begun = session_of(phase);
    if (!begun) {
        auto open = [&] { return opened(phase); };
        auto made = co_await run_on(client_.workers, open);
        if (!made) co_return made.error();
        begun = std::move(*made);
    }
    auto taken = client_.server.sessions.begin(client_.tenant, begun->id);
    if (!taken) co_return taken.error();
    if (rereads_) {
        auto erased = co_await erase_memories(*begun);
        if (!erased) co_return erased.error();
    }
    if (!co_await send_(scenarios::phase_start_event(phase, *begun)))
        co_return fail(errc::cancelled, "the client left");
    auto done = co_await take_rounds(phase, begun->id);
    if (!done) co_return done.error();
    auto over = session_of(phase);
    if (!over) co_return session_registry::no_session(begun->id);
    std::string complete = scenarios::phase_complete_event(phase, *over);
    if (!co_await send_(std::move(complete))) co_return fail(errc::cancelled, "the client left");
    co_return protocol::result<void>();
}

net::awaitable<protocol::result<void>> scenario_run::take_rounds(const scenarios::phase& phase,
                                                                 const std::string& id) {
    session_driver driver(client_, id, how_, send_);
    const auto place = [](const session& now) { return std::pair(now.round, now.is_active()); };
    while (true) {
        auto now = client_.server.sessions.look(client_.tenant, id, place);
        if (!now) co_return now.error();
        const auto [round, is_active] = *now;
        if (!is_active || round >= phase.rounds) co_return protocol::result<void>();
        if (round + 1 == phase.rounds) driver.ends_with_round();
        driver.read_ahead();
        auto reports = co_await driver.round();
        if (!reports) co_return reports.error();
    }
}

net::awaitable<protocol::result<void>> scenario_run::erase_memories(const session& begun) {
    for (const coordination::agent& each : begun.agents) {
        auto name = storage::agent_id::parse(coordination::memory_name(begun, each));
        const storage::agent_id agent = name.value().owned_by(client_.tenant);
        auto is_idle = [&] {
            auto info = client_.engine->inspect(agent);
            return !info || !info->in_use;
        };
        if (!co_await become_idle(client_.link, is_idle))
            co_return fail(errc::conflict, "an agent of the run works");
        auto erase = [&] { return client_.engine->erase(agent); };
        auto erased = co_await run_on(client_.workers, erase);
        if (!erased && erased.error().code != storage::errc::not_found)
            co_return protocol::from_storage(erased.error());
    }
    co_return protocol::result<void>();
}

}  // namespace semantic::server
