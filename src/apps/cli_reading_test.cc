// How experts are read: what the flags and the environment choose, what is said of it, and the
// commands that measure it.
#include <filesystem>

#include "apps/cli_test_support.h"
#include "apps/run/store_models_test_support.h"
#include "base/json.h"

namespace picchio {
namespace {

// What is said of how experts are read, and where it is said.
TEST(CliReading, AFlagOfReadingBeatsTheEnvironment) {
  const auto choice = [](const std::string& arguments, const std::string& environment) {
    const Json storage = StorageOf("--flat 0 " + arguments, environment);
    return storage["tiers"][0]["io"]["choice"].get<std::string>();
  };
  EXPECT_EQ(choice("", ""), "buffered reads by 16 threads");
  EXPECT_EQ(choice("", "IO_THREADS=3"), "buffered reads by 3 threads");
  EXPECT_EQ(choice("--qd 5", "IO_THREADS=3"), "buffered reads by 5 threads");
  EXPECT_EQ(choice("--qd auto", "IO_THREADS=3"), "buffered reads by 3 threads");
  EXPECT_EQ(choice("--io buffered", "DIRECT=1"), "buffered reads by 16 threads");
  EXPECT_EQ(choice("--io auto", "DIRECT=1"), "buffered reads by 16 threads");
  EXPECT_EQ(choice("", "DIRECT=0"), "buffered reads by 16 threads");
  // Where the file system has no unbuffered access, that is said behind the same words.
  EXPECT_EQ(choice("--io direct --qd 2", ""), choice("--qd 2", "DIRECT=1"));
  EXPECT_THAT(choice("", "DIRECT=1 IO_THREADS=2"),
              testing::HasSubstr("buffered reads by 2 threads"));

  const std::string run = "run " + Shell(DemoModel()) + " -p Once -n 1 ";
  EXPECT_EQ(Picchio(run + "--io fast").exit_code, 2);
  EXPECT_EQ(Picchio(run + "--qd 0").exit_code, 2);
  EXPECT_EQ(Picchio(run + "--qd many").exit_code, 2);
  const Outcome wrong = Picchio(run, "DIRECT=yes");
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_THAT(wrong.err, testing::HasSubstr("DIRECT is \"yes\", expected 0 or 1"));

  EXPECT_EQ(Picchio(run + "--async maybe").exit_code, 2);
  EXPECT_EQ(Picchio(run + "--prefetch maybe").exit_code, 2);
  EXPECT_THAT(Picchio(run, "ASYNC_MOE=off").err, testing::HasSubstr("ASYNC_MOE is \"off\""));
  EXPECT_EQ(StorageOf("")["async"], true);
  EXPECT_EQ(StorageOf("", "ASYNC_MOE=0")["async"], false);
  EXPECT_EQ(StorageOf("--async on", "ASYNC_MOE=0")["async"], true);
  EXPECT_EQ(StorageOf("--async off", "ASYNC_MOE=1")["async"], false);

  const Outcome said = Picchio(run + "--flat 0 --stats");
  EXPECT_THAT(said.err, testing::HasSubstr("note: expert cache "));
  EXPECT_THAT(said.err, testing::HasSubstr(" experts, room for all of them\n"));
  EXPECT_THAT(said.err, testing::HasSubstr(": buffered reads by 16 threads\n"));
  EXPECT_THAT(said.err, testing::HasSubstr(" through it"));
  EXPECT_THAT(said.err, testing::HasSubstr("of the cache in huge pages"));
  EXPECT_EQ(Picchio(run + "--json").err, "");
}

TEST(CliReading, ReadingAheadIsAskedForAndReported) {
  const auto run = [](const std::string& flags) {
    return Picchio("run " + Shell(DemoModel()) +
                   " -p Once -n 20 --temp 0 --ignore-eos --warm-start off --cache-gb 0.003 " +
                   flags);
  };
  const auto report = [&](const std::string& flags) {
    const Outcome outcome = run("--json " + flags);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return ParseJson(outcome.out, "run").value();
  };
  const Json off = report("");
  const Json on = report("--prefetch on");
  EXPECT_EQ(on["text"], off["text"]);
  EXPECT_EQ(off["stats"]["memory"]["prefetch_slots"], 0);
  EXPECT_EQ(off["stats"]["decode"]["prefetched"], 0);
  EXPECT_EQ(off["stats"]["decode"]["prefetch_recall"], 0);
  EXPECT_GT(on["stats"]["memory"]["prefetch_slots"], 0);
  EXPECT_GT(on["stats"]["decode"]["prefetched"], 0);
  EXPECT_GT(on["stats"]["decode"]["prefetch_recall"], 0);
  EXPECT_LE(on["stats"]["decode"]["prefetch_recall"], 1);
  EXPECT_GE(on["stats"]["decode"]["hidden_read_seconds"], 0);
  EXPECT_THAT(on["stats"]["memory"]["cache_choice"].get<std::string>(),
              testing::HasSubstr("as asked for; "));
  const Outcome said = run("--prefetch on --stats");
  EXPECT_THAT(said.err, testing::HasSubstr(" slots are for reading ahead\n"));
  EXPECT_THAT(said.err, testing::HasSubstr(" % were foreseen\n"));
  EXPECT_THAT(said.err, testing::HasSubstr("reading hidden behind work "));
  EXPECT_THAT(run("--prefetch on --ecap 2").err,
              testing::HasSubstr("note: --prefetch on has no slots here"));
}

TEST(CliReading, DoctorAndBenchIoReport) {
  TemporaryFolder folder;
  WriteAll(folder / "store", StoreWriter(DemoModel()).Make(3).Bytes());
  const std::string bench = "bench io " + Shell(folder / "store") +
                            " --rounds 1 --seconds 0.1 --depths 1,2 --only uring,buffered ";
  const Outcome measured = Picchio(bench + "--json --check --model " + Shell(DemoModel()) +
                                   " --html " + Shell(folder / "page.html"));
  ASSERT_EQ(measured.exit_code, 0) << measured.err;
  EXPECT_THAT(measured.err, testing::HasSubstr("(the whole store)"));
  ASSERT_OK_AND_ASSIGN(const Json report, ParseJson(measured.out, "bench io"));
  EXPECT_EQ(report["checked_records"], report["records_of_store"]);
  ASSERT_EQ(report["ways"].size(), 2u);
  EXPECT_EQ(report["ways"][1]["points"].size(), 2u);
  EXPECT_THAT(ReadAll(folder / "page.html"), testing::HasSubstr("<svg "));
  EXPECT_THAT(Picchio(bench).out, testing::HasSubstr("p99 us"));
  EXPECT_EQ(Picchio(bench + "--only fast").exit_code, 2);
  EXPECT_EQ(Picchio(bench + "--depths 0").exit_code, 2);
  EXPECT_EQ(Picchio("bench io " + Shell(folder / "none")).exit_code, 1);
  EXPECT_EQ(Picchio("bench io " + Shell(DemoModel() / "config.json")).exit_code, 1);

  WriteAll(folder / "large", "");
  std::filesystem::resize_file(folder / "large", 65 << 20);
  const Outcome healthy = Picchio("doctor --seconds 0.02 --json " + Shell(folder / "large"));
  ASSERT_EQ(healthy.exit_code, 0) << healthy.err;
  ASSERT_OK_AND_ASSIGN(const Json findings, ParseJson(healthy.out, "doctor"));
  EXPECT_GT(findings["read_rate"]["bytes_per_second"], 0);
  EXPECT_EQ(Picchio("doctor " + Shell(folder / "none")).exit_code, 1);
}

}  // namespace
}  // namespace picchio
