// SPDX-License-Identifier: Apache-2.0
#include "server/models/memory_plan.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "engine/model/config/model_config.hpp"
#include "engine/model/mixers/recurrent_mixer.hpp"
#include "engine/model/weights/weights.hpp"
#include "engine/scheduler/speculation/drafting.hpp"
#include "server/http/limits.hpp"
#include "server/models/client_memory.hpp"
#include "server/models/memory_limits.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::server {
namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20;
const memory_needs needs{1000 * mib, 100 * mib, 120 * mib, 80 * mib, 50 * mib};

TEST(memory_plan, what_is_left_is_the_pools) {
    const auto plan = plan_memory({2000 * mib, "the limit", false}, needs, 0);
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->pool, 650 * mib);
    EXPECT_EQ(to_text(*plan),
              "weights 1000 MiB + scratch 100 MiB + connections 120 MiB + clients 80 MiB + "
              "process 50 MiB + pool "
              "650 MiB = 2000 MiB of 2000 MiB, the limit");
}

TEST(memory_plan, two_servers_that_need_a_ninth_each_fit_a_machine_whichever_fills_its_pool) {
    const std::uint64_t machine = needs.sum() * 9;
    const auto plan_of = [](std::uint64_t available) {
        return plan_memory({available / 16 * 15, "the machine", true}, needs, 0);
    };
    const auto first = plan_of(machine);
    ASSERT_TRUE(first);
    EXPECT_EQ(first->pool, (machine / 16 * 15 - needs.sum()) / 2);
    // The second finds free what the first has planned and not yet used.
    const auto second = plan_of(machine - needs.sum());
    ASSERT_TRUE(second);
    EXPECT_LE(first->sum() + second->sum(), machine);
}

TEST(memory_plan, of_a_shared_machine_the_least_pool_is_taken_where_half_is_less) {
    const auto plan = plan_memory({needs.sum() + pool_bytes_least, "the machine", true}, needs, 0);
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->pool, pool_bytes_least);
}

TEST(memory_plan, a_pool_that_was_asked_for_fits_to_the_byte_and_not_one_more) {
    const memory_limit limit{2000 * mib, "the limit", true};
    EXPECT_EQ(plan_memory(limit, needs, 650 * mib)->pool, 650 * mib);
    EXPECT_EQ(plan_memory(limit, needs, 300 * mib)->pool, 300 * mib);
    EXPECT_EQ(plan_memory(limit, needs, 1)->pool, 1u) << "however small";
    const auto refused = plan_memory(limit, needs, 650 * mib + 1);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, storage::errc::out_of_space);
}

TEST(memory_plan, what_leaves_no_room_for_a_pool_is_refused_with_the_sum) {
    const std::uint64_t least = needs.sum() + pool_bytes_least;
    EXPECT_TRUE(plan_memory({least, "memory-limit-mb", false}, needs, 0));
    for (std::uint64_t bytes : {least - 1, std::uint64_t{5}}) {
        const auto refused = plan_memory({bytes, "memory-limit-mb", false}, needs, 0);
        ASSERT_FALSE(refused);
        EXPECT_NE(refused.error().what.find("+ pool 64 MiB = 1414 MiB of "), std::string::npos)
            << refused.error().what;
        EXPECT_NE(refused.error().what.find("memory-limit-mb"), std::string::npos);
    }
}

TEST(memory_plan, of_several_models_connections_and_the_process_count_once) {
    const memory_needs other{500 * mib, 30 * mib, 150 * mib, 20 * mib, 70 * mib};
    const memory_needs sum = together(needs, other);
    EXPECT_EQ(sum.weights, 1500 * mib);
    EXPECT_EQ(sum.scratch, 130 * mib);
    EXPECT_EQ(sum.connections, 150 * mib);
    EXPECT_EQ(sum.clients, 80 * mib);
    EXPECT_EQ(sum.process, 56 * mib) << "of the other what is its vocabulary's";
}

/// The least limit in MiB that suffices: what clients may have grows with it.
std::size_t least_limit_mb(config settings,
                           const std::function<std::uint64_t(const config&)>& sum) {
    settings.memory_limit_mb = 1;
    for (int i = 0; i < 100; ++i)
        settings.memory_limit_mb = static_cast<std::size_t>((sum(settings) + mib - 1) / mib);
    return settings.memory_limit_mb;
}

TEST(memory_plan, a_model_that_does_not_fit_beside_another_is_refused_with_the_sum_of_both) {
    const std::string tiny = SEMANTIC_SOURCE_DIR "/etc/models/semantic-tiny";
    config settings;
    settings.max_loaded = 2;
    settings.body_limit_mb = 1;
    settings.max_connections = 16;
    const std::uint64_t pool = 64 * mib;
    settings.memory_limit_mb = least_limit_mb(settings, [&](const config& with_limit) {
        const auto one = needs_of(tiny, with_limit);
        return together(*one, *one).sum() + pool;
    });
    EXPECT_TRUE(plan_for({tiny, settings}, {{tiny, settings}}, pool));
    settings.memory_limit_mb -= 1;
    EXPECT_TRUE(plan_for({tiny, settings}, {}, pool));
    const auto refused = plan_for({tiny, settings}, {{tiny, settings}}, pool);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, storage::errc::out_of_space);
    settings.memory_limit_mb = 2048;
    const auto first = plan_for({tiny, settings});
    ASSERT_TRUE(first);
    EXPECT_EQ(first->pool, (first->limit.bytes - needs_of(tiny, settings)->sum()) / 2)
        << "half is left to the models that come";
}

