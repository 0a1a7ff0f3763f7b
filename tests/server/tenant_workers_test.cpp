// SPDX-License-Identifier: Apache-2.0
// Threads for long work: fair between tenants.

#include "server/workers/tenant_workers.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <latch>
#include <sys/resource.h>

#include "server/runtime/workers.hpp"
#include "tests/server/test_server.hpp"

namespace semantic::server {
namespace {

using namespace std::chrono_literals;
using tests::http_client;
using tests::http_reply;
using tests::post;

TEST(tenant_workers, threads_of_long_jobs_leave_the_processor_to_others) {
    const int own = getpriority(PRIO_PROCESS, 0);
    for (const int niceness : {0, 10}) {
        tenant_workers workers(2, 1, niceness);
        std::promise<int> seen;
        net::post(workers.get_executor("any"),
                  [&] { seen.set_value(getpriority(PRIO_PROCESS, 0)); });
        EXPECT_EQ(seen.get_future().get(), niceness == 0 ? own : niceness);
    }
    EXPECT_EQ(getpriority(PRIO_PROCESS, 0), own) << "of this thread";
}

TEST(tenant_workers, one_tenants_long_jobs_hold_up_no_other_tenants) {
    tenant_workers workers(3, 2);
    std::latch may_end(1);
    std::atomic<int> begun{0}, done{0};
    for (int i = 0; i < 20; ++i)
        net::post(workers.get_executor("greedy"), [&] {
            ++begun;
            may_end.wait();
            ++done;
        });
    for (int i = 0; i < 10; ++i) {
        std::promise<void> here;
        net::post(workers.get_executor("other" + std::to_string(i)), [&] { here.set_value(); });
        ASSERT_EQ(here.get_future().wait_for(5s), std::future_status::ready) << i;
    }
    EXPECT_EQ(begun, 2) << "as many threads as one tenant may have";
    EXPECT_EQ(done, 0);
    may_end.count_down();
    workers.join();
    EXPECT_EQ(done, 20);
}

TEST(tenant_workers, tenants_that_wait_are_served_in_turn) {
    tenant_workers workers(1, 1);
    std::latch may_begin(1);
    std::mutex mutex;
    std::string order;
    net::post(workers.get_executor("first"), [&] { may_begin.wait(); });
    const auto ask = [&](const std::string& tenant, int jobs) {
        for (int i = 0; i < jobs; ++i)
            net::post(workers.get_executor(tenant), [&, tenant] {
                std::lock_guard lock(mutex);
                order += tenant;
            });
    };
    ask("a", 4);
    ask("b", 2);
    ask("c", 1);
    may_begin.count_down();
    workers.join();
    EXPECT_EQ(order, "abcabaa");
}

TEST(tenant_workers, what_has_not_begun_is_dropped_at_the_end) {
    auto held = std::make_shared<int>(0);
    std::atomic<int> done{0};
    std::latch may_end(1);
    std::thread ends;
    {
        tenant_workers workers(1, 1);
        std::promise<void> begun;
        net::post(workers.get_executor("a"), [&] {
            begun.set_value();
            may_end.wait();
            ++done;
        });
        begun.get_future().wait();
        for (int i = 0; i < 5; ++i) net::post(workers.get_executor("a"), [&done, held] { ++done; });
        ends = std::thread([&] {
            std::this_thread::sleep_for(20ms);
            may_end.count_down();
        });
        // The destructor begins while the first job runs.
    }
    ends.join();
    EXPECT_GE(done, 1);
    EXPECT_EQ(held.use_count(), 1);
}

TEST(run_on, work_whose_client_left_before_it_began_is_not_done) {
    tenant_workers workers(1, 1);
    net::io_context context;
    const auto gone = std::make_shared<std::atomic<bool>>(false);
    std::atomic<int> done{0};
    int abandoned = 0;
    const auto ask = [&]() -> net::awaitable<void> {
        auto work = [&] { return ++done; };
        try {
            co_await run_on(workers.get_executor("a"), work, gone);
        } catch (const work_abandoned&) {
            ++abandoned;
        }
    };
    net::co_spawn(context, ask(), [](std::exception_ptr) {});
    context.run();
    EXPECT_EQ(done, 1);
    context.restart();
    std::latch may_end(1);
    net::post(workers.get_executor("a"), [&] { may_end.wait(); });
    net::co_spawn(context, ask(), [](std::exception_ptr) {});
    std::thread serving([&] { context.run(); });
    std::this_thread::sleep_for(20ms);
    gone->store(true);
    may_end.count_down();
    serving.join();
    EXPECT_EQ(done, 1);
    EXPECT_EQ(abandoned, 1);
}

/// A server with two keys whose jobs wait for the test.
class two_tenants : public ::testing::Test {
  protected:
    two_tenants() {
        app_options options = test_server::default_options();
        options.settings.api_keys = {"k1", "k2"};
        server_.emplace(std::move(options));
        server_->ready();
        server_->engine().on_submit = tests::answer_with({"x"});
    }
    ~two_tenants() override { end_jobs(); }
    /// Of all who are asked.
    void hold_jobs() {
        server_->engine().on_count = [this](const engine::conversation& chat) {
            const bool waits = chat.messages.size() == 1;
            ++counting_;
            if (waits) may_end_.wait();
            return storage::result<int>(7);
        };
    }
    void end_jobs() {
        if (!has_ended_) may_end_.count_down();
        has_ended_ = true;
    }
    static std::string count(const std::string& key, const std::string& text, bool waits) {
        const std::string more = waits ? "" : R"({"role":"user","content":"and"},)";
        return post("/v1/messages/count_tokens",
                    R"({"model":"scripted","messages":[)" + more + R"({"role":"user","content":")" +
                        text + R"("}]})",
                    "x-api-key: " + key + "\r\n");
    }

    std::latch may_end_{1};
    bool has_ended_ = false;
    std::atomic<int> counting_{0};
    std::optional<test_server> server_;
};

