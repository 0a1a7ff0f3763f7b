// SPDX-License-Identifier: Apache-2.0
// sweep: removes from an object store what no machine's agents need any more.

#include <cstdio>

#include "server/eval/command_line.hpp"
#include "storage/objects/agents/object_sweep.hpp"
#include "storage/objects/encryption/encrypted_objects.hpp"
#include "storage/objects/open_object_store.hpp"

namespace semantic::eval {

namespace po = boost::program_options;

namespace {

constexpr int hours_max = 24 * 365 * 10;
constexpr int days_max = 365 * 10;

unsigned long long printed(std::uint64_t number) { return number; }

/// Opens the object store. Throws bad_input.
std::unique_ptr<storage::object_store> open(const std::string& url, const std::string& key_file) {
    auto opened =
        storage::open_object_store(url, storage::process_environment, storage::posix_file_system());
    if (!opened) throw bad_input("--object-store: " + opened.error().what);
    auto store =
        storage::encrypted_with(std::move(*opened), storage::posix_file_system(), key_file);
    if (!store) throw bad_input("--object-store-key-file: " + store.error().what);
    return std::move(*store);
}

void print(const storage::sweep_report& report, bool only_looks) {
    std::printf("manifests   %llu\n", printed(report.manifests));
    std::printf("tombstones  %llu\n", printed(report.tombstones));
    std::printf("blocks      %llu\n", printed(report.blocks));
    std::printf("unneeded    %llu\n", printed(report.unneeded));
    std::printf("%s %llu, %llu bytes\n", only_looks ? "would go   " : "removed    ",
                printed(report.removed), printed(report.removed_bytes));
    if (report.unreadable > 0)
        std::printf("nothing goes while %llu manifests cannot be read\n",
                    printed(report.unreadable));
}

}  // namespace

int run_sweep(const command& self, const std::vector<std::string>& words) {
    options given(self);
    given.add()("object-store", po::value<std::string>()->required()->value_name("URL"),
                "as semantic-server's");
    given.add()("object-store-key-file",
                po::value<std::string>()->default_value("")->value_name("FILE"),
                "as semantic-server's");
    given.add()("grace-hours", po::value<int>()->default_value(24)->value_name("HOURS"),
                "how long nobody must have needed a block, as far as sweeps have seen");
    given.add()("tombstone-days", po::value<int>()->default_value(90)->value_name("DAYS"),
                "how long an erased agent's tombstone stays; a machine that was not there for as "
                "long brings its agent back");
    given.add()("dry-run", "only say what would go");
    if (!given.parse(words)) return 0;
    storage::sweep_options how;
    how.grace = std::chrono::hours(given.number("grace-hours", 1, hours_max));
    how.tombstone_grace = std::chrono::hours(24 * given.number("tombstone-days", 1, days_max));
    how.only_looks = given.has("dry-run");
    const auto store = open(given.get<std::string>("object-store"),
                            given.get<std::string>("object-store-key-file"));
    const auto report = storage::sweep_objects(*store, how);
    if (!report) throw bad_input(report.error().what);
    print(*report, how.only_looks);
    return report->unreadable > 0 ? 1 : 0;
}

}  // namespace semantic::eval
