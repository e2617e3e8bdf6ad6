// Scheduler::Commit and Scheduler::Abort: record the results of a step, or undo a failed step.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "scheduler/scheduler.h"

namespace incipit {

// Indices of the next rows of log probabilities in a StepOutcome. The rows have the order of
// StepPlan::items.
struct Scheduler::Cursor {
  int32_t logprobs_row = 0;
  int32_t score_row = 0;
};

void Scheduler::Commit(const StepPlan& plan, const StepOutcome& outcome) {
  INCIPIT_CHECK(num_in_flight_ > 0 && in_flight_.front() == &plan);
  INCIPIT_CHECK(outcome.tokens.size() == plan.samples.size());
  INCIPIT_CHECK(outcome.status.size() == plan.samples.size());
  std::shift_left(in_flight_.begin(), in_flight_.end(), 1);
  --num_in_flight_;
  step_times_.Observe(plan.shape, outcome.duration);
  slot_times_.AddStep(num_running(), outcome.duration);
  const StepClass step_class = ClassOf(plan.shape);
  step_time_errors_[static_cast<size_t>(step_class)] = step_times_.ErrorOf(step_class);
  const auto is_finite = [](RowStatus status) { return status == RowStatus::kOk; };
  INCIPIT_CHECK(outcome.score_status.size() == static_cast<size_t>(plan.num_scores));
  const bool has_failed = !std::ranges::all_of(outcome.status, is_finite) ||
                          !std::ranges::all_of(outcome.score_status, is_finite);
  if (has_failed) MarkFailed(plan, outcome);
  Cursor cursor;
  for (const StepPlan::Item& item : plan.items) CommitItem(plan, item, outcome, cursor);
  if (has_failed) EndFailed(plan);
  EndRequested(plan);
  Sweep();
}

// Marks the requests with NaN or infinite logits as failed, and makes their blocks unfindable, also
// the pending blocks. Runs before Commit publishes blocks, so that no lookup finds such values.
void Scheduler::MarkFailed(const StepPlan& plan, const StepOutcome& outcome) {
  size_t score_row = 0;
  for (const StepPlan::Item& item : plan.items) {
    const auto is_finite = [](RowStatus status) { return status == RowStatus::kOk; };
    const auto samples = outcome.status.subspan(item.sample_begin, item.num_samples);
    const auto scores = outcome.score_status.subspan(score_row, item.num_scores);
    score_row += static_cast<size_t>(item.num_scores);
    if (std::ranges::all_of(samples, is_finite) && std::ranges::all_of(scores, is_finite)) continue;
    SequenceGroup& group = *item.sequence->group;
    if (std::exchange(group.failed, true)) continue;
    for (const Sequence& other : group.sequences) {
      cache_.Unpublish(other.table, other.num_tokens());
    }
    if (tier_ != nullptr) RemoveFromTier(group.sequences.front());
  }
}

void Scheduler::CommitItem(const StepPlan& plan, const StepPlan::Item& item,
                           const StepOutcome& outcome, Cursor& cursor) {
  Sequence& sequence = *item.sequence;
  SequenceGroup& group = *sequence.group;
  --sequence.num_in_flight;
  sequence.num_pending -= item.num_samples > 0;
  cache_.ReleaseCopySource(sequence.table);
  if (item.num_loaded > 0) CommitPart(item);
  if (!group.failed) {
    // The step may have computed a token that the sequence does not contain, because the sequence
    // ended while the step was in flight. Such a token does not count.
    sequence.num_computed = std::min(item.first_token + item.num_tokens, sequence.num_tokens());
    sequence.num_computed_max = std::max(sequence.num_computed_max, sequence.num_computed);
    cache_.CacheBlocks(sequence.table, sequence.tokens(), sequence.num_computed);
    if (tier_ != nullptr) AddChunkEvents(sequence);
    const bool is_admitted = sequence.admission_pending && item.num_tokens > 0;
    if (is_admitted && !sequence.ended()) CountAdmission(sequence);
  }
  if (item.num_scores > 0 && !group.failed && !sequence.ended()) {
    events_.prompt_logprobs.push_back({.request = group.request->id,
                                       .position = item.score_begin,
                                       .first_row = cursor.score_row,
                                       .num_rows = item.num_scores});
    group.num_scored += item.num_scores;
  }
  cursor.score_row += item.num_scores;
  DeliverSamples(plan, item, outcome, cursor);
  if (sequence.state == SequenceState::kEnding && sequence.num_in_flight == 0) Release(sequence);
}

// Counts the admission of `sequence` in the statistics of the cache, and reports the admission of
// the request. An admission whose step failed is not counted.
void Scheduler::CountAdmission(Sequence& sequence) {
  SequenceGroup& group = *sequence.group;
  const Request& request = *group.request;
  sequence.admission_pending = false;
  if (!group.admitted) {
    group.admitted = true;
    prompt_lengths_.Add(request.num_prompt(), sequence.num_hit_tokens);
    const WaitTimes& waits = group.wait.times();
    events_.admissions.push_back(
        {.request = request.id,
         .num_prompt_tokens = request.num_prompt(),
         .num_cached_tokens = sequence.num_hit_tokens,
         .num_loaded_tokens = sequence.num_loaded_tokens,
         .num_copied_tokens = sequence.num_copied_tokens,
         .miss = sequence.miss,
         .queue_time = SumOf(waits),
         .waits = waits,
         .reported_tenant = shares_.reported_index(group.standing.tenant)});
  }
  if (!cache_.options().prefix_cache) return;
  if (sequence.returning) {
    cache_.CountSelfQuery(sequence.num_tokens(), sequence.num_hit_tokens);
  } else if (request.read_cache && request.prompt_logprobs < 0) {
    cache_.CountQuery(request.num_prompt(), sequence.num_hit_tokens, sequence.num_copied_tokens);
  }
}

// Appends the sampled tokens of `item` to the sequences of its request. The sequence of `item`
// comes first. If `item` computed the end of the prompt, the other choices also get a token, and
// start.
void Scheduler::DeliverSamples(const StepPlan& plan, const StepPlan::Item& item,
                               const StepOutcome& outcome, Cursor& cursor) {
  const SequenceGroup& group = *item.sequence->group;
  bool itself_finished = false;
  for (int32_t i = item.sample_begin; i < item.sample_begin + item.num_samples; ++i) {
    Sequence& sequence = *plan.samples[i];
    const int32_t row = group.reports_logprobs ? cursor.logprobs_row++ : -1;
    if (group.failed || sequence.ended() || sequence.end_at_commit) continue;
    const bool finished = Deliver(sequence, outcome.tokens[i], row);
    if (&sequence == item.sequence) {
      // Retire this sequence after the loop, because StartChoice needs its blocks.
      itself_finished = finished;
    } else if (finished) {
      Retire(sequence);
    } else {
      StartChoice(sequence, *item.sequence);
    }
  }
  if (itself_finished) Retire(*item.sequence);
}

bool Scheduler::Deliver(Sequence& sequence, TokenId token, int32_t logprobs_row) {
  const SequenceGroup& group = *sequence.group;
  const bool may_stop = MayStop(sequence.num_output(), group.output_tokens_min);
  sequence.Append(token);
  TokenEvent& event = events_.tokens.emplace_back();
  event.request = group.id;
  event.choice = sequence.choice;
  event.token = token;
  event.logprobs_row = logprobs_row;
  if (may_stop && std::ranges::find(group.stop_tokens, token) != group.stop_tokens.end()) {
    event.finish = FinishReason::kStop;
  } else if (sequence.num_tokens() == group.length_max) {
    event.finish = FinishReason::kLength;
  }
  return event.finish.has_value();
}

// Starts `choice`, an output of a request whose prompt is computed. `prompt` is the sequence that
// has computed the prompt. `choice` shares the prompt blocks of `prompt`. If running_max sequences
// already run, or no block is free, puts `choice` into the queue; a later lookup finds the blocks
// in the cache.
void Scheduler::StartChoice(Sequence& choice, const Sequence& prompt) {
  const int32_t num_prompt = choice.request().num_prompt();
  choice.num_computed_max = num_prompt;
  if (num_running() < options_.running_max && cache_.Fork(prompt.table, choice.table, num_prompt)) {
    choice.num_computed = choice.num_planned = num_prompt;
    choice.num_paid = num_prompt;
    choice.num_chunks_seen = prompt.num_chunks_seen;
    choice.is_passing = prompt.is_passing;
    InsertRunning(choice);
    return;
  }
  choice.returning = true;
  choice.num_paid = num_prompt;
  Enqueue(choice);
}

// Ends all choices of each request that MarkFailed has marked as failed.
void Scheduler::EndFailed(const StepPlan& plan) {
  for (const StepPlan::Item& item : plan.items) {
    SequenceGroup& group = *item.sequence->group;
    if (group.failed) EndGroup(group, FinishReason::kError);
  }
}

// Ends the first choice of each request in `plan` if this choice was cancelled before the commit
// (`end_at_commit`). Until now, the other choices of the request needed the blocks of the first
// choice.
void Scheduler::EndRequested(const StepPlan& plan) {
  if (num_to_end_ == 0) return;
  for (const StepPlan::Item& item : plan.items) {
    Sequence& first = item.sequence->group->sequences.front();
    if (first.end_at_commit) EndSequence(first, *first.end_at_commit);
  }
}

void Scheduler::Abort(const StepPlan& plan) {
  INCIPIT_CHECK(num_in_flight_ > 0);
  --num_in_flight_;
  INCIPIT_CHECK(in_flight_[static_cast<size_t>(num_in_flight_)] == &plan);
  // Undo the items in reverse order: a later item may use blocks that an earlier item computes.
  for (auto item = plan.items.rbegin(); item != plan.items.rend(); ++item) {
    Sequence& sequence = *item->sequence;
    --sequence.num_in_flight;
    sequence.num_pending -= item->num_samples > 0;
    sequence.pending_sample = item->fed_sample;
    sequence.num_planned = item->first_token - item->num_loaded;
    // If the request has ended, the index of its tenant may already belong to another tenant.
    if (sequence.group->num_unended > 0) {
      shares_.ChargeOutput(sequence.group->standing.tenant, -item->num_samples);
    }
    cache_.Rollback(sequence.table, sequence.num_in_flight > 0 ? item->first_token : 0);
    if (sequence.num_in_flight > 0) continue;
    if (sequence.state == SequenceState::kEnding) {
      Release(sequence);
    } else if (sequence.table.blocks.empty()) {
      sequence.admission_pending = false;
      // The tenant was charged for the loaded tokens as for cached tokens. StopRunning must not
      // refund the price of their computation.
      sequence.num_planned = item->first_token;
      StopRunning(sequence);
      Enqueue(sequence);
      ++num_to_sweep_;
    }
  }
  EndRequested(plan);
  Sweep();
}

}  // namespace incipit
