// SPDX-License-Identifier: Apache-2.0
#pragma once
// Charges bytes to a budget little by little, and releases all of them in its destructor.

#include "storage/types/work_budget.hpp"

namespace semantic::engine {

class growing_charge {
  public:
    explicit growing_charge(storage::work_budget& budget) : budget_(budget) {}
    ~growing_charge() { budget_.release_bytes(count_); }
    growing_charge(const growing_charge&) = delete;
    growing_charge& operator=(const growing_charge&) = delete;

    storage::work_budget& budget() { return budget_; }
    /// Throws work_limit_exceeded.
    void add(std::size_t count) {
        budget_.charge_bytes(count);
        count_ += count;
    }

  private:
    storage::work_budget& budget_;
    std::size_t count_ = 0;
};

}  // namespace semantic::engine
