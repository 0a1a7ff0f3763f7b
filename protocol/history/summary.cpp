// SPDX-License-Identifier: Apache-2.0
#include "protocol/history/summary.hpp"

#include <algorithm>
#include <string>

#include "protocol/reply_parts.hpp"

namespace semantic::protocol {

std::string_view summary_question() {
    return "Summarize our conversation so far, so that somebody who has nothing else can go on "
           "with it: what was asked for, what was found and decided, what was done, with the names "
           "of files and the values that matter, and what is left to do. Answer with the summary "
           "alone.";
}

void ask_for_summary(answer_request& request, std::string_view question) {
    request.chat.messages.push_back(
        {engine::role::user, {engine::text_part{std::string(question)}}});
    request.chat.end = engine::prompt_end::answer_begins;
    request.max_tokens = std::min(request.max_tokens, summary_tokens_max);
    // The client's form and stop strings are for its own answers, not for this one.
    request.form = {};
    request.stop_sequences.clear();
    request.tool_calls_max = 0;
}

result<std::string> summary_collector::on_finished(const engine::finished& event) {
    if (auto f = unfinished(event)) return *f;
    if (is_white_space(summary_))
        return fail(errc::internal, "the model gave no summary of the conversation");
    return std::string("{}");
}

}  // namespace semantic::protocol
