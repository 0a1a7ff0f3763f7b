// SPDX-License-Identifier: Apache-2.0
#include "tests/perf/scripted_server.hpp"

#include <boost/asio/connect.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <boost/json.hpp>

#include <algorithm>
#include <chrono>
#include <sstream>
#include <utility>

namespace semantic::tests {
namespace {

namespace net = boost::asio;
namespace http = boost::beast::http;
namespace json = boost::json;
using net::ip::tcp;

std::int64_t word_count(const std::string& text) {
    std::istringstream stream(text);
    std::int64_t count = 0;
    for (std::string word; stream >> word;) ++count;
    return count;
}

std::string chunk(const std::string& text) {
    std::ostringstream out;
    out << std::hex << text.size() << "\r\n" << text << "\r\n";
    return out.str();
}

std::string event(const std::string& name, const json::object& data) {
    const std::string text = json::serialize(data);
    return (name.empty() ? std::string() : std::string("event: ").append(name).append("\n")) +
           "data: " + text + "\n\n";
}

std::string conversation_text(const json::object& body) {
    std::string text;
    for (const json::value& m : body.at("messages").as_array()) {
        text.append(m.at("content").as_string().c_str()).append(" ");
    }
    return text;
}

struct usage {
    std::int64_t prompt, reused, output;
};

json::object anthropic_usage(const usage& u) {
    return {{"input_tokens", u.prompt - u.reused},
            {"cache_creation_input_tokens", 0},
            {"cache_read_input_tokens", u.reused},
            {"output_tokens", u.output}};
}

std::string first_event(bool anthropic, const usage& u) {
    if (!anthropic) return ": hello\n\n";
    const json::object message{{"usage", anthropic_usage(u)}};
    return event("message_start", {{"type", "message_start"}, {"message", message}});
}

std::string token_event(bool anthropic) {
    if (anthropic) {
        const json::object delta{{"type", "text_delta"}, {"text", "word "}};
        return event("content_block_delta", {{"type", "content_block_delta"}, {"delta", delta}});
    }
    const json::object choice{{"index", 0}, {"delta", json::object{{"content", "word "}}}};
    return event("", {{"choices", json::array{choice}}});
}

std::string last_events(bool anthropic, const usage& u, bool by_limit) {
    if (anthropic) {
        const json::object delta{{"stop_reason", by_limit ? "max_tokens" : "end_turn"}};
        return event("message_delta",
                     {{"type", "message_delta"}, {"delta", delta}, {"usage", anthropic_usage(u)}}) +
               event("message_stop", {{"type", "message_stop"}});
    }
    const json::object choice{
        {"index", 0}, {"delta", json::object()}, {"finish_reason", by_limit ? "length" : "stop"}};
    const json::object counts{{"prompt_tokens", u.prompt},
                              {"completion_tokens", u.output},
                              {"prompt_tokens_details", json::object{{"cached_tokens", u.reused}}}};
    return event("", {{"choices", json::array{choice}}}) +
           event("", {{"choices", json::array()}, {"usage", counts}}) + "data: [DONE]\n\n";
}

}  // namespace

/// Counts a chat request as open until its client can know that it is over: a request that the
/// client starts after that does not overlap it.
class scripted_server::open_answer {
  public:
    explicit open_answer(scripted_server& server) : server_(server) {
        const int now = ++server_.open_;
        for (int most = server_.open_max_;
             now > most && !server_.open_max_.compare_exchange_weak(most, now);) {
        }
    }
    ~open_answer() { close(); }
    open_answer(const open_answer&) = delete;
    open_answer& operator=(const open_answer&) = delete;

    /// Comes before the bytes that end the answer.
    void close() {
        if (!std::exchange(closed_, true)) --server_.open_;
    }

