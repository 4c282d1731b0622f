// The JavaScript clients of OpenAI's API, each doing what people do with it. Run by `clients.py`.
// Prints one line of JSON for each thing that was tried: client, version, what, and the fault or null.
import { readFileSync } from "node:fs";
import OpenAI from "openai";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateObject, generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";

const baseURL = process.env.OPENAI_BASE_URL;
const apiKey = process.env.OPENAI_API_KEY;
const question = "What is the weather in Bonn?";
const answer = "It rains in Bonn.";
const model = "helper";
const messages = [{ role: "user", content: question }];

function withOpenAI() {
  const client = new OpenAI({ baseURL, apiKey });
  const weather = {
    type: "function",
    function: {
      name: "weather",
      parameters: { type: "object", properties: { town: { type: "string" } } },
    },
  };
  return {
    chat: async () =>
      (await client.chat.completions.create({ model, messages })).choices[0].message.content,
    stream: async () => {
      let text = "";
      for await (const chunk of await client.chat.completions.create({ model, messages, stream: true }))
        text += chunk.choices[0]?.delta?.content ?? "";
      return text;
    },
    tools: async () => {
      const asked = [...messages];
      for (let round = 0; round < 3; round++) {
        const { message } = (
          await client.chat.completions.create({ model, messages: asked, tools: [weather] })
        ).choices[0];
        if (!message.tool_calls) return message.content;
        asked.push(message);
        for (const call of message.tool_calls)
          asked.push({ role: "tool", tool_call_id: call.id, content: "rain" });
      }
    },
  };
}

function withSdk(languageModel) {
  const tools = {
    weather: tool({
      description: "Tell the weather.",
      inputSchema: z.object({ town: z.string() }),
      execute: async () => "rain",
    }),
  };
  return {
    chat: async () => (await generateText({ model: languageModel, prompt: question })).text,
    stream: async () => await streamText({ model: languageModel, prompt: question }).text,
    tools: async () =>
      (
        await generateText({
          model: languageModel,
          prompt: question,
          tools,
          stopWhen: stepCountIs(3),
        })
      ).text,
    "tools, streamed": async () =>
      await streamText({ model: languageModel, prompt: question, tools, stopWhen: stepCountIs(3) })
        .text,
    "structured output": async () => {
      const schema = z.object({ town: z.string() });
      const { object } = await generateObject({ model: languageModel, prompt: question, schema });
      return object.town === "Bonn" ? answer : JSON.stringify(object);
    },
  };
}

const clients = {
  openai: withOpenAI(),
  "@ai-sdk/openai": {
    ...withSdk(createOpenAI({ baseURL, apiKey }).chat(model)),
    ...Object.fromEntries(
      Object.entries(withSdk(createOpenAI({ baseURL, apiKey })(model))).map(([what, attempt]) => [
        `responses: ${what}`,
        attempt,
      ]),
    ),
  },
  "@ai-sdk/openai-compatible": withSdk(
    createOpenAICompatible({ name: "everturn", baseURL, apiKey, supportsStructuredOutputs: true })(
      model,
    ),
  ),
};

for (const [client, attempts] of Object.entries(clients)) {
  const about = JSON.parse(readFileSync(`node_modules/${client}/package.json`, "utf8"));
  for (const [what, attempt] of Object.entries(attempts)) {
    let fault = null;
    try {
      const said = await attempt();
      if (said !== answer) fault = `it gave ${JSON.stringify(said)}`;
    } catch (error) {
      fault = `${error.name}: ${error.message}`;
    }
    console.log(JSON.stringify({ client, version: about.version, what, fault }));
  }
}
