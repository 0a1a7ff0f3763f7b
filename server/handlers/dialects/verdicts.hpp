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
    /// `chat`: the conversation that is answered. `asked` outlives this object; settings.safeguards
    /// is above 0.
    verdicts(const answer_context& asked, protocol::anthropic::safeguard_request request,
             engine::conversation chat);

    /// From now on judges the calls of this answer. Returns: this object, for
    /// answer_context::at_end.
    before_end* watch(protocol::anthropic::message_stream& stream);
    before_end* watch(protocol::anthropic::message_collector& collector);

    /// Adds the verdicts to `last`. Takes settings.safeguards at most. Leaves `last` unchanged
    /// where the answer has no calls or this is cancelled.
    net::awaitable<void> run(std::string& last) override;

  private:
    using calls = std::vector<protocol::anthropic::judged_call>;

    /// Has the model judge the calls. Returns: one result for each; where it could not judge, the
    /// reason.
    net::awaitable<boost::json::array> judge(const calls& found) const;

    const answer_context asked_;
    protocol::anthropic::safeguard_request request_;
    engine::conversation chat_;
    std::function<const calls&()> calls_;
    std::function<std::string(std::string last, boost::json::array results)> write_;
};

}  // namespace semantic::server
