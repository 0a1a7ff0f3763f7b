// SPDX-License-Identifier: Apache-2.0
#pragma once
// An upload that is too large for memory: a file without a name, gone with this object. It counts
// in the disk budget, and takes one of the places that there are for uploads. Owner: the request.
// Thread: one at a time. Every method but size() blocks.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "engine/engine.hpp"
#include "server/usage/tenant_slots.hpp"
#include "storage/types/errc.hpp"

namespace semantic::server {

/// One of the slots for uploads, given back when it ends. Movable. Thread: any.
class upload_slot {
  public:
    /// `count`: the gauge of taken slots; outlives this object.
    upload_slot(std::atomic<std::int64_t>& count, std::unique_ptr<tenant_slots::slot> slot)
        : count_(&count), slot_(std::move(slot)) {
        count_->fetch_add(1);
    }
    upload_slot(upload_slot&& other) noexcept
        : count_(std::exchange(other.count_, nullptr)), slot_(std::move(other.slot_)) {}
    upload_slot& operator=(upload_slot&&) = delete;
    ~upload_slot() {
        if (count_ != nullptr) count_->fetch_sub(1);
    }

  private:
    std::atomic<std::int64_t>* count_;
    std::unique_ptr<tenant_slots::slot> slot_;
};

class spool_file {
  public:
    /// `directory`: empty means the system's for temporary files. `room` grows with the file; may
    /// be null. Errors: io, out_of_space.
    static storage::result<std::shared_ptr<spool_file>> make(
        const std::string& directory, upload_slot slot, std::unique_ptr<engine::disk_room> room);
    spool_file(int descriptor, upload_slot slot, std::unique_ptr<engine::disk_room> room)
        : slot_(std::move(slot)), room_(std::move(room)), descriptor_(descriptor) {}
    ~spool_file();
    spool_file(const spool_file&) = delete;
    spool_file& operator=(const spool_file&) = delete;

    /// Writes bytes at the end. Errors: io, out_of_space.
    storage::result<void> append(std::string_view bytes);
    /// Reads bytes at `offset`. Errors: io, also where the file ends before `bytes` is full.
    storage::result<void> read_at(std::uint64_t offset, std::span<std::byte> bytes) const;
    std::uint64_t size() const noexcept { return size_; }

  private:
    const upload_slot slot_;
    std::unique_ptr<engine::disk_room> room_;
    int descriptor_;
    std::uint64_t size_ = 0;
};

}  // namespace semantic::server
