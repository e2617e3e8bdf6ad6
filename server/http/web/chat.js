// The script of the chat page. Text of the model, of the server and of the user becomes text of an
// element (textContent) and never HTML. The Content-Security-Policy enforces this rule.
"use strict";

const byId = (id) => document.getElementById(id);
const log = byId("log"), prompt = byId("prompt"), model = byId("model"), key = byId("key");

const turns = [];                    // messages of the conversation, in the form of OpenAI's API
const modelsWithoutChat = new Set(); // names of models without a chat template
let running = null;                  // AbortController of the current request, or null

// Maximum number of output tokens for a model without a chat template, if the field is empty.
const COMPLETION_TOKENS = 256;

// Returns a new element inside `parent`.
function make(parent, tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}

function announce(text) { byId("status").textContent = text; }

// Runs `change`, and then scrolls to the end of the page if the page was at its end before.
function keepAtEnd(change) {
  const page = document.documentElement;
  const wasAtEnd = page.scrollHeight - page.clientHeight - window.scrollY < 60;
  change();
  if (wasAtEnd) window.scrollTo(0, page.scrollHeight);
}

// --- the server

class ServerError extends Error {
  constructor(message, { status = 0, code = "", wait = "" } = {}) {
    super(message);
    Object.assign(this, { status, code, wait });
  }
}

// Sends a request. Throws a ServerError if the response is not a success.
async function call(path, body, signal) {
  const headers = {};
  if (body) headers["Content-Type"] = "application/json";
  if (key.value.trim()) headers["Authorization"] = `Bearer ${key.value.trim()}`;
  let response;
  try {
    response = await fetch(path, { method: body ? "POST" : "GET", headers, signal, cache: "no-store",
                                   body: body && JSON.stringify(body) });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ServerError(`The request failed: ${error.message}`);
  }
  if (response.ok) return response;
  const text = await response.text();
  let error;
  try { error = JSON.parse(text).error; } catch { /* The body is not JSON. */ }
  throw new ServerError(error?.message || text || response.statusText || "The server refused the request.", {
    status: response.status, code: error?.code || "", wait: response.headers.get("Retry-After") || "" });
}

// Yields the JSON value of each event of a stream. Throws if the stream ends without "[DONE]".
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ;) {
    const { value, done } = await reader.read();
    if (done) throw new ServerError("The connection ended before the output was complete.");
    const parts = (rest + value).split(/\r?\n\r?\n/);
    rest = parts.pop();
    for (const part of parts) {
      const data = part.split(/\r?\n/).filter((line) => line.startsWith("data:"))
          .map((line) => line.slice(5).trimStart()).join("\n");
      if (data === "[DONE]") return;
      if (!data) continue;
      const event = JSON.parse(data);
      if (event.error) throw new ServerError(event.error.message, { code: event.error.code });
      yield event;
    }
  }
}

async function loadModels() {
  const chosen = model.value;
  try {
    const { data } = await (await call("v1/models")).json();
    model.replaceChildren();
    for (const { id } of data) make(model, "option", "", id).value = id;
    if (data.some(({ id }) => id === chosen)) model.value = chosen;
    byId("models-error")?.remove();
  } catch (error) {
    byId("models-error")?.remove();
    showError(error, loadModels).id = "models-error";
  }
}

// --- the conversation

// Adds a message to the page. `who` is the heading that screen readers read.
function addMessage(className, who) {
  byId("welcome").hidden = true;
  const article = make(log, "article", className);
  make(article, "h2", "hidden", who);
  return article;
}

// Adds an error to the page. `retry` is the action of the button "Try again".
function showError(error, retry) {
  const box = make(log, "div", "error");
  box.setAttribute("role", "alert");
  keepAtEnd(() => {
    make(box, "p", "message", error.message);
    const details = [error.status && `status ${error.status}`, error.code,
                     error.wait && `the server asks to wait ${error.wait} s`].filter(Boolean);
    if (details.length) make(box, "p", "note", details.join(", "));
    if (error.status === 401) make(box, "p", "note", "The server needs an API key. The settings have a field for the key.");
    make(box, "button", "retry", "Try again").addEventListener("click", () => { box.remove(); retry(); });
  });
  if (error.status === 401) {
    byId("settings").open = true;
    key.focus();
  }
  return box;
}

