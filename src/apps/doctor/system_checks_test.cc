#include "apps/doctor/system_checks.h"

#include "apps/doctor/recorded_machine_test_support.h"
#include "support/test_support.h"

namespace picchio {
namespace {

using testing::HasSubstr;

const Status kRefused(Code::kUnavailable, "Operation not permitted");

TEST(SystemChecksTest, AnNvmeLaptopIsFineButForLockedMemory) {
  const RecordedMachine machine("nvme_laptop");
  const Path& root = machine.root();
  EXPECT_EQ(CheckKernel(root).health, Health::kOk);
  EXPECT_EQ(CheckKernel(root).found, "Linux 6.8.0-45-generic");
  EXPECT_EQ(CheckIoUring(root, Status::Ok()).health, Health::kOk);
  EXPECT_EQ(CheckHugePages(root).health, Health::kOk);
  EXPECT_EQ(CheckMemory(root).health, Health::kOk);
  EXPECT_THAT(CheckMemory(root).found, HasSubstr("31.1 GiB"));
  EXPECT_EQ(CheckCpu(root).health, Health::kOk);
  EXPECT_EQ(CheckCpu(root).found, "13th Gen Intel(R) Core(TM) i7-1360P, 2 CPUs, AVX2 with VNNI");
  const Finding locked = CheckLockedMemory(root);
  EXPECT_EQ(locked.health, Health::kCouldBeBetter);
  EXPECT_THAT(locked.found, HasSubstr("8.00 MiB"));
  EXPECT_THAT(locked.remedy, HasSubstr("ulimit -l unlimited"));
}

TEST(SystemChecksTest, OldKernelsAndSmallPagesCouldBeBetter) {
  RecordedMachine machine("sata");
  EXPECT_EQ(CheckKernel(machine.root()).health, Health::kCouldBeBetter);
  EXPECT_THAT(CheckKernel(machine.root()).found, HasSubstr("less CPU time"));
  machine.Set("/proc/sys/kernel/osrelease", "5.4.0-150-generic");
  EXPECT_THAT(CheckKernel(machine.root()).found, HasSubstr("too old"));
  machine.Set("/proc/sys/kernel/osrelease", "6.1.0-18-amd64");
  EXPECT_EQ(CheckKernel(machine.root()).health, Health::kOk);
  const Finding huge = CheckHugePages(machine.root());
  EXPECT_EQ(huge.health, Health::kCouldBeBetter);
  EXPECT_EQ(huge.remedy, "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled");
  // Root, by its capabilities.
  EXPECT_EQ(CheckLockedMemory(machine.root()).health, Health::kOk);
}

TEST(SystemChecksTest, IoUringSaysWhatToChange) {
  const RecordedMachine usb("usb_bridge");
  EXPECT_EQ(CheckIoUring(usb.root(), kRefused).health, Health::kCouldBeBetter);
  EXPECT_EQ(CheckIoUring(usb.root(), kRefused).remedy, "sudo sysctl kernel.io_uring_disabled=0");
  const RecordedMachine container("container");
  EXPECT_THAT(CheckIoUring(container.root(), kRefused).remedy, HasSubstr("seccomp profile"));
  // A filter that lets it through is none of our business.
  EXPECT_EQ(CheckIoUring(container.root(), Status::Ok()).health, Health::kOk);
}

TEST(SystemChecksTest, AContainersLimitsAreNamed) {
  const RecordedMachine machine("container");
  const Finding memory = CheckMemory(machine.root());
  EXPECT_EQ(memory.health, Health::kCouldBeBetter);
  EXPECT_THAT(memory.found, HasSubstr("limits it to 8.00 GiB"));
  EXPECT_THAT(memory.remedy, HasSubstr("memory.max"));
  const Finding cpu = CheckCpu(machine.root());
  EXPECT_EQ(cpu.health, Health::kCouldBeBetter);
  EXPECT_THAT(cpu.found, HasSubstr("NEON with dot products; a control group allows 1.5 of them"));
  EXPECT_EQ(CheckLockedMemory(machine.root()).health, Health::kOk);
  EXPECT_EQ(CheckHugePages(machine.root()).health, Health::kOk);
  EXPECT_THAT(CheckHugePages(machine.root()).found, HasSubstr("cannot be seen"));
}

TEST(SystemChecksTest, AVirtualMachineThatDoesNotDefragment) {
  const RecordedMachine machine("virtio");
  const Finding huge = CheckHugePages(machine.root());
  EXPECT_EQ(huge.health, Health::kCouldBeBetter);
  EXPECT_THAT(huge.found, HasSubstr("hugetlb pool of 1.00 GiB"));
  EXPECT_THAT(huge.remedy, HasSubstr("transparent_hugepage/defrag"));
  EXPECT_THAT(CheckCpu(machine.root()).found, HasSubstr("AVX-512 with VNNI"));
}

TEST(SystemChecksTest, AnEmptyRootIsNoFault) {
  const TemporaryFolder folder;
  for (const Finding& finding :
       {CheckKernel(folder.path()), CheckLockedMemory(folder.path()), CheckHugePages(folder.path()),
        CheckMemory(folder.path()), CheckCpu(folder.path()),
        CheckIoUring(folder.path(), Status::Ok())}) {
    EXPECT_EQ(finding.health, Health::kOk) << finding.subject;
    EXPECT_FALSE(finding.found.empty()) << finding.subject;
  }
}

}  // namespace
}  // namespace picchio
