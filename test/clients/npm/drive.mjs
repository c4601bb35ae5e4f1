// Lists and calls tools with one client:
//   node drive.mjs CLIENT < jobs
// jobs is JSON, an array of
//   {id, url, headers} or {id, command, args, env}, each with calls: [{name, args}] and tools: bool
// Prints one line of JSON for each job: {id, tools, prompts, resources, results} or {id, error}.
// tools are {name, description, inputSchema}, as far as the client prints them.
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const info = { name: "through-is-direct", version: "1" };
const tool = ({ name, description, inputSchema }) => ({ name, description, inputSchema });
const byName = (a, b) => (a.name < b.name ? -1 : 1);

// sdk is an open client of one of the TypeScript SDKs.
const sdk = (client) => ({
  async list() {
    const has = client.getServerCapabilities() ?? {};
    const all = async (method, key) => {
      const items = [];
      for (let cursor; ; ) {
        const page = await client[method](cursor ? { cursor } : {});
        items.push(...page[key]);
        if (!(cursor = page.nextCursor)) return items;
      }
    };
    return {
      tools: (await all("listTools", "tools")),
      prompts: has.prompts ? await all("listPrompts", "prompts") : [],
      resources: has.resources ? (await all("listResources", "resources")).map((r) => ({ name: r.name, uri: r.uri })) : [],
    };
  },
  call: (name, args) => client.callTool({ name, arguments: args }),
  close: () => client.close(),
});

async function sdkV1(job) {
  const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
  const { StdioClientTransport } = await import("@modelcontextprotocol/sdk/client/stdio.js");
  const { StreamableHTTPClientTransport } = await import("@modelcontextprotocol/sdk/client/streamableHttp.js");
  const client = new Client(info);
  await client.connect(
    job.url ? new StreamableHTTPClientTransport(new URL(job.url), { requestInit: { headers: job.headers } }) : new StdioClientTransport({ ...command(job), stderr: "ignore" }),
  );
  return sdk(client);
}

