// SPDX-License-Identifier: Apache-2.0
#include "server/http/connection/session.hpp"

#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>

#include <algorithm>
#include <optional>
#include <tuple>
#include <vector>

#include "protocol/agents/agents.hpp"
#include "protocol/wire/named_model.hpp"
#include "server/http/body_budget.hpp"
#include "server/http/connection/body_decoder.hpp"
#include "server/http/connection/connection.hpp"
#include "server/http/connection/header_rules.hpp"
#include "server/http/middleware.hpp"
#include "server/http/shared_slots.hpp"
#include "server/http/spool_file.hpp"
#include "server/runtime/deadline.hpp"
#include "server/runtime/logging.hpp"
#include "server/runtime/memory.hpp"
#include "server/runtime/workers.hpp"
#include "server/usage/key_account.hpp"
#include "server/workers/request_workers.hpp"

namespace semantic::server {

namespace {

namespace http = boost::beast::http;
using protocol::errc;
using request_parser = http::request_parser<http::string_body>;
using clock = std::chrono::steady_clock;

// The piece of an upload that is in memory until it is on disk.
constexpr std::size_t spool_piece_bytes = 256 * 1024;
// A body beyond this takes longer to look through than an I/O thread may be held.
constexpr std::size_t parse_here_bytes_max = 64 * 1024;
// The most bytes of any other body that one read returns.
constexpr std::size_t body_piece_bytes = 64 * 1024;
// The most bytes of a compressed body that are unpacked at once.
constexpr std::size_t unpacked_piece_bytes = 256 * 1024;

const boost::system::error_code no_read_error;
// How long a client is asked to wait where all slots for uploads, or for its connections, are
// taken.
constexpr std::chrono::seconds upload_wait{5};
constexpr std::chrono::seconds connection_wait{1};

/// How reading a request ended, apart from success.
struct read_failure {
    std::optional<response> reply;  // nothing: the client is gone, or never was about to ask
};

/// Whether the error is one of HTTP, and not of the connection.
bool is_http_fault(boost::system::error_code error) {
    return error.category() == http::make_error_code(http::error::bad_method).category();
}

response not_http(const request& to, const std::string& why) {
    return error_response(to, fail(errc::bad_value, "this is not valid HTTP: " + why), 400);
}

/// How a failed read ends the request: with an error reply, or with none where the client has gone.
/// `late`: the time was up.
read_failure judge(boost::system::error_code error, bool late, const request& to,
                   const http_limits& limits, std::uint64_t body_bytes_max) {
    if (error == http::error::header_limit || error == http::error::buffer_overflow)
        return {error_response(
            to,
            fail(errc::bad_value, "the request header has more than " +
                                      std::to_string(limits.header_bytes_max) + " bytes"),
            431)};
    if (error == http::error::body_limit)
        return {error_response(
            to, fail(errc::body_too_large, "the request body has more than " +
                                               std::to_string(body_bytes_max) + " bytes"))};
    if (late)
        return {
            error_response(to, fail(errc::request_timeout, "the request did not arrive in time"))};
    if (error == http::error::end_of_stream || error == http::error::partial_message) return {};
    if (is_http_fault(error)) return {not_http(to, error.message())};
    return {};
}

/// The request as far as its header says, also of one that is not whole.
request header_of(const request_parser& parser) {
    request incoming;
    const auto& message = parser.get();
    incoming.method = std::string(message.method_string());
    incoming.target = std::string(message.target());
    incoming.http_1_0 = message.version() < 11;
    incoming.keep_alive = message.keep_alive();
    for (const auto& field : message)
        incoming.fields.emplace_back(std::string(field.name_string()), std::string(field.value()));
    return incoming;
}

bool has_body(const request_parser& parser) {
    return parser.chunked() || parser.content_length().value_or(0) > 0;
}

/// The refusal of a body in an unknown coding. `field`: what to leave out.
response compressed(const request& incoming, const std::string& field) {
    response reply = error_response(
        incoming,
        fail(errc::unsupported, "send the body without " + field +
                                    ": only gzip and zstd are read, and of files neither"),
        415);
    reply.fields.emplace_back("accept-encoding", "gzip, zstd, identity");
    return reply;
}

/// The most bytes that a request's body may have.
std::uint64_t body_bytes_max(const services& server, const route_match& match) {
    const bool is_file = match.found != nullptr && match.found->body == body_class::file;
    if (!is_file) return server.limits.body_bytes_max;
    const engine_lease engine = server.engines.look();
    if (!engine) return server.limits.body_bytes_max;
    // A memory is at most as large as the pool; its text and token ids come in addition.
    return engine->info().pool_bytes + server.limits.body_bytes_max;
}

/// Returns: a refusal of a body that the header shows to be too long or in an unknown coding; else
/// nothing.
std::optional<response> refuse_body(const request& incoming, const request_parser& parser,
                                    const route_match& match, std::uint64_t bytes_max) {
    if (auto length = parser.content_length(); length && *length > bytes_max) {
        std::string message = "the request body has " + std::to_string(*length) +
                              " bytes, the limit is " + std::to_string(bytes_max);
        return error_response(incoming, fail(errc::body_too_large, std::move(message)));
    }
    const bool is_file = match.found != nullptr && match.found->body == body_class::file;
    if (auto coding = incoming.field("content-encoding");
        coding && !equal_ignoring_case(*coding, "identity") && (is_file || !coding_of(*coding)))
        return compressed(incoming, "content-encoding");
    if (auto coding = incoming.field("transfer-encoding");
        coding && !equal_ignoring_case(*coding, "chunked"))
        return compressed(incoming, "a transfer-encoding other than chunked");
    if (auto expect = incoming.field("expect");
        expect && !equal_ignoring_case(*expect, "100-continue"))
        return error_response(
            incoming, fail(errc::unsupported, "the only expectation served is 100-continue"), 417);
    return std::nullopt;
}

/// Returns: a refusal of an upload for an invalid agent name, before gigabytes are sent; else
/// nothing.
std::optional<response> refuse_name(const request& incoming, const route_match& match) {
    if (match.found->body != body_class::file) return std::nullopt;
    auto agent = protocol::agents::parse_path_id(match.parameter);
    if (agent) return std::nullopt;
    return error_response(incoming, agent.error());
}

/// Reads one request, has it answered, and sends the reply.
class exchange {
  public:
    exchange(std::shared_ptr<connection> link, const services& server,
             connection_slots::holder& slot)
        : link_(std::move(link)),
          server_(server),
          slot_(slot),
          started_(clock::now()),
          room_(server.bodies) {
        parser_.header_limit(static_cast<std::uint32_t>(server.limits.header_bytes_max));
        // Checked by us once the route is known: the parser would not say how long the body is.
        parser_.body_limit(boost::none);
    }

