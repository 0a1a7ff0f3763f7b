// SPDX-License-Identifier: Apache-2.0
#include "server/handlers/coordination.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "protocol/coordination/api.hpp"
#include "protocol/coordination/opening.hpp"
#include "server/coordination/become_idle.hpp"
#include "server/coordination/session_driver.hpp"
#include "server/coordination/session_keeper.hpp"
#include "server/coordination/session_registry.hpp"
#include "server/handlers/answer/answer.hpp"
#include "server/handlers/answer/piecewise_reply.hpp"
#include "server/http/sse_writer.hpp"
#include "storage/files/checksum.hpp"

namespace semantic::server {

namespace {

namespace coordination = protocol::coordination;
using coordination::session;
using protocol::errc;
using reply = std::optional<response>;
using locked_session = session_registry::locked_session;

constexpr std::size_t key_bytes_max = 256;

protocol::request_limits limits_of(const services& server) {
    protocol::request_limits limits;
    limits.json.bytes_max = server.limits.body_bytes_max;
    return limits;
}

using text = protocol::result<std::string>;
using keyed_request = session_registry::keyed_request;
using optional_key = std::optional<keyed_request>;

/// The request's Idempotency-Key; nothing where it has none. A repeated request with the same key
/// gets the reply of the first. Requires: the body is still there (parse_body). Errors: bad_value.
protocol::result<optional_key> key_of(const request& incoming) {
    auto key = incoming.field("idempotency-key");
    if (!key || key->empty()) return optional_key();
    if (key->size() > key_bytes_max)
        return fail(errc::bad_value, "idempotency-key: may have " + std::to_string(key_bytes_max) +
                                         " bytes, has " + std::to_string(key->size()));
    // A body may be long, so its hash is kept with the session in its place.
    const std::string_view path = incoming.path, body = incoming.body;
    return optional_key(
        {std::move(*key), storage::field_hasher().add(path).add(body).finish().hex()});
}

/// Writes the session to disk, on a worker. Returns: keep_session()'s error.
net::awaitable<protocol::result<void>> keep(const services& server, const request& incoming,
                                            const storage::tenant_id& tenant,
                                            const std::string& id) {
    auto work = [&] { return keep_session(server.sessions, *incoming.engine, tenant, id); };
    co_return co_await run_on(choose_workers(server, incoming, job_length::long_job), work);
}

/// Sends `body`, the reply to a change, once the session is on disk. Also for a retry, since the
/// first request may have failed to write it.
net::awaitable<response> when_kept(const services& server, const request& incoming,
                                   std::string body) {
    const storage::tenant_id tenant = tenant_of(incoming);
    auto kept = co_await keep(server, incoming, tenant, incoming.parameter);
    co_return kept ? json_response(std::move(body)) : error_response(incoming, kept.error());
}

/// Applies a whisper or a vote under the session's lock with `make(locked_session)`, a
/// result<std::string>, and stores its reply. A request that was done before only gets that reply.
template <class Make>
net::awaitable<reply> once(const services& server, const request& incoming, const optional_key& key,
                           Make make) {
    auto change = [&](const locked_session& locked) -> text {
        if (key) {
            const auto before = locked.find_reply(*key);
            if (!before) return before.error();
            if (*before != nullptr) return (*before)->reply;
        }
        text made = make(locked);
        if (made && key) locked.keep_reply({key->key, key->digest, *made});
        return made;
    };
    text body = server.sessions.run_locked(tenant_of(incoming), incoming.parameter, change);
    if (!body) co_return error_response(incoming, body.error());
    co_return co_await when_kept(server, incoming, std::move(*body));
}

}  // namespace

session_client client_of(const answer_context& context) {
    return {context.server,
            context.client,
            tenant_of(context.incoming),
            context.incoming.id,
            context.incoming.engine,
            choose_workers(context.server, context.incoming, job_length::long_job),
            account_of(context.incoming)};
}

namespace {

/// A request for turns: how they are taken and how the reply is made.
struct asked_turn {
    optional_key key;
    coordination::answer_wish how;
    std::function<net::awaitable<protocol::result<void>>(session_driver&)> take;
    /// The reply's body; of a stream, the last bytes after the turns' own events.
    std::function<std::string(const session&, const taken_turns&)> show;
};

/// Takes a turn, a round or a decision, and replies with one body.
net::awaitable<reply> as_body(const answer_context& context, asked_turn asked) {
    running_answer counted(context.server.probe);
    auto begun = context.server.sessions.begin_once(tenant_of(context.incoming),
                                                    context.incoming.parameter, asked.key);
    if (!begun) co_return error_response(context.incoming, begun.error());
    if (begun->reply != nullptr)
        co_return co_await when_kept(context.server, context.incoming, begun->reply->reply);
    const session_client asker = client_of(context);
    std::string body;
    const auto at_end = [&](const locked_session& locked, taken_turns& taken) {
        body = asked.show(locked.now(), taken);
        if (asked.key) locked.keep_reply({asked.key->key, asked.key->digest, body});
    };
    session_driver driver(asker, context.incoming.parameter, std::move(asked.how), {}, at_end);
    auto done = co_await asked.take(driver);
    if (!done && context.client.is_gone()) co_return std::nullopt;
    if (!done) co_return error_response(context.incoming, done.error());
    driver.read_ahead();
    response last = co_await when_kept(context.server, context.incoming, std::move(body));
    if (context.client.is_gone()) co_return std::nullopt;
    co_return last;
}

/// Sends the stored reply of a stream once more: its events are made again from what is stored.
net::awaitable<reply> send_again(const answer_context& context,
                                 const session_registry::kept_reply& kept, sse_writer& writer) {
    constexpr std::size_t write_bytes = 64 * 1024;
    const storage::tenant_id tenant = tenant_of(context.incoming);
    auto written =
        co_await keep(context.server, context.incoming, tenant, context.incoming.parameter);
    if (!written) co_return error_response(context.incoming, written.error());
    auto agents =
        context.server.sessions.look(tenant, context.incoming.parameter, [](const session& now) {
            std::vector<coordination::shown_agent> shown;
            for (const coordination::agent& each : now.agents)
                shown.push_back({each.id, each.name});
            return shown;
        });
    if (!agents) co_return error_response(context.incoming, agents.error());
    coordination::replayed_events events(kept, std::move(*agents));
    std::string bytes;
    for (auto event = events.next(); event; event = events.next()) {
        bytes += *event;
        if (bytes.size() < write_bytes) continue;
        const bool is_there = co_await writer.write(bytes);
        if (!is_there) co_return std::nullopt;
        bytes.clear();
    }
    if (!bytes.empty()) co_await writer.write(bytes);
    co_await writer.finish();
    co_return std::nullopt;
}

/// Takes a turn, a round or a decision, and sends its events as they come.
net::awaitable<reply> as_events(const answer_context& context, asked_turn asked) {
    running_answer counted(context.server.probe);
    sse_writer writer(context.client, context.incoming);
    auto begun = context.server.sessions.begin_once(tenant_of(context.incoming),
                                                    context.incoming.parameter, asked.key);
    if (!begun) co_return error_response(context.incoming, begun.error());
    if (begun->reply != nullptr) co_return co_await send_again(context, *begun->reply, writer);
    // The coroutine's frame owns the bytes until they are sent.
    event_sender send = [&writer](std::string events) -> net::awaitable<bool> {
        co_return co_await writer.write(events);
    };
    const session_client asker = client_of(context);
    std::string bytes;
    const auto at_end = [&](const locked_session& locked, taken_turns& taken) {
        bytes = asked.show(locked.now(), taken);
        if (asked.key)
            locked.keep_reply(
                {asked.key->key, asked.key->digest, bytes, std::move(taken.streamed)});
    };
    session_driver driver(asker, context.incoming.parameter, std::move(asked.how), send, at_end);
    if (asked.key) driver.gather_streams();
    auto done = co_await asked.take(driver);
    if (!done && !writer.begun()) {
        if (context.client.is_gone()) co_return std::nullopt;
        co_return error_response(context.incoming, done.error());
    }
    if (done) driver.read_ahead();
    if (!done) bytes = error_event(protocol::dialect::native, done.error(), context.incoming.id);
    if (context.client.is_gone()) co_return std::nullopt;
    if (!bytes.empty()) co_await writer.write(bytes);
    co_await writer.finish();
    co_return std::nullopt;
}

enum class reply_form { body, events };

/// Handles a request for a turn (or a round), with a reply in this form.
net::awaitable<reply> take_turns(const answer_context& context, bool is_round, reply_form form) {
    auto key = key_of(context.incoming);
    if (!key) co_return error_response(context.incoming, key.error());
    auto parse = [&] {
        return coordination::parse_turn(context.incoming.body, is_round, limits_of(context.server));
    };
    auto wanted = co_await parse_body(context.server, context.incoming, parse);
    if (!wanted) co_return error_response(context.incoming, wanted.error());
    asked_turn asked{std::move(*key), wanted->answer, {}, {}};
    asked.take = [&](session_driver& driver) {
        return is_round ? driver.round() : driver.turn(wanted->wish);
    };
    asked.show = [&](const session& s, const taken_turns& taken) {
        // The events of a turn leave nothing to add.
        if (form == reply_form::events)
            return is_round ? coordination::round_complete_event(s) : std::string();
        return is_round ? coordination::round_body(s, taken.reports)
                        : coordination::turn_body(s, taken.reports.front());
    };
    if (form == reply_form::body) co_return co_await as_body(context, std::move(asked));
    co_return co_await as_events(context, std::move(asked));
}

/// Erases what the engine remembers of these agents. Tries all, and returns the first error. An
/// agent that is not there is no error. Blocks.
protocol::result<void> erase_all(engine::engine& engine,
                                 const std::vector<storage::agent_id>& agents) {
    protocol::result<void> all;
    for (const storage::agent_id& each : agents) {
        auto erased = engine.erase(each);
        if (!erased && erased.error().code != storage::errc::not_found && all)
            all = protocol::from_storage(erased.error());
    }
    return all;
}

/// Indexes of the new session's agents that have KV in the engine but no entry in the registry.
std::vector<int> older_agents(const services& server, const request& incoming,
                              const storage::tenant_id& tenant, const session& made) {
    std::vector<int> older;
    for (std::size_t i = 0; i < made.agents.size(); ++i) {
        if (!coordination::outlives(made, made.agents[i])) continue;
        // A memory's name is always an agent id.
        auto id = storage::agent_id::parse(coordination::memory_name(made, made.agents[i]));
        const storage::agent_id agent = id.value().owned_by(tenant);
        if (server.sessions.remembers(agent)) continue;
        auto info = incoming.engine->inspect(agent);
        if (info && info->tokens > 0) older.push_back(static_cast<int>(i));
    }
    return older;
}

/// Opens the session that a request wants. `older`: see older_agents().
session opened(const services& server, const storage::tenant_id& tenant,
               coordination::opening wanted, const std::vector<int>& older) {
    const session names = wanted.made;
    auto remembers = [&](const coordination::agent& agent) {
        for (int each : older)
            if (names.agents[static_cast<std::size_t>(each)].id == agent.id) return true;
        auto id = storage::agent_id::parse(coordination::memory_name(names, agent));
        return server.sessions.remembers(id.value().owned_by(tenant));
    };
    return coordination::open_session(std::move(wanted), remembers, [] { return new_hex_id(""); });
}

/// A session that is to be added.
struct prepared_session {
    session made;
    std::vector<int> older;
    std::string body;
};

protocol::result<prepared_session> prepare(const services& server, const request& incoming) {
    auto wanted = coordination::parse_opening(
        incoming.body, new_hex_id("coord_"),
        [] { return new_hex_id("agent_").substr(0, sizeof "agent_" - 1 + 8); },
        limits_of(server).json);
    if (!wanted) return wanted.error();
    const storage::tenant_id tenant = tenant_of(incoming);
    prepared_session prepared;
    prepared.older = older_agents(server, incoming, tenant, wanted->made);
    prepared.made = opened(server, tenant, std::move(*wanted), prepared.older);
    prepared.body = coordination::created_body(prepared.made);
    return prepared;
}

}  // namespace

std::vector<std::string> session_statuses(const services& server,
                                          const storage::tenant_id& tenant) {
    std::vector<std::string> statuses;
    // One at a time, so that the registry's lock is never held for long.
    for (const std::string& id : server.sessions.ids(tenant))
        if (auto status = server.sessions.status(tenant, id)) statuses.push_back(**status);
    return statuses;
}

net::awaitable<reply> get_sessions(const services& server, const request& incoming,
                                   client_link& client) {
    const storage::tenant_id tenant = tenant_of(incoming);
    const std::vector<std::string> ids = server.sessions.ids(tenant);
    std::size_t shown = 0;
    bool is_first = true;
    bool has_shown = false;
    auto next = [&]() -> text {
        std::string piece = std::exchange(is_first, false) ? "{\"sessions\":[" : "";
        // The end was sent already: an empty piece ends the reply.
        if (shown > ids.size()) return std::string();
        for (; shown < ids.size() && piece.size() < reply_piece_bytes; ++shown) {
            const auto status = server.sessions.status(tenant, ids[shown]);
            if (!status) continue;  // it was deleted meanwhile
            if (std::exchange(has_shown, true)) piece += ',';
            piece += **status;
        }
        if (shown == ids.size()) {
            ++shown;
            piece += "]}";
        }
        return piece;
    };
    const answer_context context{server, incoming, client};
    co_return co_await send_in_pieces(context, next);
}

response get_session(const services& server, const request& incoming) {
    auto status = server.sessions.status(tenant_of(incoming), incoming.parameter);
    if (!status) return error_response(incoming, status.error());
    return json_response(std::string(**status));
}

net::awaitable<reply> get_session_messages(const services& server, const request& incoming,
                                           client_link& client) {
    const auto viewer = incoming.query("agent_id");
    const storage::tenant_id tenant = tenant_of(incoming);
    std::optional<coordination::messages_body> body;
    std::size_t from = 0;
    bool is_over = false;
    const auto begin = [&]() -> protocol::result<void> {
        auto names = server.sessions.look(tenant, incoming.parameter, coordination::without_lines);
        if (!names) return names.error();
        const int agent = viewer ? names->find(*viewer) : coordination::nobody;
        if (viewer && agent == coordination::nobody)
            return fail(errc::not_found,
                        "agent_id: no agent " + *viewer + " in session " + names->id);
        body.emplace(std::move(*names), agent);
        return {};
    };
    auto next = [&]() -> text {
        if (is_over) return std::string();
        if (!body)
            if (auto begun = begin(); !begun) return begun.error();
        // Some at a time, so that the registry's lock is never held for long.
        while (body->bytes() < reply_piece_bytes) {
            auto lines = server.sessions.lines(tenant, incoming.parameter, from);
            if (!lines) return lines.error();
            is_over = lines->empty();
            if (is_over) return body->finish();
            body->add(*lines);
            from += lines->size();
        }
        return body->take();
    };
    const answer_context context{server, incoming, client};
    co_return co_await send_in_pieces(context, next);
}

net::awaitable<reply> get_session_votes(const services& server, const request& incoming,
                                        client_link&) {
    const storage::tenant_id tenant = tenant_of(incoming);
    auto make = [&]() -> text {
        auto now = server.sessions.look(tenant, incoming.parameter, coordination::without_lines);
        if (!now) return now.error();
        return coordination::votes_body(*now);
    };
    auto body = co_await run_on(choose_workers(server, incoming, job_length::long_job), make);
    if (!body) co_return error_response(incoming, body.error());
    co_return json_response(std::move(*body));
}

net::awaitable<reply> post_session_whisper(const services& server, const request& incoming,
                                           client_link&) {
    auto key = key_of(incoming);
    if (!key) co_return error_response(incoming, key.error());
    auto parse = [&] { return coordination::parse_whisper(incoming.body, limits_of(server).json); };
    auto wish = co_await parse_body(server, incoming, parse);
    if (!wish) co_return error_response(incoming, wish.error());
    auto whisper = [&](const locked_session& locked) -> text {
        session& s = locked.now();
        auto event = coordination::whisper_in(s, *wish, new_hex_id(""));
        if (!event) return event.error();
        if (auto ok = locked.check_space(coordination::line_own_bytes + wish->text.size()); !ok)
            return ok.error();
        apply(s, *event);
        return coordination::whisper_body(s);
    };
    co_return co_await once(server, incoming, *key, whisper);
}

net::awaitable<reply> post_session_vote(const services& server, const request& incoming,
                                        client_link&) {
    auto key = key_of(incoming);
    if (!key) co_return error_response(incoming, key.error());
    auto parse = [&] { return coordination::parse_vote(incoming.body, limits_of(server).json); };
    auto wish = co_await parse_body(server, incoming, parse);
    if (!wish) co_return error_response(incoming, wish.error());
    auto vote = [&](const locked_session& locked) -> text {
        session& s = locked.now();
        if (s.is_full()) return fail(errc::conflict, "Session " + s.id + " is full");
        if (auto ok = locked.check_space(coordination::vote_bytes_max); !ok) return ok.error();
        const std::size_t before = s.questions.size();
        auto question = coordination::put_question(s, wish->question);
        if (!question) return question.error();
        auto one = coordination::vote_of(s, s.questions[*question], *wish, new_hex_id(""));
        if (!one) {
            // An invalid vote must not leave its new question open.
            if (s.questions.size() > before) s.questions.pop_back();
            return one.error();
        }
        apply(s, coordination::voted{*question, *one, new_hex_id("")});
        coordination::settle(s, *question, new_hex_id(""));
        return coordination::vote_body(s, *one, s.questions[*question]);
    };
    co_return co_await once(server, incoming, *key, vote);
}

net::awaitable<reply> post_sessions(const services& server, const request& incoming, client_link&) {
    auto parse = [&] { return prepare(server, incoming); };
    auto prepared = co_await parse_body(server, incoming, parse);
    if (!prepared) co_return error_response(incoming, prepared.error());
    const storage::tenant_id tenant = tenant_of(incoming);
    const std::string id = prepared->made.id;
    auto added = server.sessions.add(tenant, std::move(prepared->made), prepared->older);
    if (!added) co_return error_response(incoming, added.error());
    if (auto kept = co_await keep(server, incoming, tenant, id); !kept) {
        auto undo = [&] {
            auto taken = server.sessions.begin(tenant, id);
            if (!taken) return false;  // who has begun to delete it goes on with that
            server.sessions.leave(*taken);
            // A failure is ignored: the next start erases what is left.
            (void)drop_session(server.sessions, *incoming.engine, tenant, id);
            server.sessions.remove(std::move(*taken));
            return true;
        };
        co_await run_on(choose_workers(server, incoming, job_length::long_job), undo);
        co_return error_response(incoming, kept.error());
    }
    response created = json_response(std::move(prepared->body));
    created.status = 201;
    co_return created;
}

net::awaitable<reply> delete_session(const services& server, const request& incoming,
                                     client_link& client) {
    const storage::tenant_id tenant = tenant_of(incoming);
    const std::string& id = incoming.parameter;
    // Holding this right keeps others from beginning a turn.
    auto taken = server.sessions.begin(tenant, id);
    if (!taken) co_return error_response(incoming, taken.error());
    auto stop = [&](const locked_session& locked) {
        auto runs = locked.runs();
        for (const engine_run& each : runs) incoming.engine->cancel(each.id);
        return runs;
    };
    const auto runs = server.sessions.run_locked(tenant, id, stop);
    if (!runs) co_return error_response(incoming, runs.error());
    // A request that still works on an agent would create its memory again after the deletion.
    auto is_idle = [&] {
        return std::ranges::all_of(*runs, [](const auto& each) { return each.has_ended->load(); });
    };
    if (!co_await become_idle(client, is_idle))
        co_return error_response(incoming, fail(errc::conflict, "an agent of the session works"));
    // From here on the session takes no change and is not written. It stays in the registry until
    // its records are erased, so that a failed deletion can be repeated.
    const auto agents = server.sessions.leave(*taken);
    auto erase = [&] {
        auto erased = erase_all(*incoming.engine, agents);
        return erased ? drop_session(server.sessions, *incoming.engine, tenant, id) : erased;
    };
    auto erased = co_await run_on(choose_workers(server, incoming, job_length::long_job), erase);
    if (!erased) {
        // Gives the right back, so that the deletion can be repeated.
        { const auto stays = std::move(*taken); }
        // Some of its records may be erased, so they are written again.
        co_await keep(server, incoming, tenant, id);
        co_return error_response(incoming, erased.error());
    }
    // On a worker: freeing a long session takes time.
    auto destroy = [gone = server.sessions.remove(std::move(*taken))]() mutable {
        gone = nullptr;
        return true;
    };
    co_await run_on(choose_workers(server, incoming, job_length::long_job), std::move(destroy));
    co_return empty_response();
}

net::awaitable<reply> post_session_turn(const services& server, const request& incoming,
                                        client_link& client) {
    const answer_context context{server, incoming, client};
    co_return co_await take_turns(context, false, reply_form::body);
}

net::awaitable<reply> post_session_turn_stream(const services& server, const request& incoming,
                                               client_link& client) {
    const answer_context context{server, incoming, client};
    co_return co_await take_turns(context, false, reply_form::events);
}

net::awaitable<reply> post_session_round(const services& server, const request& incoming,
                                         client_link& client) {
    const answer_context context{server, incoming, client};
    co_return co_await take_turns(context, true, reply_form::body);
}

net::awaitable<reply> post_session_round_stream(const services& server, const request& incoming,
                                                client_link& client) {
    const answer_context context{server, incoming, client};
    co_return co_await take_turns(context, true, reply_form::events);
}

net::awaitable<reply> post_session_decision(const services& server, const request& incoming,
                                            client_link& client) {
    const answer_context context{server, incoming, client};
    auto key = key_of(incoming);
    if (!key) co_return error_response(incoming, key.error());
    auto parse = [&] { return coordination::parse_decision(incoming.body, limits_of(server)); };
    auto wanted = co_await parse_body(server, incoming, parse);
    if (!wanted) co_return error_response(incoming, wanted.error());
    asked_turn asked{std::move(*key), {}, {}, {}};
    asked.take = [&](session_driver& driver) { return driver.decide(*wanted); };
    asked.show = [](const session& s, const taken_turns& taken) {
        return coordination::decision_body(s, s.questions[taken.question]);
    };
    co_return co_await as_body(context, std::move(asked));
}

net::awaitable<reply> delete_prefix_caches(const services& server, const request& incoming,
                                           client_link& client) {
    if (!coordination::is_name(incoming.parameter))
        co_return error_response(incoming,
                                 fail(errc::bad_value, "prefix: must be of [A-Za-z0-9._:-]"));
    const storage::tenant_id tenant = tenant_of(incoming);
    auto find = [&] {
        std::vector<storage::agent_id> found;
        for (const auto& info : incoming.engine->agents(tenant))
            if (coordination::prefix_of(info.id.str()) == incoming.parameter)
                found.push_back(info.id);
        return found;
    };
    const auto agents =
        co_await run_on(choose_workers(server, incoming, job_length::long_job), find);
    auto is_idle = [&] {
        return std::ranges::none_of(agents, [&](const storage::agent_id& each) {
            auto info = incoming.engine->inspect(each);
            return info && info->in_use;
        });
    };
    if (!co_await become_idle(client, is_idle))
        co_return error_response(incoming,
                                 fail(errc::conflict, "an agent of this prefix is answering"));
    auto erase = [&]() -> protocol::result<void> {
        for (const std::string& session : server.sessions.forget(tenant, agents)) {
            auto kept = keep_session(server.sessions, *incoming.engine, tenant, session);
            // One that was deleted meanwhile remembers nothing.
            if (!kept && kept.error().code != errc::not_found) return kept;
        }
        return erase_all(*incoming.engine, agents);
    };
    auto erased = co_await run_on(choose_workers(server, incoming, job_length::long_job), erase);
    if (!erased) co_return error_response(incoming, erased.error());
    co_return empty_response();
}

}  // namespace semantic::server
