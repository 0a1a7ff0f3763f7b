// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whole exchanges as files, compared byte for byte: tests/golden/wire/DIALECT/NAME.request.json is
// what a client sends, NAME.events.json what the engine and the tool call parser say,
// NAME.expected.sse and NAME.expected.json the replies with and without streaming. A request
// without events must be refused with NAME.expected.json. With SEMANTIC_UPDATE_GOLDEN set the
// expected files are written instead.

#include <boost/json/array.hpp>

#include <functional>
#include <memory>
#include <string>
#include <variant>

#include "protocol/reply.hpp"
#include "protocol/wire/api_error.hpp"

namespace semantic::protocol::wire_golden {

/// The two ways to answer one request; ids come out in the same order from both.
struct repliers {
    std::unique_ptr<reply_stream> stream;
    std::unique_ptr<reply_collector> collector;
};
/// Parses a request. Returns: what answers it, or why it is refused.
using parser = std::function<result<repliers>(const std::string& body)>;

/// Ids made of 1, 2, 3, ...
std::function<std::uint64_t()> counting();

/// Plays every exchange of the dialect's folder. Returns: how many there were.
int run_all(const std::string& folder_name, dialect d, const parser& parse);

}  // namespace semantic::protocol::wire_golden
