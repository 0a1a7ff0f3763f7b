// SPDX-License-Identifier: Apache-2.0
#include "server/handlers/responses/background.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/json.hpp>

#include <algorithm>
#include <utility>
#include <vector>

#include "protocol/responses/response_stream.hpp"
#include "protocol/wire/ids.hpp"
#include "protocol/wire/json.hpp"
#include "protocol/wire/sse.hpp"
#include "server/handlers/responses/asking.hpp"
#include "server/handlers/responses/compaction.hpp"
#include "server/http/sse_writer.hpp"
#include "server/responses/response_keeper.hpp"
#include "server/runtime/logging.hpp"
#include "server/runtime/task_group.hpp"
#include "server/runtime/tokens.hpp"

namespace semantic::server {

namespace {

namespace json = boost::json;
namespace responses = protocol::responses;
using reply = std::optional<response>;

/// The client_link of a response that no client waits for. Stopping the response looks like a
/// client that leaves. Thread: the strand, but for leave().
class absent_client final : public client_link, public std::enable_shared_from_this<absent_client> {
  public:
    absent_client(net::any_io_executor executor, std::chrono::milliseconds ping_every)
        : executor_(std::move(executor)), ping_every_(ping_every) {}

    net::any_io_executor executor() override { return executor_; }
    net::awaitable<bool> write(std::string) override { co_return !is_gone_; }
    bool is_gone() const override { return is_gone_; }
    void when_gone(std::function<void()> notify) override {
        if (is_gone_) return notify();
        notify_ = std::move(notify);
    }
    std::chrono::milliseconds ping_every() const override { return ping_every_; }
    bool keep_alive() const override { return false; }
    net::awaitable<std::optional<net::ip::tcp::socket>> take_socket() override {
        co_return std::nullopt;
    }
    void streamed(int) override {}
    /// Stops the response. Any thread.
    void leave() {
        net::post(executor_, [self = shared_from_this()] {
            self->is_gone_ = true;
            if (self->notify_) self->notify_();
        });
    }

  private:
    net::any_io_executor executor_;
    std::chrono::milliseconds ping_every_;
    bool is_gone_ = false;
    std::function<void()> notify_;
};

/// Keeps the events of a response for those who read it later.
class run_sink final : public event_sink {
  public:
    run_sink(background_run& run, const responses::response_stream& made)
        : run_(run), made_(made) {}

    void add_field(std::string, std::string) override {}
    net::awaitable<bool> write(std::string_view events) override {
        // Pings are not kept: every reader gets its own.
        if (!events.starts_with(':')) show(events);
        co_return true;
    }
    net::awaitable<bool> finish() override { co_return true; }
    bool begun() const noexcept override { return true; }

    /// Adds the events to the run, and notes the response's state where it changed.
    void show(std::string_view events) {
        const json::object& response = made_.response();
        const json::value& status = response.at("status");
        if (status != status_) run_.say(protocol::to_text(response));
        status_ = status;
        run_.add(events);
    }

  private:
    background_run& run_;
    const responses::response_stream& made_;
    json::value status_;
};

/// All that a response in the background needs after its request is gone.
struct background_job {
    background_job(const services& services_, const request& asked, const client_link& client,
                   net::any_io_executor executor, responses::response_request asked_for,
                   std::string id)
        : server(services_),
          incoming(asked),
          link(std::make_shared<absent_client>(std::move(executor), client.ping_every())),
          parsed(std::move(asked_for)),
          question(parsed),
          stream(reply_options_of(parsed, std::move(id)), ids) {
        incoming.drop_body = [this] { incoming.body = {}; };
        if (!parsed.compacts_above) incoming.drop_body();
        incoming.gone = nullptr;  // it goes on when its client has left
    }
    const services& server;
    request incoming;
    std::shared_ptr<absent_client> link;
    responses::response_request parsed;  // but for what its reply needs
    kept_question question;
    protocol::id_maker ids{random_bits};
    responses::response_stream stream;
    std::optional<storage::agent_id> agent;
    std::optional<turns_in_flight::turn> conversation;
    std::shared_ptr<background_run> run;
};

storage::result<void> keep(background_job& job) {
    return keep_present_state(job.server, job.incoming, job.question, job.stream.response(),
                              [&job] { return job.run->is_dropped(); });
}

/// Ends the run in any case, so that others may begin.
class ending {
  public:
    explicit ending(background_job& job) : job_(job), tenant_(tenant_of(job.incoming)) {}
    ~ending() {
        job_.run->end();
        job_.server.responses.background.ended(tenant_, job_.run->id());
    }
    ending(const ending&) = delete;
    ending& operator=(const ending&) = delete;

