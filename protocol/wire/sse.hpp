// SPDX-License-Identifier: Apache-2.0
#pragma once
// Server-sent events: one event to bytes. Pure. Source:
// https://html.spec.whatwg.org/multipage/server-sent-events.html

#include <string>
#include <string_view>

namespace semantic::protocol {

/// "event: NAME\ndata: DATA\n\n", or without the event line when `name` is empty (the OpenAI
/// dialect). Requires: neither contains a line break (serialised JSON never does).
std::string sse_event(std::string_view name, std::string_view data);
/// Returns: ": TEXT\n\n", a comment that keeps the connection alive and that clients ignore.
std::string sse_comment(std::string_view text);

}  // namespace semantic::protocol