    /// Returns: whether the connection can serve another request.
    net::awaitable<bool> run();

  private:
    /// Reads and checks the header. Returns: false when the connection is to end.
    net::awaitable<bool> read_header();
    net::awaitable<bool> allow_body();
    std::optional<response> refuse_connection();
    std::optional<response> refuse_upload();
    /// Reads the body. Returns: false when an error reply was sent.
    net::awaitable<bool> read_body();
    net::awaitable<bool> read_piece(clock::duration wait);
    net::awaitable<bool> unpack_body(clock::time_point until);
    net::awaitable<bool> read_file();
    std::optional<response> lease_engine(std::optional<std::size_t> model = {});
    void cut_with_lease();
    net::awaitable<std::optional<std::size_t>> wanted_model();
    net::awaitable<std::optional<response>> wait_for_engine();
    /// Leases an engine where the route needs one, calls the handler, and sends its reply.
    net::awaitable<void> answer();
    /// Calls the route's handler. An exception becomes a 500, or closes the connection where a part
    /// of the reply was sent.
    net::awaitable<std::optional<response>> call_handler();
    /// Sends the reply. Returns: whether the connection can serve another request.
    net::awaitable<bool> send(response reply);
    /// Sends the error, if there is one, as the last reply of the connection. Returns: false.
    net::awaitable<bool> give_up(read_failure failure);
    read_failure judged(boost::system::error_code error, bool late) const {
        return judge(error, late, incoming_, server_.limits, body_bytes_max(server_, match_));
    }

