// SPDX-License-Identifier: Apache-2.0
#pragma once
// What one request may cost beyond reading its own bytes. Whatever a client sends is counted before
// it is worked on: code whose cost is not linear in the body takes a budget and charges it first.
//
// Thread: one thread at a time charges a budget; cancel() may come from any thread. A budget that
// is shared between threads is handed over, as the request is.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace semantic::storage {

/// Thrown by the charge that goes over a limit; what() names the limit. Nothing was done yet of the
/// work that was charged.
class work_limit_exceeded : public std::runtime_error {
  public:
    enum class limit { steps, bytes, deadline, cancelled };

    work_limit_exceeded(limit exceeded, const std::string& text)
        : std::runtime_error(text), limit_(exceeded) {}
    limit exceeded() const noexcept { return limit_; }

  private:
    limit limit_;
};

class work_budget {
  public:
    using clock = std::chrono::steady_clock;

    /// A step is work of some 100 ns: a symbol of a grammar, a comparison of two schemas, an
    /// operation of a template. So this many take about a second of one core.
    static constexpr std::uint64_t steps_default = 10'000'000;
    /// Memory that is made on behalf of a request, beyond its body and what was parsed of it.
    static constexpr std::size_t bytes_default = std::size_t{64} << 20;

    struct limits {
        std::uint64_t steps = steps_default;
        std::size_t bytes = bytes_default;
        clock::time_point deadline = clock::time_point::max();
    };

    work_budget() = default;
    explicit work_budget(const limits& l) : limits_(l) {}
    work_budget(const work_budget&) = delete;
    work_budget& operator=(const work_budget&) = delete;

    /// Charges `count` steps. Looks at the deadline and at cancel() every few thousand steps.
    /// Throws work_limit_exceeded.
    void charge_steps(std::uint64_t count = 1) {
        if (count > limits_.steps - steps_ || steps_ + count > next_check_) check_steps(count);
        steps_ += count;
    }
    /// Charges memory that is about to be made and kept. Throws work_limit_exceeded.
    void charge_bytes(std::size_t count);
    /// Gives back memory that was charged and is freed.
    void release_bytes(std::size_t count) noexcept;
    /// Throws work_limit_exceeded when the deadline has passed or cancel() was called.
    void check() const;

    /// Makes the next check throw: the client has left, or the server stops.
    void cancel() noexcept { cancelled_.store(true, std::memory_order_relaxed); }
    bool is_cancelled() const noexcept { return cancelled_.load(std::memory_order_relaxed); }

    std::uint64_t steps() const noexcept { return steps_; }
    std::size_t bytes() const noexcept { return bytes_; }
    /// The most bytes that were charged at once.
    std::size_t bytes_peak() const noexcept { return bytes_peak_; }
    const limits& maximum() const noexcept { return limits_; }

  private:
    static constexpr std::uint64_t check_every = 4096;

    void check_steps(std::uint64_t count);

    limits limits_;
    std::uint64_t steps_ = 0;
    std::uint64_t next_check_ = 0;  // steps at which charge_steps looks closer; 0: at the first
    std::size_t bytes_ = 0;
    std::size_t bytes_peak_ = 0;
    std::atomic<bool> cancelled_{false};
};

/// Bytes that are charged for as long as this lives.
class charged_bytes {
  public:
    charged_bytes(work_budget& budget, std::size_t count) : budget_(budget), count_(count) {
        budget.charge_bytes(count);
    }
    ~charged_bytes() { budget_.release_bytes(count_); }
    charged_bytes(const charged_bytes&) = delete;
    charged_bytes& operator=(const charged_bytes&) = delete;

  private:
    work_budget& budget_;
    std::size_t count_;
};

}  // namespace semantic::storage
