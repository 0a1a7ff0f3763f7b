// SPDX-License-Identifier: Apache-2.0
#pragma once
// The date that a template writes into a prompt, for models whose template does. An agent keeps the
// date of its first prompt for good: a new date would change the beginning of its prompts, and each
// midnight would void its memory. A conversation that another agent began keeps that agent's date.
// Owner: resolver. Thread: const methods are safe from any thread.

#include <functional>
#include <string>
#include <utility>

#include "engine/prompt/source_search.hpp"
#include "engine/text/template/chat_template.hpp"
#include "storage/agents/agent_cache_store.hpp"

namespace semantic::engine {

/// The day in the server's time zone, as yyyy-mm-dd.
std::string local_day();

/// The variables that the template gets in addition to the conversation. `day`: as yyyy-mm-dd.
render_options rendering_of(const thinking_params& wanted, std::string day);

class told_day {
  public:
    /// `today`: as yyyy-mm-dd; called from any thread.
    told_day(const chat_template& chat, const storage::agent_cache_store& store,
             const source_search& memories, std::function<std::string()> today)
        : template_(chat), store_(store), memories_(memories), today_(std::move(today)) {}

    std::string today() const { return today_(); }
    /// The date for this request's prompt, as yyyy-mm-dd: that of the memory which it continues;
    /// today for a new conversation.
    std::string day_for(const generation_request& request) const;

  private:
    bool continues_on(const std::string& day, const generation_request& request) const;

    const chat_template& template_;
    const storage::agent_cache_store& store_;
    const source_search& memories_;
    const std::function<std::string()> today_;
};

}  // namespace semantic::engine
