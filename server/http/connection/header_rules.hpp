// SPDX-License-Identifier: Apache-2.0
#pragma once
// Header forms that are refused although the parser accepts them: another reader of the same bytes,
// such as a proxy, may understand it differently, and so find another request after it. Pure.
// Source: RFC 9112 §3.2, §5.2, §6.1, §6.3.

#include <string>
#include <string_view>

#include "server/http/request.hpp"

namespace semantic::server {

/// Whether the header has a field that continues in the next line (obs-fold). `header`: as
/// received.
bool has_folded_line(std::string_view header);

/// Returns: a sentence about what is wrong with the fields (no or several `host`, of which HTTP/1.0
/// needs none; several lengths; a transfer-encoding in HTTP/1.0), or an empty string. Requires:
/// method, target and fields are set.
std::string fault_of_fields(const request& incoming);

}  // namespace semantic::server
