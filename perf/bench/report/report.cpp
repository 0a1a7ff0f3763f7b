// SPDX-License-Identifier: Apache-2.0
#include "perf/bench/report/report.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <sys/utsname.h>
#include <thread>

namespace semantic::bench {
namespace {

namespace json = boost::json;

std::string number_text(double value) {
    std::array<char, 48> text{};
    // About four significant digits, never an exponent.
    const double size = std::abs(value);
    const int decimals = size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : size >= 1 ? 3 : 4;
    std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
    return text.data();
}

std::string cell_text(const cell& value) {
    if (const auto* count = std::get_if<std::int64_t>(&value)) return std::to_string(*count);
    if (const auto* number = std::get_if<double>(&value)) return number_text(*number);
    if (const auto* text = std::get_if<std::string>(&value)) return *text;
    return "-";
}

json::value cell_json(const cell& value) {
    if (const auto* count = std::get_if<std::int64_t>(&value)) return *count;
    if (const auto* number = std::get_if<double>(&value)) return *number;
    if (const auto* text = std::get_if<std::string>(&value)) return json::value(*text);
    return nullptr;
}

std::string csv_field(const std::string& text) {
    if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
    std::string quoted = "\"";
    for (const char c : text) {
        if (c == '"') quoted += '"';
        quoted += c;
    }
    return quoted + '"';
}

/// Rounded to microseconds: times from a socket are no more exact.
double rounded(double seconds) { return std::round(seconds * 1e6) / 1e6; }

json::object sample_json(const sample& s) {
    const generation& g = s.result;
    json::array content;
    for (const double seconds : g.content_s) content.push_back(rounded(seconds));
    return {{"phase", s.phase},
            {"target", s.target},
            {"sent_at_s", rounded(g.sent_at)},
            {"first_byte_s", rounded(g.first_byte_s)},
            {"first_s", rounded(g.first_s)},
            {"last_s", rounded(g.last_s)},
            {"end_s", rounded(g.end_s)},
            {"prompt_tokens", g.prompt_tokens},
            {"cached_tokens", g.cached_reported ? json::value(g.cached_tokens) : json::value()},
            {"output_tokens", g.output_tokens},
            {"stop_reason", g.stop_reason},
            {"content_s", std::move(content)}};
}

json::object table_json(const table& t) {
    json::array columns(t.columns.begin(), t.columns.end());
    json::array rows;
    for (const auto& row : t.rows) {
        json::array cells;
        for (const cell& value : row) cells.push_back(cell_json(value));
        rows.push_back(std::move(cells));
    }
    return {{"title", t.title}, {"columns", std::move(columns)}, {"rows", std::move(rows)}};
}

void write_file(const std::filesystem::path& path, const std::string& text) {
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file << text;
    file.close();
    if (!file) throw std::runtime_error("cannot write " + path.string());
}

/// The text after the colon of the first line of `path` that starts with `key`.
std::string proc_value(const char* path, std::string_view key) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
        if (!line.starts_with(key)) continue;
        const auto value = line.find_first_not_of(" \t", line.find(':') + 1);
        return value == std::string::npos ? "" : line.substr(value);
    }
    return {};
}

/// The width of UTF-8 text in columns: its bytes that do not continue a character.
std::size_t columns_of(std::string_view text) {
    return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
        return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
    }));
}

}  // namespace

machine this_machine() {
    machine m;
    m.cpu = proc_value("/proc/cpuinfo", "model name");
    m.cores = std::thread::hardware_concurrency();
    const std::string total = proc_value("/proc/meminfo", "MemTotal");
    if (!total.empty()) m.ram_bytes = std::atoll(total.c_str()) * 1024;
    std::ifstream("/proc/loadavg") >> m.load_average;
    utsname names{};
    if (uname(&names) == 0) m.kernel = std::string(names.sysname) + " " + names.release;
    return m;
}

void report::note(std::string text) {
    if (std::find(notes.begin(), notes.end(), text) == notes.end())
        notes.push_back(std::move(text));
}

