// SPDX-License-Identifier: Apache-2.0
#include "protocol/scenarios/run_record.hpp"

#include <boost/json.hpp>

#include <limits>

#include "protocol/coordination/opening.hpp"
#include "protocol/reply_parts.hpp"
#include "protocol/wire/fields.hpp"
#include "protocol/wire/json.hpp"

namespace semantic::protocol::scenarios {

namespace json = boost::json;

namespace {

constexpr std::string_view record_kind = "scenario_run";
// No bound: this server wrote the record, within its own bounds.
constexpr std::size_t anything = std::numeric_limits<std::size_t>::max();

// A record's fields, before the scenario is parsed.
struct raw_run {
    std::string id, yaml, request;
};

raw_run read_raw_run(const json_cursor& root) {
    const json_cursor format = root.at("format");
    if (format.ok() && format.as_integer(0, run_record_format) != run_record_format)
        format.fail(errc::bad_value, "is another format than this server's");
    if (root.ok() && string_at(root, "record") != record_kind)
        root.place("record").fail(errc::bad_value, "is no run of a scenario");
    raw_run out{string_at(root, "id"), string_at(root, "yaml"), string_at(root, "request")};
    if (root.ok() && !coordination::is_name(out.id))
        root.place("id").fail(errc::bad_value, "is no run's id");
    return out;
}

}  // namespace

std::string to_record(const kept_run& run) {
    return to_text(json::object{{"format", run_record_format},
                                {"record", record_kind},
                                {"id", run.id},
                                {"yaml", run.scenario.source},
                                {"request", run.request}});
}

result<kept_run> kept_run_of(std::string_view record) {
    auto raw = read_object(record, json_limits{.bytes_max = anything, .values_max = anything},
                           read_raw_run);
    if (!raw) return raw.error();
    auto scenario = parse_scenario(raw->yaml);
    if (!scenario) return scenario.error();
    return kept_run{std::move(raw->id), std::move(*scenario), std::move(raw->request)};
}

}  // namespace semantic::protocol::scenarios
