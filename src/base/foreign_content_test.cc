#include "base/foreign_content.h"

#include "support/test_support.h"

namespace picchio {
namespace {

TEST(ForeignContent, PointersAndPagesAreNamed) {
  // As `git lfs` writes them (its specification, version 1).
  EXPECT_THAT(CheckNotForeign("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n", "a"),
              Fails(Code::kUnsupported, "a is a Git LFS pointer"));
  for (const char* page : {"<!DOCTYPE html>\n<html>", "<!doctype html>", "<html lang=\"en\">",
                           "\n  <HTML>", "\xEF\xBB\xBF<!DOCTYPE html>",
                           "<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>"}) {
    EXPECT_THAT(CheckNotForeign(page, "b"), Fails(Code::kUnsupported, "b is a web page")) << page;
  }
}

TEST(ForeignContent, OtherBytesPass) {
  for (const std::string_view text :
       {"", " ", "{\"a\": 1}", "<", "<!doc", "version", "version 2", "<htm"}) {
    EXPECT_OK(CheckNotForeign(text, "c")) << text;
  }
}

}  // namespace
}  // namespace picchio