const sdkV2 = (versionNegotiation) => async (job) => {
  const { Client, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
  const { StdioClientTransport } = await import("@modelcontextprotocol/client/stdio");
  const client = new Client(info, { versionNegotiation });
  await client.connect(
    job.url ? new StreamableHTTPClientTransport(new URL(job.url), { requestInit: { headers: job.headers } }) : new StdioClientTransport({ ...command(job), stderr: "ignore" }),
  );
  return sdk(client);
};

async function langchain(job) {
  const { MultiServerMCPClient } = await import("@langchain/mcp-adapters");
  const server = job.url ? { transport: "http", url: job.url, headers: job.headers, automaticSSEFallback: false } : { transport: "stdio", ...command(job), stderr: "ignore" };
  const client = new MultiServerMCPClient({ throwOnLoadError: true, prefixToolNameWithServerName: false, mcpServers: { it: server } });
  const tools = await client.getTools();
  return {
    list: async () => ({ tools: tools.map((t) => ({ name: t.name, description: t.description, inputSchema: t.schema })) }),
    call: (name, args) => tools.find((t) => t.name === name).invoke(args),
    close: () => client.close(),
  };
}

async function aiSDK(job) {
  const { createMCPClient } = await import("@ai-sdk/mcp");
  const stdio = await import("@ai-sdk/mcp/mcp-stdio");
  const Stdio = stdio.StdioMCPTransport ?? stdio.Experimental_StdioMCPTransport;
  const { asSchema } = await import("ai");
  const client = await createMCPClient({
    transport: job.url ? { type: "http", url: job.url, headers: job.headers } : new Stdio({ ...command(job), stderr: "ignore" }),
  });
  const tools = await client.tools();
  return {
    list: async () => ({
      tools: await Promise.all(
        Object.entries(tools).map(async ([name, t]) => ({ name, description: t.description, inputSchema: await asSchema(t.inputSchema).jsonSchema })),
      ),
    }),
    call: (name, args) => tools[name].execute(args, { toolCallId: "1", messages: [] }),
    close: () => client.close(),
  };
}

async function openaiAgents(job) {
  const { MCPServerStdio, MCPServerStreamableHttp } = await import("@openai/agents");
  const server = job.url
    ? new MCPServerStreamableHttp({ url: job.url, requestInit: { headers: job.headers }, name: "it" })
    : new MCPServerStdio({ ...command(job), name: "it" });
  await server.connect();
  return {
    list: async () => ({ tools: (await server.listTools()).map(tool) }),
    call: (name, args) => server.callTool(name, args),
    close: () => server.close(),
  };
}

// headers are the headers of a job as options of a command.
const headers = (job, is) => Object.entries(job.headers ?? {}).flatMap(([name, value]) => ["--header", name + is + value]);

// mcpRemote is the bridge between a host that only starts servers and one over HTTP.
const mcpRemote = (job) =>
  sdkV1({ ...job, url: undefined, command: process.execPath, args: [bin("mcp-remote", "dist/proxy.js"), job.url, "--allow-http", "--transport", "http-only", ...headers(job, ": ")] });

// run runs a command of a client to its end and returns what it prints.
const run = (args, env) =>
  new Promise((resolve, reject) =>
    execFile(process.execPath, args, { maxBuffer: 64 << 20, timeout: 60_000, env: { ...process.env, ...env } }, (err, stdout, stderr) =>
      err && !stdout ? reject(new Error(`${err.message}\n${stderr}`)) : resolve(stdout)),
  );

async function inspector(job) {
  const target = job.url
    ? ["--transport", "http", "--server-url", job.url, ...headers(job, ": ")]
    : [...Object.entries(job.env ?? {}).flatMap(([k, v]) => ["-e", `${k}=${v}`]), "--", job.command, ...(job.args ?? [])];
  const cli = bin("@modelcontextprotocol/inspector", "clients/launcher/build/index.js");
  const ask = async (...args) =>
    JSON.parse(await run(job.url ? [cli, "--cli", ...target, ...args] : [cli, "--cli", ...args, ...target]));
  return {
    list: async () => ({ tools: (await ask("--method", "tools/list")).tools }),
    call: (name, args) =>
      ask("--method", "tools/call", "--tool-name", name, ...Object.entries(args).flatMap(([k, v]) => ["--tool-arg", `${k}=${typeof v === "string" ? v : JSON.stringify(v)}`])),
    close() {},
  };
}

async function mcporter(job) {
  const cli = bin("mcporter", "dist/cli.js");
  const target = job.url
    ? ["--http-url", job.url, "--allow-http", ...headers(job, "=")]
    : ["--stdio", job.command, ...(job.args ?? []).flatMap((a) => ["--stdio-arg", a]), ...Object.entries(job.env ?? {}).flatMap(([k, v]) => ["--env", `${k}=${v}`])];
  return {
    async list() {
      const got = JSON.parse(await run([cli, "list", ...target, "--name", "it", "--json", "--schema"]));
      if (got.status !== "ok") throw new Error(JSON.stringify(got));
      return { tools: got.tools.map(tool) };
    },
    call: async (name, args) => JSON.parse(await run([cli, "call", ...target, "--name", "it", "--tool", name, "--args", JSON.stringify(args), "--output", "json"])),
    close() {},
  };
}

const clients = {
  "sdk-v1": sdkV1,
  "sdk-v2": sdkV2({ mode: "auto" }),
  "sdk-v2-legacy": sdkV2({ mode: "legacy" }),
  langchain,
  "ai-sdk": aiSDK,
  "openai-agents": openaiAgents,
  "mcp-remote": mcpRemote,
  inspector,
  mcporter,
};

const command = ({ command, args = [], env }) => ({ command, args, env: { ...process.env, ...env } });
const bin = (name, file) => join(import.meta.dirname, "node_modules", name, file);

async function carryOut(job, connect) {
  const client = await connect(job);
  try {
    const lists = await client.list();
    lists.tools.sort(byName);
    const results = [];
    for (const { name, args } of job.calls) results.push(await client.call(name, args).catch((err) => ({ failed: String(err.message ?? err) })));
    return { ...lists, results };
  } finally {
    await client.close();
  }
}

const connect = clients[process.argv[2]];
const log = console.log.bind(console);
console.log = console.info = console.warn = console.error; // libraries print to it
for (const job of JSON.parse(readFileSync(0, "utf8"))) {
  const began = performance.now();
  let line;
  try {
    line = await carryOut(job, connect);
  } catch (err) {
    line = { error: String(err?.stack ?? err).slice(0, 2000) };
  }
  log(JSON.stringify({ id: job.id, ms: Math.round(performance.now() - began), ...line }));
}
process.exit(0);
