// SPDX-License-Identifier: Apache-2.0
#pragma once
// Adapters between the engine's interfaces for files and those of storage. Owner: engine.cpp.

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "engine/engine.hpp"
#include "storage/agents/agent_cache_store.hpp"
#include "storage/files/file.hpp"

namespace semantic::engine {

class store_room final : public disk_room {
  public:
    explicit store_room(storage::agent_cache_store::disk_room room) : room_(std::move(room)) {}
    storage::result<void> grow(std::uint64_t bytes) override { return room_.grow(bytes); }

  private:
    storage::agent_cache_store::disk_room room_;
};

/// A memory_source as a file that storage can read.
class source_file final : public storage::readable_file {
  public:
    explicit source_file(const memory_source& source) : source_(source) {}
    storage::result<std::uint64_t> size() override { return source_.file_bytes; }
    storage::result<void> read_at(std::uint64_t offset, std::span<std::byte> target) override {
        return source_.read_at(offset, target);
    }

  private:
    const memory_source& source_;
};

}  // namespace semantic::engine
