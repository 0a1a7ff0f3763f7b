// SPDX-License-Identifier: Apache-2.0
// A model hub's files on their way into the cache, from a hub of this machine that breaks, stalls
// and lies.

#include "storage/objects/hub/hub_cache.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <random>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/hub_server.hpp"
#include "tests/support/temp_dir.hpp"

namespace semantic::storage {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using tests::hub_reply;
using tests::hub_server;
using tests::temp_dir;

const std::string repository = "org/model";

std::string random_bytes(std::size_t count, unsigned seed) {
    std::mt19937 random(seed);
    std::string bytes(count, ' ');
    for (char& each : bytes) each = static_cast<char>(random());
    return bytes;
}

std::string bytes_of(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

hub_options quick(const std::string& url) {
    hub_options options;
    options.endpoint = url;
    options.retries.attempts_max = 3;
    options.retries.first_max = milliseconds(5);
    options.retries.wait_max = milliseconds(20);
    options.http.connect_max = milliseconds(2000);
    options.http.stall_max = std::chrono::seconds(2);
    return options;
}

hub_options quick(const hub_server& hub) { return quick(hub.url()); }

class hub_cache_of_a_hub : public testing::Test {
  protected:
    result<void> fetch(const hub_options& options, std::stop_token stop = {}) {
        const hub_client client(options);
        auto listing = client.list(repository, "main");
        if (!listing) return listing.error();
        return cache().fetch(
            client, repository, listing->commit, listing->files,
            [this](const hub_progress& now) { progress_.push_back(now); }, stop);
    }
    result<void> fetch() { return fetch(quick(hub_)); }
    hub_cache cache() { return {posix_file_system(), root_ / "hub"}; }

    fs::path snapshot() { return cache().snapshot_of(repository, hub_.commit); }
    std::size_t snapshots() {
        std::error_code ec;
        const fs::directory_iterator found(cache().folder_of(repository) + "/snapshots", ec);
        return ec ? 0 : static_cast<std::size_t>(std::distance(begin(found), end(found)));
    }
    fs::path blob(const std::string& path) {
        return cache().folder_of(repository) + "/blobs/" + hub_.at(path).digest;
    }
    void expect_nothing_shown() {
        EXPECT_EQ(snapshots(), 0U);
        EXPECT_FALSE(fs::exists(cache().folder_of(repository) + "/refs/main"));
    }

    temp_dir root_;
    hub_server hub_;
    std::vector<hub_progress> progress_;
};

TEST_F(hub_cache_of_a_hub, files_come_into_the_layout_that_hugging_faces_tools_read) {
    hub_.add("config.json", "{}", false);
    hub_.add("model.safetensors", random_bytes(300'000, 1), true);
    hub_.add("empty.txt", "", false);
    hub_.add("some/folder/x y%.gguf", random_bytes(1000, 2), true);
    ASSERT_TRUE(fetch());
    EXPECT_EQ(bytes_of(snapshot() / "model.safetensors"), hub_.at("model.safetensors").content);
    EXPECT_EQ(bytes_of(snapshot() / "config.json"), "{}");
    EXPECT_EQ(fs::read_symlink(snapshot() / "model.safetensors"),
              "../../blobs/" + hub_.at("model.safetensors").digest);
    EXPECT_EQ(fs::read_symlink(snapshot() / "some/folder/x y%.gguf"),
              "../../../../blobs/" + hub_.at("some/folder/x y%.gguf").digest);
    EXPECT_TRUE(fs::is_regular_file(snapshot() / "empty.txt"));
    EXPECT_EQ(bytes_of(cache().folder_of(repository) + "/refs/main"), hub_.commit);
    EXPECT_EQ(cache().folder_of(repository), root_ / "hub/models--org--model");
    // What Git calls this content.
    EXPECT_EQ(hub_.at("config.json").digest, "9e26dfeeb6e641a33dae4961196235bdb965b21b");
    ASSERT_FALSE(progress_.empty());
    EXPECT_EQ(progress_.back().done_bytes, progress_.back().all_bytes);
}

TEST_F(hub_cache_of_a_hub, what_is_there_is_not_asked_for_again) {
    hub_.add("a.gguf", random_bytes(100'000, 1), true);
    ASSERT_TRUE(fetch());
    const std::size_t before = hub_.requests_for("/resolve/");
    hub_.commit = std::string(40, 'b');  // a commit that left the file alone
    hub_.add("b.json", "[]", false);
    ASSERT_TRUE(fetch());
    EXPECT_EQ(hub_.requests_for("/resolve/"), before + 1);
    EXPECT_EQ(bytes_of(snapshot() / "a.gguf"), hub_.at("a.gguf").content);
    EXPECT_EQ(bytes_of(cache().folder_of(repository) + "/refs/main"), hub_.commit);
}

TEST_F(hub_cache_of_a_hub, a_list_in_pages_is_read_to_its_end) {
    for (int i = 0; i < 25; ++i) hub_.add("f" + std::to_string(i) + ".json", "{}", false);
    hub_.page_entries = 10;
    const auto listing = hub_client(quick(hub_)).list(repository, "main");
    ASSERT_TRUE(listing) << listing.error().what;
    EXPECT_EQ(listing->files.size(), 25U);
    EXPECT_EQ(hub_.requests_for("/tree/"), 3U);
}

TEST_F(hub_cache_of_a_hub, a_transfer_that_breaks_goes_on_where_it_broke) {
    hub_.add("a.gguf", random_bytes(500'000, 3), true);
    hub_.order({.cut_after = 200'000});
    hub_.order({.cut_after = 100'000});
    hub_.order({.answer = hub_reply(503)});
    ASSERT_TRUE(fetch());
    EXPECT_EQ(bytes_of(snapshot() / "a.gguf"), hub_.at("a.gguf").content);
    std::vector<std::string> ranges;
    for (const std::string& head : hub_.requests())
        if (head.starts_with("GET /cdn/"))
            if (const auto at = head.find("Range: "); at != head.npos)
                ranges.push_back(head.substr(at + 7, head.find('\r', at) - at - 7));
    EXPECT_EQ(ranges,
              (std::vector<std::string>{"bytes=200000-", "bytes=300000-", "bytes=300000-"}));
}

TEST_F(hub_cache_of_a_hub, a_hub_that_brings_nothing_is_given_up_and_what_came_is_kept) {
    hub_.add("a.gguf", random_bytes(500'000, 3), true);
    hub_.order({.cut_after = 200'000});
    hub_.order({.answer = hub_reply(503)}, 3);
    const auto fetched = fetch();
    ASSERT_FALSE(fetched);
    EXPECT_NE(fetched.error().what.find("503"), std::string::npos) << fetched.error().what;
    EXPECT_NE(fetched.error().what.find("3 tries without a byte"), std::string::npos)
        << fetched.error().what;
    expect_nothing_shown();
    EXPECT_EQ(fs::file_size(blob("a.gguf").string() + ".semantic-part"), 200'000U);
    progress_.clear();
    ASSERT_TRUE(fetch());
    EXPECT_EQ(bytes_of(snapshot() / "a.gguf"), hub_.at("a.gguf").content);
}

TEST(hub_cache_killed, leaves_no_model_and_the_next_process_goes_on) {
    // The child is made before there are threads, and hears of the hub through a pipe.
    const temp_dir root;
    int pipe_ends[2];
    ASSERT_EQ(::pipe(pipe_ends), 0);
    const pid_t child = ::fork();
    if (child == 0) {
        std::array<char, 64> url{};
        if (::read(pipe_ends[0], url.data(), url.size() - 1) <= 0) ::_exit(1);
        const hub_client client(quick(std::string(url.data())));
        const auto listing = client.list(repository, "main");
        if (!listing) ::_exit(1);
        (void)hub_cache(posix_file_system(), root / "hub")
            .fetch(client, repository, listing->commit, listing->files, {}, {});
        ::_exit(0);
    }
    hub_server hub;
    const std::string content = random_bytes(3'000'000, 4);
    hub.add("model-00001-of-00002.gguf", content, true);
    hub.add("model-00002-of-00002.gguf", random_bytes(100'000, 5), true);
    hub.order({.pause = milliseconds(40)}, 2);
    const std::string url = hub.url();
    ASSERT_EQ(::write(pipe_ends[1], url.data(), url.size()), static_cast<ssize_t>(url.size()));
    const hub_cache cache(posix_file_system(), root / "hub");
    const std::string part = cache.folder_of(repository) + "/blobs/" +
                             hub.at("model-00001-of-00002.gguf").digest + ".semantic-part";
    const auto size = [&] {
        std::error_code ec;
        const auto bytes = fs::file_size(part, ec);
        return ec ? 0 : bytes;
    };
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (size() < 600'000 && std::chrono::steady_clock::now() < until)
        std::this_thread::sleep_for(milliseconds(5));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    ::close(pipe_ends[0]);
    ::close(pipe_ends[1]);
    const auto kept = size();
    ASSERT_GE(kept, 600'000U);
    ASSERT_LT(kept, content.size());
    EXPECT_FALSE(fs::exists(cache.folder_of(repository) + "/snapshots"));
    EXPECT_FALSE(fs::exists(cache.folder_of(repository) + "/refs/main"));
    const hub_client client(quick(url));
    const auto listing = client.list(repository, "main").value();
    ASSERT_TRUE(cache.fetch(client, repository, listing.commit, listing.files, {}, {}));
    const fs::path snapshot = cache.snapshot_of(repository, listing.commit);
    EXPECT_EQ(bytes_of(snapshot / "model-00001-of-00002.gguf"), content);
    EXPECT_EQ(hub.requests_for("/cdn/model-00001"), 2U);
    const auto heads = hub.requests();
    const std::string range = "Range: bytes=" + std::to_string(kept) + "-";
    EXPECT_TRUE(std::any_of(heads.begin(), heads.end(), [&](const std::string& head) {
        return head.find(range) != head.npos;
    }));
}

TEST_F(hub_cache_of_a_hub, contents_that_are_not_what_the_digest_says_are_removed_and_told) {
    hub_.add("a.gguf", random_bytes(50'000, 6), true);
    hub_.add("b.json", "{\"a\":1}", false);
    for (const std::string file : {"a.gguf", "b.json"}) {
        std::string other = hub_.at(file).content;
        other[2] = static_cast<char>(other[2] ^ 1);
        hub_.order({.other_bytes = other}, 1);
        hub_options one = quick(hub_);
        const hub_client client(one);
        auto listing = client.list(repository, "main").value();
        std::erase_if(listing.files, [&](const hub_file& each) { return each.path != file; });
        const auto fetched =
            cache().fetch(client, repository, listing.commit, listing.files, {}, {});
        ASSERT_FALSE(fetched) << file;
        EXPECT_EQ(fetched.error().code, errc::corrupt);
        EXPECT_NE(fetched.error().what.find(hub_.at(file).digest), std::string::npos)
            << fetched.error().what;
        EXPECT_FALSE(fs::exists(blob(file)));
        EXPECT_FALSE(fs::exists(blob(file).string() + ".semantic-part"));
        expect_nothing_shown();
    }
}

TEST_F(hub_cache_of_a_hub, a_part_that_was_damaged_meanwhile_is_fetched_once_more) {
    hub_.add("a.gguf", random_bytes(400'000, 7), true);
    fs::create_directories(blob("a.gguf").parent_path());
    std::ofstream(blob("a.gguf").string() + ".semantic-part", std::ios::binary)
        << random_bytes(150'000, 8);
    ASSERT_TRUE(fetch());
    EXPECT_EQ(bytes_of(snapshot() / "a.gguf"), hub_.at("a.gguf").content);
    EXPECT_EQ(hub_.requests_for("/cdn/"), 2U);
    EXPECT_EQ(progress_.back().done_bytes, 400'000U);
}

TEST_F(hub_cache_of_a_hub, a_part_or_a_blob_of_another_length_is_fetched_anew) {
    hub_.add("a.gguf", random_bytes(40'000, 7), true);
    fs::create_directories(blob("a.gguf").parent_path());
    std::ofstream(blob("a.gguf").string() + ".semantic-part") << std::string(40'001, 'x');
    ASSERT_TRUE(fetch());
    EXPECT_EQ(bytes_of(blob("a.gguf")), hub_.at("a.gguf").content);
    fs::resize_file(blob("a.gguf"), 39'999);
    ASSERT_TRUE(fetch());
    EXPECT_EQ(bytes_of(blob("a.gguf")), hub_.at("a.gguf").content);
}

TEST_F(hub_cache_of_a_hub, a_range_that_is_ignored_or_moved_costs_no_right_byte) {
    hub_.add("a.gguf", random_bytes(300'000, 9), true);
    hub_.order({.cut_after = 100'000});
    hub_.order({.moves_range = true});
    hub_.order({.ignores_range = true});
    ASSERT_TRUE(fetch());
    EXPECT_EQ(bytes_of(snapshot() / "a.gguf"), hub_.at("a.gguf").content);
}

TEST_F(hub_cache_of_a_hub, more_bytes_than_the_list_says_are_not_taken) {
    hub_.add("a.gguf", random_bytes(10'000, 10), true);
    hub_.order({.other_bytes = random_bytes(10'001, 10)}, 10);
    const auto fetched = fetch();
    ASSERT_FALSE(fetched);
    EXPECT_NE(fetched.error().what.find("more than its 10000 bytes"), std::string::npos)
        << fetched.error().what;
    expect_nothing_shown();
}

TEST_F(hub_cache_of_a_hub, an_etag_that_contradicts_the_list_is_refused_before_a_byte_comes) {
    hub_.add("a.gguf", random_bytes(10'000, 11), true);
    hub_.linked_etag = std::string(64, '0');
    const auto fetched = fetch();
    ASSERT_FALSE(fetched);
    EXPECT_NE(fetched.error().what.find(hub_.linked_etag), std::string::npos)
        << fetched.error().what;
    EXPECT_EQ(hub_.requests_for("/cdn/"), 0U);
}

TEST_F(hub_cache_of_a_hub, a_silent_hub_is_given_up_in_bounded_time) {
    hub_.add("a.gguf", random_bytes(300'000, 12), true);
    hub_.order({.pause = milliseconds(8000)}, 10);
    hub_options options = quick(hub_);
    options.retries.attempts_max = 1;
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_FALSE(fetch(options));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

TEST_F(hub_cache_of_a_hub, a_stop_ends_a_transfer_and_keeps_what_came) {
    hub_.add("a.gguf", random_bytes(3'000'000, 13), true);
    hub_.order({.pause = milliseconds(50)});
    std::stop_source stop;
    hub_options options = quick(hub_);
    options.http.stop = stop.get_token();
    std::jthread later([&] {
        std::this_thread::sleep_for(milliseconds(600));
        stop.request_stop();
    });
    const auto fetched = fetch(options, stop.get_token());
    ASSERT_FALSE(fetched);
    EXPECT_NE(fetched.error().what.find("being stopped"), std::string::npos)
        << fetched.error().what;
    expect_nothing_shown();
    ASSERT_TRUE(fetch());
}

TEST_F(hub_cache_of_a_hub, the_token_goes_to_the_hub_alone) {
    hub_.add("a.gguf", random_bytes(1000, 14), true);
    hub_.token = "hf_secret";
    const auto without = fetch();
    ASSERT_FALSE(without);
    EXPECT_EQ(without.error().code, errc::not_found);
    EXPECT_NE(without.error().what.find("HF_TOKEN is not set"), std::string::npos)
        << without.error().what;
    hub_options options = quick(hub_);
    options.token = "hf_secret";
    ASSERT_TRUE(fetch(options));
    std::size_t elsewhere = 0;
    for (const std::string& head : hub_.requests()) {
        if (!head.starts_with("GET /cdn/")) continue;
        ++elsewhere;
        EXPECT_EQ(head.find("hf_secret"), head.npos) << head;
    }
    EXPECT_EQ(elsewhere, 1U);
}

TEST_F(hub_cache_of_a_hub, refusals_are_told_for_what_they_are_and_only_passing_ones_are_repeated) {
    hub_.add("a.gguf", "x", true);
    const struct {
        std::string answer;
        const char* told;
        std::size_t tries;
    } refusals[] = {
        {hub_reply(401, "X-Error-Code: GatedRepo\r\n"), "gated", 1},
        {hub_reply(403), "not public", 1},
        {hub_reply(404, "X-Error-Code: RevisionNotFound\r\n"), "RevisionNotFound", 1},
        {hub_reply(429), "429", 3},
        {hub_reply(500), "500", 3},
        {hub_reply(418), "418", 1},
        {hub_reply(302, "Location: file:///etc/passwd\r\n"), "not to a web address", 1},
        {hub_reply(302), "not to a web address", 1},
        {hub_reply(200, "", "[]"), "which commit", 1},
        {hub_reply(200, "", "{\"sha\":\"../../../../../../../../../../../../etc\"}"),
         "which commit", 1},
    };
    for (const auto& each : refusals) {
        hub_server hub;
        hub.answer_api(each.answer, 10);
        const auto listing = hub_client(quick(hub)).list(repository, "main");
        ASSERT_FALSE(listing) << each.told;
        EXPECT_NE(listing.error().what.find(each.told), std::string::npos) << listing.error().what;
        EXPECT_EQ(hub.requests().size(), each.tries) << each.told;
    }
}

TEST_F(hub_cache_of_a_hub, redirects_in_a_circle_end) {
    hub_.answer_api(hub_reply(302, "Location: /api/again\r\n"), 20);
    const auto listing = hub_client(quick(hub_)).list(repository, "main");
    ASSERT_FALSE(listing);
    EXPECT_NE(listing.error().what.find("more than 5 times"), std::string::npos);
    EXPECT_EQ(hub_.requests().size(), 6U);
}

TEST_F(hub_cache_of_a_hub, paths_sizes_and_digests_that_would_leave_the_folder_are_refused) {
    const std::string good(64, 'a');
    const auto listed = [&](const std::string& path, const std::string& digest,
                            const std::string& size) {
        hub_server hub;
        hub.answer_api(hub_reply(200, "", "{\"sha\":\"" + hub.commit + "\"}"));
        hub.answer_api(hub_reply(200, "",
                                 "[{\"type\":\"file\",\"path\":\"" + path +
                                     "\",\"lfs\":{\"oid\":\"" + digest + "\",\"size\":" + size +
                                     "}}]"));
        return hub_client(quick(hub)).list(repository, "main").has_value();
    };
    EXPECT_TRUE(listed("a/b.gguf", good, "5"));
    EXPECT_TRUE(listed("a", good, "1125899906842624"));
    EXPECT_FALSE(listed("a", good, "1125899906842625"));
    EXPECT_FALSE(listed("a", good, "-1"));
    EXPECT_FALSE(listed("a", good, "1.5"));
    for (const char* path : {"", "/etc/passwd", "../a", "a/../../b", "a//b", "a/", "./a", "a/.",
                             "a\\\\b", "a\\u0000b", "a\\nb"})
        EXPECT_FALSE(listed(path, good, "5")) << path;
    EXPECT_TRUE(listed(std::string(512, 'p'), good, "5"));
    EXPECT_FALSE(listed(std::string(513, 'p'), good, "5"));
    EXPECT_FALSE(listed("a", std::string(63, 'a'), "5"));
    EXPECT_FALSE(listed("a", "../" + std::string(61, 'a'), "5"));
    EXPECT_FALSE(listed("a", std::string(64, 'G'), "5"));
}

TEST_F(hub_cache_of_a_hub, names_that_no_repository_can_have_ask_nothing) {
    for (const char* name :
         {"", "a/b/c", "../a", "a/..", "a b/c", "a/b?x=1", "a/b#c", "-a/b", "a--b/c", "a/", "/a"}) {
        const auto listing = hub_client(quick(hub_)).list(name, "main");
        ASSERT_FALSE(listing) << name;
        EXPECT_EQ(listing.error().code, errc::bad_value) << name;
    }
    EXPECT_TRUE(hub_.requests().empty());
}

TEST_F(hub_cache_of_a_hub, a_disk_without_room_is_told_before_a_byte_is_asked_for) {
    hub_.add("a.gguf", "x", true);
    const hub_client client(quick(hub_));
    auto listing = client.list(repository, "main").value();
    listing.files[0].bytes = std::uint64_t{1} << 49;
    const auto fetched = cache().fetch(client, repository, listing.commit, listing.files, {}, {});
    ASSERT_FALSE(fetched);
    EXPECT_EQ(fetched.error().code, errc::out_of_space);
    EXPECT_NE(fetched.error().what.find("562949953 MB are to be fetched"), std::string::npos)
        << fetched.error().what;
    EXPECT_EQ(hub_.requests_for("/resolve/"), 0U);
}

TEST_F(hub_cache_of_a_hub, two_fetches_from_one_repository_do_not_run_at_once) {
    hub_.add("a.gguf", random_bytes(1'000'000, 15), true);
    hub_.order({.pause = milliseconds(60)});
    std::jthread first([&] { EXPECT_TRUE(fetch()); });
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (hub_.requests_for("/cdn/") == 0 && std::chrono::steady_clock::now() < until)
        std::this_thread::sleep_for(milliseconds(5));
    const hub_client client(quick(hub_));
    const auto listing = client.list(repository, "main").value();
    const auto second = cache().fetch(client, repository, listing.commit, listing.files, {}, {});
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, errc::locked) << second.error().what;
}

}  // namespace
}  // namespace semantic::storage
