// What the AI SDK makes of the gateway's answers by a schema of zod: one line of JSON.
// node schemas.mjs BASE_URL MODEL SCHEMA
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateObject, generateText, streamObject } from "ai";
import { z } from "zod";

const [baseURL, model, name] = process.argv.slice(2);
const node = z.lazy(() => z.object({ name: z.string(), children: z.array(node) }));
const circle = z.object({ kind: z.literal("circle"), radius: z.number() });
const square = z.object({ kind: z.literal("square"), side: z.number() });
const schema = {
  recursive: z.object({ root: node }),
  tuple: z.object({ pair: z.tuple([z.int(), z.string()]) }),
  union: z.object({ one: z.union([circle, z.int(), z.null()]) }),
  discriminated: z.object({ shape: z.discriminatedUnion("kind", [circle, square]) }),
  any: z.object({ anything: z.any(), count: z.int() }),
}[name];

const provider = createOpenAICompatible({
  name: "gateway", baseURL, apiKey: "x", supportsStructuredOutputs: true,
});
const asked = { model: provider(model), prompt: "Say it.", maxRetries: 0 };

async function whole() {
  return (await generateObject({ ...asked, schema })).object;
}

async function streamed() {
  let failed = null;
  const result = streamObject({ ...asked, schema, onError: ({ error }) => { failed = error; } });
  result.object.catch(() => {}); // awaited below
  for await (const _ of result.partialObjectStream);
  if (failed !== null) throw failed;
  return await result.object;
}

async function called() {
  const result = await generateText({ ...asked, tools: { say: { inputSchema: schema } } });
  const [call] = result.toolCalls;
  if (call === undefined) throw new Error(result.text); // it shows a refusal as text
  if (call.invalid) throw call.error;
  return call.input;
}

const said = {};
for (const way of [whole, streamed, called]) {
  try {
    said[way.name] = { object: await way() };
  } catch (error) {
    said[way.name] = { error: error.name, message: error.message, reason: error.finishReason };
  }
}
console.log(JSON.stringify(said));
