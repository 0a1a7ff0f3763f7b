// SPDX-License-Identifier: Apache-2.0
// The rules of the house, held against the whole tree. What breaks one is printed as file:line.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/tidy/rules.hpp"

namespace semantic::tidy {
namespace {

const exceptions allowed{
    .functions = {},
    .files = {},
    .documents = {{"perf/results.md", "", "measurements as they were taken, a row each"}},
};

/// Where a word that documents do without is meant literally, or a whole document is left as it is.
const std::vector<exception> literal{
    {"perf/results.md", "", "measurements as they were taken, a row each"},
};

/// Names that are pronouns: `what` is a sentence for people, as std::exception's, or a kind of
/// form.
const std::vector<exception> pronouns{
    {"storage/types/errc.hpp", "what", "as std::exception has it"},
    {"storage/objects/object_store.hpp", "what", "as std::exception has it"},
    {"engine/types/generation.hpp", "what", "as std::exception has it, and output_form's kind"},
};

/// Classes with more members and methods than the rule allows.
const std::vector<large_class> large_classes{
    {"engine/engine.cpp", "local_engine", 53},
    {"engine/grammar/forms/form_builder.cpp", "form_builder::impl", 47},
    {"engine/grammar/grammar_matcher.hpp", "grammar_matcher", 51},
    {"engine/model/config/families.hpp", "family_defaults", 53},
    {"engine/model/config/model_config.hpp", "model_config", 57},
    {"engine/model/weights/tensor_reader.hpp", "tensor_reader", 43},
    {"engine/scheduler/batch/sequence.hpp", "sequence", 85},
    {"engine/scheduler/graph.cpp", "scheduler::impl", 67},
    {"engine/text/jinja/interpreter.hpp", "interpreter", 54},
    {"engine/text/jinja/syntax/parser.hpp", "parser", 68},
    {"engine/text/output/calls/python_call.cpp", "python_reader", 49},
    {"engine/text/output/marked_parser.cpp", "marked_parser", 46},
    {"protocol/responses/response_stream.hpp", "response_stream", 52},
    {"server/app.hpp", "app", 56},
    {"server/config/config.hpp", "config", 76},
    {"server/handlers/responses/socket.cpp", "response_socket", 46},
    {"storage/agents/agent_cache_store.hpp", "agent_cache_store", 49},
    {"storage/agents/agent_index.hpp", "agent_index", 63},
    {"storage/objects/agents/shared_agents.hpp", "shared_agents", 57},
    {"storage/objects/redis/node_news.hpp", "node_news", 46},
};

const tree& project() {
    static const tree files = read_tree(SEMANTIC_SOURCE_DIR);
    return files;
}

std::string listed(const findings& found) {
    std::string text;
    for (const finding& f : found) {
        text += "\n" + f.file + ":" + std::to_string(f.line) + ": " + f.message;
    }
    return text;
}

#define EXPECT_CLEAN(rule)                           \
    do {                                             \
        const findings found = rule;                 \
        EXPECT_TRUE(found.empty()) << listed(found); \
    } while (false)

TEST(tidy, the_tree_is_found) {
    EXPECT_GT(project().size(), 30U) << "nothing to check below " << SEMANTIC_SOURCE_DIR;
}
TEST(tidy, includes_point_down_never_up) { EXPECT_CLEAN(layers(project())); }
TEST(tidy, no_two_folders_include_each_other) { EXPECT_CLEAN(mutual_folders(project())); }
TEST(tidy, folders_hold_at_most_24_files) { EXPECT_CLEAN(folder_sizes(project())); }
TEST(tidy, every_door_is_used) { EXPECT_CLEAN(unused_doors(project())); }
TEST(tidy, each_library_has_one_door) { EXPECT_CLEAN(doors(project())); }
TEST(tidy, lines_fit_100_columns) { EXPECT_CLEAN(columns(project())); }
TEST(tidy, functions_are_seen_whole) {
    EXPECT_CLEAN(function_lengths(project(), allowed.functions));
}
TEST(tidy, classes_have_one_subject) { EXPECT_CLEAN(class_sizes(project(), large_classes)); }
TEST(tidy, no_listed_class_has_changed) { EXPECT_CLEAN(stale_classes(project(), large_classes)); }
TEST(tidy, files_have_one_subject) { EXPECT_CLEAN(file_lengths(project(), allowed.files)); }
TEST(tidy, files_name_their_licence) { EXPECT_CLEAN(licences_named(project())); }
TEST(tidy, headers_are_guarded) { EXPECT_CLEAN(headers_guarded(project())); }
TEST(tidy, a_source_includes_its_own_header_first) { EXPECT_CLEAN(own_header_first(project())); }
TEST(tidy, headers_open_no_namespace) { EXPECT_CLEAN(headers_clean(project())); }
TEST(tidy, nothing_is_left_for_later) { EXPECT_CLEAN(leftovers(project())); }
TEST(tidy, no_capturing_lambda_is_awaited_or_spawned) {
    EXPECT_CLEAN(coroutine_lambdas(project()));
}
TEST(tidy, nothing_is_detached) { EXPECT_CLEAN(detached_work(project())); }
TEST(tidy, what_reads_a_body_is_measured) { EXPECT_CLEAN(measured_parsers(project())); }
TEST(tidy, every_folder_says_what_it_is) { EXPECT_CLEAN(module_readmes(project())); }
TEST(tidy, readmes_name_files_that_exist) { EXPECT_CLEAN(readme_paths(project())); }
TEST(tidy, links_of_documents_lead_somewhere) { EXPECT_CLEAN(document_links(project())); }
TEST(tidy, paths_that_users_read_are_links) { EXPECT_CLEAN(unlinked_paths(project())); }
TEST(tidy, commands_of_documents_exist_by_then) { EXPECT_CLEAN(document_commands(project())); }
TEST(tidy, the_front_page_is_short_and_narrow) { EXPECT_CLEAN(front_page(project())); }
TEST(tidy, the_changelog_names_the_version) { EXPECT_CLEAN(changelog_version(project())); }
TEST(tidy, lines_of_documents_fit_160_columns) {
    EXPECT_CLEAN(document_columns(project(), allowed.documents));
}
TEST(tidy, documents_use_plain_words) { EXPECT_CLEAN(plain_documents(project(), literal)); }
TEST(tidy, every_literal_word_is_there) { EXPECT_CLEAN(stale_words(project(), literal)); }
TEST(tidy, names_name_things) { EXPECT_CLEAN(plain_names(project(), pronouns)); }
TEST(tidy, every_excepted_name_is_there) { EXPECT_CLEAN(stale_names(project(), pronouns)); }
TEST(tidy, comments_use_plain_words) { EXPECT_CLEAN(plain_comments(project())); }
TEST(tidy, exceptions_are_few) {
    EXPECT_LE(allowed.functions.size() + allowed.files.size() + allowed.documents.size() +
                  literal.size() + pronouns.size(),
              exceptions_max);
}
TEST(tidy, questions_are_answered_by_what_exists) { EXPECT_CLEAN(answered_questions(project())); }
TEST(tidy, sanitizers_run_suites_that_exist) { EXPECT_CLEAN(sanitized_suites(project())); }
TEST(tidy, every_promise_has_its_test) { EXPECT_CLEAN(named_tests(project())); }
TEST(tidy, no_path_belongs_to_one_machine) { EXPECT_CLEAN(machine_paths(project())); }
TEST(tidy, no_host_of_packages_is_named) { EXPECT_CLEAN(foreign_hosts(project())); }
TEST(tidy, every_header_and_source_is_reached) { EXPECT_CLEAN(unreachable(project())); }
TEST(tidy, every_exception_is_needed) { EXPECT_CLEAN(stale(project(), allowed)); }

}  // namespace
}  // namespace semantic::tidy
