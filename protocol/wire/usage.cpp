#include "protocol/wire/usage.hpp"

#include <boost/json.hpp>

#include <cstdio>
#include <ctime>

#include "protocol/wire/json.hpp"

namespace semantic::protocol {

namespace {

using fields = std::vector<std::pair<std::string, std::string>>;

/// "2026-01-31T10:00:00Z", rounded up.
std::string rfc3339(std::chrono::system_clock::time_point at) {
    const std::time_t seconds =
        std::chrono::system_clock::to_time_t(std::chrono::ceil<std::chrono::seconds>(at));
    std::tm parts{};
    gmtime_r(&seconds, &parts);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return text;
}

/// "1m30s", "2.5s", "0s": how OpenAI writes durations.
std::string short_duration(std::chrono::milliseconds time) {
    const auto minutes = std::chrono::duration_cast<std::chrono::minutes>(time);
    const double seconds = std::chrono::duration<double>(time - minutes).count();
    char text[48];
    if (minutes.count() > 0)
        std::snprintf(text, sizeof text, "%dm%.3gs", static_cast<int>(minutes.count()), seconds);
    else
        std::snprintf(text, sizeof text, "%.3gs", seconds);
    return text;
}

void add_fields(fields& to, dialect d, const char* what, const limit_left& limit,
                std::chrono::system_clock::time_point now) {
    const std::string kind(what);
    if (d == dialect::openai) {
        to.emplace_back("x-ratelimit-limit-" + kind, std::to_string(limit.limit));
        to.emplace_back("x-ratelimit-remaining-" + kind, std::to_string(limit.left));
        to.emplace_back("x-ratelimit-reset-" + kind, short_duration(limit.full_in));
        return;
    }
    const std::string prefix = "anthropic-ratelimit-" + kind;
    to.emplace_back(prefix + "-limit", std::to_string(limit.limit));
    to.emplace_back(prefix + "-remaining", std::to_string(limit.left));
    to.emplace_back(prefix + "-reset", rfc3339(now + limit.full_in));
}

boost::json::value limit_json(const std::optional<limit_left>& limit) {
    if (!limit) return nullptr;
    return boost::json::object{
        {"limit", limit->limit},
        {"remaining", limit->left},
        {"full_in_seconds", std::chrono::duration<double>(limit->full_in).count()}};
}

boost::json::object usage_json(const key_usage& of) {
    boost::json::object refused;
    for (std::size_t i = 0; i < limit_kinds; ++i)
        refused[to_string(static_cast<limit_kind>(i))] = of.refused[i];
    boost::json::value concurrent = nullptr;
    if (of.concurrent_limit != 0) concurrent = boost::json::object{{"limit", of.concurrent_limit}};
    return {{"object", "usage"},
            {"name", of.name},
            {"requests", of.requests},
            {"refused", std::move(refused)},
            {"running", of.running},
            {"tokens", boost::json::object{{"computed", of.tokens_computed},
                                           {"reused", of.tokens_reused},
                                           {"output", of.tokens_output}}},
            {"limits", boost::json::object{{"requests_per_minute", limit_json(of.limits.requests)},
                                           {"tokens_per_minute", limit_json(of.limits.tokens)},
                                           {"concurrent_requests", std::move(concurrent)}}}};
}

}  // namespace

const char* to_string(limit_kind which) noexcept {
    switch (which) {
        case limit_kind::requests:
            return "requests";
        case limit_kind::tokens:
            return "tokens";
        case limit_kind::concurrent:
            return "concurrent";
    }
    return "unknown";
}

fields rate_limit_fields(dialect d, const rate_limits& limits,
                         std::chrono::system_clock::time_point now) {
    fields all;
    if (limits.requests) add_fields(all, d, "requests", *limits.requests, now);
    if (limits.tokens) add_fields(all, d, "tokens", *limits.tokens, now);
    return all;
}

failure refusal(const limit_reached& limit) {
    std::string what = "this key may have " + std::to_string(limit.limit);
    switch (limit.which) {
        case limit_kind::requests:
            what += " requests a minute";
            break;
        case limit_kind::tokens:
            what += " computed tokens a minute";
            break;
        case limit_kind::concurrent:
            what += " requests at once";
            break;
    }
    failure refused = fail(errc::rate_limited,
                           what + "; come back in " + std::to_string(limit.wait.count()) + " s");
    refused.retry_after = limit.wait;
    return refused;
}

std::string usage_body(const key_usage& of) { return to_text(usage_json(of)); }

std::string usage_list_body(const std::vector<key_usage>& all) {
    boost::json::array keys;
    for (const key_usage& each : all) keys.push_back(usage_json(each));
    return to_text(boost::json::object{{"object", "list"}, {"data", std::move(keys)}});
}

}  // namespace semantic::protocol
