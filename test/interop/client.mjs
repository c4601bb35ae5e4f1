// Uses server-everything through the TypeScript SDK's client and prints one line of
// JSON for each check:
//   node client.mjs NODE_MODULES_PARENT http URL
//   node client.mjs NODE_MODULES_PARENT stdio COMMAND ARGS...
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [parent, kind, ...target] = process.argv.slice(2);
const require = createRequire(parent + "/package.json");
const sdk = (name) => import(pathToFileURL(require.resolve("@modelcontextprotocol/sdk/" + name)));
const { Client } = await sdk("client/index.js");
const { StreamableHTTPClientTransport } = await sdk("client/streamableHttp.js");
const { StdioClientTransport } = await sdk("client/stdio.js");
const types = await sdk("types.js");

const roots = [{ uri: "file:///srv/interop", name: "interop root" }];
const asked = [];
const logs = [];

const client = new Client(
  { name: "interop", version: "1" },
  { capabilities: { elicitation: {}, sampling: {}, roots: { listChanged: true } } },
);
client.setRequestHandler(types.ElicitRequestSchema, (request) => {
  asked.push(request);
  return { action: "accept", content: { name: "Grace", integer: 7, untitledMultipleSelectEnum: ["Bass"] } };
});
client.setRequestHandler(types.CreateMessageRequestSchema, (request) => {
  asked.push(request);
  return { model: "interop-model", role: "assistant", content: { type: "text", text: "sampled words" } };
});
client.setRequestHandler(types.ListRootsRequestSchema, () => ({ roots }));
client.setNotificationHandler(types.LoggingMessageNotificationSchema, (n) => void logs.push(n.params));
client.setNotificationHandler(types.ToolListChangedNotificationSchema, () => {});

async function check(name, run) {
  let outcome;
  try {
    const { ok, got } = await run();
    outcome = { check: name, ok: Boolean(ok), got: got ?? null };
  } catch (err) {
    outcome = { check: name, ok: false, got: String(err) };
  }
  console.log(JSON.stringify(outcome));
}

const call = (name, args = {}, options) =>
  client.callTool({ name, arguments: args }, types.CallToolResultSchema, { timeout: 15000, ...options });
const text = (result) => result.content.map((c) => c.text ?? "").join("\n");
const includes = (got, want) => ({ ok: got.includes(want), got });

// until polls for an effect of another process; the test's deadline bounds it.
async function until(ready) {
  for (;;) {
    const value = await ready();
    if (value) return value;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
const within = (promise, what) =>
  Promise.race([promise, new Promise((_, reject) => setTimeout(() => reject(new Error("no " + what)), 15000))]);

await client.connect(
  kind === "http"
    ? new StreamableHTTPClientTransport(new URL(target[0]))
    : new StdioClientTransport({ command: target[0], args: target.slice(1), stderr: "inherit" }),
);

const listed = async () => (await client.listTools()).tools.map((t) => t.name);
await check("lists tools", async () => {
  await within(until(async () => (await listed()).includes("echo")), "tool echo");
  return { ok: true };
});
await check("lists the tools that depend on the client", async () => {
  const want = ["trigger-elicitation-request", "trigger-sampling-request", "get-roots-list"];
  const got = await listed();
  return { ok: want.every((n) => got.includes(n)), got };
});
await check("calls a tool", async () => includes(text(await call("echo", { message: "héllo 😀" })), "Echo: héllo 😀"));
await check("structured content", async () => {
  const { structuredContent: got } = await call("get-structured-content", { location: "Chicago" });
  return { ok: typeof got?.temperature === "number", got };
});
await check("a tool's error", async () => {
  const got = await call("get-sum", { a: "no number" }).catch((err) => ({ isError: true, thrown: String(err) }));
  return { ok: got.isError === true, got };
});
await check("progress", async () => {
  const got = [];
  await call("trigger-long-running-operation", { duration: 0.3, steps: 3 }, { onprogress: (p) => got.push(p.progress) });
  // This client removes the handler when the result arrives, possibly before the last notification is handled.
  return { ok: ["1,2", "1,2,3"].includes(got.join()), got };
});
await check("elicitation", async () => includes(text(await call("trigger-elicitation-request")), "Name: Grace"));
await check("elicitation keeps the schema", async () => {
  const got = asked.find((r) => r.method === "elicitation/create")?.params.requestedSchema.properties.titledMultipleSelectEnum;
  return { ok: got?.items?.anyOf?.length === 3, got };
});
await check("sampling", async () =>
  includes(text(await call("trigger-sampling-request", { prompt: "say it", maxTokens: 10 })), "sampled words"));
await check("roots", async () => includes(text(await call("get-roots-list")), "interop root"));
await check("logging", async () => {
  await client.setLoggingLevel("debug");
  await call("toggle-simulated-logging");
  await within(until(() => logs.some((l) => String(l.data).includes("essage") || String(l.data).includes("level"))), "log message");
  await call("toggle-simulated-logging");
  return { ok: true };
});
await check("cancel", async () => {
  const abort = new AbortController();
  const running = call("trigger-long-running-operation", { duration: 60, steps: 600 }, {
    signal: abort.signal,
    onprogress: () => abort.abort("enough"),
  });
  const got = await running.then(() => "an answer", (err) => String(err));
  const after = text(await call("echo", { message: "still here" }));
  return { ok: got.includes("enough") && after.includes("still here"), got };
});
await check("prompts", async () => {
  const { prompts } = await client.listPrompts();
  const got = await client.getPrompt({ name: "args-prompt", arguments: { city: "Oslo" } });
  return { ok: prompts.length > 2 && JSON.stringify(got).includes("Oslo"), got };
});
await check("completion", async () => {
  const got = await client.complete({
    ref: { type: "ref/prompt", name: "completable-prompt" }, argument: { name: "department", value: "E" },
  });
  return { ok: got.completion.values.includes("Engineering"), got };
});
await check("resources", async () => {
  const { resources } = await client.listResources();
  const { resourceTemplates } = await client.listResourceTemplates();
  const got = await client.readResource({ uri: "demo://resource/dynamic/text/1" });
  return { ok: resources.length > 0 && resourceTemplates.length > 0 && got.contents[0].text.includes("1"), got };
});
await check("resource updates", async () => {
  const uri = "demo://resource/dynamic/text/1";
  const updated = new Promise((resolve) =>
    client.setNotificationHandler(types.ResourceUpdatedNotificationSchema, (n) => resolve(n.params.uri)));
  await client.subscribeResource({ uri });
  await call("toggle-subscriber-updates");
  const got = await within(updated, "resource update");
  await call("toggle-subscriber-updates");
  await client.unsubscribeResource({ uri });
  return { ok: got === uri, got };
});
await check("ping", async () => ({ ok: await client.ping() }));
await client.close();
process.exit(0);
