// SPDX-License-Identifier: Apache-2.0
#include "engine/text/jinja/program.hpp"

#include <algorithm>
#include <stdexcept>

#include "engine/text/jinja/interpreter.hpp"
#include "engine/text/jinja/syntax/parser.hpp"

namespace semantic::engine::jinja {

std::string described(const error& e) {
    return "line " + std::to_string(e.at.line) + ", column " + std::to_string(e.at.column) + ": " +
           e.message;
}

void throw_exception_from_error(const error& e, const boost::source_location&) {
    throw std::runtime_error(described(e));
}

outcome<program> program::parse(std::string_view source) {
    try {
        auto tree = std::make_shared<template_tree>(parser(tokenize(source)).parse());
        return program(std::move(tree));
    } catch (const stopped& end) {
        return error{end.kind, end.message, end.at};
    }
}

outcome<rendering> program::render(const value& variables, const std::string& day,
                                   const limits& bounds) const {
    interpreter one(*tree_, *variables.as_dict(), day, bounds);
    try {
        marked_text text = one.run();
        return rendering{text.bytes(), text.content()};
    } catch (const stopped& end) {
        return error{end.kind, end.message, end.placed ? end.at : one.place()};
    }
}

bool program::reads(std::string_view name) const {
    return std::find(tree_->names.begin(), tree_->names.end(), name) != tree_->names.end();
}

}  // namespace semantic::engine::jinja
