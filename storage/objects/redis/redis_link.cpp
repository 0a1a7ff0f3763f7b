// SPDX-License-Identifier: Apache-2.0
#include "storage/objects/redis/redis_link.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <hiredis/hiredis.h>
#include <poll.h>
#include <sys/time.h>

namespace semantic::storage {

namespace {

constexpr std::string_view scheme = "redis://";
constexpr int database_max = 1'000'000;
// Of one reply. Nodes ask for thousands of bytes at most, in lists of three.
constexpr int reply_elements_max = 1024;

/// Returns: the number that `text` is, in decimal digits only, from `least` to `most`; else
/// nothing.
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

/// Replaces hiredis' function that makes lists of replies by one that refuses long lists: hiredis
/// would allocate as many elements as the head of a reply announces. `Count`: the type of that
/// number, which depends on the version of hiredis.
template <class Count>
struct bounded_lists {
    using maker = void* (*)(const redisReadTask*, Count);
    static inline std::atomic<maker> make{nullptr};
    static void* make_list(const redisReadTask* task, Count elements) {
        if (elements > Count{reply_elements_max}) return nullptr;
        return make.load()(task, elements);
    }
    static maker bounded(maker of_library) {
        make = of_library;
        return make_list;
    }
};

/// Deduces `Count` from the library's function.
template <class Count>
void bound_lists(redisReplyObjectFunctions& functions,
                 void* (*of_library)(const redisReadTask*, Count)) {
    functions.createArray = bounded_lists<Count>::bounded(of_library);
}

/// Makes a reader refuse long lists. hiredis has one table of functions for all readers; this
/// reader gets a changed copy.
void bound_lists(redisReader& reader) {
    static redisReplyObjectFunctions functions = [&] {
        redisReplyObjectFunctions made = *reader.fn;
        bound_lists(made, reader.fn->createArray);
        return made;
    }();
    reader.fn = &functions;
}

std::string fault_of(const redis_connection& context) {
    return std::string("Redis does not answer: ") + context->errstr;
}

/// Blocks, for `patience` at most. Returns: the next reply, which the caller frees; null, with
/// `why` filled, where it does not come in time or has more than reply_bytes_max bytes, however
/// Redis sends it.
redisReply* read_reply(redis_connection& context, std::chrono::milliseconds patience,
                       std::string& why) {
    using clock = std::chrono::steady_clock;
    for (const auto until = clock::now() + patience;;) {
        void* got = nullptr;
        if (redisGetReplyFromReader(context.get(), &got) != REDIS_OK) break;
        if (got != nullptr) return static_cast<redisReply*>(got);
        if (context->reader->len > redis_link::reply_bytes_max) {
            why = "Redis sends a reply of more than " +
                  std::to_string(redis_link::reply_bytes_max) + " bytes";
            return nullptr;
        }
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - clock::now());
        pollfd waits{context->fd, POLLIN, 0};
        const int ready = left.count() > 0 ? poll(&waits, 1, static_cast<int>(left.count())) : 0;
        if (ready == 0) {
            why = "Redis does not answer in " + std::to_string(patience.count()) + " ms";
            return nullptr;
        }
        if (ready < 0 && errno != EINTR) break;
        if (ready > 0 && redisBufferRead(context.get()) != REDIS_OK) break;
    }
    why = fault_of(context);
    return nullptr;
}

/// Blocks. Sends a command. Returns: false where the connection broke.
bool write_command(redis_connection& context, const std::vector<std::string>& words) {
    std::vector<const char*> texts;
    std::vector<std::size_t> sizes;
    for (const std::string& word : words) {
        texts.push_back(word.data());
        sizes.push_back(word.size());
    }
    const int count = static_cast<int>(words.size());
    if (redisAppendCommandArgv(context.get(), count, texts.data(), sizes.data()) != REDIS_OK)
        return false;
    for (int done = 0; done == 0;)
        if (redisBufferWrite(context.get(), &done) != REDIS_OK) return false;
    return true;
}

/// Blocks. Sends a command and reads its reply. Closes the connection (`context` is null then)
/// after any error.
redis_result<redis_reply> send(redis_connection& context, const std::vector<std::string>& words,
                               std::chrono::milliseconds patience) {
    struct frees {
        void operator()(redisReply* reply) const noexcept { freeReplyObject(reply); }
    };
    std::string why;
    std::unique_ptr<redisReply, frees> got;
    if (write_command(context, words))
        got.reset(read_reply(context, patience, why));
    else
        why = fault_of(context);
    if (got == nullptr) {
        context.reset();
        return why;
    }
    redis_reply reply;
    switch (got->type) {
        case REDIS_REPLY_ERROR: {
            why = "Redis refuses " + words.front() + ": " + got->str;
            context.reset();  // loading, or without a right that it may have at the next try
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
        // Nil, or a kind that no command here asks for: kind::nothing.
        default:
            break;
    }
    return reply;
}

/// Connects, logs in where there is a password, and chooses the address's database.
redis_result<redis_connection> connect(const redis_address& address,
                                       std::chrono::milliseconds patience) {
    redis_connection context(
        redisConnectWithTimeout(address.host.c_str(), address.port, seconds_of(patience)));
    if (context == nullptr) return std::string("no memory for a connection to Redis");
    if (context->err != 0)
        return "Redis at " + address.host + ":" + std::to_string(address.port) +
               " cannot be reached: " + context->errstr;
    redisSetTimeout(context.get(), seconds_of(patience));
    bound_lists(*context->reader);
    if (!address.password.empty())
        if (auto ok = send(context, {"AUTH", address.password}, patience); !ok) return ok.error();
    if (address.database != 0)
        if (auto ok = send(context, {"SELECT", std::to_string(address.database)}, patience); !ok)
            return ok.error();
    return context;
}

/// Returns: the message in a reply; nothing where the reply only confirms a subscription.
std::optional<redis_listener::message> message_in(const redisReply& reply) {
    const auto text = [&](std::size_t i) {
        const redisReply* part = reply.element[i];
        return part->type == REDIS_REPLY_STRING ? std::string(part->str, part->len) : std::string();
    };
    if (reply.type != REDIS_REPLY_ARRAY || reply.elements != 3 || text(0) != "message")
        return std::nullopt;
    return redis_listener::message{text(1), text(2)};
}

std::string broken(const redis_connection& context) {
    return std::string("Redis has ended a connection: ") + context->errstr;
}

}  // namespace

std::optional<redis_address> parse_redis_url(std::string_view url, std::string& why) {
    const auto bad = [&](const char* reason) {
        why = "is no redis://HOST[:PORT][/DATABASE]: ";
        why += reason;
        return std::nullopt;
    };
    if (!url.starts_with(scheme)) return bad("it does not begin with redis://");
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

void closes_redis::operator()(redisContext* context) const noexcept { redisFree(context); }

redis_link::redis_link(redis_address address, std::chrono::milliseconds patience)
    : address_(std::move(address)), patience_(patience) {}

redis_link::~redis_link() = default;

redis_result<redis_reply> redis_link::call(const std::vector<std::string>& words) {
    std::lock_guard lock(mutex_);
    if (context_ == nullptr) {
        auto made = connect(address_, patience_);
        if (!made) return made.error();
        context_ = std::move(*made);
    }
    return send(context_, words, patience_);
}

redis_listener::redis_listener(redis_address address, std::vector<std::string> channels,
                               std::chrono::milliseconds patience)
    : address_(std::move(address)), channels_(std::move(channels)), patience_(patience) {}

redis_listener::~redis_listener() = default;

/// Blocks. Connects and sends SUBSCRIBE, whose confirmations next() skips.
redis_result<void> redis_listener::subscribe() {
    auto made = connect(address_, patience_);
    if (!made) return made.error();
    redis_connection context = std::move(*made);
    std::vector<const char*> words{"SUBSCRIBE"};
    for (const std::string& each : channels_) words.push_back(each.c_str());
    // Null in place of sizes: the words end with a zero byte.
    redisAppendCommandArgv(context.get(), static_cast<int>(words.size()), words.data(), nullptr);
    for (int done = 0; done == 0;)
        if (redisBufferWrite(context.get(), &done) != REDIS_OK) return broken(context);
    context_ = std::move(context);
    return {};
}

redis_result<std::optional<redis_listener::message>> redis_listener::next(
    std::chrono::milliseconds wait) {
    using clock = std::chrono::steady_clock;
    // in_place_error, because a string by itself might be taken for a message.
    const auto fail = [this](std::string why) {
        context_.reset();
        return redis_result<std::optional<message>>(boost::system::in_place_error, std::move(why));
    };
    if (context_ == nullptr)
        if (auto ok = subscribe(); !ok) return fail(ok.error());
    for (const auto until = clock::now() + wait;;) {
        void* got = nullptr;
        if (redisGetReplyFromReader(context_.get(), &got) != REDIS_OK)
            return fail(broken(context_));
        if (got != nullptr) {
            auto* reply = static_cast<redisReply*>(got);
            const auto found = message_in(*reply);
            const std::string refusal = reply->type == REDIS_REPLY_ERROR ? reply->str : "";
            freeReplyObject(reply);
            if (!refusal.empty()) return fail("Redis refuses SUBSCRIBE: " + refusal);
            if (found) return {found};
            if (clock::now() > until) return std::optional<message>();
            continue;
        }
        if (context_->reader->len > redis_link::reply_bytes_max)
            return fail("Redis sends a message that has no end");
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - clock::now());
        pollfd waits{context_->fd, POLLIN, 0};
        const int ready = poll(&waits, 1, std::max(0, static_cast<int>(left.count())));
        if (ready == 0) return std::optional<message>();
        if (ready < 0 && errno != EINTR) return fail("poll failed");
        if (ready > 0 && redisBufferRead(context_.get()) != REDIS_OK) return fail(broken(context_));
    }
}

}  // namespace semantic::storage
