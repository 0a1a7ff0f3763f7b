// SPDX-License-Identifier: Apache-2.0
#include "storage/objects/redis/node_news.hpp"

#include <algorithm>

#include "storage/objects/random_id.hpp"
#include "storage/objects/redis/agent_leases.hpp"
#include "storage/types/ids.hpp"

namespace semantic::storage {

namespace {

constexpr std::string_view no_node_url = "-";
constexpr std::chrono::milliseconds hearing{500};  // for one look at the connection

/// Returns: at most `count` words of a text that blanks separate; the last one is the whole rest.
std::vector<std::string_view> words_of(std::string_view text, std::size_t count) {
    std::vector<std::string_view> words;
    while (words.size() + 1 < count) {
        const std::size_t blank = text.find(' ');
        if (blank == std::string_view::npos) break;
        words.push_back(text.substr(0, blank));
        text.remove_prefix(blank + 1);
    }
    words.push_back(text);
    return words;
}

}  // namespace

node_news::node_news(node_news_options options)
    : options_(std::move(options)),
      id_(random_id()),
      node_channel_("semantic:nodes:" + std::to_string(options_.address.database)),
      agent_channel_("semantic:agents:" + std::to_string(options_.address.database)),
      link_(options_.address, options_.patience),
      speaker_([this](std::stop_token stop) { speak(std::move(stop)); }),
      hearer_([this](std::stop_token stop) { hear(std::move(stop)); }),
      receiver_([this](std::stop_token stop) { tell_receivers(std::move(stop)); }) {}

node_news::~node_news() {
    for (std::jthread* each : {&speaker_, &hearer_, &receiver_}) each->request_stop();
    for (std::jthread* each : {&speaker_, &hearer_, &receiver_}) each->join();
    if (speaks_) publish(node_channel_, id_ + " gone");
}

void node_news::set_secret(std::string_view secret) {
    seal_.set_secret(secret);
    std::lock_guard lock(mutex_);
    is_due_ = true;
    changed_.notify_all();
}

void node_news::describe_by(std::function<std::string()> describe) {
    {
        std::lock_guard lock(describing_);
        describe_ = std::move(describe);
    }
    std::lock_guard lock(mutex_);
    is_due_ = true;
    changed_.notify_all();
}

/// Returns: what this node says of itself; empty where that is too long or not one line.
std::string node_news::describe() {
    std::lock_guard lock(describing_);
    std::string says = describe_ ? describe_() : std::string();
    if (says.size() > says_bytes_max || says.find('\n') != std::string::npos) says.clear();
    return says;
}

void node_news::tell(agent_news news) {
    const char* kind = news.action == agent_news::kind::saved ? " saved " : " erased ";
    std::lock_guard lock(mutex_);
    if (waiting_.size() >= waiting_max) {
        ++counts_.dropped;
        return;
    }
    waiting_.push_back(id_ + kind + news.agent);
    changed_.notify_all();
}

node_news::subscription node_news::follow(receiver to) {
    std::lock_guard lock(receiving_);
    const std::uint64_t id = next_id_++;
    receivers_.emplace(id, std::move(to));
    return {*this, id};
}

void node_news::leave(std::uint64_t id) {
    std::lock_guard lock(receiving_);
    receivers_.erase(id);
}

std::vector<known_node> node_news::nodes() const {
    const auto now = clock::now();
    std::lock_guard lock(mutex_);
    std::vector<known_node> all;
    for (const auto& [id, each] : heard_) {
        const auto silent = std::chrono::duration_cast<std::chrono::milliseconds>(now - each.at);
        if (silent <= options_.forget_after)
            all.push_back({id, each.url, each.says, silent, false});
    }
    std::ranges::sort(all, {}, [](const known_node& each) { return std::pair(each.url, each.id); });
    all.insert(all.begin(), {id_, options_.url, self_, std::chrono::milliseconds(0), true});
    return all;
}

node_news_counts node_news::counts() const {
    const std::size_t others = nodes().size() - 1;
    std::lock_guard lock(mutex_);
    node_news_counts now = counts_;
    now.nodes = others;
    return now;
}

/// Notes whether Redis works for one direction, and warns when that stops. `worked`: speaks_ or
/// hears_; `works`: now.
void node_news::warn(bool& worked, bool works, const std::string& why) {
    {
        std::lock_guard lock(mutex_);
        if (std::exchange(worked, works) == works || works) return;
    }
    if (options_.on_warning) options_.on_warning(why + "; nodes hear nothing of each other");
}

/// Blocks. Publishes a signed text. Returns: whether Redis took it.
bool node_news::publish(const std::string& channel, const std::string& text) {
    const auto sealed = seal_.seal(channel, text);
    if (!sealed) return false;
    const auto done = link_.call({"PUBLISH", channel, *sealed});
    warn(speaks_, done.has_value(), done ? std::string() : done.error());
    return done.has_value();
}

/// The speaking thread: publishes this node's sign every interval, and news about agents at once.
void node_news::speak(std::stop_token stop) {
    auto due = clock::now();
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
        changed_.wait_until(lock, stop, due, [this] { return is_due_ || !waiting_.empty(); });
        if (stop.stop_requested()) return;
        if (std::exchange(is_due_, false)) due = clock::now();
        std::deque<std::string> news = std::exchange(waiting_, {});
        lock.unlock();
        std::size_t published = 0;
        bool is_there = true;
        if (clock::now() >= due) {
            std::string says = describe();
            const std::string url = options_.url.empty() ? std::string(no_node_url) : options_.url;
            is_there = publish(node_channel_, id_ + " here " + url + " " + says);
            due = clock::now() + options_.interval;
            lock.lock();
            self_ = std::move(says);
            lock.unlock();
        }
        // After one failure the rest of the news is dropped, since each would wait for Redis as
        // long, and old news is of no use.
        for (const std::string& each : news)
            if (is_there && (is_there = publish(agent_channel_, each))) ++published;
        lock.lock();
        counts_.told += published;
        counts_.dropped += news.size() - published;
    }
}

