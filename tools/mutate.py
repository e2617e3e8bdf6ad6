#!/usr/bin/env python3
"""Plants one bug at a time in a copy of the tree and expects a test to fail.

Usage: mutate.py [--root ROOT] [--seeds N] [--jobs N] [NAME ...]
       mutate.py --table    # prints the table of docs/planted_bugs.md and plants nothing

Bug.test names the test that must fail: the simulation (tests/sim), or the unit tests of the scheduler
(tests/scheduler) if the bug leaves all outputs correct. If a bug survives, either the test lacks a check or the changed
line has no effect. Prints a table; exits 1 if a bug survives, does not apply or does not compile, or if a test fails
without a bug. Only .cpp files are changed, so each bug needs one compilation and one link.
"""
import argparse
import concurrent.futures
import dataclasses
import itertools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

FOLDERS = ["base", "kvcache", "scheduler", "engine", "kernels", "tests/sim", "tests/scheduler", "tests/support"]
SOURCES = ["base/check.cpp", "base/hash/*.cpp", "base/table.cpp", "engine/batch.cpp", "kvcache/**/*.cpp", "scheduler/*.cpp"]
TIMEOUT_S = 120  # time limit of one test; a bug that makes the test hang counts as caught


@dataclasses.dataclass
class Test:
    sources: list[str]
    libraries: list[str]  # names for pkg-config


TESTS = {
    "simulation": Test(["tests/sim/simulate_main.cpp", "tests/sim/simulation.cpp", "tests/sim/simulation_checks.cpp",
                        "tests/sim/expected_request.cpp"], []),
    # allocation_test.cpp replaces operator new, so it is a program of its own.
    "scheduler_test": Test(["tests/scheduler/[!a]*_test.cpp"], ["gtest_main", "gmock"]),
}


@dataclasses.dataclass
class Bug:
    name: str
    file: str
    old: str  # a space matches any white space
    new: str
    test: str = "simulation"  # name of the test that must fail, a key of TESTS


