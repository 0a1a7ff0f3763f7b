// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/policy/shared_heads.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

namespace semantic::engine {
namespace {

using wait = std::optional<head_wait>;

/// `common`: of the one that asks with each holder.
wait find(const head_reader& one, const std::vector<head_reader>& holders,
          const std::vector<int>& common) {
    return find_head_wait(one, holders, [&](std::size_t i) { return common[i]; });
}

TEST(shared_heads, who_would_read_what_another_reads_waits_until_they_part) {
    EXPECT_EQ(find({2, 0, 0}, {{1, 0, 0}}, {5000}), (head_wait{0, 5000}));
    EXPECT_EQ(find({2, 0, 0}, {{1, 0, 3000}}, {5000}), (head_wait{0, 5000}));
    EXPECT_EQ(find({2, 0, 0}, {}, {}), std::nullopt);
    EXPECT_EQ(find({2, 0, 0}, {{1, 0, 0}}, {0}), std::nullopt) << "nothing in common";
}

TEST(shared_heads, a_few_tokens_are_not_waited_for) {
    EXPECT_EQ(find({2, 0, 0}, {{1, 0, 1000}}, {1000 + head_tokens_min}),
              (head_wait{0, 1000 + head_tokens_min}));
    EXPECT_EQ(find({2, 0, 0}, {{1, 0, 1000}}, {1000 + head_tokens_min - 1}), std::nullopt);
    EXPECT_EQ(find({2, 0, 0}, {{1, 0, 6000}}, {5000}), std::nullopt) << "it is there already";
}

TEST(shared_heads, the_furthest_goes_first_and_of_equals_the_one_that_came_first) {
    EXPECT_EQ(find({1, 0, 2000}, {{2, 0, 1999}}, {5000}), std::nullopt);
    EXPECT_EQ(find({1, 0, 1999}, {{2, 0, 2000}}, {5000}), (head_wait{0, 5000}));
    EXPECT_EQ(find({1, 0, 2000}, {{2, 0, 2000}}, {5000}), std::nullopt);
    EXPECT_EQ(find({2, 0, 2000}, {{1, 0, 2000}}, {5000}), (head_wait{0, 5000}));
    EXPECT_EQ(find({1, 1, 0}, {{1, 0, 0}}, {5000}), (head_wait{0, 5000})) << "a further choice";
    EXPECT_EQ(find({1, 0, 0}, {{1, 0, 0}}, {5000}), std::nullopt) << "nobody waits for itself";
}

TEST(shared_heads, of_several_readers_the_one_that_spares_most_is_waited_for) {
    EXPECT_EQ(find({9, 0, 0}, {{1, 0, 0}, {2, 0, 0}, {3, 0, 0}}, {300, 900, 500}),
              (head_wait{1, 900}));
}

TEST(shared_heads, a_chunk_ends_where_the_first_of_those_that_wait_can_go_on) {
    EXPECT_EQ(cut_chunk(1000, 4096, {}, false), 4096);
    EXPECT_EQ(cut_chunk(1000, 4096, std::vector{3000, 2000, 9000}, false), 1000);
    EXPECT_EQ(cut_chunk(1000, 4096, std::vector{900, 1000}, false), 4096) << "passed already";
    EXPECT_EQ(cut_chunk(1000, 4096, std::vector{1001}, false), head_chunk_min);
    EXPECT_EQ(cut_chunk(1000, 4096, std::vector{1001}, true), 1);
    EXPECT_EQ(cut_chunk(1000, 16, std::vector{1001}, false), 16) << "never longer than it was";
}

/// Prompts that are read as the batch does it, each as a path in a tree of words, without a model.
class readers {
  public:
    explicit readers(unsigned seed) : random_(seed) {}

    /// Returns: steps until all are read; at most `limit`.
    int read_all(std::size_t count, int limit, bool with_cancellations) {
        for (request_id id = 1; id <= count; ++id) waiting_.push_back(make(id));
        int steps = 0;
        for (; steps < limit && !(waiting_.empty() && running_.empty()); ++steps) {
            if (with_cancellations && random_() % 8 == 0) cancel();
            take_up();
            admit();
            step();
        }
        return steps;
    }
    std::size_t computed() const { return computed_; }
    /// What reading each beginning once takes.
    std::size_t distinct() const { return distinct_.size(); }

