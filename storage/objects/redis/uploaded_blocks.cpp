// SPDX-License-Identifier: Apache-2.0
#include "storage/objects/redis/uploaded_blocks.hpp"

#include <algorithm>

namespace semantic::storage {

namespace {

using pause_clock = std::chrono::steady_clock;

constexpr std::chrono::seconds pause{5};  // how long Redis counts as gone after it was silent
constexpr std::size_t names_a_call = 1000;
// Returns a digit for each name: 1 where the set of today (KEYS[1]) or of yesterday (KEYS[2]) has
// it.
constexpr const char* look_script =
    "local out = {} for i, name in ipairs(ARGV) do "
    "local there = redis.call('SISMEMBER', KEYS[1], name) == 1 or "
    "redis.call('SISMEMBER', KEYS[2], name) == 1 out[i] = there and '1' or '0' end "
    "return table.concat(out)";
// Adds names to the set of today, which lasts two days.
constexpr const char* note_script =
    "for _, name in ipairs(ARGV) do redis.call('SADD', KEYS[1], name) end "
    "redis.call('EXPIRE', KEYS[1], 172800) return 1";

long long days_since_1970() {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::hours>(now).count() / 24;
}

}  // namespace

uploaded_blocks::uploaded_blocks(redis_address address, std::chrono::milliseconds patience,
                                 std::function<long long()> today)
    : link_(std::move(address), patience), today_(today ? std::move(today) : days_since_1970) {}

std::string uploaded_blocks::key(long long day) const {
    return "semantic:blocks:" + std::to_string(day);
}

/// Blocks. Sends a command. Returns: nothing where Redis does not answer, or did not a moment ago.
std::optional<redis_reply> uploaded_blocks::call(std::vector<std::string> words) {
    if (std::lock_guard lock(mutex_); pause_clock::now() < silent_until_) return std::nullopt;
    auto reply = link_.call(words);
    if (reply) return std::move(*reply);
    std::lock_guard lock(mutex_);
    silent_until_ = pause_clock::now() + pause;
    return std::nullopt;
}

std::optional<std::vector<bool>> uploaded_blocks::look(const std::vector<std::string>& names) {
    std::vector<bool> found;
    for (std::size_t begin = 0; begin < names.size(); begin += names_a_call) {
        const std::size_t end = std::min(names.size(), begin + names_a_call);
        std::vector<std::string> words{"EVAL", look_script, "2", key(today_()), key(today_() - 1)};
        words.insert(words.end(), names.begin() + static_cast<std::ptrdiff_t>(begin),
                     names.begin() + static_cast<std::ptrdiff_t>(end));
        const auto reply = call(std::move(words));
        if (!reply || reply->text.size() != end - begin) return std::nullopt;
        for (const char each : reply->text) found.push_back(each == '1');
    }
    return found;
}

void uploaded_blocks::note(const std::vector<std::string>& names) {
    for (std::size_t begin = 0; begin < names.size(); begin += names_a_call) {
        const std::size_t end = std::min(names.size(), begin + names_a_call);
        std::vector<std::string> words{"EVAL", note_script, "1", key(today_())};
        words.insert(words.end(), names.begin() + static_cast<std::ptrdiff_t>(begin),
                     names.begin() + static_cast<std::ptrdiff_t>(end));
        if (!call(std::move(words))) return;
    }
}

}  // namespace semantic::storage
