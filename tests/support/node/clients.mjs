// What openai-node and the AI SDK make of the gateway: one line of JSON each.
// node clients.mjs BASE_URL MODEL openai|ai
import OpenAI from "openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { streamText } from "ai";

const [baseURL, model, client] = process.argv.slice(2);
const messages = [{ role: "user", content: "Say it." }];

async function byOpenAI() {
  const openai = new OpenAI({ baseURL, apiKey: "x", maxRetries: 0 });
  let text = "", reason = null, refusal = null, usage = null;
  const stream = await openai.chat.completions.create({
    model, messages, stream: true, stream_options: { include_usage: true },
  });
  for await (const chunk of stream) {
    for (const choice of chunk.choices) {
      text += choice.delta.content ?? "";
      reason = choice.finish_reason ?? reason;
      refusal = choice.delta.refusal ?? refusal;
    }
    usage = chunk.usage ?? usage;
  }
  const whole = await openai.chat.completions.create({ model, messages });
  return { text, reason, refusal, tokens: usage.completion_tokens, whole: whole.choices[0].message.content };
}

async function byAI() {
  const provider = createOpenAICompatible({ name: "gateway", baseURL, apiKey: "x", includeUsage: true });
  let failed = null;
  const result = streamText({
    model: provider(model), messages, maxRetries: 0, onError: ({ error }) => { failed = String(error); },
  });
  let text = "";
  for await (const part of result.textStream) text += part;
  if (failed !== null) throw new Error(failed);
  return { text, reason: await result.finishReason, tokens: (await result.usage).outputTokens };
}

try {
  console.log(JSON.stringify(await (client === "openai" ? byOpenAI() : byAI())));
} catch (error) {
  console.log(JSON.stringify({ error: error.constructor.name, message: error.message }));
}