  private:
    static constexpr int slots = 6, chunk = 200;
    struct prompt {
        head_reader reader;
        int tenant = 0;
        std::vector<int> tokens{};
    };

    prompt make(request_id id) {
        prompt made{{id, 0, 0}, static_cast<int>(random_() % 2)};
        // A word at each of four depths, of which there are two; then what is its own.
        for (int depth = 0; depth < 4; ++depth)
            made.tokens.insert(made.tokens.end(), 80 + 50 * static_cast<std::size_t>(depth),
                               static_cast<int>(random_() % 2) + 10 * depth);
        made.tokens.insert(made.tokens.end(), 1 + random_() % 90, static_cast<int>(1000 + id));
        std::vector<int> path{made.tenant};
        for (int token : made.tokens) {
            path.push_back(token);
            distinct_.insert(path);
        }
        return made;
    }
    static int common_of(const prompt& a, const prompt& b) {
        if (a.tenant != b.tenant) return 0;
        const auto parting = std::ranges::mismatch(a.tokens, b.tokens).in1;
        return std::min(static_cast<int>(parting - a.tokens.begin()),
                        static_cast<int>(a.tokens.size()) - 1);
    }
    wait wait_of(const prompt& one) const {
        std::vector<head_reader> holders;
        for (const prompt& each : running_) holders.push_back(each.reader);
        return find_head_wait(one.reader, holders,
                              [&](std::size_t i) { return common_of(one, running_[i]); });
    }
    void take_from_published(prompt& one) const {
        for (const prompt& each : published_) {
            const int there = std::min(common_of(one, each), each.reader.position);
            one.reader.position = std::max(one.reader.position, there);
        }
    }
    void take_up() {
        for (prompt& each : running_) take_from_published(each);
    }
    void admit() {
        for (std::size_t i = 0; i < waiting_.size() && running_.size() < slots;) {
            if (wait_of(waiting_[i])) {
                ++i;
                continue;
            }
            running_.push_back(waiting_[i]);
            waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
            published_.insert(published_.end(), running_.begin(), running_.end() - 1);
            take_from_published(running_.back());
        }
    }
    void step() {
        std::vector<std::size_t> free;
        std::vector<std::vector<int>> ends(running_.size());
        const auto note = [&](const wait& found) {
            if (found) ends[found->reader].push_back(found->end);
            return found.has_value();
        };
        for (std::size_t i = 0; i < running_.size(); ++i)
            if (!note(wait_of(running_[i]))) free.push_back(i);
        for (const prompt& each : waiting_) note(wait_of(each));
        ASSERT_EQ(free.empty(), running_.empty()) << "nobody could go on";
        if (free.empty()) return;
        const std::size_t turn = free[random_() % free.size()];
        prompt& one = running_[turn];
        const int rest = static_cast<int>(one.tokens.size()) - one.reader.position;
        const int tokens = cut_chunk(one.reader.position, std::min(rest, chunk), ends[turn], true);
        ASSERT_GT(tokens, 0);
        computed_ += static_cast<std::size_t>(tokens);
        one.reader.position += tokens;
        published_.push_back(one);
        if (tokens == rest) running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(turn));
    }
    void cancel() {
        auto& some = random_() % 2 == 0 ? running_ : waiting_;
        if (some.empty()) return;
        const auto gone = some.begin() + static_cast<std::ptrdiff_t>(random_() % some.size());
        if (&some == &running_) published_.push_back(*gone);
        some.erase(gone);
    }

    std::mt19937 random_;
    std::vector<prompt> waiting_, running_, published_;
    std::set<std::vector<int>> distinct_;
    std::size_t computed_ = 0;
};

TEST(shared_heads, random_prompts_are_all_read_and_each_beginning_once) {
    for (unsigned seed = 0; seed < 12; ++seed) {
        readers all(seed);
        EXPECT_LT(all.read_all(24, 2000, false), 2000) << seed;
        // What is too short to be waited for is read again, at most once a prompt and parting.
        EXPECT_LE(all.computed(), all.distinct() + 24 * 4 * head_tokens_min) << seed;
    }
}

TEST(shared_heads, no_reader_waits_for_ever_when_others_leave) {
    for (unsigned seed = 0; seed < 12; ++seed) {
        readers all(seed);
        EXPECT_LT(all.read_all(24, 2000, true), 2000) << seed;
    }
}

}  // namespace
}  // namespace semantic::engine
