// SPDX-License-Identifier: Apache-2.0
#include "storage/objects/agents/object_sweep.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>

#include "storage/objects/directory_objects.hpp"
#include "tests/objects/machine.hpp"

namespace semantic::storage {
namespace {

using namespace std::chrono_literals;
using namespace tests;

const std::chrono::system_clock::time_point start{1'800'000'000s};

sweep_options at(std::chrono::seconds since, std::chrono::seconds grace = 24h) {
    sweep_options options;
    options.now = start + since;
    options.grace = grace;
    options.tombstone_grace = 90 * 24h;
    return options;
}

sweep_report swept(object_store& objects, const sweep_options& options) {
    const auto report = sweep_objects(objects, options);
    EXPECT_TRUE(report) << report.error().what;
    return report ? *report : sweep_report{};
}

std::size_t count_of(object_store& objects, const std::string& prefix) {
    return objects.list(prefix, "", object_page_max)->objects.size();
}

/// Passes everything on, and runs `before` in front of each operation, which may fail instead.
class watched_objects final : public object_store {
  public:
    using before_each = std::function<object_result<void>(const std::string& request)>;
    watched_objects(object_store& inner, before_each before)
        : inner_(inner), before_(std::move(before)) {}
    object_result<object_info> get(const std::string& name, std::string& bytes) override {
        if (auto ok = before_("get " + name); !ok) return ok.error();
        return inner_.get(name, bytes);
    }
    object_result<object_info> get_range(const std::string& name, std::uint64_t offset,
                                         std::span<std::byte> target) override {
        return inner_.get_range(name, offset, target);
    }
    object_result<std::string> put(const std::string& name, std::string_view bytes,
                                   const put_condition& condition) override {
        if (auto ok = before_("put " + name); !ok) return ok.error();
        return inner_.put(name, bytes, condition);
    }
    object_result<std::vector<std::optional<object_info>>> stat(
        std::span<const std::string> names) override {
        return inner_.stat(names);
    }
    object_result<void> remove(const std::string& name) override {
        if (auto ok = before_("remove " + name); !ok) return ok.error();
        return inner_.remove(name);
    }
    object_result<object_page> list(const std::string& prefix, const std::string& from,
                                    std::size_t count_max) override {
        if (auto ok = before_("list " + prefix); !ok) return ok.error();
        return inner_.list(prefix, from, count_max);
    }

  private:
    object_store& inner_;
    before_each before_;
};

TEST(object_sweep, a_block_goes_when_nobody_has_needed_it_for_the_grace_period) {
    temp_dir objects, first;
    machine a(objects.path(), first.path());
    a.put("ada", some_tokens(3 * block_tokens));
    a.put("eve", some_tokens(2 * block_tokens, 9));
    ASSERT_TRUE(a.shared->wait_until_idle(patience));
    ASSERT_TRUE(a.store->erase(id_of("eve")));
    ASSERT_TRUE(a.shared->forget(id_of("eve")));
    EXPECT_EQ(swept(*a.objects, at(0s)).unneeded, 3U) << "two blocks and a tombstone";
    EXPECT_EQ(swept(*a.objects, at(24h - 1s)).removed, 0U);
    EXPECT_EQ(count_of(*a.objects, "blocks/"), 5U);
    sweep_options looking = at(24h);
    looking.only_looks = true;
    EXPECT_EQ(swept(*a.objects, looking).removed, 2U);
    EXPECT_EQ(count_of(*a.objects, "blocks/"), 5U);
    EXPECT_EQ(swept(*a.objects, at(24h)).removed, 2U);
    EXPECT_EQ(count_of(*a.objects, "blocks/"), 3U);
    EXPECT_EQ(count_of(*a.objects, "agents/"), 2U);
    EXPECT_EQ(swept(*a.objects, at(90 * 24h - 1s)).removed, 0U);
    EXPECT_EQ(swept(*a.objects, at(90 * 24h)).removed, 1U);
    EXPECT_EQ(count_of(*a.objects, "agents/"), 1U);
    temp_dir second;
    machine b(objects.path(), second.path());
    ASSERT_TRUE(b.fetch("ada"));
    EXPECT_TRUE(b.has("ada", some_tokens(3 * block_tokens)));
}

TEST(object_sweep, a_block_that_is_needed_again_begins_its_grace_period_anew) {
    temp_dir objects, first;
    machine a(objects.path(), first.path());
    const auto erase = [&] {
        ASSERT_TRUE(a.shared->wait_until_idle(patience));
        ASSERT_TRUE(a.store->erase(id_of("ada")));
        ASSERT_TRUE(a.shared->forget(id_of("ada")));
    };
    a.put("ada", some_tokens(block_tokens));
    erase();
    swept(*a.objects, at(0s));
    a.put("ada", some_tokens(block_tokens));
    ASSERT_TRUE(a.shared->wait_until_idle(patience));
    EXPECT_EQ(swept(*a.objects, at(24h)).removed, 0U);
    erase();
    EXPECT_EQ(swept(*a.objects, at(25h)).removed, 0U);
    EXPECT_EQ(swept(*a.objects, at(49h)).removed, 1U);
}

TEST(object_sweep, nothing_goes_while_a_manifest_cannot_be_read) {
    temp_dir objects, first;
    machine a(objects.path(), first.path());
    a.put("ada", some_tokens(block_tokens));
    ASSERT_TRUE(a.shared->wait_until_idle(patience));
    ASSERT_TRUE(a.objects->put(a.store->manifest_of(id_of("ada")), "rubbish", always()));
    EXPECT_EQ(swept(*a.objects, at(0s)).unreadable, 1U);
    EXPECT_EQ(swept(*a.objects, at(100h)).removed, 0U);
    EXPECT_EQ(count_of(*a.objects, "blocks/"), 1U);
}

TEST(object_sweep, one_that_dies_at_any_step_is_finished_by_a_later_one) {
    bool has_ended = false;
    for (int steps = 0; !has_ended; ++steps) {
        temp_dir objects, first, second;
        machine a(objects.path(), first.path());
        a.put("ada", some_tokens(3 * block_tokens));
        a.put("eve", some_tokens(3 * block_tokens, 9));
        ASSERT_TRUE(a.shared->wait_until_idle(patience));
        ASSERT_TRUE(a.store->erase(id_of("eve")));
        ASSERT_TRUE(a.shared->forget(id_of("eve")));
        swept(*a.objects, at(0s));
        int left = steps;
        watched_objects dying(*a.objects, [&](const std::string&) -> object_result<void> {
            if (left-- > 0) return {};
            return object_failure{object_errc::unavailable, "dead"};
        });
        has_ended = sweep_objects(dying, at(24h)).has_value();
        // A writer that needs one of those that are going gets them all the same, in the end.
        a.put("eve", some_tokens(3 * block_tokens, 9));
        if (!a.shared->wait_until_idle(300ms)) {
            EXPECT_FALSE(sweep_objects(*a.objects, at(24h + 1s))) << "it may live yet";
            swept(*a.objects, at(26h));
            ASSERT_TRUE(a.shared->wait_until_idle(patience)) << steps;
        }
        swept(*a.objects, at(100h));
        machine b(objects.path(), second.path());
        ASSERT_TRUE(b.fetch("ada")) << steps;
        ASSERT_TRUE(b.fetch("eve")) << steps;
        EXPECT_TRUE(b.has("ada", some_tokens(3 * block_tokens))) << steps;
        EXPECT_TRUE(b.has("eve", some_tokens(3 * block_tokens, 9))) << steps;
    }
}

TEST(object_sweep, a_slow_one_is_alive_as_long_as_it_speaks) {
    temp_dir objects, first;
    machine a(objects.path(), first.path());
    a.put("ada", some_tokens(block_tokens));
    ASSERT_TRUE(a.shared->wait_until_idle(patience));
    watched_objects slow(*a.objects, [](const std::string& request) -> object_result<void> {
        if (request == "list blocks/") std::this_thread::sleep_for(1100ms);
        return {};
    });
    swept(slow, at(0s));
    const auto notice = read_sweep_notice(*a.objects);
    ASSERT_TRUE(notice);
    EXPECT_GE(notice->notice.began, (start + 1s).time_since_epoch() / 1s);
}

TEST(object_sweep, of_two_at_once_one_is_refused) {
    temp_dir objects, first;
    machine a(objects.path(), first.path());
    a.put("ada", some_tokens(block_tokens));
    ASSERT_TRUE(a.shared->wait_until_idle(patience));
    bool is_inside = false;
    watched_objects outer(*a.objects, [&](const std::string& request) -> object_result<void> {
        if (request != "put sweep" || is_inside) return {};
        is_inside = true;
        swept(*a.objects, at(0s));
        return {};
    });
    const auto refused = sweep_objects(outer, at(0s));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, object_errc::precondition_failed);
}

TEST(object_sweep, what_a_writer_needs_again_while_it_goes_is_there_in_the_end) {
    temp_dir objects, first, second;
    machine a(objects.path(), first.path());
    const auto tokens = some_tokens(2 * block_tokens);
    a.put("ada", tokens);
    ASSERT_TRUE(a.shared->wait_until_idle(patience));
    ASSERT_TRUE(a.store->erase(id_of("ada")));
    ASSERT_TRUE(a.shared->forget(id_of("ada")));
    swept(*a.objects, at(0s));
    // The agent comes back in front of the first removal, when the manifests have been read.
    bool has_come = false;
    watched_objects removing(*a.objects, [&](const std::string& request) -> object_result<void> {
        if (!request.starts_with("remove") || has_come) return {};
        has_come = true;
        a.put("ada", tokens);
        EXPECT_FALSE(a.shared->wait_until_idle(100ms)) << "a block that goes is not relied on";
        return {};
    });
    EXPECT_EQ(swept(removing, at(24h)).removed, 2U);
    ASSERT_TRUE(has_come);
    ASSERT_TRUE(a.shared->wait_until_idle(patience));
    machine b(objects.path(), second.path());
    ASSERT_TRUE(b.fetch("ada"));
    EXPECT_TRUE(b.has("ada", tokens));
}

TEST(object_sweep, writers_and_sweeps_side_by_side_lose_nothing) {
    temp_dir objects, first, second, third;
    machine a(objects.path(), first.path()), b(objects.path(), second.path());
    std::atomic<bool> is_over{false};
    std::thread sweeper([&] {
        for (int i = 0; !is_over; ++i) (void)sweep_objects(*a.objects, at(i * 2h, 0s));
    });
    const auto agent = [](int i) { return "agent-" + std::to_string(i); };
    const auto churn = [&](machine& node, int from) {
        for (int round = 0; round < 20; ++round)
            for (int i = from; i < from + 4; ++i) {
                node.put(agent(i), some_tokens(2 * block_tokens, round % 3));
                if (round % 2 == 0 || round == 19) continue;
                EXPECT_TRUE(node.store->erase(id_of(agent(i))));
                while (!node.shared->forget(id_of(agent(i)))) std::this_thread::yield();
            }
    };
    std::thread other([&] { churn(b, 4); });
    churn(a, 0);
    other.join();
    is_over = true;
    sweeper.join();
    (void)sweep_objects(*a.objects, at(24h * 1000, 0s));  // objects that one of them has left
    ASSERT_TRUE(a.shared->wait_until_idle(patience));
    ASSERT_TRUE(b.shared->wait_until_idle(patience));
    swept(*a.objects, at(24h * 2000, 0s));
    machine c(objects.path(), third.path());
    for (int i = 0; i < 8; ++i) {
        ASSERT_TRUE(c.fetch(agent(i))) << i;
        EXPECT_TRUE(c.has(agent(i), some_tokens(2 * block_tokens, 19 % 3))) << i;
    }
}

TEST(sweep_notice, is_read_as_it_was_written_and_refused_when_damaged) {
    const sweep_notice notice{1'800'000'000, {"blocks/a", "blocks/b"}, {{"blocks/a", -5}}};
    const std::string bytes = encode_sweep_notice(notice);
    const auto read = decode_sweep_notice(bytes);
    ASSERT_TRUE(read);
    EXPECT_EQ(read->began, notice.began);
    EXPECT_EQ(read->going, notice.going);
    EXPECT_EQ(read->unneeded, notice.unneeded);
    for (std::size_t cut = 0; cut < bytes.size(); ++cut)
        EXPECT_FALSE(decode_sweep_notice(bytes.substr(0, cut))) << cut;
    EXPECT_FALSE(decode_sweep_notice(bytes + "x"));
    EXPECT_FALSE(decode_sweep_notice("semantic-sweep 1 5\ngoing ../x\nend\n"));
    EXPECT_FALSE(decode_sweep_notice("semantic-sweep 2 5\nend\n"));
}

}  // namespace
}  // namespace semantic::storage
