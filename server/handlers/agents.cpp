// SPDX-License-Identifier: Apache-2.0
#include "server/handlers/agents.hpp"

#include <boost/asio/post.hpp>

#include <utility>

#include "protocol/agents/agents.hpp"
#include "protocol/agents/generate.hpp"
#include "protocol/wire/ids.hpp"
#include "server/handlers/answer/answer.hpp"
#include "server/handlers/memories.hpp"
#include "server/http/spool_file.hpp"
#include "server/http/sse_writer.hpp"
#include "server/runtime/byte_pipe.hpp"
#include "server/runtime/logging.hpp"

namespace semantic::server {

protocol::agents::agent_card card_of(const engine::agent_info& info) {
    protocol::agents::agent_card card{
        info.id.str(),   info.is_remembered, info.hot,        info.dirty,
        info.in_use,     info.tokens,        info.pool_bytes, info.pool_bytes_shared,
        info.disk_bytes, info.last_used};
    for (const engine::memory_info& each : info.memories)
        card.memories.push_back({each.model_id, each.fingerprint.hex(), each.is_loaded, each.hot,
                                 each.tokens, each.pool_bytes, each.disk_bytes, each.last_used});
    card.state_places = info.state_places;
    card.state_ram_bytes = info.state_pool_bytes;
    card.state_disk_bytes = info.state_disk_bytes;
    card.policy = info.policy;
    card.claim = info.claim;
    card.bytes_written = info.bytes_written;
    card.bytes_of_turn = info.bytes_of_turn;
    card.is_over_bound = info.is_over_bound;
    return card;
}

namespace {

namespace agents = protocol::agents;
using protocol::errc;
using reply = std::optional<response>;

// An export is sent in pieces of this size.
constexpr std::size_t export_piece_bytes = 256 * 1024;

std::vector<agents::agent_card> cards_of(const request& incoming) {
    std::vector<agents::agent_card> cards;
    for (const engine::agent_info& info : incoming.engine->agents(tenant_of(incoming)))
        cards.push_back(card_of(info));
    return cards;
}

const std::string& model_of(const request& incoming) { return incoming.engine->info().id; }

/// The id of the agent that the path names, as one of the client's tenant. Errors: bad_value.
protocol::result<storage::agent_id> agent_of_path(const request& incoming) {
    auto id = agents::parse_path_id(incoming.parameter);
    if (!id) return id.error();
    return id->owned_by(tenant_of(incoming));
}

/// The agent that the path names. Errors: bad_value; not_found, where there is none.
protocol::result<engine::agent_info> known_agent(const request& incoming) {
    auto id = agent_of_path(incoming);
    if (!id) return id.error();
    auto info = incoming.engine->inspect(*id);
    if (!info) return agents::no_agent(*id);
    return std::move(*info);
}

/// The agent that the path names, if the loaded model remembers it. Errors: as known_agent().
protocol::result<engine::agent_info> remembered_agent(const request& incoming) {
    auto info = known_agent(incoming);
    if (info && !info->is_remembered) return agents::no_memory(info->id, model_of(incoming));
    return info;
}

/// The agent that the path names, if no request works with it. `action`: "deleted", for the error.
/// Errors: as known_agent(); conflict.
protocol::result<engine::agent_info> idle_agent(const request& incoming, std::string_view action) {
    auto info = known_agent(incoming);
    if (info && info->in_use) return agents::agent_runs(info->id, action);
    return info;
}

/// The agents that a DELETE forgets: the branches of the named agent, and itself as the last one.
/// Errors: bad_value; not_found, where there is none of them; conflict, where one answers a
/// request.
protocol::result<std::vector<engine::agent_info>> agents_to_delete(const request& incoming,
                                                                   bool deletes_branches) {
    auto id = agent_of_path(incoming);
    if (!id) return id.error();
    std::vector<storage::agent_id> names;
    if (deletes_branches) names = incoming.engine->branches(*id);
    names.push_back(*id);
    std::vector<engine::agent_info> found;
    for (const storage::agent_id& each : names) {
        auto info = incoming.engine->inspect(each);
        if (!info) continue;
        if (info->in_use) return agents::agent_runs(each, "deleted");
        found.push_back(std::move(*info));
    }
    if (found.empty()) return agents::no_agent(*id);
    return found;
}

response created(std::string body) {
    response made = json_response(std::move(body));
    made.status = 201;
    return made;
}

/// The id that a body names for a new agent, or a new one.
storage::agent_id named_or_new(const request& incoming,
                               const std::optional<storage::agent_id>& name) {
    // parse() takes every id that id_maker makes.
    const auto id =
        name ? *name : *storage::agent_id::parse(protocol::id_maker(random_bits).make("agent_"));
    return id.owned_by(tenant_of(incoming));
}

protocol::failure taken(const storage::agent_id& agent) {
    return fail(errc::conflict, "Agent " + agent.str() + " already exists", "agent_id");
}

/// The error of creating an agent whose name is valid: bad_value can then only mean that another
/// request took the name meanwhile.
protocol::failure creation_fault(const storage::agent_id& agent, const protocol::failure& fault) {
    return fault.code == errc::bad_value ? taken(agent) : fault;
}

/// Replies with the new agent. `parent`: the agent that it was forked from; empty: none.
response created_agent(const request& incoming, const storage::agent_id& agent,
                       std::string_view parent, const engine::fork_point& at = {}) {
    auto info = incoming.engine->inspect(agent);
    if (!info) return error_response(incoming, agents::no_agent(agent));  // deleted meanwhile
    return created(agents::created_body(card_of(*info), model_of(incoming), parent, at));
}

/// Runs `work`, which returns a storage result and may block, on a worker. Returns: the error for
/// the client; nothing where there was none.
template <class Work>
net::awaitable<std::optional<protocol::failure>> blocking(const services& server,
                                                          const request& incoming, Work work) {
    auto done = co_await run_on(choose_workers(server, incoming, job_length::long_job), work);
    if (!done) co_return public_fault(incoming, done.error());
    co_return std::nullopt;
}

/// Moves the agent that the path names to disk, under every model that is loaded.
net::awaitable<reply> evict(const services& server, const request& incoming) {
    auto info = idle_agent(incoming, "moved to disk");
    if (!info) co_return error_response(incoming, info.error());
    // An agent may be hot under several models that are loaded.
    auto work = [&] {
        storage::result<void> done;
        for (const engine_lease& each : server.engines.look_at_all())
            if (done) done = each->evict(info->id);
        return done;
    };
    auto fault = co_await blocking(server, incoming, work);
    if (fault) co_return error_response(incoming, *fault);
    auto now = incoming.engine->inspect(info->id);
    if (!now) co_return error_response(incoming, agents::no_agent(info->id));
    co_return json_response(agents::agent_body(card_of(*now), model_of(incoming)));
}

}  // namespace

// On a worker: all of the client's agents are read, whatever the page's length.
net::awaitable<reply> get_agents(const services& server, const request& incoming, client_link&) {
    auto list = [&] {
        const agents::list_query query{incoming.query("limit"), incoming.query("after")};
        return agents::list_body(cards_of(incoming), model_of(incoming), query);
    };
    auto body = co_await run_on(choose_workers(server, incoming), list, incoming.gone);
    co_return body ? json_response(std::move(*body)) : error_response(incoming, body.error());
}

// On a worker: every block of every agent of the client is counted, which takes milliseconds where
// there are thousands.
net::awaitable<reply> get_agent_stats(const services& server, const request& incoming,
                                      client_link&) {
    const engine::engine& engine = *incoming.engine;
    const engine::model_info& info = engine.info();
    std::vector<agents::agent_card> cards;
    auto count = [&] {
        cards = cards_of(incoming);
        return engine.memory_of(tenant_of(incoming));
    };
    const engine::memory_usage mine =
        co_await run_on(choose_workers(server, incoming, job_length::long_job), count);
    agents::capacity_card memory;
    memory.model = info.id;
    memory.pool_bytes = info.pool_bytes;
    memory.pool_bytes_held = mine.pool_bytes;
    memory.disk_bytes = mine.disk_bytes;
    memory.disk_budget_bytes = engine.store_probe().disk_budget_bytes.load();
    memory.kv_bits = info.kv_bits;
    memory.kv_bytes_per_token = info.kv_bytes_per_token;
    memory.context_tokens_max = info.context_tokens_max;
    memory.agents_4k = info.pool_agents_4k;
    memory.agents_16k = info.pool_agents_16k;
    for (const engine::model_memories& each : mine.models)
        memory.models.push_back({each.model_id, each.fingerprint.hex(), each.is_loaded, each.agents,
                                 each.tokens, each.disk_bytes});
    co_return json_response(agents::stats_body(cards, memory));
}

response get_agent(const services&, const request& incoming) {
    auto info = known_agent(incoming);
    if (!info) return error_response(incoming, info.error());
    return json_response(agents::agent_body(card_of(*info), model_of(incoming)));
}

net::awaitable<reply> post_agents(const services& server, const request& incoming, client_link&) {
    auto parse = [&] { return agents::parse_name(incoming.body); };
    auto name = co_await parse_body(server, incoming, parse);
    if (!name) co_return error_response(incoming, name.error());
    const storage::agent_id agent = named_or_new(incoming, *name);
    if (incoming.engine->inspect(agent)) co_return error_response(incoming, taken(agent));
    auto work = [&] { return incoming.engine->create(agent); };
    auto fault = co_await blocking(server, incoming, work);
    if (fault) co_return error_response(incoming, creation_fault(agent, *fault));
    co_return created_agent(incoming, agent, {});
}

net::awaitable<reply> post_agent_fork(const services& server, const request& incoming,
                                      client_link&) {
    auto parent = remembered_agent(incoming);
    if (!parent) co_return error_response(incoming, parent.error());
    auto parse = [&] { return agents::parse_fork(incoming.body); };
    auto order = co_await parse_body(server, incoming, parse);
    if (!order) co_return error_response(incoming, order.error());
    const engine::fork_point& at = order->at;
    const storage::agent_id agent = named_or_new(incoming, order->name);
    if (incoming.engine->inspect(agent)) co_return error_response(incoming, taken(agent));
    if (at.tokens && *at.tokens > parent->tokens)
        co_return error_response(
            incoming,
            fail(errc::bad_value, "at: the agent has " + std::to_string(parent->tokens) + " tokens",
                 "at"));
    auto work = [&] { return incoming.engine->fork(parent->id, agent, at); };
    auto fault = co_await blocking(server, incoming, work);
    if (fault && fault->code == errc::not_found && at.message)
        co_return error_response(incoming, agents::no_answer(parent->id, *at.message));
    if (fault) co_return error_response(incoming, creation_fault(agent, *fault));
    co_return created_agent(incoming, agent, parent->id.str(), at);
}

// Drops the agent; or changes its policy, prefetches its memory, or both.
net::awaitable<reply> post_agent(const services& server, const request& incoming, client_link&) {
    auto parse = [&] { return agents::parse_change(incoming.body); };
    auto change = co_await parse_body(server, incoming, parse);
    if (!change) co_return error_response(incoming, change.error());
    auto info = change->drops ? idle_agent(incoming, "dropped") : remembered_agent(incoming);
    if (!info) co_return error_response(incoming, info.error());
    const storage::agent_id& agent = info->id;
    std::optional<agents::prefetch_card> prefetched;
    auto work = [&]() -> storage::result<void> {
        if (change->drops) return forget(*incoming.engine, *info, std::nullopt);
        if (change->changes_policy())
            if (auto done = incoming.engine->set_policy(agent, change->apply(info->policy)); !done)
                return done;
        if (!change->prefetches) return {};
        auto brought = incoming.engine->prefetch(agent);
        if (!brought) return brought.error();
        prefetched = {brought->tokens, brought->tokens_read, std::move(brought->why)};
        return {};
    };
    auto fault = co_await blocking(server, incoming, work);
    if (fault) co_return error_response(incoming, *fault);
    if (change->drops) co_return empty_response();
    auto now = incoming.engine->inspect(agent);
    if (!now) co_return error_response(incoming, agents::no_agent(agent));
    co_return json_response(agents::changed_body(card_of(*now), model_of(incoming), prefetched));
}

net::awaitable<reply> post_agent_evict(const services& server, const request& incoming,
                                       client_link&) {
    co_return co_await evict(server, incoming);
}

net::awaitable<reply> delete_agent(const services& server, const request& incoming, client_link&) {
    const std::string evict_only = incoming.query("evict_only").value_or("false");
    if (evict_only != "true" && evict_only != "false")
        co_return error_response(
            incoming, fail(errc::bad_value, "evict_only: must be true or false", "evict_only"));
    if (evict_only == "true") {
        reply evicted = co_await evict(server, incoming);
        co_return evicted->status == 200 ? empty_response() : std::move(evicted);
    }
    const std::string deletes_branches = incoming.query("branches").value_or("true");
    if (deletes_branches != "true" && deletes_branches != "false")
        co_return error_response(
            incoming, fail(errc::bad_value, "branches: must be true or false", "branches"));
    const std::optional<std::string> model = incoming.query("model");
    // On a worker: it searches all of the client's agents for branches.
    auto find = [&] { return agents_to_delete(incoming, deletes_branches == "true" && !model); };
    auto found = co_await run_on(choose_workers(server, incoming), find);
    if (!found) co_return error_response(incoming, found.error());
    if (model && models_meant(found->back(), *model).empty())
        co_return error_response(incoming, agents::no_memory_of(found->back().id, *model));
    // The agent itself is the last one: if the server ends in between, its name is still there for
    // another DELETE.
    auto work = [&] {
        storage::result<void> done;
        for (const engine::agent_info& each : *found) {
            if (!done) return done;
            done = forget(*incoming.engine, each, model);
            const bool is_gone = !done && done.error().code == storage::errc::not_found;
            if (is_gone && &each != &found->back()) done = {};
        }
        return done;
    };
    auto fault = co_await blocking(server, incoming, work);
    if (fault) co_return error_response(incoming, *fault);
    co_return empty_response();
}

net::awaitable<reply> post_agent_generate(const services& server, const request& incoming,
                                          client_link& client) {
    running_answer counted(server.probe);
    auto agent = agent_of_path(incoming);
    if (!agent) co_return error_response(incoming, agent.error());
    protocol::request_limits limits;
    limits.json.bytes_max = server.limits.body_bytes_max;
    auto parse = [&] { return agents::parse_generate(incoming.body, limits); };
    auto parsed = co_await parse_body(server, incoming, parse);
    if (!parsed) co_return error_response(incoming, parsed.error());
    if (parsed->append)
        if (auto info = remembered_agent(incoming); !info)
            co_return error_response(incoming, info.error());

    protocol::id_maker ids(random_bits);
    auto wanted = parsed->take_generation(std::move(*agent), answer_deadline(server));
    wanted.text = std::move(parsed->prompt);
    wanted.append = parsed->append;
    wanted.only_reads = wanted.max_tokens == 0;
    wanted.message_id = ids.message_id();
    answer_context asked{server, incoming, client};
    if (parsed->stream) {
        agents::generate_stream stream(incoming.id, ids, std::move(parsed->left_out),
                                       *wanted.message_id);
        co_return co_await stream_answer(asked, std::move(wanted), stream);
    }
    agents::generate_collector collector(ids, std::move(parsed->left_out), *wanted.message_id);
    co_return co_await collect_answer(asked, std::move(wanted), collector);
}

namespace {

/// An export under way: a worker thread reads the agent's memory and pushes it into a pipe; the
/// client's coroutine takes it out with next().
class agent_export {
  public:
    /// Begins the export. It ends early when the client leaves.
    agent_export(const services& server, const request& incoming, client_link& client,
                 storage::agent_id agent)
        : pipe_(std::make_shared<byte_pipe>(client.executor())),
          outcome_(std::make_shared<outcome>()) {
        client.when_gone([pipe = pipe_] { pipe->close(); });
        auto work = [engine = incoming.engine, agent = std::move(agent), pipe = pipe_,
                     out = outcome_] {
            std::string held;
            auto sink = [&](std::span<const std::byte> bytes) -> storage::result<void> {
                held.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
                if (held.size() < export_piece_bytes) return {};
                return send(*pipe, held);
            };
            auto written = engine->export_agent(agent, sink);
            if (written)
                send(*pipe, held);
            else
                out->fault = written.error();
            pipe->end();
        };
        net::post(choose_transfers(server, incoming), work);
    }
    ~agent_export() { pipe_->close(); }
    agent_export(const agent_export&) = delete;
    agent_export& operator=(const agent_export&) = delete;