TEST(memory_plan, counts_weights_as_they_are_packed) {
    const std::string tiny = SEMANTIC_SOURCE_DIR "/etc/models/semantic-tiny";
    const auto model = engine::model_config::load(tiny);
    ASSERT_TRUE(model);
    for (const char* form : {"native", "q4"}) {
        config settings;
        settings.weights = form;
        const auto packed =
            engine::model_weights::check(tiny, *model, *engine::find_weight_form(form));
        ASSERT_TRUE(packed);
        EXPECT_EQ(needs_of(tiny, settings)->weights, packed->bytes) << form;
    }
}

TEST(memory_plan, weights_that_may_be_paged_need_not_fit_and_all_else_does) {
    const std::uint64_t rest = needs.sum() - needs.weights + pool_bytes_least;
    const auto whole = plan_memory({rest + needs.weights, "the limit", false}, needs, 0, true);
    EXPECT_EQ(whole->paged, 0u);
    const auto paged = plan_memory({rest + needs.weights - 1, "the limit", false}, needs, 0, true);
    EXPECT_EQ(paged->paged, 1u);
    EXPECT_EQ(paged->pool, pool_bytes_least);
    EXPECT_EQ(plan_memory({rest, "the limit", false}, needs, 0, true)->paged, needs.weights);
    EXPECT_FALSE(plan_memory({rest - 1, "the limit", false}, needs, 0, true));
    EXPECT_NE(to_text(*plan_memory({rest, "the limit", false}, needs, 0, true))
                  .find("1000 MiB of the weights do not fit"),
              std::string::npos);
}

TEST(memory_plan, a_refusal_says_with_what_the_model_would_fit) {
    const std::string tiny = SEMANTIC_SOURCE_DIR "/tests/golden/models/smollm2";
    config settings;
    settings.body_limit_mb = 1;
    settings.max_connections = 16;
    settings.memory_limit_mb =
        least_limit_mb(settings,
                       [&](const config& with_limit) {
                           return needs_of(tiny, with_limit)->sum() + pool_bytes_least;
                       }) -
        1;
    const auto refused = plan_for({tiny, settings});
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().what.find("--weights q8"), std::string::npos) << refused.error().what;
    EXPECT_NE(refused.error().what.find("--paged-weights on"), std::string::npos);
    settings.paged_weights = true;
    const auto paged = plan_for({tiny, settings});
    ASSERT_TRUE(paged) << paged.error().what;
    EXPECT_GT(paged->paged, 0u);
    settings.weights_access = "read";
    EXPECT_FALSE(plan_for({tiny, settings})) << "a copy cannot be paged";
    settings.memory_limit_mb = 1;
    const auto never = plan_for({tiny, settings});
    ASSERT_FALSE(never);
    EXPECT_EQ(never.error().what.find("would fit"), std::string::npos) << never.error().what;
}

TEST(memory_plan, counts_what_clients_may_have_where_there_are_any) {
    const std::string tiny = SEMANTIC_SOURCE_DIR "/etc/models/semantic-tiny";
    config settings;
    settings.memory_limit_mb = 960;
    settings.max_batch = 10;
    settings.speculation = false;
    const auto clients = client_memory::choose(find_memory_limit(960 * mib).bytes, settings);
    EXPECT_EQ(needs_of(tiny, settings)->clients,
              clients.kept_bytes() + 10 * clients.kept_form_bytes + 2 * clients.request_bytes);
    settings.max_connections = 0;
    EXPECT_EQ(needs_of(tiny, settings)->clients, 0u) << "a program that takes no connections";
    EXPECT_EQ(needs_of(tiny, settings)->connections, 0u);
}

TEST(memory_plan, a_small_model_fits_400_mib_with_the_usual_settings) {
    config settings;
    settings.memory_limit_mb = 400;
    const auto plan = plan_for({SEMANTIC_SOURCE_DIR "/etc/models/semantic-tiny", settings});
    ASSERT_TRUE(plan) << plan.error().what;
    EXPECT_LE(plan->sum(), 400 * mib);
    EXPECT_GE(plan->pool, pool_bytes_least);
}

TEST(memory_plan, counts_what_running_answers_keep_for_drafts) {
    const std::string tiny = SEMANTIC_SOURCE_DIR "/etc/models/semantic-tiny";
    config settings;
    settings.max_batch = 10;
    settings.context_tokens = 1000;
    settings.speculation = false;
    const std::uint64_t without = needs_of(tiny, settings)->clients;
    settings.speculation = true;
    EXPECT_EQ(needs_of(tiny, settings)->clients, without + 10 * engine::drafting::bytes_max(1000));
    settings.context_tokens = 1001;
    EXPECT_EQ(needs_of(tiny, settings)->clients, without + 10 * engine::drafting::bytes_max(1001));
}

