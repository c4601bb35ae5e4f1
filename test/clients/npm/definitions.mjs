// Checks every form of the definitions in a file with the schemas of the TypeScript SDKs: a
// list of each is served to their real clients. Prints one line of JSON for each that is refused.
//   node definitions.mjs FILE
import { readFileSync } from "node:fs";
import { Client as V1 } from "@modelcontextprotocol/sdk/client/index.js";
import { Client as V2 } from "@modelcontextprotocol/client";

const MODERN = "2026-07-28";
const lists = {
  tools: ["tools/list", (c) => c.listTools()],
  prompts: ["prompts/list", (c) => c.listPrompts()],
  resources: ["resources/list", (c) => c.listResources()],
  resourceTemplates: ["resources/templates/list", (c) => c.listResourceTemplates()],
};
const capabilities = { tools: {}, prompts: {}, resources: {} };
const serverInfo = { name: "golden", version: "1" };

// Server is the other end of a client's transport: it answers one list.
class Server {
  constructor(kind, def) {
    this.kind = kind;
    this.def = def;
  }
  async start() {}
  async close() {
    this.onclose?.();
  }
  async send(message) {
    if (message.id === undefined || message.method === undefined) return;
    // The text of the list is parsed as a client's transport does.
    const text = JSON.stringify({ jsonrpc: "2.0", id: message.id, result: this.result(message) });
    queueMicrotask(() => this.onmessage?.(JSON.parse(text.replace('"DEFINITION"', () => this.def))));
  }
  result({ method, params }) {
    switch (method) {
      case "initialize":
        return { protocolVersion: params.protocolVersion, capabilities, serverInfo };
      case "server/discover":
        return { supportedVersions: [MODERN], capabilities, resultType: "complete", ttlMs: 0, cacheScope: "private" };
      case lists[this.kind][0]:
        return { [this.kind]: ["DEFINITION"], resultType: "complete", ttlMs: 0, cacheScope: "private" };
    }
    return { resultType: "complete" };
  }
}

const clients = {
  v1: () => new V1({ name: "golden", version: "1" }),
  "v2 before 2026-07-28": () => new V2({ name: "golden", version: "1" }),
  "v2 of 2026-07-28": () => new V2({ name: "golden", version: "1" }, { versionNegotiation: { mode: { pin: MODERN } } }),
};

// refusal is the reason why a client refuses a list, "" when it accepts it.
async function refusal(make, kind, def) {
  const client = make();
  try {
    await client.connect(new Server(kind, def));
    const got = await lists[kind][1](client);
    return got[kind].length === 1 ? "" : `${got[kind].length} entries`;
  } catch (err) {
    return String(err.message ?? err).replace(/\s+/g, " ").slice(0, 200);
  } finally {
    await client.close();
  }
}

// The definitions are cut out of the text of the file: they have numbers that no double has.
const lines = readFileSync(process.argv[2], "utf8").split("\n").filter((l) => l.startsWith("{"));
const report = (o) => console.log(JSON.stringify(o));
let checked = 0;
for (const line of lines) {
  const text = line.replace(/,$/, "");
  const s = JSON.parse(text);
  const cut = (key) => raw(text, key);
  const def = cut("def");
  const forms = { legacy: cut("legacy") ?? def, modern: cut("modern") ?? def };
  let refused = 0;
  for (const [name, make] of Object.entries(clients)) {
    const form = name === "v2 of 2026-07-28" ? "modern" : "legacy";
    if (await refusal(make, s.kind, def)) refused++;
    if (s.unusable) continue;
    const why = await refusal(make, s.kind, forms[form]);
    checked++;
    if (why) report({ problem: "refused", client: name, kind: s.kind, form, def: forms[form], why });
  }
  const changed = s.legacy !== undefined || s.modern !== undefined || s.unusable;
  if (changed && refused === 0) report({ problem: "needless", kind: s.kind, def });
}
report({ checked, definitions: lines.length });

// raw is the text of a member of a sample's line.
function raw(text, key) {
  const at = text.indexOf(`"${key}":`, key === "def" ? 0 : text.indexOf('"def":') + raw(text, "def").length + 6);
  if (at < 0) return undefined;
  let i = at + key.length + 3, depth = 0, quoted = false;
  const from = i;
  for (; i < text.length; i++) {
    const c = text[i];
    if (quoted) {
      if (c === "\\") i++;
      else if (c === '"') quoted = false;
    } else if (c === '"') quoted = true;
    else if (c === "{" || c === "[") depth++;
    else if (c === "}" || c === "]") depth--;
    if (depth < 0 || (depth === 0 && !quoted && c === ",")) break;
    if (depth === 0 && !quoted && "}]".includes(c)) return text.slice(from, i + 1);
  }
  return text.slice(from, i);
}
