// SPDX-License-Identifier: Apache-2.0
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
    slow_objects(std::unique_ptr<object_store> inner, std::chrono::milliseconds each)
        : inner_(std::move(inner)), each_(each) {}

    object_result<object_info> get(const std::string& name, std::string& bytes) override {
        const visit now(*this, gets_at_once);
        return inner_->get(name, bytes);
    }
    object_result<object_info> get_range(const std::string& name, std::uint64_t offset,
                                         std::span<std::byte> target) override {
        return inner_->get_range(name, offset, target);
    }
    object_result<std::string> put(const std::string& name, std::string_view bytes,
                                   const put_condition& condition) override {
        const visit now(*this, puts_at_once);
        ++puts;
        return inner_->put(name, bytes, condition);
    }
    object_result<std::vector<std::optional<object_info>>> stat(
        std::span<const std::string> names) override {
        return inner_->stat(names);
    }
    object_result<void> remove(const std::string& name) override { return inner_->remove(name); }
    object_result<object_page> list(const std::string& prefix, const std::string& from,
                                    std::size_t count_max) override {
        return inner_->list(prefix, from, count_max);
    }

    struct at_once {
        std::atomic<int> now{0}, most{0};
    };
    at_once gets_at_once, puts_at_once;
    std::atomic<int> puts{0};

  private:
    struct visit {
        visit(slow_objects& objects, at_once& counts) : counts_(counts) {
            const int now = ++counts_.now;
            for (int most = counts_.most; most < now;)
                if (counts_.most.compare_exchange_weak(most, now)) break;
            std::this_thread::sleep_for(objects.each_);
        }
        ~visit() { --counts_.now; }
        at_once& counts_;
    };
    const std::unique_ptr<object_store> inner_;
    const std::chrono::milliseconds each_;
};

}  // namespace semantic::storage::tests
