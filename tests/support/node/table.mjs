// What the JavaScript clients make of the gateway: one line of JSON with an answer for each prompt.
// node table.mjs CLIENT URL MODEL PROMPT…
import Anthropic from "@anthropic-ai/sdk";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { streamText } from "ai";
import OpenAI from "openai";

const [client, url, model, ...prompts] = process.argv.slice(2);
const baseURL = `${url}/v1`;
const openai = new OpenAI({ baseURL, apiKey: "x", maxRetries: 0 });

async function byAI(chosen, prompt) {
  let failed = null;
  const result = streamText({ model: chosen, prompt, maxRetries: 0, onError: ({ error }) => { failed = error; } });
  let text = "";
  for await (const part of result.textStream) text += part;
  if (failed !== null) throw failed;
  return { text, reason: await result.finishReason };
}

const clients = {
  "openai-node": async (prompt) => {
    const stream = openai.chat.completions.stream({ model, messages: [{ role: "user", content: prompt }] });
    let text = "";
    stream.on("content", (delta) => { text += delta; });
    const whole = await stream.finalChatCompletion();
    return { text, reason: whole.choices[0].finish_reason };
  },
  "openai-node, Responses": async (prompt) => {
    const stream = openai.responses.stream({ model, input: prompt });
    let text = "";
    stream.on("response.output_text.delta", (event) => { text += event.delta; });
    const whole = await stream.finalResponse();
    return { text, reason: whole.incomplete_details?.reason ?? whole.status };
  },
  "anthropic-node": async (prompt) => {
    const anthropic = new Anthropic({ baseURL: url, apiKey: "x", maxRetries: 0 });
    const stream = anthropic.messages.stream({ model, max_tokens: 99, messages: [{ role: "user", content: prompt }] });
    let text = "";
    stream.on("text", (delta) => { text += delta; });
    return { text: (await stream.finalMessage()) && text, reason: (await stream.finalMessage()).stop_reason };
  },
  "AI SDK, openai()": (prompt) => byAI(createOpenAI({ baseURL, apiKey: "x" })(model), prompt),
  "AI SDK, openai.chat()": (prompt) => byAI(createOpenAI({ baseURL, apiKey: "x" }).chat(model), prompt),
  "AI SDK, anthropic()": (prompt) => byAI(createAnthropic({ baseURL, apiKey: "x" })(model), prompt),
};

const said = {};
for (const prompt of prompts) {
  try {
    said[prompt] = await clients[client](prompt);
  } catch (error) {
    said[prompt] = { error: error.constructor.name, message: String(error.message) };
  }
}
console.log(JSON.stringify(said));
process.exit(0);
