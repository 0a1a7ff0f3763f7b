// SPDX-License-Identifier: Apache-2.0
#pragma once
// A machine of several that share objects. Everything here is for tests.

#include <gtest/gtest.h>

#include "storage/objects/agents/common_secret.hpp"
#include "storage/objects/agents/shared_agents.hpp"
#include "storage/objects/directory_objects.hpp"
#include "storage/objects/encryption/encrypted_objects.hpp"
#include "tests/objects/slow_objects.hpp"
#include "tests/storage/agents/store_fixture.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::storage::tests {

using semantic::tests::temp_dir;

inline constexpr std::chrono::milliseconds patience{20'000};

/// A machine with a cache directory and a pool of its own, on a directory of objects.
struct machine {
    machine(const std::string& objects_path, const std::string& cache_path,
            kv_layout rows = small_layout(), file_system* object_files = nullptr,
            file_system* cache_files = nullptr, object_keys keys = {})
        : layout(std::move(rows)),
          pool(layout, layout.frame_bytes() * 1000),
          objects(std::move(*open_directory_objects(
              object_files != nullptr ? *object_files : posix_file_system(), objects_path))),
          path(cache_path) {
        if (!keys.empty()) objects = make_encrypted_objects(std::move(objects), std::move(keys));
        const auto agreed = agree_on_secret(*objects, posix_file_system(), path);
        EXPECT_TRUE(agreed) << agreed.error().what;
        store = std::move(*agent_cache_store::open(options_for(path, cache_files), pool));
        share();
    }
    void share_with(uploaded_blocks* hints) {
        blocks = hints;
        share();
    }
    void share(std::size_t pending_max = 100) {
        shared_agents_options options;
        options.directory = path;
        options.pending_max = pending_max;
        options.blocks = blocks;
        options.retry_min = std::chrono::milliseconds(5);
        options.pause = std::chrono::milliseconds(0);
        options.name_fork = [this](const agent_id& id) {
            static int number = 0;
            last_fork = "fork-" + std::to_string(++number) + "-of-" + id.str();
            return id_of(last_fork);
        };
        shared.reset();
        auto opened = shared_agents::open(*store, *objects, options);
        ASSERT_TRUE(opened) << opened.error().what;
        shared = std::move(*opened);
    }
    /// From then on.
    slow_objects& make_slow(std::chrono::milliseconds each) {
        shared.reset();
        auto slow = std::make_unique<slow_objects>(std::move(objects), each);
        slow_objects& made = *slow;
        objects = std::move(slow);
        share();
        return made;
    }
    void put(const std::string& id, const std::vector<token_id>& tokens) {
        store->put(make_state(pool, id, tokens));
        const auto saved = store->save(id_of(id));
        ASSERT_TRUE(saved) << saved.error().what;
        shared->note_saved(id_of(id));
    }
    freshness refresh(const std::string& id) {
        const auto found = shared->refresh(id_of(id));
        EXPECT_TRUE(found) << found.error().what;
        return found ? *found : freshness::absent;
    }
    bool fetch(const std::string& id) { return refresh(id) == freshness::fetched; }
    bool has(const std::string& id, const std::vector<token_id>& tokens) {
        return is_whole(*store, layout, id, tokens);
    }

    kv_layout layout;
    block_pool pool;
    std::unique_ptr<object_store> objects;
    const std::string path;
    uploaded_blocks* blocks = nullptr;
    std::string last_fork;  // named by the thread that refreshes
    std::unique_ptr<agent_cache_store> store;
    std::unique_ptr<shared_agents> shared;
};

}  // namespace semantic::storage::tests