BUGS = [
    Bug("the key of a cache block does not depend on the key of the previous block of the prompt", "kvcache/keys/block_hash.cpp",
        "sha256_->digest_padded(message, num_chunks, message);",
        "std::memset(message, 0, sizeof(BlockHash)); sha256_->digest_padded(message, num_chunks, message);"),
    Bug("the block keys of two tenants are equal although the tenants must not share cached blocks", "kvcache/keys/block_message.cpp",
        "if (cache_namespace.tenant) {", "if (false) {"),
    Bug("a cache lookup returns blocks for the whole prompt, so the model has no prompt token to compute",
        "kvcache/kv_cache_lookup.cpp",
        "const auto findable = tokens.first(tokens.size() - 1);", "const auto findable = tokens;"),
    Bug("the cache allocates blocks for one token fewer than the step computes", "kvcache/kv_cache_manager.cpp",
        "static_cast<size_t>(BlocksFor(num_tokens))), kNoBlock)",
        "static_cast<size_t>(BlocksFor(num_tokens - 1))), kNoBlock)"),
    Bug("the cached blocks that a new sequence reuses as its prefix also count as free blocks for the other tokens of the sequence",
        "kvcache/kv_cache_manager.cpp",
        "num_held) + computed.num_idle;", "num_held);"),
    Bug("after a step fails, the blocks that were allocated for the step are not released", "kvcache/kv_cache_manager.cpp",
        "ReleaseFrom(table, static_cast<size_t>(num_kept));", "(void)table;"),
    Bug("for the second output of a request, the last cache block of the first output is copied without its last token",
        "kvcache/kv_cache_manager.cpp",
        ".num_tokens = num_partial}", ".num_tokens = num_partial - 1}"),
    Bug("a cache block that must be copied for the second output of a request may be evicted before the copy",
        "kvcache/kv_cache_manager.cpp",
        "pool_.AddUser(source);", ""),
    Bug("a cache block that must be copied for a new sequence may be evicted before the copy",
        "kvcache/kv_cache_manager.cpp",
        "if (source != kNoBlock) pool_.Use({&source, 1}, table.use);", ""),
    Bug("a step fails before it copies a cache block for a new sequence, and the cache block is never released",
        "kvcache/kv_cache_manager.cpp",
        "if (admitted_by_this_step) ReleaseCopySource(table);", ""),
    Bug("after a step fails, lookups still find the blocks that the step should have computed", "kvcache/kv_cache_manager.cpp",
        "if (pool_.is_pending(id)) pool_.Withdraw(id);", ""),
    Bug("lookups can find a cache block although they cannot find the previous block of the same prompt", "kvcache/kv_cache_manager.cpp",
        "if (index > 0 && !pool_.is_published(table.blocks[index - 1])) return;", ""),
    Bug("after a step fails, the cache forgets that a sequence of an earlier step had a hash collision",
        "kvcache/kv_cache_manager.cpp",
        "if (!admitted_by_this_step) return; table.collided = false;",
        "table.collided = false; if (!admitted_by_this_step) return;"),
    Bug("a cache lookup returns a block with an equal key although the tokens of the block differ from the prompt",
        "kvcache/kv_cache_lookup.cpp",
        "if (!Holds(found[i], before, i, block", "if (false && !Holds(found[i], before, i, block"),
    Bug("lookups by one key can find two cache blocks with different tokens", "kvcache/kv_cache_lookup.cpp",
        "return !Holds(holder, before, index, block, table);", "return false;"),
    Bug("the cache copies the keys and values of all prompt tokens, so the model has no prompt token to compute",
        "kvcache/kv_cache_lookup.cpp",
        "computed.copy_tokens = std::min(hit.num_tokens, static_cast<int32_t>(num_left) - 1);",
        "computed.copy_tokens = hit.num_tokens;"),
    Bug("the cache copies a part of a block whose keys and values are not computed yet", "kvcache/kv_cache_lookup.cpp",
        "if (pool_.is_pending(id)) return;", ""),
    Bug("the cache copies a part of a block of another tenant", "kvcache/kv_cache_lookup.cpp",
        "if (!HasKeyOf(id, found, table)) return;", ""),
    Bug("the cache never copies a part of a block, although the block begins with the next tokens of the prompt", "kvcache/kv_cache_lookup.cpp",
        "if (num_equal <= best.num_tokens) return;", "if (num_equal >= 0) return;"),
    Bug("after the eviction of a block, lookups still find the block by its old key", "kvcache/pool/block_pool.cpp",
        "EraseKey(victim.id);", ""),
    Bug("if a block is evicted before a new block needs its memory, the evicted block is not added to the list of free blocks",
        "kvcache/pool/block_pool.cpp",
        "FinishEviction(victim); unpublished_.PushBack(blocks_, victim.id);", "FinishEviction(victim);"),
    Bug("a block with a retention hint is evicted although a later block of the same prompt is still cached", "kvcache/pool/block_pool.cpp",
        "if (!At(id).has_children()) return id;", "return id;"),
    Bug("a block with a retention hint can be evicted while a sequence uses the block",
        "kvcache/pool/block_pool.cpp",
        "if (block.retained) retained_.Take(id);", ""),
    Bug("one of two blocks with the same key is removed, and the next blocks of prompts are still linked to the removed block",
        "kvcache/pool/block_links.cpp",
        "At(child).parent = to;", "(void)child;"),
    Bug("one of two blocks with the same key is removed, and lookups no longer find the other block",
        "kvcache/pool/block_links.cpp",
        "index_.Replace(from.hash.prefix(), id, to);", "index_.Remove(from.hash.prefix(), id);"),
    Bug("one of two blocks with the same key is removed, and its neighbour in a linked list still points to the removed block",
        "kvcache/pool/block_links.cpp",
        "if (heir.next_sibling != kNoBlock) At(heir.next_sibling).prev_sibling = to;", ""),
    Bug("a removed block stays in the list of blocks that have the same key", "kvcache/pool/block_links.cpp",
        "At(before).next_same = At(id).next_same; At(id)", "At(id)"),
    Bug("a block is removed from the cache, but stays in the table of the first blocks of prompts",
        "kvcache/pool/block_links.cpp",
        "chains_[SlotOfMark(block.prev_sibling)] = block.next_sibling;", ""),
    Bug("the last cached block of a prompt is removed, but the eviction policy is not notified that the previous block is now evictable",
        "kvcache/pool/block_links.cpp",
        "if (!parent.has_children() && in_order) policy_->OnChildless(block.parent);", "(void)in_order;"),
    Bug("lookups still find a free block although a sequence uses a newer block with the same key", "kvcache/pool/block_pool.cpp",
        "if (!is_lru_ && At(first).num_users == 0) Unfind(first);", "(void)first;"),
    Bug("a second block with the same key is published, but the eviction policy is not notified that the first block is now evictable",
        "kvcache/pool/block_pool.cpp",
        "if (in_order) policy_->OnChildless(first);", "(void)in_order;"),
    Bug("the log of cache events contains no event for an evicted block", "kvcache/pool/block_links.cpp",
        "if (is_emitted(block)) event_log_.AddRemoved(block.hash);", ""),
    Bug("one of two blocks with the same key is removed, and the log of cache events reports the key as new",
        "kvcache/pool/block_links.cpp",
        "heir.emitted_in = from.emitted_in;", "heir.emitted_in = 0;"),
    Bug("the log of cache events contains no event for a reset, which makes all blocks unfindable", "kvcache/pool/block_links.cpp",
        "event_log_.AddMark(KvEvent::Kind::kCleared);", ""),
    Bug("with the eviction policy `adaptive`, a block is evicted while a sequence uses the block", "kvcache/policies/adaptive_policy.cpp",
        "record.list_state = kElsewhere; record.uses = PlusOne(record.uses);", "record.uses = PlusOne(record.uses);"),
    Bug("with the eviction policy `arc`, a block may be evicted while a sequence uses the block",
        "kvcache/policies/arc_policy.cpp",
        "if (order_.has(id)) Leave(id);", "(void)order_;"),
    Bug("with the eviction policy `s3-fifo`, a block that becomes evictable is removed from its queue instead of moved to the front",
        "kvcache/policies/s3_fifo_policy.cpp",
        "order_.Remove(id); order_.PushFront(RecordOf(id).queue, id);", "order_.Remove(id);"),
    Bug("with the eviction policy `lru`, a block is evicted although a later block of the same prompt is still cached",
        "kvcache/policies/lru_policy.cpp",
        "while (id != kNoBlock && At(blocks_, id).is_needed(id)) id = At(blocks_, id).next;", ""),
    Bug("a retention hint with a priority slightly above the default has no effect",
        "kvcache/retention.cpp",
        "(over + kLevelWidth - 1) / kLevelWidth", "over / kLevelWidth"),
    Bug("the retention hints of one tenant keep more blocks than the maximum share of the cache", "kvcache/retention.cpp",
        "if (is_above && !counts && room-- <= 0) break;", "(void)counts; (void)room;"),
    Bug("a pinned cache block stays pinned after the maximum time of a pin", "kvcache/retention.cpp",
        "change = std::min(change, group.start + std::min(group.hint.pin, limits_.duration_max));", ""),
    Bug("a retention hint still has its old effect after its time has ended", "kvcache/retention.cpp",
        "next_due_ = std::exchange(due_after_, Time::max());", "next_due_ = due_after_ = Time::max();"),
    Bug("a retention hint is removed, but the cache still keeps the block of the hint",
        "kvcache/retention.cpp",
        "if (At(blocks_, id).retained) Leave(id);", ""),
    Bug("the cache counts a block as recently evicted although a different block was evicted", "kvcache/pool/evicted_keys.cpp",
        "if (!any) return kWays; size_t way = 0; while (way < kWays && !(set.tags[way] == tag && IsRecent",
        "(void)any; size_t way = 0; while (way < kWays && !(IsRecent"),
    Bug("a key is removed from the index of block keys, and lookups of some remaining keys fail", "kvcache/pool/block_index.cpp",
        "if (buckets_[passed].num_passed < kPassedMax) --buckets_[passed].num_passed;",
        "buckets_[passed].num_passed = 0;"),
    Bug("the cache treats a block as computed before the step that computes the block has run", "scheduler/plan.cpp",
        "++sequence.num_in_flight;",
        "++sequence.num_in_flight; cache_.CacheBlocks(sequence.table, sequence.tokens(), static_cast<int32_t>(num_known));"),
    Bug("the scheduler plans the copy of a cache block, but the step does not copy the block", "scheduler/plan.cpp",
        "plan.copies.push_back(sequence.table.copy);", "(void)plan;"),
    Bug("the scheduler preempts the oldest running sequence instead of the youngest", "scheduler/make_room.cpp",
        "Sequence* victim = ChooseVictim(protected_);", "Sequence* victim = running_.front();"),
    Bug("the scheduler starts a new sequence in a step in which it preempted another sequence because no cache block was free", "scheduler/plan.cpp",
        "!lacks_blocks_ && num_waiting() > 0", "num_waiting() > 0", test="scheduler_test"),
    Bug("the scheduler starts a new sequence although the cache has free blocks only for the first part of the sequence's prompt",
        "scheduler/admit.cpp",
        "cache_.BlocksNeeded(sequence.table, computed, sequence.num_tokens()) <= NumAvailable()",
        "cache_.BlocksNeeded(sequence.table, computed, std::min(sequence.num_tokens(), computed.num_tokens + options_.step_tokens_max)) <= NumAvailable()"),
    Bug("the scheduler plans the copy of a cache block although too few cache blocks are free for the copy",
        "scheduler/admit.cpp",
        "if (computed.copy_source != kNoBlock && num_needed > NumAvailable())", "if (num_needed < 0)"),
    Bug("a long prompt fills the whole step, and other sequences do not decode in this step", "scheduler/plan.cpp",
        "AddDecodes(survey, plan); decode_shape_ = plan.shape; prompt_room_ = PromptRoom(survey, plan); AddPrompts(now, plan, prompt_room_);",
        "prompt_room_ = PromptRoom(survey, plan); AddPrompts(now, plan, prompt_room_); AddDecodes(survey, plan);"),
    Bug("no request ends at its deadline while any request waits in the queue", "scheduler/plan.cpp",
        "if (now >= deadlines_.next())", "if (now >= deadlines_.next() && waiting_.empty())"),
    Bug("a request that is not allowed to read the cache gets cached blocks", "scheduler/admit.cpp",
        "if (!group.request->read_cache) num_findable", "if (false) num_findable"),
    Bug("a request for the log probabilities of all prompt tokens gets no log probabilities for cached tokens", "scheduler/admit.cpp",
        "if (group.scores_prompt()) num_findable", "if (false) num_findable"),
    Bug("penalties for repeated tokens ignore a token that the running step samples", "engine/batch.cpp",
        ".pending_sample = item.fed_sample};", ".pending_sample = -1};"),
    Bug("penalties for repeated tokens count the token that was sampled for another sequence of the running step", "engine/batch.cpp",
        ".pending_sample = item.fed_sample};", ".pending_sample = std::min(item.fed_sample, 0)};"),
    Bug("a request with several outputs takes part in the next step before the running step has sampled the first tokens of the outputs",
        "scheduler/sequence.cpp",
        "(is_first_token && FindUnborn(*sequence.group) != nullptr);", "(is_first_token && false);"),
    Bug("while the running step samples the first tokens of several outputs of one request, the next step is not planned",
        "scheduler/make_room.cpp",
        "if (num_in_flight_ > 0) {",
        "if (num_in_flight_ > 0) { for (const Sequence* s : running_) if (s->num_pending > 0 && NeedsPendingToken(*s)) return false;"),
    Bug("the next step computes a sequence although the running step samples the last token of the sequence", "scheduler/plan.cpp",
        "return sequence.length() < sequence.request().length_max() &&", "return"),
    Bug("a step is planned while the previous step runs, although too few cache blocks are free for the planned step", "scheduler/make_room.cpp",
        "displaced == nullptr && survey.num_urgent_blocks <= cache_.num_free();", "displaced == nullptr;"),
    Bug("the input token of a sequence is the token that was sampled for another sequence", "scheduler/plan.cpp",
        "sequence.pending_sample = item.sample_begin;", "sequence.pending_sample = item.sample_begin + 1;"),
    Bug("the waiting queue admits the newest request first", "scheduler/waiting_queue.cpp",
        "if (key_a != key_b) return key_a < key_b;", "if (key_a != key_b) return key_a > key_b;", test="scheduler_test"),
    Bug("after the removal of a request from the middle of the waiting queue, the queue returns requests in a wrong order", "scheduler/waiting_queue.cpp",
        "Place(hole, *last); SiftUp(hole);", "Place(hole, *last);", test="scheduler_test"),
    Bug("a request that is cancelled while the device computes tokens of the request does not end", "scheduler/commit.cpp",
        "if (has_failed) EndFailed(plan); EndRequested(plan);",
        "if (has_failed) EndFailed(plan);"),
    Bug("lookups can find cache blocks of a request whose logits are NaN or infinite", "scheduler/commit.cpp",
        "cache_.Unpublish(other.table, other.num_tokens());", "(void)other;"),
    Bug("a request does not end although one of its logits is NaN or infinite", "scheduler/commit.cpp",
        "if (std::exchange(group.failed, true)) continue;", "if (group.failed) continue;"),
    Bug("the blocks of a sequence are released while the device still computes a step with these blocks", "scheduler/scheduler.cpp",
        "if (sequence.num_in_flight == 0) Release(sequence);", "Release(sequence);"),
    Bug("a sequence that has ended still receives the token of a later step", "scheduler/commit.cpp",
        "group.failed || sequence.ended() || sequence.end_at_commit", "group.failed || sequence.end_at_commit"),
    Bug("after a step fails, the cache also releases the blocks of the previous step, which succeeded", "scheduler/commit.cpp",
        "sequence.num_in_flight > 0 ? item->first_token : 0", "0"),
    Bug("when a step is complete, the cache treats the blocks of the next step as computed, too", "kvcache/kv_cache_manager.cpp",
        "table.num_committed = BlocksFor(num_computed);", "table.num_committed = static_cast<int32_t>(table.blocks.size());"),
    Bug("the statistics count the start of one sequence again in every later step", "scheduler/commit.cpp",
        "sequence.admission_pending = false; if (!group.admitted)", "if (!group.admitted)"),
    Bug("the output of a request ends one token before the maximum length", "scheduler/commit.cpp",
        "sequence.num_tokens() == request.length_max()", "sequence.num_tokens() == request.length_max() - 1"),
    Bug("a client receives the log probabilities of prompt tokens twice", "scheduler/commit.cpp",
        "group.num_scored += item.num_scores;", ""),
    Bug("the cancellation of one output of a request stops the computation of the prompt for all outputs", "scheduler/scheduler.cpp",
        "if (heir == nullptr) {", "if (true) {"),
    Bug("the cancellation of one output of a request takes effect while the running step samples the first token of this output",
        "scheduler/scheduler.cpp",
        "if (sequence.num_pending > 0) {", "if (false) {"),
    Bug("penalties for repeated tokens ignore the output tokens", "scheduler/sequence.cpp",
        "++it->in_output;", ""),
    Bug("after the minimum output length, stop tokens stay forbidden for one more token", "engine/batch.cpp",
        "num_output < request.output_tokens_min", "num_output <= request.output_tokens_min"),
    # Shares of the tenants.
    Bug("when a new tenant arrives, requests without a tenant name get a new service counter (sum of the prices of tokens)", "scheduler/tenant_shares.cpp",
        "if (index < num_indices()) { index_of_.erase(At(index).id); } else {", "index_of_.erase(0); if (index == num_indices()) {", test="scheduler_test"),
    Bug("a tenant is not charged if a preempted sequence continues and finds more cached tokens than the tenant has paid for", "scheduler/admit.cpp",
        "if (!sequence.returning || num_hit > sequence.num_paid) {", "if (!sequence.returning) {", test="scheduler_test"),
    Bug("a step fails after a tenant has left, and another tenant gets the refund for the tokens of this tenant", "scheduler/commit.cpp",
        "if (sequence.group->num_unended > 0) {", "if (true) {", test="scheduler_test"),
    Bug("a prompt is preempted for another tenant's request, although the refund for the prompt makes the prompt start again before this request",
        "scheduler/make_room.cpp",
        "if (ReturnsBefore(*sequence, next->standing)) continue;", "", test="scheduler_test"),
    Bug("a small sequence that started before an older, larger request is later preempted for a request that is newer than the sequence",
        "scheduler/make_room.cpp",
        "&& !ReturnsBefore(sequence, head_->standing)", "", test="scheduler_test"),
    Bug("a small sequence that started before an older, larger request is preempted in every step, although its blocks do not suffice for the larger request",
        "scheduler/make_room.cpp",
        "if (is_blocked_ && sequence->is_passing) continue;", "", test="scheduler_test"),
    Bug("small sequences start before an older, larger request that fits into the cache now, because the larger request needs more than one step",
        "scheduler/admit.cpp", "if (head_ != nullptr && !policy_->GoesBefore(head_->standing, sequence.standing)) return true;", "",
        test="scheduler_test"),
    Bug("a sequence that was preempted waits although it is older than a request that does not fit into the cache, because it needs more than one step",
        "scheduler/admit.cpp", "!policy_->GoesBefore(head_->standing, sequence.standing)", "&sequence == head_", test="scheduler_test"),
    Bug("small sequences that started before an older, larger request take cache blocks that the prompt of another running sequence needs",
        "scheduler/make_room.cpp", "while (PassingTakesPromised(survey)) {", "while (false) {", test="scheduler_test"),
    Bug("a sequence that was preempted too often starts before an older, larger request, and then an older sequence is preempted instead",
        "scheduler/admit.cpp",
        "if (is_blocked_ && sequence.num_preemptions >= options_.preemptions_max) return false;", "", test="scheduler_test"),
    Bug("a larger request seems to fit into the cache, although the decoding sequences take some of the free blocks in the same step",
        "scheduler/make_room.cpp", "survey.num_decode_blocks - NumAvailable();", "- NumAvailable();", test="scheduler_test"),
    Bug("a tenant is not charged for output tokens", "scheduler/plan.cpp",
        "shares_.ChargeOutput(group.standing.tenant, item.num_samples);", "", test="scheduler_test"),
    Bug("after a step fails, the tenants get no refund for the output tokens of the step", "scheduler/commit.cpp",
        "shares_.ChargeOutput(sequence.group->standing.tenant, -item->num_samples);", "", test="scheduler_test"),
    Bug("when a preempted sequence continues, its tenant is charged again for all prompt tokens", "scheduler/scheduler.cpp",
        "RefundPrompt(sequence);", "sequence.num_paid = 0;", test="scheduler_test"),
    Bug("a tenant gets no refund for prompt tokens that a preempted or cancelled sequence did not compute",
        "scheduler/scheduler.cpp",
        "RefundPrompt(sequence);", "", test="scheduler_test"),
    Bug("cached prompt tokens cost a tenant as much as computed prompt tokens", "scheduler/admit.cpp",
        "shares_.ChargeCached(tenant, num_hit - sequence.num_paid);", "shares_.ChargePrompt(tenant, num_hit - sequence.num_paid);", test="scheduler_test"),
    Bug("when an idle tenant sends a request, the service counter of the tenant is not raised to the smallest counter of the active tenants",
        "scheduler/tenant_shares.cpp",
        "tenant.service = std::max(tenant.service, start);", "(void)start;", test="scheduler_test"),
    Bug("when an idle tenant sends a request, the service counter of the tenant is lowered to the smallest counter of the active tenants",
        "scheduler/tenant_shares.cpp",
        "tenant.service = std::max(tenant.service, start);", "tenant.service = start;", test="scheduler_test"),
    Bug("the weights of tenants have no effect", "scheduler/tenant_shares.cpp",
        "weight == options_.weights.end() ? 1 : weight->second", "weight == options_.weights.end() ? 1 : 1", test="scheduler_test"),
    Bug("an idle tenant keeps its share of the running sequences, instead of leaving the share to the other tenants", "scheduler/tenant_shares.cpp",
        "num_active_ == 0 ? 0 : active_weight_ - tenant.weight", "num_active_ == 0 ? 0 : active_weight_", test="scheduler_test"),
    Bug("the waiting request of the tenant with the most service starts first", "scheduler/fair_policy.cpp",
        "return service_a < service_b;", "return service_a > service_b;", test="scheduler_test"),
    Bug("the sequences of the tenant with the least service are preempted first", "scheduler/fair_policy.cpp",
        "return shares_.service(b.tenant) <=> shares_.service(a.tenant);",
        "return shares_.service(a.tenant) <=> shares_.service(b.tenant);", test="scheduler_test"),
    Bug("two tenants preempt each other's sequences in every step", "scheduler/fair_policy.cpp",
        "&& gap > kExchangeGap", "", test="scheduler_test"),
    Bug("a sequence that has ended still counts as a running sequence of its tenant", "scheduler/scheduler.cpp",
        "shares_.CountRunning(sequence.group->standing.tenant, -1);", "", test="scheduler_test"),
    Bug("a refund makes the metric of a tenant's service fall", "scheduler/tenant_shares.cpp",
        "if (untaken_[i] > 0) taken[i]", "taken[i]", test="scheduler_test"),
    Bug("the metrics add the service of a named tenant to the service of other tenants", "scheduler/tenant_shares.cpp",
        "if (reported != options_.reported.end()) {", "if (false) {", test="scheduler_test"),
    Bug("the metrics count a preemption for the share of a tenant with a wrong reason", "scheduler/make_room.cpp",
        "Preempt(*displaced, PreemptionReason::kShare, plan);", "Preempt(*displaced, PreemptionReason::kHead, plan);",
        test="scheduler_test"),

    # Expected wait.
    Bug("the expected wait ignores that a slot must become free", "scheduler/expected_wait.cpp",
        "std::max({work_s, slots_s, rest_s})", "std::max(work_s, rest_s)", test="scheduler_test"),
    Bug("the expected wait ignores the prompt tokens that running sequences have left", "scheduler/expected_wait.cpp",
        "if (is_prompt) num_running_tokens += sequence->num_missing();", "(void)is_prompt;", test="scheduler_test"),
    Bug("the scheduler does not count the ends of sequences for the expected wait", "scheduler/scheduler.cpp",
        "slot_times_.AddEnd();", "", test="scheduler_test"),

    # Order of the waiting sequences.
    Bug("the priority of a waiting request falls with time", "scheduler/scheduler.cpp",
        "MakeOrderKey(request, next_order_++, options_.priority_aging)",
        "MakeOrderKey(request, next_order_++, -options_.priority_aging)", test="scheduler_test"),
    Bug("the priority of a waiting request never rises", "scheduler/scheduler.cpp",
        "MakeOrderKey(request, next_order_++, options_.priority_aging)",
        "MakeOrderKey(request, next_order_++, Duration{})", test="scheduler_test"),
    Bug("the scheduler does not count how many later sequences start before a waiting sequence", "scheduler/admit.cpp",
        "++sequence->num_overtaken;", "(void)sequence;", test="scheduler_test"),
    Bug("any number of later sequences with a longer cached prefix may start before a waiting sequence", "scheduler/admit.cpp",
        "if (sequence->num_overtaken >= kOvertakenMax) break;", "", test="scheduler_test"),
    Bug("any number of later, smaller sequences may start before a waiting sequence that does not fit into the cache", "scheduler/admit.cpp",
        "if (sequence->num_overtaken >= kOvertakenMax) return nullptr;", ""),
    Bug("a sequence with a cached prefix starts before a waiting sequence of a higher priority", "scheduler/admit.cpp",
        "sequence->standing.priority >= first.standing.priority && IsCandidate", "IsCandidate", test="scheduler_test"),
    Bug("the cached prefix of a waiting sequence is looked up only once, although the cache changes while the sequence waits", "scheduler/admit.cpp",
        "if (!IsOutOfDate(sequence)) return;", "if (sequence.match.is_known) return;", test="scheduler_test"),
    Bug("the scheduler does not look up a waiting sequence again after the first block behind its cached prefix has become findable",
        "scheduler/admit.cpp",
        "return num_found < keys.size() && cache_.num_changes(keys[num_found]) != match.next_changes;", "return false;", test="scheduler_test"),
    Bug("the scheduler does not look up a waiting sequence again after the last block of its cached prefix was evicted", "scheduler/admit.cpp",
        "if (num_found > 0 && cache_.num_changes(keys[num_found - 1]) != match.last_changes) return true;", "", test="scheduler_test"),
    Bug("if another sequence pushes a waiting sequence out of the first `--reorder-window` positions of the queue, the waiting sequence never starts",
        "scheduler/waiting_queue.cpp",
        "last.in_window = false; PushHeap(last);", "last.in_window = false;"),
    Bug("when one of the first `--reorder-window` sequences leaves the waiting queue, the next sequence of the queue does not take the free position",
        "scheduler/waiting_queue.cpp",
        "RemoveFromHeap(next); EnterWindow(next);", "(void)next;"),
    Bug("a request is removed from the middle of the deadline heap, and another request loses its deadline",
        "scheduler/deadline_heap.cpp",
        "Place(hole, *last); SiftUp(hole); SiftDown(last->deadline_index);", "last->deadline_index = -1; Place(hole, group); group.deadline_index = -1;"),
    Bug("after the removal of a request from the deadline heap, the heap returns deadlines in a wrong order",
        "scheduler/deadline_heap.cpp",
        "SiftDown(last->deadline_index);", ""),

    # Admission and preemption.
    Bug("the scheduler starts a new sequence although the running prompts will need the free cache blocks", "scheduler/plan.cpp",
        "num_promised_ += cache_.BlocksNeeded(sequence.table, {}, sequence.length());", ""),
    Bug("a new sequence may take the free cache blocks that are reserved for sequences that decode", "scheduler/admit.cpp",
        "running_.empty() ? 0 : cache_.num_blocks() / kReservedParts", "0", test="scheduler_test"),
    Bug("the running sequence that started first can be preempted because another sequence needs cache blocks", "scheduler/make_room.cpp",
        "ChooseVictim(protected_)", "ChooseVictim(nullptr)"),
    Bug("the running sequence that started first can be preempted for a request of another tenant", "scheduler/make_room.cpp",
        "if (sequence == protected_ || !HasWork(*sequence)) continue;", "if (!HasWork(*sequence)) continue;"),
    Bug("a small sequence that started before an older, larger request becomes the one sequence that is never preempted", "scheduler/make_room.cpp",
        "if (!sequence->is_passing) return sequence; if (first == nullptr) first = sequence;", "return sequence;"),
    Bug("no prompt token of the step is reserved for the running sequence that started first", "scheduler/plan.cpp",
        "std::ranges::find(prompts_, protected_) == prompts_.end() ? 0 : 1", "0"),
    Bug("a sequence that was preempted `--preemptions-max` times is not spared when the scheduler preempts the next sequence", "scheduler/make_room.cpp",
        "if (spares_a != spares_b) return spares_b;", "", test="scheduler_test"),
    Bug("the number of preemptions of a sequence is not counted", "scheduler/make_room.cpp",
        "++victim.num_preemptions;", "", test="scheduler_test"),
    Bug("the sequence that must compute the most tokens again after a preemption is preempted first", "scheduler/make_room.cpp",
        "return lost_a < lost_b;", "return lost_a > lost_b;", test="scheduler_test"),
    Bug("the statistics of the cache count the lookup of a preempted sequence as the lookup of a new request", "scheduler/make_room.cpp",
        "victim.returning = true;", ""),

    # Sequences that pass the head.
    Bug("a small sequence that starts before an older, larger request is not marked, so the larger request waits until the small sequence ends",
        "scheduler/admit.cpp",
        "next->is_passing = is_blocked_;", "", test="scheduler_test"),
    Bug("the second output of a request that started before an older, larger request is not marked as preemptible for the larger request",
        "scheduler/commit.cpp",
        "choice.is_passing = prompt.is_passing;", "", test="scheduler_test"),
    Bug("small sequences that started before an older, larger request are never preempted for the larger request", "scheduler/make_room.cpp",
        "++num_passing; } return num_needed <= 0;", "++num_passing; } return false;", test="scheduler_test"),
    Bug("small sequences that started before an older, larger request are preempted although their blocks do not suffice for the larger request",
        "scheduler/make_room.cpp",
        "++num_passing; } return num_needed <= 0;", "++num_passing; } return num_passing > 0;", test="scheduler_test"),
    Bug("when the scheduler counts the blocks that a preemption would free, it also counts blocks that other sequences use", "scheduler/make_room.cpp",
        "num_needed -= cache_.pool().num_users(id) == 1;", "num_needed -= cache_.pool().num_users(id) >= 1;", test="scheduler_test"),
    Bug("the cached prefix of a large waiting request can be evicted while later, smaller requests start", "scheduler/admit.cpp",
        "(!is_held && !HoldHead())", "false", test="scheduler_test"),
    Bug("a large waiting request keeps the blocks of its cached prefix although decoding sequences need free blocks", "scheduler/make_room.cpp",
        "if (head_ != nullptr && !head_->table.blocks.empty()) { ReleaseHead(); continue; }", ""),
    Bug("when a large waiting request is cancelled, the blocks of its cached prefix are not released", "scheduler/prefix_waiters.cpp",
        "void Scheduler::StopWaiting(Sequence& sequence) { if (&sequence == head_) SetHead(nullptr);",
        "void Scheduler::StopWaiting(Sequence& sequence) { if (&sequence == head_) head_ = nullptr;"),

    # Sequences that wait for a prefix.
    Bug("a waiting sequence starts although a running sequence still computes a prefix that both sequences share", "scheduler/admit.cpp",
        "if (!is_held && WaitForPrefix(*next, computed)) {", "if (false) {"),
    Bug("a sequence that waited for a shared prefix is not put back into the queue when the prefix is planned", "scheduler/prefix_waiters.cpp",
        "waiting_.Push(*waiter);", ""),
    Bug("a sequence that waits for a shared prefix continues to wait after the last block of the prefix is planned", "scheduler/prefix_waiters.cpp",
        "if (waiter->shared_tokens > num_tokens) {", "if (waiter->shared_tokens >= num_tokens) {"),
    Bug("when the sequence that computes a shared prefix is preempted or cancelled, the sequences that wait for the prefix continue to wait",
        "scheduler/scheduler.cpp",
        "WakeWaiters(sequence, std::numeric_limits<int32_t>::max());", ""),
    Bug("several sequences wait for prefixes of one running sequence, and only the sequence with the shortest shared prefix ever continues",
        "scheduler/prefix_waiters.cpp",
        "producer.wake_tokens = std::min(producer.wake_tokens, waiter->shared_tokens);", ""),
    Bug("a request that must not read the cache waits until another request has computed a shared prefix", "scheduler/prefix_waiters.cpp",
        "!group.request->read_cache || group.scores_prompt()", "group.scores_prompt()"),
    Bug("the sequence that computes a shared prefix does not get the better rank of a sequence that waits for the prefix", "scheduler/prefix_waiters.cpp",
        "producer->standing = sequence.standing;", "", test="scheduler_test"),
    Bug("the wait for a prefix counts as a wait for the share of the tenant", "scheduler/prefix_waiters.cpp",
        "sequence.group->wait.Enter(WaitReason::kPrefix, now_);", "", test="scheduler_test"),
    Bug("the wait for a prefix goes on although the prefix is planned", "scheduler/prefix_waiters.cpp",
        "waiter->group->wait.Enter(WaitReason::kShare, now_);", "", test="scheduler_test"),
    Bug("the wait for free cache blocks counts as a wait for the share of the tenant", "scheduler/admit.cpp",
        "next->group->wait.Enter(WaitReason::kRoom, now);", "", test="scheduler_test"),
    Bug("the sequence that computes a shared prefix keeps the rank of a waiting sequence after the waiting sequence is cancelled",
        "scheduler/prefix_waiters.cpp",
        "*link = sequence.next_waiter; UpdateRank(*policy_, producer);", "*link = sequence.next_waiter;", test="scheduler_test"),
    Bug("when a sequence that waits for a shared prefix is cancelled, all later sequences in the list of waiting sequences are lost",
        "scheduler/prefix_waiters.cpp",
        "*link = sequence.next_waiter; UpdateRank(*policy_, producer);", "*link = nullptr; UpdateRank(*policy_, producer);"),

    # Tokens of a step.
    Bug("the scheduler ignores the target for the time between two output tokens (`--itl-target`)", "scheduler/plan.cpp",
        "return is_catching_up_ ? room : num_tokens;", "return room;", test="scheduler_test"),
    Bug("prompts that miss the target `--ttft-target` still get only as many tokens of a step as `--itl-target` allows", "scheduler/plan.cpp",
        "return is_catching_up_ ? room : num_tokens;", "return num_tokens;", test="scheduler_test"),
    Bug("the scheduler uses the default of `--itl-target` although the flag is set", "scheduler/plan.cpp",
        "options_.itl_target > Duration{} ? options_.itl_target : ", "", test="scheduler_test"),
    Bug("the running prompt with the most tokens left to compute is computed first", "scheduler/plan.cpp",
        "return left_a != left_b ? left_a < left_b", "return left_a != left_b ? left_a > left_b", test="scheduler_test"),
    Bug("the oldest prompt gets no tokens while shorter prompts are computed", "scheduler/plan.cpp",
        "oldest == nullptr ? 0 : (room + 3) / 4", "oldest == nullptr ? 0 : 0"),
    Bug("a short waiting prompt starts only after a long running prompt is computed", "scheduler/plan.cpp",
        "room -= Admit(now, plan, available, missing_max);", "(void)missing_max; (void)available;", test="scheduler_test"),
    Bug("after a step fails, the tokens of the step still count as planned and are not computed again", "scheduler/commit.cpp",
        "sequence.num_planned = item->first_token;", ""),
    Bug("the oldest prompt gets its tokens after all other prompts", "scheduler/plan.cpp",
        "for (; next < num_prompts; ++next) compute(*prompts_[next]);",
        "for (; next < num_prompts; ++next) { if (prompts_[next] != oldest) compute(*prompts_[next]); } if (for_oldest > 0) compute(*oldest);", test="scheduler_test"),
]