TEST_F(two_tenants, twenty_long_jobs_of_one_leave_anothers_short_and_long_ones_alone) {
    hold_jobs();
    for (const std::size_t bytes : {std::size_t{10}, std::size_t{300'000}}) {
        std::vector<std::unique_ptr<http_client>> greedy;
        counting_ = 0;
        for (int i = 0; i < 20; ++i) {
            greedy.push_back(std::make_unique<http_client>(server_->port()));
            greedy.back()->send(count("k1", std::string(bytes, 'x'), true));
        }
        for (int i = 0; i < 2000 && counting_ < 2; ++i) std::this_thread::sleep_for(5ms);
        for (const std::size_t own :
             {std::size_t{10}, std::size_t{100'000}, std::size_t{400'000}}) {
            http_client other(server_->port());
            // The reply is waited for 5 s at most.
            EXPECT_EQ(other.request(count("k2", std::string(own, 'x'), false)).status, 200) << own;
        }
        http_client asks(server_->port());
        EXPECT_EQ(asks.request(post("/v1/messages", message_body(false, std::string(90'000, 'x')),
                                    "x-api-key: k2\r\n"))
                      .status,
                  200);
    }
}

TEST_F(two_tenants, long_jobs_of_one_leave_its_own_short_ones_alone) {
    hold_jobs();
    std::vector<std::unique_ptr<http_client>> greedy;
    for (int i = 0; i < 20; ++i) {
        greedy.push_back(std::make_unique<http_client>(server_->port()));
        greedy.back()->send(count("k1", std::string(300'000, 'x'), true));
    }
    for (int i = 0; i < 2000 && counting_ < 2; ++i) std::this_thread::sleep_for(5ms);
    http_client short_one(server_->port());
    EXPECT_EQ(short_one.request(count("k1", "x", false)).status, 200);
}

TEST_F(two_tenants, jobs_of_clients_that_have_left_are_not_done) {
    hold_jobs();
    std::vector<std::unique_ptr<http_client>> greedy;
    for (int i = 0; i < 10; ++i) {
        greedy.push_back(std::make_unique<http_client>(server_->port()));
        greedy.back()->send(count("k1", "x", true));
    }
    for (int i = 0; i < 2000 && counting_ < 2; ++i) std::this_thread::sleep_for(5ms);
    for (auto& each : greedy) each->close(true);
    std::this_thread::sleep_for(200ms);
    end_jobs();
    http_client last(server_->port());
    EXPECT_EQ(last.request(count("k1", "x", false)).status, 200);
    EXPECT_EQ(counting_, 3) << "the two that had begun, and the last";
}

}  // namespace
}  // namespace semantic::server
