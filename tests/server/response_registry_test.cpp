// SPDX-License-Identifier: Apache-2.0
#include "server/responses/response_registry.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "server/responses/response_keeper.hpp"
#include "tests/support/scripted_engine.hpp"

namespace semantic::server {
namespace {

using protocol::responses::kept_response;

const storage::tenant_id nobody{};
storage::tenant_id tenant(const std::string& key) { return tests::scripted_engine().tenant(key); }

kept_response one(const std::string& id, const std::string& previous = "",
                  const std::string& input = "[]") {
    return {id, previous, 1, input, R"({"output":[]})"};
}
std::shared_ptr<const kept_response> shared(kept_response response) {
    return std::make_shared<const kept_response>(std::move(response));
}
/// What each of those above takes.
std::size_t bytes_of_one() {
    kept_responses alone;
    alone.add(nobody, shared(one("resp_1", "resp_0")));
    return alone.bytes();
}

TEST(response_registry, a_conversation_is_found_from_its_last_response_and_from_any_other) {
    kept_responses all;
    all.add(nobody, shared(one("resp_1")));
    all.add(nobody, shared(one("resp_2", "resp_1")));
    all.add(nobody, shared(one("resp_3", "resp_2")));
    all.add(nobody, shared(one("resp_4", "resp_2")));
    const auto ids = [&](const std::string& from) {
        std::string said;
        for (const auto& each : *all.chain(nobody, from)) said += each->id.back();
        return said;
    };
    EXPECT_EQ(ids("resp_3"), "123");
    EXPECT_EQ(ids("resp_4"), "124") << "a fork";
    EXPECT_EQ(ids("resp_1"), "1");
    EXPECT_EQ(all.chain(nobody, "resp_5").error().error_code, "previous_response_not_found");
}

TEST(response_registry, what_one_tenant_keeps_is_nobody_elses) {
    kept_responses all;
    all.add(tenant("a"), shared(one("resp_1")));
    EXPECT_EQ(all.find(tenant("b"), "resp_1"), nullptr);
    EXPECT_FALSE(all.chain(tenant("b"), "resp_1"));
    EXPECT_FALSE(all.remove(tenant("b"), "resp_1"));
    EXPECT_NE(all.find(tenant("a"), "resp_1"), nullptr);
}

TEST(response_registry, a_conversation_that_lost_a_response_is_lost_behind_it) {
    kept_responses all;
    all.add(nobody, shared(one("resp_1")));
    all.add(nobody, shared(one("resp_2", "resp_1")));
    EXPECT_TRUE(all.remove(nobody, "resp_1"));
    EXPECT_FALSE(all.remove(nobody, "resp_1"));
    EXPECT_EQ(all.chain(nobody, "resp_2").error().error_code, "previous_response_not_found");
    EXPECT_NE(all.find(nobody, "resp_2"), nullptr) << "it can be read";
}

TEST(response_registry, as_many_are_kept_as_the_bound_holds_and_not_one_more) {
    kept_responses all(8 * bytes_of_one());
    for (int i = 1; i <= 8; ++i)
        EXPECT_TRUE(all.add(nobody, shared(one("resp_" + std::to_string(i), "resp_0"))).empty());
    EXPECT_EQ(all.bytes(), 8 * bytes_of_one());
    const auto gone = all.add(nobody, shared(one("resp_9", "resp_0")));
    ASSERT_EQ(gone.size(), 1u);
    EXPECT_EQ(gone[0].second, "resp_1") << "the oldest";
    EXPECT_EQ(all.bytes(), 8 * bytes_of_one());
}

TEST(response_registry, a_conversation_that_goes_on_keeps_its_beginning) {
    kept_responses all(8 * bytes_of_one());
    all.add(nobody, shared(one("resp_1")));
    for (int i = 2; i <= 30; ++i) {
        all.add(nobody, shared(one("resp_" + std::to_string(i), "resp_0")));
        ASSERT_TRUE(all.chain(nobody, "resp_1")) << i;
    }
}

TEST(response_registry, who_floods_it_lets_go_of_what_is_his) {
    kept_responses all(8 * bytes_of_one());
    all.add(tenant("quiet"), shared(one("resp_q")));
    for (int i = 0; i < 100; ++i)
        all.add(tenant("loud"), shared(one("resp_" + std::to_string(i), "resp_0")));
    EXPECT_NE(all.find(tenant("quiet"), "resp_q"), nullptr);
}

TEST(response_registry, an_item_is_found_in_the_latest_response_that_has_it) {
    kept_responses all;
    const std::string item = R"([{"id":"msg_1","type":"message"}])";
    const std::string reference = R"([{"id":"msg_1","type":"item_reference"}])";
    all.add(nobody, shared(one("resp_1", "", item)));
    all.add(nobody, shared(one("resp_2", "", item)));
    all.add(nobody, shared(one("resp_3", "", reference)));
    EXPECT_EQ(all.find_item(nobody, "msg_1")->id, "resp_2") << "a reference is no item";
    EXPECT_EQ(all.find_item(tenant("a"), "msg_1"), nullptr);
    EXPECT_EQ(all.find_item(nobody, "msg_2"), nullptr);
    all.remove(nobody, "resp_1");
    EXPECT_NE(all.find_item(nobody, "msg_1"), nullptr);
    all.remove(nobody, "resp_2");
    EXPECT_EQ(all.find_item(nobody, "msg_1"), nullptr);
}

TEST(response_registry, one_takes_a_quarter_at_most) {
    const std::size_t quarter = 2 * bytes_of_one();
    kept_responses all(4 * quarter);
    kept_response large = one("resp_1", "resp_0");
    large.input.resize(large.input.size() + quarter - bytes_of_one(), ' ');
    EXPECT_TRUE(all.list(shared(large)));
    large.input += ' ';
    EXPECT_FALSE(all.list(shared(large)));
    tests::scripted_engine engine;
    EXPECT_EQ(keep_response(all, engine, nobody, large).error().code, storage::errc::bad_value);
    EXPECT_TRUE(engine.kept.empty());
}

TEST(response_registry, one_that_could_not_be_read_again_is_not_kept) {
    kept_responses all;
    tests::scripted_engine engine;
    kept_response many = one("resp_1");
    many.input = "[0";
    for (int i = 0; i < 2'000'000; ++i) many.input += ",0";
    many.input += "]";
    EXPECT_FALSE(all.list(shared(many))) << "has more values than are read at once";
    EXPECT_EQ(keep_conversation(all, engine, nobody, many).error().code, storage::errc::bad_value);
    EXPECT_TRUE(engine.kept.empty());
}

TEST(response_registry, their_number_has_a_bound_which_the_tenant_with_most_pays) {
    kept_responses all(responses_bytes_max, 8);
    all.add(tenant("quiet"), shared(one("resp_q")));
    for (int i = 1; i <= 7; ++i)
        EXPECT_TRUE(all.add(tenant("loud"), shared(one("resp_" + std::to_string(i)))).empty());
    const auto gone = all.add(tenant("loud"), shared(one("resp_8")));
    ASSERT_EQ(gone.size(), 1u);
    EXPECT_EQ(gone[0].second, "resp_1");
    EXPECT_NE(all.find(tenant("quiet"), "resp_q"), nullptr);
}

/// Waits up to 10 s.
template <class Done>
void wait_for(Done done) {
    for (int i = 0; i < 2000 && !done(); ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

// Goal: adding to a conversation while it is deleted does not bring it back.
TEST(response_registry, changes_and_the_deletion_of_a_conversation_are_in_one_order) {
    tests::scripted_engine engine;
    kept_responses all;
    ASSERT_TRUE(keep_conversation(all, engine, nobody, one("conv_1")));
    std::atomic<bool> is_changing{false};
    std::atomic<bool> may_go_on{false};
    const auto change = [&](const kept_response& now) {
        is_changing = true;
        wait_for([&] { return may_go_on.load(); });
        return protocol::result<kept_response>(now);
    };
    auto changed = std::async(std::launch::async, [&] {
        return static_cast<bool>(change_conversation(all, engine, nobody, "conv_1", change));
    });
    wait_for([&] { return is_changing.load(); });
    auto dropped = std::async(std::launch::async,
                              [&] { return *drop_conversation(all, engine, nobody, "conv_1"); });
    EXPECT_EQ(dropped.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
    may_go_on = true;
    EXPECT_TRUE(changed.get());
    EXPECT_TRUE(dropped.get());
    EXPECT_EQ(all.find(nobody, "conv_1"), nullptr);
    EXPECT_TRUE(engine.kept.empty());
    const auto late = change_conversation(all, engine, nobody, "conv_1", change);
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().code, protocol::errc::not_found);
    EXPECT_TRUE(engine.kept.empty()) << "what was deleted never comes back";
}

TEST(response_registry, a_response_that_was_dropped_meanwhile_is_not_kept) {
    tests::scripted_engine engine;
    kept_responses all;
    EXPECT_TRUE(keep_response(all, engine, nobody, one("resp_1"), [] { return true; }));
    EXPECT_EQ(all.find(nobody, "resp_1"), nullptr);
    EXPECT_TRUE(engine.kept.empty());
}

TEST(response_registry, a_change_that_is_not_written_is_none) {
    tests::scripted_engine engine;
    kept_responses all;
    ASSERT_TRUE(keep_conversation(all, engine, nobody, one("conv_1")));
    engine.on_keep_record = [](const storage::kept_record&) -> storage::result<void> {
        return storage::failure{storage::errc::out_of_space, "full"};
    };
    const auto change = [](kept_response now) {
        now.input = R"([{"id":"msg_1"}])";
        return protocol::result<kept_response>(now);
    };
    const auto changed = change_conversation(all, engine, nobody, "conv_1", change);
    ASSERT_FALSE(changed);
    EXPECT_EQ(changed.error().code, protocol::errc::out_of_space);
    EXPECT_EQ(all.find(nobody, "conv_1")->input, "[]") << "as it is on disk";
    EXPECT_FALSE(keep_conversation(all, engine, nobody, one("conv_2")));
    EXPECT_EQ(all.find(nobody, "conv_2"), nullptr);
}

TEST(response_registry, what_could_not_be_erased_is_still_there) {
    tests::scripted_engine engine;
    kept_responses all;
    ASSERT_TRUE(keep_response(all, engine, nobody, one("resp_1")));
    engine.on_erase_record = [](const std::string&) -> storage::result<void> {
        return storage::failure{storage::errc::io, "no"};
    };
    EXPECT_FALSE(drop_response(all, engine, nobody, "resp_1"));
    EXPECT_NE(all.find(nobody, "resp_1"), nullptr);
    engine.on_erase_record = nullptr;
    EXPECT_TRUE(*drop_response(all, engine, nobody, "resp_1"));
    EXPECT_TRUE(engine.kept.empty());
}

// Goal: a record that is let go of is not erased while another request keeps the response again.
TEST(response_registry, what_is_kept_anew_while_it_is_let_go_of_is_in_ram_and_on_disk) {
    tests::scripted_engine engine;
    kept_responses all(8 * bytes_of_one());
    for (int i = 1; i <= 8; ++i)
        ASSERT_TRUE(keep_response(all, engine, nobody, one("resp_" + std::to_string(i), "resp_0")));
    std::future<bool> again;
    engine.on_erase_record = [&](const std::string& name) -> storage::result<void> {
        if (name != "response:resp_1" || again.valid()) return {};
        again = std::async(std::launch::async, [&] {
            return static_cast<bool>(keep_response(all, engine, nobody, one("resp_1", "resp_0")));
        });
        again.wait_for(std::chrono::milliseconds(100));
        return {};
    };
    ASSERT_TRUE(keep_response(all, engine, nobody, one("resp_9", "resp_0")));
    ASSERT_TRUE(again.valid());
    EXPECT_TRUE(again.get());
    for (int i = 1; i <= 9; ++i) {
        const std::string id = "resp_" + std::to_string(i);
        EXPECT_EQ(all.find(nobody, id) != nullptr, engine.kept.contains({nobody, "response:" + id}))
            << id;
    }
    EXPECT_NE(all.find(nobody, "resp_1"), nullptr);
}

TEST(response_registry, responses_come_back_with_a_restart_and_those_let_go_of_do_not) {
    tests::scripted_engine engine;
    kept_responses before(8 * bytes_of_one());
    for (int i = 1; i <= 9; ++i) {
        kept_response made = one("resp_" + std::to_string(i), "resp_0");
        made.created_unix = i;
        ASSERT_TRUE(keep_response(before, engine, nobody, std::move(made)));
    }
    EXPECT_EQ(engine.kept.size(), 8u);
    ASSERT_TRUE(*drop_response(before, engine, nobody, "resp_2"));
    EXPECT_FALSE(*drop_response(before, engine, nobody, "resp_2"));
    engine.kept[{nobody, "response:resp_x"}] = {nobody, "response:resp_x", "no record"};
    engine.kept[{nobody, "session:s"}] = {nobody, "session:s", "another's"};

    response_registry after;
    EXPECT_EQ(load_responses(after, engine).size(), 1u) << "what is broken is told";
    EXPECT_EQ(after.stored.find(nobody, "resp_1"), nullptr);
    EXPECT_EQ(after.stored.find(nobody, "resp_2"), nullptr);
    ASSERT_NE(after.stored.find(nobody, "resp_9"), nullptr);
    EXPECT_EQ(after.stored.find(nobody, "resp_9")->previous, "resp_0");

    response_registry smaller(6 * bytes_of_one());
    load_responses(smaller, engine);
    EXPECT_EQ(smaller.stored.find(nobody, "resp_3"), nullptr) << "the oldest gives way";
    EXPECT_FALSE(engine.kept.contains({nobody, "response:resp_3"}));
}

TEST(response_registry, one_that_the_disk_does_not_take_is_kept_as_long_as_the_server_runs) {
    tests::scripted_engine engine;
    engine.on_keep_record = [](const storage::kept_record&) -> storage::result<void> {
        return storage::failure{storage::errc::out_of_space, "full"};
    };
    kept_responses all;
    EXPECT_FALSE(keep_response(all, engine, nobody, one("resp_1")));
    EXPECT_TRUE(all.chain(nobody, "resp_1"));
}

}  // namespace
}  // namespace semantic::server
