// A session of an editor with vmcp lsp, through Microsoft's client library:
// node drive.mjs VMCP FOLDER. It prints the results as JSON.
import { spawn } from "node:child_process";
import { pathToFileURL } from "node:url";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import protocol from "vscode-languageserver-protocol/node";

const [vmcp, folder] = process.argv.slice(2);
const server = spawn(vmcp, ["lsp", "--stdio"], { stdio: ["pipe", "pipe", "inherit"] });
const exited = new Promise((resolve) => server.on("exit", resolve));
const editor = protocol.createProtocolConnection(
  new protocol.StreamMessageReader(server.stdout), new protocol.StreamMessageWriter(server.stdin));

const problems = new Map(); // by URI and version
let wake = () => {};
editor.onNotification(protocol.PublishDiagnosticsNotification.type, (p) => {
  problems.set(p.uri + " " + p.version, p.diagnostics);
  wake();
});
editor.listen();

const found = async (uri, version) => {
  while (!problems.has(uri + " " + version)) await new Promise((resolve) => { wake = resolve; });
  return problems.get(uri + " " + version).map((d) => d.code);
};

const path = join(folder, "tools", "refund.star");
const uri = pathToFileURL(path).href;
const textDocument = { uri };
const saved = readFileSync(path, "utf8");
const out = {};

const init = await editor.sendRequest(protocol.InitializeRequest.type, {
  processId: process.pid, rootUri: pathToFileURL(folder).href, capabilities: {}, workspaceFolders: null });
out.server = init.serverInfo.name;
await editor.sendNotification(protocol.InitializedNotification.type, {});
await editor.sendNotification(protocol.DidOpenTextDocumentNotification.type, {
  textDocument: { uri, languageId: "starlark", version: 1, text: saved } });
out.saved = await found(uri, 1);

// Types at the end of the text character by character, as a person does, and requests completion after the last one.
let text = saved, version = 1;
const types = async (what) => {
  const lines = text.split("\n");
  const position = { line: lines.length - 1, character: lines.at(-1).length };
  text += what;
  await editor.sendNotification(protocol.DidChangeTextDocumentNotification.type, {
    textDocument: { uri, version: ++version }, contentChanges: [{ range: { start: position, end: position }, text: what }] });
  const after = text.split("\n");
  return { line: after.length - 1, character: after.at(-1).length };
};
const completes = async (what) => {
  const position = await types(what);
  const list = await editor.sendRequest(protocol.CompletionRequest.type, { textDocument, position });
  return list.items.map((i) => i.label);
};
out.tools = await completes('\ndef late(id):\n    r = call_tool("shop_');
out.arguments = await completes('get_order", {"');
await types('id": id})\n    print(r)\n');
await found(uri, version);
out.fields = await completes('    return r["');
out.half = await found(uri, version);
await types('stauts"]\n');
out.wrong = await found(uri, version);

const everything = { start: { line: 0, character: 0 }, end: { line: 1000, character: 0 } };
const actions = await editor.sendRequest(protocol.CodeActionRequest.type, { textDocument, range: everything, context: { diagnostics: [] } });
out.fix = actions.map((a) => a.edit.changes[uri][0].newText);
const line = text.split("\n").findIndex((l) => l.includes("def late"));
out.hover = (await editor.sendRequest(protocol.HoverRequest.type, { textDocument, position: { line: line + 1, character: 9 } })).contents.value.split("\n")[1];
const at = await editor.sendRequest(protocol.DefinitionRequest.type, { textDocument, position: { line: 0, character: 22 } });
out.definition = at.uri.split("/").slice(-2).join("/") + ":" + at.range.start.line;
const renamed = await editor.sendRequest(protocol.RenameRequest.type, { textDocument, position: { line: line + 1, character: 4 }, newName: "order" });
out.renamed = renamed.changes[uri].length;
out.formatted = (await editor.sendRequest(protocol.DocumentFormattingRequest.type, { textDocument, options: { tabSize: 4, insertSpaces: true } })).length;
await editor.sendRequest(protocol.ShutdownRequest.type);
await editor.sendNotification(protocol.ExitNotification.type);
out.exit = await exited;
console.log(JSON.stringify(out));
process.exit(0);