    std::shared_ptr<connection> link_;
    const services& server_;
    connection_slots::holder& slot_;
    clock::time_point started_;
    request_parser parser_;
    body_budget::share room_;  // of incoming_.body
    request incoming_;
    route_match match_;
    std::size_t body_bytes_ = 0;
    std::optional<upload_slot> upload_;  // of a file whose body is not read yet
};

net::awaitable<bool> exchange::send(response reply) {
    if (server_.stopping.load()) link_->end_keep_alive();
    std::string bytes = response_bytes(incoming_, reply, link_->keep_alive());
    bool sent = co_await link_->write(std::move(bytes));
    end_request(server_, incoming_, match_, sent ? reply.status : 499, clock::now() - started_);
    co_return sent && link_->keep_alive();
}

net::awaitable<bool> exchange::give_up(read_failure failure) {
    link_->end_keep_alive();  // where the next request would begin is unknown
    if (failure.reply) co_await send(std::move(*failure.reply));
    co_return false;
}

net::awaitable<bool> exchange::read_header() {
    boost::system::error_code error;
    bool late = false;
    {
        deadline limit(link_->socket(), server_.limits.header);
        error = co_await link_->read_header();
        late = limit.passed();
    }
    const std::string_view bytes = link_->read_ahead();
    std::size_t used = 0;
    if (!error) {
        // The fields that fit are read of a header that is too long, too: one may be the request's
        // id.
        const bool is_too_long = link_->header_bytes() > server_.limits.header_bytes_max;
        used = parser_.put(net::buffer(bytes), error);
        if (is_too_long) error = http::error::header_limit;
    }
    const bool is_folded = has_folded_line(bytes.substr(0, used));
    link_->buffer().consume(used);
    incoming_ = header_of(parser_);
    incoming_.is_local = link_->is_from_here();
    incoming_.gone = link_->gone();
    match_ = begin_request(server_, incoming_);
    if (error) co_return co_await give_up(judged(error, late));
    std::string fault = is_folded ? "a field goes on in the next line" : fault_of_fields(incoming_);
    if (!fault.empty()) {
        read_failure refused{not_http(incoming_, fault)};
        co_return co_await give_up(std::move(refused));
    }
    link_->begin_request(incoming_.keep_alive && !server_.stopping.load());
    co_return true;
}

net::awaitable<bool> exchange::allow_body() {
    if (incoming_.field("expect") && link_->buffer().size() == 0 && !incoming_.http_1_0)
        co_return co_await link_->write("HTTP/1.1 100 Continue\r\n\r\n");
    co_return true;
}

/// Reads one piece of a body into memory within `wait`. Returns: false when an error reply was
/// sent.
net::awaitable<bool> exchange::read_piece(clock::duration wait) {
    boost::system::error_code error;
    bool late = false;
    {
        deadline limit(link_->socket(), wait);
        std::tie(error, std::ignore) =
            co_await http::async_read_some(link_->socket(), link_->buffer(), parser_, use_tuple);
        late = limit.passed();
    }
    if (error) co_return co_await give_up(judged(error, late));
    co_return true;
}

/// Returns: a refusal where the request's key has its share of the connections; else nothing. A
/// connection with a valid key is never evicted for a new one.
std::optional<response> exchange::refuse_connection() {
    const auto admin_key = incoming_.field("x-admin-key");
    const bool is_admin = admin_key && is_admin_key(server_.settings, *admin_key);
    if (!incoming_.credential && !is_admin) return std::nullopt;
    if (slot_.has_asked(is_admin ? "admin" : *incoming_.credential)) return std::nullopt;
    link_->end_keep_alive();
    protocol::failure full =
        fail(errc::overloaded, "this key has as many connections open as one key may");
    full.retry_after = connection_wait;
    return error_response(incoming_, full);
}

/// Takes a slot for an upload before it is sent. Returns: a refusal where all are taken.
std::optional<response> exchange::refuse_upload() {
    if (match_.found->body != body_class::file) return std::nullopt;
    if (auto slot = server_.slots.uploads.take(incoming_.credential.value_or(""))) {
        upload_.emplace(server_.probe.uploads, std::move(slot));
        return std::nullopt;
    }
    protocol::failure full = fail(
        errc::overloaded, "as many files are being uploaded already as may, of this key or of all");
    full.retry_after = upload_wait;
    return error_response(incoming_, full);
}

net::awaitable<bool> exchange::read_body() {
    if (!has_body(parser_) && parser_.is_done()) co_return true;
    room_.set_tenant(incoming_.credential.value_or(""));
    // Holds for chunked bodies, whose length nobody announced.
    parser_.body_limit(body_bytes_max(server_, match_));
    if (!co_await allow_body()) co_return false;
    if (match_.found->body == body_class::file) co_return co_await read_file();
    const clock::time_point until = clock::now() + server_.limits.body;
    while (!parser_.is_done()) {
        const std::size_t next = parser_.get().body().size() + body_piece_bytes;
        const bool has_room = co_await room_.grow_to(next, until);
        if (!has_room) co_return co_await give_up(judged(no_read_error, true));
        clock::duration wait = until - clock::now();
        if (room_.is_counted()) wait = std::min<clock::duration>(wait, server_.limits.body_silence);
        const bool goes_on = co_await read_piece(wait);
        if (!goes_on) co_return false;
    }
    incoming_.body = std::move(parser_.get().body());
    const bool is_unpacked = co_await unpack_body(until);
    if (!is_unpacked) co_return false;
    body_bytes_ = incoming_.body.size();
    incoming_.drop_body = [this] {
        incoming_.body = {};
        room_.free();
    };
    co_return true;
}

/// Replaces a compressed body by its content, within the limits and budget of bodies. Returns:
/// false when an error reply was sent.
net::awaitable<bool> exchange::unpack_body(clock::time_point until) {
    const auto field = incoming_.field("content-encoding");
    const auto coding = field ? coding_of(*field) : std::nullopt;
    if (!coding) co_return true;
    const std::string packed = std::move(incoming_.body);
    const std::uint64_t bytes_max = body_bytes_max(server_, match_);
    std::string unpacked;
    body_decoder decoder(*coding, packed);
    auto decode = [&] { return decoder.decode(unpacked, unpacked_piece_bytes); };
    for (bool has_more = true; has_more;) {
        const std::size_t next = packed.size() + unpacked.size() + unpacked_piece_bytes;
        const bool has_room = co_await room_.grow_to(next, until);
        if (!has_room) co_return co_await give_up(judged(no_read_error, true));
        auto decoded = co_await run_on(choose_workers(server_, incoming_), decode, incoming_.gone);
        if (!decoded) {
            read_failure broken{error_response(incoming_, decoded.error())};
            co_return co_await give_up(std::move(broken));
        }
        if (unpacked.size() > bytes_max)
            co_return co_await give_up(judged(http::error::body_limit, false));
        has_more = *decoded;
    }
    incoming_.body = std::move(unpacked);
    co_return true;
}

/// Writes an upload to disk, piece by piece. The time limit of a body applies to each piece.
/// Returns: false when an error reply was sent.
net::awaitable<bool> exchange::read_file() {
    if (auto refused = lease_engine()) {
        read_failure none{std::move(refused)};
        co_return co_await give_up(std::move(none));
    }
    const std::string& credential = incoming_.credential.value();
    const storage::tenant_id owner =
        credential.empty() ? storage::tenant_id() : incoming_.engine->tenant(credential);
    auto make = [&] {
        return spool_file::make(server_.spool_directory, std::move(*upload_),
                                incoming_.engine->reserve_disk(owner));
    };
    const net::any_io_executor workers = choose_workers(server_, incoming_, job_length::long_job);
    auto file = co_await run_on(workers, make);
    upload_.reset();
    http::request_parser<http::buffer_body> parser(std::move(parser_));
    std::vector<char> piece(spool_piece_bytes);
    std::optional<storage::failure> fault;
    if (!file) fault = file.error();
    while (!fault && !parser.is_done()) {
        parser.get().body().data = piece.data();
        parser.get().body().size = piece.size();
        boost::system::error_code error;
        bool late = false;
        {
            deadline limit(link_->socket(), server_.limits.body);
            std::tie(error, std::ignore) =
                co_await http::async_read(link_->socket(), link_->buffer(), parser, use_tuple);
            late = limit.passed();
        }
        if (error && error != http::error::need_buffer)
            co_return co_await give_up(judged(error, late));
        std::string_view arrived(piece.data(), piece.size() - parser.get().body().size);
        auto keep = [&] { return (*file)->append(arrived); };
        auto kept = co_await run_on(workers, keep);
        if (!kept) fault = kept.error();
    }
    if (fault) {
        read_failure refused{error_response(incoming_, public_fault(incoming_, *fault))};
        co_return co_await give_up(std::move(refused));
    }
    incoming_.file = std::move(*file);
    co_return true;
}

net::awaitable<bool> exchange::run() {
    if (!co_await read_header()) co_return false;
    std::optional<response> refusal = refuse_connection();
    if (!refusal) refusal = refuse_early(server_, incoming_, match_);
    if (!refusal)
        refusal = refuse_body(incoming_, parser_, match_, body_bytes_max(server_, match_));
    if (!refusal) refusal = refuse_name(incoming_, match_);
    if (!refusal) refusal = refuse_upload();
    if (!refusal) refusal = take_key_slot(server_, incoming_, match_);
    if (refusal) {
        // The body that follows is not read; of one in an unknown coding nobody knows the end.
        if (has_body(parser_) || incoming_.field("transfer-encoding")) link_->end_keep_alive();
        co_return co_await send(std::move(*refusal));
    }
    if (!co_await read_body()) co_return false;
    co_await answer();
    if (body_bytes_ >= large_request_bytes) give_memory_back(server_.workers);
    co_return link_->keep_alive() && !link_->is_gone();
}

net::awaitable<std::optional<response>> exchange::call_handler() {
    std::string fault;
    try {
        if (match_.found->plain != nullptr) co_return match_.found->plain(server_, incoming_);
        co_return co_await match_.found->async(server_, incoming_, *link_);
        // The client has left before the work began.
    } catch (const work_abandoned&) {
        co_return std::nullopt;
    } catch (const boost::system::system_error& error) {
        if (error.code() == net::error::operation_aborted) throw;  // the server stops: unwind
        fault = error.what();
    } catch (const std::exception& error) {
        fault = error.what();
    }
    log_event(log_level::error, incoming_.id_for_log(),
              incoming_.path.substr(0, 200) + " failed: " + fault);
    if (link_->streamed_status() != 0) {
        link_->end_keep_alive();  // half a reply is out; only the end of the connection can say
                                  // that it is broken
        co_return std::nullopt;
    }
    co_return error_response(
        incoming_, fail(errc::internal, "internal error; the log has it under this request id"));
}

/// Leases an engine for the time of the request; a change of models may cut it. Returns: a refusal
/// where there is none.
std::optional<response> exchange::lease_engine(std::optional<std::size_t> model) {
    if (auto refused = take_engine(server_, incoming_, model)) return refused;
    cut_with_lease();
    return std::nullopt;
}

void exchange::cut_with_lease() {
    incoming_.engine.when_cut([weak = std::weak_ptr<connection>(link_)] {
        if (auto link = weak.lock()) link->leave();
    });
}

/// The model that the request's body names; nothing: any.
net::awaitable<std::optional<std::size_t>> exchange::wanted_model() {
    if (match_.found->engine != engine_need::named) co_return std::nullopt;
    auto look = [this] { return protocol::named_model(incoming_.body); };
    std::optional<std::string> name;
    if (incoming_.body.size() <= parse_here_bytes_max)
        name = look();
    else
        name = co_await run_on(choose_workers(server_, incoming_), look);
    if (!name) co_return std::nullopt;
    co_return server_.models.list().find(*name);
}

/// Waits in the queue for the request's model. Returns: a refusal; nothing: the engine is leased.
net::awaitable<std::optional<response>> exchange::wait_for_engine() {
    const std::optional<std::size_t> model = co_await wanted_model();
    if (!room_.set_aside())
        co_return error_response(
            incoming_, fail(errc::overloaded, "too many large requests wait for their model"));
    waiting_client client{
        [this] { return link_->is_gone(); },
        [this](std::function<void()> notify) { link_->when_gone(std::move(notify)); }};
    auto lease = co_await server_.queue->lease(model, std::move(client));
    if (!lease) co_return error_response(incoming_, lease.error());
    incoming_.engine = std::move(*lease);
    cut_with_lease();
    co_return std::nullopt;
}

net::awaitable<void> exchange::answer() {
    std::optional<response> reply;
    const bool needs_engine = match_.found->engine != engine_need::none;
    const bool queues = needs_engine && !incoming_.engine && may_wait(server_, match_);
    if (needs_engine && !queues) {
        std::optional<std::size_t> model;
        // With one slot every request gets the model that is loaded.
        if (server_.engines.size() > 1) model = co_await wanted_model();
        reply = lease_engine(model);
    }
    if (reply) {
        co_await send(std::move(*reply));
        co_return;
    }
    const bool waits = queues || match_.found->async != nullptr;
    if (waits) link_->start_watching();
    if (queues) reply = co_await wait_for_engine();
    if (!reply && !link_->is_gone()) reply = co_await call_handler();
    if (waits) co_await link_->stop_watching();
    incoming_.file.reset();  // its room on the disk is the engine's
    incoming_.engine = {};
    if (incoming_.slot) incoming_.slot->release();
    if (reply) {
        co_await send(std::move(*reply));
        co_return;
    }
    bool complete = link_->streamed_status() != 0 && !link_->is_gone();
    if (link_->is_gone()) server_.probe.clients_gone.fetch_add(1);
    end_request(server_, incoming_, match_, complete ? link_->streamed_status() : 499,
                clock::now() - started_);
}

/// Counts this connection as open for as long as it lives.
class open_connection {
  public:
    explicit open_connection(server_probe& probe) : probe_(probe) {
        probe_.open_connections.fetch_add(1);
        probe_.connections_accepted.fetch_add(1);
    }
    ~open_connection() { probe_.open_connections.fetch_sub(1); }
    open_connection(const open_connection&) = delete;
    open_connection& operator=(const open_connection&) = delete;

  private:
    server_probe& probe_;
};

}  // namespace

net::awaitable<void> run_session(net::ip::tcp::socket socket, const services* server,
                                 task_group* tasks,
                                 std::unique_ptr<connection_slots::holder> slot) {
    open_connection counted(server->probe);
    const auto held = std::move(slot);
    auto link = std::make_shared<connection>(std::move(socket), server->limits, *tasks);
    held->on_eviction([weak = std::weak_ptr<connection>(link)] {
        if (auto silent = weak.lock()) silent->leave();
    });
    // Two statements, because a compiler fault runs the second co_await of `a && b` also where `a`
    // is false (README.md).
    for (;;) {
        if (!co_await link->wait_for_request()) break;
        exchange one(link, *server, *held);
        if (!co_await one.run()) break;
    }
    co_await link->close();
}

}  // namespace semantic::server