  private:
    background_job& job_;
    const storage::tenant_id tenant_;
};

/// Stores the response when it is complete; where that fails, its last events say so.
class job_keeping final : public before_end {
  public:
    explicit job_keeping(background_job& job) : job_(job) {}
    net::awaitable<void> run(std::string& last) override {
        auto keep_now = [this] { return keep(job_); };
        const storage::result<void> kept = co_await run_on(
            choose_workers(job_.server, job_.incoming, job_length::long_job), keep_now);
        if (kept) co_return;
        log_event(log_level::warning, job_.incoming.id_for_log(),
                  "response not kept: " + kept.error().what);
        last = job_.stream.not_kept(std::move(last));
    }

  private:
    background_job& job_;
};

/// Makes the response: asks the engine and keeps its events. A stopped one ends as cancelled.
net::awaitable<void> make(std::shared_ptr<background_job> job) {
    running_answer counted(job->server.probe);
    ending at_last(*job);
    run_sink sink(*job->run, job->stream);
    job_keeping keeping(*job);
    const answer_context about{job->server, job->incoming, *job->link};
    const own_lookup no_own;
    std::string summary = co_await compact_when_due(about, no_own, job->parsed);
    job->stream.put_summary(std::move(summary));
    auto wanted = job->parsed.take_generation(std::move(job->agent), answer_deadline(job->server));
    wanted.agent_may_branch = true;
    wanted.message_id = job->run->id();
    answer_context asked{job->server, job->incoming, *job->link, &keeping, &sink};
    co_await stream_answer(asked, std::move(wanted), job->stream);
    if (job->stream.ended()) co_return;
    std::string last = job->stream.on_cancelled();
    co_await keeping.run(last);
    sink.show(last);
}

/// Sends events in pieces, so that a slow reader takes no more memory than one piece. Returns:
/// false when the client is gone.
net::awaitable<bool> write_events(sse_writer& writer,
                                  const std::vector<background_run::event>& events) {
    constexpr std::size_t piece_bytes = 64 * 1024;
    std::string piece;
    for (const background_run::event& each : events) {
        for (std::string_view left = *each; !left.empty();) {
            const std::size_t count = std::min(piece_bytes - piece.size(), left.size());
            piece += left.substr(0, count);
            left.remove_prefix(count);
            if (piece.size() < piece_bytes) continue;
            const bool is_there = co_await writer.write(piece);
            if (!is_there) co_return false;
            piece.clear();
        }
    }
    if (piece.empty()) co_return true;
    co_return co_await writer.write(piece);
}

/// Wakes the coroutine that reads a run, on its strand.
class reader {
  public:
    reader(client_link& client, std::shared_ptr<background_run> run)
        : client_(client),
          run_(std::move(run)),
          timer_(std::make_shared<net::steady_timer>(client.executor())) {
        auto wake = [timer = timer_] {
            net::post(timer->get_executor(), [timer] { timer->cancel(); });
        };
        watcher_ = run_->watch(wake);
        client_.when_gone(wake);
    }
    ~reader() { run_->unwatch(watcher_); }
    reader(const reader&) = delete;
    reader& operator=(const reader&) = delete;