// One output of the model on the page.
class Output {
  constructor() {
    this.start = performance.now();
    this.first = this.last = 0; // times of the first and of the last part of the output
    this.text = this.reasoning = this.finish = "";
    this.calls = [];            // tool calls
    this.usage = null;
    keepAtEnd(() => {
      this.article = addMessage("output running", "Model");
      this.article.setAttribute("aria-busy", "true");
      this.textElement = make(this.article, "p", "text");
      this.textElement.lang = "";
      this.textElement.dir = "auto";
    });
  }

  // Adds the parts of an event.
  add(event) {
    if (event.usage) this.usage = event.usage;
    const choice = event.choices?.[0];
    if (!choice) return;
    const delta = choice.delta || { content: choice.text };
    const reasoning = delta.reasoning ?? delta.reasoning_content ?? "";
    this.text += delta.content ?? "";
    this.reasoning += reasoning;
    for (const part of delta.tool_calls ?? []) {
      const one = this.calls[part.index] ??= { id: "", type: "function", function: { name: "", arguments: "" } };
      if (part.id) one.id = part.id;
      one.function.name += part.function?.name ?? "";
      one.function.arguments += part.function?.arguments ?? "";
    }
    if (choice.finish_reason) this.finish = choice.finish_reason;
    if (!delta.content && !reasoning && !delta.tool_calls) return;
    this.last = performance.now();
    if (!this.first) {
      this.first = this.last;
      announce("The model writes.");
    }
    // Changes the page once a frame, because many events can arrive in one frame.
    this.frame ??= requestAnimationFrame(() => this.show());
  }

  show() {
    this.frame = null;
    keepAtEnd(() => {
      this.textElement.textContent = this.text;
      if (this.reasoning) this.showReasoning();
      this.calls.forEach((one, index) => this.showCall(one, index));
    });
  }

  showReasoning() {
    if (!this.reasoningElement) {
      const details = document.createElement("details");
      details.className = "reasoning";
      this.textElement.before(details);
      this.summary = make(details, "summary");
      this.reasoningElement = make(details, "p", "text");
    }
    this.summary.textContent = this.text || this.calls.length || !running ? "Reasoning" : "Reasoning …";
    this.reasoningElement.textContent = this.reasoning;
  }

  showCall(one, index) {
    this.callElements ??= [];
    if (!this.callElements[index]) {
      const box = make(this.article, "div", "tool");
      make(box, "h3", "", "Tool call");
      this.callElements[index] = make(box, "code");
    }
    this.callElements[index].textContent = `${one.function.name}(${one.function.arguments})`;
  }

  // Shows the counts and times below the output.
  finishWith(note) {
    cancelAnimationFrame(this.frame);
    this.show();
    keepAtEnd(() => {
      this.article.classList.remove("running");
      this.article.setAttribute("aria-busy", "false");
      const meta = make(this.article, "p", "meta");
      if (this.usage) this.showUsage(meta);
      if (this.first) make(meta, "span", "first", `first token after ${duration(this.first - this.start)}`);
      if (this.first && this.usage) {
        make(meta, "span", "total", `${this.usage.completion_tokens} tokens in ${duration(this.last - this.start)}`);
      }
      for (const text of [note, this.finish === "length" && "ended at the maximum number of tokens"]) {
        if (text) make(meta, "span", "end", text);
      }
    });
    announce([this.text, ...this.calls.map((one) => `Tool call ${one.function.name}`), note].filter(Boolean).join("\n"));
  }

  showUsage(meta) {
    const total = this.usage.prompt_tokens, cached = this.usage.prompt_tokens_details?.cached_tokens ?? 0;
    const span = make(meta, "span", "cache");
    const bar = make(span, "progress");
    bar.max = Math.max(total, 1);
    bar.value = cached;
    bar.setAttribute("aria-hidden", "true");
    make(span, "span", "cached", `${cached} of ${total} prompt tokens cached`);
  }

  // Returns the output as a message of the conversation.
  message() {
    const message = { role: "assistant", content: this.text };
    if (this.calls.length) message.tool_calls = this.calls.filter(Boolean);
    return message;
  }
}

function duration(milliseconds) {
  return milliseconds < 1000 ? `${Math.max(1, Math.round(milliseconds))} ms` : `${(milliseconds / 1000).toFixed(2)} s`;
}

