#include "tokenizer/json_fields.h"

#include "support/test_support.h"

namespace picchio {
namespace {

TEST(JsonFields, Values) {
  const Json object = {{"s", "text"},     {"i", -7},      {"b", true}, {"a", {1, 2}},
                       {"o", {{"x", 1}}}, {"n", nullptr}, {"u", 0.5}};
  ASSERT_OK_AND_ASSIGN(JsonFields fields, JsonFields::Of(object, "file"));
  EXPECT_EQ(fields.where(), "file");
  EXPECT_EQ(*fields.String("s"), "text");
  EXPECT_EQ(*fields.Integer("i"), -7);
  EXPECT_EQ(*fields.Bool("b", false), true);
  EXPECT_EQ(*fields.Bool("n", true), true);
  EXPECT_EQ(*fields.Bool("missing", true), true);
  EXPECT_EQ((*fields.Array("a"))->size(), 2u);
  ASSERT_OK_AND_ASSIGN(JsonFields inner, fields.Object("o"));
  EXPECT_EQ(inner.where(), "file.o");
  EXPECT_THAT(inner.Finish(), Fails(Code::kUnsupported, "file.o: the field \"x\" is not known"));
  EXPECT_EQ(fields.Optional("n"), nullptr);
  EXPECT_EQ(fields.Optional("missing"), nullptr);
  EXPECT_THAT(fields.Finish(), Fails(Code::kUnsupported, "the field \"u\" is not known"));
  fields.Ignore("u");
  EXPECT_OK(fields.Finish());
}

TEST(JsonFields, WrongValues) {
  const Json object = {{"s", 1}, {"i", 1.5}, {"b", "true"}, {"a", Json::object()}, {"n", nullptr}};
  ASSERT_OK_AND_ASSIGN(JsonFields fields, JsonFields::Of(object, "f"));
  EXPECT_THAT(fields.String("s"),
              Fails(Code::kCorrupt, "f: \"s\" is a number where a string is expected"));
  EXPECT_THAT(fields.Integer("i"), Fails(Code::kCorrupt, "an integer is expected"));
  EXPECT_THAT(fields.Bool("b", true), Fails(Code::kCorrupt, "true or false is expected"));
  EXPECT_THAT(fields.Array("a"), Fails(Code::kCorrupt, "an array is expected"));
  EXPECT_THAT(fields.Object("s"), Fails(Code::kCorrupt, "f.s: a number where an object"));
  EXPECT_THAT(fields.Required("n"), Fails(Code::kCorrupt, "f: no \"n\""));
  EXPECT_THAT(fields.Object("x"), Fails(Code::kCorrupt, "f: no \"x\""));
  EXPECT_THAT(JsonFields::Of(Json(3), "f"), Fails(Code::kCorrupt, "f: a number where an object"));
}

}  // namespace
}  // namespace picchio
