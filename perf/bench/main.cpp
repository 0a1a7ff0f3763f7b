// SPDX-License-Identifier: Apache-2.0
// semantic-bench: load and latency client for servers that stream over the Anthropic Messages or
// the OpenAI chat completions API.

#include <algorithm>
#include <exception>
#include <iostream>

#include "perf/bench/client/errors.hpp"
#include "perf/bench/measure/options.hpp"
#include "perf/bench/measure/run.hpp"
#include "perf/bench/report/report.hpp"

namespace {

namespace bench = semantic::bench;

/// Prints tables and notes.
void print(const bench::report& r) {
    std::cout << "semantic-bench " << r.command << ", " << r.url << " (" << r.api_name
              << "), model " << r.model << "\n"
              << r.where.cpu << ", " << r.where.cores << " cores, load " << r.where.load_average
              << " before the run, " << r.date << "\n";
    for (const bench::table& t : r.tables) std::cout << '\n' << render_text(t);
    if (!r.notes.empty()) std::cout << '\n';
    for (const std::string& note : r.notes) std::cout << "note: " << note << '\n';
}

bool found_something(const bench::report& r) {
    const auto has_rows = [](const bench::table& t) { return !t.rows.empty(); };
    return !r.samples.empty() || std::ranges::any_of(r.tables, has_rows);
}

/// Runs a subcommand, prints what it found, and writes it where --out says. Returns: the exit
/// status.
int run_command(const bench::options& opts) {
    const bench::outcome result = bench::run(opts);
    if (found_something(result.found)) {
        print(result.found);
        if (!opts.out_dir.empty()) {
            for (const std::string& file : write_report(result.found, opts.out_dir)) {
                std::cout << "wrote " << file << '\n';
            }
        }
    }
    if (result.status != 0) std::cerr << "semantic-bench: " << result.failure << '\n';
    return result.status;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        const auto parsed = bench::parse_options(argc, argv);
        if (!parsed.help.empty()) {
            std::cout << parsed.help << '\n';
            return 0;
        }
        return run_command(parsed.opts);
    } catch (const bench::usage_error& error) {
        std::cerr << "semantic-bench: " << error.what() << '\n';
        return 2;
    } catch (const std::exception& error) {
        std::cerr << "semantic-bench: " << error.what() << '\n';
        return 1;
    }
}