  private:
    scripted_server& server_;
    bool closed_ = false;
};

struct scripted_server::request {
    std::string path;
    std::string session_header;
    std::string body;
};

scripted_server::scripted_server(server_script script)
    : script_(script),
      acceptor_(io_, tcp::endpoint(net::ip::address_v4::loopback(), 0)),
      acceptor_thread_([this] { accept_loop(); }) {}

scripted_server::~scripted_server() {
    stopping_ = true;
    // A connection wakes the thread that waits for one.
    tcp::socket wake(io_);
    boost::system::error_code ignored;
    wake.connect(acceptor_.local_endpoint(), ignored);
    acceptor_thread_.join();
    for (std::thread& t : connections_) t.join();
}

std::string scripted_server::url() const {
    return "http://127.0.0.1:" + std::to_string(acceptor_.local_endpoint().port());
}

void scripted_server::accept_loop() {
    while (true) {
        boost::system::error_code error;
        tcp::socket socket(io_);
        acceptor_.accept(socket, error);
        if (error || stopping_) return;
        connections_.emplace_back([this, s = std::move(socket)]() mutable { serve(std::move(s)); });
    }
}

void scripted_server::serve(tcp::socket socket) {
    boost::beast::flat_buffer buffer;
    http::request_parser<http::string_body> parser;
    parser.body_limit(16U << 20U);
    boost::system::error_code error;
    http::read(socket, buffer, parser, error);
    if (error) return;
    const auto& message = parser.get();
    const request asked{std::string(message.target()), std::string(message["X-Session-ID"]),
                        message.body()};
    if (asked.path == "/v1/messages" || asked.path == "/v1/chat/completions") {
        answer_chat(socket, asked);
        return;
    }
    unsigned status = 200;
    const std::string body = plain_reply(asked, status);
    const std::string reply = "HTTP/1.1 " + std::to_string(status) +
                              " X\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
                              body;
    net::write(socket, net::buffer(reply), error);
}

std::string scripted_server::plain_reply(const request& asked, unsigned& status) {
    const std::lock_guard lock(mutex_);
    if (asked.path == "/v1/models") {
        const json::object model{{"id", "scripted"}, {"max_input_tokens", script_.context_max}};
        return json::serialize(json::object{{"data", json::array{model}}});
    }
    if (asked.path == "/v1/messages/count_tokens" && script_.counts_tokens) {
        const auto text = conversation_text(json::parse(asked.body).as_object());
        return json::serialize(json::object{{"input_tokens", word_count(text)}});
    }
    if (asked.path == "/metrics" && script_.has_metrics) {
        return "semantic_store_written_bytes_total " + std::to_string(written_bytes_) +
               "\nsemantic_tokens_reused_total{source=\"disk\"} " + std::to_string(disk_tokens_) +
               "\nsemantic_store_read_bytes_total " + std::to_string(disk_tokens_ * 1000) +
               "\nsemantic_store_restore_seconds_total " +
               std::to_string(static_cast<double>(disk_tokens_) * 1e-4) +
               "\nsemantic_pool_held_bytes " + std::to_string(kept_words_ * 36) +
               "\nsemantic_disk_bytes " + std::to_string(kept_words_ * 40) + "\n";
    }
    if (asked.path.ends_with("/evict") && script_.evicts) {
        const std::string agent = asked.path.substr(11, asked.path.size() - 11 - 6);
        const bool known = memory_.contains(agent);
        if (known) on_disk_[agent] = true;
        if (known) return "{}";
    }
    status = 404;
    return "{}";
}

std::size_t scripted_server::reuse(const std::string& session, const std::string& text,
                                   bool& from_disk) {
    const std::lock_guard lock(mutex_);
    const std::string known = memory_[session];
    const auto same = std::mismatch(known.begin(), known.end(), text.begin(), text.end()).first;
    const auto words = word_count(std::string(known.begin(), same));
    written_bytes_ += static_cast<std::uint64_t>(word_count(text) - words) * 100;
    from_disk = on_disk_[session];
    if (from_disk) disk_tokens_ += static_cast<std::uint64_t>(words);
    on_disk_[session] = false;
    kept_words_ += static_cast<std::uint64_t>(word_count(text) - word_count(known));
    memory_[session] = text;
    return static_cast<std::size_t>(words);
}

void scripted_server::answer_chat(tcp::socket& socket, const request& asked) {
    const bool anthropic = asked.path == "/v1/messages";
    boost::system::error_code error;
    open_answer open(*this);
    if (++chat_requests_ >= script_.fail_from_request) {
        const std::string body = R"({"error":{"message":"the scripted refusal"}})";
        open.close();
        const std::string head = "HTTP/1.1 400 Bad\r\nContent-Length: ";
        net::write(socket, net::buffer(head + std::to_string(body.size()) + "\r\n\r\n" + body),
                   error);
        return;
    }
    while (script_.hangs && !stopping_) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const json::object body = json::parse(asked.body).as_object();
    const std::string session = anthropic ? "sess_" + asked.session_header
                                          : "oai_" + std::string(body.at("session_id").as_string());
    const std::string text = conversation_text(body);
    bool from_disk = false;
    usage u{word_count(text), static_cast<std::int64_t>(reuse(session, text, from_disk)), 0};
    std::string head =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
        "Transfer-Encoding: chunked\r\n\r\n";
    net::write(socket, net::buffer(head + chunk(first_event(anthropic, u))), error);
    const auto limit = body.at("max_tokens").as_int64();
    const auto count = std::min<std::int64_t>(limit, script_.end_after_tokens);
    // 20 microseconds a computed token, twice that for what comes from disk.
    const std::int64_t cost = 20 * (u.prompt - u.reused) + (from_disk ? 1 : 0) * u.reused;
    std::this_thread::sleep_for(std::chrono::microseconds(cost));
    for (; u.output < count && !error && !stopping_; ++u.output) {
        if (u.output > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        net::write(socket, net::buffer(chunk(token_event(anthropic))), error);
    }
    if (script_.cuts_stream) return;
    open.close();
    const std::string end = chunk(last_events(anthropic, u, count == limit)) + "0\r\n\r\n";
    net::write(socket, net::buffer(end), error);
}

}  // namespace semantic::tests