def table() -> str:
    """Returns the planted bugs as a Markdown table."""
    rows = "".join(f"| `{bug.file}` | {bug.name[0].upper()}{bug.name[1:]} | `{bug.test}` |\n" for bug in BUGS)
    return "| source file | planted bug | test that fails |\n|---|---|---|\n" + rows


def run(command: list[str], **kwargs) -> subprocess.CompletedProcess:
    return subprocess.run(command, capture_output=True, text=True, **kwargs)


class Workshop:
    """A copy of the tree with its object files. Each bug needs one compilation.

    Files without planted bugs are compiled together, one unit per folder. The sources of a test are one unit, too.
    """

    def __init__(self, root: pathlib.Path, work: pathlib.Path, seeds: int, bugs: list[Bug]):
        self.tree, self.work, self.seeds = work / "tree", work, seeds
        self.header = work / "all.h"
        for folder in FOLDERS:
            shutil.copytree(root / folder, self.tree / folder, dirs_exist_ok=True,
                            ignore=lambda _, names: [n for n in names if not n.endswith((".h", ".cpp"))
                                                     and "." in n])
        sources = {str(path.relative_to(self.tree)) for pattern in SOURCES for path in self.tree.glob(pattern)}
        mutated = {bug.file for bug in bugs}
        self.includes = {line for source in mutated for line in (self.tree / source).read_text().splitlines()
                         if line.startswith('#include "')}
        self.sources = sorted(sources & mutated) + self.bundle(sorted(sources - mutated))
        self.units = {name: self.bundle_test(name, TESTS[name]) for name in sorted({bug.test for bug in bugs})}
        compiler = os.environ.get("CXX", "c++").split()
        self.compiler = compiler + ["-std=c++20", "-O1", "-I", str(self.tree)]

    def bundle(self, sources: list[str]) -> list[str]:
        for folder, files in itertools.groupby(sources, lambda source: source.split("/")[0]):
            text = "".join(f'#include "{file}"\n' for file in files)
            (self.tree / f"{folder}.cpp").write_text(text)
        return sorted(path.name for path in self.tree.glob("*.cpp"))

    def bundle_test(self, name: str, test: Test) -> str:
        files = sorted(path.relative_to(self.tree) for pattern in test.sources for path in self.tree.glob(pattern))
        unit = f"{name}.cpp"
        (self.tree / unit).write_text("".join(f'#include "{file}"\n' for file in files))
        return unit

    def object_of(self, source: str) -> pathlib.Path:
        return self.work / (source.replace("/", "_") + ".o")

    def precompile(self) -> str:
        """Precompiles one header that includes all headers. A bug then needs only the compilation of its own file's
        lines."""
        self.header.write_text("\n".join(sorted(self.includes)) + "\n")
        result = run(self.compiler + ["-x", "c++-header", str(self.header), "-o", f"{self.header}.gch"])
        return result.stderr if result.returncode else ""

    def compile(self, source: pathlib.Path, target: pathlib.Path) -> str:
        result = run(self.compiler + ["-include", str(self.header), "-c", str(source), "-o", str(target)])
        return result.stderr if result.returncode else ""

    def link(self, test: str, mutated: dict[str, pathlib.Path], target: pathlib.Path) -> str:
        """Links the program of `test`. `mutated` has the object files that replace the object file of a source."""
        names = ["absl_flat_hash_map", "absl_status", "fmt"] + TESTS[test].libraries
        libraries = run(["pkg-config", "--libs"] + names, check=True).stdout.split()
        objects = [str(mutated.get(s, self.object_of(s))) for s in self.sources + [self.units[test]]]
        result = run(self.compiler + objects + ["-o", str(target)] + libraries)
        return result.stderr if result.returncode else ""

    def run_test(self, test: str, program: pathlib.Path) -> tuple[bool, str]:
        """Returns whether the test passed, and a line of its output: the last line, or the first failed unit test."""
        arguments = ["1", str(self.seeds)] if test == "simulation" else ["--gtest_brief=1", "--gtest_fail_fast"]
        try:
            result = run([str(program)] + arguments, timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return False, "hangs"
        said = (result.stdout + result.stderr).strip().splitlines()
        said = [line.replace(str(self.tree) + "/", "") for line in said if not line.startswith("while ")]
        failed = [line for line in said if line.startswith("[  FAILED  ]")]
        return result.returncode == 0, (failed + said[-1:] + [f"exit status {result.returncode}"])[0]

    def build_all(self, pool: concurrent.futures.Executor) -> str:
        error = self.precompile()
        if error:
            return error
        sources = list(self.units.values()) + self.sources
        errors = pool.map(lambda s: self.compile(self.tree / s, self.object_of(s)), sources)
        return "\n".join(filter(None, errors))

    def plant(self, index: int, bug: Bug) -> tuple[str, str]:
        """Returns the verdict ("caught", or the problem) and details."""
        text = (self.tree / bug.file).read_text()
        pattern = r"\s+".join(re.escape(word) for word in bug.old.split())
        mutated, count = re.subn(pattern, lambda _: bug.new, text)
        if count != 1:
            return "NOT APPLIED", f"{count} matches in {bug.file}"
        source = self.work / f"bug{index}.cpp"
        source.write_text(mutated)
        mutant, program = self.work / f"bug{index}.o", self.work / f"bug{index}"
        error = self.compile(source, mutant)
        error = error or self.link(bug.test, {bug.file: mutant}, program)
        if error:
            return "NOT BUILT", error.strip().splitlines()[0]
        held, said = self.run_test(bug.test, program)
        program.unlink()
        return ("SURVIVES" if held else "caught"), said


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--seeds", type=int, default=16000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--table", action="store_true", help="print the planted bugs as a Markdown table, and plant nothing")
    parser.add_argument("names", nargs="*", help="bugs to plant; all of them by default")
    arguments = parser.parse_args()
    if arguments.table:
        print(table(), end="")
        return 0
    bugs = [bug for bug in BUGS if not arguments.names or bug.name in arguments.names]
    width = max(len(bug.name) for bug in BUGS)
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        workshop = Workshop(arguments.root, pathlib.Path(folder), arguments.seeds, bugs)
        error = workshop.build_all(pool)
        programs = {test: pathlib.Path(folder) / test for test in workshop.units}
        for test, program in programs.items():
            error = error or workshop.link(test, {}, program)
        if error:
            print(error)
            return 1
        sound = pool.map(lambda pair: workshop.run_test(*pair), programs.items())
        verdicts = pool.map(lambda pair: workshop.plant(*pair), enumerate(bugs))
        for test, (held, said) in zip(programs, sound):
            print(f"{'without a bug: ' + test:{width}} {'holds' if held else 'FAILS':12} {said}", flush=True)
            if not held:
                pool.shutdown(cancel_futures=True)
                return 1
        caught = 0
        for bug, (verdict, detail) in zip(bugs, verdicts):
            print(f"{bug.name:{width}} {verdict:12} {detail}", flush=True)
            caught += verdict == "caught"
    print(f"{caught} of {len(bugs)} bugs caught in {time.monotonic() - start:.0f} s")
    return 0 if caught == len(bugs) else 1


if __name__ == "__main__":
    sys.exit(main())
