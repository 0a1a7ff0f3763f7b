// SPDX-License-Identifier: Apache-2.0
// Who waits for whose form: nobody for another tenant's, and nobody who has left, or whose time is
// over, for anything.

#include "engine/scheduler/form_compiler.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace semantic::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

const tokenizer& words() {
    static const tokenizer made =
        *tokenizer::load(std::string(SEMANTIC_SOURCE_DIR) + "/etc/models/semantic-tiny");
    return made;
}

/// Each property copies what "big" says, which no grammar holds: some seconds where nothing bounds
/// it, and no symbols.
std::string slow_schema(int properties = 40'000) {
    std::string zeros = "0";
    for (int i = 0; i < 10'000; ++i) zeros += ",0";
    std::string schema = R"({"$defs":{"big":{"type":"string","not":[)" + zeros +
                         R"(]}},"type":"object","additionalProperties":false,"properties":{)";
    for (int i = 0; i < properties; ++i)
        schema += (i > 0 ? ",\"p" : "\"p") + std::to_string(i) +
                  R"(":{"minLength":0,"allOf":[{"$ref":"#/$defs/big"}]})";
    return schema + "}}";
}

storage::tenant_id tenant(unsigned char number) {
    storage::tenant_id made;
    made.salt.bytes[0] = number;
    return made;
}

job_ptr job_for(const std::string& schema, unsigned char sender = 0) {
    static request_id next = 1;
    auto work = std::make_shared<job>();
    work->id = next++;
    work->request.tenant = tenant(sender);
    work->request.form = {.what = output_form::kind::json, .schema_json = schema};
    work->request.form.is_strict = false;
    // Far more than a request may cost: it is slow until it is stopped.
    storage::work_budget::limits most;
    most.steps = std::numeric_limits<std::uint64_t>::max() / 2;
    most.bytes = std::size_t{1} << 40;
    work->request.budget = std::make_shared<storage::work_budget>(most);
    return work;
}

job_ptr slow_job(unsigned char sender = 0) {
    static const std::string schema = slow_schema();
    return job_for(schema, sender);
}
/// Each is another one.
job_ptr quick_job(unsigned char sender = 0) {
    static int number = 0;
    return job_for(R"({"const":)" + std::to_string(++number) + "}", sender);
}

class reports {
  public:
    form_compiler::report_outcome taker() {
        return [this](const job_ptr& work, form_outcome outcome) {
            std::lock_guard lock(mutex_);
            made_.emplace_back(work, std::move(outcome));
            changed_.notify_all();
        };
    }
    /// Returns: the outcome, when it has come in time.
    std::optional<form_outcome> wait(const job_ptr& work, milliseconds limit = seconds(60)) {
        std::unique_lock lock(mutex_);
        std::optional<form_outcome> found;
        changed_.wait_for(lock, limit, [&] {
            for (const auto& [each, outcome] : made_)
                if (each == work) found = outcome;
            return found.has_value();
        });
        return found;
    }
    std::size_t count() {
        std::lock_guard lock(mutex_);
        return made_.size();
    }
    std::size_t place_of(const job_ptr& work) {
        std::lock_guard lock(mutex_);
        for (std::size_t i = 0; i < made_.size(); ++i)
            if (made_[i].first == work) return i;
        return made_.size();
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<std::pair<job_ptr, form_outcome>> made_;
};

class form_compiler_ : public ::testing::Test {
  protected:
    reports told;
    answer_grammars grammars{words(), "chatml"};
    form_compiler compiler{grammars, told.taker()};

