// SPDX-License-Identifier: Apache-2.0
#include "storage/objects/agents/object_sweep.hpp"

#include <charconv>
#include <functional>

#include "storage/disk/manifest.hpp"
#include "storage/objects/agents/common_secret.hpp"

namespace semantic::storage {

namespace {

constexpr std::string_view first_line = "semantic-sweep 1 ";

using named_object = std::function<object_result<void>(const listed_object&)>;

/// Blocks. Calls `visit` with each object whose name begins with `prefix`, page by page, until it
/// fails.
object_result<void> for_each_object(object_store& objects, const std::string& prefix,
                                    const named_object& visit) {
    std::string from;
    do {
        const auto page = objects.list(prefix, from, object_page_max);
        if (!page) return page.error();
        for (const listed_object& each : page->objects)
            if (auto ok = visit(each); !ok) return ok;
        from = page->next;
    } while (!from.empty());
    return {};
}

/// What all manifests in the store need, and the tombstones among them.
struct needs {
    std::set<std::string> blocks;
    std::map<std::string, std::uint64_t> tombstones;  // their bytes
    std::uint64_t manifests = 0;
    std::uint64_t unreadable = 0;
};

/// Blocks. Reads every manifest in the store. One that cannot be decoded is counted as unreadable.
object_result<needs> find_needs(object_store& objects) {
    needs found;
    const auto visit = [&](const listed_object& each) -> object_result<void> {
        std::string bytes;
        const auto got = objects.get(each.name, bytes);
        // It was removed since it was listed.
        if (!got && got.error().code == object_errc::not_found) return {};
        if (!got && got.error().code != object_errc::corrupt) return got.error();
        if (got && bytes == tombstone) {
            found.tombstones.emplace(each.name, each.bytes);
            return {};
        }
        ++found.manifests;
        const auto decoded = got ? decode_manifest(bytes) : failure{errc::corrupt, {}};
        if (!decoded) {
            ++found.unreadable;
            return {};
        }
        for (agent_part_file& file : files_of(decoded->agent))
            found.blocks.insert(std::move(file.path));
        return {};
    };
    if (auto ok = for_each_object(objects, "agents/", visit); !ok) return ok.error();
    return found;
}

/// Takes a number off the front of `text`. Returns: whether there was one.
bool parse_number(std::string_view& text, auto& number) {
    const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (wrong != std::errc()) return false;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return true;
}

/// Takes the first line off `text`. Returns: the line without its break; nothing where no line
/// ends.
std::optional<std::string_view> take_line(std::string_view& text) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    return line;
}

/// One sweep, from the notice that it found in the store.
class sweep {
  public:
    sweep(object_store& objects, const sweep_options& options, seen_notice seen)
        : objects_(objects),
          options_(options),
          now_(std::chrono::duration_cast<std::chrono::seconds>(options.now.time_since_epoch())
                   .count()),
          seen_(std::move(seen)) {}

    /// Blocks. Errors: as sweep_objects().
    object_result<sweep_report> run() {
        if (!seen_.notice.going.empty() && seen_.notice.began + options_.dead_after.count() > now_)
            return under_way();
        auto needed = find_needs(objects_);
        if (!needed) return needed.error();
        report_.manifests = needed->manifests;
        report_.tombstones = needed->tombstones.size();
        report_.unreadable = needed->unreadable;
        auto going = find_unneeded(*needed);
        if (!going) return going.error();
        report_.unneeded = unneeded_.size();
        for (const auto& [name, bytes] : *going) {
            ++report_.removed;
            report_.removed_bytes += bytes;
        }
        if (options_.only_looks) return report_;
        if (auto ok = remove(*going); !ok) return ok.error();
        return report_;
    }

  private:
    using sizes = std::map<std::string, std::uint64_t>;

    /// Finds the objects that nobody needs now and notes since when that is so. Returns: those that
    /// may be removed, with their bytes: unneeded for their grace period, or announced by a sweep
    /// that died. None while a manifest is unreadable.
    object_result<sizes> find_unneeded(const needs& needed) {
        sizes going;
        const auto note = [&](const std::string& name, std::uint64_t bytes,
                              std::chrono::seconds grace) {
            const auto since = seen_.notice.unneeded.find(name);
            const std::int64_t first = since != seen_.notice.unneeded.end() ? since->second : now_;
            unneeded_.emplace(name, first);
            const bool may_go = first + grace.count() <= now_ || seen_.notice.going.contains(name);
            if (may_go && needed.unreadable == 0) going.emplace(name, bytes);
        };
        for (const auto& [name, bytes] : needed.tombstones)
            note(name, bytes, options_.tombstone_grace);
        const auto visit = [&](const listed_object& each) -> object_result<void> {
            ++report_.blocks;
            if (!needed.blocks.contains(each.name)) note(each.name, each.bytes, options_.grace);
            return {};
        };
        if (auto ok = for_each_object(objects_, "blocks/", visit); !ok) return ok.error();
        return going;
    }

