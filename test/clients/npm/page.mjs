// Opens pages of vmcp trace in Chromium as a person does, and prints its observations as JSON:
//
//	node page.mjs CHROMIUM FILE.html...
import { chromium } from "playwright-core";
import { pathToFileURL } from "node:url";

const [executablePath, ...files] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const seen = [];
for (const file of files) {
  for (const colorScheme of ["light", "dark"]) {
    const page = await browser.newPage({ colorScheme, viewport: { width: 1280, height: 860 } });
    const requests = [], complaints = [];
    page.on("request", (r) => requests.push(r.url()));
    page.on("console", (m) => complaints.push(m.text()));
    page.on("pageerror", (e) => complaints.push(String(e)));
    const began = Date.now();
    await page.goto(pathToFileURL(file).href);
    const loaded = Date.now() - began;
    const bars = page.locator("[data-key]");
    const count = await bars.count();
    const places = await page.evaluate(() => {
      const plot = document.getElementById("plot").getBoundingClientRect();
      const total = JSON.parse(document.getElementById("data").textContent).total;
      return [...document.querySelectorAll("[data-key]")].map((e) => {
        const at = e.getBBox();
        return { key: e.dataset.key, start: +e.dataset.startMs, duration: +e.dataset.durationMs, x: (at.x / plot.width) * total, width: (at.width / plot.width) * total };
      });
    });
    const panel = page.locator("section");
    await (count > 300 ? bars.first().dispatchEvent("click") : bars.first().click()); // 2000 bars are thinner than a pixel
    const clicked = await panel.innerText();
    await bars.first().focus();
    await page.keyboard.press("End");
    await page.keyboard.press("Enter");
    const entered = await panel.innerText();
    await page.locator("#zoom").fill("3");
    const zoomed = await page.evaluate(() => document.getElementById("plot").getBoundingClientRect().width);
    seen.push({ file, colorScheme, loaded, requests: requests.length, complaints, title: await page.title(), images: await page.locator("img").count(),
      count, places, clicked, entered, zoomed, background: await page.evaluate(() => getComputedStyle(document.body).backgroundColor) });
    await page.close();
  }
}
console.log(JSON.stringify(seen));
await browser.close();
