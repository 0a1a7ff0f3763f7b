#pragma once
// An object store that takes its time, and counts how many ask it at once. Everything here is for
// tests.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "storage/objects/object_store.hpp"

namespace semantic::storage::tests {

class slow_objects final : public object_store {
  public:
    slow_objects(std::unique_ptr<object_store> of, std::chrono::milliseconds each)
        : of_(std::move(of)), each_(each) {}

    object_result<object_info> get(const std::string& name, std::string& into) override {
        const visit now(*this, gets_at_once);
        return of_->get(name, into);
    }
    object_result<object_info> get_range(const std::string& name, std::uint64_t offset,
                                         std::span<std::byte> into) override {
        return of_->get_range(name, offset, into);
    }
    object_result<std::string> put(const std::string& name, std::string_view bytes,
                                   const put_condition& condition) override {
        const visit now(*this, puts_at_once);
        ++puts;
        return of_->put(name, bytes, condition);
    }
    object_result<std::vector<std::optional<object_info>>> stat(
        std::span<const std::string> names) override {
        return of_->stat(names);
    }
    object_result<void> remove(const std::string& name) override { return of_->remove(name); }
    object_result<object_page> list(const std::string& prefix, const std::string& from,
                                    std::size_t count_max) override {
        return of_->list(prefix, from, count_max);
    }

    struct at_once {
        std::atomic<int> now{0}, most{0};
    };
    at_once gets_at_once, puts_at_once;
    std::atomic<int> puts{0};

  private:
    struct visit {
        visit(slow_objects& of, at_once& counts) : counts_(counts) {
            const int now = ++counts_.now;
            for (int most = counts_.most; most < now;)
                if (counts_.most.compare_exchange_weak(most, now)) break;
            std::this_thread::sleep_for(of.each_);
        }
        ~visit() { --counts_.now; }
        at_once& counts_;
    };
    const std::unique_ptr<object_store> of_;
    const std::chrono::milliseconds each_;
};

}  // namespace semantic::storage::tests
