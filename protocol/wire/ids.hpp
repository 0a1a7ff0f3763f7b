// SPDX-License-Identifier: Apache-2.0
#pragma once
// Identifiers that clients see: a prefix and 24 base62 characters.
// Owner: the code that answers requests. Thread: one at a time.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace semantic::protocol {

class id_maker {
  public:
    /// `random` returns 64 fresh random bits at each call. Tests give a fixed sequence.
    explicit id_maker(std::function<std::uint64_t()> random) : random_(std::move(random)) {}

    std::string message_id() { return make("msg_"); }
    std::string tool_use_id() { return make("toolu_"); }
    std::string completion_id() { return make("chatcmpl-"); }
    std::string call_id() { return make("call_"); }
    std::string request_id() { return make("req_"); }
    /// Returns: `prefix` and 24 random characters.
    std::string make(std::string_view prefix);

  private:
    std::function<std::uint64_t()> random_;
};

}  // namespace semantic::protocol
