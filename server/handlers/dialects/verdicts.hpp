// SPDX-License-Identifier: Apache-2.0
#pragma once
// The verdict on an answer's calls, where a client asks for one: the model judges them on a branch
// of the agent's memory when the answer is complete and before its end goes out.

#include <functional>
#include <string>

#include "protocol/anthropic/message_stream.hpp"
#include "server/handlers/answer/answer.hpp"

namespace semantic::server {

/// Owner: the handler of one request. Thread: the connection's strand.
class verdicts final : public before_end {
  public:
    /// `chat`: what is answered. `asked` must outlive it, with settings.safeguards above 0.
    verdicts(const answer_context& asked, protocol::anthropic::safeguard_request request,
             engine::conversation chat);

    /// Judges the calls of this answer. Returns: this.
    before_end* watch(protocol::anthropic::message_stream& stream);
    before_end* watch(protocol::anthropic::message_collector& collector);

    /// Takes settings.safeguards at most, and so many tokens as the calls have verdicts. Cancelled
    /// half-way: `last` is as it was.
    net::awaitable<void> run(std::string& last) override;

  private:
    using calls = std::vector<protocol::anthropic::judged_call>;

    net::awaitable<boost::json::array> judge(const calls& found) const;

    const answer_context asked_;
    protocol::anthropic::safeguard_request request_;
    engine::conversation chat_;
    std::function<const calls&()> calls_;
    std::function<std::string(std::string last, boost::json::array results)> write_;
};

}  // namespace semantic::server