// Returns the fields that both routes share.
function requestFields() {
  const fields = { stream: true, stream_options: { include_usage: true } };
  if (model.value) fields.model = model.value;
  for (const [name, id] of [["temperature", "temperature"], ["max_tokens", "tokens"]]) {
    if (byId(id).value !== "") fields[name] = Number(byId(id).value);
  }
  return fields;
}

// Sends the conversation. Returns the response of the server, a stream of events for `output`.
async function request(output, signal) {
  const name = model.value, fields = requestFields();
  const system = byId("system").value.trim();
  if (!modelsWithoutChat.has(name)) {
    const messages = system ? [{ role: "system", content: system }, ...turns] : turns;
    try {
      return await call("v1/chat/completions", { ...fields, messages }, signal);
    } catch (error) {
      if (error.code !== "no_chat_template") throw error;
      modelsWithoutChat.add(name);
      output.textElement.before(make(output.article, "p", "note", "This model has no chat template. The model gets " +
          "the plain text of the conversation and continues the text."));
    }
  }
  // The output of the model directly continues a message. The next message begins on a new line.
  const text = turns.map((turn, i) => (turn.role === "user" && i > 0 ? "\n" : "") + turn.content).join("");
  return call("v1/completions", { max_tokens: COMPLETION_TOKENS, ...fields, prompt: system ? `${system}\n${text}` : text },
              signal);
}

// Sends the message `text`, and shows the output of the model. `question` is the element of the
// message.
async function send(text, question) {
  for (const button of log.querySelectorAll(".retry")) button.remove();
  const numTurns = turns.length;
  turns.push({ role: "user", content: text });
  const abort = running = new AbortController();
  byId("send").hidden = true;
  byId("stop").hidden = false;
  const output = new Output();
  let failure = null;
  try {
    for await (const event of events(await request(output, abort.signal))) output.add(event);
  } catch (error) {
    failure = error instanceof ServerError ? error : new ServerError(`The connection failed: ${error.message}`);
  }
  if (running !== abort) return; // The user has begun a new conversation.
  running = null;
  byId("send").hidden = false;
  byId("stop").hidden = true;
  const isStopped = abort.signal.aborted;
  const hasOutput = output.text || output.calls.length;
  output.finishWith(isStopped ? "stopped" : !failure && !hasOutput ? "the output is empty" : "");
  if (failure && !hasOutput) {
    // The message has no output. The next request does not contain the message.
    turns.length = numTurns;
    question.classList.add("failed");
    if (!isStopped && !output.reasoning) output.article.remove();
  } else {
    turns.push(output.message());
  }
  if (!failure || isStopped) return;
  showError(failure, () => {
    turns.length = numTurns;
    question.classList.remove("failed");
    output.article.remove();
    prompt.focus();
    send(text, question);
  });
}

// --- the controls

function fitPrompt() {
  prompt.style.height = "auto";
  prompt.style.height = `${prompt.scrollHeight}px`;
}

function stop() {
  running?.abort();
  prompt.focus();
}

byId("form").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = prompt.value;
  if (running || !text.trim()) return;
  prompt.value = "";
  fitPrompt();
  byId("settings").open = false;
  const question = addMessage("user", "You");
  make(question, "p", "text", text).dir = "auto";
  window.scrollTo(0, document.documentElement.scrollHeight);
  prompt.focus();
  send(text, question);
});
prompt.addEventListener("input", fitPrompt);
prompt.addEventListener("keydown", (event) => {
  // While an input method composes characters, Enter ends the composition.
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  byId("form").requestSubmit();
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || event.isComposing) return;
  if (running) {
    stop();
  } else if (byId("settings").open) {
    byId("settings").open = false;
    byId("settings").firstElementChild.focus();
  }
});
document.addEventListener("click", (event) => {
  if (!byId("settings").contains(event.target)) byId("settings").open = false;
});
byId("stop").addEventListener("click", stop);
byId("new").addEventListener("click", () => {
  running?.abort();
  running = null;
  byId("send").hidden = false;
  byId("stop").hidden = true;
  turns.length = 0;
  log.replaceChildren();
  byId("welcome").hidden = false;
  announce("New conversation");
  prompt.focus();
});
key.addEventListener("change", loadModels);
loadModels();
