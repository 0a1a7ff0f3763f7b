// SPDX-License-Identifier: Apache-2.0
// Recurrent states on their way through an object store: as blocks, and a lost one costs its place
// only.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "storage/disk/block_format.hpp"
#include "storage/objects/agents/object_sweep.hpp"
#include "storage/objects/encryption/object_keys.hpp"
#include "tests/objects/machine.hpp"

namespace semantic::storage {
namespace {

using namespace std::chrono_literals;
using namespace tests;

std::string object_of(const std::vector<token_id>& tokens, int place) {
    return block_path(kept_name(tokens, place), kv_part::state);
}

std::size_t count_states(object_store& objects) {
    const auto page = objects.list("blocks/", "", object_page_max);
    return static_cast<std::size_t>(std::ranges::count_if(page->objects, [](const auto& each) {
        return each.name.find(".state.") != std::string::npos;
    }));
}

TEST(shared_states, another_machine_goes_on_from_each_place) {
    temp_dir objects, first, second;
    const auto tokens = some_tokens(30);
    machine a(objects.path(), first.path(), recurrent_layout());
    machine b(objects.path(), second.path(), recurrent_layout());
    a.put("ada", tokens);
    ASSERT_TRUE(a.shared->wait_until_idle(patience));
    EXPECT_EQ(count_states(*a.objects), kept_places(30).size());
    ASSERT_TRUE(b.fetch("ada"));
    EXPECT_TRUE(b.has("ada", tokens));
    for (const int place : kept_places(30)) {
        const auto restored = b.store->restore(*b.store->find(id_of("ada")), place);
        ASSERT_TRUE(restored);
        EXPECT_EQ(restored->tokens, place);
        EXPECT_TRUE(kept_holds(b.layout, restored->state, tokens, place)) << place;
    }
}

TEST(shared_states, a_turn_uploads_its_own_states_alone) {
    temp_dir objects, first;
    machine a(objects.path(), first.path(), recurrent_layout());
    const auto tokens = some_tokens(4 * block_tokens);
    a.put("ada", tokens);
    ASSERT_TRUE(a.shared->wait_until_idle(patience));
    const auto before = a.shared->counts().blocks_uploaded;
    EXPECT_EQ(before, 4U + kept_places(4 * block_tokens).size());
    // A fork has the same states under the same names.
    ASSERT_TRUE(a.store->fork(id_of("ada"), id_of("eve")));
    a.shared->note_saved(id_of("eve"));
    ASSERT_TRUE(a.shared->wait_until_idle(patience));
    EXPECT_EQ(a.shared->counts().blocks_uploaded, before);
}

TEST(shared_states, one_that_the_objects_lost_costs_its_place_only) {
    temp_dir objects, first, second;
    const auto tokens = some_tokens(30);
    machine a(objects.path(), first.path(), recurrent_layout());
    a.put("ada", tokens);
    ASSERT_TRUE(a.shared->wait_until_idle(patience));
    ASSERT_TRUE(a.objects->remove(object_of(tokens, 30)));
    machine b(objects.path(), second.path(), recurrent_layout());
    ASSERT_TRUE(b.fetch("ada"));
    const auto restored = b.store->restore(*b.store->find(id_of("ada")), 30);
    ASSERT_TRUE(restored);
    const int lower = *(kept_places(30).end() - 2);
    EXPECT_EQ(restored->tokens, lower);
    EXPECT_EQ(restored->why, shortfall::evicted);
    EXPECT_TRUE(kept_holds(b.layout, restored->state, tokens, lower));
    EXPECT_EQ(b.store->probe().states_missing.load(), 1U);
}

TEST(shared_states, are_swept_when_no_memory_has_had_them_for_the_grace_period) {
    temp_dir objects, first, second;
    const auto tokens = some_tokens(30), other = some_tokens(20, 9);
    machine a(objects.path(), first.path(), recurrent_layout());
    a.put("ada", tokens);
    a.put("eve", other);
    ASSERT_TRUE(a.shared->wait_until_idle(patience));
    ASSERT_TRUE(a.store->erase(id_of("eve")));
    ASSERT_TRUE(a.shared->forget(id_of("eve")));
    sweep_options options;
    options.grace = 24h;
    options.now = std::chrono::system_clock::time_point(1'800'000'000s);
    ASSERT_TRUE(sweep_objects(*a.objects, options));
    EXPECT_EQ(count_states(*a.objects), kept_places(30).size() + kept_places(20).size());
    options.now += 24h;
    ASSERT_TRUE(sweep_objects(*a.objects, options));
    EXPECT_EQ(count_states(*a.objects), kept_places(30).size());
    machine b(objects.path(), second.path(), recurrent_layout());
    ASSERT_TRUE(b.fetch("ada"));
    EXPECT_TRUE(b.has("ada", tokens));
}

/// Machines whose objects leave encrypted, and the store below the encryption.
class encrypted_states : public testing::Test {
  protected:
    static object_keys key_of(char each) { return {std::string(object_key_bytes, each)}; }
    machine open(const temp_dir& cache, char key) {
        return {objects_.path(), cache.path(), recurrent_layout(), nullptr, nullptr, key_of(key)};
    }
    std::unique_ptr<object_store> open_plain() {
        return std::move(*open_directory_objects(posix_file_system(), objects_.path()));
    }
    void save(machine& at) {
        at.put("ada", tokens_);
        ASSERT_TRUE(at.shared->wait_until_idle(patience));
    }

    const temp_dir objects_, first_, second_;
    const std::vector<token_id> tokens_ = some_tokens(30);
};

TEST_F(encrypted_states, show_nothing_of_themselves_and_restore_where_the_key_is) {
    machine a = open(first_, 'a');
    save(a);
    const auto plain = open_plain();
    for (const int place : kept_places(30)) {
        std::string sealed, contents;
        ASSERT_TRUE(plain->get(object_of(tokens_, place), sealed));
        ASSERT_TRUE(a.objects->get(object_of(tokens_, place), contents));
        const auto kept = make_kept(a.pool, tokens_, place);
        const std::string state(reinterpret_cast<const char*>(kept->bytes().data()),
                                a.layout.state_bytes());
        EXPECT_NE(contents.find(state), std::string::npos) << place;
        // No run of 16 bytes of the state, nor of the header before it, is in what left.
        for (std::size_t at = 0; at + 16 <= contents.size(); at += 16)
            ASSERT_EQ(sealed.find(contents.substr(at, 16)), std::string::npos) << place;
        for (std::size_t at = 0; at + 16 <= state.size(); ++at)
            ASSERT_EQ(sealed.find(state.substr(at, 16)), std::string::npos) << place;
    }
    machine b = open(second_, 'a');
    ASSERT_TRUE(b.fetch("ada"));
    for (const int place : kept_places(30)) {
        const auto restored = b.store->restore(*b.store->find(id_of("ada")), place);
        ASSERT_TRUE(restored);
        EXPECT_TRUE(kept_holds(b.layout, restored->state, tokens_, place)) << place;
    }
}

TEST_F(encrypted_states, of_another_key_are_a_miss_that_names_the_key) {
    machine a = open(first_, 'a');
    save(a);
    // One state alone is sealed with a key that this machine has not got.
    std::string contents;
    ASSERT_TRUE(a.objects->get(object_of(tokens_, 30), contents));
    const auto other = make_encrypted_objects(open_plain(), key_of('b'));
    ASSERT_TRUE(other->put(object_of(tokens_, 30), contents, always()));
    machine b = open(second_, 'a');
    const auto found = b.shared->refresh(id_of("ada"));
    ASSERT_FALSE(found);
    EXPECT_NE(found.error().what.find("key"), std::string::npos) << found.error().what;
    EXPECT_EQ(b.store->find(id_of("ada")), nullptr);
    // What the first machine has itself is none the worse.
    EXPECT_TRUE(a.has("ada", tokens_));
}

TEST_F(encrypted_states, one_with_a_changed_bit_is_a_miss_and_never_used) {
    machine a = open(first_, 'a');
    save(a);
    const auto plain = open_plain();
    std::string sealed;
    ASSERT_TRUE(plain->get(object_of(tokens_, 30), sealed));
    sealed[sealed.size() / 2] = static_cast<char>(sealed[sealed.size() / 2] ^ 1);
    ASSERT_TRUE(plain->put(object_of(tokens_, 30), sealed, always()));
    machine b = open(second_, 'a');
    const auto found = b.shared->refresh(id_of("ada"));
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().code, object_errc::corrupt) << found.error().what;
    EXPECT_EQ(b.store->find(id_of("ada")), nullptr);
}

}  // namespace
}  // namespace semantic::storage
