// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/batch/open_choices.hpp"

namespace semantic::engine {

void open_choices::started() {
    prompt_end& prompt = prompts_.front();
    if (++prompt.next == prompt.work->request.choices) prompts_.pop_front();
}

bool open_choices::drop(const job_ptr& work) {
    return std::erase_if(prompts_, [&](const prompt_end& prompt) { return prompt.work == work; }) >
           0;
}

bool open_choices::release_blocks() {
    bool any = false;
    for (prompt_end& prompt : prompts_) {
        any = any || prompt.has_prompt();
        prompt.blocks.clear();
        prompt.state.reset();
    }
    return any;
}

}  // namespace semantic::engine
