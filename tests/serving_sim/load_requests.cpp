// The prompts and the outputs of the loads.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "tests/serving_sim/load.h"

namespace incipit::serving_sim {
namespace {

// Number of tenants in each load with several tenants. Tenant 1 sends the most requests.
constexpr int32_t kTenants = 10;

void AppendText(uint64_t text, int32_t num_tokens, std::vector<TokenId>& tokens) {
  for (int32_t i = 0; i < num_tokens; ++i) tokens.push_back(TextToken(text, i));
}

// Makes the requests of one load, one after the other.
class RequestMaker {
 public:
  RequestMaker(const DeviceModel& device, LoadKind kind, uint64_t seed)
      : device_(device),
        kind_(kind),
        seed_(Mix(seed, static_cast<uint64_t>(kind))),
        random_(seed_) {}

  SimRequest Make(size_t index) {
    index_ = index;
    switch (kind_) {
      case LoadKind::kLongAndShort:
        return LongAndShort();
      case LoadKind::kHeavyBurst:
        return OfTenant(index < kHeavyBurstRequests ? 1 : random_.Pick(2, kTenants));
      case LoadKind::kHeavyRate:
        return OfTenant(random_.Pick(1, 19) <= 10 ? 1 : random_.Pick(2, kTenants));
      case LoadKind::kOverload:
        return Overload();
      case LoadKind::kDeadline:
        return Deadline();
      case LoadKind::kChatbot:
        return Chatbot();
      case LoadKind::kMultiTurn:
        return Turn();
      case LoadKind::kTimeout:
        return Timeout();
      case LoadKind::kSteady:
      case LoadKind::kBursty:
      case LoadKind::kMooncake:
        break;
    }
    return Plain(random_.PickLog(32, 1024), random_.Pick(16, 128));
  }

 private:
  uint64_t TextOf(uint64_t part) const { return Mix(seed_ + part, index_); }

  SimRequest Plain(int32_t num_prompt, int32_t num_output) const {
    SimRequest request;
    request.tenant = 1;
    AppendText(TextOf(1), num_prompt, request.prompt);
    request.output_tokens = num_output;
    request.output_text = TextOf(2);
    request.is_focus = num_prompt <= 128;
    return request;
  }

  // One request in eight has 3,000 prompt tokens.
  SimRequest LongAndShort() {
    return index_ % 8 == 0 ? Plain(3000, 8) : Plain(random_.Pick(16, 64), 48);
  }

  SimRequest OfTenant(int32_t tenant) {
    SimRequest request = Plain(random_.PickLog(128, 1024), random_.Pick(32, 128));
    request.tenant = static_cast<uint64_t>(tenant);
    request.is_focus = tenant != 1;
    return request;
  }

  // Tenants with an even number send long prompts, the others send short prompts.
  SimRequest Overload() {
    const int32_t tenant = random_.Pick(1, kTenants);
    SimRequest request =
        tenant % 2 == 0 ? Plain(random_.Pick(1000, 3000), 32) : Plain(random_.Pick(64, 256), 128);
    request.tenant = static_cast<uint64_t>(tenant);
    request.is_focus = tenant % 2 != 0;
    return request;
  }

  // Half of the requests have a tight deadline: 4 times the time that the prompt takes on an idle
  // device. The other deadlines are 100 times this time. MakeLoad adds the time of arrival.
  SimRequest Deadline() {
    SimRequest request = Plain(random_.PickLog(32, 1024), random_.Pick(16, 128));
    request.is_focus = random_.Pick(0, 1) == 0;
    const double factor = request.is_focus ? 4 : 100;
    request.ttft_deadline = factor * AloneSeconds(device_, request.num_prompt());
    return request;
  }

  // All requests have the same time to the deadline: 10 times the time that the longest prompt
  // takes on an idle device.
  SimRequest Timeout() {
    SimRequest request = Plain(random_.PickLog(32, 1024), random_.Pick(16, 128));
    request.ttft_deadline = 10 * AloneSeconds(device_, 1024);
    return request;
  }

  // All requests begin with the same 512 tokens.
  SimRequest Chatbot() {
    SimRequest request;
    request.tenant = 1;
    AppendText(seed_, 512, request.prompt);
    AppendText(TextOf(1), random_.Pick(16, 64), request.prompt);
    request.output_tokens = 48;
    request.output_text = TextOf(2);
    request.is_focus = true;
    return request;
  }

  // Returns the next request of a conversation. A conversation has kConversationTurns requests.
  // Each prompt consists of the previous prompt, the previous output and new text.
  SimRequest Turn() {
    SimRequest request;
    request.tenant = 1;
    if (index_ % kConversationTurns == 0) {
      AppendText(seed_, 512, request.prompt);
    } else {
      request.prompt = previous_.prompt;
      AppendText(previous_.output_text, previous_.output_tokens, request.prompt);
    }
    AppendText(TextOf(1), random_.Pick(16, 64), request.prompt);
    request.output_tokens = 32;
    request.output_text = TextOf(2);
    request.is_focus = true;
    previous_ = request;
    return request;
  }

  const DeviceModel& device_;
  LoadKind kind_;
  uint64_t seed_;
  Random random_;
  size_t index_ = 0;
  SimRequest previous_;
};

}  // namespace

void AddRequests(const DeviceModel& device, LoadKind kind, size_t num_requests, uint64_t seed,
                 std::vector<SimRequest>& requests) {
  INCIPIT_CHECK(kind != LoadKind::kMooncake);
  RequestMaker maker(device, kind, seed);
  while (requests.size() < num_requests) requests.push_back(maker.Make(requests.size()));
}

}  // namespace incipit::serving_sim
