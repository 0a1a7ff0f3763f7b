# cmake -DFOLDER=… -DOUT=… -DNAMES=a|b -P embed.cmake: writes the page's files as one C++ source, so
# that the server serves them from its binary.
string(REPLACE "|" ";" names "${NAMES}")
set(table "")
foreach(name IN LISTS names)
  file(READ ${FOLDER}/${name} text)
  string(APPEND table "    {\"${name}\", R\"~page~(${text})~page~\"},\n")
endforeach()
file(WRITE ${OUT} "// Made by embed.cmake of the files in server/dashboard.
#include \"server/dashboard/page_files.hpp\"

namespace semantic::server {

namespace {

constexpr page_file files[] = {
${table}};

}  // namespace

std::span<const page_file> page_files() { return files; }

}  // namespace semantic::server
")
