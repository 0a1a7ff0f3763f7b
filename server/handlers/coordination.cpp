#include "server/handlers/coordination.hpp"

#include <algorithm>
#include <utility>

#include "protocol/coordination/api.hpp"
#include "protocol/coordination/opening.hpp"
#include "server/coordination/become_idle.hpp"
#include "server/coordination/session_driver.hpp"
#include "server/coordination/session_keeper.hpp"
#include "server/coordination/session_registry.hpp"
#include "server/handlers/answer/answer.hpp"
#include "server/http/sse_writer.hpp"
#include "storage/files/checksum.hpp"

namespace semantic::server {

namespace {

namespace coordination = protocol::coordination;
using coordination::session;
using protocol::errc;
using reply = std::optional<response>;
using room = session_registry::room;

constexpr std::size_t key_bytes_max = 256;

protocol::request_limits limits_of(const services& with) {
    protocol::request_limits limits;
    limits.json.bytes_max = with.limits.body_bytes_max;
    return limits;
}

response no_content() {
    response empty;
    empty.status = 204;
    return empty;
}

/// A reply made of the session, by `make(session)`, a result<std::string>.
template <class Make>
response of_session(const services& with, const request& incoming, Make make) {
    auto body = with.sessions.with(tenant_of(incoming), incoming.parameter,
                                   [&](const room& in) { return make(in.now()); });
    return body ? json_response(std::move(*body)) : error_response(incoming, body.error());
}

using text = protocol::result<std::string>;

/// What comes with a key is done once: a repeated request gets the reply of the first.
class repeated {
  public:
    /// Requires: the body is still there (parse_body).
    repeated(const services& with, const request& incoming)
        : with_(with), incoming_(incoming), key_(incoming.field("idempotency-key").value_or("")) {
        if (key_.empty()) return;
        // A body may be large, and is kept with the session: its hash tells it from another.
        const std::string_view path = incoming.path, body = incoming.body;
        what_ = storage::field_hasher().add(path).add(body).finish().hex();
    }

    /// Returns: the reply of the first, if this is not the first. Errors: bad_value, conflict,
    /// not_found.
    protocol::result<std::optional<std::string>> earlier() const {
        if (key_.empty()) return std::optional<std::string>();
        if (key_.size() > key_bytes_max)
            return fail(errc::bad_value, "idempotency-key: may have " +
                                             std::to_string(key_bytes_max) + " bytes, has " +
                                             std::to_string(key_.size()));
        return with_.sessions.reply_to(tenant_of(incoming_), incoming_.parameter, key_, what_);
    }
    bool is_given() const { return !key_.empty(); }
    void keep(const std::string& body) const {
        if (key_.empty()) return;
        with_.sessions.keep_reply(tenant_of(incoming_), incoming_.parameter, key_, what_, body);
    }