TEST(memory_plan, counts_what_is_recorded_of_recurrent_layers_for_drafts) {
    for (const bool is_recurrent : {false, true}) {
        const std::string model = std::string(SEMANTIC_SOURCE_DIR "/etc/models/semantic-tiny") +
                                  (is_recurrent ? "-recurrent" : "");
        config settings;
        const std::uint64_t drafting = needs_of(model, settings)->scratch;
        settings.speculation = false;
        const auto shape = engine::model_config::load(model);
        ASSERT_TRUE(shape);
        const std::uint64_t logits =
            4 * engine::draft_tokens_most * static_cast<std::uint64_t>(shape->vocabulary);
        const std::uint64_t records = engine::recurrent_mixer::record_bytes(
            *shape, engine::draft_rows_max(engine::draft_rule::where_faster));
        EXPECT_EQ(records > 0, is_recurrent);
        EXPECT_EQ(drafting, needs_of(model, settings)->scratch + logits + records);
    }
}

TEST(memory_plan, counts_as_many_bodies_as_are_read_at_once) {
    config settings;
    settings.body_limit_mb = 32;
    settings.max_connections = 16;
    const auto known = needs_of(SEMANTIC_SOURCE_DIR "/etc/models/semantic-tiny", settings);
    ASSERT_TRUE(known) << known.error().what;
    const auto clients = client_memory::choose(find_memory_limit(0).bytes, settings);
    EXPECT_EQ(known->connections, clients.body_bytes + 16 * 80 * 1024);
    EXPECT_LE(clients.body_bytes, http_limits().bodies_at_once * 32 * mib);
    EXPECT_GT(known->weights, 5 * mib);
    EXPECT_LT(known->weights, 20 * mib);
    EXPECT_GT(known->scratch, mib);
}

TEST(memory_plan, a_model_whose_configuration_is_not_there_is_told) {
    EXPECT_FALSE(needs_of("/nowhere/model", {}));
}

class cgroup_limit : public ::testing::Test {
  protected:
    void write(const std::string& path, const std::string& text) {
        const std::filesystem::path file(root_.path() + path);
        std::filesystem::create_directories(file.parent_path());
        std::ofstream(file) << text;
    }
    std::optional<std::uint64_t> limit(const std::string& groups) {
        return cgroup_memory_limit(root_.path(), groups, own_);
    }
    std::uint64_t own_ = 0;
    tests::temp_dir root_;
};

TEST_F(cgroup_limit, of_version_2_is_the_smallest_from_the_group_up) {
    write("/a/b/memory.max", "max\n");
    write("/a/memory.max", "3000\n");
    EXPECT_EQ(limit("0::/a/b\n"), 3000u);
    write("/a/b/memory.max", "2000\n");
    EXPECT_EQ(limit("0::/a/b\n"), 2000u);
    EXPECT_EQ(limit("0::/other\n"), std::nullopt);
}

TEST_F(cgroup_limit, of_version_1_is_its_own_controllers) {
    write("/memory/a/memory.limit_in_bytes", "4096\n");
    write("/memory/memory.limit_in_bytes", "9223372036854771712\n");
    EXPECT_EQ(limit("5:cpu:/x\n4:memory:/a\n0::/\n"), 4096u);
    EXPECT_EQ(limit("4:memory:/\n"), std::nullopt);
}

TEST_F(cgroup_limit, of_a_container_is_the_mounted_roots) {
    write("/memory.max", "5000\n");
    EXPECT_EQ(limit("0::/not/seen/from/here\n"), 5000u);
    EXPECT_EQ(limit("nonsense\n\n:\n"), std::nullopt);
}

TEST_F(cgroup_limit, leaves_others_of_the_group_what_they_have) {
    write("/a/memory.max", "5000\n");
    write("/a/memory.stat", "file 4000\nanon 1700\nanon_thp 9000\n");
    own_ = 700;
    EXPECT_EQ(limit("0::/a\n"), 4000u) << "what is this process's own is not theirs";
    own_ = 2000;
    EXPECT_EQ(limit("0::/a\n"), 5000u);
    own_ = 0;
    write("/memory/b/memory.limit_in_bytes", "1000\n");
    write("/memory/b/memory.stat", "rss 7\ntotal_rss_huge 1\ntotal_rss 400\n");
    EXPECT_EQ(limit("4:memory:/b\n"), 600u);
    write("/memory/b/memory.stat", "total_rss 1400\n");
    EXPECT_EQ(limit("4:memory:/b\n"), 0u);
}

TEST(memory_limit, is_the_operators_where_that_is_the_smallest) {
    const memory_limit own = find_memory_limit(1000);
    EXPECT_EQ(own.bytes, 1000u);
    EXPECT_EQ(own.name, "memory-limit-mb");
    EXPECT_GT(find_memory_limit(0).bytes, 100 * mib);
    EXPECT_GT(own_memory(), mib);
}

}  // namespace
}  // namespace semantic::server
