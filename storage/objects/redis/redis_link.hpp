// SPDX-License-Identifier: Apache-2.0
#pragma once
// Connections to a Redis 7 server, or to one that speaks as it does (Valkey), made when they are
// needed and again when they broke: one for commands, one that hears what is published. No TLS: for
// a network that only the machines themselves are on. Owner: who uses it. Thread: of a link any,
// calls wait for each other; of a listener one.

#include <boost/system/result.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

struct redisContext;

namespace semantic::storage {

struct redis_address {
    std::string host;
    int port = 6379;
    int database = 0;
    std::string password;  // empty: none is asked for
};

/// Parses redis://HOST[:PORT][/DATABASE]; the password does not come from the URL. Returns:
/// nothing, with `why` filled, for anything else.
std::optional<redis_address> parse_redis_url(std::string_view url, std::string& why);

/// What a command gave: text, a number, or nothing.
struct redis_reply {
    enum class kind { nothing, text, number };
    kind is = kind::nothing;
    std::string text;
    std::int64_t number = 0;
};

template <class T>
using redis_result = boost::system::result<T, std::string>;  // error: a sentence for the log

struct closes_redis {
    void operator()(redisContext* context) const noexcept;
};
using redis_connection = std::unique_ptr<redisContext, closes_redis>;

class redis_link {
  public:
    /// The most bytes of a reply or of a published message; the connection is closed beyond it.
    static constexpr std::size_t reply_bytes_max = std::size_t{64} * 1024;

    redis_link(redis_address address, std::chrono::milliseconds patience);
    ~redis_link();
    redis_link(const redis_link&) = delete;
    redis_link& operator=(const redis_link&) = delete;

    /// Blocks, for at most the patience to connect and as long again for the reply. Sends a command
    /// and returns its reply. After an error nobody knows whether Redis performed the command; the
    /// next call connects again.
    redis_result<redis_reply> call(const std::vector<std::string>& words);

  private:
    const redis_address address_;
    const std::chrono::milliseconds patience_;
    std::mutex mutex_;  // guards the connection
    redis_connection context_;
};

class redis_listener {
  public:
    struct message {
        std::string channel, text;
    };
    redis_listener(redis_address address, std::vector<std::string> channels,
                   std::chrono::milliseconds patience);
    ~redis_listener();
    redis_listener(const redis_listener&) = delete;
    redis_listener& operator=(const redis_listener&) = delete;

    /// Blocks, for `wait` at most, and twice the patience where it connects. Returns: the next
    /// message; nothing when there was none in time. After an error the next call connects again;
    /// messages that were published meanwhile are lost.
    redis_result<std::optional<message>> next(std::chrono::milliseconds wait);
    /// Closes the connection, so that the next call connects again; for a connection that seems
    /// dead.
    void drop() { context_.reset(); }

  private:
    redis_result<void> subscribe();

    const redis_address address_;
    const std::vector<std::string> channels_;
    const std::chrono::milliseconds patience_;
    redis_connection context_;
};

}  // namespace semantic::storage
