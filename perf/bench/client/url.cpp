// SPDX-License-Identifier: Apache-2.0
#include "perf/bench/client/url.hpp"

#include <boost/asio/ip/address.hpp>

#include <algorithm>
#include <charconv>

#include "perf/bench/client/errors.hpp"

namespace semantic::bench {
namespace {

[[noreturn]] void refuse(std::string_view url, const std::string& reason) {
    throw usage_error("--url " + std::string(url) + ": " + reason);
}

std::uint16_t parse_port(std::string_view url, std::string_view text) {
    std::uint16_t port = 0;
    const auto end = text.data() + text.size();
    const auto [last, error] = std::from_chars(text.data(), end, port);
    if (error != std::errc() || last != end || port == 0) {
        refuse(url, "the port must be a number from 1 to 65535");
    }
    return port;
}

/// The addresses of a host of this machine. Errors: usage_error for any other host.
std::vector<std::string> loopback_addresses(std::string_view url, const std::string& host) {
    // No resolver is asked, since it could be configured to give another address.
    if (host == "localhost") return {"127.0.0.1", "::1"};
    boost::system::error_code error;
    const auto address = boost::asio::ip::make_address(host, error);
    if (error || !address.is_loopback()) {
        refuse(url,
               "only a server on this machine may be measured (127.0.0.0/8, [::1] or "
               "localhost), not \"" +
                   host + "\"");
    }
    return {host};
}

}  // namespace

std::string server_url::authority() const {
    const bool v6 = host.find(':') != std::string::npos;
    return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

server_url parse_url(std::string_view text) {
    static constexpr std::string_view scheme = "http://";
    if (!text.starts_with(scheme)) refuse(text, "must start with http://");
    std::string_view rest = text.substr(scheme.size());
    const auto slash = rest.find('/');
    std::string_view authority = rest.substr(0, slash);
    server_url url;
    url.base_path = slash == rest.npos ? "" : rest.substr(slash);
    if (url.base_path.find_first_of("?# \r\n\t") != std::string::npos) {
        refuse(text, "the path may have no query, fragment or space");
    }
    while (url.base_path.ends_with('/')) url.base_path.pop_back();
    if (url.base_path.ends_with("/v1")) url.base_path.resize(url.base_path.size() - 3);
    if (authority.find('@') != authority.npos) refuse(text, "user names are not supported");

    if (authority.starts_with('[')) {
        const auto close = authority.find(']');
        if (close == authority.npos) refuse(text, "\"[\" without \"]\"");
        url.host = authority.substr(1, close - 1);
        authority.remove_prefix(close + 1);
    } else {
        const auto colon = std::min(authority.find(':'), authority.size());
        url.host = authority.substr(0, colon);
        authority.remove_prefix(colon);
    }
    if (!authority.empty()) {
        if (authority.front() != ':') refuse(text, "cannot read what follows the host");
        url.port = parse_port(text, authority.substr(1));
    }
    url.addresses = loopback_addresses(text, url.host);
    return url;
}

}  // namespace semantic::bench
