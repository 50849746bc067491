// The Vercel AI SDK: a trip desk of two agents with a scripted model, then a run that fails.
//
//     OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 node run.mjs
//
// Exports over OTLP/HTTP. Models and tools take their time: OpenTelemetry for JavaScript starts spans at whole milliseconds.
import assert from 'node:assert/strict';
import { setTimeout } from 'node:timers/promises';

import { OpenTelemetry } from '@ai-sdk/otel';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { BatchSpanProcessor } from '@opentelemetry/sdk-trace-base';
import { NodeTracerProvider } from '@opentelemetry/sdk-trace-node';
import { generateText, isStepCount, registerTelemetry, tool } from 'ai';
import { MockLanguageModelV4 } from 'ai/test';
import { z } from 'zod';

const call = (toolCallId, toolName, input) => ({ type: 'tool-call', toolCallId, toolName, input: JSON.stringify(input) });
const text = (text) => ({ type: 'text', text });

// Gives one answer of its script after another; the n-th one costs 10 n input tokens and n output tokens.
function scripted(...script) {
  let n = 0;
  return new MockLanguageModelV4({
    provider: 'scripted.chat',
    modelId: 'scripted-1',
    doGenerate: async () => {
      const answer = script[n++];
      await setTimeout(5);
      if (answer instanceof Error) throw answer;
      const finish = answer.type === 'text' ? 'stop' : 'tool-calls';
      return {
        content: [answer],
        finishReason: { unified: finish, raw: finish },
        usage: {
          inputTokens: { total: 10 * n, noCache: 10 * n, cacheRead: 0, cacheWrite: 0 },
          outputTokens: { total: n, text: n, reasoning: 0 },
        },
        response: { id: `response-${n}`, modelId: 'scripted-1', timestamp: new Date() },
        warnings: [],
      };
    },
  });
}

const run = async (name, model, prompt, tools) => {
  const answer = await generateText({
    model,
    prompt,
    tools,
    stopWhen: isStepCount(6),
    maxRetries: 0,
    runtimeContext: { sessionId: 'trip-42' },
    telemetry: { functionId: name, includeRuntimeContext: { sessionId: true } },
  });
  return answer.text;
};

const weather = tool({
  description: 'The weather of a city.',
  inputSchema: z.object({ city: z.string() }),
  execute: ({ city }) => setTimeout(5, `sunny in ${city}`),
});
const bookTable = tool({
  description: 'Books a table.',
  inputSchema: z.object({ people: z.number() }),
  execute: async ({ people }) => {
    await setTimeout(5);
    if (people > 2) throw new RangeError(`no table for ${people}`);
    return `a table for ${people}`;
  },
});
const askResearcher = tool({
  description: 'Asks the researcher.',
  inputSchema: z.object({ question: z.string() }),
  execute: ({ question }) =>
    run('researcher', scripted(call('call_5', 'weather', { city: 'Sintra' }), text('Sintra is cooler.')), question, { weather }),
});

const provider = new NodeTracerProvider({ spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())] });
provider.register();
registerTelemetry(new OpenTelemetry({ runtimeContext: true }));

await run(
  'concierge',
  scripted(
    call('call_1', 'weather', { city: 'Lisbon' }),
    call('call_2', 'book_table', { people: 4 }),
    call('call_3', 'book_table', { people: 2 }),
    call('call_4', 'ask_researcher', { question: 'Is Sintra cooler?' }),
    text('All is planned.'),
  ),
  'Plan a day in Lisbon.',
  { weather, book_table: bookTable, ask_researcher: askResearcher },
);
await assert.rejects(run('forecaster', scripted(new TypeError('the model is overloaded')), 'Will it rain?', { weather }));
await provider.shutdown();
