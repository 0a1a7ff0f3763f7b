// SPDX-License-Identifier: Apache-2.0
#include "server/models/client_memory.hpp"

#include <gtest/gtest.h>

#include "engine/grammar/output_constraint.hpp"
#include "server/http/limits.hpp"
#include "storage/types/work_budget.hpp"

namespace semantic::server {
namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20;

client_memory choose(std::uint64_t limit_mib) {
    return client_memory::choose(limit_mib * mib, config{});
}

TEST(client_memory, of_a_server_without_a_limit_is_as_large_as_it_gets) {
    const client_memory all = choose(0);
    EXPECT_EQ(all.sessions.all_bytes, 256 * mib);
    EXPECT_EQ(all.sessions.tenant_bytes, 64 * mib);
    EXPECT_EQ(all.response_bytes, 64 * mib);
    EXPECT_EQ(all.runs.all_bytes, 128 * mib);
    EXPECT_EQ(all.background.request_bytes, 64 * mib);
    EXPECT_EQ(all.kept_bytes(), 704 * mib);
    for (const std::uint64_t limit : {std::uint64_t{0}, std::uint64_t{100'000}}) {
        const client_memory same = choose(limit);
        EXPECT_EQ(same.kept_bytes(), 704 * mib);
        EXPECT_EQ(same.connections, config{}.max_connections);
        EXPECT_EQ(same.body_bytes, http_limits().bodies_at_once * 32 * mib);
        EXPECT_EQ(same.request_bytes, storage::work_budget::bytes_default);
        EXPECT_EQ(same.kept_form_bytes, engine::output_constraint::kept_automaton_bytes_max);
    }
}

TEST(client_memory, is_a_quarter_of_a_small_limit_at_most) {
    for (const std::uint64_t limit : {800, 1000, 2000})
        EXPECT_LE(choose(limit).kept_bytes(), limit * mib / 4) << limit;
    EXPECT_EQ(choose(960).sessions.all_bytes, 80 * mib);
    EXPECT_EQ(choose(960).response_bytes, 20 * mib);
}

TEST(client_memory, leaves_one_client_room_however_small_the_limit_is) {
    const client_memory least = client_memory::choose(1, config{});
    EXPECT_EQ(least.kept_bytes(), 84 * mib);
    EXPECT_GE(least.runs.tenant_bytes, run_request_bytes_max);
    EXPECT_GE(least.background.request_bytes_of_tenant, 16 * mib);
    EXPECT_EQ(least.body_bytes, 32 * mib) << "one body";
    EXPECT_EQ(least.connections, 16u);
    EXPECT_EQ(least.request_bytes, 16 * mib);
    EXPECT_EQ(least.kept_form_bytes, mib);
}

TEST(client_memory, is_never_more_than_the_settings_ask_for) {
    config settings;
    settings.max_connections = 8;
    settings.body_limit_mb = 1;
    for (const std::uint64_t limit : {std::uint64_t{0}, std::uint64_t{1}, 400 * mib, 8000 * mib}) {
        const client_memory chosen = client_memory::choose(limit, settings);
        EXPECT_EQ(chosen.connections, 8u) << limit;
        EXPECT_LE(chosen.body_bytes, 4 * mib) << limit;
        EXPECT_GE(chosen.body_bytes, mib) << limit;
    }
}

TEST(client_memory, grows_with_the_limit) {
    client_memory before = choose(1);
    for (std::uint64_t limit = 50; limit <= 8000; limit += 50) {
        const client_memory more = choose(limit);
        EXPECT_GE(more.kept_bytes(), before.kept_bytes()) << limit;
        EXPECT_GE(more.connection_bytes(), before.connection_bytes()) << limit;
        EXPECT_GE(more.form_bytes(16), before.form_bytes(16)) << limit;
        before = more;
    }
}

}  // namespace
}  // namespace semantic::server
