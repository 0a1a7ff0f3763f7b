// SPDX-License-Identifier: Apache-2.0
#pragma once
// The stored reply to a request with an Idempotency-Key, for its retries. A stream is
// kept as what its events were made of: each token event repeats all of its turn, so that the
// events themselves take the square of a turn's length. Pure.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace semantic::protocol::coordination {

/// A turn as it was streamed, without what can be made from the rest.
struct streamed_turn {
    int agent = 0;
    std::string start{};                 // the event turn_start
    std::string text{};                  // of all token events
    std::vector<std::uint32_t> sizes{};  // of each of these, in bytes of `text`
    std::string complete{};              // the event turn_complete
    void add_token(std::string_view token) {
        text += token;
        sizes.push_back(static_cast<std::uint32_t>(token.size()));
    }
};

struct kept_reply {
    std::string key;
    std::string digest;  // a hash of the request
    std::string reply;   // the body; of a stream, what follows its turns
    std::vector<streamed_turn> turns{};
};
/// Returns: the bytes that a kept reply takes, about.
std::size_t bytes_of(const kept_reply& kept) noexcept;

/// The agent whose turns a stream shows.
struct shown_agent {
    std::string id;
    std::string name;
};

/// Makes the events of a kept stream again, one after the other; for a kept body returns the body.
class replayed_events {
  public:
    /// `agents`: of the session. `kept` outlives this.
    replayed_events(const kept_reply& kept, std::vector<shown_agent> agents)
        : kept_(kept), agents_(std::move(agents)) {}
    /// Returns: the next event; nothing after the last one.
    std::optional<std::string> next();

  private:
    const kept_reply& kept_;
    std::vector<shown_agent> agents_;
    // The next event: its turn, and its number within the turn.
    std::size_t turn_ = 0;
    std::size_t event_ = 0;   // of the turn: its start, its tokens, its end
    std::size_t so_far_ = 0;  // bytes of the turn's text that are out
    bool is_over_ = false;
};

}  // namespace semantic::protocol::coordination
