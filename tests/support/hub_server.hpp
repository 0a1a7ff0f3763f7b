// SPDX-License-Identifier: Apache-2.0
#pragma once
// A hub of models on this machine with Hugging Face's API, which makes trouble on request. Each
// connection carries one request. Thread: any.

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <netinet/in.h>
#include <optional>
#include <string>
#include <sys/socket.h>
#include <sys/time.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "storage/objects/hub/content_digest.hpp"
#include "storage/objects/s3_signature.hpp"

namespace semantic::tests {

/// A whole response.
inline std::string hub_reply(int status, const std::string& more_headers = {},
                             const std::string& body = {}) {
    return "HTTP/1.1 " + std::to_string(status) + " Said\r\nConnection: close\r\n" + more_headers +
           "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

class hub_server {
  public:
    /// A file of the repository.
    struct entry {
        std::string content;
        std::string digest;
        bool is_large = false;
    };
    /// What goes wrong with one request for a file.
    struct trouble {
        std::size_t cut_after = std::string::npos;  // bytes of the body; then the connection ends
        std::chrono::milliseconds pause{0};         // before each 64 KiB
        std::string answer{};                       // a whole response in place of the file
        bool ignores_range = false;
        bool moves_range = false;   // sends bytes from another position
        std::string other_bytes{};  // sent in place of the file's, of the same length
    };

    hub_server() {
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
    ~hub_server() {
        ends_ = true;
        ::shutdown(listener_, SHUT_RDWR);  // which ends accept()
        accepting_.join();
        ::close(listener_);
        serving_.clear();
    }
    hub_server(const hub_server&) = delete;
    hub_server& operator=(const hub_server&) = delete;

    std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }

    /// Adds a file. `is_large`: it is an LFS file, with a SHA-256.
    void add(const std::string& path, const std::string& content, bool is_large) {
        storage::content_digest digest(is_large ? storage::content_digest::kind::sha256
                                                : storage::content_digest::kind::git_blob,
                                       content.size());
        digest.add(content);
        files_[path] = {content, digest.finish(), is_large};
    }
    entry& at(const std::string& path) { return files_.at(path); }

    /// Requests trouble for the next `times` requests for a file's content.
    void order(trouble one, int times = 1) {
        std::lock_guard lock(mutex_);
        for (int i = 0; i < times; ++i) orders_.push_back(one);
    }
    /// Answers the next `times` requests of the API with this response.
    void answer_api(const std::string& response, int times = 1) {
        std::lock_guard lock(mutex_);
        for (int i = 0; i < times; ++i) api_answers_.push_back(response);
    }
    /// The heads of all requests so far.
    std::vector<std::string> requests() const {
        std::lock_guard lock(mutex_);
        return requests_;
    }
    /// How many requests had `part` in their first line.
    std::size_t requests_for(const std::string& part) const {
        const auto all = requests();
        return static_cast<std::size_t>(
            std::count_if(all.begin(), all.end(), [&](const std::string& head) {
                return head.substr(0, head.find('\r')).find(part) != head.npos;
            }));
    }

    // Plain values: set before a request comes.
    std::string commit = "0123456789abcdef0123456789abcdef01234567";
    std::string token;             // without it: 401
    bool redirects = true;         // large contents come from another origin
    std::string linked_etag;       // in place of a large file's digest
    std::size_t page_entries = 0;  // of one page of a list; 0: all

  private:
    static bool receive_head(int client, std::string& head) {
        std::array<char, 4096> bytes{};
        while (head.find("\r\n\r\n") == head.npos) {
            const ssize_t count = ::recv(client, bytes.data(), bytes.size(), 0);
            if (count <= 0 || head.size() > 65536) return false;
            head.append(bytes.data(), static_cast<std::size_t>(count));
        }
        return true;
    }
    static bool send_all(int client, std::string_view bytes) {
        while (!bytes.empty()) {
            const ssize_t count = ::send(client, bytes.data(), bytes.size(), MSG_NOSIGNAL);
            if (count <= 0) return false;
            bytes.remove_prefix(static_cast<std::size_t>(count));
        }
        return true;
    }
    static std::string header_of(const std::string& head, const std::string& name) {
        const std::size_t at = head.find("\r\n" + name + ": ");
        if (at == head.npos) return {};
        const std::size_t begin = at + name.size() + 4;
        return head.substr(begin, head.find('\r', begin) - begin);
    }

    void accept_all() {
        constexpr timeval patience{10, 0};
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

    /// The reply to a request for the list of files, or for a page of it.
    std::string list(const std::string& target) const {
        const std::size_t at = target.find("cursor=");
        const std::size_t from = at == target.npos ? 0 : std::strtoul(&target[at + 7], nullptr, 10);
        std::string body = R"([{"type":"directory","oid":"x","size":0,"path":"folder"})";
        std::size_t number = 0;
        for (const auto& [path, file] : files_) {
            ++number;
            if (number <= from || (page_entries > 0 && number > from + page_entries)) continue;
            const std::string size = std::to_string(file.content.size());
            body += R"(,{"type":"file","path":")" + path + R"(","size":)" + size + R"(,"oid":")" +
                    (file.is_large ? std::string(40, 'a') : file.digest) + "\"";
            if (file.is_large)
                body += R"(,"lfs":{"oid":")" + file.digest + R"(","size":)" + size +
                        R"(,"pointerSize":133})";
            body += "}";
        }
        std::string link;
        if (page_entries > 0 && from + page_entries < files_.size())
            link = "Link: <" + url() + target.substr(0, target.find("&cursor")) +
                   "&cursor=" + std::to_string(from + page_entries) + ">; rel=\"next\"\r\n";
        return hub_reply(200, link, body + "]");
    }

    /// Serves one connection.
    void serve(int client) {
        std::string head;
        if (!receive_head(client, head)) return;
        std::optional<std::string> said;
        const std::size_t space = head.find(' ');
        const std::string target =
            storage::percent_decode(head.substr(space + 1, head.find(' ', space + 1) - space - 1));
        const bool is_api = target.starts_with("/api/");
        {
            std::lock_guard lock(mutex_);
            requests_.push_back(head);
            if (is_api && !api_answers_.empty()) {
                said = api_answers_.front();
                api_answers_.erase(api_answers_.begin());
            }
        }
        if (said) {
            send_all(client, *said);
            return;
        }
        const bool is_cdn = target.starts_with("/cdn/");
        if (!token.empty() && !is_cdn && header_of(head, "Authorization") != "Bearer " + token) {
            send_all(client, hub_reply(401, "X-Error-Code: RepoNotFound\r\n"));
            return;
        }
        if (is_api && target.find("/revision/") != target.npos) {
            send_all(client, hub_reply(200, "", "{\"sha\":\"" + commit + "\"}"));
        } else if (is_api) {
            send_all(client, list(target));
        } else {
            send_content(client, head, target, is_cdn);
        }
    }

    /// Sends a file, or a redirect to where large files are, with the trouble that is due.
    void send_content(int client, const std::string& head, const std::string& target, bool is_cdn) {
        const std::string mark = is_cdn ? "/cdn/" : "/resolve/" + commit + "/";
        const std::size_t at = target.find(mark);
        const auto found =
            at == target.npos ? files_.end() : files_.find(target.substr(at + mark.size()));
        if (found == files_.end()) {
            send_all(client, hub_reply(404, "X-Error-Code: EntryNotFound\r\n"));
            return;
        }
        const entry& file = found->second;
        if (!is_cdn && file.is_large && redirects) {
            send_all(
                client,
                hub_reply(302, "X-Repo-Commit: " + commit + "\r\nX-Linked-Size: " +
                                   std::to_string(file.content.size()) + "\r\nX-Linked-Etag: \"" +
                                   (linked_etag.empty() ? file.digest : linked_etag) +
                                   "\"\r\nLocation: http://localhost:" + std::to_string(port_) +
                                   "/cdn/" + storage::percent_encode(found->first, true) + "\r\n"));
            return;
        }
        trouble now;
        {
            std::lock_guard lock(mutex_);
            if (!orders_.empty()) {
                now = orders_.front();
                orders_.erase(orders_.begin());
            }
        }
        if (!now.answer.empty()) {
            send_all(client, now.answer);
            return;
        }
        const std::string& content = now.other_bytes.empty() ? file.content : now.other_bytes;
        const std::string range = header_of(head, "Range");
        std::size_t from = 0;
        if (range.starts_with("bytes=") && !now.ignores_range)
            from = std::strtoul(range.c_str() + 6, nullptr, 10);
        const std::size_t whole = content.size();
        const std::size_t sent_from = now.moves_range && from > 0 ? from - 1 : from;
        std::string answer = "HTTP/1.1 " + std::string(from > 0 ? "206" : "200") +
                             " Said\r\nConnection: close\r\nETag: \"of-the-cdn\"\r\n";
        if (from > 0)
            answer += "Content-Range: bytes " + std::to_string(sent_from) + "-" +
                      std::to_string(whole - 1) + "/" + std::to_string(whole) + "\r\n";
        answer += "Content-Length: " + std::to_string(whole - sent_from) + "\r\n\r\n";
        if (!send_all(client, answer)) return;
        const std::string_view body =
            std::string_view(content).substr(sent_from, std::min(now.cut_after, whole - sent_from));
        for (std::size_t sent = 0; sent < body.size() && !ends_; sent += 65536) {
            std::this_thread::sleep_for(now.pause);
            if (!send_all(client, body.substr(sent, 65536))) return;
        }
    }

    std::uint16_t port_ = 0;
    int listener_ = -1;
    std::atomic<bool> ends_{false};
    std::map<std::string, entry> files_;
    mutable std::mutex mutex_;  // guards what follows
    std::vector<trouble> orders_;
    std::vector<std::string> api_answers_;
    std::vector<std::string> requests_;
    std::vector<std::jthread> serving_;
    std::jthread accepting_;
};

}  // namespace semantic::tests
