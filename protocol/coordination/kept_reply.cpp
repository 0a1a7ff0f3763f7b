// SPDX-License-Identifier: Apache-2.0
#include "protocol/coordination/kept_reply.hpp"

#include "protocol/coordination/api.hpp"

namespace semantic::protocol::coordination {

std::size_t bytes_of(const kept_reply& kept) noexcept {
    // An estimate of what a reply or turn takes without its texts.
    constexpr std::size_t own_bytes = 256;
    std::size_t bytes = own_bytes + kept.key.size() + kept.digest.size() + kept.reply.size();
    for (const streamed_turn& each : kept.turns)
        bytes += own_bytes + each.start.size() + each.text.size() + each.complete.size() +
                 each.sizes.size() * sizeof(std::uint32_t);
    return bytes;
}

std::optional<std::string> replayed_events::next() {
    while (turn_ < kept_.turns.size()) {
        const streamed_turn& turn = kept_.turns[turn_];
        const std::size_t event = event_++;
        if (event == 0) return turn.start;
        if (event <= turn.sizes.size()) {
            const std::string_view text = turn.text;
            const std::size_t size = turn.sizes[event - 1];
            const std::string_view token = text.substr(so_far_, size);
            so_far_ += token.size();
            return token_event(agents_.at(static_cast<std::size_t>(turn.agent)), token,
                               text.substr(0, so_far_));
        }
        ++turn_;
        event_ = so_far_ = 0;
        return turn.complete;
    }
    if (is_over_ || kept_.reply.empty()) return std::nullopt;
    is_over_ = true;
    return kept_.reply;
}

}  // namespace semantic::protocol::coordination
