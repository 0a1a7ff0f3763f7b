// SPDX-License-Identifier: Apache-2.0
#include "protocol/wire/time_text.hpp"

#include <cstdio>

namespace semantic::protocol {

namespace {

/// "2026-11-20T12:00:00", without a zone.
std::string local_text(std::chrono::sys_seconds moment) {
    using namespace std::chrono;
    auto day = floor<days>(moment);
    year_month_day date(day);
    hh_mm_ss clock(moment - day);
    char text[64];
    std::snprintf(text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02d", int(date.year()),
                  unsigned(date.month()), unsigned(date.day()), int(clock.hours().count()),
                  int(clock.minutes().count()), int(clock.seconds().count()));
    return text;
}

}  // namespace

std::string time_text(std::int64_t unix_seconds) {
    return local_text(std::chrono::sys_seconds(std::chrono::seconds(unix_seconds))) + "Z";
}

std::string time_text(std::chrono::system_clock::time_point time) {
    using namespace std::chrono;
    const auto moment = floor<seconds>(time);
    char fraction[16];
    std::snprintf(fraction, sizeof fraction, ".%06dZ",
                  int(duration_cast<microseconds>(time - moment).count()));
    return local_text(moment) + fraction;
}

}  // namespace semantic::protocol
