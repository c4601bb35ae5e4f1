// Uses the page for operators in Chromium as a person does, and prints its observations as JSON:
//
//	node admin.mjs CHROMIUM URL SHOTS CONFIGURATION
//
// CONFIGURATION is the file that the endpoint watches; it is changed to test that the page is updated. SHOTS is a folder for screenshots.
import { chromium } from "playwright-core";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const [executablePath, base, shots, configuration] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const seen = { requests: [], complaints: [], policies: [], tools: 0 };

// open opens a new page, whose errors are recorded.
async function open(path, options = {}) {
  const page = await browser.newPage({ viewport: { width: 1200, height: 800 }, ...options });
  page.setDefaultTimeout(30_000);
  page.on("console", (m) => ["error", "warning"].includes(m.type()) && seen.complaints.push(path + ": " + m.text()));
  page.on("pageerror", (e) => seen.complaints.push(path + ": " + e));
  page.on("request", (r) => r.url().startsWith(base) || seen.requests.push(r.url()));
  const answer = await page.goto(base + path);
  seen.policies.push(answer.headers()["content-security-policy"]);
  return page;
}
const shoot = (page, name) => page.screenshot({ path: join(shots, name + ".png"), fullPage: true });

// A backend is added and one removed, and the page shows it without a reload.
const overview = await open("/");
await overview.locator("[data-connection=open]").waitFor();
await overview.evaluate(() => { window.loaded = true; });
const before = readFileSync(configuration, "utf8");
writeFileSync(configuration, before.replace("disabled: true", "disabled: false"));
await overview.locator('[data-backend="later"][data-state="ready"]').waitFor();
writeFileSync(configuration, before);
await overview.locator('[data-backend="later"][data-state="disabled"]').waitFor();
writeFileSync(configuration, before + "nonsense: 1\n");
await overview.locator('[data-live="config-error"] [data-problem]').waitFor();
writeFileSync(configuration, before);
await overview.locator('[data-live="config-error"] [data-problem]').waitFor({ state: "detached" });
seen.live = await overview.evaluate(() => window.loaded === true);

// A tool is called by its form: with a number that no double has, and nested values as JSON.
const tool = await open("/tools/files_echo");
await tool.locator('form[data-call] [name="path"]').fill("a <b> \"c\"");
await tool.locator('form[data-call] [name="size"]').fill("9007199254740993");
await tool.locator('form[data-call] [name="deep"]').fill('{"a": [1, 2.50]}');
await tool.locator('form[data-call] [name="dry"]').check();
await tool.locator("form[data-call] [data-send]").click();
await tool.locator('[data-result] [data-look="done"]').first().waitFor();
seen.result = await tool.locator("[data-result] pre").first().innerText();
await tool.locator('form[data-call] [name="deep"]').fill("{");
await tool.locator("form[data-call] [data-send]").click();
seen.wrong = await tool.locator('form[data-call] [name="deep"]').evaluate((e) => e.validationMessage);
await tool.locator('form[data-call] [name="deep"]').fill("");
await shoot(tool, "tool");

// Hostile text is shown as text, and a result of 10 MB is cut.
const huge = await open("/tools/files_huge");
await huge.locator("[data-send]").click();
await huge.locator('[data-result] [data-look="done"]').first().waitFor();
seen.huge = (await huge.locator("[data-result]").innerText()).length;
const list = await open("/tools");
seen.tools = await list.locator("[data-tool]").count();
await list.locator("[data-filter]").fill("echo");
seen.filtered = await list.locator("[data-tool]:visible").count();
seen.images = await list.locator("main img, main script").count();
await list.locator("[data-filter]").fill("");
await list.locator("[data-filter]").blur();
await list.screenshot({ path: join(shots, "tools.png") });

// A scripted tool asks; the answer is given in the page, with the keyboard alone, and the run has its steps.
const script = await open("/tools/release");
await script.locator('[name="service"]').focus();
await script.keyboard.type("web");
await script.keyboard.press("Enter");
await script.locator("fieldset[data-question] [name=ship]").waitFor();
await shoot(script, "question");
await script.locator("fieldset[data-question] [name=ship]").focus();
await script.keyboard.press("Space");
await script.keyboard.press("Enter");
await script.locator('[data-result] [data-look="done"]').first().waitFor();
seen.answered = await script.locator("[data-result] pre").first().innerText();
await script.locator("[data-result] a", { hasText: "the run" }).click();
await script.locator("[data-step]").first().waitFor();
seen.steps = await script.locator("[data-step]").count();
seen.bars = await script.locator("[data-step] svg rect.step").count();
seen.runState = await script.locator('[data-live="run"]').getAttribute("data-state");

// Another run waits, and its question is answered on the page of runs, while another page is updated.
await fetch(base + "/api/v1/tools/release/call", { method: "POST", headers: { "Content-Type": "application/json" }, body: '{"arguments":{"service":"shop"}}' });
await overview.locator('[data-run][data-state="waiting"]').first().waitFor();
for (const [name, options, path] of [
  ["light", { colorScheme: "light", viewport: { width: 1120, height: 800 } }, "/"],
  ["dark", { colorScheme: "dark", viewport: { width: 1120, height: 800 } }, null],
  ["narrow", { colorScheme: "light", viewport: { width: 390, height: 800 } }, "/tools/files_echo"],
]) {
  const run = await overview.locator('[data-run][data-state="waiting"]').first().getAttribute("data-run");
  const page = await open(path ?? "/runs/" + run, options);
  await page.locator("[data-connection=open]").waitFor();
  seen[name] = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  seen[name + "Wide"] = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  await shoot(page, name);
  await page.close();
}
const runs = await open("/runs");
await runs.locator('[data-run][data-state="waiting"] a').first().click();
await runs.locator("form[data-answer] [name=ship]").check();
await runs.locator("form[data-answer] button[value=accept]").click();
await runs.locator('[data-live="run"][data-state="done"]').waitFor();
await overview.locator('[data-run][data-state="waiting"]').first().waitFor({ state: "detached" });
await shoot(runs, "run");
const problems = await open("/problems");
seen.problems = await problems.locator("[data-problem]").count();

// Without JavaScript everything can be read.
const bare = await open("/tools/files_echo", { javaScriptEnabled: false });
seen.bare = await bare.locator("h1").innerText();
seen.bareSend = await bare.locator("[data-send]").isDisabled();

// All text is legible: WCAG AA for the computed colours.
seen.contrast = [];
for (const colorScheme of ["light", "dark"]) {
  for (const path of ["/", "/tools/files_echo", "/runs", "/problems"]) {
    const page = await open(path, { colorScheme });
    seen.contrast.push(...(await page.evaluate(faint)).map((c) => colorScheme + " " + path + " " + c));
    await page.close();
  }
}
function faint() {
  const rgb = (c) => (c.match(/[\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => { const f = (v) => ((v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b); };
  const found = new Set();
  for (const e of document.querySelectorAll("body *")) {
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) || !e.getClientRects().length || e.matches(":disabled")) continue;
    let at = e, under = [0, 0, 0, 0];
    while (at && (under.length === 4 && under[3] === 0)) { under = rgb(getComputedStyle(at).backgroundColor); at = at.parentElement; }
    const a = light(rgb(getComputedStyle(e).color)), b = light(under), ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) found.add(e.tagName + "." + e.className + " " + ratio.toFixed(2));
  }
  return [...found];
}
console.log(JSON.stringify(seen));
await browser.close();
