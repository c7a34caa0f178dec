# cmake -DINPUT=FILE -DOUTPUT=FILE.cc -DFUNCTION=Name -DHEADER=path/of/header.h -P embed.cmake
#
# A file as a C++ source: std::string_view picchio::Name() returns its bytes. So the program needs
# no data files beside it, wherever it is installed.
file(READ ${INPUT} hex HEX)
string(REGEX REPLACE "(................................................................)" "\\1\n" hex "${hex}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
file(WRITE ${OUTPUT} "// Made from ${INPUT} by cmake/embed.cmake.
#include \"${HEADER}\"

namespace picchio {
namespace {

constexpr unsigned char kBytes[] = {
${bytes}};

}  // namespace

std::string_view ${FUNCTION}() { return {reinterpret_cast<const char*>(kBytes), sizeof(kBytes)}; }

}  // namespace picchio
")