    /// The next piece of the file; empty at its end, after a failure, or when the client is gone.
    net::awaitable<std::string> next() { return pipe_->next(); }
    /// Why the export ended early; nothing: it is whole. Requires: next() has returned an empty
    /// piece and the client is there.
    const std::optional<storage::failure>& fault() const { return outcome_->fault; }

  private:
    struct outcome {
        std::optional<storage::failure> fault;  // written before the pipe ends
    };
    static storage::result<void> send(byte_pipe& pipe, std::string& held) {
        if (pipe.push(std::exchange(held, {}))) return {};
        return storage::failure{storage::errc::io, "the client left"};
    }
    std::shared_ptr<byte_pipe> pipe_;
    std::shared_ptr<outcome> outcome_;
};

}  // namespace

namespace {

/// The error of a failed export. Memory that is damaged or gone from the disk stays so until a turn
/// of the agent computes it again, so the client learns that a retry is of no use.
protocol::failure export_fault(const request& incoming, const storage::agent_id& agent,
                               const storage::failure& fault) {
    protocol::failure failure = public_fault(incoming, fault);
    const bool is_lost = fault.code == storage::errc::corrupt ||
                         fault.code == storage::errc::incompatible ||
                         fault.code == storage::errc::not_found;
    return is_lost && incoming.engine->inspect(agent) ? agents::memory_lost(agent, fault.code)
                                                      : failure;
}

}  // namespace

net::awaitable<reply> get_agent_cache(const services& server, const request& incoming,
                                      client_link& client) {
    running_answer counted(server.probe);
    auto info = remembered_agent(incoming);
    if (!info) co_return error_response(incoming, info.error());
    if (incoming.method == "HEAD") co_return text_response({}, "application/octet-stream");
    agent_export file(server, incoming, client, info->id);
    std::string piece = co_await file.next();
    if (client.is_gone()) co_return std::nullopt;
    if (piece.empty() && file.fault())
        co_return error_response(incoming, export_fault(incoming, info->id, *file.fault()));
    sse_writer writer(client, incoming, "application/octet-stream");
    writer.add_field("content-disposition",
                     "attachment; filename=\"" + info->id.str() + ".safetensors\"");
    while (!piece.empty()) {
        if (!co_await writer.write(piece)) co_return std::nullopt;
        piece = co_await file.next();
    }
    if (client.is_gone()) co_return std::nullopt;
    // The reply's status was sent already, so only closing the connection can show the failure. The
    // session does that for an exception.
    if (file.fault()) throw std::runtime_error("export ended early: " + file.fault()->what);
    co_await writer.finish();
    co_return std::nullopt;
}

net::awaitable<reply> put_agent_cache(const services& server, const request& incoming,
                                      client_link&) {
    running_answer counted(server.probe);
    auto agent = agent_of_path(incoming);
    if (!agent) co_return error_response(incoming, agent.error());
    auto before = incoming.engine->inspect(*agent);
    if (before && before->in_use)
        co_return error_response(incoming, agents::agent_runs(*agent, "replaced"));
    if (!incoming.file || incoming.file->size() == 0)
        co_return error_response(
            incoming, fail(errc::missing_field, "the body must be a file of GET /cache"));
    engine::memory_source source;
    source.file_bytes = incoming.file->size();
    source.read_at = [file = incoming.file](std::uint64_t offset, std::span<std::byte> bytes) {
        return file->read_at(offset, bytes);
    };
    auto work = [&] { return incoming.engine->import_agent(*agent, source); };
    auto tokens = co_await run_on(choose_transfers(server, incoming), work);
    if (!tokens) {
        public_fault(incoming, tokens.error());  // for the log
        co_return error_response(incoming, agents::import_fault(tokens.error()));
    }
    co_return json_response(agents::imported_body(*agent, *tokens));
}

}  // namespace semantic::server
