// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a run found: tables, plots and every sample, and their three written forms. Pure but for
// write_report and this_machine.

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "perf/bench/client/dialect.hpp"
#include "perf/bench/report/svg_plot.hpp"

namespace semantic::bench {

/// A value of a table; empty ("-"): it could not be measured.
using cell = std::variant<std::monostate, std::int64_t, double, std::string>;

struct table {
    std::string title;
    std::vector<std::string> columns;  // name and unit: "prefill tok/s"
    std::vector<std::vector<cell>> rows;
};

struct sample {
    std::string phase;        // the kind of request: "cold", "hot", "A with B cold"
    std::int64_t target = 0;  // the point's number: context, prompt length, agents
    generation result;
};

struct machine {
    std::string cpu;
    std::string kernel;
    unsigned cores = 0;
    std::int64_t ram_bytes = 0;
    double load_average = 0;  // of the last minute, before the run
};
/// This machine, which is also the server's.
machine this_machine();

struct report {
    std::string command;
    std::string command_line;
    std::string date;  // UTC, ISO 8601
    std::string url;
    std::string api_name;
    std::string model;
    machine where;
    bool complete = false;     // false: ended early, by the last note's reason
    std::deque<table> tables;  // references stay valid while rows are added
    std::deque<plot> plots;
    std::vector<sample> samples;
    std::vector<std::string> notes;

    /// Adds a note, unless it is there.
    void note(std::string text);
};

/// The table as text with aligned columns.
std::string render_text(const table& shown);
std::string render_csv(const table& shown);
std::string render_json(const report& shown);
/// A CSV with a line for each sample.
std::string render_samples_csv(const std::vector<sample>& samples);

/// Writes COMMAND.json, COMMAND.csv (COMMAND-2.csv, ... for further tables), COMMAND-samples.csv
/// and the plots into `folder`, which is made if need be. Returns: the files' names.
/// Errors: std::runtime_error that names the file.
std::vector<std::string> write_report(const report& shown, const std::string& folder);

}  // namespace semantic::bench
