// SPDX-License-Identifier: Apache-2.0
#pragma once
// Header forms that are refused although the parser accepts them: another reader of the same bytes,
// such as a proxy, may understand it differently, and so find another request after it. Pure.
// Source: RFC 9112 §3.2, §5.2, §6.1, §6.3.

#include <string>
#include <string_view>

#include "server/http/request.hpp"

namespace semantic::server {

/// Whether a field's value goes on in the next line (obs-fold). `header`: as received.
bool has_folded_line(std::string_view header);

/// Returns: what is wrong with the fields, one sentence, or nothing: none or several `host`
/// (HTTP/1.0 needs none), several lengths, a transfer-encoding in HTTP/1.0. Requires: method,
/// target and fields are set.
std::string fault_of_fields(const request& incoming);

}  // namespace semantic::server
