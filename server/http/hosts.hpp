// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which names this server answers to. A page in a browser can have its own name resolved to this
// machine (DNS rebinding); its requests then look like those of a page of ours, and only their
// `host` distinguishes them. Pure.

#include <optional>
#include <string>
#include <string_view>

#include "server/config/config.hpp"
#include "server/http/request.hpp"
#include "server/http/response.hpp"

namespace semantic::server {

/// The host of a HOST[:PORT]: "localhost:8001" -> "localhost", "[::1]:8001" -> "[::1]". Empty where
/// it has another form.
std::string_view host_of_authority(std::string_view authority);

/// Whether the name means the own machine everywhere: localhost, 127.0.0.0/8, [::1].
bool is_loopback_name(std::string_view host);

/// Whether a request for `authority` (the value of `host`) may be meant for this server: a loopback
/// name, `--host`, the host of an origin in `--cors-origins`, each with any port; everything when
/// that option is *. A server that other machines reach has every address, too: nobody can have an
/// address resolved to another one.
bool names_this_server(const config& settings, std::string_view authority);

/// Whether a request seems to come from a program on this machine: it names a loopback host, and
/// has no field of a proxy. A loopback connection alone proves nothing where a proxy is in front.
bool is_asked_from_here(const request& incoming);

/// Returns: 421 for a request whose `host` is not this server's name. Checked only where the server
/// listens on loopback without keys: other servers are open to everybody anyway, or pages lack the
/// key.
std::optional<response> refuse_foreign_host(const config& settings, const request& incoming);

}  // namespace semantic::server