std::string render_text(const table& shown) {
    std::vector<std::size_t> widths;
    for (const std::string& column : shown.columns) widths.push_back(columns_of(column));
    for (const auto& row : shown.rows) {
        for (std::size_t i = 0; i < row.size() && i < widths.size(); ++i) {
            widths[i] = std::max(widths[i], columns_of(cell_text(row[i])));
        }
    }
    const auto line = [&](const auto& texts) {
        std::string out;
        for (std::size_t i = 0; i < texts.size() && i < widths.size(); ++i) {
            const std::string padding(widths[i] - columns_of(texts[i]), ' ');
            // The first column names the row; the others are numbers.
            if (i > 0) out.append("  ").append(padding);
            out += texts[i];
            if (i == 0) out += padding;
        }
        return out + "\n";
    };
    std::string text = shown.title + "\n" + line(shown.columns);
    for (const auto& row : shown.rows) {
        std::vector<std::string> texts;
        for (const cell& value : row) texts.push_back(cell_text(value));
        text += line(texts);
    }
    return text;
}

std::string render_csv(const table& shown) {
    std::string csv;
    for (std::size_t i = 0; i < shown.columns.size(); ++i) {
        if (i > 0) csv += ',';
        csv += csv_field(shown.columns[i]);
    }
    csv += '\n';
    for (const auto& row : shown.rows) {
        for (std::size_t i = 0; i < row.size(); ++i) {
            const bool empty = std::holds_alternative<std::monostate>(row[i]);
            if (i > 0) csv += ',';
            if (!empty) csv += csv_field(cell_text(row[i]));
        }
        csv += '\n';
    }
    return csv;
}

std::string render_samples_csv(const std::vector<sample>& samples) {
    std::string csv =
        "phase,target,sent_at_s,first_byte_s,first_s,last_s,end_s,prompt_tokens,cached_tokens,"
        "output_tokens,"
        "content_deltas,stop_reason\n";
    for (const sample& s : samples) {
        const generation& g = s.result;
        csv.append(csv_field(s.phase)).append(",").append(std::to_string(s.target));
        for (const double seconds : {g.sent_at, g.first_byte_s, g.first_s, g.last_s, g.end_s}) {
            std::array<char, 48> text{};
            std::snprintf(text.data(), text.size(), ",%.6f", seconds);
            csv += text.data();
        }
        csv.append(",").append(std::to_string(g.prompt_tokens)).append(",");
        if (g.cached_reported) csv += std::to_string(g.cached_tokens);
        csv.append(",").append(std::to_string(g.output_tokens));
        csv.append(",").append(std::to_string(g.content_s.size()));
        csv.append(",").append(csv_field(g.stop_reason)).append("\n");
    }
    return csv;
}

std::string render_json(const report& shown) {
    json::array tables;
    json::array samples;
    for (const table& t : shown.tables) tables.push_back(table_json(t));
    for (const sample& s : shown.samples) samples.push_back(sample_json(s));
    const json::object whole{
        {"program", "semantic-bench"},
        {"command", shown.command},
        {"command_line", shown.command_line},
        {"date", shown.date},
        {"server",
         json::object{{"url", shown.url}, {"api", shown.api_name}, {"model", shown.model}}},
        {"machine", json::object{{"cpu", shown.where.cpu},
                                 {"cores", shown.where.cores},
                                 {"ram_bytes", shown.where.ram_bytes},
                                 {"kernel", shown.where.kernel},
                                 {"load_average", shown.where.load_average}}},
        {"complete", shown.complete},
        {"notes", json::array(shown.notes.begin(), shown.notes.end())},
        {"tables", std::move(tables)},
        {"samples", std::move(samples)}};
    return json::serialize(whole) + "\n";
}

std::vector<std::string> write_report(const report& shown, const std::string& folder) {
    const std::filesystem::path base(folder);
    std::error_code error;
    std::filesystem::create_directories(base, error);
    if (error) throw std::runtime_error("cannot make " + folder + ": " + error.message());
    std::vector<std::pair<std::string, std::string>> files{
        {shown.command + ".json", render_json(shown)},
        {shown.command + "-samples.csv", render_samples_csv(shown.samples)}};
    for (std::size_t i = 0; i < shown.tables.size(); ++i) {
        std::string number;
        if (i > 0) number.append("-").append(std::to_string(i + 1));
        files.emplace_back(shown.command + number + ".csv", render_csv(shown.tables[i]));
    }
    for (const plot& p : shown.plots) files.emplace_back(p.file_stem + ".svg", render_svg(p));
    std::vector<std::string> names;
    for (const auto& [name, text] : files) {
        write_file(base / name, text);
        names.push_back((base / name).string());
    }
    return names;
}

}  // namespace semantic::bench