    /// Lets a job that was begun get under way.
    static void wait_a_moment() { std::this_thread::sleep_for(milliseconds(50)); }
    std::optional<stop_reason> end_of(const job_ptr& work, milliseconds limit) {
        const auto outcome = told.wait(work, limit);
        if (!outcome || !std::holds_alternative<finished>(*outcome)) return std::nullopt;
        return std::get<finished>(*outcome).why;
    }
};

TEST_F(form_compiler_, makes_the_form_or_says_what_is_wrong_with_it) {
    const job_ptr good = quick_job(), bad = job_for("nothing");
    compiler.compile(good);
    compiler.compile(bad);
    const auto form = told.wait(good), fault = told.wait(bad);
    ASSERT_TRUE(form && fault);
    EXPECT_TRUE(std::get<held_form>(*form).program);
    EXPECT_EQ(std::get<failed>(*fault).kind, failure_kind::bad_request);
    EXPECT_EQ(std::get<failed>(*fault).at_fault, request_part::form);
}

TEST_F(form_compiler_, writes_late_tools_or_says_what_is_wrong_with_them) {
    const auto write = [](conversation& chat, storage::work_budget&) -> storage::result<void> {
        if (chat.placed_tools[0].tool.name == "bad")
            return storage::failure{storage::errc::bad_value, "it is bad"};
        chat.system = "told";
        chat.placed_tools.clear();
        return {};
    };
    form_compiler writer(grammars, told.taker(), write);
    const auto job_with = [](const char* name) {
        job_ptr work = quick_job();
        work->request.form = {};
        work->request.chat.placed_tools = {{tool_definition{name, "", "{}"}}};
        return work;
    };
    const job_ptr good = job_with("good"), bad = job_with("bad");
    writer.compile(good);
    writer.compile(bad);
    const auto form = told.wait(good), fault = told.wait(bad);
    ASSERT_TRUE(form && fault);
    EXPECT_TRUE(std::holds_alternative<held_form>(*form));
    EXPECT_EQ(good->request.chat.system, "told");
    EXPECT_EQ(std::get<failed>(*fault).kind, failure_kind::bad_request);
    EXPECT_EQ(std::get<failed>(*fault).what, "it is bad");
}

TEST_F(form_compiler_, a_client_that_leaves_ends_its_form_at_once) {
    const job_ptr running = slow_job(), waiting = slow_job();
    compiler.compile(running);
    compiler.compile(waiting);
    wait_a_moment();
    const auto begin = steady_clock::now();
    for (const job_ptr& each : {running, waiting}) {
        each->cancelled = true;
        compiler.cancel(each);
        EXPECT_EQ(end_of(each, seconds(2)), stop_reason::cancelled);
    }
    EXPECT_LT(steady_clock::now() - begin, seconds(2));
    // The thread is free again, too.
    const job_ptr next = slow_job();
    next->cancelled = true;
    compiler.compile(next);
    EXPECT_EQ(end_of(next, seconds(2)), stop_reason::cancelled) << "it left before it was begun";
    EXPECT_EQ(told.count(), 3u);
}

TEST_F(form_compiler_, a_deadline_ends_a_form_that_waits_and_one_that_is_made) {
    std::vector<job_ptr> all;
    for (int i = 0; i < 4; ++i) {
        all.push_back(slow_job());
        all.back()->request.deadline = steady_clock::now() + milliseconds(200);
        compiler.compile(all.back());
    }
    for (const job_ptr& each : all) EXPECT_EQ(end_of(each, seconds(3)), stop_reason::deadline);
    EXPECT_EQ(told.count(), all.size());
}

TEST_F(form_compiler_, no_tenant_waits_for_the_forms_of_another) {
    std::vector<job_ptr> slow;
    for (int i = 0; i < 20; ++i) {
        slow.push_back(slow_job(1));
        compiler.compile(slow.back());
    }
    wait_a_moment();
    for (unsigned char sender = 2; sender < 6; ++sender) {
        const job_ptr quick = quick_job(sender);
        compiler.compile(quick);
        ASSERT_TRUE(told.wait(quick));
    }
    EXPECT_EQ(told.count(), 4u) << "none of the slow ones has come";
    const job_ptr own = quick_job(1);
    compiler.compile(own);
    ASSERT_TRUE(told.wait(own));
    EXPECT_EQ(told.count(), 5u) << "nor does a tenant's short form wait for its long ones";
}

TEST_F(form_compiler_, what_is_open_is_refused_when_it_stops_and_taken_when_it_resumes) {
    const job_ptr running = slow_job(), waiting = slow_job(), left = slow_job();
    for (const job_ptr& each : {running, waiting, left}) compiler.compile(each);
    wait_a_moment();
    left->cancelled = true;
    const auto begin = steady_clock::now();
    compiler.stop();
    EXPECT_LT(steady_clock::now() - begin, seconds(1));
    const job_ptr late = quick_job();
    compiler.compile(late);
    for (const job_ptr& each : {running, waiting, late}) {
        const auto outcome = told.wait(each, seconds(1));
        ASSERT_TRUE(outcome);
        EXPECT_EQ(std::get<failed>(*outcome).kind, failure_kind::shutting_down);
    }
    EXPECT_EQ(end_of(left, seconds(1)), stop_reason::cancelled);
    compiler.resume();
    const job_ptr next = quick_job();
    compiler.compile(next);
    const auto outcome = told.wait(next);
    ASSERT_TRUE(outcome);
    EXPECT_TRUE(std::holds_alternative<held_form>(*outcome));
}

TEST_F(form_compiler_, its_end_waits_for_no_form) {
    const auto begin = steady_clock::now();
    {
        form_compiler other(grammars, told.taker());
        other.compile(slow_job());
        wait_a_moment();
    }
    EXPECT_LT(steady_clock::now() - begin, seconds(2));
    EXPECT_EQ(told.count(), 1u);
}

TEST(answer_grammars_cache, a_form_is_found_again_from_any_thread) {
    answer_grammars grammars(words(), "chatml");
    const job_ptr work = quick_job();
    EXPECT_FALSE(grammars.find(work->request));
    std::vector<std::thread> all;
    for (int i = 0; i < 4; ++i)
        all.emplace_back([&] {
            for (int k = 0; k < 20; ++k) {
                EXPECT_TRUE(grammars.compile(work->request));
                EXPECT_TRUE(grammars.find(work->request));
            }
        });
    for (std::thread& each : all) each.join();
    EXPECT_TRUE(grammars.find(generation_request{})) << "a free answer needs none";
}

}  // namespace
}  // namespace semantic::engine
