// SPDX-License-Identifier: Apache-2.0
// Each rule is fed a snippet that breaks it and must say so, at the right line, and a near miss
// that it must leave alone.

#include "tests/tidy/rules.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace semantic::tidy {
namespace {

std::string repeated(const std::string& line, std::size_t count) {
    std::string text;
    for (std::size_t i = 0; i < count; ++i) text += line;
    return text;
}

/// The one finding of a tree of one file; a failure when there is not exactly one.
finding only(const findings& found) {
    EXPECT_EQ(found.size(), 1U);
    return found.empty() ? finding{"", 999, ""} : found.front();
}

TEST(tidy_rules, an_upward_include_breaks_the_layers) {
    const auto f = only(layers(
        {make_source("storage/files/file.cpp",
                     "#include \"storage/files/file.hpp\"\n#include \"engine/engine.hpp\"\n")}));
    EXPECT_EQ(f.file, "storage/files/file.cpp");
    EXPECT_EQ(f.line, 2U);
}

TEST(tidy_rules, nobody_includes_perf_and_perf_includes_anybody) {
    EXPECT_EQ(only(layers({make_source("server/app.cpp", "#include \"perf/bench/a.hpp\"\n")})).line,
              1U);
    EXPECT_TRUE(
        layers({make_source("perf/inside/a.cpp",
                            "#include \"server/app.hpp\"\n#include \"storage/files/b.hpp\"\n")})
            .empty());
}

TEST(tidy_rules, two_folders_that_include_each_other_are_found) {
    const auto down = make_source("engine/engine.cpp", "#include \"engine/prompt/a.hpp\"\n");
    const auto up = make_source("engine/prompt/b.cpp", "\n#include \"engine/engine.hpp\"\n");
    const auto f = only(mutual_folders({down, up}));
    EXPECT_EQ(f.file, "engine/engine.cpp");
    EXPECT_NE(f.message.find("engine/prompt/b.cpp:2"), std::string::npos) << f.message;
    EXPECT_TRUE(mutual_folders({down}).empty());
    // A folder's own headers, and tests, which may look wherever they like.
    EXPECT_TRUE(mutual_folders(
                    {down, make_source("engine/prompt/b.cpp", "#include \"engine/prompt/a.hpp\"\n"),
                     make_source("tests/a/a.cpp", "#include \"tests/b/b.hpp\"\n"),
                     make_source("tests/b/b.cpp", "#include \"tests/a/a.hpp\"\n")})
                    .empty());
}

TEST(tidy_rules, a_folder_of_25_files_is_too_full) {
    tree files{make_source("server/http/deeper/one.cpp", ""), make_source("tests/x/y.cpp", "")};
    for (std::size_t i = 0; i < folder_files_max; ++i) {
        files.push_back(make_source("server/http/" + std::to_string(i) + ".cpp", ""));
        files.push_back(make_source("tests/x/" + std::to_string(i) + ".cpp", ""));
    }
    EXPECT_TRUE(folder_sizes(files).empty());
    files.push_back(make_source("server/http/README.md", ""));
    EXPECT_EQ(only(folder_sizes(files)).file, "server/http");
}

TEST(tidy_rules, a_door_that_nobody_uses_is_found) {
    const auto unused = [](const tree& files) {
        const auto found = unused_doors(files);
        return std::any_of(found.begin(), found.end(), [](const finding& f) {
            return f.file == "engine/kernels/gemm.cpp" && f.message.starts_with("BLAS");
        });
    };
    EXPECT_TRUE(unused({make_source("engine/kernels/gemm.cpp", "// #include <cblas.h>\n")}));
    EXPECT_FALSE(unused({make_source("engine/kernels/gemm.cpp", "#include <cblas.h>\n")}));
}

TEST(tidy_rules, protocol_sees_only_types_of_the_engine) {
    const auto f = only(layers({make_source(
        "protocol/wire/sse.cpp",
        "#include \"engine/types/generation.hpp\"\n#include \"engine/engine.hpp\"\n")}));
    EXPECT_EQ(f.line, 2U);
}

TEST(tidy_rules, an_include_in_a_comment_is_none) {
    EXPECT_TRUE(layers({make_source("storage/files/file.cpp",
                                    "// #include \"engine/engine.hpp\"\n"
                                    "/*\n#include \"server/app.hpp\"\n*/\n")})
                    .empty());
}

TEST(tidy_rules, every_library_has_a_door_that_closes) {
    const std::vector<std::pair<const char*, const char*>> intruders{
        {"protocol/wire/sse.cpp", "boost/beast/http.hpp"},
        {"engine/engine.cpp", "boost/program_options.hpp"},
        {"storage/files/file.cpp", "boost/log/trivial.hpp"},
        {"storage/files/file.cpp", "boost/asio.hpp"},
        {"engine/scheduler/plan.cpp", "boost/json.hpp"},
        {"storage/pool/block_pool.cpp", "tbb/parallel_for.h"},
        {"engine/kernels/kernels_avx2.cpp", "oneapi/tbb/flow_graph.h"},
        {"engine/model/attention.cpp", "cblas.h"},
        {"engine/kernels/gemm.cpp", "immintrin.h"},
        {"engine/kernels/dispatch.cpp", "arm_neon.h"},
        {"engine/kernels/simd/linear.inl", "immintrin.h"},
        {"engine/text/output/tool_calls.cpp", "pcre2.h"},
        {"protocol/wire/sse.cpp", "unicode/uchar.h"},
        {"storage/objects/s3_objects.cpp", "curl/curl.h"},
        {"storage/objects/s3_objects.cpp", "openssl/evp.h"},
        {"storage/objects/s3_objects.cpp", "pugixml.hpp"},
        {"engine/model/transformer.cpp", "fcntl.h"},
        {"engine/model/transformer.cpp", "sys/mman.h"},
    };
    for (const auto& [file, include] : intruders) {
        const auto text = "#include <" + std::string(include) + ">\n";
        EXPECT_EQ(doors({make_source(file, text)}).size(), 1U) << file << " " << include;
    }
}

TEST(tidy_rules, doors_let_in_whom_they_are_for) {
    EXPECT_TRUE(
        doors(
            {make_source("server/http/connection/session.cpp", "#include <boost/beast.hpp>\n"),
             make_source("storage/agents/agent_strands.hpp", "#include <boost/asio/strand.hpp>\n"),
             make_source("engine/scheduler/graph.cpp", "#include <tbb/flow_graph.h>\n"),
             make_source("engine/kernels/kernels_avx2.cpp", "#include <immintrin.h>\n"),
             make_source("tests/engine/gemm_test.cpp", "#include <cblas.h>\n")})
            .empty());
}

TEST(tidy_rules, column_101_is_one_too_many) {
    const std::string line(columns_max, 'x');
    EXPECT_TRUE(columns({make_source("server/a.cpp", line + "\n")}).empty());
    EXPECT_EQ(only(columns({make_source("server/a.cpp", "\n" + line + "x\n")})).line, 2U);
    // Characters count, not bytes: each of these has two.
    EXPECT_TRUE(columns({make_source("server/a.cpp", "// " + repeated("\u00e9", 97))}).empty());
    EXPECT_EQ(columns({make_source("server/a.inl", line + "x\n")}).size(), 1U);
}

TEST(tidy_rules, a_function_of_71_lines_is_too_long) {
    const auto body = [](std::size_t lines) {
        return "namespace a {\n\nvoid b::run(int x) {\n" + repeated("    f({1, 2});\n", lines) +
               "}\n}\n";
    };
    EXPECT_TRUE(function_lengths({make_source("server/a.cpp", body(68))}, {}).empty());
    const auto f = only(function_lengths({make_source("server/a.cpp", body(69))}, {}));
    EXPECT_EQ(f.line, 3U);
    EXPECT_NE(f.message.find("b::run"), std::string::npos) << f.message;
    EXPECT_EQ(function_lengths({make_source("server/a.inl", body(69))}, {}).size(), 1U);
}

TEST(tidy_rules, constructors_methods_and_tests_are_functions_too) {
    const auto lines = repeated("    f();\n", 70);
    for (const std::string head :
         {"a::a(int x) : x_{x}, y_(2) {\n", "bool operator==(const a& b) {\n",
          "TEST(suite, name) {\n", "int main() {\n"}) {
        const auto text = "namespace n {\n" + head + lines + "}\n}\n";
        EXPECT_EQ(function_lengths({make_source("server/a.cpp", text)}, {}).size(), 1U) << head;
    }
    const auto method =
        "struct s {\n    int x = 0;\n    void run(int x = 1) {\n" + lines + "}\n};\n";
    EXPECT_EQ(function_lengths({make_source("server/a.cpp", method)}, {}).size(), 1U);
}

TEST(tidy_rules, types_and_tables_are_no_functions) {
    const auto fields = repeated("    int x;\n", 80);
    const auto entries = repeated("    entry{1, make(2)},\n", 80);
    EXPECT_TRUE(function_lengths(
                    {make_source("server/a.cpp", "struct wide {\n" + fields + "};\n"),
                     make_source("server/b.cpp", "const entry table[] = {\n" + entries + "};\n")},
                    {})
                    .empty());
}

TEST(tidy_rules, an_exception_excuses_and_is_itself_checked) {
    const tree files{
        make_source("server/a.cpp", "void run() {\n" + repeated("    f();\n", 90) + "}\n")};
    const std::vector<exception> allowed{{"server/a.cpp", "run", "a table in code"}};
    EXPECT_TRUE(function_lengths(files, allowed).empty());
    EXPECT_TRUE(stale(files, {.functions = allowed, .files = {}, .documents = {}}).empty());
    const tree short_files{make_source("server/a.cpp", "void run() {}\n")};
    EXPECT_EQ(stale(short_files, {.functions = allowed, .files = {}, .documents = {}}).size(), 1U);
    const std::vector<exception> whole_file{{"server/a.cpp", "", "generated"}};
    EXPECT_EQ(stale(files, {.functions = {}, .files = whole_file, .documents = {}}).size(), 1U);
    EXPECT_EQ(stale(files, {.functions = {}, .files = {}, .documents = whole_file}).size(), 1U);
}

TEST(tidy_rules, a_class_of_41_parts_is_too_large) {
    const auto wide_class = [](std::size_t members) {
        return tree{make_source("server/a.hpp",
                                "class wide : public base {\n  public:\n    using x = int;\n"
                                "    wide() = default;\n    int f() const { return a{1}; }\n"
                                "    struct inner {\n        int y;\n    };\n  private:\n" +
                                    repeated("    std::map<int, int> m_{};\n", members) + "};\n")};
    };
    EXPECT_TRUE(class_sizes(wide_class(39), {}).empty()) << "39 members and a method";
    const auto f = only(class_sizes(wide_class(40), {}));
    EXPECT_EQ(f.line, 1U);
    EXPECT_NE(f.message.find("wide has 41"), std::string::npos) << f.message;
    const std::vector<large_class> listed{{"server/a.hpp", "wide", 41}};
    EXPECT_TRUE(class_sizes(wide_class(40), listed).empty());
    EXPECT_EQ(class_sizes(wide_class(41), listed).size(), 1U) << "none may grow";
    EXPECT_TRUE(stale_classes(wide_class(40), listed).empty());
    EXPECT_EQ(stale_classes(wide_class(39), listed).size(), 1U)
        << "nor be listed when it has shrunk";
}

TEST(tidy_rules, several_members_of_one_statement_are_several) {
    const tree files{make_source(
        "server/a.hpp", "struct s {\n    int a, b, c;\n" + repeated("    int x;\n", 38) + "};\n")};
    EXPECT_NE(only(class_sizes(files, {})).message.find("41"), std::string::npos);
}

TEST(tidy_rules, a_file_of_601_lines_is_too_long) {
    const auto lines = [](std::size_t count) {
        return make_source("server/a.cpp", repeated("\n", count));
    };
    EXPECT_TRUE(file_lengths({lines(600)}, {}).empty());
    EXPECT_EQ(file_lengths({lines(601)}, {}).size(), 1U);
}

TEST(tidy_rules, a_file_that_begins_without_its_licence_is_found) {
    const std::string name = "SPDX-License-Identifier: Apache-2.0\n";
    EXPECT_TRUE(licences_named({make_source("server/a.cpp", "// " + name + "int x;\n")}).empty());
    EXPECT_TRUE(licences_named({make_source("etc/a.sh", "#!/bin/sh\n# " + name)}).empty());
    EXPECT_EQ(licences_named({make_source("server/a.cpp", "int x;\n// " + name)}).size(), 1U);
    EXPECT_EQ(licences_named({make_source("server/a.cpp", "\n")}).size(), 1U);
    EXPECT_TRUE(licences_named({make_source("etc/a.json", "{}\n")}).empty()) << "no program";
}

TEST(tidy_rules, a_header_without_guard_is_found) {
    EXPECT_EQ(headers_guarded({make_source("server/a.hpp", "// #pragma once\nint x;\n")}).size(),
              1U);
    EXPECT_TRUE(headers_guarded({make_source("server/a.hpp", "#pragma once\n")}).empty());
}

TEST(tidy_rules, a_source_that_includes_its_own_header_second_is_found) {
    const auto header = make_source("storage/a.hpp", "#pragma once\n");
    const auto second =
        make_source("storage/a.cpp", "\n#include <string>\n#include \"storage/a.hpp\"\n");
    EXPECT_EQ(only(own_header_first({header, second})).line, 2U);
    EXPECT_EQ(own_header_first({header, make_source("storage/a.cpp", "int a;\n")}).size(), 1U);
    const auto first =
        make_source("storage/a.cpp", "// Why.\n#include \"storage/a.hpp\"\n\n#include <string>\n");
    EXPECT_TRUE(own_header_first({header, first}).empty());
    EXPECT_TRUE(own_header_first({second}).empty());
}

TEST(tidy_rules, a_using_directive_in_a_header_is_found) {
    const std::string text = "#pragma once\nusing  namespace std;\n";
    EXPECT_EQ(only(headers_clean({make_source("server/a.hpp", text)})).line, 2U);
    EXPECT_TRUE(headers_clean({make_source("server/a.cpp", text)}).empty());
}

TEST(tidy_rules, a_note_to_oneself_is_found_in_any_file) {
    for (const std::string note : {"FIX"
                                   "ME",
                                   "TO"
                                   "DO",
                                   "XX"
                                   "X"}) {
        EXPECT_EQ(leftovers({make_source("etc/a.sh", "# " + note + ": later\n")}).size(), 1U)
            << note;
    }
    EXPECT_TRUE(leftovers({make_source("storage/a.cpp",
                                       "auto t = \"tmp."
                                       "XX"
                                       "XX"
                                       "XX\";\n")})
                    .empty());
}

TEST(tidy_rules, a_capturing_lambda_inside_co_await_is_found) {
    const auto check = [](const std::string& statement) {
        return coroutine_lambdas(
            {make_source("server/a.cpp", "awaitable<void> f() {\n" + statement + "\n}\n")});
    };
    EXPECT_EQ(
        only(check("co_await co_spawn(ex,\n[s]() -> awaitable<void> { co_return; }, use);")).line,
        3U);
    EXPECT_EQ(check("co_await run([&] { return 1; });").size(), 1U);
    EXPECT_EQ(check("x = co_await run(1, [this](int a) mutable { return a; });").size(), 1U);
    // No captures, a subscript, a structured binding and a lambda of the next statement are all
    // harmless.
    EXPECT_TRUE(check("co_await run([](int a) { return a; });").empty());
    EXPECT_TRUE(check("co_await queues[index].pop(list()[i], m[0][j]);").empty());
    EXPECT_TRUE(check("auto [ec, n] = co_await read();\nauto g = [n] { return n; };").empty());
}

TEST(tidy_rules, a_braced_value_inside_co_await_is_found) {
    const auto check = [](const std::string& statement) {
        return coroutine_lambdas(
            {make_source("server/a.cpp", "awaitable<void> f() {\n" + statement + "\n}\n")});
    };
    EXPECT_EQ(only(check("co_return\nco_await fail({error(a, b)});")).line, 3U);
    EXPECT_EQ(check("if (fault) co_await fail(failure{code, what});").size(), 1U);
    EXPECT_EQ(check("auto x = co_await list(a, {1, 2}).next();").size(), 1U);
    EXPECT_EQ(check("both({1, 2}, co_await next());").size(), 1U);
    EXPECT_EQ(check("both(co_await next(), one{1});").size(), 1U);
    // Braces of blocks, of other statements and of lambdas without captures are no values in it.
    EXPECT_TRUE(check("if (co_await next()) {\n}\nfor (auto x : co_await all()) {\n}").empty());
    EXPECT_TRUE(check("failure named{code, what};\nco_await fail(std::move(named));").empty());
    EXPECT_TRUE(check("co_await next();\none x{1};\nwhile (true) { co_await next(); }").empty());
    EXPECT_TRUE(check("co_await run([](int a) { return a; });").empty());
}

TEST(tidy_rules, a_lambda_called_inside_co_spawn_is_found) {
    const std::string head = "void f() {\nco_spawn(ex, ";
    EXPECT_EQ(only(coroutine_lambdas({make_source(
                       "server/a.cpp",
                       head + "[x]() -> awaitable<void> {\nco_return; }(), done);\n}\n")}))
                  .line,
              3U);
    EXPECT_TRUE(
        coroutine_lambdas({make_source("server/a.cpp", head + "serve(std::move(s)), done);\n}\n")})
            .empty());
}

TEST(tidy_rules, detached_work_is_found) {
    EXPECT_EQ(
        detached_work({make_source("server/a.cpp", "co_spawn(ex, f(), asio::detached);\n")}).size(),
        1U);
    EXPECT_EQ(detached_work({make_source("server/a.cpp", "std::thread(f).detach();\n")}).size(),
              1U);
    EXPECT_TRUE(detached_work({make_source("server/a.cpp", "// never detached\n")}).empty());
}

TEST(tidy_rules, a_parser_of_bodies_that_nobody_measures_is_found) {
    const auto header = make_source(
        "protocol/a.hpp", "#pragma once\nresult<thing> parse_thing(std::string_view body);\n");
    EXPECT_EQ(only(measured_parsers({header})).line, 2U);
    const auto measured = [](const std::string& code) {
        return make_source("tests/cost/parsers.cpp", code);
    };
    EXPECT_EQ(measured_parsers({header, measured("parse_things(b);\n")}).size(), 1U);
    EXPECT_TRUE(measured_parsers({header, measured("parse_thing(b);\n")}).empty());
}

TEST(tidy_rules, a_folder_without_a_sentence_about_itself_is_found) {
    const auto code = make_source("storage/files/file.cpp", "");
    EXPECT_EQ(only(module_readmes({code})).file, "storage/README.md");
    EXPECT_EQ(
        module_readmes({code, make_source("storage/README.md", "# storage\n\n## Files\n")}).size(),
        1U);
    EXPECT_TRUE(module_readmes({code, make_source("storage/README.md",
                                                  "# storage\n\nKeeps blocks and files.\n")})
                    .empty());
}

TEST(tidy_rules, a_readme_that_names_a_missing_file_is_found) {
    const auto code = make_source("storage/files/file.cpp", "");
    const auto names = [&](const std::string& text) {
        return readme_paths({code, make_source("storage/README.md", "# storage\n" + text + "\n")});
    };
    EXPECT_EQ(only(names("see `storage/pool.cpp`")).line, 2U);
    EXPECT_EQ(names("see `pool.hpp`").size(), 1U);
    EXPECT_EQ(names("see `files/pool`").size(), 1U);
    // Files, pairs, patterns, routes, types and commands.
    EXPECT_TRUE(
        names("`storage/files/file.cpp` `storage/files/file` `files/file.cpp` `storage/` "
              "`kernels_*.cpp` `/v1/messages` `text/event-stream` `storage::file` `ctest -R x`")
            .empty());
}

TEST(tidy_rules, an_answer_that_leads_nowhere_is_found) {
    const auto readme = make_source("engine/README.md", "# engine\n\n## Prefix rules\n");
    const auto code = make_source("engine/a.cpp", "int match_prefix();  // not best_match\n");
    const auto answers = [&](const std::string& text) {
        return answered_questions({readme, code, make_source("tests/QUESTIONS.md", text + "\n")});
    };
    EXPECT_TRUE(answers("see \"Prefix rules\": `match_prefix` says \"no\"").empty());
    EXPECT_EQ(only(answers("\n\"Prefix\"")).line, 2U);
    EXPECT_EQ(answers("`best_match`").size(), 1U);
}

TEST(tidy_rules, a_suite_that_sanitizers_would_miss_is_found) {
    const auto tests = make_source("tests/engine/a_test.cpp",
                                   "TEST(plan_step, runs) {}\n"
                                   "INSTANTIATE_TEST_SUITE_P(cases, mixture, values);\n");
    const auto lists = [&](const std::string& names) {
        return sanitized_suites(
            {tests, make_source("etc/sanitize.sh", "suites=(" + names + ")\n")});
    };
    EXPECT_TRUE(lists("'plan_step.*' 'cases/mixture.*' 'plan_*.*' '*mixture.*'").empty());
    EXPECT_EQ(only(lists("'plan_stop.*'")).line, 1U);
}

TEST(tidy_rules, a_promise_without_its_test_is_found) {
    const auto code = make_source("tests/storage/pool_test.cpp",
                                  "TEST(pool, keeps) {}\nTEST_F(pool,\n       grows) {}\n");
    const auto list = make_source("tests/conformance/CMakeLists.txt", "conformance_test(exact)\n");
    const auto promises = [&](const std::string& text) {
        return named_tests({code, list, make_source("tests/README.md", text)});
    };
    EXPECT_TRUE(
        promises("`pool.keeps` `pool.grows` `conformance.exact` `pool_test.cpp`\n").empty());
    EXPECT_EQ(promises("`pool.shrinks`\n").size(), 1U);
    EXPECT_EQ(promises("`conformance.exac`\n").size(), 1U);
}

TEST(tidy_rules, column_161_of_a_document_is_one_too_many) {
    const auto check = [](const std::string& text) {
        return document_columns({make_source("storage/README.md", text)}, {});
    };
    const std::string line(document_columns_max, 'x');
    EXPECT_TRUE(check(line + "\n").empty());
    EXPECT_EQ(only(check("\n" + line + "x\n")).line, 2U);
    // Code is not broken, and neither is a row because of where its links lead.
    EXPECT_TRUE(check("```\n" + line + "x\n```\n").empty());
    EXPECT_EQ(check("```\n```\n" + line + "x\n").size(), 1U);
    const std::string link = "[text](https://example.org/" + line + ")";
    EXPECT_TRUE(check("| " + link + " |\n").empty());
    EXPECT_EQ(check("see " + link + "\n").size(), 1U);
    EXPECT_TRUE(document_columns({make_source("a/README.md", line + "x\n")},
                                 {{"a/README.md", "", "a list of published figures"}})
                    .empty());
}

TEST(tidy_rules, a_host_of_packages_is_found) {
    const auto check = [](const std::string& text) {
        return foreign_hosts({make_source("etc/a.sh", text + "\n")}).size();
    };
    EXPECT_EQ(check(std::string("npm --registry https://registry.np") + "mjs.org/"), 1U);
    EXPECT_EQ(check(std::string("pip -i http://packages.inter") + "nal:8080/simple"), 1U);
    EXPECT_EQ(check(std::string("URL=https://nex") + "us.example.org/x"), 1U);
    EXPECT_EQ(check("the registry cannot be reached; npm ci; internal/pool"), 0U);
}

TEST(tidy_rules, a_path_of_one_machine_is_found) {
    const std::string at_work = std::string("/wo") + "rk/data";
    const std::string at_home = std::string("/ro") + "ot";
    EXPECT_EQ(machine_paths({make_source("etc/a.conf", "dir = " + at_work + "\n")}).size(), 1U);
    EXPECT_EQ(machine_paths({make_source("etc/a.sh", "cd \"" + at_home + "\"\n")}).size(), 1U);
    EXPECT_TRUE(
        machine_paths({make_source("etc/a.sh", "cd net" + at_work + " etc" + at_home + "\n")})
            .empty());
}

TEST(tidy_rules, a_header_or_source_that_nobody_reaches_is_found) {
    const auto lonely = make_source("storage/lonely.hpp", "#pragma once\n");
    const auto user = make_source("storage/user.cpp", "#include \"storage/lonely.hpp\"\n");
    EXPECT_EQ(unreachable({lonely}).size(), 1U);
    EXPECT_TRUE(unreachable({lonely, user}).empty());
    const auto test = make_source("tests/perf/run_test.cpp", "");
    const auto program = make_source("tests/CMakeLists.txt", "\nsemantic_tests(perf bench)\n");
    EXPECT_EQ(unreachable({test}).size(), 1U);
    EXPECT_TRUE(unreachable({test, program}).empty());
    const auto bench = make_source("perf/bench.cpp", "");
    EXPECT_EQ(unreachable({bench}).size(), 1U);
    EXPECT_TRUE(
        unreachable({bench, make_source("perf/CMakeLists.txt", "add_executable(b bench.cpp)\n")})
            .empty());
}

TEST(tidy_source, literals_and_comments_are_blanked_and_code_stays_in_place) {
    const auto code = [](const char* text) { return make_source("server/a.cpp", text).code.at(0); };
    EXPECT_EQ(code("f(\"a{b\\\"\", '{', '\\''); // {"), "f(\"     \", ' ', '  ');     ");
    EXPECT_EQ(code("auto n = 1'000'000 + x{1};"), "auto n = 1'000'000 + x{1};");
    EXPECT_EQ(code("auto s = R\"x(a)\"{)x\" + b;"), "auto s = R\"        \" + b;");
}

}  // namespace
}  // namespace semantic::tidy
