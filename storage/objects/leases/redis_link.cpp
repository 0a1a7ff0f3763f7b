#include "storage/objects/leases/redis_link.hpp"

#include <algorithm>
#include <charconv>
#include <hiredis/hiredis.h>
#include <sys/time.h>

namespace semantic::storage {

namespace {

constexpr std::string_view scheme = "redis://";
constexpr int database_max = 1'000'000;

/// Decimal digits alone, from `least` to `most`.
std::optional<int> number_in(std::string_view text, int least, int most) {
    int value = 0;
    const char* end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc{} || at != end || value < least || value > most) return std::nullopt;
    return value;
}

bool is_host(std::string_view text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '.' || c == '-';
    });
}

timeval seconds_of(std::chrono::milliseconds time) {
    return {time.count() / 1000, (time.count() % 1000) * 1000};
}

}  // namespace

std::optional<redis_address> parse_redis_url(std::string_view url, std::string& why) {
    const auto bad = [&](const char* what) {
        why = "is no redis://HOST[:PORT][/DATABASE]: ";
        why += what;
        return std::nullopt;
    };
    if (!url.starts_with(scheme)) return bad("redis:// does not stand in front");
    url.remove_prefix(scheme.size());
    if (url.find('@') != std::string_view::npos)
        return bad("a password comes from REDISCLI_AUTH, not from the URL");
    redis_address address;
    if (const std::size_t slash = url.find('/'); slash != std::string_view::npos) {
        const std::string_view database = url.substr(slash + 1);
        url = url.substr(0, slash);
        const auto number = number_in(database.empty() ? "0" : database, 0, database_max);
        if (!number) return bad("the database is no number");
        address.database = *number;
    }
    if (const std::size_t colon = url.find(':'); colon != std::string_view::npos) {
        const auto port = number_in(url.substr(colon + 1), 1, 65535);
        if (!port) return bad("the port is none");
        address.port = *port;
        url = url.substr(0, colon);
    }
    if (!is_host(url)) return bad("the host is missing, or no host");
    address.host = url;
    return address;
}

void redis_link::closes::operator()(redisContext* context) const noexcept { redisFree(context); }

redis_link::redis_link(redis_address address, std::chrono::milliseconds patience)
    : address_(std::move(address)), patience_(patience) {}

redis_link::~redis_link() = default;

redis_result<redis_reply> redis_link::call(const std::vector<std::string>& words) {
    std::lock_guard lock(mutex_);
    const bool was_connected = context_ != nullptr;
    if (!was_connected)
        if (auto ok = connect(); !ok) return ok.error();
    return send(words);
}

redis_result<void> redis_link::connect() {
    context_.reset(
        redisConnectWithTimeout(address_.host.c_str(), address_.port, seconds_of(patience_)));
    if (context_ == nullptr) return std::string("no memory for a connection to Redis");
    if (context_->err != 0) {
        std::string why = "Redis at " + address_.host + ":" + std::to_string(address_.port) +
                          " cannot be reached: " + context_->errstr;
        context_.reset();
        return why;
    }
    redisSetTimeout(context_.get(), seconds_of(patience_));
    if (!address_.password.empty())
        if (auto ok = send({"AUTH", address_.password}); !ok) return ok.error();
    if (address_.database != 0)
        if (auto ok = send({"SELECT", std::to_string(address_.database)}); !ok) return ok.error();
    return {};
}

/// Requires: connected.
redis_result<redis_reply> redis_link::send(const std::vector<std::string>& words) {
    std::vector<const char*> texts;
    std::vector<std::size_t> sizes;
    for (const std::string& word : words) {
        texts.push_back(word.data());
        sizes.push_back(word.size());
    }
    struct frees {
        void operator()(redisReply* reply) const noexcept { freeReplyObject(reply); }
    };
    const std::unique_ptr<redisReply, frees> got(static_cast<redisReply*>(redisCommandArgv(
        context_.get(), static_cast<int>(words.size()), texts.data(), sizes.data())));
    if (got == nullptr) {
        std::string why = std::string("Redis does not answer: ") + context_->errstr;
        context_.reset();
        return why;
    }
    redis_reply reply;
    switch (got->type) {
        case REDIS_REPLY_ERROR: {
            std::string why = "Redis refuses " + words.front() + ": " + got->str;
            context_.reset();  // loading, or without a right that it may have at the next try
            return why;
        }
        case REDIS_REPLY_INTEGER:
            reply.is = redis_reply::kind::number;
            reply.number = got->integer;
            break;
        case REDIS_REPLY_STRING:
        case REDIS_REPLY_STATUS:
            reply.is = redis_reply::kind::text;
            reply.text.assign(got->str, got->len);
            break;
        default:
            break;
    }
    return reply;
}

}  // namespace semantic::storage
