#pragma once
// One connection to a Redis 7 server, or to one that speaks as it does (Valkey), made when it is
// needed and again when it broke. No TLS: for a network that only the machines themselves are on.
// Owner: agent_leases. Thread: any; calls wait for each other.

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

/// redis://HOST[:PORT][/DATABASE]. The password is not in it. Returns: nothing, with `why` filled,
/// for anything else.
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

class redis_link {
  public:
    redis_link(redis_address address, std::chrono::milliseconds patience);
    ~redis_link();
    redis_link(const redis_link&) = delete;
    redis_link& operator=(const redis_link&) = delete;

    /// Blocks, for the patience at most to connect and as long again for the answer. After an
    /// error the command was done, or not, and the next call connects anew.
    redis_result<redis_reply> call(const std::vector<std::string>& words);

  private:
    struct closes {
        void operator()(redisContext* context) const noexcept;
    };
    redis_result<redis_reply> send(const std::vector<std::string>& words);
    redis_result<void> connect();

    const redis_address address_;
    const std::chrono::milliseconds patience_;
    std::mutex mutex_;  // guards the connection
    std::unique_ptr<redisContext, closes> context_;
};

}  // namespace semantic::storage
