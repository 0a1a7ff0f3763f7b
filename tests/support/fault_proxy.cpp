// SPDX-License-Identifier: Apache-2.0
#include "tests/support/fault_proxy.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cstdlib>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include <utility>

namespace semantic::tests {

namespace {

constexpr timeval patience{10, 0};
constexpr std::chrono::milliseconds delay_time{400};

/// A socket for a connection to `port` of this machine, whose address is put into `address`.
int local_socket(std::uint16_t port, sockaddr_in& address) {
    address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int one = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (one < 0) std::abort();
    ::setsockopt(one, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    return one;
}

/// Appends what comes next. Returns: false at the end.
bool receive_more(int from, std::string& received) {
    std::array<char, 65536> bytes{};
    const ssize_t count = ::recv(from, bytes.data(), bytes.size(), 0);
    if (count <= 0) return false;
    received.append(bytes.data(), static_cast<std::size_t>(count));
    return true;
}

void send_all(int to, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t count = ::send(to, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (count <= 0) return;
        bytes.remove_prefix(static_cast<std::size_t>(count));
    }
}

std::string lower(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; });
    return text;
}

/// Where the head ends, its empty line included; npos before it has come.
std::size_t end_of_head(const std::string& message) {
    const std::size_t at = message.find("\r\n\r\n");
    return at == std::string::npos ? at : at + 4;
}

std::size_t body_bytes(const std::string& head) {
    const std::string name = "\r\ncontent-length:";
    const std::size_t at = lower(head).find(name);
    if (at == std::string::npos) return 0;
    return static_cast<std::size_t>(std::atoll(head.c_str() + at + name.size()));
}

/// Reads one whole request; empty where none came.
std::string receive_request(int client) {
    std::string request;
    while (end_of_head(request) == std::string::npos)
        if (!receive_more(client, request)) return {};
    const std::size_t head = end_of_head(request);
    const std::size_t whole = head + body_bytes(request.substr(0, head));
    while (request.size() < whole)
        if (!receive_more(client, request)) return {};
    return request;
}

void drop_header(std::string& message, const std::string& name) {
    const std::size_t at = lower(message.substr(0, end_of_head(message))).find("\r\n" + name + ":");
    if (at == std::string::npos) return;
    message.erase(at, message.find("\r\n", at + 2) - at);
}

/// Replaces the Connection header by one that closes the connection after this message.
void say_close(std::string& message) {
    drop_header(message, "connection");
    message.insert(message.find("\r\n"), "\r\nConnection: close");
}

}  // namespace

std::string http_answer(int status, const std::string& more_headers, const std::string& body) {
    return "HTTP/1.1 " + std::to_string(status) + " Ordered\r\nConnection: close\r\n" +
           more_headers + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

fault_proxy::fault_proxy(std::uint16_t server_port) : server_port_(server_port) {
    sockaddr_in address{};
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (listener_ < 0 || ::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        ::listen(listener_, 64) != 0 ||
        ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
        std::abort();
    port_ = ntohs(address.sin_port);
    accepting_ = std::jthread([this] { accept_all(); });
}

fault_proxy::~fault_proxy() {
    ::shutdown(listener_, SHUT_RDWR);  // which ends accept()
    accepting_.join();
    ::close(listener_);
    serving_.clear();
}

void fault_proxy::order(trouble kind, std::string text, int times) {
    std::lock_guard lock(mutex_);
    for (int i = 0; i < times; ++i) orders_.push_back({kind, text});
}

void fault_proxy::order_always(trouble kind, std::string text) {
    std::lock_guard lock(mutex_);
    always_ = {kind, std::move(text)};
}

std::vector<std::string> fault_proxy::requests() const {
    std::lock_guard lock(mutex_);
    return requests_;
}

/// The thread that accepts connections and serves each on a thread of its own.
void fault_proxy::accept_all() {
    for (;;) {
        const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
        if (client < 0) return;
        ::setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        std::lock_guard lock(mutex_);
        serving_.emplace_back([this, client] {
            serve(client);
            ::close(client);
        });
    }
}

fault_proxy::ordered fault_proxy::take() {
    std::lock_guard lock(mutex_);
    if (orders_.empty()) return always_;
    ordered first = std::move(orders_.front());
    orders_.pop_front();
    return first;
}

std::string fault_proxy::ask_server(const std::string& request) const {
    sockaddr_in address{};
    const int server = local_socket(server_port_, address);
    std::string answer;
    if (::connect(server, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
        send_all(server, request);
        while (receive_more(server, answer)) continue;
    }
    ::close(server);
    return answer;
}

/// Serves one connection: takes the trouble that is due and passes request and response on.
void fault_proxy::serve(int client) {
    std::string request = receive_request(client);
    if (request.empty()) return;
    {
        std::lock_guard lock(mutex_);
        requests_.push_back(request.substr(0, end_of_head(request)));
    }
    const ordered order = take();
    if (order.kind == trouble::answer) return send_all(client, order.text);
    if (order.kind == trouble::cut_before || server_port_ == 0) return;
    if (order.kind == trouble::delay) std::this_thread::sleep_for(delay_time);
    if (order.kind == trouble::drop_header) drop_header(request, order.text);
    if (order.kind == trouble::flip_upload) request.back() = static_cast<char>(request.back() ^ 4);
    say_close(request);
    if (order.kind == trouble::twice) ask_server(request);
    std::string answer = ask_server(request);
    if (answer.empty() || order.kind == trouble::cut_after) return;
    say_close(answer);
    if (order.kind == trouble::truncate_answer) answer.pop_back();
    if (order.kind == trouble::flip_answer) answer.back() = static_cast<char>(answer.back() ^ 4);
    send_all(client, answer);
}

}  // namespace semantic::tests