/// The hearing thread: receives what all nodes publish.
void node_news::hear(std::stop_token stop) {
    redis_listener listener(options_.address, {node_channel_, agent_channel_}, options_.patience);
    auto last = clock::now();
    while (!stop.stop_requested()) {
        const auto got = listener.next(hearing);
        if (got && *got) {
            last = clock::now();
            take(**got);
        } else if (got && clock::now() - last > options_.forget_after) {
            // It would at least hear this node's own signs. So the connection is dead.
            listener.drop();
            last = clock::now();
        }
        warn(hears_, got.has_value(), got ? std::string() : got.error());
        if (got) continue;
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, stop, options_.pause, [] { return false; });
    }
}

/// The thread that calls the receivers. They have a thread of their own because one may block for
/// long, and signs of other nodes must be heard meanwhile.
void node_news::tell_receivers(std::stop_token stop) {
    std::unique_lock lock(mutex_);
    while (changed_.wait(lock, stop, [this] { return !heard_news_.empty(); })) {
        const agent_news news = std::move(heard_news_.front());
        heard_news_.pop_front();
        lock.unlock();
        {
            std::lock_guard receiving(receiving_);
            for (const auto& [id, to] : receivers_) to(news);
        }
        lock.lock();
        ++counts_.heard;
    }
}

/// Checks the signature of a message and ignores this node's own.
void node_news::take(const redis_listener::message& message) {
    const auto text = seal_.open(message.channel, message.text);
    if (!text || text->starts_with(id_ + ' ')) return;
    if (message.channel == node_channel_)
        take_node(*text);
    else
        take_agent(*text);
}

/// Notes a node's sign. The text: "ID here URL TEXT", with "-" for no URL, or "ID gone".
void node_news::take_node(std::string_view text) {
    const auto words = words_of(text, 4);
    if (!block_hash::from_hex(words[0])) return;  // as random_id() makes them
    std::lock_guard lock(mutex_);
    if (words.size() == 2 && words[1] == "gone") {
        heard_.erase(std::string(words[0]));
        return;
    }
    const auto now = clock::now();
    std::erase_if(heard_,
                  [&](const auto& each) { return now - each.second.at > options_.forget_after; });
    const bool is_sign = words.size() == 4 && words[1] == "here" &&
                         (words[2] == no_node_url || is_node_url(words[2])) &&
                         words[3].size() <= says_bytes_max;
    const std::string id(words[0]);
    if (!is_sign || (heard_.size() >= nodes_max && !heard_.contains(id))) return;
    heard_[id] = {std::string(words[2] == no_node_url ? "" : words[2]), std::string(words[3]), now};
}

/// Queues news about an agent for the receivers. The text: "ID saved AGENT" or "ID erased AGENT".
void node_news::take_agent(std::string_view text) {
    const auto words = words_of(text, 3);
    if (words.size() != 3 || (words[1] != "saved" && words[1] != "erased")) return;
    const auto action = words[1] == "saved" ? agent_news::kind::saved : agent_news::kind::erased;
    std::lock_guard lock(mutex_);
    if (heard_news_.size() >= heard_max) {
        ++counts_.dropped;
        return;
    }
    heard_news_.push_back({action, std::string(words[2])});
    changed_.notify_all();
}

}  // namespace semantic::storage