    static object_failure under_way() {
        return {object_errc::precondition_failed, "another sweep is under way"};
    }

    /// Blocks. Replaces the notice in the store; `going`: what is removed from now on, empty at the
    /// end of a sweep. Errors: precondition_failed, where another sweep has written it meanwhile.
    object_result<void> write(std::set<std::string> going) {
        // Another sweep takes this one for dead some time after this notice, so the notice has the
        // time at which it is written and not that at which the sweep began to read.
        const auto since = std::chrono::steady_clock::now() - begun_;
        const auto now = now_ + std::chrono::duration_cast<std::chrono::seconds>(since).count();
        sweep_notice next{now, std::move(going), unneeded_};
        auto put = objects_.put(sweep_notice::name, encode_sweep_notice(next),
                                seen_.version.empty() ? if_absent() : if_version(seen_.version));
        if (!put && put.error().code == object_errc::precondition_failed) return under_way();
        if (!put) return put.error();
        seen_ = {std::move(next), std::move(*put)};
        return {};
    }

    /// Blocks. Announces what goes, reads all manifests once more, and removes what is still not
    /// needed.
    object_result<void> remove(const sizes& going) {
        std::set<std::string> names;
        for (const auto& [name, bytes] : going) names.insert(name);
        const auto announced = std::chrono::steady_clock::now();
        if (auto ok = write(names); !ok) return ok;
        if (names.empty()) return {};
        // A manifest that was put before the notice is found now. A writer that puts one later sees
        // the notice and uploads its blocks again after the sweep.
        const auto needed = find_needs(objects_);
        if (!needed) return needed.error();
        for (const auto& [name, bytes] : going) {
            // Another sweep may begin after dead_after, so this one must not go on for so long.
            if (std::chrono::steady_clock::now() - announced > options_.dead_after / 2)
                return object_failure{object_errc::unavailable, "the object store is too slow"};
            const bool is_tombstone = name.starts_with("agents/");
            const bool is_needed =
                is_tombstone ? !needed->tombstones.contains(name) : needed->blocks.contains(name);
            if (is_needed || needed->unreadable > 0) {
                --report_.removed;
                report_.removed_bytes -= bytes;
                unneeded_.erase(name);
                continue;
            }
            if (auto ok = objects_.remove(name); !ok) return ok;
            unneeded_.erase(name);
        }
        return write({});
    }

    object_store& objects_;
    const sweep_options& options_;
    const std::int64_t now_;  // seconds since 1970, when it began
    const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
    seen_notice seen_;
    // By name: since when nobody needs the object, in seconds since 1970.
    std::map<std::string, std::int64_t> unneeded_;
    sweep_report report_;
};

}  // namespace

std::string encode_sweep_notice(const sweep_notice& notice) {
    std::string text(first_line);
    text += std::to_string(notice.began) + "\n";
    for (const std::string& name : notice.going) text += "going " + name + "\n";
    for (const auto& [name, since] : notice.unneeded)
        text += std::to_string(since) + " " + name + "\n";
    return text + "end\n";
}

object_result<sweep_notice> decode_sweep_notice(std::string_view bytes) {
    const object_failure corrupt{object_errc::corrupt, "the notice of the last sweep is damaged"};
    sweep_notice notice;
    auto line = take_line(bytes);
    if (!line || !line->starts_with(first_line)) return corrupt;
    line->remove_prefix(first_line.size());
    if (!parse_number(*line, notice.began) || !line->empty()) return corrupt;
    while ((line = take_line(bytes)) && *line != "end") {
        const bool goes = line->starts_with("going ");
        std::int64_t since = 0;
        if (goes)
            line->remove_prefix(5);
        else if (!parse_number(*line, since))
            return corrupt;
        if (!line->starts_with(' ')) return corrupt;
        line->remove_prefix(1);
        if (!check_object_name(*line)) return corrupt;
        if (goes)
            notice.going.emplace(*line);
        else
            notice.unneeded.emplace(*line, since);
    }
    if (!line || !bytes.empty()) return corrupt;
    return notice;
}

object_result<seen_notice> read_sweep_notice(object_store& objects) {
    std::string bytes;
    const auto got = objects.get(sweep_notice::name, bytes);
    if (!got && got.error().code == object_errc::not_found) return seen_notice{};
    if (!got) return got.error();
    auto notice = decode_sweep_notice(bytes);
    if (!notice) return notice.error();
    return seen_notice{std::move(*notice), got->version};
}

object_result<sweep_report> sweep_objects(object_store& objects, const sweep_options& options) {
    // With other keys than the machines' it could read nothing, and they could not read its notice.
    if (auto ok = check_keys(objects); !ok) return ok.error();
    auto seen = read_sweep_notice(objects);
    if (!seen) return seen.error();
    return sweep(objects, options, std::move(*seen)).run();
}

}  // namespace semantic::storage
