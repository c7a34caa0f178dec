#include "base/status.h"

#include <cerrno>
#include <memory>

#include "support/test_support.h"

namespace picchio {
namespace {

Result<int> Half(int n) {
  if (n % 2 != 0) return Error(Code::kInvalidArgument, "{} is odd", n);
  return n / 2;
}

Result<int> Quarter(int n) {
  PICCHIO_ASSIGN_OR_RETURN(const int half, Half(n));
  return Half(half);
}

Status CheckEven(int n) {
  PICCHIO_RETURN_IF_ERROR(Half(n).status());
  return Status::Ok();
}

TEST(Status, CarriesCodeMessageAndContext) {
  EXPECT_TRUE(Status::Ok().ok());
  const Status status = Error(Code::kCorrupt, "byte {}", 7);
  EXPECT_EQ(status.ToString(), "corrupt: byte 7");
  EXPECT_EQ(status.WithContext("file").message(), "file: byte 7");
  EXPECT_TRUE(Status::Ok().WithContext("file").ok());
  const Status system = ErrnoError(ENOSPC, "cannot write x");
  EXPECT_EQ(system.native_error(), ENOSPC);
  EXPECT_EQ(system.message(), "cannot write x: No space left on device");
}

TEST(Result, PassesValuesAndErrorsOn) {
  ASSERT_OK_AND_ASSIGN(const int quarter, Quarter(12));
  EXPECT_EQ(quarter, 3);
  EXPECT_THAT(Quarter(6), Fails(Code::kInvalidArgument, "3 is odd"));
  EXPECT_OK(CheckEven(2));
  EXPECT_THAT(CheckEven(3), Fails(Code::kInvalidArgument, "3 is odd"));
}

TEST(Result, HoldsMoveOnlyValues) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(5);
  EXPECT_EQ(**result, 5);
  EXPECT_EQ(*std::move(result).value(), 5);
}

}  // namespace
}  // namespace picchio
