// The JavaScript clients, asked in every way that a sidecar could spoil; one line of JSON for each.
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";

const base = process.argv[2];
const anthropic = new Anthropic({ apiKey: "k", baseURL: base, maxRetries: 0 });
const openai = new OpenAI({ apiKey: "k", baseURL: `${base}/v1`, maxRetries: 0 });
const messages = [{ role: "user", content: "Where is order 1042? 中文 🙂" }];
const tell = (name, value) => console.log(JSON.stringify([name, value]));

tell("message", await anthropic.messages.create({ model: "m", max_tokens: 64, messages }));

const events = [];
for await (const event of await anthropic.messages.create({ model: "m", max_tokens: 64, messages, stream: true })) {
  events.push(event);
}
tell("message stream", events);

const tools = [{ name: "find", description: "d", input_schema: { type: "object", properties: {} } }];
tell("message with tools", await anthropic.messages.create({ model: "m", max_tokens: 64, messages, tools }));
tell("message helper", (await anthropic.messages.stream({ model: "m", max_tokens: 64, messages }).finalMessage()).content);

tell("completion", await openai.chat.completions.create({ model: "m", messages }));

const chunks = [];
const options = { include_usage: true };
for await (const chunk of await openai.chat.completions.create({ model: "m", messages, stream: true, stream_options: options })) {
  chunks.push(chunk);
}
tell("completion stream", chunks);

for (const [name, ask] of [
  ["message error", () => anthropic.messages.create({ model: "overloaded", max_tokens: 1, messages })],
  ["completion error", () => openai.chat.completions.create({ model: "overloaded", messages })],
]) {
  try {
    await ask();
    tell(name, "no error");
  } catch (error) {
    tell(name, [error.constructor.name, error.status, error.error, error.requestID ?? null]);
  }
}

const left = await anthropic.messages.create({ model: "endless", max_tokens: 64, messages, stream: true });
for await (const event of left) {
  if (event.type === "content_block_start") {
    left.controller.abort();
    break;
  }
}
tell("left", true);
