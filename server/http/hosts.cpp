// SPDX-License-Identifier: Apache-2.0
#include "server/http/hosts.hpp"

#include <boost/asio/ip/address.hpp>

#include <algorithm>
#include <array>

namespace semantic::server {

namespace {

namespace ip = boost::asio::ip;

/// "[::1]" and "127.0.0.1" as an address; nothing for a name.
std::optional<ip::address> address_of(std::string_view host) {
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    boost::system::error_code error;
    ip::address address = ip::make_address(host, error);
    if (error) return std::nullopt;
    return address;
}

bool is_loopback(const ip::address& address) {
    if (address.is_v6() && address.to_v6().is_v4_mapped())
        return ip::make_address_v4(ip::v4_mapped, address.to_v6()).is_loopback();
    return address.is_loopback();
}

/// Whether the origin's host is `host`.
bool is_host_of(std::string_view origin, std::string_view host) {
    const std::size_t scheme = origin.find("://");
    if (scheme == std::string_view::npos) return false;
    return equal_ignoring_case(host_of_authority(origin.substr(scheme + 3)), host);
}

/// The authority that a request names: the value of `host`, or that of a target in absolute form.
std::optional<std::string> authority_of(const request& incoming) {
    const std::string_view target = incoming.target;
    for (std::string_view scheme : {"http://", "https://"})
        if (target.starts_with(scheme)) {
            const std::string_view rest = target.substr(scheme.size());
            return std::string(rest.substr(0, rest.find_first_of("/?")));
        }
    return incoming.field("host");
}

}  // namespace

std::string_view host_of_authority(std::string_view authority) {
    // An IPv6 address is in brackets, and only a port may follow them.
    const std::size_t bracket = authority.starts_with('[') ? authority.find(']') : 0;
    if (bracket == std::string_view::npos) return {};
    const std::size_t colon = authority.find(':', bracket);
    const std::string_view host = authority.substr(0, colon);
    if (bracket != 0 && host.size() != bracket + 1) return {};
    if (colon == std::string_view::npos) return host;
    const std::string_view port = authority.substr(colon + 1);
    const bool is_port =
        std::all_of(port.begin(), port.end(), [](char c) { return c >= '0' && c <= '9'; });
    return is_port ? host : std::string_view();
}

bool is_loopback_name(std::string_view host) {
    if (equal_ignoring_case(host, "localhost")) return true;
    const auto address = address_of(host);
    return address && is_loopback(*address);
}

bool names_this_server(const config& settings, std::string_view authority) {
    const std::string_view host = host_of_authority(authority);
    if (host.empty()) return false;
    const auto address = address_of(host);
    if (is_loopback_name(host) || equal_ignoring_case(host, settings.host)) return true;
    if (address && (address == address_of(settings.host) || !serves_this_machine_only(settings)))
        return true;
    return std::any_of(
        settings.cors_origins.begin(), settings.cors_origins.end(),
        [&](const std::string& origin) { return origin == "*" || is_host_of(origin, host); });
}

bool is_asked_from_here(const request& incoming) {
    const auto authority = authority_of(incoming);
    if (!authority || !is_loopback_name(host_of_authority(*authority))) return false;
    constexpr std::array marks{
        "forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-forwarded-port",
        "x-real-ip", "x-client-ip",     "true-client-ip",   "cf-connecting-ip",  "via"};
    return std::ranges::none_of(marks,
                                [&](const char* mark) { return incoming.field(mark).has_value(); });
}

std::optional<response> refuse_foreign_host(const config& settings, const request& incoming) {
    if (needs_key(settings) || !serves_this_machine_only(settings)) return std::nullopt;
    const auto authority = authority_of(incoming);
    // Only programs from before HTTP/1.1 leave `host` out; browsers never do.
    if (!authority || names_this_server(settings, *authority)) return std::nullopt;
    const std::string name = authority->substr(0, 200);
    return error_response(
        incoming,
        fail(protocol::errc::forbidden,
             "this server does not answer as \"" + name +
                 "\"; --cors-origins with an origin of that host (http://" + name +
                 ") lets it, and so does a key for all clients (--api-key)",
             "host"),
        421);
}

}  // namespace semantic::server
