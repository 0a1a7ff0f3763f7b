// SPDX-License-Identifier: Apache-2.0
// cache: what memory costs. Bytes written a turn, restoring against plain reading, bytes a token in
// RAM and on disk, agents with a prefix in common.

#include <optional>
#include <string>
#include <vector>

#include "perf/bench/measure/file_speed.hpp"
#include "perf/bench/measure/kv_size.hpp"
#include "perf/bench/measure/measure.hpp"
#include "perf/bench/report/statistics.hpp"

namespace semantic::bench {
namespace {

namespace net = boost::asio;

constexpr double to_ms = 1000;
constexpr double to_kib = 1.0 / 1024;
constexpr double to_gb = 1e-9;
constexpr double to_mb = 1e-6;

/// A turn, and how the server's counters grew by it.
struct written_turn {
    generation answer;
    std::optional<double> bytes;       // written
    std::optional<double> ram_bytes;   // growth of what is held in RAM
    std::optional<double> disk_bytes;  // growth of the cache directory
};

/// Takes a turn, and reads the counters once the server has written what it writes for it.
net::awaitable<written_turn> say_written(bench_run& run, conversation& talk, std::string text,
                                         std::string phase, std::int64_t target) {
    const std::vector<std::string> names{run.opts.written_metric, run.opts.pool_metric,
                                         run.opts.directory_metric};
    const auto before = co_await run.counters(names);
    written_turn turn;
    turn.answer =
        co_await run.say(talk, std::move(text), run.opts.decode_tokens, std::move(phase), target);
    co_await run.settled_counter(run.opts.written_metric);
    const auto after = co_await run.counters(names);
    turn.bytes = growth(before[0], after[0]);
    turn.ram_bytes = growth(before[1], after[1]);
    turn.disk_bytes = growth(before[2], after[2]);
    co_return turn;
}

cell scaled_cell(const std::optional<double>& value, double unit) {
    if (!value) return {};
    return *value * unit;
}

/// Adds a row with what was written for a turn.
void add_written_row(table& t, const written_turn& turn, const std::string& phase) {
    const generation& g = turn.answer;
    const double fresh = static_cast<double>(g.computed_tokens() + g.output_tokens);
    t.rows.push_back({phase, g.prompt_tokens, g.cached_tokens, count_cell(fresh), g.first_s,
                      scaled_cell(turn.bytes, to_kib),
                      turn.bytes ? ratio_cell(*turn.bytes, fresh) : cell()});
}

/// Adds a row with the bytes a token that a new conversation takes.
void add_size_row(table& t, const written_turn& cold, double fp16_bytes) {
    const auto tokens = static_cast<double>(cold.answer.prompt_tokens + cold.answer.output_tokens);
    const auto each = [&](const std::optional<double>& bytes) -> std::optional<double> {
        if (!bytes || *bytes <= 0) return std::nullopt;  // something else has left meanwhile
        return *bytes / tokens;
    };
    const auto ram = each(cold.ram_bytes), disk = each(cold.disk_bytes);
    t.rows.push_back({count_cell(tokens), scaled_cell(ram, 1), scaled_cell(disk, 1),
                      fp16_bytes > 0 ? count_cell(fp16_bytes) : cell(), saved_cell(ram, fp16_bytes),
                      saved_cell(disk, fp16_bytes)});
}

/// The sum of a number of all turns; nothing where one of them lacks it.
std::optional<double> sum(const std::vector<warm_turn>& turns,
                          std::optional<double> warm_turn::*member) {
    double total = 0;
    for (const warm_turn& each : turns) {
        if (!(each.*member)) return std::nullopt;
        total += *(each.*member);
    }
    return total;
}

/// Adds a row that compares turns from memory and from disk with plain reading of the files.
void add_restored_row(table& t, std::int64_t context, const std::vector<generation>& hot,
                      const std::vector<warm_turn>& warm, const read_speed& plain) {
    const double hot_s = median(firsts(hot));
    const auto plain_bytes = static_cast<double>(plain.bytes) * to_gb;
    if (warm.empty()) {
        t.rows.push_back({context, hot_s * to_ms, cell(), cell(), cell(), cell(), cell(), cell(),
                          ratio_cell(plain_bytes, plain.cached_s),
                          ratio_cell(plain_bytes, plain.disk_s)});
        return;
    }
    std::vector<generation> answers;
    for (const warm_turn& each : warm) answers.push_back(each.answer);
    const double warm_s = median(firsts(answers));
    const auto read = sum(warm, &warm_turn::read_bytes), time = sum(warm, &warm_turn::restore_s);
    const warm_turn& last = warm.back();
    t.rows.push_back(
        {context, hot_s * to_ms, warm_s * to_ms, ratio_cell(warm_s, hot_s),
         last.answer.cached_tokens, last.from_disk ? count_cell(*last.from_disk) : cell(),
         scaled_cell(last.read_bytes, to_mb),
         read && time ? ratio_cell(*read * to_gb, *time) : cell(),
         ratio_cell(plain_bytes, plain.cached_s), ratio_cell(plain_bytes, plain.disk_s)});
}

/// The tables and the plot to which each conversation adds.
struct cache_tables {
    table& written;
    table& restored;
    table& sizes;
    plot& lines;
    double fp16_bytes = 0;  // of a token; 0: not known
};

/// Measures one conversation of `context` tokens: its first turn, and later ones from memory and
/// from disk.
net::awaitable<void> measure_context(bench_run& run, cache_tables& to, std::int64_t context) {
    const auto since = std::filesystem::file_time_type::clock::now();
    conversation talk = run.new_conversation();
    const written_turn cold =
        co_await say_written(run, talk, run.cold_text(context), "cold", context);
    add_written_row(to.written, cold, "cold");
    add_size_row(to.sizes, cold, to.fp16_bytes);
    if (!cold.bytes) run.out.note("The server tells no " + run.opts.written_metric + ".");
    const auto x = static_cast<double>(cold.answer.prompt_tokens);
    if (cold.bytes) to.lines.lines[0].points.emplace_back(x, *cold.bytes * to_kib);
    std::vector<generation> hot;
    std::vector<warm_turn> warm;
    std::vector<double> written;
    // Hot and warm turns alternate, so that a machine that is busy for a while slows both.
    for (std::int64_t i = 0; i < run.opts.turns; ++i) {
        const written_turn turn =
            co_await say_written(run, talk, run.turn_text(run.opts.turn_tokens), "hot", context);
        add_written_row(to.written, turn, "hot " + std::to_string(i + 1));
        hot.push_back(turn.answer);
        if (turn.bytes) written.push_back(*turn.bytes * to_kib);
        const auto again = co_await say_warm(run, talk, context);
        if (again) warm.push_back(*again);
        co_await run.settled_counter(run.opts.written_metric);
    }
    if (!written.empty()) to.lines.lines[1].points.emplace_back(x, median(written));
    read_speed plain;
    if (!run.opts.cache_dir.empty()) plain = read_plainly(run.opts.cache_dir, since);
    add_restored_row(to.restored, cold.answer.prompt_tokens, hot, warm, plain);
}

/// Measures the RAM of agents that have a long prefix in common and a text of their own after it.
net::awaitable<void> measure_sharing(bench_run& run, table& t) {
    const options& opts = run.opts;
    const std::int64_t tokens = opts.shared_tokens + opts.turn_tokens + opts.decode_tokens;
    if (opts.shared_agents == 0 || !run.fits(tokens, opts.shared_tokens)) co_return;
    const std::string prefix = run.cold_text(opts.shared_tokens);
    const auto before = co_await run.settled_counter(opts.pool_metric);
    std::optional<double> one;
    generation last;
    for (std::int64_t i = 0; i < opts.shared_agents; ++i) {
        conversation talk = run.new_conversation();
        std::string text = prefix + " " + run.turn_text(opts.turn_tokens);
        last = co_await run.say(talk, std::move(text), opts.decode_tokens, "shared",
                                opts.shared_tokens);
        if (i == 0) one = growth(before, co_await run.settled_counter(opts.pool_metric));
    }
    const auto all = growth(before, co_await run.settled_counter(opts.pool_metric));
    const auto apart = static_cast<double>(opts.shared_agents);
    t.rows.push_back({opts.shared_agents, last.prompt_tokens, last.cached_tokens,
                      scaled_cell(one, to_kib), scaled_cell(all, to_kib),
                      one && all ? ratio_cell(*all, *one) : cell(),
                      one && all ? ratio_cell(*all, *one * apart) : cell()});
}

}  // namespace

net::awaitable<void> measure_cache(bench_run& run) {
    table& written = run.out.tables.emplace_back();
    written = {"Bytes written a turn",
               {"turn", "context", "reused", "new tokens", "first token s", "written KiB",
                "bytes a new token"},
               {}};
    table& restored = run.out.tables.emplace_back();
    restored = {"A turn from memory and from disk; restoring beside plain reading of the files",
                {"context", "hot ms", "warm ms", "warm/hot", "warm reused", "from disk", "read MB",
                 "restore GB/s", "page cache GB/s", "disk GB/s"},
                {}};
    table& sizes = run.out.tables.emplace_back();
    sizes = {"Bytes of memory for a token",
             {"tokens", "in RAM", "on disk", "KV at 16 bit", "RAM saved %", "disk saved %"},
             {}};
    table& shared = run.out.tables.emplace_back();
    shared = {"RAM of agents with a prefix in common",
              {"agents", "tokens of each", "reused", "KiB of the first", "KiB of all", "all/first",
               "all/apart"},
              {}};
    plot& p = run.out.plots.emplace_back();
    p = {"cache",
         "Bytes written",
         "context, tokens",
         "KiB",
         true,
         true,
         {},
         {{"first turn", {}}, {"a later turn", {}}}};
    cache_tables to{written, restored, sizes, p};
    if (!run.opts.model_config.empty()) to.fp16_bytes = fp16_token_bytes(run.opts.model_config);
    const std::int64_t more =
        (2 * run.opts.turns + 1) * (run.opts.turn_tokens + run.opts.decode_tokens + 16);
    for (const std::int64_t context : run.opts.lengths) {
        if (!run.fits(context + more, context)) continue;
        for (std::int64_t r = 0; r < run.opts.repeats; ++r)
            co_await measure_context(run, to, context);
    }
    co_await measure_sharing(run, shared);
}

}  // namespace semantic::bench
