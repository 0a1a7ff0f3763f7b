// SPDX-License-Identifier: Apache-2.0
#include "server/http/cors.hpp"

#include "server/http/hosts.hpp"

namespace semantic::server {

namespace {

bool is_loopback(std::string_view origin) {
    for (std::string_view scheme : {"http://", "https://"})
        if (origin.starts_with(scheme))
            return is_loopback_name(host_of_authority(origin.substr(scheme.size())));
    return false;
}

/// Whether the page was served by this very server, or by the proxy in front of it. A page whose
/// name was made to resolve to this machine (DNS rebinding) also has an origin equal to its `host`,
/// so the name itself is checked, too.
bool is_own_page(std::string_view origin, const config& settings, const request& incoming) {
    auto host = incoming.field("host");
    return host && (origin == "http://" + *host || origin == "https://" + *host) &&
           names_this_server(settings, *host);
}

}  // namespace

std::string allowed_origin(std::span<const std::string> allowed, std::string_view origin) {
    if (origin.empty()) return {};
    for (const std::string& one : allowed) {
        if (one == "*") return one;
        if (one == origin || (one == "loopback" && is_loopback(origin))) return std::string(origin);
    }
    return {};
}

std::optional<response> refuse_foreign_page(const config& settings, const request& incoming) {
    auto origin = incoming.field("origin");
    bool only_reads = incoming.method == "GET" || incoming.method == "HEAD";
    // A client with a key was let in by the operator who gave it.
    if (!origin || only_reads || needs_key(settings)) return std::nullopt;
    if (!incoming.allow_origin.empty() || is_own_page(*origin, settings, incoming))
        return std::nullopt;
    return error_response(incoming,
                          fail(protocol::errc::forbidden,
                               "pages of " + origin->substr(0, 200) +
                                   " may not use this server; --cors-origins says which may",
                               "origin"));
}

std::optional<response> refuse_foreign_socket(const config& settings, const request& incoming) {
    const auto origin = incoming.field("origin");
    if (!origin || !incoming.allow_origin.empty()) return std::nullopt;
    const std::string host = incoming.field("host").value_or("");
    const bool is_same = *origin == "http://" + host || *origin == "https://" + host;
    if (is_same && (needs_key(settings) || names_this_server(settings, host))) return std::nullopt;
    return error_response(incoming,
                          fail(protocol::errc::forbidden,
                               "pages of " + origin->substr(0, 200) +
                                   " may not watch this server; --cors-origins says which may",
                               "origin"));
}

response options_response(const request& incoming, const std::string& methods) {
    response reply;
    reply.status = 204;
    std::string all = methods.empty() ? "OPTIONS" : methods + ", OPTIONS";
    reply.fields.emplace_back("allow", all);
    if (incoming.allow_origin.empty()) return reply;
    reply.fields.emplace_back("access-control-allow-methods", all);
    // All headers that the browser asks for are allowed: a header gives a page no power here, SDKs
    // send many, and * would leave out authorization.
    auto wanted = incoming.field("access-control-request-headers");
    if (wanted && !wanted->empty())
        reply.fields.emplace_back("access-control-allow-headers", *wanted);
    reply.fields.emplace_back("access-control-max-age", "7200");  // s; browsers keep it no longer
    return reply;
}

}  // namespace semantic::server
