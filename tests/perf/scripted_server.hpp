// SPDX-License-Identifier: Apache-2.0
#pragma once
// A server of both APIs in a few lines, for the load client's tests: a word is a token, a session
// remembers its words, and answers stream one word a millisecond.
// Thread: makes its own; the counters may be read from any.

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace semantic::tests {

struct server_script {
    bool counts_tokens = true;
    bool evicts = true;
    bool has_metrics = true;
    int end_after_tokens = 1'000'000;   // the answer ends by itself
    int fail_from_request = 1'000'000;  // this chat request and later ones get 400
    bool hangs = false;                 // chat requests get no reply
    bool cuts_stream = false;           // the connection closes in the middle of an answer
    int context_max = 100'000;
};

class scripted_server {
  public:
    explicit scripted_server(server_script script);
    ~scripted_server();
    scripted_server(const scripted_server&) = delete;
    scripted_server& operator=(const scripted_server&) = delete;

    std::string url() const;
    int chat_requests() const { return chat_requests_; }
    /// The most chat requests that were open at the same time.
    int open_at_once_max() const { return open_max_; }

  private:
    struct request;
    class open_answer;
    void accept_loop();
    void serve(boost::asio::ip::tcp::socket socket);
    void answer_chat(boost::asio::ip::tcp::socket& socket, const request& asked);
    std::string plain_reply(const request& asked, unsigned& status);
    /// Remembers the words of `text`. Returns: how many of them the session had before.
    std::size_t reuse(const std::string& session, const std::string& text, bool& from_disk);

    server_script script_;
    boost::asio::io_context io_;
    boost::asio::ip::tcp::acceptor acceptor_;
    std::atomic<bool> stopping_{false};
    std::atomic<int> chat_requests_{0};
    std::atomic<int> open_{0};
    std::atomic<int> open_max_{0};
    std::mutex mutex_;  // guards what follows
    std::map<std::string, std::string> memory_;
    std::map<std::string, bool> on_disk_;
    std::uint64_t written_bytes_ = 0;
    std::uint64_t disk_tokens_ = 0;
    std::uint64_t kept_words_ = 0;  // of all memories together, nothing shared
    std::vector<std::thread> connections_;
    std::thread acceptor_thread_;
};

}  // namespace semantic::tests
