// SPDX-License-Identifier: Apache-2.0
#include "server/live/live_hub.hpp"

#include <boost/asio/post.hpp>

#include <algorithm>

#include "server/live/node_board.hpp"
#include "storage/files/utf8.hpp"

namespace semantic::server {

namespace live = protocol::live;

namespace {

// Reading all agents takes time in proportion to their number, so it is not done more often than
// this.
constexpr std::chrono::seconds look_at_most_every{1};
// Changes without an event (such as a new session) are seen after this time.
constexpr std::chrono::seconds look_at_least_every{5};

/// The text with invalid UTF-8 replaced, because browsers close a connection that sends it. File
/// names and texts of a model may have some.
std::string valid(std::string text) {
    namespace utf8 = storage::utf8;
    if (utf8::is_valid(text)) return text;
    std::string whole;
    for (std::string_view rest = text; !rest.empty();) {
        const utf8::step next = utf8::next(rest);
        whole += next.code < 0 ? "\xEF\xBF\xBD" : rest.substr(0, next.length);
        rest.remove_prefix(next.length);
    }
    return whole;
}

live_hub::message made(std::string text) {
    return std::make_shared<const std::string>(valid(std::move(text)));
}

}  // namespace

live_hub::live_hub(boost::asio::any_io_executor executor,
                   std::shared_ptr<engine::activity_feed> feed,
                   boost::asio::any_io_executor workers)
    : feed_(std::move(feed)), workers_(std::move(workers)), timer_(std::move(executor)) {}

live_hub::~live_hub() {
    if (!views_.empty()) feed_->watch(false);
}

std::size_t live_hub::watchers() const {
    std::size_t count = 0;
    for (const auto& [viewer, watched] : views_) count += watched.receivers.size();
    return count;
}

live_hub::subscription live_hub::subscribe(const services& server, viewer viewer, receiver to) {
    std::vector<std::pair<receiver, message>> out;
    std::lock_guard lock(mutex_);
    if (stopped_) {
        to(nullptr);
        return {};
    }
    server_ = &server;
    if (views_.empty()) feed_->watch(true);
    view& watched = views_[viewer];
    // Other receivers of this view get the change message, too, so that one number (seq) is right
    // for all.
    if (watched.receivers.empty()) update(server, viewer, watched, look(server, {}), out);
    if (watched.snapshot == nullptr)
        watched.snapshot = made(live::snapshot_message(watched.state, watched.recent, watched.seq));
    to(watched.snapshot);
    const std::uint64_t id = next_id_++;
    watched.receivers.emplace(id, std::move(to));
    wait();
    return {*this, id};
}

void live_hub::leave(std::uint64_t id) {
    boost::asio::post(workers_, [this, id] { remove(id); });
}

void live_hub::remove(std::uint64_t id) {
    std::lock_guard lock(mutex_);
    for (auto each = views_.begin(); each != views_.end(); ++each) {
        if (each->second.receivers.erase(id) == 0) continue;
        if (each->second.receivers.empty()) views_.erase(each);
        if (views_.empty()) feed_->watch(false);
        return;
    }
}

void live_hub::stop() {
    std::vector<receiver> all;
    {
        std::lock_guard lock(mutex_);
        stopped_ = true;
        timer_.cancel();
        for (auto& [viewer, watched] : views_)
            for (auto& [id, to] : watched.receivers) all.push_back(std::move(to));
        if (!views_.empty()) feed_->watch(false);
        views_.clear();
    }
    for (const receiver& to : all) to(nullptr);
}

void live_hub::wait() {
    if (is_waiting_ || stopped_ || views_.empty()) return;
    is_waiting_ = true;
    timer_.expires_after(period_for(watchers()));
    timer_.async_wait([this](boost::system::error_code error) {
        if (!error) boost::asio::post(workers_, [this] { tick(); });
    });
}

void live_hub::tick() {
    std::vector<std::pair<receiver, message>> out;
    {
        std::lock_guard lock(mutex_);
        is_waiting_ = false;
        if (stopped_ || views_.empty()) return;
        const moment now = look(*server_, feed_->take());
        for (auto& [viewer, watched] : views_) update(*server_, viewer, watched, now, out);
        wait();
    }
    for (const auto& [to, text] : out) to(text);
}

live_hub::moment live_hub::look(const services& server, engine::activity_feed::batch events) {
    moment now{server.engines.look(), model_text(server), nodes_text(server), "null",
               std::move(events)};
    if (!now.engine) return now;
    const bool is_due = clock::now() - pool_looked_ >= look_at_most_every;
    if (is_due) {
        pool_ = pool_of(*now.engine);
        pool_looked_ = clock::now();
    }
    now.gauges = live::gauges_text(now.engine->probe(), now.engine->store_probe(), pool_);
    return now;
}

void live_hub::update(const services& server, const viewer& viewer, view& watched,
                      const moment& now, std::vector<std::pair<receiver, message>>& out) {
    live::shown_state next = watched.state;
    live::happened changes;
    changes.missed = now.events.dropped;
    next.model = now.model;
    if (viewer.sees_nodes) next.nodes = now.nodes;
    next.gauges = now.gauges;
    if (const auto from = viewpoint_of(viewer, now.engine)) {
        changes.events = live::events_of(now.events.events, *from);
        changes.step = live::step_of(now.events.events, *from);
        watched.is_stale = watched.is_stale || changes.missed > 0 ||
                           watched.state.model != now.model ||
                           live::touches(now.events.events, *from);
        const clock::duration since = clock::now() - watched.looked;
        const bool is_due =
            watched.is_stale ? since >= look_at_most_every : since >= look_at_least_every;
        if (is_due && now.engine) {
            look_at_agents(server, *from, *now.engine, next);
            watched.is_stale = false;
            watched.looked = clock::now();
        }
    }
    const std::string delta = live::delta_message(watched.state, next, changes, watched.seq + 1);
    watched.state = std::move(next);
    for (auto& event : changes.events) watched.recent.push_back(std::move(event));
    if (watched.recent.size() > recent_max)
        watched.recent.erase(watched.recent.begin(),
                             watched.recent.begin() +
                                 static_cast<std::ptrdiff_t>(watched.recent.size() - recent_max));
    if (delta.empty()) return;
    ++watched.seq;
    watched.snapshot = nullptr;
    const message shared = made(delta);
    for (const auto& [id, to] : watched.receivers) out.emplace_back(to, shared);
}

}  // namespace semantic::server
