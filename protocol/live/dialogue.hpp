// SPDX-License-Identifier: Apache-2.0
#pragma once
// The protocol of a client of /ws: a state machine without sockets and clocks.
//
//   greeting ──keys──► judging ──welcome──► watching        whatever breaks a rule: closed, and why
//                         └────refused───► closed

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace semantic::protocol::live {

inline constexpr std::string_view subprotocol = "semantic.v1";
inline constexpr std::size_t message_bytes_max = 4096;  // of a client's message
inline constexpr double messages_at_once = 20;          // of a client; then
inline constexpr double messages_a_second = 2;          // so many
inline constexpr std::size_t key_bytes_max = 1024;
inline constexpr std::chrono::seconds greeting_time{10};  // for the keys to come

/// As RFC 6455 §7.4 has them; the last is our own.
enum class close_code : std::uint16_t {
    going_away = 1001,
    unsupported = 1003,
    policy = 1008,
    try_again = 1013,
    unauthorized = 4401,
};

/// The keys that a client shows; absent: none.
struct shown_keys {
    std::optional<std::string> api_key{};
    std::optional<std::string> admin_key{};
};

/// What the connection does next.
struct answer {
    std::string send{};                 // a message; empty: none
    std::optional<shown_keys> judge{};  // keys that the caller checks, then welcomed() or refused()
    bool wants_snapshot = false;
    std::optional<close_code> close{};
};

enum class stage { greeting, judging, watching, closed };

class dialogue {
  public:
    using time = std::chrono::steady_clock::time_point;

    /// The connection is open. `is_known`: headers of the handshake have authenticated the client.
    answer opened(bool is_known, time now);
    /// The client sent a text message, or a binary one, which is refused.
    answer said(std::string_view message, time now);
    answer said_binary();
    /// `greeting_time` has passed: a client that has not shown its keys is refused.
    answer waited();
    /// The keys that `judge` asked about are valid. `is_admin`: the client sees all tenants.
    answer welcomed(bool is_admin);
    /// The keys are not valid; `why` is the sentence for the client.
    answer refused(std::string_view why);

    stage now() const noexcept { return stage_; }

  private:
    answer end(std::string_view code, std::string_view message, close_code why);
    bool takes_message(time now);
    /// Decides what follows a message of the client.
    answer read(std::string_view message);

    stage stage_ = stage::greeting;
    // How many messages may come now, as of `last_`.
    double allowance_ = messages_at_once;
    time last_{};
};

/// {"type":"error","code":…,"message":…}
std::string error_message(std::string_view code, std::string_view message);
/// The last message to a client that reads too slowly, before it is dropped.
std::string too_slow_message(std::size_t messages);

}  // namespace semantic::protocol::live
