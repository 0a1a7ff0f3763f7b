// SPDX-License-Identifier: Apache-2.0
#include "server/handlers/dialects/verdicts.hpp"

#include <chrono>
#include <utility>

#include "protocol/history/summary.hpp"

namespace semantic::server {

namespace anthropic = protocol::anthropic;

verdicts::verdicts(const answer_context& asked, anthropic::safeguard_request request,
                   engine::conversation chat)
    : asked_(asked), request_(std::move(request)), chat_(std::move(chat)) {}

before_end* verdicts::watch(anthropic::message_stream& stream) {
    calls_ = [&stream]() -> const calls& { return stream.calls(); };
    write_ = [&stream](std::string last, boost::json::array results) {
        return stream.with_verdicts(std::move(last), std::move(results));
    };
    return this;
}

before_end* verdicts::watch(anthropic::message_collector& collector) {
    calls_ = [&collector]() -> const calls& { return collector.calls(); };
    write_ = [&collector](const std::string&, boost::json::array results) {
        return collector.with_verdicts(std::move(results));
    };
    return this;
}

net::awaitable<void> verdicts::run(std::string& last) {
    const calls& found = calls_();
    if (found.empty()) co_return;
    boost::json::array results = co_await judge(found);
    last = write_(std::move(last), std::move(results));
}

net::awaitable<boost::json::array> verdicts::judge(const calls& found) const {
    engine::generation_request wanted;
    wanted.chat = chat_;
    engine::message said{engine::role::assistant, {}};
    for (const anthropic::judged_call& each : found)
        said.parts.push_back(engine::tool_call_part{each.id, each.name, each.arguments_json});
    wanted.chat.messages.push_back(std::move(said));
    anthropic::ask_for_verdicts(request_, found, wanted);
    // No later request continues this branch, so its memory is not kept.
    wanted.memory.keep_seconds = std::chrono::seconds(0);
    wanted.deadline = std::chrono::steady_clock::now() + asked_.server.settings.safeguards;
    protocol::summary_collector collector;
    const auto reply = co_await collect_answer(asked_, std::move(wanted), collector);
    if (reply && reply->status == 200) co_return anthropic::verdicts_of(found, collector.summary());
    using enum anthropic::no_verdict;
    // 504: the deadline has passed. 400 is taken for a prompt that is too long.
    const bool is_late = reply && reply->status == 504;
    const bool is_too_long = reply && reply->status == 400;
    co_return anthropic::without_verdicts(found, is_late       ? timeout
                                                 : is_too_long ? input_too_long
                                                               : error);
}

}  // namespace semantic::server
