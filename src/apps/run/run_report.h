// What a run says of itself when it is over: tokens, rates, where the time and the bytes went.
#pragma once

#include <string>

#include "apps/run/engine.h"
#include "base/json.h"
#include "engine/session.h"

namespace picchio {

// The most memory that this process has held, in bytes.
uint64_t PeakResidentBytes();

// What the user should know before the run begins, on standard error: with `storage` also what
// memory the cache has, and how experts are read.
void PrintNotes(const Engine& engine, bool storage);
// What came up since: reads that had to be repeated another way.
void PrintLateNotes(const Engine& engine);

// How far the experts of earlier runs are loaded, for beside a progress line; empty when they are.
std::string PreloadText(const ExpertCache& experts);
// Leaves the counters for the next run; that they could not be written is said on standard error.
void SaveUseCounters(const Engine& engine);

// A table for people.
std::string StatsTable(const RunStats& stats, const Engine& engine);
// {"prompt": {...}, "decode": {...}, "memory": {...}}
Json StatsJson(const RunStats& stats, const Engine& engine);
Json PhaseJson(const PhaseStats& phase);

}  // namespace picchio