    /// Waits for the run to change. Returns: false when nothing came for as long as a stream may be
    /// silent. Requires: the caller looks at the run between two calls, on the strand, without any
    /// other wait.
    net::awaitable<bool> wait() {
        timer_->expires_after(client_.ping_every());
        auto [error] = co_await timer_->async_wait(use_tuple);
        co_return static_cast<bool>(error);
    }

  private:
    client_link& client_;
    std::shared_ptr<background_run> run_;
    std::shared_ptr<net::steady_timer> timer_;
    std::uint64_t watcher_ = 0;
};

}  // namespace

net::awaitable<reply> answer_in_background(const services& server, const request& incoming,
                                           client_link& client,
                                           responses::response_request parsed) {
    // Succeeds: the caller has refused headers that name no agent.
    auto agent = agent_of_headers(incoming);
    auto conversation = hold_conversation(server, incoming, parsed.conversation);
    if (!conversation) co_return error_response(incoming, conversation.error());
    protocol::id_maker ids(random_bits);
    const std::string id = ids.make("resp_");
    // What the run holds: its input twice (kept and parsed), what it refers to, and the body.
    const std::size_t bytes = 2 * parsed.input.size() +
                              (parsed.budget ? parsed.budget->bytes() : 0) +
                              (parsed.compacts_above ? incoming.body.size() : 0);
    auto run = server.responses.background.begin(tenant_of(incoming), id, bytes);
    if (!run) co_return error_response(incoming, run.error());

    const bool is_streamed = parsed.stream;
    auto job = std::make_shared<background_job>(server, incoming, client, client.executor(),
                                                std::move(parsed), id);
    job->run = *run;
    job->agent = std::move(*agent);
    if (*conversation) job->conversation.emplace(std::move(**conversation));
    run_sink(*job->run, job->stream).show(job->stream.on_queued());
    // Stores the queued response, so that it is still known after a restart.
    auto keep_now = [&] { return keep(*job); };
    const storage::result<void> kept =
        co_await run_on(choose_workers(server, incoming, job_length::long_job), keep_now);
    if (!kept) {
        ending at_once(*job);
        server.responses.background.remove(tenant_of(incoming), id);
        co_return error_response(incoming, public_fault(incoming, kept.error()));
    }
    auto stop = [weak = std::weak_ptr<absent_client>(job->link)] {
        if (auto link = weak.lock()) link->leave();
    };
    (*run)->when_stopped(stop);
    job->incoming.engine.when_cut(stop);
    const std::string queued = (*run)->body();
    server.responses.tasks.spawn(client.executor(), make(job), "a response in the background");
    // make() has the job now, so that its end frees it.
    job.reset();
    if (!is_streamed) co_return json_response(queued);
    co_return co_await stream_background(incoming, client, *run, -1);
}

net::awaitable<reply> stream_background(const request& incoming, client_link& client,
                                        std::shared_ptr<background_run> run, std::int64_t after) {
    sse_writer writer(client, incoming);
    reader changes(client, run);
    for (;;) {
        if (client.is_gone()) co_return std::nullopt;
        auto found = run->after(after);
        if (!found && !writer.begun()) co_return error_response(incoming, found.error());
        if (!found) break;
        after = found->last;
        if (!found->events.empty()) {
            const bool is_there = co_await write_events(writer, found->events);
            if (!is_there) co_return std::nullopt;
            continue;
        }
        // Where nothing was sent yet, a ping below begins the stream before it ends.
        if (found->has_ended && writer.begun()) break;
        bool has_changed = false;
        if (!found->has_ended) has_changed = co_await changes.wait();
        if (has_changed) continue;
        const bool is_there = co_await writer.write(protocol::sse_comment("ping"));
        if (!is_there) co_return std::nullopt;
    }
    co_await writer.finish();
    co_return std::nullopt;
}

net::awaitable<void> wait_for_end(client_link& client, std::shared_ptr<background_run> run) {
    reader changes(client, run);
    while (!run->has_ended() && !client.is_gone()) co_await changes.wait();
}

}  // namespace semantic::server