  private:
    const services& with_;
    const request& incoming_;
    std::string key_, what_;
};

/// Returns: what kept the session from being written as it is now.
net::awaitable<protocol::result<void>> keep(const services& with, const request& incoming,
                                            const storage::tenant_id& tenant,
                                            const std::string& id) {
    auto work = [&] { return keep_session(with.sessions, *incoming.engine, tenant, id); };
    co_return co_await run_on(with.workers, work);
}

/// The reply to what has changed the session, when that lasts.
net::awaitable<response> when_kept(const services& with, const request& incoming, response made) {
    const storage::tenant_id tenant = tenant_of(incoming);
    auto kept = co_await keep(with, incoming, tenant, incoming.parameter);
    co_return kept ? std::move(made) : error_response(incoming, kept.error());
}

/// A whisper or a vote: done at once, by `make(session)`.
template <class Make>
net::awaitable<reply> once(const services& with, const request& incoming, const repeated& key,
                           Make make) {
    auto before = key.earlier();
    if (!before) co_return error_response(incoming, before.error());
    if (*before) co_return json_response(std::move(**before));
    response made = of_session(with, incoming, make);
    if (made.status != 200) co_return made;
    key.keep(made.body);
    co_return co_await when_kept(with, incoming, std::move(made));
}

session_client client_of(const answer_context& of) {
    return {of.with,        of.client,          tenant_of(of.incoming),
            of.incoming.id, of.incoming.engine, account_of(of.incoming)};
}

/// One turn, round or decision, as one body. `run(driver)` is what to await, a result<text>.
template <class Run>
net::awaitable<reply> as_body(const answer_context& of, const repeated& key,
                              coordination::answer_wish how, Run run) {
    running_answer counted(of.with.probe);
    auto before = key.earlier();
    if (!before) co_return error_response(of.incoming, before.error());
    if (*before) co_return json_response(std::move(**before));
    auto taken = of.with.sessions.begin(tenant_of(of.incoming), of.incoming.parameter);
    if (!taken) co_return error_response(of.incoming, taken.error());
    const session_client asker = client_of(of);
    session_driver driver(asker, of.incoming.parameter, std::move(how), {});
    text body = co_await run(driver);
    if (!body && of.client.is_gone()) co_return std::nullopt;
    if (!body) co_return error_response(of.incoming, body.error());
    key.keep(*body);
    driver.read_ahead();
    response made = json_response(std::move(*body));
    response last = co_await when_kept(of.with, of.incoming, std::move(made));
    if (of.client.is_gone()) co_return std::nullopt;
    co_return last;
}

/// The same as events, of which the last comes from `run`.
template <class Run>
net::awaitable<reply> as_events(const answer_context& of, const repeated& key,
                                coordination::answer_wish how, Run run) {
    running_answer counted(of.with.probe);
    sse_writer writer(of.client, of.incoming);
    auto before = key.earlier();
    if (!before) co_return error_response(of.incoming, before.error());
    std::string sent;
    // Its frame owns the bytes until they are out.
    event_sender send = [&sent, &writer](std::string events) -> net::awaitable<bool> {
        sent += events;
        co_return co_await writer.write(events);
    };
    if (*before) {
        co_await writer.write(**before);
        co_await writer.finish();
        co_return std::nullopt;
    }
    auto taken = of.with.sessions.begin(tenant_of(of.incoming), of.incoming.parameter);
    if (!taken) co_return error_response(of.incoming, taken.error());
    const session_client asker = client_of(of);
    session_driver driver(asker, of.incoming.parameter, std::move(how), send);
    text last = co_await run(driver);
    if (!last && !writer.begun()) {
        if (of.client.is_gone()) co_return std::nullopt;
        co_return error_response(of.incoming, last.error());
    }
    if (last) {
        sent += *last;
        driver.read_ahead();
        if (key.is_given()) {
            key.keep(sent);
            auto kept = co_await keep(of.with, of.incoming, asker.tenant, of.incoming.parameter);
            if (!kept) last = kept.error();
        }
    }
    std::string bytes = last ? std::move(*last)
                             : error_event(protocol::dialect::native, last.error(), of.incoming.id);
    if (of.client.is_gone()) co_return std::nullopt;
    if (!bytes.empty()) co_await writer.write(bytes);
    co_await writer.finish();
    co_return std::nullopt;
}

/// A `run` for these: what `take(driver)` returns, a result, becomes text by `make(session, it)`.
template <class Take, class Make>
auto taken_as(const answer_context& of, Take take, Make make) {
    return [&of, take, make](session_driver& driver) -> net::awaitable<text> {
        auto done = co_await take(driver);
        if (!done) co_return done.error();
        co_return of.with.sessions.with(tenant_of(of.incoming), of.incoming.parameter,
                                        [&](const room& in) { return make(in.now(), *done); });
    };
}

enum class reply_form { body, events };

net::awaitable<reply> take_turn(const answer_context& of, reply_form form) {
    const repeated key(of.with, of.incoming);
    auto parse = [&] {
        return coordination::parse_turn(of.incoming.body, false, limits_of(of.with));
    };
    auto wanted = co_await parse_body(of.with, of.incoming, parse);
    if (!wanted) co_return error_response(of.incoming, wanted.error());
    auto take = [&](session_driver& driver) { return driver.turn(wanted->wish); };
    using report = coordination::turn_report;
    auto all = [](const session& s, const report& r) { return coordination::turn_body(s, r); };
    // Its own events have said all.
    auto nothing = [](const session&, const report&) { return std::string(); };
    if (form == reply_form::body)
        co_return co_await as_body(of, key, wanted->answer, taken_as(of, take, all));
    co_return co_await as_events(of, key, wanted->answer, taken_as(of, take, nothing));
}

net::awaitable<reply> take_round(const answer_context& of, reply_form form) {
    const repeated key(of.with, of.incoming);
    auto parse = [&] {
        return coordination::parse_turn(of.incoming.body, true, limits_of(of.with));
    };
    auto wanted = co_await parse_body(of.with, of.incoming, parse);
    if (!wanted) co_return error_response(of.incoming, wanted.error());
    auto take = [](session_driver& driver) { return driver.round(); };
    using reports = std::vector<coordination::turn_report>;
    auto all = [](const session& s, const reports& r) { return coordination::round_body(s, r); };
    auto end = [](const session& s, const reports&) {
        return coordination::round_complete_event(s);
    };
    if (form == reply_form::body)
        co_return co_await as_body(of, key, wanted->answer, taken_as(of, take, all));
    co_return co_await as_events(of, key, wanted->answer, taken_as(of, take, end));
}

/// Errors: those of the store, but for agents that there are not.
net::awaitable<std::optional<protocol::failure>> erase_all(
    const services& with, const request& incoming, const std::vector<storage::agent_id>& agents) {
    auto work = [&] {
        std::optional<protocol::failure> fault;
        for (const storage::agent_id& each : agents) {
            auto erased = incoming.engine->erase(each);
            if (!erased && erased.error().code != storage::errc::not_found && !fault)
                fault = public_fault(incoming, erased.error());
        }
        return fault;
    };
    co_return co_await run_on(with.workers, work);
}

/// Of the new session's agents those that the engine has a memory of, which is not known here.
std::vector<int> older_agents(const services& with, const request& incoming,
                              const storage::tenant_id& tenant, const session& made) {
    std::vector<int> older;
    for (std::size_t i = 0; i < made.agents.size(); ++i) {
        if (!coordination::outlives(made, made.agents[i])) continue;
        auto id = storage::agent_id::parse(coordination::memory_name(made, made.agents[i]));
        const storage::agent_id agent = id.value().of(tenant);
        if (with.sessions.remembers(agent)) continue;
        auto info = incoming.engine->inspect(agent);
        if (info && info->tokens > 0) older.push_back(static_cast<int>(i));
    }
    return older;
}

session opened(const services& with, const storage::tenant_id& tenant, coordination::opening wanted,
               const std::vector<int>& older) {
    const session names = wanted.made;
    auto remembers = [&](const coordination::agent& who) {
        for (int each : older)
            if (names.agents[static_cast<std::size_t>(each)].id == who.id) return true;
        auto id = storage::agent_id::parse(coordination::memory_name(names, who));
        return with.sessions.remembers(id.value().of(tenant));
    };
    return coordination::open_session(std::move(wanted), remembers, [] { return new_hex_id(""); });
}

}  // namespace

std::vector<std::string> session_statuses(const services& with, const storage::tenant_id& tenant) {
    std::vector<std::string> statuses;
    // One after the other: whoever takes a turn waits for one at most.
    for (const std::string& id : with.sessions.ids(tenant)) {
        auto status = with.sessions.with(
            tenant, id, [](const room& in) { return coordination::status_body(in.now()); });
        if (status) statuses.push_back(std::move(*status));
    }
    return statuses;
}

response get_sessions(const services& with, const request& incoming) {
    return json_response(coordination::sessions_body(session_statuses(with, tenant_of(incoming))));
}

response get_session(const services& with, const request& incoming) {
    return of_session(with, incoming,
                      [](const session& s) -> text { return coordination::status_body(s); });
}

response get_session_messages(const services& with, const request& incoming) {
    const auto viewer = incoming.query("agent_id");
    return of_session(with, incoming, [&](const session& s) -> text {
        const int agent = viewer ? s.find(*viewer) : coordination::nobody;
        if (viewer && agent == coordination::nobody)
            return fail(errc::not_found, "agent_id: no agent " + *viewer + " in session " + s.id);
        return coordination::messages_body(s, agent);
    });
}

response get_session_votes(const services& with, const request& incoming) {
    return of_session(with, incoming,
                      [](const session& s) -> text { return coordination::votes_body(s); });
}

net::awaitable<reply> post_session_whisper(const services& with, const request& incoming,
                                           client_link&) {
    const repeated key(with, incoming);
    auto parse = [&] { return coordination::parse_whisper(incoming.body, limits_of(with).json); };
    auto wish = co_await parse_body(with, incoming, parse);
    if (!wish) co_return error_response(incoming, wish.error());
    auto whisper = [&](session& s) -> text {
        auto event = coordination::whisper_in(s, *wish, new_hex_id(""));
        if (!event) return event.error();
        apply(s, *event);
        return coordination::whisper_body(s);
    };
    co_return co_await once(with, incoming, key, whisper);
}

net::awaitable<reply> post_session_vote(const services& with, const request& incoming,
                                        client_link&) {
    const repeated key(with, incoming);
    auto parse = [&] { return coordination::parse_vote(incoming.body, limits_of(with).json); };
    auto wish = co_await parse_body(with, incoming, parse);
    if (!wish) co_return error_response(incoming, wish.error());
    auto vote = [&](session& s) -> text {
        if (s.is_full()) return fail(errc::conflict, "Session " + s.id + " is full");
        // Nothing is put down for a vote that is none.
        session after = s;
        auto which = coordination::put_question(after, wish->question);
        if (!which) return which.error();
        auto one = coordination::vote_of(after, after.questions[*which], *wish, new_hex_id(""));
        if (!one) return one.error();
        apply(after, coordination::voted{*which, *one, new_hex_id("")});
        coordination::settle(after, *which, new_hex_id(""));
        s = std::move(after);
        return coordination::vote_body(s, *one, s.questions[*which]);
    };
    co_return co_await once(with, incoming, key, vote);
}

net::awaitable<reply> post_sessions(const services& with, const request& incoming, client_link&) {
    auto parse = [&] {
        return coordination::parse_opening(
            incoming.body, new_hex_id("coord_"),
            [] { return new_hex_id("agent_").substr(0, sizeof "agent_" - 1 + 8); },
            limits_of(with).json);
    };
    auto wanted = co_await parse_body(with, incoming, parse);
    if (!wanted) co_return error_response(incoming, wanted.error());
    const storage::tenant_id tenant = tenant_of(incoming);
    const std::vector<int> older = older_agents(with, incoming, tenant, wanted->made);
    session made = opened(with, tenant, std::move(*wanted), older);
    std::string body = coordination::created_body(made);
    const std::string id = made.id;
    auto added = with.sessions.add(tenant, std::move(made), older);
    if (!added) co_return error_response(incoming, added.error());
    if (auto kept = co_await keep(with, incoming, tenant, id); !kept) {
        if (auto taken = with.sessions.begin(tenant, id)) with.sessions.remove(std::move(*taken));
        co_return error_response(incoming, kept.error());
    }
    response created = json_response(std::move(body));
    created.status = 201;
    co_return created;
}

net::awaitable<reply> delete_session(const services& with, const request& incoming,
                                     client_link& client) {
    const storage::tenant_id tenant = tenant_of(incoming);
    // Nobody begins a turn meanwhile.
    auto taken = with.sessions.begin(tenant, incoming.parameter);
    if (!taken) co_return error_response(incoming, taken.error());
    auto stop = [&](const room& in) {
        auto runs = in.runs();
        for (const engine_run& each : runs) incoming.engine->cancel(each.id);
        return runs;
    };
    const auto runs = with.sessions.with(tenant, incoming.parameter, stop);
    if (!runs) co_return error_response(incoming, runs.error());
    // What still reads, or answers a client that left, would make its agent anew.
    auto is_idle = [&] {
        return std::ranges::all_of(*runs, [](const auto& each) { return each.has_ended->load(); });
    };
    if (!co_await become_idle(client, is_idle))
        co_return error_response(incoming, fail(errc::conflict, "an agent of the session works"));
    const auto keeping = with.sessions.keeping(tenant, incoming.parameter);
    const auto agents = with.sessions.remove(std::move(*taken));
    auto drop = [&] {
        return drop_session(*incoming.engine, tenant, incoming.parameter, *keeping);
    };
    auto fault = co_await erase_all(with, incoming, agents);
    if (fault) co_return error_response(incoming, *fault);
    auto dropped = co_await run_on(with.workers, drop);
    if (!dropped) co_return error_response(incoming, dropped.error());
    co_return no_content();
}

net::awaitable<reply> post_session_turn(const services& with, const request& incoming,
                                        client_link& client) {
    const answer_context of{with, incoming, client};
    co_return co_await take_turn(of, reply_form::body);
}

net::awaitable<reply> post_session_turn_stream(const services& with, const request& incoming,
                                               client_link& client) {
    const answer_context of{with, incoming, client};
    co_return co_await take_turn(of, reply_form::events);
}

net::awaitable<reply> post_session_round(const services& with, const request& incoming,
                                         client_link& client) {
    const answer_context of{with, incoming, client};
    co_return co_await take_round(of, reply_form::body);
}

net::awaitable<reply> post_session_round_stream(const services& with, const request& incoming,
                                                client_link& client) {
    const answer_context of{with, incoming, client};
    co_return co_await take_round(of, reply_form::events);
}

net::awaitable<reply> post_session_decision(const services& with, const request& incoming,
                                            client_link& client) {
    const answer_context of{with, incoming, client};
    const repeated key(with, incoming);
    auto parse = [&] { return coordination::parse_decision(incoming.body, limits_of(with)); };
    auto wanted = co_await parse_body(with, incoming, parse);
    if (!wanted) co_return error_response(incoming, wanted.error());
    auto take = [&](session_driver& driver) { return driver.decide(*wanted); };
    auto result = [](const session& s, std::size_t which) {
        return coordination::decision_body(s, s.questions[which]);
    };
    const coordination::answer_wish as_usual;
    co_return co_await as_body(of, key, as_usual, taken_as(of, take, result));
}

net::awaitable<reply> delete_prefix_caches(const services& with, const request& incoming,
                                           client_link& client) {
    if (!coordination::is_name(incoming.parameter))
        co_return error_response(incoming,
                                 fail(errc::bad_value, "prefix: must be of [A-Za-z0-9._:-]"));
    std::vector<storage::agent_id> agents;
    for (const auto& info : incoming.engine->agents(tenant_of(incoming)))
        if (coordination::prefix_of(info.id.str()) == incoming.parameter) agents.push_back(info.id);
    auto is_idle = [&] {
        return std::ranges::none_of(agents, [&](const storage::agent_id& each) {
            auto info = incoming.engine->inspect(each);
            return info && info->in_use;
        });
    };
    if (!co_await become_idle(client, is_idle))
        co_return error_response(incoming,
                                 fail(errc::conflict, "an agent of this prefix is answering"));
    const storage::tenant_id tenant = tenant_of(incoming);
    for (const std::string& session : with.sessions.forget(tenant, agents)) {
        auto kept = co_await keep(with, incoming, tenant, session);
        if (!kept) co_return error_response(incoming, kept.error());
    }
    auto fault = co_await erase_all(with, incoming, agents);
    if (fault) co_return error_response(incoming, *fault);
    co_return no_content();
}

}  // namespace semantic::server
