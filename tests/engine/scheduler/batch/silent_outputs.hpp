// SPDX-License-Identifier: Apache-2.0
#pragma once
// Outputs of a batch of which a test looks at some.

#include "engine/scheduler/batch/batch_outputs.hpp"

namespace semantic::engine {

/// Takes everything, holds nothing.
class silent_outputs : public batch_outputs {
  public:
    void emit_event(const job_ptr&, generation_event) override {}
    void commit_end(ended_request) override {}
    void save_agent(const storage::agent_id&, storage::save_extent) override {}
    bool are_blocks_held() const override { return false; }
    void restore_prefix(const job_ptr&) override {}
    bool are_requests_arriving() const override { return false; }
    void announce_wait(const job_ptr&, queued) override {}
};

}  // namespace semantic::engine
